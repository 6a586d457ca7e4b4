"""The molecules and labels of an experiment, read from its table, and by parts of a split."""

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from graphormer_plugin.criterions.class_weights import given_weights
from graphormer_plugin.data.errors import DatasetError, counted, listed
from graphormer_plugin.data.graphs.conformers import doubt_of_unit, likely_units
from graphormer_plugin.data.graphs.smiles import lines_about_bare
from graphormer_plugin.data.graphs.sources import Source
from graphormer_plugin.data.scales import Scale
from graphormer_plugin.data.sources.csv_file import Labels, read_labels, table_for
from graphormer_plugin.data.sources.registry import DatasetSource
from graphormer_plugin.data.splits import FOLD, SPLITS, Split, splits_of_graphs
from graphormer_plugin.data.store.featurise import RowReader, featurise
from graphormer_plugin.data.tables.cells import shown
from graphormer_plugin.data.tables.class_names import check_numbers
from graphormer_plugin.data.tables.labels import exact_labels, label_text
from graphormer_plugin.data.tables.options import (
    DatasetOptions,
    TableOptions,
    table_options,
)
from graphormer_plugin.data.tables.roles import with_split
from graphormer_plugin.data.tables.table import Table
from graphormer_plugin.data.targets import TargetSchema, target_statistics
from graphormer_plugin.inference.model_folder import SMILES_COLUMN
from graphormer_plugin.workbench.experiment.settings import Settings

FIT_SPLITS = SPLITS[:2]  # heads and trees are fitted to both
FEW_TESTED = 10  # with fewer molecules, a metric of test says little (our choice)


@dataclass(frozen=True, kw_only=True)
class LabelledMolecules:
    """Molecules that can be trained on, and their labels.

    Attributes:
        sources: what a model reads of each.
        labels: float64 [n, T], NaN where missing; classes by number.
        bounds: float64 [n, T], see `label_ends`.
        weights: weights of the molecules in a loss [n], or None for equal weights.
        extra: numbers [n, columns] of ``--extra-columns``, NaN where missing.
        others: cells [n] of the input columns that no option uses as the SMILES, the targets
            or the split, by name.
        keys: `molecule_key` of each molecule.
        constitutions: the same without stereo marks.
        parents: their `parent_key`.
        given_split: the split of a column or of several files, perhaps without valid; or
            None.
        folds: molecules of each fold of a column of folds; empty without.
        times: times of a split by time [n], larger is later; or None.
        scales: scale of each target that models learn, which its name begins with; empty:
            the labels are in their unit.
        original: the table in its unit, where ``scales`` are given.
        scaled: lines about the scales.
        failures: (row, SMILES, reason) of the rows that were left out; of further files,
            the row is followed by the name of the file.
    """

    sources: Sequence[Source]
    smiles_column: str = SMILES_COLUMN
    labels: np.ndarray
    targets: TargetSchema
    bounds: np.ndarray
    extra: np.ndarray
    weights: np.ndarray | None = None
    others: Mapping[str, Sequence[str]] = field(default_factory=dict)
    scaffolds: Sequence[str] = ()
    keys: Sequence[int] = ()
    constitutions: Sequence[int] = ()
    parents: Sequence[int] = ()
    groups: Sequence[str] = ()
    split: str = "random"
    given_split: Split | None = None
    folds: Sequence[np.ndarray] = ()
    times: np.ndarray | None = None
    scales: Sequence[Scale] = ()
    original: "LabelledMolecules | None" = None
    scaled: Sequence[str] = ()
    failures: Sequence[tuple[int | str, str, str]] = ()
    warned: Sequence[str] = ()
    digests: Sequence[str] = ()

    @property
    def molecules(self) -> np.ndarray:
        """The molecule of each row as a number [rows]: those of one parent are one."""
        return pd.factorize(np.array(self.parents or self.smiles))[0]

    def resampled(self, generator: np.random.Generator) -> np.ndarray:
        """How often each row is in a Poisson bootstrap sample [rows] of the molecules, each
        with all its rows."""
        return generator.poisson(1, len(self))[self.molecules]

    def __len__(self) -> int:
        return len(self.sources)

    @cached_property
    def smiles(self) -> list[str]:
        """SMILES of each molecule."""
        return [*map(str, self.sources)]

    def without(self, names: Collection[str], reason: str) -> "LabelledMolecules":
        """Demote targets to extra columns and add a warning with the reason.

        The table stays as it is if ``names`` has none or all of the targets.
        """
        stays = [name not in names for name in self.targets.names]
        if all(stays) or not any(stays):
            return self
        leaves = [not stay for stay in stays]
        targets = self.targets.select(np.flatnonzero(stays).tolist())
        cells = zip(*map(self.label_cells, range(len(self))))
        left = dict(compress(zip(self.targets.names, cells), leaves))
        return dataclasses.replace(
            self,
            labels=self.labels[:, stays],
            bounds=self.bounds[:, stays],
            targets=targets,
            others={**self.others, **left},
            warned=[*self.warned, f"{listed(left)} is left out: {reason}"],
        )

    def label_cells(self, row: int) -> list[str]:
        """The labels of a molecule as text, classes by their names; see `label_text`."""
        words = [target.word for target in self.targets.targets]
        numbers = self.labels[row].tolist(), self.bounds[row].tolist()
        return [*map(label_text, words, *numbers)]

    @property
    def exact_labels(self) -> np.ndarray:
        """`labels`, NaN where they are bounds, which no metric counts."""
        return exact_labels(self.labels, self.bounds)

    def label_columns(self) -> Iterator[tuple[str, np.ndarray]]:
        """Name and exact labels [n] of each target, or of each class of a multiclass target,
        where 1 is a molecule of the class."""
        names = [name for one in self.targets.targets for name in one.output_names]
        labels = self.targets.output_labels(self.exact_labels)
        return zip(names, labels.T, strict=True)

    def without_copies(self, rows: np.ndarray) -> np.ndarray:
        """The rows, without those that repeat the molecule, the labels and the other numbers
        of an earlier one: a copy is not another measurement."""
        molecules = self.keys or self.smiles
        numbers = (self.labels, self.bounds, self.weights, self.extra)
        arrays = [values for values in numbers if values is not None]
        first: dict[tuple[Any, ...], int] = {}
        for row in rows.tolist():
            key = molecules[row], *(values[row].tobytes() for values in arrays)
            first.setdefault(key, row)
        return np.array([*first.values()], np.int64)

    @property
    def in_unit(self) -> "LabelledMolecules":
        """The table before its labels were put on ``scales``."""
        return self.original or self


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


