"""The molecules and labels of an experiment, read from its table."""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from graphormer_plugin.criterions.class_weights import given_weights
from graphormer_plugin.data.cells import is_missing, is_number, shown
from graphormer_plugin.data.checks import listed
from graphormer_plugin.data.classes import check_numbers
from graphormer_plugin.data.datasets.csv_file import column_of_split, read_labels
from graphormer_plugin.data.datasets.smiles import smiles_parser
from graphormer_plugin.data.errors import DatasetError, counted
from graphormer_plugin.data.featurise import LimitedParser, featurise
from graphormer_plugin.data.files import home_path
from graphormer_plugin.data.options import DatasetOptions, table_options
from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.data.splits import splits_of_graphs
from graphormer_plugin.data.table import NAMES
from graphormer_plugin.data.table import Table as InputTable
from graphormer_plugin.data.table_formats import open_labelled
from graphormer_plugin.experiment.settings import Settings
from graphormer_plugin.inference.columns import class_word

Split = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Table:
    """Molecules that can be trained on, and their labels.

    Attributes:
        smiles: Of n molecules.
        smiles_column: Its name in the input.
        labels: float64 [n, T], NaN where missing; classes by number.
        targets: The T targets; not standardised.
        weights: Of the molecules in a loss [n], or None for equal weights.
        extra: Numbers [n, columns] of ``--extra-columns``, NaN where missing.
        extra_names: Names of the input columns that no option uses as the SMILES, the
            targets or the split.
        extras: Their cells, a row per molecule.
        scaffolds: Bemis-Murcko scaffold of each molecule.
        keys: `molecule_key` of each molecule.
        split: ``scaffold``, ``random`` or ``column:NAME``.
        given_split: The split of a column of the input, or None.
        failures: (row, SMILES, reason) of the rows that were left out.
        warned: Warnings of `read_labels`.
    """

    smiles: list[str]
    smiles_column: str
    labels: np.ndarray
    targets: TargetSchema
    weights: np.ndarray | None
    extra: np.ndarray
    extra_names: list[str]
    extras: list[list[str]]
    scaffolds: list[str]
    keys: list[int]
    split: str
    given_split: Split | None
    failures: list[tuple[int, str, str]]
    warned: list[str]

    def __len__(self) -> int:
        return len(self.smiles)

    def label_cells(self, row: int) -> list[str]:
        """The labels of a molecule as text, classes by their names."""
        return [
            "" if x != x else class_word(self.targets, target, x)
            for target, x in enumerate(self.labels[row].tolist())
        ]


def read_table(settings: Settings, progress: bool = True) -> Table:
    """Read the table once for its labels, after a pass that finds targets and their kind
    where the settings do not name them.

    Raises:
        DatasetError: It cannot be read as asked; one line.
    """
    table = open_labelled(home_path(settings.table))
    options = find_options(table, settings)
    read = read_labels(table, options, keep_others=True)
    source = read.source
    labels = np.asarray(source.targets, np.float64)
    kind = options.target_kind
    if not settings.target_kind and kind == "regression":
        kind = kind_of_numbers(labels, source.target_names, options.name)
    rows: list[int] = []
    scaffolds: list[str] = []
    keys: list[int] = []
    failures: list[tuple[int, str, str]] = []
    parser = smiles_parser(True, settings.largest_fragment)
    for piece in featurise(
        source.smiles,
        LimitedParser(parser, settings.max_atoms),
        progress=progress and len(labels) > 5000,
        description=Path(settings.table).name,
    ):
        failures += piece.failures
        if piece.chunk is not None:
            rows += piece.chunk.row.tolist()
            scaffolds += piece.extras["scaffold"]
            keys += piece.extras["identity"]
    if failures and not (settings.skip_invalid and rows):
        row, smiles, reason = failures[0]
        count = f"none of {len(failures):,} molecules can"
        advice = ""
        if rows:
            count = f"{counted(len(failures), 'molecule')} cannot"
            advice = ", or leave them out with --skip-invalid"
        raise DatasetError(
            f"{settings.table}: {count} be parsed (first: row {row}, {shown(smiles)}: "
            f"{reason}); correct the source{advice}"
        )
    kept = np.array(rows)
    given_split = None
    if options.split.startswith("column:") and source.splits is not None:
        graph_of_row = np.full(len(labels), -1, np.int64)
        graph_of_row[kept] = np.arange(len(kept))
        given_split = splits_of_graphs(source.splits, graph_of_row, options.name)
    labels = labels[kept]
    targets = TargetSchema(list(source.target_names), settings.target_unit, kind)
    if any(source.class_names):
        targets = targets.with_classes(source.class_names)
    elif kind == "multiclass":
        check_numbers(labels)
        count_of_classes = int(np.nanmax(labels, initial=0)) + 1
        targets = dataclasses.replace(targets, num_classes=count_of_classes)
    if settings.class_weights:
        if kind == "regression":
            raise DatasetError(
                f"--class-weights {settings.class_weights}: the targets are numbers"
            )
        given_weights(settings.class_weights, targets)
    if len(equal_labels(labels, targets)) == len(targets.names):
        raise DatasetError(
            f"{settings.table}: all labels of {listed(targets.names)} are equal, there "
            "is nothing to learn"
        )
    return Table(
        smiles=[source.smiles[row] for row in rows],
        smiles_column=options.smiles_column,
        labels=labels,
        targets=targets,
        weights=None if source.weights is None else np.asarray(source.weights)[kept],
        extra=np.asarray(source.graph_values)[kept],
        extra_names=read.others,
        extras=[read.cells[row] for row in rows],
        scaffolds=scaffolds,
        keys=keys,
        split=options.split,
        given_split=given_split,
        failures=failures,
        warned=read.warnings,
    )


