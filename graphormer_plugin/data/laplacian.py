"""Laplacian eigenvectors of every graph (`field_cache` keeps them beside a store).

The vectors are those of I - D^(-1/2) A D^(-1/2) (section 3.1 of Dwivedi & Bresson 2021,
arXiv:2012.09699). A is the adjacency of distinct neighbours. A directed graph counts as
undirected, and self-loops do not count. The diagonal entry of a node without neighbours is
0, so every component has the eigenvalue 0 exactly once.

Convention: eigenvalues ascend. The vectors of eigenvalue 0, one per component, are
trivial and left out. k of the others are kept, and a graph with fewer is padded with
zeros. Each has norm 1, and its entry of largest size is positive (the first one of those
that are equal up to 1e-6). The basis of an eigenspace of several dimensions is LAPACK's for
the numbering of the nodes: arbitrary, but the same in every computation.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from tqdm import tqdm

_TRIVIAL = 1e-9  # eigenvalues below; a path of 10,000 nodes has a next one of 5e-8
_TIE = 1e-6
_ENTRIES_AT_ONCE = 1 << 20  # of the matrices that are decomposed together

# Largest graph with a dense solver; see examples/speed/README.md for the crossing.
DENSE_NODES = 1024


def laplacian_eigenvectors(
    columns: Mapping[str, np.ndarray], k: int, progress: str | None = None
) -> np.ndarray:
    """Eigenvectors of all graphs, by the convention of this module.

    Args:
        columns: ``node_offset``, ``edge_offset``, ``edge_src``, ``edge_dst`` as in a store.
        k: vectors per graph, >= 1.
        progress: label of a progress bar; None shows none.

    Returns:
        float32 [sum N, k].
    """
    if k < 1:
        raise ValueError(f"k is {k}, expected at least 1")
    node_offset = np.asarray(columns["node_offset"])
    out = np.zeros((int(node_offset[-1]), k), dtype=np.float32)
    with tqdm(
        total=len(node_offset) - 1, unit="graph", desc=progress, disable=not progress
    ) as bar:
        for graphs, size in _graphs_of_one_size(np.diff(node_offset)):
            rows = node_offset[graphs][:, None] + np.arange(size)
            if size > DENSE_NODES:
                # Late: it imports scipy, and hardly any data have such graphs.
                from graphormer_plugin.data.sparse_laplacian import of_graph

                for graph, own in zip(graphs.tolist(), rows):
                    vectors = of_graph(columns, graph, size, k, DENSE_NODES)
                    out[own] = vectors * _signs(vectors)
            else:
                out[rows] = _decompose(_adjacency(columns, graphs, size), k)
            bar.update(len(graphs))
    return out


def _graphs_of_one_size(sizes: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
    """Graphs of equal size that are decomposed together, and their size."""
    for size in np.unique(sizes[sizes > 0]).tolist():
        graphs = np.flatnonzero(sizes == size)
        at_once = max(1, _ENTRIES_AT_ONCE // size**2)
        for start in range(0, len(graphs), at_once):
            yield graphs[start : start + at_once], size


def _adjacency(
    columns: Mapping[str, np.ndarray], graphs: np.ndarray, size: int
) -> np.ndarray:
    """float64 [graphs, size, size] of 0 and 1, symmetric, diagonal 0."""
    adjacency = np.zeros((len(graphs), size, size))
    edge_offset = columns["edge_offset"]
    for place, graph in enumerate(graphs.tolist()):
        edges = slice(int(edge_offset[graph]), int(edge_offset[graph + 1]))
        adjacency[place, columns["edge_src"][edges], columns["edge_dst"][edges]] = 1
    adjacency = np.maximum(adjacency, adjacency.transpose(0, 2, 1))
    adjacency[:, np.arange(size), np.arange(size)] = 0
    return adjacency


def _decompose(adjacency: np.ndarray, k: int) -> np.ndarray:
    """[graphs, n, n] -> [graphs, n, k]."""
    count, n, _ = adjacency.shape
    degree = adjacency.sum(-1)
    scale = np.where(degree > 0, np.maximum(degree, 1) ** -0.5, 0)
    laplacian = -adjacency * scale[:, :, None] * scale[:, None, :]
    laplacian[:, np.arange(n), np.arange(n)] = degree > 0
    values, vectors = np.linalg.eigh(laplacian)
    vectors *= _signs(vectors)

    trivial = (values < _TRIVIAL).sum(-1)
    wanted = trivial[:, None] + np.arange(k)  # [graphs, k]
    kept = np.take_along_axis(vectors, np.minimum(wanted, n - 1)[:, None], 2)
    return kept * (wanted < n)[:, None]


def _signs(vectors: np.ndarray) -> np.ndarray:
    """Factors [..., 1, m] that make the largest entry of vectors [..., n, m] positive."""
    size = np.abs(vectors)
    first = (size >= size.max(-2, keepdims=True) - _TIE).argmax(-2)
    return np.sign(np.take_along_axis(vectors, first[..., None, :], -2))
