"""The labels of an experiment by the parts of a split."""

from functools import cached_property

import numpy as np

from graphormer_plugin.data.splits import Split
from graphormer_plugin.data.targets import target_statistics
from graphormer_plugin.workbench.experiment.labelled_molecules import (
    FIT_SPLITS,
    LabelledMolecules,
)


class SplitLabels:
    """What models learn of a split, and what metrics count.

    Args:
        rows: molecules of each part.
    """

    def __init__(self, table: LabelledMolecules, rows: Split) -> None:
        self.table = table
        self.rows = rows
        self._scored: dict[str, np.ndarray] = {}

    @property
    def in_unit(self) -> "SplitLabels":
        """The labels in their unit, as metrics and people read them."""
        return SplitLabels(self.table.in_unit, self.rows)

    @property
    def fitted(self) -> np.ndarray:
        """Molecules that models without early stopping are fitted to."""
        return np.concatenate([self.rows[part] for part in FIT_SPLITS])

    @cached_property
    def trained(self) -> np.ndarray:
        """Exact labels of train [n, T], NaN where missing or of a molecule of weight 0."""
        return self._counted(self.table.exact_labels)

    @property
    def learned(self) -> np.ndarray:
        """`trained` with the bounds."""
        return self._counted(self.table.labels)

    @cached_property
    def unlearned(self) -> np.ndarray:
        """Whether a target has no label in train that counts, bool [T]."""
        return np.isnan(self.trained).all(0)

    @cached_property
    def deviation(self) -> np.ndarray:
        """Standard deviation of the labels of each target in train [T]."""
        _, std = target_statistics(self.trained, slice(None))
        return np.array(std)

    def scored(self, part: str) -> np.ndarray:
        """Labels of a part [n, T] that metrics count, NaN where missing. A target without
        labels in train has none, because no model can learn it."""
        if part not in self._scored:
            rows = self.rows.get(part, np.array([], np.int64))
            labels = self.table.exact_labels[rows]
            self._scored[part] = np.where(self.unlearned, np.nan, labels)
        return self._scored[part]

    def _counted(self, labels: np.ndarray) -> np.ndarray:
        rows = self.rows["train"]
        if self.table.weights is None:
            return labels[rows]
        return np.where(self.table.weights[rows, None] > 0, labels[rows], np.nan)
