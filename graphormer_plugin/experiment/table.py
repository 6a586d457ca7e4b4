"""The molecules of an experiment, as read from its table."""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from graphormer_plugin.criterions.class_weights import given_weights
from graphormer_plugin.data.cells import is_missing, is_number, shown
from graphormer_plugin.data.checks import listed
from graphormer_plugin.data.classes import check_case, check_numbers
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
        weights: Of the molecules in a loss [n], or None for equal ones.
        extra_columns: Names of numbers that models read beside the molecule.
        extra: These numbers [n, columns], NaN where missing.
        featuriser: Key of `FEATURISERS`, which says whether salts are left out.
        extra_names: Names of the other columns of the input.
        extras: Their cells, a row per molecule.
        scaffolds: Bemis-Murcko scaffold of each molecule.
        keys: `molecule_key` of each molecule.
        split: How it is split: ``scaffold``, ``random`` or ``column:NAME``.
        given_split: Split that a column of the input has, or None.
        failures: (row, SMILES, reason) of the rows that were left out.
        warned: Warnings of `read_labels`.
    """

    smiles: list[str]
    smiles_column: str
    labels: np.ndarray
    targets: TargetSchema
    weights: np.ndarray | None
    extra_columns: list[str]
    extra: np.ndarray
    featuriser: str
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
    """Read the input.

    Targets that are not named are the only other column, or the only one of numbers.
    Targets of 0 and 1, or of two words, are classes unless the settings say otherwise. A
    column called split, in any case, has the split unless they say how to split, or that
    it is something else.

    Raises:
        DatasetError: It cannot be read as asked; one line.
    """
    source_table = open_labelled(home_path(settings.table))
    options = DatasetOptions(
        name=settings.table,
        **table_options(
            settings,
            smiles_column=source_table.find_smiles(settings.smiles_column),
            target_kind=settings.target_kind or "regression",
        ),
    )
    given_column = None
    if not settings.folds and not settings.ratios:
        given_column = column_of_split(source_table, options)
    split = f"column:{given_column}" if given_column else settings.split or "scaffold"
    options = dataclasses.replace(options, split=split)
    if not options.target_columns:
        options = find_target(source_table, options)
    if not settings.target_kind:
        kind = kind_of_words(source_table, options)
        options = dataclasses.replace(options, target_kind=kind)
    read = read_labels(source_table, options, keep_others=True)
    source = read.source
    labels = np.asarray(source.targets, np.float64)
    kind = options.target_kind
    if not settings.target_kind and kind == "regression":
        kind = found_kind(labels, source.target_names, options.name)
    graph_of_row = np.full(len(labels), -1, np.int64)
    scaffolds: list[str] = []
    keys: list[int] = []
    failures: list[tuple[int, str, str]] = []
    for piece in featurise(
        source.smiles,
        LimitedParser(
            smiles_parser(True, settings.largest_fragment), settings.max_atoms
        ),
        progress=progress and len(labels) > 5000,
        description=Path(settings.table).name,
    ):
        failures += piece.failures
        if piece.chunk is not None:
            count = len(scaffolds) + np.arange(len(piece.chunk))
            graph_of_row[piece.chunk.row] = count
            scaffolds += piece.extras["scaffold"]
            keys += piece.extras["identity"]
    kept = np.flatnonzero(graph_of_row >= 0)
    if failures and not (settings.skip_invalid and len(kept)):
        row, smiles, reason = failures[0]
        what = f"none of {len(failures):,} molecules can"
        advice = ""
        if len(kept):
            what = f"{counted(len(failures), 'molecule')} cannot"
            advice = ", or leave them out with --skip-invalid"
        raise DatasetError(
            f"{settings.table}: {what} be parsed (first: row {row}, {shown(smiles)}: "
            f"{reason}); correct the source{advice}"
        )
    given = source.splits if given_column else None
    targets = TargetSchema(list(source.target_names), settings.target_unit, kind)
    if any(source.class_names):
        targets = targets.with_classes(source.class_names)
    elif kind == "multiclass":
        try:
            check_numbers(labels[kept])
        except ValueError as error:
            raise DatasetError(f"{settings.table}: {error}") from None
        count = int(np.nanmax(labels[kept], initial=0)) + 1
        targets = dataclasses.replace(targets, num_classes=count)
    check_class_weights(settings.class_weights, targets)
    if len(equal_labels(labels[kept], targets)) == len(targets.names):
        raise DatasetError(
            f"{settings.table}: all labels of {listed(targets.names)} are equal, there "
            "is nothing to learn"
        )
    return Table(
        smiles=[source.smiles[row] for row in kept],
        smiles_column=options.smiles_column,
        labels=labels[kept],
        targets=targets,
        weights=None if source.weights is None else np.asarray(source.weights)[kept],
        extra_columns=list(settings.extra_columns),
        extra=np.asarray(source.graph_values)[kept],
        featuriser="ogb_largest_fragment" if settings.largest_fragment else "ogb",
        extra_names=read.others,
        extras=[read.cells[row] for row in kept],
        scaffolds=scaffolds,
        keys=keys,
        split=options.split,
        given_split=given and splits_of_graphs(given, graph_of_row, options.name),
        failures=failures,
        warned=read.warnings,
    )


def find_target(table: InputTable, options: DatasetOptions) -> DatasetOptions:
    """Options with the target: the only other column, or the only one of numbers that
    neither names molecules nor numbers the rows.

    Raises:
        DatasetError: There is none, or more than one.
    """
    named = (options.weight_column, *options.extra_columns)
    taken = [options.smiles_column, column_of_split(table, options)]
    taken += [table.require(name) for name in named if name]
    others = table.free(taken)
    labelled, words = set(), set()
    for _, _, cells in table.rows(others):
        for name, cell in zip(others, cells, strict=True):
            if is_missing(cell, options.missing_labels):
                continue
            (labelled if is_number(cell) else words).add(name)
    found = [name for name in others if name in labelled - words]
    found = [name for name in found if name.lower() not in NAMES]
    numbering = table.row_numbers(found)
    found = [name for name in found if name not in numbering]
    names = found if len(found) == 1 else table.remaining(taken)
    return dataclasses.replace(options, target_columns=names)


def kind_of_words(table: InputTable, options: DatasetOptions) -> str:
    """Kind of targets that are words, with as many classes as the settings name or as
    there are words; ``regression`` for numbers, and for many words.

    A column with a number has no words but mistakes.

    Raises:
        DatasetError: A target has more than two words, each twice on average, or two that
            differ in their case only.
    """
    special = [options.smiles_column, column_of_split(table, options)]
    special += [options.weight_column, *options.extra_columns]
    names = table.select(options.target_columns, special, options.missing_labels)
    counts: list[Counter[str]] = [Counter() for _ in names]
    for _, _, cells in table.rows(names):
        for found, cell in zip(counts, cells, strict=True):
            if not is_missing(cell, options.missing_labels):
                found["" if is_number(cell) else cell.strip()] += 1
    words = [{*found} for found in counts]
    numbers = any("" in found for found in words)
    for name, found in zip(names, counts, strict=True):
        classes = 2 < len(found) <= found.total() / 2 and "" not in found
        if classes and not options.class_names:
            try:
                check_case(found)
            except ValueError as error:
                raise DatasetError(f"{table.path}: column {name!r}: {error}") from None
            raise DatasetError(
                f"{table.path}: column {name!r} has {len(found)} words "
                f"({listed(sorted(found))}); for classes give --target-kind "
                "multiclass, and name missing labels with --missing-labels"
            )
    if not any(found - {""} for found in words) or numbers and not options.class_names:
        return "regression"
    most = len(options.class_names) or max(map(len, words), default=0)
    if most == 2:
        return "binary"
    return "multiclass" if options.class_names else "regression"


def check_class_weights(text: str, targets: TargetSchema) -> None:
    """Check ``--class-weights`` before anything is computed.

    Raises:
        DatasetError: The targets are numbers, or have another number of classes.
    """
    if not text:
        return
    if targets.kind == "regression":
        raise DatasetError(f"--class-weights {text}: the targets are numbers")
    try:
        given_weights(text, targets)
    except ValueError as error:
        raise DatasetError(str(error)) from None


def equal_labels(labels: np.ndarray, targets: TargetSchema) -> list[str]:
    """Names of the targets that do not have two different labels [n, T]."""
    return [
        name
        for name, column in zip(targets.names, labels.T, strict=True)
        if len(np.unique(column[~np.isnan(column)])) < 2
    ]


def found_kind(labels: np.ndarray, names: Sequence[str], path: str) -> str:
    """Kind of targets with these labels [n, T].

    Raises:
        DatasetError: Some columns have other numbers than 0 and 1, and some do not.
    """
    classes = [
        {*np.unique(column[~np.isnan(column)]).tolist()} <= {0.0, 1.0}
        for column in labels.T
    ]
    if len({*classes}) == 1:
        return "binary" if classes[0] else "regression"
    named, others = (
        [name for name, is_class in zip(names, classes) if is_class == wanted]
        for wanted in (True, False)
    )
    raise DatasetError(
        f"{path}: only 0 and 1 in {listed(named)}, other numbers in {listed(others)}: "
        "train them apart, or give --target-kind regression"
    )
