"""Laplacian eigenvectors of every graph (`field_cache` keeps them beside a store).

The matrix is I - D^(-1/2) A D^(-1/2) (section 3.1 of Dwivedi & Bresson 2021,
arXiv:2012.09699). A is the adjacency of distinct neighbours. A directed graph counts as
undirected, and self-loops do not count. The diagonal entry of a node without neighbours is
0, so every component has the eigenvalue 0 exactly once.

Convention: eigenvalues ascend. The vectors of eigenvalue 0, one per component, are
trivial and left out. k of the others are kept, and a graph with fewer is padded with
zeros. Each has norm 1, and its entry of largest size is positive (the first entry of
several that are equal up to 1e-6). The basis of an eigenspace of several dimensions is
LAPACK's for the numbering of the nodes: arbitrary, but the same in every computation.

Small graphs are decomposed by LAPACK, many of one size at a time; connected components above
`DENSE_NODES` by ARPACK (`scipy.sparse.linalg.eigsh`), with products of the matrix or, where it
is sparse or these do not converge, of its factorised inverse.
"""

import contextlib
import inspect
import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from tqdm import tqdm

from graphormer_plugin.data.columns import Columns
from graphormer_plugin.data.graphs.graph_columns import edges_of_graph

logger = logging.getLogger(__name__)

_TRIVIAL = 1e-9  # eigenvalues below; a path of 10,000 nodes has a next one of 5e-8
_TIE = 1e-6
_ENTRIES_AT_ONCE = 1 << 20  # elements of matrices decomposed together

# Largest component with a dense solver; see examples/speed/README.md for the crossing.
DENSE_NODES = 1024

# Mean entries of a row, one more than the mean degree, from which on products with the matrix
# are tried before it is factorised: factors of trees and rings do not fill up, those of random
# graphs do, whose eigenvalues are far enough apart for products alone.
ITERATED_ROW = 3.5
ITERATIONS = 40  # restarts before a graph, such as a wide strip, is factorised


def laplacian_eigenvectors(
    columns: Columns, k: int, progress: str | None = None
) -> np.ndarray:
    """Eigenvectors of all graphs of a store, float32 [sum N, k], by the convention of this
    module. ``progress`` is the label of a progress bar; None shows none."""
    node_offset = np.asarray(columns["node_offset"])
    sizes = np.diff(node_offset)
    if small := np.count_nonzero(sizes <= k):
        logger.info(
            "%s of %s graphs are too small for %d eigenvectors; the missing ones are zero",
            f"{small:,}",
            f"{len(sizes):,}",
            k,
        )
    out = np.zeros((int(node_offset[-1]), k), dtype=np.float32)
    with tqdm(
        total=len(sizes), unit="graph", desc=progress, disable=not progress
    ) as bar:
        for graphs, size in _graphs_of_one_size(sizes):
            rows = node_offset[graphs][:, None] + np.arange(size)
            solve = _sparse if size > DENSE_NODES else _dense
            out[rows] = solve(
                [edges_of_graph(columns, graph) for graph in graphs], size, k
            )
            bar.update(len(graphs))
    return out


