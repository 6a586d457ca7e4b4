"""Writing a `GraphStore` from a stream of graphs, with bounded memory."""

import dataclasses
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

import numpy as np

from cython_ext import bond_dtype
from graphormer_plugin.data.columns import (
    EDGE_LABEL_COLUMNS,
    Columns,
    Level,
    as_rows,
    column_type,
)
from graphormer_plugin.data.errors import StoreError, counted, named_in_errors
from graphormer_plugin.data.files import (
    PathName,
    atomic_write,
    file_sha256,
    is_full,
    npy_header,
)
from graphormer_plugin.data.graphs.chunk import NODE_SPLITS, FeaturisedRows, GraphChunk
from graphormer_plugin.data.graphs.featurisers import AtomsFeaturiser
from graphormer_plugin.data.graphs.graph_columns import chunk_bonds, flat_columns
from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.sources.registry import DatasetSource
from graphormer_plugin.data.splits import Split
from graphormer_plugin.data.store import (
    FORMAT,
    FORMAT_VERSION,
    MANIFEST,
    fingerprint_of,
)
from graphormer_plugin.data.store.build_chunks import BuildChunks
from graphormer_plugin.data.store.ranges import BondColumns, Column
from graphormer_plugin.data.tables.label_warnings import warnings_about
from graphormer_plugin.data.tables.labels import (
    as_float32,
    checked_bounds,
    checked_weights,
    describe_targets,
    stored_labels,
)
from graphormer_plugin.data.targets import TargetSchema, target_statistics


