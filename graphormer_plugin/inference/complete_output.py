"""Whether files are the complete output of ``graphormer-predict``, which was run before."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap

from graphormer_plugin.data.cells import shown
from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.table import Table
from graphormer_plugin.data.table_formats import SdfTable, open_table


def check_complete(
    output: Path,
    arrays: Mapping[Path, tuple[Any, tuple[int, ...]]],
    table: Table,
    column: str,
    rows: tuple[int, int],
    names: Sequence[str],
) -> None:
    """Check that files have the rows and columns that a run would write.

    Numbers are not compared. Molecules are, unless the input or the output is an SDF,
    whose SMILES RDKit makes. An SDF leaves out empty cells: one new column must be there.

    Args:
        output: the table that was written.
        arrays: type and shape, without the first dimension, of each array by path.
        table: the input.
        column: its column of SMILES.
        rows: first row, and row to stop before.
        names: columns that the output has after those of the input.

    Raises:
        ValueError: they are something else.
    """
    try:
        other = _other_table(output, table, column, rows, names)
    except DatasetError as error:  # of the output: all rows of the input were counted
        other = str(error)
    other = other or _other_array(arrays, rows[1] - rows[0])
    if other:
        raise ValueError(
            f"{output} is not the complete output of this run: {other}; remove {output}, "
            "or name another file"
        )


def _other_table(
    output: Path,
    table: Table,
    column: str,
    rows: tuple[int, int],
    names: Sequence[str],
) -> str:
    """What differs in the table; empty if nothing does."""
    if output.is_dir():
        return "it is a folder"
    found = open_table(output)
    header = [*table.header, *(name.strip() for name in names)]
    expected = rows[1] - rows[0]
    if isinstance(found, SdfTable):
        if expected and not {" ".join(n.split()) for n in names} & {*found.header}:
            return "no record has a prediction, or a reason for none"
    elif found.header != header:
        lacking = [name for name in header if name not in found.header]
        if lacking:
            return f"it has no column {shown(lacking[0])}"
        return "it has more columns, or in another order"
    if (count := found.count()) != expected:
        return f"it has {count:,} rows, expected {expected:,}"
    if isinstance(found, SdfTable) or isinstance(table, SdfTable):
        return ""
    pairs = zip(found.rows([column]), table.rows_between([column], *rows))
    for (row, _, (smiles,)), (_, _, (wanted,)) in pairs:
        if smiles != wanted:
            return f"row {row} has {shown(smiles)}, expected {shown(wanted)}"
    return ""


def _other_array(arrays: Mapping[Path, tuple[Any, tuple[int, ...]]], rows: int) -> str:
    """What differs in the arrays; empty if nothing does."""
    for path, (dtype, tail) in reversed([*arrays.items()]):
        try:
            found = open_memmap(path, mode="r")
        except (OSError, ValueError) as error:
            reason = " ".join(str(getattr(error, "strerror", error)).split())
            return f"{path} cannot be read: {reason}"
        if found.shape != (rows, *tail) or found.dtype != dtype:
            wanted = f"{[rows, *tail]} of {np.dtype(dtype)}"
            return f"{path} has {[*found.shape]} of {found.dtype}, expected {wanted}"
        if not tail:  # numbers of atoms, which say how many vectors there are
            rows = int(found.sum())
    return ""
