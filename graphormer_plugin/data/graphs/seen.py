"""Categories of nodes and edges that the training graphs of a model have, and others."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from graphormer_plugin.data.columns import (
    Columns,
    Level,
    column_type,
    rows_of_graphs,
)
from graphormer_plugin.data.errors import StoreError, counted, listed, named_damage
from graphormer_plugin.data.graphs.descriptors import extra_columns
from graphormer_plugin.data.graphs.featurisers import Featuriser
from graphormer_plugin.data.schema import FeatureSchema

GRAPHS_AT_ONCE = 1 << 16
MOST_NAMED = 8
_FIRST = {"x": 0, "edge_bond": -1}  # of the columns in `FeatureSchema.seen`


def with_seen(schema: FeatureSchema, stores: Iterable[Any]) -> FeatureSchema:
    """A schema with `FeatureSchema.seen` and `ranges` of the training graphs of `GraphStore`s."""
    dims = [*(schema.node_dims or ()), schema.num_bond_types + 1]
    flags = [np.zeros(size, np.bool_) for size in dims]
    ends: dict[str, np.ndarray] = {}  # [2, columns]
    for store in stores:
        train = store.splits.get("train", np.zeros(0, np.int64))
        damaged = f"{store.path} is damaged (graphormer-preprocess --rebuild)"
        with named_damage(damaged, StoreError):
            for start in range(0, len(train), GRAPHS_AT_ONCE):
                ids = train[start : start + GRAPHS_AT_ONCE]
                for name, rows, _ in _features(store.columns, ids):
                    if rows.dtype.kind == "f":
                        rows = np.concatenate([rows, ends.get(name, rows[:0])])
                        ends[name] = np.stack(
                            [np.fmin.reduce(rows), np.fmax.reduce(rows)]
                        )
                    else:
                        for column, values in enumerate(rows.T, _FIRST[name]):
                            flags[column][values] = True
    return replace(
        schema,
        seen=[np.flatnonzero(flag).tolist() for flag in flags],
        ranges={name: both.T.tolist() for name, both in ends.items()},
    )


def unseen_categories(
    columns: Columns, graph_ids: np.ndarray, schema: FeatureSchema, reader: Featuriser
) -> Counter[str]:
    """Number of graphs with each category that no training graph had, by its name, and with
    numbers beyond theirs; none where the ``schema`` does not know them."""
    counts: Counter[str] = Counter()
    if not schema.seen:
        return counts
    bonds = schema.bond_columns()
    extra = extra_columns(schema.graph_features)
    for name, rows, graphs in _features(columns, graph_ids):
        if rows.dtype.kind == "f":
            titles = [f"{name} {column}" for column in range(rows.shape[1])]
            titles = extra if name == "graph_features" else titles
            known = schema.ranges.get(name, ())
            for title, values, (low, high) in zip(titles, rows.T, known):
                beyond = graphs[(values < low) | (values > high)]
                counts[beyond_name(title, low, high)] += len(np.unique(beyond))
            continue
        for column, values in enumerate(rows.T, _FIRST[name]):
            is_new = ~np.isin(values, schema.seen[column])
            pairs = np.unique(np.stack([values[is_new], graphs[is_new]], 1), axis=0)
            for value, count in zip(*np.unique(pairs[:, 0], return_counts=True)):
                title = (
                    reader.category(column, int(value))
                    if name == "x"
                    else f"edges {bonds[value].tolist()}"
                )
                counts[title] += int(count)
    return +counts


def beyond_name(column: str, low: float, high: float) -> str:
    """What numbers of a column are whose training had those from ``low`` to ``high``."""
    return f"{column} beyond {low:g} to {high:g}"


def unseen_line(counts: Counter[str]) -> str:
    """A line about `unseen_categories`; empty without any."""
    # Elements, whose names have one word, come first.
    ordered = sorted(counts.items(), key=lambda item: (" " in item[0], -item[1]))
    names = [f"{name} (in {counted(count, 'molecule')})" for name, count in ordered]
    return f"no training molecule has {listed(names, MOST_NAMED)}" if names else ""


def _features(
    columns: Columns, graph_ids: np.ndarray
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield the names of features, their rows [n, K], of float32 where they are real, and the
    graph of each row."""
    for name in ("x", "edge_bond", "edge_attr", "graph_features"):
        if name in columns:
            level = column_type(name).level
            rows = columns[name][rows_of_graphs(columns, graph_ids, level)]
            rows = rows.astype(np.float32 if rows.dtype.kind == "f" else np.int64)
            counts = 1
            if level is not Level.GRAPH:
                counts = np.diff(columns[level.offset])[graph_ids]
            if len(rows):
                yield name, rows.reshape(len(rows), -1), np.repeat(graph_ids, counts)
