"""Damaged files of every kind: each gives a result or one line. tests/soak has more."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.hostile import READERS


@pytest.mark.long
@pytest.mark.parametrize(
    "name, examples",
    [
        *(("CSV", 150), ("tables", 100), ("stores", 60)),
        *(("heads", 40), ("checkpoints", 25), ("converter", 25)),
    ],
)
def test_readers(name, examples):
    @settings(deadline=None, derandomize=True, max_examples=examples, database=None)
    @given(st.integers(0, 2**63))
    def read(seed):
        READERS[name](seed)

    read()
