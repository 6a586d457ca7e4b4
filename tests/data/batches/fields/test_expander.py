"""Expander edges: those of the released code, and the same wherever a graph is."""

from types import SimpleNamespace

import numpy as np
import pytest

from graphormer_plugin.data.batches.fields import BatchSpec
from graphormer_plugin.data.batches.fields.expander import (
    expander_edges,
    register_expander,
    spectral_gap,
)
from graphormer_plugin.data.batches.fields.field_cache import compute_columns
from support.golden import load_golden

KINDS = {"random": "Random-d", "hamiltonian": "Hamiltonian"}
FIELD = "random_expander_3"


@pytest.mark.parametrize("kind", KINDS)
def test_equal_to_the_released_code(kind):
    arrays = load_golden("exphormer_expander")
    keys = [name for name in arrays if name.startswith(f"expander/{KINDS[kind]}/")]
    assert len(keys) == 8
    for key in keys:
        nodes, degree = map(int, key.split("/")[2:])
        found = expander_edges(nodes, degree, kind, np.random.default_rng(0))
        assert sorted(found.T.tolist()) == sorted(arrays[key].tolist()), key
        gap = arrays[key.replace("expander", "gap", 1)]
        assert nodes <= 10 or abs(spectral_gap(nodes, found) - gap) < 1e-9


@pytest.mark.parametrize(("shift", "left"), [(5, 1000), (0, 804)])
def test_edges_are_drawn_until_their_gap_is_wide(shift, left):
    """Pairs are apart and a cycle is narrow; at most 100 times, and the widest is kept."""
    nodes = np.arange(24)
    cycle, other = np.roll(nodes, 1), np.roll(nodes, shift or 1)
    orders = iter([nodes ^ 1] * 2 + [cycle, other] + [nodes ^ 1] * 1000)
    draws = SimpleNamespace(permutation=lambda _: next(orders))
    found = expander_edges(24, 2, "random", draws)
    forth = np.stack([[*nodes, *nodes], [*cycle, *other]])
    assert np.array_equal(found, np.concatenate([forth, forth[::-1]], 1))
    assert len([*orders]) == left


def edges_of(*sizes, step=1):
    """Expander edges of cycles of these sizes."""
    register_expander(FIELD)
    cycles = [np.stack([np.arange(n), np.roll(np.arange(n), step)]) for n in sizes]
    offset = np.cumsum([0, *sizes])
    columns = dict.fromkeys(("node_offset", "edge_offset"), offset)
    columns |= zip(("edge_src", "edge_dst"), np.concatenate(cycles, 1))
    made = compute_columns(columns, BatchSpec({FIELD, f"{FIELD}_index"}))
    ends, *rest = np.split(made[f"set.{FIELD}.ends"], made[f"set.{FIELD}.offset"][1:-1])
    return [ends, *rest]


def test_edges_follow_from_the_graph():
    first, small, other = edges_of(24, 4, 25)
    assert len(first) == 2 * 3 * 24 and len(small) == 12 and len(other) == 150
    assert all(map(np.array_equal, edges_of(25, 24), (other, first)))
    assert not np.array_equal(first, edges_of(24, step=5)[0])
    for nodes in (12, 13):  # a degree below them, as in the released code
        found = expander_edges(nodes, 13, "random", np.random.default_rng(0))
        assert found.shape == (2, 2 * (nodes - 1) * nodes)
    assert len({tuple(map(tuple, edges.tolist())) for edges in edges_of(11, 12)}) == 2
