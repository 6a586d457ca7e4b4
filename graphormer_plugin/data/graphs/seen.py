"""Categories of nodes and edges that the training graphs of a model have, and others."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from graphormer_plugin.data.columns import Columns, Level, rows_of_graphs
from graphormer_plugin.data.errors import counted, listed
from graphormer_plugin.data.graphs.featurisers import Featuriser
from graphormer_plugin.data.schema import FeatureSchema

GRAPHS_AT_ONCE = 1 << 16
MOST_NAMED = 8


def seen_categories(
    columns: Columns, graph_ids: np.ndarray, schema: FeatureSchema
) -> list[set[int]]:
    """Categories that graphs of a store have: `FeatureSchema.seen` as sets."""
    dims = [*(schema.node_dims or ()), schema.num_bond_types + 1]
    flags = [np.zeros(size, np.bool_) for size in dims]
    for start in range(0, len(graph_ids), GRAPHS_AT_ONCE):
        ids = graph_ids[start : start + GRAPHS_AT_ONCE]
        for column, (values, _) in enumerate(_categories(columns, ids, schema)):
            flags[column][values] = True
    return [{*np.flatnonzero(flag).tolist()} for flag in flags]


def unseen_categories(
    columns: Columns, graph_ids: np.ndarray, schema: FeatureSchema, reader: Featuriser
) -> Counter[str]:
    """Number of graphs with each category that no training graph had, by its name; none where
    the ``schema`` does not know them."""
    counts: Counter[str] = Counter()
    if not schema.seen:
        return counts
    bonds = schema.bond_columns()
    nodes = len(schema.seen) - 1
    for column, (values, graphs) in enumerate(_categories(columns, graph_ids, schema)):
        is_new = ~np.isin(values, schema.seen[column])
        pairs = np.unique(np.stack([values[is_new], graphs[is_new]], 1), axis=0)
        for value, count in zip(*np.unique(pairs[:, 0], return_counts=True)):
            name = (
                reader.category(column, int(value))
                if column < nodes
                else f"edges {bonds[value].tolist()}"
            )
            counts[name] += int(count)
    return counts


def unseen_line(counts: Counter[str]) -> str:
    """A line about `unseen_categories`; empty without any."""
    # Elements, whose names have one word, come first.
    ordered = sorted(counts.items(), key=lambda item: (" " in item[0], -item[1]))
    names = [f"{name} (in {counted(count, 'molecule')})" for name, count in ordered]
    return f"no training molecule has {listed(names, MOST_NAMED)}" if names else ""


def _categories(
    columns: Columns, graph_ids: np.ndarray, schema: FeatureSchema
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the values of each column of nodes, if they are categories, and of the types of
    edges, each with the graphs that have them."""
    for name, level in (("x", Level.NODE), ("edge_bond", Level.EDGE)):
        counts = np.diff(columns[level.offset])[graph_ids]
        graphs = np.repeat(graph_ids, counts)
        table = columns[name][rows_of_graphs(columns, graph_ids, level)]
        if name == "edge_bond":
            yield table.astype(np.int64), graphs
        elif schema.categorical:
            for column in table.astype(np.int64).T:
                yield column, graphs
