"""Expander edges of Exphormer (Shirzad et al. 2023, arXiv:2303.06147), as fields per edge.

``random_expander_5`` has the edges of 5 random permutations and their reverses, as the
released code (hamed1375/Exphormer) has them: self-loops and repeated edges stay. The cycles of
``hamiltonian_expander_5`` have no loops. A graph of at most 10 nodes gets all pairs; the degree
in a larger one is at most one less than its nodes. Edges are drawn until their spectral gap is
nearly that of a Ramanujan graph, at most 100 times.

Differences from the released code: the generator of a graph follows from its nodes and edges,
where the released code draws other edges in every run; the gap is computed by ARPACK.
"""

import re
from types import SimpleNamespace

import numpy as np

from graphormer_plugin.data.batches.fields.registered import register_field

COMPLETE = 10  # nodes of the largest graph that gets all pairs
DRAWS = 100
SLACK = 0.1  # of the gap
FIELD = re.compile(r"(random|hamiltonian)_expander_([1-9]\d*)")


def spectral_gap(num_nodes: int, edges: np.ndarray) -> float:
    """Second smallest eigenvalue of the Laplacian of a regular multigraph, [2, M] edges in
    both directions; self-loops add to degrees, as in the released code."""
    # Here, because it takes as long as the rest of a command's start.
    from scipy.sparse import csr_matrix
    from scipy.sparse.linalg import eigsh

    joined = (edges[0] != edges[1]).astype(float)
    adjacency = csr_matrix((joined, edges), (num_nodes, num_nodes))
    start = np.random.default_rng(0).normal(size=num_nodes)
    largest = eigsh(adjacency, 2, which="LA", v0=start, return_eigenvectors=False)
    return edges.shape[1] / num_nodes - float(largest.min())


def expander_edges(
    num_nodes: int, degree: int, family: str, generator: np.random.Generator
) -> np.ndarray:
    """Edges [2, M] of an expander."""
    if num_nodes <= COMPLETE:
        return np.argwhere(~np.eye(num_nodes, dtype=bool)).T
    wanted = max(0.0, 2 * degree - 2 * (2 * degree - 1) ** 0.5 - SLACK)
    degree = min(degree, num_nodes - 1)  # after the gap, as in the released code
    best = None
    largest = -1.0
    for _ in range(DRAWS):
        order = np.stack([generator.permutation(num_nodes) for _ in range(degree)])
        source = np.arange(num_nodes) + 0 * order
        if family == "hamiltonian":
            source = np.roll(order, 1, 1)
        forth = np.stack([source, order]).reshape(2, -1)
        edges = np.concatenate([forth, forth[::-1]], 1)
        gap = spectral_gap(num_nodes, edges)
        if gap > largest:
            best = edges
            largest = gap
        if gap >= wanted:
            break
    return best


def register_expander(field: str) -> None:
    """Register a field whose name says kind and degree; other names are left alone."""
    if (match := FIELD.fullmatch(field)) is None:
        return

    @register_field(field, per="edge")
    def _expander(graph: SimpleNamespace) -> tuple[np.ndarray, np.ndarray]:
        generator = np.random.default_rng(graph.seed)
        edges = expander_edges(graph.num_nodes, int(match[2]), match[1], generator)
        return edges, np.empty((edges.shape[1], 0))