def read_table(settings: Settings, progress: bool = True) -> LabelledMolecules:
    """Read the table once: `read_labels` finds targets and their kind where the settings
    do not name them."""
    tables = [table_for(path, settings) for path in settings.tables.values()]
    table, *more = tables
    options = find_options(table, settings)
    read = read_labels(
        table, options, explore=True, kinds=settings.target_kind, more=more
    )
    source = read.source
    split = "cluster" if settings.split == "cluster" else options.split
    rows, parsed, failures = parse_molecules(
        read, settings, split == "scaffold", progress
    )
    doubt = doubt_of_unit(likely_units(parsed["nearest"]))
    read.warnings.extend([doubt] if doubt and not settings.length_unit else [])
    labels = np.asarray(source.targets, np.float64)[rows]
    given_split = None
    parts = source.splits if options.split.startswith("column:") else None
    if more:
        parts = dict(zip(settings.tables, (numbers for _, numbers in read.parts)))
    if parts is not None:
        graph_of_row = np.full(len(source.smiles), -1, np.int64)
        graph_of_row[rows] = np.arange(len(rows))
        given_split = splits_of_graphs(parts, graph_of_row, options.name)
    given_split, folds = given_folds(given_split, options)
    bounds = np.zeros(labels.shape) if source.bounds is None else source.bounds[rows]
    if settings.censored:
        count = counted(np.count_nonzero(bounds), "label", "are")
        read.warnings.append(f"{count} bounds, which no metric counts")
    read.warnings.extend(lines_about_bare(sum(parsed["bare"])))
    return LabelledMolecules(
        sources=[source.smiles[row] for row in rows],
        smiles_column=options.smiles_column,
        labels=labels,
        bounds=bounds,
        targets=find_targets(source, labels, settings),
        weights=None if source.weights is None else np.asarray(source.weights)[rows],
        extra=np.asarray(source.graph_values)[rows],
        others={n: [cells[row] for row in rows] for n, cells in read.others.items()},
        scaffolds=parsed.get("scaffold", ()),
        keys=parsed["identity"],
        constitutions=parsed["constitution"],
        parents=parsed["parent"],
        groups=read_groups(read, settings.groups, rows),
        split=split,
        given_split=given_split,
        folds=folds,
        times=None if read.times is None else read.times[rows],
        failures=failures,
        warned=read.warnings,
        digests=[table.digest for table in tables],
    )


