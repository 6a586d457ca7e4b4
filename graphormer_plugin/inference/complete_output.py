"""Whether files are the complete output of ``graphormer-predict``, which was run before."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

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
    expected = rows[1] - rows[0]
    try:
        difference = next(_differences(output, table, column, rows, names), "")
    except DatasetError as error:  # of the output: all rows of the input were counted
        difference = str(error)
    for path, (dtype, tail) in reversed([*arrays.items()]):
        if difference:
            break
        try:
            found = open_memmap(path, mode="r")
        except (OSError, ValueError) as error:
            reason = " ".join(str(getattr(error, "strerror", error)).split())
            difference = f"{path} cannot be read: {reason}"
            break
        if found.shape != (expected, *tail) or found.dtype != dtype:
            shape = [expected, *tail]
            difference = (
                f"{path} has {[*found.shape]} of {found.dtype}, expected {shape}"
            )
        if not tail:  # numbers of atoms, which say how many vectors there are
            expected = int(found.sum())
    if difference:
        raise ValueError(
            f"{output} is not the complete output of this run: {difference}; remove "
            f"{output}, or name another file"
        )


def _differences(
    output: Path,
    table: Table,
    column: str,
    rows: tuple[int, int],
    names: Sequence[str],
) -> Iterator[str]:
    """How a table differs from the expected output."""
    if output.is_dir():
        yield "it is a folder"
    found = open_table(output)
    header = [*table.header, *(name.strip() for name in names)]
    expected = rows[1] - rows[0]
    if isinstance(found, SdfTable):
        if expected and not {" ".join(n.split()) for n in names} & {*found.header}:
            yield "no record has a prediction, or a reason for none"
    elif found.header != header:
        for name in (name for name in header if name not in found.header):
            yield f"it has no column {shown(name)}"
        yield "it has more columns, or in another order"
    if (count := found.count()) != expected:
        yield f"it has {count:,} rows, expected {expected:,}"
    if isinstance(found, SdfTable) or isinstance(table, SdfTable):
        return
    pairs = zip(found.rows([column]), table.rows_between([column], *rows))
    for (row, _, (smiles,)), (_, _, (wanted,)) in pairs:
        if smiles != wanted:
            yield f"row {row} has {shown(smiles)}, expected {shown(wanted)}"
