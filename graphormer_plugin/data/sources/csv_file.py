"""Molecules and targets from any table: SMILES, mol blocks or atoms."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from graphormer_plugin.data.errors import DatasetError, agreed, counted, listed
from graphormer_plugin.data.graphs.smiles import POSITIONS
from graphormer_plugin.data.graphs.sources import Atoms
from graphormer_plugin.data.sources.registry import DatasetSource, RegisteredDataset
from graphormer_plugin.data.splits import (
    FOLD,
    SPLITS,
    Split,
    random_split,
    rowwise_split,
    time_split,
)
from graphormer_plugin.data.tables.cells import ParsedColumn, matches, shown
from graphormer_plugin.data.tables.class_names import are_nearly_opposites
from graphormer_plugin.data.tables.formats import open_table, stem
from graphormer_plugin.data.tables.label_warnings import strange_label
from graphormer_plugin.data.tables.labels import exact_labels
from graphormer_plugin.data.tables.marks import LOGARITHM, RELATION, UNIT
from graphormer_plugin.data.tables.options import (
    DECISIVE,
    DatasetOptions,
    TableOptions,
)
from graphormer_plugin.data.tables.roles import Roles, with_split
from graphormer_plugin.data.tables.rows import Refusal, TableRows, whole_columns
from graphormer_plugin.data.tables.table import NAMES, Table, listed_columns
from graphormer_plugin.data.tables.units import molar_exponent, unit_factors
from graphormer_plugin.data.targets import Kind, TargetSchema

logger = logging.getLogger(__name__)


def table_for(path: Path, options: TableOptions, forces: str | None = None) -> Table:
    """A table of molecules as options read it; for ``forces`` see `Table.in_format`."""
    form = (options.featuriser.reads, options.length_unit, forces)
    table = open_table(path).in_format(*form, options.target_columns)
    if options.censored:
        table.join_ends(options.target_columns, options.extra_columns)
    return table


@dataclass(frozen=True, kw_only=True)
class TableDataset(RegisteredDataset):
    """A table of molecules that is open."""

    table: Table

    @classmethod
    def open(cls, options: DatasetOptions) -> "TableDataset":
        """The table that options name."""
        table = table_for(options.path, options, options.forces_column)
        if options.descriptors and table.source is Atoms:
            raise table.error(
                "--descriptors are of molecules, not of atoms without bonds"
            )
        if options.split == "scaffold" and table.source is Atoms:
            raise table.error(
                "atoms without bonds have no scaffold; give --split random"
            )
        return cls(
            name="csv",
            function=lambda options: _source(table, options),
            source="csv",
            options=DECISIVE,
            positions=POSITIONS,
            content=lambda options: {"file": table.digest},
            resolve=partial(with_split, table),
            table=table,
        )

    def molecules(self, options: DatasetOptions) -> tuple[list[str], list[list[str]]]:
        """Columns of SMILES and, if there are some, of names, and their cells by row."""
        columns = [self.table.find_smiles(options.smiles_column)]
        columns += self.table.find_name(columns[0])
        return columns, [row.cells for row in self.table.rows(columns)]


@dataclass(frozen=True)
class Labels:
    """Rows of a table, read in one pass.

    Attributes:
        source: molecules, targets, weights, extra columns and splits.
        warnings: lines about probable mistakes, and about options without effect.
        others: cells of the columns that are neither SMILES, split nor target, by name; empty
            if they are not asked for.
        times: time of each row for a split by time; None for other splits.
        parts: the tables that were read, each with the numbers of its rows.
    """

    source: DatasetSource
    warnings: list[str]
    others: dict[str, list[str]]
    times: np.ndarray | None
    parts: list[tuple[Table, np.ndarray]]


def _source(table: Table, options: DatasetOptions) -> DatasetSource:
    labels = read_labels(table, options)
    for text in labels.warnings:
        logger.warning("%s: %s", options.path, text)
    return labels.source


def read_labels(
    table: Table,
    options: DatasetOptions,
    explore: bool = False,
    kinds: Sequence[str] | None = None,
    more: Sequence[Table] = (),
) -> Labels:
    """Read the rows of a table, or of its shard.

    Errors name the row, from 0 as in predictions, and the line of the file, from 1.

    Args:
        explore: take the only column of numbers as the target if none is named, and keep
            the cells of all other columns.
        kinds: kind of all targets, or of each; empty: as their labels are; None: that of
            the options.
        more: further tables, whose rows follow.
    """
    if table.no_labels:
        raise table.error(table.no_labels)
    roles = Roles(table, options, explore)
    if roles.time and not options.shard.is_whole:
        raise table.error(
            f"--split {options.split} is for whole tables, not for shards"
        )
    others = [n for n in table.header if n not in (roles.smiles, roles.split)]
    if not explore and options.positions != "file":
        others = []
    rows = TableRows([table, *more], roles, options, others, explore)
    kinds = [options.target_kind] if kinds is None else kinds
    try:
        rows.read()
        return _labels(rows, kinds)
    except Refusal as refusal:
        raise rows.error(refusal) from None


def _labels(rows: TableRows, kinds: Sequence[str]) -> Labels:
    """The labels of rows that are read, see `read_labels`."""
    table = rows.tables[0]
    roles = rows.roles
    options = rows.options
    whole = options.shard.is_whole
    judged = rows.columns
    if roles.names_all and not whole:
        reading = options.missing_labels, (), options.censored
        judged = whole_columns(table, roles.candidates, *reading)
    names, left_out = _choose_targets(roles, judged, rows)
    columns = [rows.columns[table.require(name)] for name in names]
    of_targets = _kinds(table, columns, options, kinds)
    target, words = _read_targets(rows, names, of_targets)
    labelled = ~np.isnan(target).all(1)
    warnings: list[str | Refusal] = [*rows.notes, *left_out]
    if table.forces:
        forces = options.forces_column or table.forces
        warnings.append(f"energies are {listed(names)}, forces {forces}")
    numbers = [c for c, kind in zip(columns, of_targets) if kind.is_number]
    warnings += _read_marks(rows, numbers, dict(zip(names, target.T)), labelled)
    extras = [rows.numbers(name) for name in roles.extras]
    times = rows.times(roles.time[0], labelled) if roles.time else None
    splits = _splits(rows) if times is None else time_split(times, target)
    read_by_models = {*names, *roles.extras, *roles.weight}
    source = DatasetSource(
        unread={n: c for n, c in rows.others.items() if n not in read_by_models},
        smiles=rows.smiles,
        targets=target,
        splits=splits,
        target_names=names,
        unit=options.target_unit,
        kind=of_targets,
        class_names=words,
        weights=_weights(rows, roles.weight[0], whole) if roles.weight else None,
        graph_features=roles.extras,
        graph_values=np.array(extras).T.reshape(len(target), len(extras)),
        label=stem(table.path),
        first_row=rows.first,
        bounds=np.array([c.bounds for c in columns]).T if options.censored else None,
    )
    # A shard need not have each of the missing labels.
    missing_labels = options.missing_labels if whole else ()
    warnings += _lines_about(source, rows, missing_labels, columns)
    others = {n: c for n, c in rows.others.items() if n not in names}
    return Labels(source, [*map(rows.line, warnings)], others, times, rows.parts)


def _read_targets(
    rows: TableRows, names: Sequence[str], kinds: Sequence[Kind]
) -> tuple[np.ndarray, list[list[str]]]:
    """Labels [rows, T] of targets, and the names of their classes."""
    table = rows.tables[0]
    options = rows.options
    read = [
        rows.classes(name, kind, options.class_names)
        for name, kind in zip(names, kinds, strict=True)
    ]
    target = np.stack([values for values, _ in read], 1)
    words = [w for _, w in read]
    if np.isnan(target).all():
        raise table.error(f"columns {names} have no label at all")
    if options.censored and not all(kind.is_number for kind in kinds):
        raise table.error("--censored is for targets that are numbers")
    if options.class_names and not any(words):
        raise table.error("--class-names is for targets that are words")
    schema = TargetSchema.of(list(names), kind=kinds)
    if (position := schema.first_wrong(target)) is not None:
        row, column = position
        expected = schema.targets[column].expected
        text = f"{target[position]:g} is not a label, expected {expected}"
        raise Refusal(row, names[column], text)
    return target, words


def _choose_targets(
    roles: Roles, read: Mapping[str, ParsedColumn], rows: TableRows
) -> tuple[list[str], list[str]]:
    """Names of the targets, and lines about columns that ``all`` leaves out."""
    if not roles.names_all and not roles.open:
        return roles.candidates, []
    columns = [read[n] for n in roles.candidates if n.lower() not in NAMES]
    nearly = [c for c in columns if c.is_numeric or c.is_nearly_numeric]
    counting = [column.name for column in nearly if column.numbers_rows(rows.starts)]
    left = [column for column in nearly if column.name not in counting]
    if roles.open:
        numbers = [column.name for column in left if column.has_numbers]
        classes = [c.name for c in columns if are_nearly_opposites(c.words)]
        names = list(dict.fromkeys(numbers + classes))
        odd = [column for column in left if column.first_word() is not None]
        return (names if len(names) == 1 else roles.only(_odd_cell(rows, odd))), []
    lines = []
    if unasked := [name for name in counting if name not in roles.asked]:
        lines.append(
            f"--target-columns all leaves out {listed_columns(unasked)}, which only "
            "numbers the rows; name it to predict it"
        )
    free = [column.name for column in left if column.name in roles.free]
    for column in left:
        word = column.first_word()
        if word is None or column.is_numeric or column.name in roles.asked:
            continue
        free.remove(column.name)
        lines.append(
            f"--target-columns all leaves out {column.name!r}, where {shown(word[1])} is "
            "not a number; name it to predict it"
        )
    if not free:
        but = f" but {listed_columns(counting)}, which only numbers the rows"
        raise roles.table.error(f"no column of numbers{but if counting else ''}")
    return roles.targets(free), lines


def _odd_cell(rows: TableRows, columns: Sequence[ParsedColumn]) -> str:
    """End of a line that names the first word in a column of numbers; empty without any."""
    for column in columns:
        row, word = column.first_word()
        text = f"{shown(word)} is not a number"
        return "; " + rows.line(Refusal(row, column.name, text))
    return ""


def _kinds(
    table: Table,
    columns: Sequence[ParsedColumn],
    options: DatasetOptions,
    kinds: Sequence[str],
) -> list[Kind]:
    """Kind of each target; for ``kinds`` see `read_labels`."""
    if not kinds:
        return [_found_kind(table, column, options.class_names) for column in columns]
    if len(kinds) not in (1, len(columns)):
        raise table.error(
            f"--target-kind {','.join(kinds)}: expected one, or one for each of "
            f"{listed([column.name for column in columns])}"
        )
    return [*map(Kind, kinds)] * (len(columns) if len(kinds) == 1 else 1)


def _found_kind(table: Table, column: ParsedColumn, class_names: Sequence[str]) -> Kind:
    """Kind of a target: binary for 0 and 1 and for two words, multiclass for as many words
    as ``--class-names`` has, else regression."""
    if column.is_numeric:
        values = np.array(column.values)
        is_truth = np.isin(values[~np.isnan(values)], (0, 1)).all()
        return Kind.BINARY if is_truth else Kind.REGRESSION
    if class_names:
        return Kind.BINARY if len(class_names) == 2 else Kind.MULTICLASS
    if column.has_numbers:
        return Kind.REGRESSION  # the words are mistakes
    if 2 < len(column.words) <= sum(map(len, column.words.values())) / 2:
        raise table.error(
            f"column {column.name!r} has {len(column.words)} words "
            f"({listed(sorted(column.words))}); for classes give --target-kind "
            "multiclass, and name missing labels with --missing-labels"
        )
    return Kind.BINARY if len(column.words) == 2 else Kind.REGRESSION


def _read_marks(
    rows: TableRows,
    targets: Sequence[ParsedColumn],
    labels: Mapping[str, np.ndarray],
    labelled: np.ndarray,
) -> list[str]:
    """Read the relations and units of ``targets`` of numbers among all ``labels`` [rows], which
    are converted; returns lines about these, and about conditions."""
    unit = rows.options.target_unit
    is_molar = molar_exponent(unit) is not None
    known, lines = _read_relations(rows, targets)
    units = _find_units(rows, [target.name for target in targets], is_molar)
    known += units.values() if is_molar else ()
    offered = () if is_molar else {*units.values()}
    lines += _lines_about_conditions(rows, {*labels, *known}, labelled, offered)
    for name, column in units.items() if is_molar else ():
        lines += _convert(rows, column, name, labels[name], unit)
    return lines


def _read_relations(
    rows: TableRows, targets: Sequence[ParsedColumn]
) -> tuple[list[str], list[str]]:
    """Read bounds from columns such as Standard Relation if they are asked for. Return these
    columns, and a line about each that is not read, or whose signs turn.
    """
    names = []
    lines = []
    censored = rows.options.censored
    marks = rows.roles.marks
    for target in targets:
        unknown = np.isnan(target.values)
        try:
            found = marks.of(RELATION, target.name, rows.columns, len(targets) == 1)
        except DatasetError as error:
            near = [rows.columns[name].signs() for name in marks.owners[RELATION]]
            if not any((signs[~unknown] != 0).any() for signs in near):
                continue
            if censored:
                raise
            lines.append(str(error).removeprefix(f"{rows.tables[0].path}: "))
            continue
        if found is None:
            continue
        name, turn = found
        signs = np.where(unknown, 0, turn * rows.columns[name].signs())
        if not signs.any():
            continue
        names.append(name)
        count = np.count_nonzero(signs)
        if censored:
            bounds = np.array(target.bounds)
            target.bounds = np.where(bounds == 0, signs, bounds)
            if turn < 0:
                lines.append(
                    f"{target.name!r} falls with the numbers that {name!r} belongs to: > "
                    "there is < here"
                )
            elif LOGARITHM.match(target.name):
                lines.append(
                    f"> in {name!r} is read as > of {target.name!r}; exchange > and < if "
                    "they are of the concentration"
                )
            continue
        lines.append(
            f"{counted(count, 'label')} of {target.name!r} {agreed(count, 'have')} > or < in "
            f"column {name!r} and {agreed(count, 'are')} learned as exact; --censored reads "
            "bounds"
        )
    return names, lines


def _find_units(
    rows: TableRows, names: Sequence[str], is_molar: bool
) -> dict[str, str]:
    """Columns of the units of targets, by target. DatasetError if ``--target-unit``
    ``is_molar``, and a target is a logarithm, or has units whose column is not certain.
    """
    columns = {}
    marks = rows.roles.marks
    for name in names:
        if marks.is_logarithm(name, rows.columns):
            if is_molar:
                raise rows.tables[0].error(
                    f"{name!r} is a logarithm, which has no molar unit; leave out "
                    "--target-unit"
                )
            continue
        try:
            found = marks.of(UNIT, name, rows.columns, len(names) == 1)
        except DatasetError:
            if is_molar:
                raise
            continue
        if found is not None:
            columns[name] = found[0]
    return columns


def _lines_about_conditions(
    rows: TableRows,
    known: Collection[str],
    labelled: np.ndarray,
    units: Collection[str],
) -> list[str]:
    """A line about each column beside the targets, such as Standard Type, that has several
    values in the labelled rows, and is not ``known`` otherwise; ``units`` are those of the
    targets, which could be converted."""
    lines = []
    for name in rows.roles.conditions:
        if name in known:
            continue
        counts = rows.columns[name].counts(labelled)
        if not 1 < len(counts) < labelled.sum():  # else it is equal, or only names rows
            continue
        words = [f"{shown(word, 40)} ({many:,})" for word, many in counts.most_common()]
        line = (
            f"column {name!r}, which the model does not read, has {len(counts):,} values: "
            f"{listed(words, 5)}"
        )
        if name in units and None not in map(molar_exponent, counts):
            line += f"; --target-unit {counts.most_common(1)[0][0]} converts the labels"
        lines.append(line)
    return lines


def _convert(
    rows: TableRows, column: str, name: str, labels: np.ndarray, unit: str
) -> list[str]:
    """Convert the labels of a target [rows] into a unit, and the cells of the column of their
    units; returns a line about it, unless all have that unit."""
    units = rows.columns[column]
    labelled = ~np.isnan(labels)
    factors = unit_factors(units, unit)
    if (rows_without_unit := np.flatnonzero(labelled & np.isnan(factors))).size:
        text = (
            f"a label without a unit that --target-unit {unit} can convert, such as uM"
        )
        raise Refusal(rows_without_unit[0], column, text)
    changed = labelled & (factors != 1)
    labels[changed] *= factors[changed]
    bounds = rows.columns[name].bounds
    rows.columns[name].bounds = bounds * np.where(changed, factors, 1)
    for row in np.flatnonzero(changed) if column in rows.others else ():
        rows.others[column][row] = unit
    if not changed.any():
        return []
    count = np.count_nonzero(changed)
    return [
        f"{counted(count, 'label')} of {name!r} {agreed(count, 'are')} converted from "
        f"{listed(units.counts(changed))} to {unit}, by column {column!r}"
    ]


def _lines_about(
    source: DatasetSource,
    rows: TableRows,
    missing_labels: Sequence[str],
    targets: Sequence[ParsedColumn],
) -> list[str | Refusal]:
    """Lines about probable mistakes in the labels, and about options without effect."""
    lines: list[str | Refusal] = []
    labels = exact_labels(source.targets, source.bounds)
    for target, kind, values in zip(targets, source.kind, labels.T, strict=True):
        if kind.is_number and (outlier := strange_label(values)):
            row, line = outlier
            lines.append(Refusal(row, target.name, line))
    if rows.unsplit:
        lines.append(
            f"{counted(rows.unsplit, 'row')} with an empty cell in {rows.roles.split!r} "
            f"{agreed(rows.unsplit, 'are')} in no split"
        )
    missing = {cell for target in targets for cell in target.missing}
    for word in missing_labels:
        if not any(matches(cell, (word,)) for cell in missing):
            names = listed(source.target_names)
            lines.append(f"--missing-labels {word!r} fits no cell of {names}")
    return lines


def _weights(rows: TableRows, name: str, whole: bool) -> np.ndarray:
    """Weights of the rows in the loss; DatasetError for a wrong cell, and for zeros."""
    weights = rows.numbers(name)
    if (invalid_rows := np.flatnonzero(~(weights >= 0))).size:
        raise Refusal(invalid_rows[0], name, "a weight is a number, 0 or more")
    if whole and not weights.any():
        raise rows.tables[0].error(f"all weights in column {name!r} are 0")
    return weights


def _splits(rows: TableRows) -> Split | None:
    """Rows by split; None for a split that needs the molecules."""
    options = rows.options
    column = rows.roles.split
    whole = options.shard.is_whole
    count = len(rows.smiles)
    if options.split_file:
        return {}
    if column:
        has_folds = any(name.startswith(FOLD) for name in rows.splits)
        needed = 0 if has_folds else 1 if rows.explores else 2
        for name in SPLITS[:needed]:
            if whole and name not in rows.splits:
                raise rows.tables[0].error(
                    f"no rows in split {name} (column {column!r}); mark them with "
                    f"the word {name}, or give --split random or scaffold"
                )
        splits = {**rows.splits, "train": rows.splits.get("train", [])}
        return {name: np.array(numbers, np.int64) for name, numbers in splits.items()}
    if options.split == "scaffold":
        return None
    if not whole:
        return rowwise_split(rows.first, count, options.seed)
    try:
        return random_split(count, options.seed)
    except DatasetError as error:
        raise rows.tables[0].error(str(error)) from None
