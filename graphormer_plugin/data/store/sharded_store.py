"""Several graph stores as a single dataset, and the names that stand for them."""

import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from graphormer_plugin.data.columns import (
    EDGE_LABEL_COLUMNS,
    Columns,
    edge_label_index_of,
    offsets_of,
)
from graphormer_plugin.data.errors import DatasetError, listed
from graphormer_plugin.data.files import home_path, text_sha256
from graphormer_plugin.data.graphs.graph_columns import ShardColumns
from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.sources.csv_file import TableDataset
from graphormer_plugin.data.sources.locate import find_dataset
from graphormer_plugin.data.sources.registry import DATASETS
from graphormer_plugin.data.sources.user_code import import_user_data
from graphormer_plugin.data.splits import Split
from graphormer_plugin.data.store import MANIFEST, GraphStore
from graphormer_plugin.data.store.build import get_store
from graphormer_plugin.data.tables.labels import exact_labels
from graphormer_plugin.data.tables.options import TABLE_OPTIONS, DatasetOptions
from graphormer_plugin.data.targets import TargetSchema, pooled_statistics

# Options whose values are fixed when a store is prepared.
_SETTLED = ("source", *TABLE_OPTIONS, "shard", "rebuild")


class ShardedStore:
    """Stores whose graphs are numbered one store after another.

    Has the attributes of a `GraphStore` that tasks use. Labels are standardised by the mean and the
    deviation over the training splits of all stores.
    """

    def __init__(self, stores: Sequence[GraphStore]) -> None:
        self.stores = list(stores)
        self.path = self.stores[0].path.parent
        self.featuriser = self.stores[0].featuriser
        for store in self.stores[1:]:
            _check_alike(self.stores[0], store)
        self.first = offsets_of(map(len, self.stores))
        prints = "".join(store.fingerprint for store in self.stores)
        self.fingerprint = text_sha256(prints)
        self.warnings = [
            f"{store.path.name}: {text}"
            for store in self.stores
            for text in store.warnings
        ]
        label = listed(dict.fromkeys(s.manifest["dataset"] for s in self.stores))
        counts = Counter[str]()
        for store in self.stores:
            counts.update(store.manifest["counts"])
        self.manifest: dict[str, Any] = {
            "dataset": f"{label} ({len(self.stores)} stores)",
            "counts": dict(counts),
        }

    def __len__(self) -> int:
        return int(self.first[-1])

    @cached_property
    def splits(self) -> Split:
        """Graph ids by split name, int64."""
        parts: dict[str, list[np.ndarray]] = defaultdict(list)
        for store, first in zip(self.stores, self.first):
            for name, graph_ids in store.splits.items():
                parts[name].append(np.asarray(graph_ids) + first)
        return {name: np.concatenate(graph_ids) for name, graph_ids in parts.items()}

    @cached_property
    def sizes(self) -> np.ndarray:
        """int32 [G] nodes of each graph."""
        return np.concatenate([store.sizes for store in self.stores])

    def _training(self) -> Iterator[tuple[GraphStore, np.ndarray]]:
        """Yield each store and its graphs of the training split."""
        for store in self.stores:
            yield store, store.graphs_in("train")

    @cached_property
    def schema(self) -> FeatureSchema:
        """Columns of nodes, edges and graphs; graph features are scaled by all stores."""
        schema = self.stores[0].schema
        if not schema.graph_features:
            return schema
        mean, std = pooled_statistics(
            len(schema.graph_features),
            lambda column: (
                store.columns["graph_features"][ids, column]
                for store, ids in self._training()
            ),
        )
        return dataclasses.replace(schema, graph_mean=mean, graph_std=std)

    @cached_property
    def targets(self) -> TargetSchema:
        """The targets of all stores together."""
        counts = [
            [t.num_classes for t in store.targets.targets] for store in self.stores
        ]
        targets = self.stores[0].targets.changed(num_classes=np.max(counts, 0).tolist())
        if not targets.is_number.any():
            return targets

        def _labels(column: int) -> Iterator[np.ndarray]:
            for store, ids in self._training():
                bound = store.columns.get("bound")
                signs = None if bound is None else bound[ids, column]
                labels = store.target[store.label_rows(ids, "train"), column]
                yield exact_labels(labels, signs)

        return targets.scaled(*pooled_statistics(len(targets.names), _labels))

    @cached_property
    def label_counts(self) -> np.ndarray:
        """See `GraphStore`."""
        return np.concatenate([store.label_counts for store in self.stores])

    def labels(self, graph_ids: np.ndarray) -> np.ndarray:
        """See `GraphStore`."""
        return self._label_columns(graph_ids, "target")["target"]

    def edge_label_index(self, graph_ids: np.ndarray) -> np.ndarray:
        """See `GraphStore`."""
        return edge_label_index_of(self._label_columns(graph_ids, *EDGE_LABEL_COLUMNS))

    def _label_columns(self, graph_ids: np.ndarray, *names: str) -> Columns:
        level = self.targets.level
        names = {*names, level.offset} & self.stores[0].columns.keys()
        shards = [{n: store.columns[n] for n in names} for store in self.stores]
        return ShardColumns(shards, self.first, level).of_graphs(graph_ids)

    @cached_property
    def columns(self) -> ShardColumns:
        """Columns as they are stored."""
        shards = [store.columns for store in self.stores]
        return ShardColumns(shards, self.first, self.targets.level)

    def rows(self, graph_ids: np.ndarray) -> np.ndarray:
        """Rows of the concatenated sources; for the shards of a table its rows."""
        counts = [store.manifest["counts"]["rows"] for store in self.stores]
        parts = [
            store.rows(np.arange(len(store))) + before
            for store, before in zip(self.stores, offsets_of(counts))
        ]
        return np.concatenate(parts)[graph_ids]


