"""Shortest paths: known graphs, SciPy, NetworkX, the definition; wrong arguments."""

import threading
import time

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import floyd_warshall as scipy_floyd_warshall
from scipy.sparse.csgraph import shortest_path as scipy_shortest_path

from cython_ext import extract_paths, floyd_warshall, shortest_paths
from support import reference


def edge_index(*edges):
    return np.array(edges, dtype=np.int64).reshape(-1, 2).T.copy()


def ring(n):
    return edge_index(*[(i, (i + 1) % n) for i in range(n)])


def weights_of(n, edges):
    weights = np.full((n, n), np.inf)
    for u, v, weight in edges:
        weights[u, v] = weight
    return weights


def test_path():
    dist, pred = shortest_paths(edge_index((0, 1), (1, 2)), 3, directed=False)
    assert dist.tolist() == [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
    assert pred.tolist() == [[-1, 0, 1], [1, -1, 1], [1, 2, -1]]
    assert dist.dtype == pred.dtype == np.int32


def test_directed_path_is_one_way():
    dist, pred = shortest_paths(edge_index((0, 1), (1, 2)), 3)
    assert dist.tolist() == [[0, 1, 2], [-1, 0, 1], [-1, -1, 0]]
    assert pred.tolist() == [[-1, 0, 1], [-1, -1, 1], [-1, -1, -1]]


def test_ring_ties_go_to_the_lowest_predecessor():
    dist, pred = shortest_paths(ring(4), 4, directed=False)
    assert dist[0].tolist() == [0, 1, 2, 1]
    assert pred.tolist() == [[-1, 0, 1, 0], [1, -1, 1, 0], [1, 2, -1, 2], [3, 0, 3, -1]]


def test_ties_do_not_depend_on_the_order_of_discovery():
    # 0 finds 5 before 1, and 5 finds 2 before 1 does.
    edges = edge_index((0, 5), (0, 1), (5, 2), (1, 2), (5, 3), (1, 4), (3, 6), (4, 6))
    assert shortest_paths(edges, 7)[1][0].tolist() == [-1, 0, 1, 5, 1, 0, 3]


def test_star_and_clique():
    star = edge_index(*[(3, i) for i in (0, 1, 2, 4)])
    dist, pred = shortest_paths(star, 5, directed=False)
    assert dist[0].tolist() == [0, 2, 2, 1, 2]
    assert pred[0].tolist() == [-1, 3, 3, 0, 3]
    clique = edge_index(*[(i, j) for i in range(6) for j in range(6)])
    assert (shortest_paths(clique, 6)[0] == 1 - np.eye(6)).all()


def test_two_components_loops_and_parallel_edges():
    edges = edge_index((0, 0), (0, 1), (0, 1), (2, 3), (3, 3))
    dist, pred = shortest_paths(edges, 4, directed=False)
    N = -1  # no path, no predecessor
    assert dist.tolist() == [[0, 1, N, N], [1, 0, N, N], [N, N, 0, 1], [N, N, 1, 0]]
    assert pred.tolist() == [[N, 0, N, N], [1, N, N, N], [N, N, N, 2], [N, N, 3, N]]


@pytest.mark.parametrize("n", [0, 1, 2])
def test_no_edges(n):
    dist, pred = shortest_paths(edge_index(), n)
    assert dist.tolist() == (np.eye(n) - 1).tolist()
    assert (pred == -1).all() and pred.shape == (n, n)
    assert extract_paths(pred, 2).shape == (n, n, 2)
    dist, pred = floyd_warshall(np.full((n, n), np.inf))
    assert (np.diagonal(dist) == 0).all() and np.isinf(dist).sum() == n * n - n
    assert (pred == -1).all() and pred.shape == (n, n)


# Small, many words, sparse beyond a word (lists), dense beyond a word (sets).
@pytest.mark.parametrize(
    "count, max_nodes, density",
    [(400, 6, 2.0), (400, 14, 1.5), (60, 64, 3.0), (20, 150, 2.0), (1, 100, 50.0)],
)
@pytest.mark.parametrize("directed", [True, False])
def test_agrees_with_scipy_and_with_the_definition(count, max_nodes, density, directed):
    rng = np.random.default_rng(max_nodes)
    for trial in range(count):
        n, edges = reference.random_graph(rng, max_nodes, density, 1)
        n = max(n, 1)
        edges = edge_index(*[edge[:2] for edge in edges])
        dist, pred = shortest_paths(edges, n, directed=directed)
        matrix = csr_matrix((np.ones(edges.shape[1]), edges), shape=(n, n))
        matrix.data[:] = 1  # parallel edges have been summed
        expected = scipy_shortest_path(matrix, directed=directed, unweighted=True)
        expected[np.isinf(expected)] = -1
        assert np.array_equal(dist, expected), (trial, n, edges)
        if not directed:
            edges = np.concatenate([edges, edges[::-1]], axis=1)
        sets = reference.neighbour_sets(n, edges.T)
        for i in range(0, n, 1 + n // 8):
            _, expected = reference.hops_and_predecessors(n, sets, i)
            expected = [expected.get(j, -1) for j in range(n)]
            assert pred[i].tolist() == expected, (trial, n, edges, i)
        length = 1 + trial % 5
        paths = extract_paths(pred, length)
        assert np.array_equal((paths >= 0).sum(2), np.minimum(dist + 1, length))
        assert max_nodes > 20 or np.array_equal(paths, reference.paths_of(pred, length))


def test_paths_are_those_of_the_predecessors():
    edges = edge_index((0, 1), (1, 2), (2, 3))
    _, pred = shortest_paths(edges, 4)
    nodes = extract_paths(pred, 3)
    assert nodes[0].tolist() == [[0, -1, -1], [0, 1, -1], [0, 1, 2], [0, 1, 2]]
    assert nodes[3].tolist() == [[-1, -1, -1]] * 3 + [[3, -1, -1]]
    values = np.zeros((4, 4), dtype=np.uint8)
    values[[0, 1, 2], [1, 2, 3]] = [7, 8, 255]
    steps = extract_paths(pred, 2, values=values)
    assert steps[0].tolist() == [[0, 0], [7, 0], [7, 8], [7, 8]]
    assert steps[2].tolist() == [[0, 0], [0, 0], [0, 0], [255, 0]]
    assert steps.dtype == nodes.dtype == np.int32


@pytest.mark.parametrize(
    "row, message",
    [
        ([-1, 2, 1], r"pred\[0\] followed back from node 1"),  # a circle
        ([-1, -1, 1], r"pred\[0\] followed back from node 2"),  # a dead end
        ([-1, 3, 0], r"pred\[0, 1\] is 3, expected a node in \[0, 3\)"),
        ([-1, 0, -2], r"pred\[0, 2\] is -2"),
        ([0, 0, 0], r"pred\[0, 0\] is 0, expected -1 on the diagonal"),
    ],
)
def test_refuses_predecessors_that_are_none(row, message):
    pred = np.full((3, 3), -1, dtype=np.int32)
    pred[0] = row
    for values in (None, np.ones((3, 3), dtype=np.uint16)):
        with pytest.raises(ValueError, match=message):
            extract_paths(pred, 2, values=values)


def test_floyd_warshall_with_weights():
    weights = weights_of(4, [(0, 1, 1.5), (1, 2, 1.0), (0, 2, 4.0), (2, 0, -2.0)])
    dist, pred = floyd_warshall(weights)
    assert dist[0].tolist() == [0, 1.5, 2.5, np.inf]
    assert dist[1].tolist() == [-1, 0, 1, np.inf]
    assert dist[2].tolist() == [-2, -0.5, 0, np.inf]
    assert pred.tolist() == [[-1, 0, 1, -1], [2, -1, 1, -1], [2, 0, -1, -1], [-1] * 4]


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.uint8])
def test_floyd_warshall_of_an_adjacency_equals_shortest_paths(dtype):
    rng = np.random.default_rng(2)
    for n in (1, 5, 30):
        adjacency = (rng.random((n, n)) < 2 / n).astype(dtype)
        dist, pred = floyd_warshall(adjacency)
        hops, lowest = shortest_paths(np.stack(adjacency.nonzero()), n)
        assert np.array_equal(np.where(np.isinf(dist), -1, dist), hops)
        assert np.array_equal(pred, lowest)


