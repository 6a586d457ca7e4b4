"""Writing a `GraphStore` from a stream of graphs, with bounded memory."""

import contextlib
import dataclasses
import json
import logging
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cython_ext import edge_order
from graphormer_plugin.data.checks import warnings_about
from graphormer_plugin.data.chunk import NODE_SPLITS, GraphChunk
from graphormer_plugin.data.files import (
    atomic_write,
    file_lock,
    file_sha256,
    fsync_folder,
    is_full,
)
from graphormer_plugin.data.labels import as_float32, checked_weights, describe_targets
from graphormer_plugin.data.schema import FeatureSchema, TargetSchema, target_statistics
from graphormer_plugin.data.splits import checked_splits
from graphormer_plugin.data.store import (
    FORMAT,
    FORMAT_VERSION,
    MANIFEST,
    GraphStore,
    check_sizes,
    fingerprint_of,
    manifest_checksum,
    refuse_newer,
    remember_verified,
    remove_leftovers,
)
from graphormer_plugin.data.store.bond_numbers import BondNumbers, largest_in
from graphormer_plugin.data.store.column_file import ColumnFile

logger = logging.getLogger(__name__)

# Integer types a column may take, smallest first.
_UNSIGNED = ("<u1", "<u2", "<i4")
_FEATURES = ("<u1", "<i2", "<i4")
_SIGNED = ("<i1", "<i2", "<i4")


