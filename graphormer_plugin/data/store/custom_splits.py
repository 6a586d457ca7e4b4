"""A store under the splits of a file (``--split rows:FILE``), which all such splits share."""

import dataclasses
import hashlib
import json
from pathlib import Path

import numpy as np

from graphormer_plugin.data.columns import is_missing
from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.files import npy_header
from graphormer_plugin.data.splits import require_rows, splits_of_graphs
from graphormer_plugin.data.store import GraphStore, fingerprint_of
from graphormer_plugin.data.tables.labels import describe_targets
from graphormer_plugin.data.targets import target_statistics


def with_splits(store: GraphStore, file: Path, text: str) -> GraphStore:
    """The store under other splits.

    Statistics of labels and features come from the new training split. The fingerprint
    equals the fingerprint of a store that was prepared with these splits. A target without
    a label of a weight above 0 in train has no labels: nothing is learned about it, and its
    labels in valid would choose the checkpoint. The ``text`` of the file is JSON: lists of
    rows of the source, from 0, by split name.
    """
    graph_of_row = np.full(store.manifest["counts"]["rows"], -1, np.int64)
    graphs = np.arange(len(store))
    graph_of_row[store.rows(graphs)] = graphs
    try:
        splits = splits_of_graphs(json.loads(text), graph_of_row, str(file))
    except (ValueError, AttributeError) as error:
        example = '{"train": [0, 1, 2], "valid": [3], "test": [4]}'
        raise DatasetError(
            f"{file}: {error}; expected rows from 0 by split in JSON, as {example}"
        ) from None
    require_rows(splits, str(file), "")
    train = splits["train"]
    columns = {}
    schema = store.schema
    target = store.target
    counted = store.columns.get("weight", np.ones(len(store)))[train] > 0
    unlearned = is_missing(store.labels(train[counted])).all(0)
    if unlearned.all():
        raise DatasetError(f"{file}: no label in split train")
    if unlearned.any():
        target = np.where(unlearned, target.dtype.type(np.nan), target)
        columns["target"] = target
    offset = store.columns[store.targets.level.counted_by]
    bounds = store.columns.get("bound")
    targets, missing = describe_targets(
        target, store.targets, offset, splits, bounds=bounds
    )
    if schema.graph_features:
        mean, std = target_statistics(store.columns["graph_features"], train)
        schema = dataclasses.replace(schema, graph_mean=mean, graph_std=std)
    unused = np.setdiff1d(graphs, np.concatenate([*splits.values()])).size
    counts = {"missing_labels": missing, "graphs_in_no_split": unused}
    files = dict(store.manifest["files"])
    changed = columns | {f"split_{name}": ids for name, ids in splits.items()}
    for name, array in changed.items():
        content = npy_header(array.dtype, array.shape) + array.tobytes()
        files[f"{name}.npy"] = {"sha256": hashlib.sha256(content).hexdigest()}
    manifest = store.manifest | {
        "counts": store.manifest["counts"] | counts,
        "schema": schema.to_dict(),
        "targets": targets.to_dict(),
        "files": files,
    }
    result = GraphStore(store.path, manifest, store.columns | columns, splits)
    result.fingerprint = fingerprint_of(manifest)
    result.reopen = with_splits, (store, file, text)
    return result