def test_floyd_warshall_agrees_with_scipy():
    rng = np.random.default_rng(3)
    for trial in range(300):
        n = int(rng.integers(1, 20))
        weights = np.where(rng.random((n, n)) < 0.3, rng.random((n, n)) + 0.01, np.inf)
        dist, pred = floyd_warshall(weights)
        expected = scipy_floyd_warshall(np.where(np.isinf(weights), 0, weights))
        np.testing.assert_allclose(dist, expected, rtol=1e-12, err_msg=str(trial))
        source, target = np.nonzero(pred >= 0)
        before = pred[source, target]
        np.testing.assert_allclose(
            dist[source, before] + weights[before, target], dist[source, target]
        )


def test_inputs_are_not_modified():
    weights = weights_of(3, [(0, 1, 1.0), (1, 2, 2.0), (1, 1, 5.0)])
    edges = ring(3)
    before = weights.copy(), edges.copy()
    pred = floyd_warshall(weights)[1]
    kept = pred.copy()
    extract_paths(pred, 3)
    shortest_paths(edges, 3, directed=False)
    assert np.array_equal(weights, before[0]) and np.array_equal(edges, before[1])
    assert np.array_equal(pred, kept)


NO_PATHS = np.full((3, 3), -1, np.int32)
SQUARE = np.zeros((4, 4))


