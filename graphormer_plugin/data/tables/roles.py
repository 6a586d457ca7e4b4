"""Which column of a table is what: the SMILES, the split, targets, weights and numbers."""

import fnmatch
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from graphormer_plugin.data.tables.cells import is_index
from graphormer_plugin.data.tables.marks import CONDITION, Marks
from graphormer_plugin.data.tables.options import DatasetOptions
from graphormer_plugin.data.tables.table import (
    ALL,
    NAMES,
    SPLIT,
    Table,
    listed_columns,
)


def with_split(table: Table, options: DatasetOptions) -> DatasetOptions:
    """The options with their default of ``--split``: the column called split in any case,
    unless an option names it as something else; empty if there is none."""
    named = {options.smiles_column, options.weight_column}
    named |= {*options.target_columns, *options.extra_columns}
    names = [n for n in table.header if n.lower() == SPLIT and n not in named]
    if options.split or not names:
        return options
    if len(names) > 1:
        raise table.error(
            f"which column has the split, {' or '.join(names)}? Name it with --split "
            f"column:{names[0]}"
        )
    return replace(options, split=f"column:{names[0]}")


class Roles:
    """Which column of a table is what.

    Attributes:
        smiles: column of the SMILES.
        split: column of the split, or None.
        marks: columns that say whether values are bounds, and their units.
        conditions: columns whose names say that they tell how labels were measured.
        extras: columns of numbers that models read beside the molecule.
        weight: list of the column of weights; empty without weights.
        time: list of the column of a split by time; empty for other splits.
        numbers: columns of the last three.
        free: columns that can be targets without being named.
        candidates: targets; or all columns that may turn out to be targets when they are
            read, for ``all`` and where ``explore`` leaves the choice open.
    """

    def __init__(self, table: Table, options: DatasetOptions, explore: bool) -> None:
        self.table = table
        self.asked = options.target_columns
        self.smiles = table.find_smiles(options.smiles_column)
        column = options.split.removeprefix("column:")
        self.split = table.require(column) if column != options.split else None
        self.extras = [table.require(name) for name in options.extra_columns]
        self.weight = [table.require(n) for n in [options.weight_column] if n]
        time = options.split.removeprefix("time:")
        self.time = [table.require(time)] if time != options.split else []
        self.numbers = [*self.extras, *self.weight, *self.time]
        taken = {self.smiles, self.split, *self.numbers}
        self.free = [n for n in table.header if n not in taken and n.lower() != SPLIT]
        self.names_all = ALL in self.asked and ALL not in table.places
        self.open = explore and not self.asked
        if self.asked:
            unnamed = [name for name in self.free if name.lower() not in NAMES]
            self.candidates = self.targets(unnamed)
        else:
            self.candidates = self.free if explore else self.only()
        targets = self.candidates if self.asked else ()
        self.marks = Marks(table, targets)
        named = [name for name in self.free if re.search(CONDITION, name.lower())]
        self.conditions = [name for name in named if name not in table.repeated]

    def targets(self, all_numbers: Sequence[str]) -> list[str]:
        """Columns that the names, patterns such as ``NR-*``, and ``all`` (``all_numbers``) stand
        for."""
        names: list[str] = []
        for pattern in self.asked:
            if pattern in self.table.places:
                names.append(pattern)
                continue
            fits = all_numbers if pattern == ALL else fnmatch.filter(self.free, pattern)
            fits = fits or [self.table.require(pattern)]
            names += [name for name in fits if name not in names]
        twice = [name for name, n in Counter([*names, *self.extras]).items() if n > 1]
        if twice:
            raise self.table.error(
                f"target column {twice[0]!r} is named twice, or in --extra-columns"
            )
        return names

    def only(self, odd_cell: str = "") -> list[str]:
        """The only column that can be the target if none is named; the error ends with an
        ``odd_cell``."""
        usual = [name for name in self.table.usual_targets if name in self.free]
        if len(usual) == 1:
            return usual
        if len(self.free) != 1:
            raise self.table.error(
                "which columns are targets? Name them with --target-columns; there "
                f"{'are' if self.free else 'is'} {listed_columns(self.free)}{odd_cell}"
            )
        name = self.free[0]
        if name.lower() in NAMES or is_index(name):
            raise self.table.error(
                f"the only other column, {name!r}, looks like an "
                "identifier; if it is the target, name it with --target-columns"
            )
        return self.free
