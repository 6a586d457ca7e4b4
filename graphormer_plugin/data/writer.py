"""Writing a `GraphStore` from a stream of graphs, with bounded memory."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Optional

import numpy as np

from graphormer_plugin.data.files import (
    atomic_write,
    file_lock,
    file_sha256,
    fsync_folder,
)
from graphormer_plugin.data.schema import (
    MAX_BOND_TYPES,
    MAX_RADIX_TYPES,
    FeatureSchema,
    TargetSchema,
    target_statistics,
)
from graphormer_plugin.data.store import (
    FORMAT,
    FORMAT_VERSION,
    MANIFEST,
    GraphStore,
    canonical_json,
    check_sizes,
    manifest_checksum,
    remember_verified,
    remove_leftovers,
)

logger = logging.getLogger(__name__)

# Integer types a column may take, smallest first.
_UNSIGNED = ("<u1", "<u2", "<i4")
_FEATURES = ("<u1", "<i2", "<i4")
_SIGNED = ("<i1", "<i2", "<i4")
NPY_HEADER_BYTES = (
    128  # room for any shape, so that the header can be rewritten at the end
)
_BLOCK_ROWS = 1 << 20


@dataclass
class GraphChunk:
    """A run of graphs on their way into a store.

    Attributes:
        num_nodes: int [g] nodes of each graph, at least 1.
        num_edges: int [g] directed edges of each graph.
        x: Integers or float32 [sum n, F].
        edge_index: int [2, sum e], node numbers within each graph.
        edge_attr: int [sum e, columns], or None where edges carry nothing.
        target: float [g, C], or int [sum n] at node level, or None if given at the end.
        pos: float32 [sum n, 3] or None.
        row: int [g] row of the source, or None where it is the graph's number.
    """

    num_nodes: np.ndarray
    num_edges: np.ndarray
    x: np.ndarray
    edge_index: np.ndarray
    edge_attr: Optional[np.ndarray] = None
    target: Optional[np.ndarray] = None
    pos: Optional[np.ndarray] = None
    row: Optional[np.ndarray] = None

    def __len__(self) -> int:
        return len(self.num_nodes)

    @classmethod
    def joined(cls, chunks: Sequence[GraphChunk]) -> GraphChunk:
        """Consecutive chunks, at least one, as one. All have the same arrays, but those
        without edges may lack `edge_attr`."""
        arrays = {}
        for entry in dataclasses.fields(cls):
            parts = [getattr(chunk, entry.name) for chunk in chunks]
            parts = [part for part in parts if part is not None]
            if parts:
                axis = 1 if entry.name == "edge_index" else 0
                arrays[entry.name] = np.concatenate(parts, axis=axis)
        return cls(**arrays)


class StoreWriter:
    """Writes a store from chunks of graphs with bounded memory.

    A context manager. Chunks go to a temporary folder beside ``path``; `finish` puts
    it in place, replacing what was there. Leaving the context before that, by an
    error or Ctrl-C, removes the temporary folder; the next build removes one that a
    killed process left. The caller holds `file_lock`.

    Args:
        path: Final folder.
        node_dims: Number of values of each node column where known; else they are the
            largest value found + 1. None for float features.
        bond_dims: Number of values of each bond column likewise.

    Example:
        >>> with file_lock(path), StoreWriter(path) as writer:
        ...     for chunk in chunks:
        ...         writer.append(chunk)
        ...     writer.finish(dataset="mine", splits=splits, target_names=["gap"])
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        node_dims: Optional[list[int]] = None,
        bond_dims: Optional[list[int]] = None,
    ) -> None:
        self.path = Path(path)
        self.node_dims = node_dims
        self.bond_dims = bond_dims
        self.num_graphs = 0
        self._rows_differ = False
        self._num_nodes = 0
        self._num_edges = 0
        self._columns: dict[str, _Column] = {}
        self._node_max: Optional[np.ndarray] = None
        self._bond_max: Optional[np.ndarray] = None
        self._bond_numbers: dict[tuple[int, ...], int] = {}
        self._bond_width: Optional[int] = None if bond_dims is None else len(bond_dims)
        self._radix: Optional[FeatureSchema] = None
        if bond_dims is not None and np.prod(bond_dims, dtype=float) <= MAX_RADIX_TYPES:
            self._radix = FeatureSchema(0, [], list(bond_dims))

    def __enter__(self) -> StoreWriter:
        remove_leftovers(self.path)
        self.folder = self.path.parent / f".tmp-{self.path.name}.{os.getpid()}"
        self.folder.mkdir(parents=True)
        return self

    def __exit__(self, *exc_info: Any) -> None:
        for column in self._columns.values():
            column.file.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def append(self, chunk: GraphChunk) -> None:
        """Adds graphs.

        Raises:
            ValueError: Shapes disagree, an edge ends outside its graph, or chunks
                differ in their columns; names the graph where it is one graph's fault.
        """
        if len(chunk) == 0:
            return
        num_nodes = np.asarray(chunk.num_nodes, dtype=np.int64)
        num_edges = np.asarray(chunk.num_edges, dtype=np.int64)
        edge_index = np.asarray(chunk.edge_index)
        nodes, edges = int(num_nodes.sum()), int(num_edges.sum())
        if edge_index.shape != (2, edges):
            raise ValueError(
                f"edge_index has shape {list(edge_index.shape)}, expected [2, {edges}]"
            )
        if num_nodes.min() < 1:
            graph = self.num_graphs + int(num_nodes.argmin())
            raise ValueError(f"graph {graph} has no nodes")
        owner = np.repeat(np.arange(len(chunk)), num_edges)
        outside = (edge_index < 0) | (edge_index >= num_nodes[owner])
        if outside.any():
            edge = int(outside.any(axis=0).argmax())
            graph = int(owner[edge])
            raise ValueError(
                f"graph {self.num_graphs + graph} has an edge "
                f"{edge_index[0, edge]} -> {edge_index[1, edge]}, but "
                f"{num_nodes[graph]} nodes (0..{num_nodes[graph] - 1})"
            )

        bond, keys = self._number_bonds(chunk.edge_attr, edges)
        order = np.lexsort((*keys, edge_index[1], edge_index[0], owner))
        if not self._columns:
            self._column("node_offset", ("<i8",)).append(np.zeros(1, np.int64))
            self._column("edge_offset", ("<i8",)).append(np.zeros(1, np.int64))
        self._append_nodes("x", self._checked_x(chunk.x), nodes, _FEATURES)
        self._column("node_offset").append(np.cumsum(num_nodes) + self._num_nodes)
        self._column("edge_offset").append(np.cumsum(num_edges) + self._num_edges)
        # One type for both ends, given by the largest graph and not by its edges.
        self._column("edge_src", _UNSIGNED).append(
            edge_index[0][order], largest=int(num_nodes.max()) - 1
        )
        self._column("edge_dst", _UNSIGNED).append(
            edge_index[1][order], largest=int(num_nodes.max()) - 1
        )
        self._column("edge_bond", _UNSIGNED).append(bond[order])
        if chunk.pos is not None:
            self._append_nodes("pos", np.asarray(chunk.pos), nodes, ("<f4",))
        if chunk.row is not None:
            rows = np.asarray(chunk.row)
            numbers = np.arange(self.num_graphs, self.num_graphs + len(chunk))
            self._rows_differ |= not np.array_equal(rows, numbers)
            self._column("row", _UNSIGNED).append(rows)
        if chunk.target is not None:
            target = np.asarray(chunk.target)
            if target.ndim == 1:
                self._append_nodes("target", target, nodes, _SIGNED)
            else:
                if len(target) != len(chunk):
                    raise ValueError(
                        f"target has {len(target)} rows, expected {len(chunk)} (graphs)"
                    )
                self._column("target", ("<f4",)).append(_float32(target))
        self.num_graphs += len(chunk)
        self._num_nodes += nodes
        self._num_edges += edges

    def finish(
        self,
        *,
        dataset: str,
        splits: Mapping[str, np.ndarray],
        target_names: Iterable[str],
        target: Optional[np.ndarray] = None,
        unit: str = "",
        kind: str = "regression",
        num_classes: int = 0,
        source: Optional[Mapping[str, Any]] = None,
        options: Optional[Mapping[str, Any]] = None,
        skipped: int = 0,
        featuriser: str = "",
    ) -> Path:
        """Completes the store and puts it in place.

        Args:
            dataset: Name for humans.
            splits: Graph numbers by split name.
            target_names: One per target column.
            target: float [G, C] where chunks brought none.
            unit: Of a regression target.
            kind: ``regression``, ``binary`` or ``multiclass``.
            num_classes: Of a multiclass target.
            source: What the store was made from, JSON values; a store whose source
                differs from what is asked for is stale.
            options: Likewise.
            skipped: Rows of the source that became no graph.
            featuriser: What makes such graphs of SMILES; see `GraphStore`.

        Returns:
            The store's folder.

        Raises:
            ValueError: No graphs, a split that is no set of graph numbers, or targets
                of the wrong shape or range.
        """
        if self.num_graphs == 0:
            raise ValueError(f"{dataset} has no graphs")
        if target is not None:
            target = _float32(target)
            if len(target) != self.num_graphs:
                raise ValueError(
                    f"target has {len(target)} rows, expected {self.num_graphs} graphs"
                )
            self._column("target", ("<f4",)).append(target)
        for name, column in self._columns.items():
            expected = {"node_offset": self.num_graphs + 1, "row": self.num_graphs}
            expected |= {"pos": self._num_nodes}
            if name in expected and column.rows != expected[name]:
                raise ValueError(
                    f"{name} is given for {column.rows} of {expected[name]} entries"
                )
            column.close()
        if "row" in self._columns and not self._rows_differ:
            self._columns.pop("row").path.unlink()
        schema = self._schema()
        if self._radix is None and schema.bond_dims:
            self._renumber_bonds(schema)

        numbers = _checked_splits(splits, self.num_graphs)
        for name, rows in numbers.items():
            column = self._column(f"split_{name}", ("<i8",))
            column.append(rows)
            column.close()

        targets, missing = self._targets(
            list(target_names), unit, kind, num_classes, numbers
        )
        files = {
            f"{name}.npy": _file_entry(self.folder / f"{name}.npy")
            for name in sorted(self._columns)
        }
        covered = np.zeros(self.num_graphs, dtype=bool)
        for rows in numbers.values():
            covered[rows] = True
        manifest = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "dataset": dataset,
            "source": dict(source or {}),
            "options": dict(options or {}),
            "counts": {
                "graphs": self.num_graphs,
                "nodes": self._num_nodes,
                "edges": self._num_edges,
                "skipped": skipped,
                "missing_labels": missing,
                "graphs_in_no_split": int((~covered).sum()),
                **{f"split_{name}": len(rows) for name, rows in numbers.items()},
            },
            "featuriser": featuriser,
            "schema": schema.to_dict(),
            "targets": targets.to_dict(),
            "files": files,
        }
        manifest["fingerprint"] = _fingerprint(manifest)
        manifest["checksum"] = manifest_checksum(manifest)
        with atomic_write(self.folder / MANIFEST, "w", encoding="utf-8") as file:
            json.dump(manifest, file, indent=1)
        fsync_folder(self.folder)
        _replace_folder(self.folder, self.path)
        remember_verified(self.path, manifest, check_sizes(self.path, manifest))
        return self.path

    def _column(self, name: str, dtypes: tuple[str, ...] = ()) -> _Column:
        if name not in self._columns:
            self._columns[name] = _Column(self.folder / f"{name}.npy", dtypes)
        return self._columns[name]

    def _append_nodes(
        self, name: str, values: np.ndarray, nodes: int, dtypes: tuple[str, ...]
    ) -> None:
        if len(values) != nodes:
            raise ValueError(f"{name} has {len(values)} rows, expected {nodes} (nodes)")
        if values.dtype.kind == "f":
            values, dtypes = values.astype(np.float32, copy=False), ("<f4",)
        self._column(name, dtypes).append(values)

    def _checked_x(self, x: np.ndarray) -> np.ndarray:
        x = np.asarray(x)
        if x.ndim != 2 or x.dtype.kind not in "iubf":
            raise ValueError(
                f"x has shape {list(x.shape)} and dtype {x.dtype}, expected [sum N, F] "
                "of integers or floats"
            )
        if x.dtype.kind == "f":
            if self.node_dims is not None or self._node_max is not None:
                raise ValueError("x has floats here and integers elsewhere")
            return x
        if x.dtype.kind == "b":
            x = x.astype(np.uint8)
        if "x" in self._columns and self._node_max is None:
            raise ValueError("x has integers here and floats elsewhere")
        largest = x.max(axis=0, initial=0).astype(np.int64)
        if x.size and x.min() < 0:
            raise ValueError(f"x has a value {x.min()}, expected 0 and above")
        if self._node_max is not None and len(largest) != len(self._node_max):
            raise ValueError(
                f"x has {len(largest)} columns, expected {len(self._node_max)}"
            )
        if self.node_dims is not None:
            for column, dim in enumerate(self.node_dims):
                if largest[column] >= dim:
                    raise ValueError(
                        f"x column {column} is {largest[column]}, expected 0..{dim - 1}"
                    )
        self._node_max = (
            largest if self._node_max is None else np.maximum(self._node_max, largest)
        )
        return x

    def _number_bonds(
        self, edge_attr: Optional[np.ndarray], edges: int
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """Bond numbers [E] and the sort keys that order edges as the final types do.

        Where the ranges are not known beforehand, numbers are given in order of first
        appearance and replaced at the end; lexicographic keys make the order of edges
        independent of that.
        """
        if not edges and edge_attr is None:
            return np.empty(0, dtype=np.int64), ()
        width = 0 if edge_attr is None else np.asarray(edge_attr).shape[1]
        if self._bond_width is None:
            self._bond_width = width
        if width != self._bond_width:
            raise ValueError(
                f"edge_attr has {width} columns, expected {self._bond_width}"
            )
        if edge_attr is None or width == 0:
            return np.ones(edges, dtype=np.int64), ()
        edge_attr = np.asarray(edge_attr)
        if len(edge_attr) != edges or edge_attr.dtype.kind not in "iub":
            raise ValueError(
                f"edge_attr has shape {list(edge_attr.shape)} and dtype "
                f"{edge_attr.dtype}, expected [{edges}, {width}] of integers"
            )
        if edge_attr.size and edge_attr.min() < 0:
            raise ValueError(f"edge_attr has a value {edge_attr.min()}, expected >= 0")
        if self._radix is not None:
            types = self._radix.bond_types(edge_attr)
            return types, (types,)
        largest = edge_attr.max(axis=0, initial=0).astype(np.int64)
        self._bond_max = (
            largest if self._bond_max is None else np.maximum(self._bond_max, largest)
        )
        rows, inverse = np.unique(edge_attr, axis=0, return_inverse=True)
        inverse = inverse.reshape(-1)  # [E]; ranks of rows, in lexicographic order
        numbers = [
            self._bond_numbers.setdefault(tuple(row), len(self._bond_numbers) + 1)
            for row in rows.tolist()
        ]
        if len(self._bond_numbers) >= MAX_BOND_TYPES:
            raise ValueError(
                f"edge_attr has {MAX_BOND_TYPES} different rows or more; are the edge "
                "features continuous? Bin them, or leave edge_attr out"
            )
        return np.array(numbers, dtype=np.int64)[inverse], (inverse,)

    def _schema(self) -> FeatureSchema:
        node_dims = self.node_dims
        if node_dims is None and self._node_max is not None:
            node_dims = (self._node_max + 1).tolist()
        width = self._columns["x"].tail[0]
        if self.bond_dims is not None:
            bond_dims = list(self.bond_dims)
        elif self._bond_max is not None:
            bond_dims = (self._bond_max + 1).tolist()
        else:
            bond_dims = [1] * (self._bond_width or 0)
        table = None
        if np.prod(bond_dims, dtype=float) > MAX_RADIX_TYPES:
            table = [list(row) for row in sorted(self._bond_numbers)]
        return FeatureSchema(width, node_dims, bond_dims, table)

    def _renumber_bonds(self, schema: FeatureSchema) -> None:
        """Replaces provisional bond numbers by the schema's types, block by block."""
        table = np.zeros(len(self._bond_numbers) + 1, dtype=np.int64)
        if self._bond_numbers:
            rows = np.array(list(self._bond_numbers), dtype=np.int64)
            table[1:] = schema.bond_types(rows)
        provisional = self.folder / "edge_bond.provisional.npy"
        os.rename(self.folder / "edge_bond.npy", provisional)
        column = _Column(self.folder / "edge_bond.npy", _UNSIGNED[:2])
        numbers = np.load(provisional, mmap_mode="r", allow_pickle=False)
        column.append(numbers[:0], largest=schema.num_bond_types)
        for start in range(0, len(numbers), _BLOCK_ROWS):
            column.append(table[numbers[start : start + _BLOCK_ROWS]])
        column.close()
        del numbers
        provisional.unlink()

    def _targets(
        self,
        names: list[str],
        unit: str,
        kind: str,
        num_classes: int,
        splits: Mapping[str, np.ndarray],
    ) -> tuple[TargetSchema, int]:
        if "target" not in self._columns:
            if names:
                raise ValueError(f"no labels are given for target {names[0]!r}")
            return TargetSchema([], unit, kind, "graph", num_classes), 0
        column = self._columns["target"]
        values = np.load(self.folder / "target.npy", mmap_mode="r", allow_pickle=False)
        if values.ndim == 1:
            if len(values) != self._num_nodes:
                raise ValueError(
                    f"node labels are given for {len(values)} of "
                    f"{self._num_nodes} nodes"
                )
            if kind == "regression":
                raise ValueError("node labels are classes: kind must be multiclass")
            found = int(values.max()) + 1
            if num_classes and found > num_classes:
                raise ValueError(
                    f"a node has label {found - 1}, expected 0..{num_classes - 1}"
                )
            num_classes = max(num_classes, found)
            schema = TargetSchema(names, unit, kind, "node", num_classes)
            return schema, int((values < 0).sum())
        if len(values) != self.num_graphs:
            raise ValueError(
                f"targets are given for {len(values)} of {self.num_graphs} graphs"
            )
        if len(names) != column.tail[0]:
            raise ValueError(
                f"{len(names)} target names {names}, "
                f"but {column.tail[0]} target columns"
            )
        missing = int(np.isnan(values).sum())
        mean: list[float] = []
        std: list[float] = []
        if kind == "regression":
            rows = splits.get("train", np.arange(self.num_graphs))
            mean, std = target_statistics(values, rows)
        else:
            found = _check_classes(values, 2 if kind == "binary" else num_classes)
            num_classes = found if kind == "multiclass" else 0
        return (
            TargetSchema(names, unit, kind, "graph", num_classes, mean, std),
            missing,
        )


def write_store(
    path: str | os.PathLike[str],
    chunks: Iterable[GraphChunk],
    *,
    node_dims: Optional[list[int]] = None,
    bond_dims: Optional[list[int]] = None,
    **finish: Any,
) -> GraphStore:
    """Writes a store from chunks, under its lock, and opens it.

    Args:
        path: Final folder; what is there is replaced.
        chunks: Graphs in their order.
        node_dims: See `StoreWriter`.
        bond_dims: See `StoreWriter`.
        **finish: See `StoreWriter.finish`.
    """
    with (
        file_lock(path),
        StoreWriter(path, node_dims=node_dims, bond_dims=bond_dims) as writer,
    ):
        for chunk in chunks:
            writer.append(chunk)
        writer.finish(**finish)
    return GraphStore.open(path)


class _Column:
    """A growing ``.npy`` file that takes a wider type when a value asks for it."""

    def __init__(self, path: Path, dtypes: tuple[str, ...]) -> None:
        self.path = path
        self.dtypes = [np.dtype(dtype) for dtype in dtypes]
        self.dtype = self.dtypes[0]
        self.tail: Optional[tuple[int, ...]] = None
        self.rows = 0
        self.file: BinaryIO = open(path, "wb")
        self.file.write(bytes(NPY_HEADER_BYTES))

    def append(self, values: np.ndarray, largest: Optional[int] = None) -> None:
        if self.tail is None:
            self.tail = values.shape[1:]
        if values.shape[1:] != self.tail:
            raise ValueError(
                f"{self.path.stem} has rows of shape {list(values.shape[1:])}, "
                f"expected {list(self.tail)}"
            )
        if self.dtype.kind != "f":
            high = int(values.max(initial=0) if largest is None else largest)
            self._widen(int(values.min(initial=0)), high)
        self.file.write(np.ascontiguousarray(values, dtype=self.dtype).tobytes())
        self.rows += len(values)

    def _widen(self, low: int, high: int) -> None:
        for dtype in self.dtypes[self.dtypes.index(self.dtype) :]:
            limits = np.iinfo(dtype)
            if limits.min <= low and high <= limits.max:
                break
        else:
            raise ValueError(
                f"{self.path.stem} has a value in {low}..{high}, expected "
                f"{limits.min}..{limits.max}"
            )
        if dtype == self.dtype:
            return
        if self.rows:
            self.file.close()
            wide = self.path.with_suffix(".wide")
            with open(self.path, "rb") as old, open(wide, "wb") as new:
                old.seek(NPY_HEADER_BYTES)
                new.write(bytes(NPY_HEADER_BYTES))
                while block := old.read(_BLOCK_ROWS * self.dtype.itemsize):
                    new.write(np.frombuffer(block, self.dtype).astype(dtype).tobytes())
            os.replace(wide, self.path)
            self.file = open(self.path, "r+b")
            self.file.seek(0, os.SEEK_END)
        self.dtype = dtype

    def close(self) -> None:
        if self.file.closed:
            return
        shape = (self.rows, *(self.tail or ()))
        self.file.seek(0)
        self.file.write(npy_header(self.dtype, shape))
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()


def npy_header(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    """Header of the .npy format, version 1.0, of a fixed length."""
    fields = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    text = repr(fields).encode("ascii")
    magic = b"\x93NUMPY\x01\x00"
    length = NPY_HEADER_BYTES - len(magic) - 2
    return magic + length.to_bytes(2, "little") + text.ljust(length - 1) + b"\n"


def _float32(values: np.ndarray) -> np.ndarray:
    """float32 [G, C]; ValueError where a label does not fit or is infinite."""
    values = np.asarray(values)
    if values.ndim != 2:
        raise ValueError(f"target has shape {list(values.shape)}, expected [G, C]")
    with np.errstate(over="ignore"):
        result = values.astype(np.float32)
    infinite = np.isinf(result)
    if infinite.any():
        graph, column = np.argwhere(infinite)[0]
        raise ValueError(
            f"target {column} of graph {graph} is {values[graph, column]}, expected a "
            "number that fits float32"
        )
    return result


def _check_classes(values: np.ndarray, num_classes: int) -> int:
    """Number of classes of labels [G, C]; ValueError for anything but 0..classes-1."""
    present = values[~np.isnan(values)]
    wrong = (present < 0) | (present != np.floor(present))
    if num_classes:
        wrong |= present >= num_classes
    if wrong.any():
        limit = num_classes - 1 if num_classes else "classes - 1"
        raise ValueError(
            f"a label is {present[wrong][0]:g}, expected an integer 0..{limit}"
        )
    return num_classes or int(present.max(initial=0)) + 1


def _checked_splits(
    splits: Mapping[str, np.ndarray], num_graphs: int
) -> dict[str, np.ndarray]:
    checked = {}
    for name, rows in splits.items():
        if not re.fullmatch(r"\w[\w-]*", name):
            raise ValueError(f"split name {name!r} must be a plain word")
        rows = np.asarray(rows)
        if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
            raise ValueError(f"split {name} must be a list of graph numbers")
        rows = rows.astype(np.int64)
        if rows.size and not (rows.min() >= 0 and rows.max() < num_graphs):
            wrong = rows[(rows < 0) | (rows >= num_graphs)][0]
            raise ValueError(
                f"split {name} names graph {wrong}, expected 0..{num_graphs - 1}"
            )
        if len(np.unique(rows)) != len(rows):
            raise ValueError(f"split {name} names a graph twice")
        checked[name] = rows
    return checked


def _fingerprint(manifest: Mapping[str, Any]) -> str:
    content = {
        "schema": manifest["schema"],
        "targets": manifest["targets"],
        "files": {name: entry["sha256"] for name, entry in manifest["files"].items()},
    }
    return hashlib.sha256(canonical_json(content)).hexdigest()


def _file_entry(path: Path) -> dict[str, Any]:
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    return {
        "sha256": file_sha256(path),
        "bytes": path.stat().st_size,
        "dtype": array.dtype.str,
        "shape": list(array.shape),
    }


def _replace_folder(new: Path, path: Path) -> None:
    """Renames ``new`` to ``path``; what was there goes.

    A store is deleted. Anything else is set aside under another name: it is not ours.
    """
    if path.exists():
        if (path / MANIFEST).exists():
            old = path.parent / f".old-{path.name}.{os.getpid()}"
            os.rename(path, old)
            shutil.rmtree(old, ignore_errors=True)
        else:
            number = 1
            while (aside := path.parent / f"{path.name}.foreign{number}").exists():
                number += 1
            os.rename(path, aside)
            logger.warning("%s is no graph store; moved to %s", path, aside)
    os.rename(new, path)
    fsync_folder(path.parent)