def given_folds(
    split: Split | None, options: DatasetOptions
) -> tuple[Split | None, list[np.ndarray]]:
    """The split, or the folds of a column of numbers."""
    names = [name for name in split or () if name.startswith(FOLD)]
    if not names:
        return split, []
    if {name for name, rows in split.items() if len(rows)} - {*names} or len(names) < 3:
        raise DatasetError(
            f"{options.name}: --split {options.split} has "
            f"{counted(len(names), 'fold')}"
            f"{' and words' * any(len(split.get(n, ())) for n in SPLITS)}, expected three or "
            "more numbers, or train|valid|test"
        )
    members = [split[n] for n in sorted(names, key=lambda n: int(n[len(FOLD) :]))]
    sizes = [*map(len, members)]
    if len(sizes) == len(SPLITS) and max(sizes) > 2 * min(sizes):
        raise DatasetError(
            f"{options.name}: --split {options.split} has folds of {listed(sizes)} rows; if they "
            "are parts, write train, valid and test"
        )
    return None, members


def read_groups(read: Labels, column: str, rows: Sequence[int]) -> list[str]:
    """Group of each molecule; an empty cell is a group of its own."""
    if not column:
        return []
    if column not in read.others:
        raise DatasetError(
            f"--groups {column}: expected one of the columns that no other option reads, "
            f"{listed(read.others, 12)}"
        )
    return [read.others[column][row].strip() or f"row {row}" for row in rows]


def parse_molecules(
    read: Labels, settings: Settings, scaffold: bool, progress: bool
) -> tuple[list[int], dict[str, list], list[tuple[int | str, str, str]]]:
    """Rows whose molecules can be parsed, the extras of `OGBFeaturiser.read_row` by their
    names, and the failures; see `LabelledMolecules`."""
    rows: list[int] = []
    names = ["identity", "constitution", "parent", "bare", "nearest"]
    parsed: dict[str, list] = {name: [] for name in names + ["scaffold"] * scaffold}
    failures: list[tuple[int | str, str, str]] = []
    featuriser = settings.featuriser.without_canonical_order()
    parser = partial(featuriser.read_row, scaffold=scaffold)
    for piece in featurise(
        read.source.smiles,
        RowReader(parser, settings.max_atoms),
        progress=progress and len(read.source.smiles) > 5000,
        description=Path(settings.table).name,
    ):
        for row, smiles, reason in piece.failures:
            of, numbers = next(part for part in read.parts if row <= part[1][-1])
            number = int(row - numbers[0])
            first = of is read.parts[0][0]
            name = number if first else f"{number} of {of.path.name}"
            failures.append((name, smiles, reason))
        if piece.chunk is not None:
            rows += piece.chunk.row.tolist()
            for name, values in parsed.items():
                values += piece.extras.get(name, ())
    if failures and not (settings.skip_invalid and rows):
        row, text, reason = failures[0]
        count = f"none of {counted(len(failures), 'molecule')} can"
        advice = ""
        if rows:
            count = f"{counted(len(failures), 'molecule')} cannot"
            advice = ", or leave them out with --skip-invalid"
        raise DatasetError(
            f"{settings.table}: {count} be parsed (first: row {row}, {shown(text)}: "
            f"{reason}); correct the source{advice}"
        )
    return rows, parsed, failures


def find_targets(
    source: DatasetSource, labels: np.ndarray, settings: Settings
) -> TargetSchema:
    """The targets of a source, by the labels [n, T] of the molecules."""
    targets = TargetSchema.of(list(source.target_names), kind=source.kind)
    units = np.where(targets.is_number, settings.target_unit, "").tolist()
    words = source.class_names or [()] * len(units)
    targets = targets.changed(unit=units).with_classes(words)
    for target, column in zip(targets.targets, labels.T, strict=True):
        if not target.kind.has_one_output and not target.classes:
            check_numbers(column)
    targets = targets.with_num_classes(labels)
    if settings.class_weights:
        if targets.is_number.any():
            raise DatasetError(
                f"--class-weights {settings.class_weights}: the targets are numbers"
            )
        given_weights(settings.class_weights, targets)
    return targets


def find_options(table: Table, settings: Settings) -> DatasetOptions:
    """How to read a table. Without ``--split``, the split is the column called split, in any
    case, that no other option names, else ``scaffold``."""
    options = DatasetOptions(
        name=settings.table,
        **table_options(
            settings,
            smiles_column=table.find_smiles(settings.smiles_column),
            target_kind=TableOptions.target_kind,  # those of the settings hold
            # The labels are read in the same way.
            split="scaffold" if settings.split == "cluster" else settings.split,
        ),
    )
    if not settings.folds and not settings.ratios and not settings.test_file:
        options = with_split(table, options)
    return dataclasses.replace(options, split=options.split or "scaffold")
