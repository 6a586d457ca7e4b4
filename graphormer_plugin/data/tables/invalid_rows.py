"""The file that lists the molecules that a build could not parse."""

import logging
from collections.abc import Sequence
from pathlib import Path

from graphormer_plugin.data.errors import DatasetError, counted
from graphormer_plugin.data.tables.csv_lines import write_csv
from graphormer_plugin.data.tables.table import CsvTable

logger = logging.getLogger(__name__)


def invalid_file(path: Path) -> Path:
    """CSV (row, smiles, reason) beside the store ``path``."""
    return path.parent / f"{path.name}.invalid.csv"


def report_invalid(
    path: Path, failures: Sequence[tuple[int, str, str]], skip: bool
) -> None:
    """Write `invalid_file` of a store, or remove an earlier file if there are no failures
    (row, SMILES and reason).

    Raises:
        DatasetError: there are failures; with ``skip`` a warning.
    """
    file = invalid_file(path)
    if not failures:
        file.unlink(missing_ok=True)
        return
    write_csv(file, [("row", "smiles", "reason"), *failures])
    if not skip:
        raise invalid_error(len(failures), path)
    logger.warning(
        "%d molecules cannot be parsed and are left out, listed in %s",
        len(failures),
        file,
    )


def invalid_error(count: int, path: Path) -> DatasetError:
    """The error of a build whose `invalid_file` lists ``count`` molecules."""
    plural = "s" if count > 1 else ""
    file = invalid_file(path)
    try:
        table = CsvTable(file)
        rows = table.rows_between([table.require("row")], 0, 5)
        numbers = ", ".join(cells[0] for *_, cells in rows)
        dots = ", ..." if count > 5 else ""
        where = f"row{plural} {numbers}{dots}; reasons in {file}"
    except DatasetError:  # somebody has removed or changed the file
        where = "--skip-invalid --rebuild lists them"
    return DatasetError(
        f"{counted(count, 'molecule')} cannot be parsed ({where}); correct the source, "
        "or leave them out with --skip-invalid"
    )
