"""Columns of relations and of units: which column of numbers each of them belongs to."""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from graphormer_plugin.data.tables.cells import ParsedColumn
from graphormer_plugin.data.tables.table import NAMES, Table
from graphormer_plugin.data.tables.units import unit_factors

# In names of columns: whether a value is a bound, its unit, and how it was measured.
RELATION = "relation|qualifier|operator|modifier"
UNIT = "units?"
CONDITION = f"{RELATION}|{UNIT}|type|assay|organism|species"
# Names of decadic logarithms: pIC50, pKi, pChEMBL Value, logS.
LOGARITHM = re.compile(r"(?i:-?\s*log|ln\b|p([a-z]c50|k[abid]\b|chembl))|p[A-Z]")
LOG_CORRELATION = 0.999  # of logarithms that have two decimals; our choice


class Marks:
    """The columns of a table that have one of the words, such as `RELATION`, in their names.

    Attributes:
        owners: by column, the columns that it may belong to: those that have the rest of its
            name (Standard Relation, Standard Value; IC50_qualifier, IC50); if its name has no
            more than the word, the columns that it stands beside.
    """

    def __init__(self, table: Table, words: str, targets: Sequence[str]) -> None:
        self.table = table
        self.words = words
        self.owners: dict[str, list[str]] = {}
        marks = [n for n in table.header if re.search(CONDITION, n.lower())]
        marks = [name for name in marks if name not in targets]
        values = [name for name in table.header if name not in marks]
        for mark in marks:
            if not re.search(words, mark.lower()):
                continue
            place = table.places[mark]
            near = [n for n in values if table.places[n] < place][-1:]
            near += [n for n in values if table.places[n] > place][:1]
            stem = _stem(mark, words)
            if stem:
                near = [name for name in values if _stem(name, words) == stem]
            near = [name for name in near if not _names_molecules(name)]
            if mark not in table.repeated and not table.repeated & {*near}:
                self.owners[mark] = near

    @property
    def columns(self) -> list[str]:
        """Columns that must be read to tell what belongs to what."""
        return [*self.owners, *(name for near in self.owners.values() for name in near)]

    def of(
        self,
        target: str,
        columns: Mapping[str, ParsedColumn],
        units: Sequence[str],
        alone: bool,
    ) -> tuple[str, int] | None:
        """The column that belongs to a target, and 1; or -1 if it belongs to amounts whose
        negative logarithm the target is. None without such a column.

        Args:
            columns: what was read of the table, by name.
            units: columns of units.
            alone: whether there is no other target, which a column gets that stands beside no
                numbers.

        Raises:
            DatasetError: the column may belong to several columns.
        """
        found = dict[str, int]()
        for mark, near in self.owners.items():
            numbers = [name for name in near if _has_numbers(columns[name])]
            amounts = [name for name in numbers if name != target]
            turns = [turn(columns, target, name, units) for name in amounts]
            if not numbers:
                if alone and not _stem(mark, self.words):
                    found[mark] = 1
            elif all(turns) and turns:
                found[mark] = turns[0]
            elif target in numbers:
                logs = [turn(columns, name, target, units) for name in amounts]
                if not all(logs):
                    kind = "units" if self.words == UNIT else "relation"
                    names = " or ".join(f"'{name} {kind}'" for name in numbers)
                    raise self.table.error(
                        f"column {mark!r} stands beside {' and '.join(map(repr, numbers))}; "
                        f"call it {names}"
                    )
                found[mark] = 1
        own = {mark: n for mark, n in found.items() if target in self.owners[mark]}
        found = own or found
        if len(found) > 1:
            names = " or ".join(map(repr, found))
            raise self.table.error(f"which column belongs to {target!r}, {names}?")
        return next(iter(found.items()), None)

    def is_logarithm(
        self, target: str, columns: Mapping[str, ParsedColumn], units: Sequence[str]
    ) -> bool:
        """Whether a target has the name of a logarithm, or is that of a column that a column
        of this kind may belong to."""
        near = {name for names in self.owners.values() for name in names} - {target}
        turns = (turn(columns, target, name, units) for name in near)
        return LOGARITHM.match(target) is not None or any(turns)


def turn(
    columns: Mapping[str, ParsedColumn], target: str, name: str, units: Sequence[str]
) -> int:
    """1 or -1 if a target is the logarithm of a column, or the negative one, whose
    numbers may have the units in another; else 0."""
    logarithm = np.array(columns[target].values)
    amounts = np.array(columns[name].values)
    factors = [unit_factors(columns[unit], "M") for unit in units]
    for amount in (amounts, *(amounts * factor for factor in factors)):
        rows = (amount > 0) & ~np.isnan(logarithm)
        x, y = amount[rows], logarithm[rows]
        if len(np.unique(x)) < 3 or len(np.unique(y)) < 3:
            continue
        straight, same = (np.corrcoef(f, y)[0, 1] for f in (x, np.log(x)))
        if abs(same) > max(LOG_CORRELATION, abs(straight)):
            return int(np.sign(same))
    return 0


def _stem(name: str, words: str) -> str:
    return re.sub(rf"{words}|value|[\W_]", "", name.lower())


def _names_molecules(name: str) -> bool:
    return name.lower() in NAMES or "smiles" in name.lower()


def _has_numbers(column: ParsedColumn) -> bool:
    return column.has_numbers and (column.is_numeric or column.is_nearly_numeric)