class StoreWriter:
    """Writes a store from chunks of graphs with bounded memory.

    A context manager. Graphs wait as `BuildChunks` in a temporary folder beside ``path``. When all
    are there, `finish` knows their ranges, writes the columns, and renames their folder,
    which replaces an earlier store. Wrong data and a full disk remove the temporary folder. If
    the build is stopped (a kill, Ctrl-C, too little memory), the next build of the same ``key``,
    which names everything that the graphs depend on, goes on after the finished parts. The
    caller holds `file_lock`. See `DatasetSource` for ``node_dims``, ``bond_dims`` and ``level``.
    """

    def __init__(
        self,
        path: PathName,
        node_dims: list[int] | None = None,
        bond_dims: list[int] | None = None,
        key: Any = None,
        level: Level = Level.GRAPH,
    ) -> None:
        self.path = Path(path)
        self.folder = self.path.parent / f".tmp-{self.path.name}"
        self.key = key
        self.level = level
        self.node_dims = node_dims
        self.bonds = BondColumns(bond_dims)
        self.num_graphs = 0
        self._num_nodes = 0
        self._num_edges = 0
        self._rows_differ = False
        self._labels: list[np.ndarray] = []  # labels of graphs
        self._columns: dict[str, Column] = {}
        self._files: dict[str, dict[str, Any]] = {}  # entries of the manifest

    def __enter__(self) -> "StoreWriter":
        if self.path.exists() and not (self.path / MANIFEST).exists():
            raise StoreError(f"{self.path} is not a graph store; remove it first")
        self.parts = BuildChunks(self.folder / "parts", self.key)
        self._store = self.folder / "store"
        shutil.rmtree(self._store, ignore_errors=True)
        self._store.mkdir(parents=True)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, *_: Any) -> None:
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        taken = sum(path.stat().st_size for path in files)
        if self.key is None or isinstance(error, ValueError | None) or is_full(error):
            shutil.rmtree(self.folder, ignore_errors=True)
        if is_full(error):
            graphs = counted(self.num_graphs, "graph")
            raise StoreError(
                f"{error}: {graphs} took {taken / 1e6:,.1f} MB; make room, or name another folder "
                "with --data-root"
            ) from error

    def finished(self) -> Iterator[FeaturisedRows]:
        """Yield what a stopped build of this key has finished, before more is appended."""
        for rows in self.parts.earlier():
            self._measure(rows.chunk)
            yield rows

    def append(self, rows: FeaturisedRows) -> None:
        """Add graphs."""
        self._measure(rows.chunk)
        self.parts.append(rows)

    def _measure(self, chunk: GraphChunk | None) -> None:
        """Check graphs, and take the ranges of their columns."""
        if chunk is None:
            return
        chunk.check(first=self.num_graphs)
        attr = chunk.edge_attr
        real = attr is not None and attr.dtype.kind == "f"
        self.bonds.add(None if real else attr, chunk.edge_index.shape[1])
        measured = {"x": chunk.x, "row": chunk.row}
        measured |= {"edge_attr": attr if real else None} | chunk.attributes
        measured["node_split"] = chunk.node_split
        if chunk.edge_label_index is not None:
            measured |= zip(EDGE_LABEL_COLUMNS, chunk.edge_label_index)
        if chunk.target is not None and self.level is Level.GRAPH:
            self._labels.append(chunk.target)
        elif chunk.target is not None:
            labels = chunk.target  # files have a single column in one dimension
            measured["target"] = labels[:, 0] if labels.shape[1] == 1 else labels
        for name, values in measured.items():
            if values is not None:
                dims = self.node_dims if name == "x" else None
                self._columns.setdefault(name, Column(name, dims)).measure(values)
        if chunk.row is not None:
            numbers = np.arange(self.num_graphs, self.num_graphs + len(chunk))
            self._rows_differ |= not np.array_equal(chunk.row, numbers)
        # One type for both ends, given by the largest graph and not by its edges.
        ends = np.array([int(chunk.num_nodes.max()) - 1])
        self._columns.setdefault("edge_src", Column("edge_src")).measure(ends)
        self.num_graphs += len(chunk)
        self._num_nodes += int(chunk.num_nodes.sum())
        self._num_edges += chunk.edge_index.shape[1]

    def finish(
        self,
        source: DatasetSource,
        splits: Split,
        target: np.ndarray | None = None,
        *,
        identity: Mapping[str, Any] = MappingProxyType({"source": {}, "options": {}}),
        skipped: int = 0,
        rows: int = 0,
        molecules: Sequence[int] | None = None,
        texts: Sequence[int] | None = None,
        doubts: Sequence[str] = (),
    ) -> None:
        """Complete the store and put it in place.

        Args:
            source: says what the graphs carry, a row each: names, units, weights.
            target: float [G, C] if the chunks have none.
            identity: what the store comes from, see `locate`.
            skipped: number of the ``rows`` that could not be parsed; 0 rows: all graphs.
            molecules: `molecule_key` of each graph.
            texts: the same of what a model reads of it, such as a conformer.
            doubts: further warnings about the data.
        """
        if target is None and self._labels:
            target = np.concatenate(self._labels)
        schema = self._write_columns(source, splits, target, molecules)
        targets, missing = self._targets(source, splits)
        counted = {"rows": rows or self.num_graphs, "skipped": skipped}
        counted["missing_labels"] = missing
        manifest = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "dataset": source.label,
            **identity,
            "counts": counted | self._counts(splits),
            "featuriser": source.featuriser,
            "schema": schema.to_dict(),
            "targets": targets.to_dict(),
            "files": dict(sorted(self._files.items())),
        }
        manifest["warnings"] = [*doubts]
        if molecules is not None:
            beside = np.array(molecules if texts is None else texts, float)[:, None]
            if source.graph_values is not None:
                beside = np.hstack([beside, np.asarray(source.graph_values)])
            drawn = source.featuriser != AtomsFeaturiser.name
            manifest["warnings"] += warnings_about(
                targets,
                target,
                splits,
                molecules,
                beside,
                drawn=drawn,
                unread=source.unread,
            )
        manifest["fingerprint"] = fingerprint_of(manifest)
        with atomic_write(self._store / MANIFEST, "w", encoding="utf-8") as file:
            json.dump(manifest, file, indent=1)
        if self.path.exists():
            os.rename(self.path, self.folder / "earlier")
        os.rename(self._store, self.path)

    def _write_columns(
        self,
        source: DatasetSource,
        splits: Split,
        target: np.ndarray | None,
        molecules: Sequence[int] | None,
    ) -> FeatureSchema:
        """Write all columns; returns their schema."""
        arrays = {f"split_{name}": numbers for name, numbers in splits.items()}
        if target is not None:
            arrays["target"] = stored_labels(target)
        if source.weights is not None:
            arrays["weight"] = checked_weights(source.weights, self.num_graphs)
        if source.bounds is not None:
            arrays["bound"] = checked_bounds(source.bounds, arrays["target"])
        if source.graph_features:
            arrays["graph_features"] = as_float32(np.asarray(source.graph_values))
        if molecules is not None:
            arrays["molecule"] = np.array(molecules, np.uint64)
        schema = self._schema(source.graph_features, arrays, splits)
        with named_in_errors(self._store):
            self._write_graphs(schema)
            for name, array in arrays.items():
                file = self._create(name, array.dtype.str, array.shape)
                self._close(name, file, array)
        return schema

    def _targets(
        self, source: DatasetSource, splits: Split
    ) -> tuple[TargetSchema, int]:
        """Targets of the labels that are written, and the number of missing labels."""
        names = list(source.target_names)
        classes = source.num_classes
        targets, missing = describe_targets(
            as_rows(self._array("target")),
            TargetSchema.of(names, source.unit, source.kind, self.level, classes),
            self._array(self.level.counted_by),
            splits,
            self._array("node_split"),
            source.bounds,
        )
        if any(source.class_names):
            targets = targets.with_classes(source.class_names)
        return targets, missing

    def _counts(self, splits: Split) -> dict[str, int]:
        """Numbers of graphs, nodes and edges, and of graphs, or nodes, by split."""
        used = np.unique(np.concatenate([[], *splits.values()]))
        counts = {
            "graphs": self.num_graphs,
            "nodes": self._num_nodes,
            "edges": self._num_edges,
            "graphs_in_no_split": self.num_graphs - len(used),
            **{f"split_{name}": len(splits[name]) for name in splits},
        }
        if (node_split := self._array("node_split")) is not None:
            numbers = np.bincount(node_split, minlength=1 + len(NODE_SPLITS))
            counts |= {f"nodes_{n}": int(k) for n, k in zip(NODE_SPLITS, numbers[1:])}
        return counts

    def _schema(
        self,
        names: Sequence[str],
        arrays: Columns,
        splits: Split,
    ) -> FeatureSchema:
        """Schema of the columns, with names and scales of the graph features."""
        x = self._columns["x"]
        real = self._columns.get("edge_attr")
        width = 0 if real is None else real.tail[0]
        schema = self.bonds.schema(x.tail[0], x.vocabularies(), width)
        if not names:
            return schema
        train = splits.get("train", np.arange(self.num_graphs))
        mean, std = target_statistics(arrays["graph_features"], train)
        return dataclasses.replace(
            schema, graph_features=list(names), graph_mean=mean, graph_std=std
        )

    def _write_graphs(self, schema: FeatureSchema) -> None:
        """Write the columns of the graphs from their parts."""
        graphs = self.num_graphs
        edges = self._num_edges
        measured = self._columns
        ends = measured["edge_src"].dtype(column_type("edge_src").dtypes)
        bond_type = np.dtype(bond_dtype(schema.num_bond_types)).str
        files = {
            "node_offset": self._create("node_offset", "<i8", (graphs + 1,)),
            "edge_offset": self._create("edge_offset", "<i8", (graphs + 1,)),
            "edge_src": self._create("edge_src", ends, (edges,)),
            "edge_dst": self._create("edge_dst", ends, (edges,)),
            "edge_bond": self._create("edge_bond", bond_type, (edges,)),
        }
        for name, column in measured.items():
            if name != "edge_src" and (name != "row" or self._rows_differ):
                dtype = column.dtype(column_type(name).dtypes)
                files[name] = self._create(name, dtype, (column.rows, *column.tail))
        last = {"node_offset": 0, "edge_offset": 0}
        if self.level is Level.LINK:
            offset = self.level.offset
            files[offset] = self._create(offset, "<i8", (graphs + 1,))
            last[offset] = 0
        written = 0
        self.parts.flush()
        for chunk in filter(None, (rows.chunk for rows in self.parts)):
            columns = flat_columns(chunk, chunk_bonds(chunk, schema), schema)
            columns |= {"row": chunk.row, "target": chunk.target}
            for name in last:
                offset = columns[name] + last[name]
                columns[name] = offset[1:] if written else offset
                last[name] = offset[-1]
            for name, (file, dtype) in files.items():
                file.write(np.ascontiguousarray(columns[name], dtype).tobytes())
            written += len(chunk)
        for name, file in files.items():
            self._close(name, file)

    def _create(
        self, name: str, dtype: str, shape: tuple[int, ...]
    ) -> tuple[BinaryIO, str]:
        """A new file of a column with its header, open, and its type."""
        file = open(self._store / f"{name}.npy", "xb")
        file.write(npy_header(np.dtype(dtype), shape))
        self._files[f"{name}.npy"] = {"dtype": dtype, "shape": list(shape)}
        return file, dtype

    def _close(
        self, name: str, opened: tuple[BinaryIO, str], array: Any = None
    ) -> None:
        """Write the rest of a column to the disk, and its entry of the manifest."""
        file, dtype = opened
        with file:
            if array is not None:
                file.write(np.ascontiguousarray(array, dtype).tobytes())
            file.flush()
            os.fsync(file.fileno())
        path = self._store / f"{name}.npy"
        sizes = {"sha256": file_sha256(path), "bytes": path.stat().st_size}
        self._files[f"{name}.npy"] = sizes | self._files[f"{name}.npy"]

    def _array(self, name: str) -> Any:
        """A column that is written; None without it."""
        path = self._store / f"{name}.npy"
        return np.load(path, mmap_mode="r") if path.exists() else None
