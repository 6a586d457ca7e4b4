"""Random stores."""

import json

import numpy as np

from graphormer_plugin.data.columns import Level
from graphormer_plugin.data.graphs.chunk import FeaturisedRows, GraphChunk
from graphormer_plugin.data.sources.csv_file import TableDataset
from graphormer_plugin.data.sources.registry import DatasetSource, register_dataset
from graphormer_plugin.data.store import MANIFEST, GraphStore
from graphormer_plugin.data.store.build import get_store
from graphormer_plugin.data.store.writer import StoreWriter
from graphormer_plugin.data.tables.options import DatasetOptions

SPLITS = {"train": [0, 1, 2, 3], "valid": [4], "test": [5]}


def random_chunk(rng, graphs=6, nodes=8, dims=(5, 6, 2), features=3, **changes):
    num_nodes = rng.integers(1, nodes + 1, graphs)
    num_edges = rng.integers(0, 3 * nodes, graphs)
    ends = [rng.integers(0, n, (2, e)) for n, e in zip(num_nodes, num_edges)]
    columns = [rng.integers(0, dim, num_edges.sum()) for dim in dims]
    values = dict(
        num_nodes=num_nodes,
        num_edges=num_edges,
        x=rng.integers(0, 100, (num_nodes.sum(), features)),
        edge_index=np.concatenate(ends, axis=1),
        edge_attr=np.stack(columns, axis=1) if dims else None,
        target=rng.normal(size=(graphs, 1)),
    )
    return GraphChunk(**{**values, **changes})


def make_chunk(num_nodes, num_edges, edge_index, **changes):
    """Graphs whose nodes have the feature 0 and whose labels are 0."""
    num_nodes = np.array(num_nodes)
    values = dict(
        num_nodes=num_nodes,
        num_edges=np.array(num_edges),
        x=np.zeros((num_nodes.sum(), 1), int),
        edge_index=np.array(edge_index, int),
        target=np.zeros((len(num_nodes), 1)),
    )
    return GraphChunk(**{**values, **changes})


def write(
    path, *chunks, splits=SPLITS, target=None, node_dims=None, bond_dims=None, **changes
):
    """A store of chunks; ``changes`` are fields of its source."""
    values = dict(label="toy", target_names=["gap"], unit="eV", kind="regression")
    level = Level(changes.get("level", "graph"))
    with StoreWriter(path, node_dims, bond_dims, level=level) as writer:
        for chunk in chunks:
            writer.append(FeaturisedRows(chunk))
        splits = {name: np.array(rows) for name, rows in splits.items()}
        writer.finish(DatasetSource(**values | changes), splits, target)
    return GraphStore.open(path)


def graphs_of(store):
    """Lists of the columns of nodes and edges of each graph."""
    columns = store.columns
    edges = ("edge_src", "edge_dst", "edge_bond", "edge_attr")
    for graph in range(len(store)):
        part = slice(*columns["edge_offset"][graph : graph + 2])
        found = {n: columns[n][part].tolist() for n in edges if n in columns}
        part = slice(*columns["node_offset"][graph : graph + 2])
        yield {"x": columns["x"][part].tolist(), **found}


def manifest(change):
    """A change of the manifest, as a function of a store's folder."""

    def damage(path):
        content = json.loads((path / MANIFEST).read_text())
        change(content)
        (path / MANIFEST).write_text(json.dumps(content))

    return damage


def store_of(result, name="temporary", **options):
    """The store of what a dataset's function returns."""
    register_dataset(name)(lambda: result)
    return get_store(DatasetOptions(name, rebuild=True, **options))


def csv_dataset(options):
    """The molecules and targets of the table that options name."""
    dataset = TableDataset.open(options)
    return dataset.function(dataset.resolved(options))