class StoreWriter:
    """Writes a store from chunks of graphs with bounded memory.

    A context manager. Chunks go to a temporary folder beside ``path``, and `finish`
    renames it, replacing an earlier store. An error or Ctrl-C before that removes the
    temporary folder; the next build removes the folder of a killed process. The caller
    holds `file_lock`.

    Args:
        path: Final folder.
        node_dims: Number of values of each node column. None takes the largest value
            + 1; float features have none.
        bond_dims: The same for bond columns.
        expected: Number of graphs to come, if it is known; the error of a full disk
            says how much they need.

    Example:
        >>> with file_lock(path), StoreWriter(path) as writer:
        ...     for chunk in chunks:
        ...         writer.append(chunk)
        ...     writer.finish(dataset="mine", splits=splits, target_names=["gap"])
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        node_dims: list[int] | None = None,
        bond_dims: list[int] | None = None,
        *,
        expected: int = 0,
    ) -> None:
        self.path = Path(path)
        self.expected = expected
        self.node_dims = node_dims
        self.bond_dims = bond_dims
        self.num_graphs = 0
        self._begun = 0
        self._rows_differ = False
        self._num_nodes = 0
        self._num_edges = 0
        self._columns: dict[str, ColumnFile] = {}
        self._node_max: Any = 0  # of each column of categories
        self._bonds = BondNumbers(bond_dims)

    def __enter__(self) -> "StoreWriter":
        refuse_newer(self.path)
        remove_leftovers(self.path)
        self.folder = self.path.parent / f".tmp-{self.path.name}.{os.getpid()}"
        self.folder.mkdir(parents=True)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, *_: Any) -> None:
        for column in self._columns.values():
            with contextlib.suppress(OSError):
                column.waiting.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        if is_full(error) and self._begun:
            asked = sum(column.bytes for column in self._columns.values())
            graphs = max(self.expected, self._begun)
            need = max(0.1, asked / self._begun * graphs / 1e6)
            full = OSError(
                f"{error}; {graphs:,} graphs need about {need:,.1f} MB in "
                f"{self.path.parent}, and up to three times as much until they are "
                "complete: make room, or name another folder with --data-root"
            )
            full.errno = error.errno
            raise full from error

    def append(self, chunk: GraphChunk) -> None:
        """Adds graphs.

        Raises:
            ValueError: The chunk is wrong (see `GraphChunk.check`), a value exceeds the
                given ranges, or chunks differ in their columns.
        """
        if len(chunk) == 0:
            return
        chunk.check(first=self.num_graphs)
        self._begun += len(chunk)
        num_nodes = chunk.num_nodes.astype(np.int64)
        num_edges = chunk.num_edges.astype(np.int64)
        edges = chunk.edge_index.shape[1]
        attr = chunk.edge_attr
        real = attr is not None and attr.dtype.kind == "f"
        bond, keys = self._bonds.number(None if real else attr, edges)
        order = edge_order(num_edges, *chunk.edge_index, *keys)
        if not self._columns:
            self._column("node_offset", ("<i8",)).append(np.zeros(1, np.int64))
            self._column("edge_offset", ("<i8",)).append(np.zeros(1, np.int64))
        self._append("x", chunk.x, _FEATURES)
        if chunk.x.dtype.kind != "f":
            largest = largest_in("x", chunk.x, self.node_dims)
            self._node_max = np.maximum(largest, self._node_max)
        elif self.node_dims is not None:
            raise ValueError("x has floats, expected categories within node_dims")
        self._column("node_offset").append(np.cumsum(num_nodes) + self._num_nodes)
        self._column("edge_offset").append(np.cumsum(num_edges) + self._num_edges)
        # One type for both ends, given by the largest graph and not by its edges.
        last = int(num_nodes.max()) - 1
        for name, ends in zip(("edge_src", "edge_dst"), chunk.edge_index, strict=True):
            self._column(name, _UNSIGNED).append(ends[order], largest=last)
        self._column("edge_bond", _UNSIGNED).append(bond[order])
        if real:
            self._append("edge_attr", attr[order])
        if chunk.pos is not None:
            self._append("pos", chunk.pos)
        if chunk.node_split is not None:
            self._append("node_split", chunk.node_split)
        if chunk.row is not None:
            numbers = np.arange(self.num_graphs, self.num_graphs + len(chunk))
            self._rows_differ |= not np.array_equal(chunk.row, numbers)
            self._append("row", chunk.row)
        if chunk.target is not None:
            target = chunk.target
            target = target if target.ndim == 1 else as_float32(target)
            self._append("target", target, _SIGNED)
        self.num_graphs += len(chunk)
        self._num_nodes += int(num_nodes.sum())
        self._num_edges += edges

    def finish(
        self,
        *,
        dataset: str,
        splits: Mapping[str, np.ndarray],
        target_names: Iterable[str],
        target: np.ndarray | None = None,
        unit: str = "",
        kind: str = "regression",
        num_classes: int = 0,
        source: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        skipped: int = 0,
        rows: int | None = None,
        featuriser: str = "",
        molecules: Sequence[int] | None = None,
        class_names: Sequence[Sequence[str]] = (),
        weights: np.ndarray | None = None,
        bounds: np.ndarray | None = None,
        graph_features: Sequence[str] = (),
        graph_values: np.ndarray | None = None,
    ) -> None:
        """Completes the store and puts it in place.

        The other arguments are those of a `DatasetSource` whose rows are the graphs.

        Args:
            dataset: Name for humans.
            splits: Graph ids by split name.
            target: float [G, C] if the chunks have none.
            source: Origin of the store, JSON values. A store with another
                source than requested is stale.
            options: Options that it was made with; a store with others is stale.
            skipped: Number of rows of the source that could not be parsed.
            rows: Number of all rows of the source; None: graphs and skipped rows.
            featuriser: See `GraphStore`.
            molecules: `molecule_key` of each graph, to warn of duplicates.

        Raises:
            ValueError: No graphs, a split that is not a set of graph ids, or targets or
                weights of the wrong shape or range.
        """
        total = self.num_graphs
        if total == 0:
            raise ValueError(f"{dataset} has no graphs")
        if target is not None:
            self._column("target", ("<f4",)).append(as_float32(target))
        if weights is not None:
            self._append("weight", checked_weights(weights, total))
        if bounds is not None:
            self._append("bound", bounds, _SIGNED)
        splits = checked_splits(splits, total)
        if graph_features:
            graph_values = as_float32(np.asarray(graph_values))
            self._append("graph_features", graph_values)
        schema = self._schema(list(graph_features), graph_values, splits)
        unused = np.ones(total, dtype=bool)
        for name, graph_ids in splits.items():
            self._column(f"split_{name}", ("<i8",)).append(graph_ids)
            unused[graph_ids] = False
        self._close_columns(schema)
        values, of_nodes = self._array("target"), self._array("node_split")
        asked = TargetSchema(list(target_names), unit, kind, num_classes=num_classes)
        offset = self._array("node_offset")
        targets, missing = describe_targets(
            values, asked, offset, splits, of_nodes, bounds
        )
        if any(class_names):
            targets = targets.with_classes(class_names)
        counts = {
            "rows": total + skipped if rows is None else rows,
            "graphs": total,
            "nodes": self._num_nodes,
            "edges": self._num_edges,
            "skipped": skipped,
            "missing_labels": missing,
            "graphs_in_no_split": int(unused.sum()),
            **{f"split_{name}": len(splits[name]) for name in splits},
        }
        if of_nodes is not None:
            numbers = np.bincount(of_nodes, minlength=1 + len(NODE_SPLITS))
            counts |= {f"nodes_{n}": int(k) for n, k in zip(NODE_SPLITS, numbers[1:])}
        manifest = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "dataset": dataset,
            "source": dict(source or {}),
            "options": dict(options or {}),
            "counts": counts,
            "featuriser": featuriser,
            "schema": schema.to_dict(),
            "targets": targets.to_dict(),
            "files": {
                column.path.name: _file_entry(column)
                for _, column in sorted(self._columns.items())
            },
        }
        if molecules is not None and target is not None:
            manifest["warnings"] = warnings_about(
                targets, target, splits, molecules, graph_values
            )
        self._publish(manifest)

    def _close_columns(self, schema: FeatureSchema) -> None:
        """Writes the files of all columns, each with as many rows as it describes.

        Bonds get their types by ``schema``; ``row`` goes where it only counts graphs.
        """
        expected = {"node_offset": self.num_graphs + 1, "row": self.num_graphs}
        expected |= {"pos": self._num_nodes, "edge_attr": self._num_edges}
        expected |= {"node_split": self._num_nodes}
        types = self._bonds.types(schema)
        for name, column in self._columns.items():
            if column.rows != expected.get(name, column.rows):
                raise ValueError(
                    f"{name} is given for {column.rows} of {expected[name]} entries"
                )
            column.close(types if name == "edge_bond" else None)
        if "row" in self._columns and not self._rows_differ:
            self._columns.pop("row").path.unlink()

    def _publish(self, manifest: dict[str, Any]) -> None:
        """Seals the manifest and puts the folder in place."""
        manifest["fingerprint"] = fingerprint_of(manifest)
        manifest["checksum"] = manifest_checksum(manifest)
        with atomic_write(self.folder / MANIFEST, "w", encoding="utf-8") as file:
            json.dump(manifest, file, indent=1)
        fsync_folder(self.folder)
        _replace_folder(self.folder, self.path)
        remember_verified(self.path, manifest, check_sizes(self.path, manifest))

    def _column(self, name: str, dtypes: tuple[str, ...] = ()) -> ColumnFile:
        if name not in self._columns:
            self._columns[name] = ColumnFile(self.folder / f"{name}.npy", dtypes)
        return self._columns[name]

    def _array(self, name: str) -> Any:
        """A column that is closed; None without it."""
        if name not in self._columns:
            return None
        return np.load(self._columns[name].path, mmap_mode="r", allow_pickle=False)

    def _append(
        self, name: str, values: np.ndarray, dtypes: tuple[str, ...] = _UNSIGNED
    ) -> None:
        if values.dtype.kind == "f":
            values, dtypes = values.astype(np.float32, copy=False), ("<f4",)
        self._column(name, dtypes).append(values)

    def _schema(
        self, names: list[str], values: np.ndarray | None, splits: Mapping[str, Any]
    ) -> FeatureSchema:
        """Schema of the columns, with names and scales of the graph features."""
        node_dims = self.node_dims
        if node_dims is None and self._columns["x"].dtype.kind != "f":
            node_dims = (self._node_max + 1).tolist()
        real = self._columns.get("edge_attr")
        width = 0 if real is None else real.tail[0]
        schema = self._bonds.schema(self._columns["x"].tail[0], node_dims, width)
        if not names:
            return schema
        train = splits.get("train", np.arange(self.num_graphs))
        mean, std = target_statistics(values, train)
        return dataclasses.replace(
            schema, graph_features=names, graph_mean=mean, graph_std=std
        )


def write_store(
    path: str | os.PathLike[str],
    chunks: Iterable[GraphChunk],
    *,
    node_dims: list[int] | None = None,
    bond_dims: list[int] | None = None,
    **finish: Any,
) -> GraphStore:
    """Writes a store from chunks of graphs, under its lock, and opens it; see `StoreWriter`
    and, for the other arguments, `StoreWriter.finish`. Replaces an earlier store."""
    with file_lock(path), StoreWriter(path, node_dims, bond_dims) as writer:
        for chunk in chunks:
            writer.append(chunk)
        writer.finish(**finish)
    return GraphStore.open(path)


def _file_entry(column: ColumnFile) -> dict[str, Any]:
    return {
        "sha256": file_sha256(column.path),
        "bytes": column.path.stat().st_size,
        "dtype": column.dtype.str,
        "shape": [column.rows, *(column.tail or ())],
    }


def _replace_folder(new: Path, path: Path) -> None:
    """Renames ``new`` to ``path``, and removes an earlier store there.

    A store is deleted after the new store is in its place, since that takes long enough to be
    killed in. A folder that is not a store is set aside under another name.
    """
    old = path.parent / f".old-{path.name}.{os.getpid()}"
    if path.exists():
        if (path / MANIFEST).exists():
            os.rename(path, old)
        else:
            number = 1
            while (aside := path.parent / f"{path.name}.foreign{number}").exists():
                number += 1
            os.rename(path, aside)
            logger.warning("%s is not a graph store; moved to %s", path, aside)
    os.rename(new, path)
    fsync_folder(path.parent)
    shutil.rmtree(old, ignore_errors=True)
