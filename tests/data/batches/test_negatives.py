"""Drawn pairs: which they are, and what they depend on."""

import numpy as np

from graphormer_plugin.data.batches.negatives import Negatives, links_among_edges
from graphormer_plugin.data.columns import EDGE_LABEL_COLUMNS, edge_label_index_of


def columns(sizes, pairs, edges=None):
    """Labels of graphs; ``pairs`` has (first, second, label) of each, ``edges`` two nodes."""
    edges = edges or [[] for _ in sizes]
    joined = np.concatenate([np.reshape(part, (-1, 2)) for part in edges])
    table = np.concatenate([np.reshape(part, (-1, 3)) for part in pairs])
    return {
        "node_offset": np.cumsum([0, *sizes]),
        "edge_offset": np.cumsum([0, *map(len, edges)]),
        **dict(zip(("edge_src", "edge_dst"), joined.T.astype(np.uint8))),
        "link_offset": np.cumsum([0, *map(len, pairs)]),
        **dict(zip(EDGE_LABEL_COLUMNS, table.T[:2].astype(np.uint8))),
        "target": table[:, 2:].astype(np.float32),
    }


def added(negatives, labelled, ids, epoch=0, first=0):
    """Pairs and labels of each of some graphs, with those that were drawn."""
    ids = np.array(ids)
    found = negatives.added(labelled, ids, first + ids, epoch)
    cut = found["link_offset"][1:-1]
    ends, target = np.split(edge_label_index_of(found), cut), np.split(
        found["target"][:, 0], cut
    )
    return [(e.tolist(), t.tolist()) for e, t in zip(ends, target, strict=True)]


PAIRS = [
    [(0, 1, 1), (2, 0, 1), (3, 4, 0)],
    [],
    [(1, 0, 1)],
    [(0, 5, 1), (1, 2, np.nan)],
]
LABELLED = columns([6, 4, 2, 9], PAIRS)


def test_drawn_pairs_are_behind_those_of_the_data():
    first, second, third, fourth = added(Negatives(3, 1), LABELLED, range(4))
    ends, target = first
    assert ends[:3] == [[0, 1], [2, 0], [3, 4]]
    assert target == [1, 1] + [0] * 6  # one of six is in the data
    linked = [[0, 1], [1, 0], [2, 0], [0, 2]]
    for pair in ends[3:]:
        assert pair not in linked and pair[0] != pair[1]
        assert 0 <= min(pair) and max(pair) < 6
    assert second == ([], [])
    assert third == ([[1, 0]], [1])  # all pairs are linked
    ends, target = fourth
    assert len(ends) == 5 and target[2:] == [0, 0, 0] and np.isnan(target[1])


def test_all_other_pairs_are_drawn():
    drawn = added(Negatives(500, 1), LABELLED, [3])[0][0][2:]
    pairs, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(drawn) == 500 and len(pairs) == 9 * 8 - 2
    assert counts.max() < 25  # the mean is 7


def test_they_follow_from_seed_epoch_and_number():
    negatives = Negatives(9, 1)
    whole = added(negatives, LABELLED, [0, 2, 3])
    parts = added(negatives, LABELLED, [0, 2]) + added(negatives, LABELLED, [3])
    assert str(parts) == str(whole)
    others = [
        added(Negatives(9, 2), LABELLED, [0]),
        added(negatives, LABELLED, [0], epoch=1),
        added(negatives, LABELLED, [0], first=4),
    ]
    assert all(other[0] != whole[0] for other in others)


def test_enough_zeros_in_the_data():
    plenty = columns([6], [[(0, 1, 1), (2, 0, 0), (3, 4, 0)]])
    assert len(added(Negatives(1, 1), plenty, [0])[0][0]) == 3
    assert len(added(Negatives(0, 1), LABELLED, [0])[0][0]) == 3


def test_edges_are_never_drawn():
    edges = [[], [], [], [(1, 0), (5, 6), (0, 5)]]
    joined = columns([6, 4, 2, 9], PAIRS, edges)
    for ids in ([3], [0, 3]):
        drawn = added(Negatives(500, 1), joined, ids)[-1][0][2:]
        assert len(np.unique(drawn, axis=0)) == 9 * 8 - 2 * 3
        for pair in ([0, 1], [1, 0], [5, 6], [6, 5]):
            assert pair not in drawn


def test_links_are_told_from_contacts():
    contacts = [[(0, 2)], [(0, 1)], [(0, 0)], [(1, 0), (1, 2)]]
    assert not links_among_edges(columns([6, 4, 2, 9], PAIRS, contacts))[0].any()
    assert not links_among_edges(LABELLED)[0].any()
    contacts[3] = [(0, 5)]
    found = links_among_edges(columns([6, 4, 2, 9], PAIRS, contacts))
    assert found[:, -1].tolist() == [True, False]
    contacts[3][-1] = (5, 0)
    found = links_among_edges(columns([6, 4, 2, 9], PAIRS, contacts))
    assert found[:, -1].tolist() == [False, True]
