"""Random stores, and stores with wrong content and right checksums, as a broken or
hostile writer makes."""

import contextlib
import json

import numpy as np

from graphormer_plugin.data.files import file_sha256
from graphormer_plugin.data.store import MANIFEST, fingerprint_of, manifest_checksum
from graphormer_plugin.data.store.writer import GraphChunk, write_store

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


def write(path, *chunks, **changes):
    values = dict(
        dataset="toy", splits=SPLITS, target_names=["gap"], unit="eV", kind="regression"
    )
    return write_store(path, chunks, **{**values, **changes})


def sign(path, manifest):
    """Write a manifest whose checksums fit the files of a folder."""
    files = manifest.get("files", {})
    for name, entry in files.items() if isinstance(files, dict) else ():
        file = path / name
        if isinstance(entry, dict) and file.is_file():
            entry["sha256"], entry["bytes"] = file_sha256(file), file.stat().st_size
            array = np.load(file, allow_pickle=False)
            entry["dtype"], entry["shape"] = array.dtype.str, list(array.shape)
    with contextlib.suppress(KeyError, TypeError, AttributeError):
        manifest["fingerprint"] = fingerprint_of(manifest)
    manifest["checksum"] = manifest_checksum(manifest)
    (path / MANIFEST).write_text(json.dumps(manifest))


def column(name, change):
    """A change of one column, as a function of a store's folder."""

    def damage(path):
        array = change(np.load(path / f"{name}.npy"))
        np.save(path / f"{name}.npy", array)
        sign(path, json.loads((path / MANIFEST).read_text()))

    return damage


def manifest(change):
    """A change of the manifest, as a function of a store's folder."""

    def damage(path):
        content = json.loads((path / MANIFEST).read_text())
        change(content)
        sign(path, content)

    return damage


def entry(place, value):
    """A change of one entry of an array."""

    def change(array):
        array = array.copy()
        array.reshape(-1)[place] = value
        return array

    return change


def another_fingerprint(path):
    content = json.loads((path / MANIFEST).read_text())
    content["fingerprint"] = "0" * 64
    content["checksum"] = manifest_checksum(content)
    (path / MANIFEST).write_text(json.dumps(content))


DAMAGES = {
    "node offsets that descend": column("node_offset", entry(2, 2**40)),
    "negative node offset": column("node_offset", entry(1, -5)),
    "edge offsets that descend": column("edge_offset", entry(1, 2**40)),
    "offsets of floats": column("node_offset", lambda a: a.astype("<f8")),
    "offsets in two dimensions": column("node_offset", lambda a: a[:, None]),
    "no offsets": column("edge_offset", lambda a: a[:0]),
    "an edge to no node": column("edge_dst", entry(0, 200)),
    "edges of signed bytes": column("edge_src", lambda a: a.astype("i1")),
    "edges out of order": column("edge_src", lambda a: np.flip(a)),
    "bond type 0": column("edge_bond", entry(0, 0)),
    "a bond type that the schema has not": column("edge_bond", entry(0, 200)),
    "a feature beyond its range": column("x", entry(0, 250)),
    "features of one dimension": column("x", lambda a: a[:, 0]),
    "features of another width": column("x", lambda a: a[:, :1]),
    "floats for categories": column("x", lambda a: a.astype("<f4")),
    "negative features": column("x", lambda a: entry(0, -1)(a.astype("<i2"))),
    "targets of another width": column("target", lambda a: np.repeat(a, 2, axis=1)),
    "too few targets": column("target", lambda a: a[:-1]),
    "infinite target": column("target", entry(0, np.inf)),
    "text for targets": column("target", lambda a: a.astype("U3")),
    "a split of no graphs": column("split_train", entry(0, 10**6)),
    "a split that repeats a graph": column("split_train", lambda a: a[[0, 0]]),
    "a split of floats": column("split_train", lambda a: a.astype("<f4")),
    "no source": manifest(lambda m: m.pop("source")),
    "options as text": manifest(lambda m: m.update(options="none")),
    "no counts": manifest(lambda m: m.pop("counts")),
    "counts of text": manifest(lambda m: m["counts"].update(skipped="all")),
    "offsets that start behind 0": column("node_offset", entry(0, 1)),
    "offsets beyond the end": column("node_offset", lambda a: a + (a == a[-1])),
    "a count less": manifest(lambda m: m["counts"].pop("skipped")),
    "no files": manifest(lambda m: m.pop("files")),
    "files as a list": manifest(lambda m: m.update(files=["x.npy"])),
    "a file without checksum": manifest(lambda m: m["files"].update({"y.npy": {}})),
    "a file elsewhere": manifest(
        lambda m: m["files"].update({"../s/x.npy": m["files"]["x.npy"]})
    ),
    "a schema of text": manifest(lambda m: m.update(schema="ogb")),
    "unknown part of the schema": manifest(lambda m: m["schema"].update(angles=3)),
    "ranges of text": manifest(lambda m: m["schema"].update(node_dims=["a", 1, 1])),
    "a range of 10^12": manifest(lambda m: m["schema"].update(node_dims=[10**12] * 3)),
    "a feature without range": manifest(lambda m: m["schema"].update(node_dims=None)),
    "negative range": manifest(lambda m: m["schema"].update(bond_dims=[-5, -6, 2])),
    "width as text": manifest(lambda m: m["schema"].update(num_node_features="3")),
    "a table of text": manifest(lambda m: m["schema"].update(bond_table=["ab"])),
    "unknown kind of target": manifest(lambda m: m["targets"].update(kind="rank")),
    "another number of targets": manifest(lambda m: m["targets"].update(names=[])),
    "names of numbers": manifest(lambda m: m["targets"].update(names=[3])),
    "mean of NaN": manifest(lambda m: m["targets"].update(mean=[float("nan")])),
    "deviation of 0": manifest(lambda m: m["targets"].update(std=[0.0])),
    "level of nodes": manifest(lambda m: m["targets"].update(level="node")),
    "classes of text": manifest(lambda m: m["targets"].update(num_classes="two")),
    "nested without end": lambda path: (path / MANIFEST).write_text("[" * 10**5),
    "a number without end": lambda path: (path / MANIFEST).write_text("1" * 10**4),
    "a fingerprint of another store": another_fingerprint,
}
