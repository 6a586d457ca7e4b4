"""Tables of experiments."""

from functools import partial

import pytest

from support.labelled_molecules import write_table


@pytest.fixture
def write(tmp_path):
    """Function: `write_table` in a folder of the test."""
    return partial(write_table, tmp_path / "table.csv")
