"""Eigenvectors: the eigen-equation and the convention."""

import numpy as np
import pytest

from graphormer_plugin.data.laplacian import laplacian_eigenvectors
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


def test_path_of_three_nodes_by_hand():
    found = laplacian_eigenvectors(columns_of((3, both([(0, 1), (1, 2)]))), 3)
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


def test_bad_k():
    with pytest.raises(ValueError, match="k is 0"):
        laplacian_eigenvectors(columns_of((1, [])), 0)
