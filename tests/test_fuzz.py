"""Damaged files of every kind: each gives a result or one line. tests/soak has more."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.hostile import READERS


@pytest.mark.parametrize("name", READERS)
def test_readers(name):
    @settings(deadline=None, derandomize=True, max_examples=60, database=None)
    @given(st.integers(0, 2**63))
    def read(seed):
        READERS[name](seed)

    read()
