"""Eigenvectors: the eigen-equation and the convention."""

import numpy as np
import pytest
from speed.measuring import memory, restart_peak

from graphormer_plugin.data.batches.fields import laplacian as module
from graphormer_plugin.data.batches.fields.laplacian import laplacian_eigenvectors
from support.edge_lists import both, columns_of, random_graph


def laplacian(n, edges):
    """The definition, entry by entry."""
    adjacency = np.zeros((n, n))
    for u, v in edges:
        if u != v:
            adjacency[u, v] = adjacency[v, u] = 1
    degree = adjacency.sum(0)
    matrix = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if adjacency[i, j]:
                matrix[i, j] = -1 / np.sqrt(degree[i] * degree[j])
        matrix[i, i] = float(degree[i] > 0)
    return matrix


def test_eigen_equation_order_and_norm():
    rng = np.random.default_rng(0)
    graphs = [random_graph(rng, n) for n in rng.integers(1, 20, 40)]
    columns, k = columns_of(*graphs), 25
    found = laplacian_eigenvectors(columns, k)
    assert found.dtype == np.float32 and found.shape == (columns["node_offset"][-1], k)
    for number, (n, edges) in enumerate(graphs):
        start = columns["node_offset"][number]
        vectors = found[start : start + n].astype(np.float64)
        matrix = laplacian(n, edges)
        values = np.linalg.eigvalsh(matrix)
        expected = values[values > 1e-9]  # one zero per component is left out
        used = vectors[:, : len(expected)]
        assert not vectors[:, len(expected) :].any()
        assert np.abs(matrix @ used - used * expected).max(initial=0) < 1e-6
        assert np.abs(used.T @ used - np.eye(len(expected))).max(initial=0) < 1e-6
        # the entry of largest size is positive
        assert (used.max(0, initial=0) > np.abs(used).max(0, initial=0) - 2e-6).all()


def test_path_of_three_nodes_by_hand(caplog):
    caplog.set_level("INFO")
    found = laplacian_eigenvectors(columns_of((3, both([(0, 1), (1, 2)]))), 3)
    assert "1 of 1 graphs are too small for 3 eigenvectors" in caplog.text
    half = 0.5**0.5
    # eigenvalue 1: the ends against each other; 2: the middle against the ends
    expected = [[half, -0.5, 0], [0, half, 0], [-half, -0.5, 0]]
    assert np.allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_small_graphs_are_padded(n):
    columns = columns_of((n, both([(0, 1)]) if n == 2 else []), (3, []))
    found = laplacian_eigenvectors(columns, 4)
    assert found.shape == (n + 3, 4)
    assert np.abs(found).sum() == pytest.approx(2**0.5 if n == 2 else 0)


def test_components_have_a_trivial_vector_each():
    two = (5, both([(0, 1), (2, 3), (3, 4)]))
    found = laplacian_eigenvectors(columns_of(two), 4)
    values = np.diag(found.T @ laplacian(*two) @ found)
    assert np.allclose(values, [1, 2, 2, 0], atol=1e-5)  # the two zeros are gone


def test_direction_loops_and_repeats_do_not_matter():
    plain = columns_of((4, both([(0, 1), (1, 2), (2, 3), (3, 1)])))
    other = columns_of((4, [(1, 0), (1, 2), (2, 3), (3, 1), (2, 2)]))
    first, second = (laplacian_eigenvectors(columns, 3) for columns in (plain, other))
    assert np.array_equal(first, second)


def test_the_order_of_graphs_does_not_matter():
    rng = np.random.default_rng(1)
    graphs = [random_graph(rng, 7) for _ in range(5)]
    found = laplacian_eigenvectors(columns_of(*graphs), 3).reshape(5, 7, 3)
    back = laplacian_eigenvectors(columns_of(*graphs[::-1]), 3).reshape(5, 7, 3)
    assert np.array_equal(found, back[::-1])


def tree(rng, n):
    return both([(int(rng.integers(max(0, i - 4), i)), i) for i in range(1, n)])


def shifted(edges, by):
    return [(u + by, v + by) for u, v in edges]


