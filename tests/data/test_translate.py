"""Data in the vocabulary of a checkpoint."""

import numpy as np
import pytest

from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.translate import translate_bonds


def test_bond_types_of_tables_are_translated():
    dims = [17, 17]  # 289 combinations need a table
    source = FeatureSchema(1, [2], dims, [[0, 5], [3, 3], [16, 0]])
    target = FeatureSchema(1, [2], dims, [[3, 3], [7, 7], [0, 5]])
    columns = {
        "edge_offset": np.array([0, 4, 5]),
        "edge_src": np.array([0, 0, 0, 1, 0], dtype=np.uint8),
        "edge_dst": np.array([1, 1, 2, 0, 0], dtype=np.uint8),
        "edge_bond": np.array([1, 2, 3, 4, 1], dtype=np.uint8),
    }
    new = translate_bonds(columns, source, target)
    # [0, 5] is 3 there, [3, 3] is 1; [16, 0] and UNKNOWN become UNKNOWN, 4.
    assert new["edge_bond"].tolist() == [1, 3, 4, 4, 3]
    assert new["edge_dst"].tolist() == [1, 1, 2, 0, 0]
    with pytest.raises(ValueError, match=r"bond columns \[17, 17\].*\[5, 6\]"):
        translate_bonds(columns, source, FeatureSchema(1, [2], [5, 6]))
