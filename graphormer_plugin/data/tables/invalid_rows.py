"""The file that lists the molecules that a build could not parse."""

import logging
from collections.abc import Sequence
from pathlib import Path

from graphormer_plugin.data.errors import DatasetError, counted, listed
from graphormer_plugin.data.tables.csv_lines import write_csv

logger = logging.getLogger(__name__)


def report_invalid(
    path: Path, failures: Sequence[tuple[int, str, str]], skip: bool
) -> None:
    """Write the failures (row, SMILES, reason) of a store to a CSV beside it, or remove an
    earlier file if there are none. Failures are an error, with ``skip`` a warning."""
    file = _file(path)
    if not failures:
        file.unlink(missing_ok=True)
        return
    write_csv(file, [("row", "smiles", "reason"), *failures])
    if not skip:
        raise invalid_error(len(failures), path, [row for row, *_ in failures])
    many = counted(len(failures), "molecule")
    logger.warning("%s cannot be parsed and are left out, listed in %s", many, file)


def invalid_error(count: int, path: Path, rows: Sequence[int] = ()) -> DatasetError:
    """The error of a store without ``count`` molecules that were not to be left out."""
    where = f"row{'s' * (count > 1)} {listed(rows, 5)}; reasons" if rows else "listed"
    return DatasetError(
        f"{counted(count, 'molecule')} cannot be parsed ({where} in {_file(path)}); correct "
        "the source, or leave them out with --skip-invalid"
    )


def _file(path: Path) -> Path:
    return path.parent / f"{path.name}.invalid.csv"