def grid(n):
    rows = [(i * n + j, i * n + j + 1) for i in range(n) for j in range(n - 1)]
    return both(
        rows + [(u * n + v, u * n + v + n) for u in range(n - 1) for v in range(n)]
    )


PATH = both([(i, i + 1) for i in range(69)])
RING = both([(i, (i + 1) % 60) for i in range(60)])  # all but the last are double
STAR = both([(0, i) for i in range(1, 80)])  # one eigenvalue, 78 times
BINARY = both([((i - 1) // 2, i) for i in range(1, 127)])  # many multiple ones
RANDOM = np.random.default_rng(3)
LARGE = {
    "path": (70, PATH),
    "ring": (60, RING),
    "star": (80, STAR),
    "binary tree": (127, BINARY),
    "grid": (100, grid(10)),
    "random tree": (150, tree(RANDOM, 150)),
    "random graph": random_graph(RANDOM, 90),
    # two equal components, a small one, and nodes alone
    "components": (214, PATH + shifted(PATH, 70) + shifted(tree(RANDOM, 66), 140)),
    "equal stars": (240, STAR + shifted(STAR, 80) + shifted(STAR, 160)),
    "nothing": (100, []),
}


@pytest.mark.parametrize("iterated_row", [0, 100], ids=["iterated", "factorised"])
@pytest.mark.parametrize("k", [1, 5, 12])
@pytest.mark.parametrize("name", LARGE)
def test_sparse_solver_is_the_dense_one(monkeypatch, name, k, iterated_row):
    """Eigenvalues; vectors of simple ones; the projection on the space of a multiple one
    that k does not cut; of one that it cuts, that the vectors lie in the dense space.
    """
    n, edges = LARGE[name]
    matrix, columns = laplacian(n, edges), columns_of((n, edges))
    dense = laplacian_eigenvectors(columns, k).astype(np.float64)
    monkeypatch.setattr(module, "DENSE_NODES", 30)
    monkeypatch.setattr(module, "ITERATED_ROW", iterated_row)
    found = laplacian_eigenvectors(columns, k).astype(np.float64)
    assert np.array_equal(found, laplacian_eigenvectors(columns, k))  # always the same
    values, vectors = np.linalg.eigh(matrix)
    trivial = int((values < 1e-9).sum())
    expected, vectors = values[trivial:], vectors[:, trivial:]
    used = min(k, len(expected))
    assert not found[:, used:].any()
    np.testing.assert_allclose(found.T @ found, dense.T @ dense, atol=2e-6)
    residual = matrix @ found[:, :used] - found[:, :used] * expected[:used]
    assert np.abs(residual).max(initial=0) < 2e-6
    start = 0
    while start < used:
        end = start + 1
        while end < len(expected) and expected[end] - expected[start] < 1e-7:
            end += 1
        space, inside = vectors[:, start:end], slice(start, min(end, used))
        if end - start == 1:
            np.testing.assert_allclose(found[:, start], dense[:, start], atol=2e-6)
        elif end <= used:
            one, other = found[:, inside], dense[:, inside]
            np.testing.assert_allclose(one @ one.T, other @ other.T, atol=5e-6)
        else:
            rest = found[:, inside] - space @ (space.T @ found[:, inside])
            assert np.abs(rest).max() < 5e-6
        start = end


def test_slow_convergence_is_factorised(monkeypatch):
    n, edges = LARGE["path"]
    monkeypatch.setattr(module, "DENSE_NODES", 30)
    expected = laplacian_eigenvectors(columns_of((n, edges)), 3)
    monkeypatch.setattr(module, "ITERATED_ROW", 0)
    monkeypatch.setattr(module, "ITERATIONS", 1)
    assert np.array_equal(laplacian_eigenvectors(columns_of((n, edges)), 3), expected)


@pytest.mark.slow
def test_twenty_thousand_nodes_in_little_memory():
    """The dense solver takes 9.6 GB."""
    n = 20_000
    columns = columns_of((n, tree(np.random.default_rng(0), n)))
    before = restart_peak()
    found = laplacian_eigenvectors(columns, 8).astype(np.float64)
    assert memory("VmHWM") - before < 200e6
    np.testing.assert_allclose(found.T @ found, np.eye(8), atol=1e-5)