def _graphs_of_one_size(sizes: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
    """Graphs of equal size that are decomposed together, and their size."""
    for size in np.unique(sizes[sizes > 0]).tolist():
        graphs = np.flatnonzero(sizes == size)
        at_once = 1 if size > DENSE_NODES else max(1, _ENTRIES_AT_ONCE // size**2)
        for start in range(0, len(graphs), at_once):
            yield graphs[start : start + at_once], size


def _dense(graphs: list[np.ndarray], n: int, k: int) -> np.ndarray:
    """Eigenvectors [graphs, n, k] of graphs of n nodes, given by their edges."""
    adjacency = np.zeros((len(graphs), n, n))
    for matrix, (source, target) in zip(adjacency, graphs):
        matrix[source, target] = 1
    adjacency = np.maximum(adjacency, adjacency.transpose(0, 2, 1))
    adjacency[:, np.arange(n), np.arange(n)] = 0
    degree = adjacency.sum(-1)
    scale = np.where(degree > 0, np.maximum(degree, 1) ** -0.5, 0)
    laplacian = -adjacency * scale[:, :, None] * scale[:, None, :]
    laplacian[:, np.arange(n), np.arange(n)] = degree > 0
    values, vectors = np.linalg.eigh(laplacian)
    vectors *= _signs(vectors)

    trivial = (values < _TRIVIAL).sum(-1)
    wanted = trivial[:, None] + np.arange(k)  # [graphs, k]
    chosen = np.take_along_axis(vectors, np.minimum(wanted, n - 1)[:, None], 2)
    return chosen * (wanted < n)[:, None]


def _sparse(graphs: list[np.ndarray], n: int, k: int) -> np.ndarray:
    """`_dense` of a single large graph, component by component."""
    from scipy import sparse  # late: hardly any data have such graphs

    ((source, target),) = graphs
    joins_two = source != target
    ends = source[joins_two], target[joins_two]
    half = sparse.coo_array((np.ones(joins_two.sum()), ends), (n, n)).tocsr()
    adjacency = half + half.T
    adjacency.data[:] = 1
    count, component = sparse.csgraph.connected_components(adjacency, directed=False)
    pairs: list[tuple[float, np.ndarray, np.ndarray]] = []
    for nodes in np.split(
        np.argsort(component, kind="stable"),
        np.cumsum(np.bincount(component, minlength=count))[:-1],
    ):
        if len(nodes) > 1:
            part = adjacency[nodes][:, nodes]
            scale = sparse.diags_array(part.sum(0) ** -0.5)
            laplacian = (sparse.eye_array(len(nodes)) - scale @ part @ scale).tocsc()
            values, vectors = _smallest(laplacian, k + 1)
            pairs += [(value, nodes, v) for value, v in zip(values[1:], vectors.T[1:])]
    pairs.sort(key=lambda pair: pair[0])
    out = np.zeros((n, k))
    for column, (_, nodes, vector) in enumerate(pairs[:k]):
        out[nodes, column] = vector
    return (out * _signs(out))[None]


def _smallest(laplacian: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The smallest eigenvalues of a connected graph and their vectors, with all copies of
    multiple eigenvalues; fewer for a small graph."""
    from scipy.sparse import eye_array, linalg

    n = laplacian.shape[0]
    if n <= max(DENSE_NODES, 4 * count):
        values, vectors = np.linalg.eigh(laplacian.toarray())
        return values[:count], vectors[:, :count]
    if laplacian.nnz >= ITERATED_ROW * n:
        with contextlib.suppress(linalg.ArpackNoConvergence):
            return _lanczos(
                laplacian,
                count,
                lambda vector: 2 * vector - laplacian @ vector,
                lambda largest: 2 - largest,
                ITERATIONS,
            )
    # A path, which has the smallest eigenvalue above 0, has it near 5 / n^2.
    shift = 1.0 / n**2
    factors = linalg.splu(
        laplacian + shift * eye_array(n, format="csc"),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    return _lanczos(
        laplacian, count, factors.solve, lambda largest: 1 / largest - shift
    )


def _lanczos(
    laplacian: Any,
    count: int,
    apply: Callable[[np.ndarray], np.ndarray],
    eigenvalues: Callable[[np.ndarray], np.ndarray],
    iterations: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """`_smallest` by Lanczos' method.

    Args:
        apply: product with a positive function of the Laplacian that falls with it.
        eigenvalues: those of the Laplacian from those of the function.
        iterations: most restarts, else scipy's `ArpackNoConvergence`; None: scipy's.
    """
    from scipy.sparse import linalg

    n = laplacian.shape[0]
    basis = np.zeros((n, 0))
    values = np.zeros(0)
    random = np.random.default_rng(n)
    # ARPACK draws when few eigenvalues are distinct; scipy before 1.17 takes no generator.
    draws = "rng" in inspect.signature(linalg.eigsh).parameters
    options = {"rng": random} if draws else {}

    def product(vector: np.ndarray) -> np.ndarray:
        """The function on the complement of known vectors."""
        vector = vector - basis @ (basis.T @ vector)
        vector = apply(vector)
        return vector - basis @ (basis.T @ vector)

    # Lanczos from one start may find one copy of a multiple eigenvalue: it starts again
    # beside the known vectors until nothing smaller is left.
    while True:
        operator = linalg.LinearOperator((n, n), matvec=product, dtype=np.float64)
        largest, vectors = linalg.eigsh(
            operator,
            count,
            which="LA",
            ncv=min(n, max(40, 4 * count)),
            v0=random.standard_normal(n),
            maxiter=iterations,
            **options,
        )
        basis, _ = np.linalg.qr(np.concatenate([basis, vectors], 1))
        last = np.sort(values)[count - 1] if len(values) >= count else np.inf
        new_values = eigenvalues(largest)
        values = np.concatenate([values, new_values])
        if new_values.min() >= last * (1 - 1e-9):
            break
    # One basis, in the order of the eigenvalues.
    values, rotation = np.linalg.eigh(basis.T @ (laplacian @ basis))
    return values[:count], (basis @ rotation)[:, :count]


def _signs(vectors: np.ndarray) -> np.ndarray:
    """Factors [..., 1, m] that make the largest entry of vectors [..., n, m] positive."""
    size = np.abs(vectors)
    first = (size >= size.max(-2, keepdims=True) - _TIE).argmax(-2)
    return np.sign(np.take_along_axis(vectors, first[..., None, :], -2))
