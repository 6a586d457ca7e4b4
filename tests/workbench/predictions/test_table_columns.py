"""Columns of arrays, which writers turn into text."""

import json

import numpy as np

from graphormer_plugin.workbench.predictions.table_columns import array_column


def test_an_array_is_a_nested_list_whose_text_is_json():
    (cell,) = array_column("pairs", [np.array([[0, 12, 1 / 3, -1e-9]])], 2).cells
    assert cell == [[0, 12, 0.3333333, -1e-9]]
    assert str(cell) == json.dumps(cell)