@pytest.mark.parametrize(
    "function, arguments, message",
    [
        (floyd_warshall, [weights_of(2, [(0, 1, np.nan)])], r"weights\[0, 1\] is nan"),
        (floyd_warshall, [weights_of(2, [(1, 0, -np.inf)])], r"\[1, 0\] is -inf"),
        (floyd_warshall, [weights_of(2, [(1, 0, 1e308)])], r"\[1, 0\] .* are finite"),
        (floyd_warshall, [weights_of(2, [(1, 1, -1)])], r"\[1, 1\] is -1.0, .* not"),
        (floyd_warshall, [weights_of(2, [(0, 1, -1), (1, 0, 0.5)])], "through node 1"),
        (floyd_warshall, [np.array([[0, 3], [1, 0]])], r"\[0, 1\] is 3, expected 0"),
        (floyd_warshall, [np.zeros((2, 3))], r"shape \[2, 3\] .* \[2, 2\]"),
        (floyd_warshall, [np.zeros((2, 2), np.float32)], "dtype float32, .* float64"),
        (floyd_warshall, [SQUARE[::2, ::2]], "C-contiguous"),
        (shortest_paths, [edge_index((0, 1), (1, 2)), 2], r"\[:, 1\] is \(1, 2\)"),
        (shortest_paths, [edge_index((0, -1)), 2], r"is \(0, -1\), expected node num"),
        (shortest_paths, [edge_index((0, 0)), 0], r"node numbers in \[0, 0\)"),
        (shortest_paths, [edge_index((2**62, 0)), 5], "4611686018427387904"),
        (shortest_paths, [edge_index(), -1], "n is -1, expected an integer in 0"),
        (shortest_paths, [edge_index(), 2**40], "n is 1099511627776"),
        (shortest_paths, [ring(2).astype(np.int32), 2], "dtype int32, .* int64"),
        (shortest_paths, [np.zeros((3, 2), int), 2], r"shape \[3, 2\] .* \[2, any\]"),
        (shortest_paths, [np.zeros((4, 2), int)[::2], 2], "C-contiguous"),
        (extract_paths, [NO_PATHS, 0], "max_length is 0, expected an integer at"),
        (extract_paths, [NO_PATHS, 2, SQUARE.astype("u1")], r"\[4, 4\] .* \[3, 3\]"),
        (extract_paths, [NO_PATHS, 2, np.zeros((3, 3), int)], "values has dtype int64"),
    ],
)
def test_refuses(function, arguments, message):
    values = {"values": arguments.pop()} if len(arguments) > 2 else {}
    with pytest.raises(ValueError, match=message):
        function(*arguments, **values)


def test_the_search_lets_other_threads_run():
    n = 2000
    search = threading.Thread(target=shortest_paths, args=(ring(n), n))
    turns = 0
    search.start()
    while search.is_alive():
        time.sleep(0.001)
        turns += 1
    assert turns > 3
