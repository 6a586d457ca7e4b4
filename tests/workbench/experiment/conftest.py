"""Tables of experiments."""

from functools import partial

import pytest

from graphormer_plugin.workbench.experiment.labelled_molecules import read_table
from graphormer_plugin.workbench.experiment.targets import learned_targets
from support.labelled_molecules import settings, splits_of, write_table


@pytest.fixture
def write(tmp_path):
    """Function: `write_table` in a folder of the test."""
    return partial(write_table, tmp_path / "table.csv")


@pytest.fixture
def read(write):
    """Function: table, settings and splits of the columns of a table of alcohols."""

    def read(columns, **options):
        smiles = ["C" * k + "O" for k in range(1, 1 + len([*columns.values()][0]))]
        rows = list(zip(smiles, *columns.values(), strict=True))
        path = write(rows, ["smiles", *columns])
        if "part" in columns:
            options = {"split": "column:part", **options}
        asked = settings(path, **options)
        table = learned_targets(read_table(asked), asked)
        return table, asked, splits_of(table, asked)

    return read
