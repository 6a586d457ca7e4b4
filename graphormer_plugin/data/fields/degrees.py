"""Mean logarithmic degree of a split, the constant delta of PNA."""

from collections.abc import Mapping

import numpy as np

from graphormer_plugin.data.store import GraphStore
from graphormer_plugin.data.store.store_shards import StoreShards

GRAPHS_AT_ONCE = 1 << 16  # of the split; graphs stored between them are read, too


def mean_log_degree(store: GraphStore | StoreShards, split: str = "train") -> float:
    """Mean of log(d + 1) over the nodes of a split, d edges arriving at a node.

    Corso et al. 2020 (arXiv:2004.05718), delta of Eq. 5.

    Returns:
        1.0 where no node has an edge, so that it can divide.
    """
    total, count = 0.0, 0
    for part in store.stores:
        logs, nodes = sum_of_logs(
            part.columns, part.splits.get(split, np.zeros(0, np.int64))
        )
        total, count = total + logs, count + nodes
    return total / count if total else 1.0


def sum_of_logs(
    columns: Mapping[str, np.ndarray], graph_ids: np.ndarray
) -> tuple[float, int]:
    """Sum of log(d + 1) over the nodes of some graphs, and their number.

    Args:
        columns: ``node_offset``, ``edge_offset`` and ``edge_dst`` as in a store.
        graph_ids: Numbers of the graphs.
    """
    graph_ids = np.sort(graph_ids)
    nodes, edges = (columns[f"{kind}_offset"] for kind in ("node", "edge"))
    total, count = 0.0, 0
    for start in range(0, len(graph_ids), GRAPHS_AT_ONCE):
        part = graph_ids[start : start + GRAPHS_AT_ONCE]
        first, last = int(part[0]), int(part[-1]) + 1  # with graphs between them
        sizes = np.diff(nodes[first : last + 1])
        num_edges = np.diff(edges[first : last + 1])
        target = columns["edge_dst"][edges[first] : edges[last]].astype(np.int64)
        target += np.repeat(nodes[first:last] - nodes[first], num_edges)
        logs = np.log1p(np.bincount(target, minlength=int(sizes.sum())))
        wanted = np.zeros(last - first, dtype=bool)
        wanted[part - first] = True
        total += float(logs[np.repeat(wanted, sizes)].sum())
        count += int(sizes[wanted].sum())
    return total, count
