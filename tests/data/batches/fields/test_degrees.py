"""Degrees over a split."""

from types import SimpleNamespace

import numpy as np
import pytest

from graphormer_plugin.data.batches.fields import degrees


def make_store(rows, times=1):
    """A path of three nodes, two loose nodes, and a star of four edges into node 0, one
    of them twice; the three graphs so many times."""
    train = np.add.outer(3 * np.arange(times), rows).ravel()
    store = SimpleNamespace(
        graphs_in={"train": train}.get,
        columns={
            "node_offset": np.cumsum([0, *[3, 2, 4] * times]),
            "edge_offset": np.cumsum([0, *[4, 0, 4] * times]),
            "edge_dst": np.array([1, 0, 2, 1, 0, 0, 0, 0] * times, dtype=np.uint8),
        },
    )
    store.stores = [store]
    return store


@pytest.mark.parametrize("times", [1, degrees.GRAPHS_AT_ONCE + 1])
@pytest.mark.parametrize(
    "rows, expected",
    [
        ([0], [1, 2, 1]),
        ([2], [4, 0, 0, 0]),
        ([2, 0], [1, 2, 1, 4, 0, 0, 0]),
        ([0, 1, 2], [1, 2, 1, 0, 0, 4, 0, 0, 0]),
    ],
)
def test_mean_log_degree(rows, expected, times):
    delta = degrees.mean_log_degree(make_store(rows, times))
    assert delta == pytest.approx(np.log1p(expected).mean(), rel=1e-12)


def test_without_edges():
    assert degrees.mean_log_degree(make_store([1])) == 1.0
