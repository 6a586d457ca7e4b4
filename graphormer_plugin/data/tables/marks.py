"""Columns of relations and of units: which column of numbers each of them belongs to."""

import itertools
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
    """The columns of a table that have the words of `RELATION` or `UNIT` in their names.

    Attributes:
        owners: for each of both, by column, the columns that it may belong to: those that have
            the rest of its name (Standard Relation, Standard Value; IC50_qualifier, IC50); if
            its name has no more than the word, the columns that it stands beside.
    """

    def __init__(self, table: Table, targets: Sequence[str]) -> None:
        self.table = table
        self.owners: dict[str, dict[str, list[str]]] = {RELATION: {}, UNIT: {}}
        marks = [n for n in table.header if re.search(CONDITION, n.lower())]
        marks = [name for name in marks if name not in targets]
        values = [name for name in table.header if name not in marks]
        for words, mark in itertools.product(self.owners, marks):
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
                self.owners[words][mark] = near

    @property
    def columns(self) -> list[str]:
        """Columns that must be read to tell what belongs to what."""
        return [
            name
            for owners in self.owners.values()
            for mark, near in owners.items()
            for name in (mark, *near)
        ]

    def of(
        self, words: str, target: str, columns: Mapping[str, ParsedColumn], alone: bool
    ) -> tuple[str, int] | None:
        """The column that belongs to a target, and 1; or -1 if it belongs to amounts whose
        negative logarithm the target is. None without such a column.

        Args:
            words: `RELATION` or `UNIT`.
            columns: what was read of the table, by name.
            alone: whether there is no other target, which a column gets that stands beside no
                numbers.

        Raises:
            DatasetError: the column may belong to several columns.
        """
        found = dict[str, int]()
        for mark, near in self.owners[words].items():
            numbers = [name for name in near if _has_numbers(columns[name])]
            amounts = [name for name in numbers if name != target]
            turns = [self._turn(columns, target, name) for name in amounts]
            if not numbers:
                if alone and not _stem(mark, words):
                    found[mark] = 1
            elif all(turns) and turns:
                found[mark] = turns[0]
            elif target in numbers:
                logs = [self._turn(columns, name, target) for name in amounts]
                if not all(logs):
                    word = "units" if words == UNIT else "relation"
                    names = " or ".join(f"'{name} {word}'" for name in numbers)
                    raise self.table.error(
                        f"column {mark!r} stands beside {' and '.join(map(repr, numbers))}; "
                        f"call it {names}"
                    )
                found[mark] = 1
        own = {
            mark: n for mark, n in found.items() if target in self.owners[words][mark]
        }
        found = own or found
        if len(found) > 1:
            names = " or ".join(map(repr, found))
            raise self.table.error(f"which column belongs to {target!r}, {names}?")
        return next(iter(found.items()), None)

    def is_logarithm(self, target: str, columns: Mapping[str, ParsedColumn]) -> bool:
        """Whether a target has the name of a logarithm, or is that of a column that may have
        units."""
        near = {name for names in self.owners[UNIT].values() for name in names}
        turns = (self._turn(columns, target, name) for name in near - {target})
        return LOGARITHM.match(target) is not None or any(turns)

    def _turn(self, columns: Mapping[str, ParsedColumn], target: str, name: str) -> int:
        """1 or -1 if a target is the logarithm of a column, or the negative one, whose
        numbers may have the units in another; else 0."""
        logarithm = np.array(columns[target].values)
        amounts = np.array(columns[name].values)
        factors = [unit_factors(columns[unit], "M") for unit in self.owners[UNIT]]
        for amount in (amounts, *(amounts * factor for factor in factors)):
            rows = (amount > 0) & ~np.isnan(logarithm)
            x = amount[rows]
            y = logarithm[rows]
            if len(np.unique(x)) < 3 or len(np.unique(y)) < 3:
                continue
            straight, same = (np.corrcoef(f, y)[0, 1] for f in (x, np.log(x)))
            if abs(same) > max(LOG_CORRELATION, abs(straight)):
                return int(np.sign(same))
        return 0


def _stem(name: str, words: str) -> str:
    unit = r"(?<=[\W_])[fpnuµμm]?m(?![^\W_])"  # of Ki_nM
    return re.sub(rf"{words}|value|{unit}|[\W_]", "", name.lower())


def _names_molecules(name: str) -> bool:
    return name.lower() in NAMES or "smiles" in name.lower()


def _has_numbers(column: ParsedColumn) -> bool:
    return column.has_numbers and (column.is_numeric or column.is_nearly_numeric)
