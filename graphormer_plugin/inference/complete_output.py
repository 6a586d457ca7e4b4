"""Whether files are the complete output of ``graphormer-predict``, which was run before."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from numpy.lib.format import open_memmap

from graphormer_plugin.data.tables.cells import shown
from graphormer_plugin.data.tables.formats import SdfTable, open_table
from graphormer_plugin.data.tables.table import Table
from graphormer_plugin.inference.resumable_writer import Arrays


def check_complete(
    output: Path,
    arrays: Arrays,
    table: Table,
    column: str,
    rows: tuple[int, int],
    names: Sequence[str],
) -> None:
    """Check that files have the rows and columns that a run would write.

    Numbers are not compared. Molecules are, unless the input or the output is an SDF,
    whose SMILES RDKit makes. An SDF leaves out empty cells: any new column suffices.

    Args:
        output: the table that was written.
        arrays: the arrays beside it.
        table: the input.
        column: its column of SMILES.
        rows: first row, and row to stop before.
        names: columns of the output after the columns of the input.

    Raises:
        ValueError: they are something else.
    """
    try:
        difference = next(_differences(output, table, column, rows, names), "")
        difference = difference or _of_arrays(arrays, rows[1] - rows[0])
    except (ValueError, OSError) as error:
        difference = str(error)
    if difference:
        raise ValueError(
            f"{output} is not the complete output of this run: {difference}; remove "
            f"{output}, or name another file"
        )


def _of_arrays(arrays: Arrays, rows: int) -> str:
    # The last array may have the numbers of atoms, which say how many vectors there are.
    for path, (dtype, tail) in reversed([*arrays.items()]):
        array = open_memmap(path, mode="r")
        if array.shape != (rows, *tail) or array.dtype != dtype:
            expected = [rows, *tail]
            return f"{path} has {[*array.shape]} of {array.dtype}, expected {expected}"
        if not tail:
            rows = int(array.sum())
    return ""


def _differences(
    output: Path, table: Table, column: str, rows: tuple[int, int], names: Sequence[str]
) -> Iterator[str]:
    """How a table differs from the expected output."""
    written = open_table(output)
    header = [*table.header, *(name.strip() for name in names)]
    expected = rows[1] - rows[0]
    if isinstance(written, SdfTable):
        if expected and not {" ".join(n.split()) for n in names} & {*written.header}:
            yield "no record has a prediction, or a reason for none"
    elif written.header != header:
        lacking = [name for name in header if name not in written.header]
        yield f"it has no column {shown(lacking[0])}" if lacking else "other columns"
    if (count := written.count()) != expected:
        yield f"it has {count:,} rows, expected {expected:,}"
    if isinstance(written, SdfTable) or isinstance(table, SdfTable):
        return
    pairs = zip(written.rows([column]), table.rows_between([column], *rows))
    for (row, _, (smiles,)), (_, _, (wanted,)) in pairs:
        if smiles != wanted:
            yield f"row {row} has {shown(smiles)}, expected {shown(wanted)}"
