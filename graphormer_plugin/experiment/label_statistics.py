"""Labels of train, valid and test: their number, mean and spread, and whether they differ."""

from collections.abc import Iterator

import numpy as np
from scipy.stats import ks_2samp

from graphormer_plugin.data.errors import listed
from graphormer_plugin.data.splits import SPLITS
from graphormer_plugin.experiment.labelled_molecules import (
    FIT_SPLITS,
    LabelledMolecules,
    Split,
)
from graphormer_plugin.inference.prediction_columns import class_labels

# Labels of test lie elsewhere if their distribution function is farther than this from that
# of train and valid, and chance explains it with less than this probability (our choice).
SHIFTED, CHANCE = 0.3, 1e-3


def label_table(table: LabelledMolecules, split: Split) -> list[list[str]]:
    """A header, and for each target the labels of train, valid and test: their number and
    mean ± standard deviation, or the share of a class in percent. A multiclass target has a
    line for each class."""
    lines = [["labels", *SPLITS]]
    for name, column in _columns(table):
        parts = [column[split[part]] for part in SPLITS]
        known = [part[~np.isnan(part)] for part in parts]
        lines.append([name, *(_summary(part, table.targets.kind) for part in known)])
    return lines


def _columns(table: LabelledMolecules) -> Iterator[tuple[str, np.ndarray]]:
    """Name and exact labels [n] of each target, or of each class of a multiclass target, where
    1 is a molecule of the class."""
    names, labels = table.targets.names, table.exact_labels
    if table.targets.kind == "multiclass":
        names = [f"{names[0]} {label}" for label in class_labels(table.targets)]
        labels = np.where(np.isnan(labels), np.nan, labels == np.arange(len(names)))
    return zip(names, labels.T, strict=True)


def _summary(labels: np.ndarray, kind: str) -> str:
    if not len(labels):
        return "0"
    if kind != "regression":
        return f"{len(labels):,}: {100 * labels.mean():.3g} %"
    return f"{len(labels):,}: {labels.mean():.3g} ± {labels.std():.3g}"


def label_shift(table: LabelledMolecules, split: Split) -> list[str]:
    """A warning about targets whose labels in test lie elsewhere than in train and valid;
    Kolmogorov and Smirnov's test of two samples tells."""
    fitted = np.concatenate([split[part] for part in FIT_SPLITS])
    names = []
    for name, column in _columns(table):
        pair = [
            column[rows][~np.isnan(column[rows])] for rows in (fitted, split["test"])
        ]
        if all(map(len, pair)):
            shift = ks_2samp(*pair)
            if shift.statistic > SHIFTED and shift.pvalue < CHANCE:
                names.append(name)
    return [
        f"labels of {listed(names)} lie elsewhere in test than in train and valid: metrics "
        "of test are of molecules unlike those that were learned"
    ] * bool(names)
