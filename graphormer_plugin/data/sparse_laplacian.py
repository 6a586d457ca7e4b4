"""Laplacian eigenvectors of a large graph with few edges (`laplacian` documents them)."""

from collections.abc import Mapping

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph, linalg


def of_graph(
    columns: Mapping[str, np.ndarray], graph: int, size: int, k: int, dense_nodes: int
) -> np.ndarray:
    """Eigenvectors [size, k] without the trivial ones, of any sign.

    Args:
        columns: as `laplacian_eigenvectors` takes them.
        graph: its number.
        size: its nodes.
        k: vectors.
        dense_nodes: nodes of the largest component that LAPACK decomposes.
    """
    adjacency = _adjacency(columns, graph, size)
    count, component = csgraph.connected_components(adjacency, directed=False)
    order = np.argsort(component, kind="stable")
    ends = np.searchsorted(component[order], np.arange(count + 1))
    found: list[tuple[float, np.ndarray, np.ndarray]] = []
    for first, end in zip(ends[:-1], ends[1:]):
        nodes = order[first:end]
        if len(nodes) > 1:
            values, vectors = _of_component(adjacency[nodes][:, nodes], k, dense_nodes)
            found += [(value, nodes, v) for value, v in zip(values, vectors.T)]
    found.sort(key=lambda one: one[0])
    out = np.zeros((size, k))
    for column, (_, nodes, vector) in enumerate(found[:k]):
        out[nodes, column] = vector
    return out


def _adjacency(
    columns: Mapping[str, np.ndarray], graph: int, size: int
) -> sparse.csr_array:
    """float64 [size, size] of 0 and 1, symmetric, diagonal 0."""
    edges = slice(*map(int, columns["edge_offset"][graph : graph + 2]))
    source, target = (
        np.asarray(columns[name][edges], np.int64) for name in ("edge_src", "edge_dst")
    )
    kept = source != target
    ends = source[kept], target[kept]
    half = sparse.coo_array((np.ones(kept.sum()), ends), (size, size)).tocsr()
    both = half + half.T
    both.data[:] = 1
    return both


def _of_component(
    adjacency: sparse.csr_array, k: int, dense_nodes: int
) -> tuple[np.ndarray, np.ndarray]:
    """The k smallest eigenvalues above 0 of a connected graph, and their vectors [n, k];
    fewer for a small one."""
    n = adjacency.shape[0]
    scale = sparse.diags_array(adjacency.sum(0) ** -0.5)
    laplacian = (sparse.eye_array(n) - scale @ adjacency @ scale).tocsc()
    if n <= max(dense_nodes, 4 * (k + 1)):
        values, vectors = np.linalg.eigh(laplacian.toarray())
        return values[1 : k + 1], vectors[:, 1 : k + 1]
    values, vectors = _smallest(laplacian, k + 1)
    return values[1:], vectors[:, 1:]


def _smallest(laplacian: sparse.csc_array, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The smallest eigenvalues and their vectors, with all copies of multiple ones."""
    n = laplacian.shape[0]
    # A path, which has the smallest eigenvalue above 0, has it near 5 / n^2.
    shift = 1.0 / n**2
    factors = linalg.splu(
        laplacian + shift * sparse.eye_array(n, format="csc"),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    known = np.zeros((n, 0))
    values = np.zeros(0)
    random = np.random.default_rng(n)

    def inverse(vector: np.ndarray) -> np.ndarray:
        """That of the shifted Laplacian, on the complement of what is known."""
        vector = vector - known @ (known.T @ vector)
        vector = factors.solve(vector)
        return vector - known @ (known.T @ vector)

    while True:
        operator = linalg.LinearOperator((n, n), matvec=inverse, dtype=np.float64)
        inverted, vectors = linalg.eigsh(
            operator, count, which="LA", v0=random.standard_normal(n)
        )
        known, _ = np.linalg.qr(np.concatenate([known, vectors], 1))
        last = np.sort(values)[count - 1] if len(values) >= count else np.inf
        values = np.concatenate([values, 1 / inverted - shift])
        if 1 / inverted.max() - shift >= last * (1 - 1e-9):
            break
    # One basis, in the order of the eigenvalues.
    values, rotation = np.linalg.eigh(known.T @ (laplacian @ known))
    return values[:count], (known @ rotation)[:, :count]