Stores = GraphStore | ShardedStore


def open_stores(options: DatasetOptions) -> Stores:
    """Open the data of ``--dataset-name``.

    A name is a dataset or table, which is prepared where needed (see `get_store`), the
    folder of a prepared store, or a folder with such folders; or several of these,
    separated by commas.
    """
    stores: list[GraphStore] = []
    names = names_in(options)
    if options.split_file and len(names) > 1:
        raise DatasetError(f"--split {options.split} is of the rows of one dataset")
    for name in names:
        folders = prepared_stores(name)
        if not folders:
            stores.append(get_store(dataclasses.replace(options, name=name)))
            continue
        for option in _SETTLED:
            if getattr(options, option) != getattr(DatasetOptions, option):
                flag = option.replace("_", "-").replace("source", "dataset-source")
                raise DatasetError(f"{name} is prepared already; leave --{flag} out")
        stores += map(GraphStore.open, folders)
    return stores[0] if len(stores) == 1 else ShardedStore(stores)


def names_in(options: DatasetOptions) -> list[str]:
    """Names of datasets, tables or folders in ``--dataset-name``, which commas separate."""
    if options.user_data_dir:
        import_user_data(Path(options.user_data_dir))
    whole = options.name in DATASETS or options.path.exists()
    if whole or "," not in options.name:
        return [options.name]
    names = [name.strip() for name in options.name.split(",")]
    if not all(names):
        raise DatasetError(f"--dataset-name {options.name}: a name is empty")
    return names


def prepared_stores(name: str) -> list[Path]:
    """Folders of prepared stores: the folder ``name``, or folders in it."""
    folder = home_path(name)
    if not folder.is_dir():
        return []
    if (folder / MANIFEST).is_file():
        return [folder]
    stores = sorted(
        path
        for path in folder.iterdir()
        if not path.name.startswith(".") and (path / MANIFEST).is_file()
    )
    shards = [re.fullmatch(r"(\d{5,})-of-(\d{5,})", path.name) for path in stores]
    counts = {int(shard[2]) for shard in shards if shard}
    if len(counts) > 1:
        raise DatasetError(f"{folder} has shards of several divisions: {counts}")
    for count in counts:
        present = {int(shard[1]) for shard in shards if shard}
        missing = [number for number in range(1, count + 1) if number not in present]
        if missing:
            raise DatasetError(
                f"{folder}: {len(missing)} of {count} shards are missing "
                f"({listed(missing)}); prepare them with "
                "graphormer-preprocess --shard"
            )
    return stores


def identities(options: DatasetOptions) -> tuple[list[str], list[list[str]]]:
    """Names of the columns that identify a molecule, and their cells by row.

    Both are empty for prepared stores, several names, graphs, and a user's own dataset, whose
    code would run again.
    """
    names = names_in(options)
    if len(names) > 1 or prepared_stores(names[0]):
        return [], []
    dataset = find_dataset(options)
    if isinstance(dataset, TableDataset):
        return dataset.molecules(options)
    smiles = dataset.load(options).smiles if dataset.sources else None
    return ([], []) if smiles is None else (["smiles"], [[text] for text in smiles])


def _check_alike(store: GraphStore, other: GraphStore) -> None:
    """Raise DatasetError where two stores differ in a property."""
    for part, described in _parts_of(store).items():
        differing = _parts_of(other)[part]
        if differing != described:
            texts = (f"{text!s:.120}" for text in (described, differing))
            raise DatasetError(
                f"{store.path} and {other.path} have other {part}: {' and '.join(texts)}"
            )


def _parts_of(store: GraphStore) -> dict[str, Any]:
    """Properties that stores of a dataset share."""
    targets = store.targets
    return {
        "features of nodes and bonds": store.schema.unscaled(),
        "features": store.featuriser,
        "targets": (targets.names, targets.unit, targets.kinds_text, targets.level),
        "classes": targets.class_names,
        "columns": sorted(store.columns.keys() - {"row", "molecule"}),
    }
