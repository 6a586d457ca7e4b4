"""Graphs of DGL, which Graphormer v2 takes, as PyG has them; DGL itself is not needed.

Graphormer v2 (graphormer/data/dgl_datasets/dgl_dataset.py) means to read the integer
features of nodes and edges, but looks for them among their names and finds none. Here they
are read. Floats count where there are no integers.
"""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from graphormer_plugin.data.pyg_graphs import as_array


def pyg_graph(graph: Any, label: Any) -> SimpleNamespace:
    """A homogeneous graph of DGL with its label.

    Returns:
        ``x``, ``edge_index``, ``y``, and ``edge_attr`` if edges have features. Features
        are side by side, in the order of their names. Nodes without features get
        the feature 0.
    """
    x = _features(graph.ndata, graph.num_nodes())
    if x is None:
        x = np.zeros((graph.num_nodes(), 1), dtype=np.int64)
    source, target = map(as_array, graph.edges())
    return SimpleNamespace(
        x=x,
        edge_index=np.stack([source, target]).astype(np.int64),
        edge_attr=_features(graph.edata, len(source)),
        y=as_array(label),
    )


def _features(named: Mapping[str, Any], rows: int) -> np.ndarray | None:
    """Integers [rows, columns], or floats where there are none; None: no features."""
    if not rows:
        return None
    arrays = [as_array(named[name]).reshape(rows, -1) for name in sorted(named)]
    for kinds in ("iub", "f"):
        columns = [array for array in arrays if array.dtype.kind in kinds]
        if columns:
            return np.concatenate(columns, axis=1)
    return None
