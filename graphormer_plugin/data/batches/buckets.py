"""Buckets of sizes, and batches within limits."""

import numpy as np
from numpy.typing import NDArray

from graphormer_plugin.data.errors import listed

BUCKET_RATIO = 0.1  # relative width of a bucket; our choice


def bucket_of_sizes(sizes: NDArray[np.integer], ratio: float) -> NDArray[np.integer]:
    """Number of the size bucket of each graph.

    A bucket starts at the smallest size above the previous bucket, and holds
    every size up to ``1 + ratio`` times its start. Buckets of large graphs are wider,
    because padding is relative to the size.

    >>> bucket_of_sizes(np.array([1, 10, 11, 12, 13]), 0.1).tolist()
    [0, 1, 1, 2, 2]

    A ``ratio`` of 0 gives each size its own bucket, ``inf`` puts all graphs into one.
    """
    distinct = np.unique(sizes)
    starts = []
    for size in distinct.tolist():
        if not starts or size > starts[-1] * (1.0 + ratio):
            starts.append(size)
    # NumPy sorts numbers of 16 bits in linear time.
    bucket_of_size = np.zeros(int(distinct[-1]) + 1 if len(distinct) else 0, np.int64)
    bucket_of_size[distinct] = np.searchsorted(starts, distinct, side="right") - 1
    return bucket_of_size.astype(np.min_scalar_type(len(starts)))[sizes]


def bucketed_order(
    sizes: NDArray[np.integer], seed: int, epoch: int, ratio: float = BUCKET_RATIO
) -> NDArray[np.int64]:
    """Positions of graphs in random order within buckets of sizes, bucket after bucket."""
    # Not NumPy's global generator, from which models and users' datasets draw.
    order = np.random.default_rng([seed % 2**63, epoch]).permutation(len(sizes))
    return order[np.argsort(bucket_of_sizes(sizes, ratio)[order], kind="stable")]


def cut_batches(
    indices: NDArray[np.int64],
    sizes: NDArray[np.integer],
    *,
    max_graphs: int | None = None,
    max_nodes: int | None = None,
    max_pairs: int | None = None,
    multiple: int = 1,
    parts: int = 1,
) -> list[NDArray[np.int64]]:
    """Cut ``indices`` into batches, in their order; every index exactly once.

    >>> cut_batches(np.arange(4), np.array([2, 3, 3, 9]), max_nodes=9)
    [array([0, 1, 2]), array([3])]

    Args:
        sizes: nodes of every graph, indexed by ``indices``.
        max_graphs: ``None`` or 0: no limit, and so for the next two.
        max_nodes: padded nodes of a batch, graphs times the largest of them. A larger
            graph is a batch of its own.
        max_pairs: padded pairs of nodes of a batch, graphs times the largest squared.
        multiple: larger batches, except for the last, are cut to a multiple of it.
        parts: the limits hold for each part of a batch that is split into so many equal parts.
    """
    indices = np.asarray(indices, dtype=np.int64)
    sizes = np.asarray(sizes)[indices].astype(np.int64)
    batches = []
    start = 0
    while start < len(indices):
        window = sizes[start : start + (max_graphs or len(indices)) * parts]
        for limit, power in ((max_nodes, 1), (max_pairs, 2)):
            if not limit:
                continue
            # A part that fits has at most limit / (its first graph's cost) graphs.
            count = max(1, limit // max(1, int(window[0]) ** power))
            window = window[: count * parts]
            graphs = np.arange(len(window)) // parts + 1  # graphs in the largest part
            cost = np.maximum.accumulate(window) ** power * graphs
            window = window[: max(1, int(np.searchsorted(cost, limit, side="right")))]
        count = len(window)
        if count > multiple * parts > parts and start + count < len(indices):
            count -= count % (multiple * parts)
        batches.append(indices[start : start + count])
        start += count
    return batches


def describe_graphs(graph_ids: NDArray[np.int64], sizes: NDArray[np.integer]) -> str:
    """The graphs of a batch and the largest of them, for messages.

    >>> describe_graphs(np.array([4, 1]), np.array([3, 9, 3, 3, 5]))
    '2 graphs (4, 1); the largest is graph 1 with 9 nodes'
    """
    largest = graph_ids[sizes[graph_ids].argmax()]
    return (
        f"{len(graph_ids)} graphs ({listed(graph_ids, 20)}); the largest is "
        f"graph {largest} with {sizes[largest]} nodes"
    )
