"""Mean logarithmic degree of the training split, the constant delta of PNA."""

import numpy as np

from graphormer_plugin.data.columns import Columns
from graphormer_plugin.data.graphs.graph_columns import columns_of_graphs
from graphormer_plugin.data.store.sharded_store import Stores

GRAPHS_AT_ONCE = 1 << 16


def mean_log_degree(store: Stores) -> float:
    """Mean of log(d + 1) over the nodes of the training split, d edges arriving at a node:
    delta of Eq. 5 of Corso et al. 2020 (arXiv:2004.05718). It is 1 where no node has an edge,
    to divide by.
    """
    total = 0.0
    count = 0
    for part in store.stores:
        train = part.graphs_in("train")
        logs, nodes = sum_of_logs(part.columns, train)
        total = total + logs
        count = count + nodes
    return total / count if total else 1.0


def sum_of_logs(columns: Columns, graph_ids: np.ndarray) -> tuple[float, int]:
    """Sum of log(d + 1) over the nodes of some graphs, and the number of these nodes."""
    graph_ids = np.sort(graph_ids)
    names = ("node_offset", "edge_offset", "edge_dst")
    stored = {name: columns[name] for name in names}
    total = 0.0
    count = 0
    for start in range(0, len(graph_ids), GRAPHS_AT_ONCE):
        part = columns_of_graphs(stored, graph_ids[start : start + GRAPHS_AT_ONCE])
        nodes = part["node_offset"]
        target = part["edge_dst"] + np.repeat(nodes[:-1], np.diff(part["edge_offset"]))
        logs = np.log1p(np.bincount(target, minlength=int(nodes[-1])))
        total = total + float(logs.sum())
        count = count + len(logs)
    return total, count
