"""Colours: the refinement by hand, one numbering for all graphs."""

import numpy as np
import pytest

from graphormer_plugin.data.batches.fields.weisfeiler_lehman import wl_roles
from support.edge_lists import both, columns_of, random_graph

PATH = (4, both([(0, 1), (1, 2), (2, 3)]))


def refine(n, edges):
    """Two rounds of colour refinement, as nested tuples."""
    neighbours = [set() for _ in range(n)]
    for u, v in edges:
        if u != v:
            neighbours[u].add(v)
            neighbours[v].add(u)
    colour = [()] * n
    for _ in range(2):
        colour = [
            (colour[v], tuple(sorted(colour[u] for u in neighbours[v])))
            for v in range(n)
        ]
    return colour


@pytest.mark.parametrize("density", [0.1, 0.4, 0.9])
def test_roles_are_the_colours_of_two_rounds(density):
    """Equal within and across graphs where the colours are, different elsewhere."""
    rng = np.random.default_rng(0)
    graphs = [random_graph(rng, n, density) for n in rng.integers(1, 25, 30).tolist()]
    roles = wl_roles(columns_of(*graphs))
    assert roles.dtype == np.int32 and roles.min() >= 0
    colours = [colour for graph in graphs for colour in refine(*graph)]
    pairs = set(zip(roles.tolist(), colours))
    assert len(pairs) == len({role for role, _ in pairs}) == len(set(colours))
    assert len(pairs) > 10


def test_numbers_by_hand():
    """No neighbour 0; then largest degree 1, then 2: (1), (1, 1), (1, 2), (2), (2, 2)."""
    ring = (5, both([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]))
    star = (3, both([(0, 1), (0, 2)]))
    roles = wl_roles(columns_of((1, []), (2, both([(0, 1)])), star, PATH, ring))
    assert roles.tolist() == [0, 1, 1, 2, 4, 4, 4, 3, 3, 4, 5, 5, 5, 5, 5]


@pytest.mark.parametrize(
    "degree, number", [(2, 6), (3, 20), (4, 70), (5, 252), (6, 924)]
)
def test_small_degrees_come_first(degree, number):
    """A centre with `degree` neighbours, which have up to as many."""
    rng = np.random.default_rng(degree)
    graphs = []
    for _ in range(100):
        edges, n = [], degree + 1
        for leaf in range(1, degree + 1):
            edges.append((0, leaf))
            for _ in range(rng.integers(0, degree)):
                edges.append((leaf, n))
                n += 1
        graphs.append((n, both(edges)))
    columns = columns_of(*graphs)
    centres = wl_roles(columns)[columns["node_offset"][:-1]]
    assert centres.max() < number <= 2 * centres.max()
    smaller = {2: 2, 3: 6, 4: 20, 5: 70, 6: 252}[degree]
    assert centres.min() >= smaller


def test_degrees_beyond_the_list():
    def star(leaves):
        return leaves + 1, both([(0, leaf) for leaf in range(1, leaves + 1)])

    roles = wl_roles(columns_of(star(6), star(7), star(8)))
    assert roles[0] < 924 and (roles[7:] >= 924).all()
    assert len(set(roles[7:].tolist())) == 4


def test_numbering_of_nodes_and_order_of_graphs_do_not_matter():
    rng = np.random.default_rng(1)
    graphs = [random_graph(rng, 9) for _ in range(4)]
    roles = wl_roles(columns_of(*graphs)).reshape(4, 9)
    moved, orders = [], []
    for n, edges in graphs[::-1]:
        rank = rng.permutation(n)
        orders.append(rank)
        moved.append((n, [(int(rank[u]), int(rank[v])) for u, v in edges]))
    again = wl_roles(columns_of(*moved)).reshape(4, 9)[::-1]
    for one, other, rank in zip(roles, again, orders[::-1]):
        assert np.array_equal(one, other[rank])


def test_direction_loops_and_repeats_do_not_matter():
    other = (4, [(1, 0), (1, 2), (2, 1), (3, 2), (3, 3)])
    roles = [wl_roles(columns_of(graph)) for graph in (PATH, other)]
    assert np.array_equal(*roles)


def test_pieces_and_empty_graphs(monkeypatch):
    rng = np.random.default_rng(2)
    graphs = [random_graph(rng, int(n)) for n in rng.integers(0, 15, 20)]
    expected = wl_roles(columns_of(*graphs))
    module = "graphormer_plugin.data.batches.fields.weisfeiler_lehman._EDGES_AT_ONCE"
    for edges in (1, 40):
        monkeypatch.setattr(module, edges)
        assert np.array_equal(wl_roles(columns_of(*graphs)), expected)
