"""Chordless cycles: known graphs and molecules, and NetworkX on random ones."""

import numpy as np
import pytest

from cython_ext import chordless_cycles
from support import reference
from support.reference import columns_of, random_graph


def cycles(graphs, max_size, **options):
    """Sets of nodes of each graph; checks that nodes go around their cycle."""
    edges_of = [{frozenset(edge[:2]) for edge in edges} for _, edges in graphs]
    count, size, node = chordless_cycles(columns_of(graphs), max_size, **options)
    assert count.dtype == np.int64 and size.dtype == node.dtype == np.int32
    assert count.sum() == len(size) and size.sum() == len(node)
    ends = np.cumsum(size)
    around = [node[end - s : end].tolist() for end, s in zip(ends, size)]
    found, first = [], 0
    edges_of = edges_of[options.get("first", 0) :]
    for number, edges in zip(count, edges_of):
        own = around[first : first + number]
        for nodes in own:
            assert min(nodes) == nodes[0] and nodes[1] < nodes[-1]
            for u, v in zip(nodes, [*nodes[1:], nodes[0]]):
                assert frozenset((u, v)) in edges
        assert len({frozenset(nodes) for nodes in own}) == len(own)
        found.append(sorted(sorted(nodes) for nodes in own))
        first += number
    return found


def graph_of(nodes, edges, both=True):
    edges = [(u, v, 1) for u, v in edges]
    return nodes, edges + [(v, u, 1) for u, v, _ in edges] * both


def molecule(smiles):
    from rdkit import Chem

    mol = Chem.MolFromSmiles(smiles)
    bonds = [(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in mol.GetBonds()]
    return graph_of(mol.GetNumAtoms(), bonds)


def sizes(smiles, max_size):
    return sorted(map(len, cycles([molecule(smiles)], max_size)[0]))


@pytest.mark.parametrize(
    "name, smiles, expected",
    [
        ("benzene", "c1ccccc1", [6]),
        # Around both: the shared bond is a chord.
        ("decalin", "C1CCC2CCCCC2C1", [6, 6]),
        ("naphthalene", "c1ccc2ccccc2c1", [6, 6]),
        ("anthracene", "c1ccc2cc3ccccc3cc2c1", [6, 6, 6]),
        ("spiro[5.4]", "C1CCC2(CC1)CCCC2", [5, 6]),
        ("biphenyl", "c1ccccc1c1ccccc1", [6, 6]),
        # Bridged: around the bridge there is a third ring, which has no chord.
        ("norbornane", "C1CC2CCC1C2", [5, 5, 6]),
        ("bicyclo[2.2.2]octane", "C1CC2CCC1CC2", [6, 6, 6]),
        ("adamantane", "C1C2CC3CC1CC(C2)C3", [6, 6, 6, 6, 8, 8, 8]),
        # Six faces, and four hexagons around two opposite corners.
        ("cubane", "C12C3C4C1C5C2C3C45", [4] * 6 + [6] * 4),
        ("cyclooctadecane", "C1" + "C" * 16 + "C1", [18]),
        ("porphine", "c1cc2cc3ccc([nH]3)cc4ccc(cc5ccc(cc1n2)[nH]5)n4", None),
        ("hexane", "CCCCCC", []),
        ("methane", "C", []),
    ],
)
def test_molecules(name, smiles, expected):
    if expected is None:
        # Four pyrroles, and around the hole, past each of them by its nitrogen or by
        # its two carbons.
        expected = [5] * 4 + [16] + [17] * 4 + [18] * 6
    assert sizes(smiles, 18) == expected
    assert sizes(smiles, 6) == [size for size in expected if size <= 6]


def test_exact_small_graphs():
    square_with_chord = graph_of(4, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])
    complete = graph_of(5, [(u, v) for u in range(5) for v in range(u)])
    ring = graph_of(7, [(u, (u + 1) % 7) for u in range(7)])
    two = graph_of(9, [(0, 1), (1, 2), (2, 0), (5, 6), (6, 7), (7, 8), (8, 5)])
    graphs = [square_with_chord, complete, ring, two]
    graphs += [(0, []), (1, []), (2, [(0, 1, 1)])]
    expected = [
        [[0, 1, 2], [0, 2, 3]],
        [[a, b, c] for a in range(5) for b in range(a + 1, 5) for c in range(b + 1, 5)],
        [[*range(7)]],
        [[0, 1, 2], [5, 6, 7, 8]],
        *[[]] * 3,
    ]
    assert cycles(graphs, 7) == expected
    assert cycles(graphs, 6)[2] == []
    assert cycles(graphs, 3)[3] == [[0, 1, 2]]
    assert cycles(graphs, 9, first=2, last=4) == expected[2:4]
    assert cycles([], 5) == []


def test_loops_parallel_and_directed_edges_do_not_matter():
    edges = [(0, 1, 1), (2, 1, 1), (2, 3, 1), (3, 0, 1)]
    edges += [(3, 0, 2), (1, 1, 1), (0, 3, 4)]
    assert cycles([(4, edges)], 4) == [[[0, 1, 2, 3]]]


@pytest.mark.parametrize("density", [0.8, 1.2, 2, 3.5])
def test_equals_networkx_on_random_graphs(density):
    rng = np.random.default_rng(3)
    graphs = [random_graph(rng, 14, density, 3) for _ in range(30)]
    for max_size in (3, 4, 5, 8, 14):
        expected = [reference.chordless_cycles(*graph, max_size) for graph in graphs]
        assert cycles(graphs, max_size) == expected


def test_a_dense_graph_is_refused_at_once():
    rng = np.random.default_rng(0)
    ends = np.argwhere(np.triu(rng.random((100, 100)) < 0.3, 1))
    dense = graph_of(100, ends.tolist())
    message = "graph 1 takes more than .* steps to find its chordless cycles"
    with pytest.raises(ValueError, match=message):
        cycles([graph_of(3, []), dense], 18)
    assert {len(nodes) for nodes in cycles([dense], 3)[0]} == {3}


@pytest.mark.parametrize(
    "options, message",
    [
        ({"max_size": 2}, "max_size is 2, expected an integer in 3"),
        ({"first": -1}, "graph_ids has -1"),
        ({"last": 2}, r"graph_ids has 1, expected graphs in \[0, 1\)"),
    ],
)
def test_refuses_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        chordless_cycles(columns_of([graph_of(2, [])]), **{"max_size": 5, **options})


def test_refuses_columns():
    columns = columns_of([(1, []), (2, [(0, 1, 1), (1, 0, 1)])])
    columns["edge_dst"][1] = 2
    with pytest.raises(ValueError, match=r"edge_dst of graph 1 holds 2, .* \[0, 2\)"):
        chordless_cycles(columns, 5)
