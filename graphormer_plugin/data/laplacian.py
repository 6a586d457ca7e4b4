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
from scipy import sparse
from scipy.sparse import csgraph, linalg
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
                for graph, own in zip(graphs.tolist(), rows):
                    out[own] = _of_sparse(_sparse_adjacency(columns, graph, size), k)
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


def _sparse_adjacency(
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


def _of_sparse(adjacency: sparse.csr_array, k: int) -> np.ndarray:
    """[n, n] -> [n, k], component by component."""
    n = adjacency.shape[0]
    count, component = csgraph.connected_components(adjacency, directed=False)
    order = np.argsort(component, kind="stable")
    ends = np.searchsorted(component[order], np.arange(count + 1))
    found: list[tuple[float, np.ndarray, np.ndarray]] = []
    for first, end in zip(ends[:-1], ends[1:]):
        nodes = order[first:end]
        if len(nodes) > 1:
            values, vectors = _of_component(adjacency[nodes][:, nodes], k)
            found += [(value, nodes, v) for value, v in zip(values, vectors.T)]
    found.sort(key=lambda one: one[0])
    out = np.zeros((n, k))
    for column, (_, nodes, vector) in enumerate(found[:k]):
        out[nodes, column] = vector
    return out


def _of_component(adjacency: sparse.csr_array, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k smallest eigenvalues above 0 of a connected graph, and their vectors [n, k];
    fewer for a small one."""
    n = adjacency.shape[0]
    scale = sparse.diags_array(adjacency.sum(0) ** -0.5)
    laplacian = (sparse.eye_array(n) - scale @ adjacency @ scale).tocsc()
    if n <= max(DENSE_NODES, 4 * (k + 1)):
        values, vectors = np.linalg.eigh(laplacian.toarray())
        values, vectors = values[1 : k + 1], vectors[:, 1 : k + 1]
    else:
        values, vectors = _smallest(laplacian, k + 1)
        values, vectors = values[1:], vectors[:, 1:]
    return values, vectors * _signs(vectors)


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
