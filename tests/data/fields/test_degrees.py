"""Degrees over a split."""

from types import SimpleNamespace

import numpy as np
import pytest

from graphormer_plugin.data.fields import degrees


def make_store(rows):
    """A path of three nodes, two loose nodes, and a star of four edges into node 0, one
    of them twice."""
    store = SimpleNamespace(
        splits={"train": np.array(rows), "valid": np.array([2])},
        columns={
            "node_offset": np.array([0, 3, 5, 9]),
            "edge_offset": np.array([0, 4, 4, 8]),
            "edge_dst": np.array([1, 0, 2, 1, 0, 0, 0, 0], dtype=np.uint8),
        },
    )
    store.stores = [store]
    return store


@pytest.mark.parametrize("at_once", [1, 2, 100])
@pytest.mark.parametrize(
    "rows, expected",
    [
        ([0], [1, 2, 1]),
        ([2], [4, 0, 0, 0]),
        ([2, 0], [1, 2, 1, 4, 0, 0, 0]),
        ([0, 1, 2], [1, 2, 1, 0, 0, 4, 0, 0, 0]),
    ],
)
def test_mean_log_degree(monkeypatch, rows, expected, at_once):
    monkeypatch.setattr(degrees, "GRAPHS_AT_ONCE", at_once)
    delta = degrees.mean_log_degree(make_store(rows))
    assert delta == pytest.approx(np.log1p(expected).mean(), rel=1e-12)


def test_without_edges():
    assert degrees.mean_log_degree(make_store([1])) == 1.0
    assert degrees.mean_log_degree(make_store([1]), "valid") != 1.0