def find_options(table: InputTable, settings: Settings) -> DatasetOptions:
    """How to read a table: the settings, and for each of these that is not given:

    - split: a column called split, in any case, unless another option names it or says
      how to split; else ``scaffold``
    - targets: the only column that is left, or the only column of numbers that neither
      names molecules nor numbers the rows
    - kind: binary for two words; ``regression`` stands for numbers of either kind

    Raises:
        DatasetError: There is no single candidate for the target, or a target has more
            than two words, each twice on average.
    """
    options = DatasetOptions(
        name=settings.table,
        **table_options(
            settings,
            smiles_column=table.find_smiles(settings.smiles_column),
            target_kind=settings.target_kind or "regression",
        ),
    )
    column = None
    if not settings.folds and not settings.ratios:
        column = column_of_split(table, options)
    split = f"column:{column}" if column else settings.split or "scaffold"
    options = dataclasses.replace(options, split=split)
    if options.target_columns and settings.target_kind:
        return options
    special = [options.smiles_column, column]
    named = (options.weight_column, *options.extra_columns)
    special += [table.require(name) for name in named if name]
    missing, names = options.missing_labels, table.free(special)
    if options.target_columns:
        names = table.select(options.target_columns, special, missing)
    words: dict[str, Counter[str]] = {name: Counter() for name in names}
    for _, _, cells in table.rows(names):
        for name, cell in zip(names, cells, strict=True):
            if not is_missing(cell, missing):
                words[name]["" if is_number(cell) else cell.strip()] += 1
    if not options.target_columns:
        numeric = [name for name in names if words[name].keys() == {""}]
        numeric = [name for name in numeric if name.lower() not in NAMES]
        numbering = table.row_numbers(numeric)
        numeric = [name for name in numeric if name not in numbering]
        names = numeric if len(numeric) == 1 else table.remaining(special)
        options = dataclasses.replace(options, target_columns=names)
    if settings.target_kind:
        return options
    counts = [words[name] for name in names]
    has_numbers, classes = any("" in count for count in counts), options.class_names
    for name, count in zip(names, counts, strict=True):
        repeated = 2 < len(count) <= count.total() / 2 and "" not in count
        if repeated and not classes:
            raise DatasetError(
                f"{table.path}: column {name!r} has {len(count)} words "
                f"({listed(sorted(count))}); for classes give --target-kind "
                "multiclass, and name missing labels with --missing-labels"
            )
    kind = "regression"
    if any(count.keys() - {""} for count in counts) and (classes or not has_numbers):
        if (len(classes) or max(map(len, counts))) == 2:
            kind = "binary"
        elif classes:
            kind = "multiclass"
    return dataclasses.replace(options, target_kind=kind)


def equal_labels(labels: np.ndarray, targets: TargetSchema) -> list[str]:
    """Names of the targets that do not have two different labels [n, T]."""
    return [
        name
        for name, column in zip(targets.names, labels.T, strict=True)
        if len(np.unique(column[~np.isnan(column)])) < 2
    ]


def kind_of_numbers(labels: np.ndarray, names: Sequence[str], path: str) -> str:
    """``binary`` for labels [n, T] of 0 and 1, else ``regression``.

    Raises:
        DatasetError: Some columns have other numbers than 0 and 1, and some do not.
    """
    is_class = (np.isnan(labels) | np.isin(labels, (0, 1))).all(0)
    if is_class.all() or not is_class.any():
        return "binary" if is_class.all() else "regression"
    classes, numbers = (np.array(names)[at] for at in (is_class, ~is_class))
    raise DatasetError(
        f"{path}: only 0 and 1 in {listed(classes)}, other numbers in {listed(numbers)}: "
        "train them apart, or give --target-kind regression"
    )
