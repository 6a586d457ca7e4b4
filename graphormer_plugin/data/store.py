"""The graph store: a folder of flat columns, memory-mapped, written once.

Nothing quadratic in the number of nodes is stored. A folder holds one ``.npy`` per
column and split, and a ``manifest.json``:

=================  =============================  ===================================
file               shape, dtype                   meaning
=================  =============================  ===================================
``node_offset``    [G+1] int64                    first row in ``x`` of each graph
``edge_offset``    [G+1] int64                    first edge of each graph
``x``              [sum N, F] uint8|int16|        node features
                   int32|float32
``edge_src``       [sum E] uint8|uint16|int32     source, node number within its graph
``edge_dst``       [sum E], same                  target likewise
``edge_bond``      [sum E] uint8|uint16           bond type from 1
``target``         [G, C] float32, or             NaN = missing; node labels
                   [sum N] int8|int16|int32
``row``            [G] uint8|uint16|int32         row of the source (0-based); absent
                                                  where it is the graph's number
``pos``            [sum N, 3] float32             coordinates, where the source has them
``split_<name>``   [rows] int64                   graphs of a split
=================  =============================  ===================================

Edges of a graph are sorted by (source, target, bond type). Integers take the smallest
type that fits the whole column.

**What is checked when.** The manifest carries its own checksum, and size, sha256, dtype
and shape of every file. Every open checks the manifest, the size of every file, its
header, and that the offsets start at 0 and end at the ends of their columns: a few
milliseconds, whatever the number of graphs. Checksums cost a read of the whole store,
so they are computed after a build and then only when a file may have changed: what was
verified (inode, size, time of modification and of status change, which no program sets
at will) is remembered in ``.<name>.verified.json`` beside the folder. A store that was
copied, restored, edited or truncated is thereby verified at its next open, one that
nobody touched is opened at once. A disk that rots without the file system noticing is
found by ``verify=True`` (``graphormer-preprocess --verify``).

**Building** happens in a temporary folder beside the final one, which is renamed after
everything is on disk, under a file lock that the kernel releases when its holder dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Optional

import numpy as np

from graphormer_plugin.data.errors import StoreError
from graphormer_plugin.data.features import (
    MAX_BOND_TYPES,
    MAX_RADIX_TYPES,
    FeatureSchema,
    TargetSchema,
    target_statistics,
)

logger = logging.getLogger(__name__)

FORMAT = "graphormer_plugin.GraphStore"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"

# Integer types a column may take, smallest first.
_UNSIGNED = ("<u1", "<u2", "<i4")
_FEATURES = ("<u1", "<i2", "<i4")
_SIGNED = ("<i1", "<i2", "<i4")
_HEADER_BYTES = (
    128  # room for any shape, so that the header can be rewritten at the end
)
_BLOCK_ROWS = 1 << 20
_CLOCK_TICK_NS = 50_000_000  # file times advance in steps of at most this


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


class GraphStore:
    """A store on disk, opened for reading; see the module's text for its columns.

    Attributes:
        path: Its folder.
        columns: Memory-mapped arrays by name, without the splits.
        schema: Node and bond columns.
        targets: Names, unit, kind and statistics of the labels.
        splits: Graph numbers, int64 arrays by split name, in the source's order.
        manifest: As written; ``options``, ``source`` and ``counts`` tell where the
            store comes from.
        fingerprint: Hash (64 hexadecimal digits) of everything that is trained on:
            columns, splits and schemas. Two stores with the same fingerprint hold the
            same graphs in the same order, wherever they were built.

    A store sent to another process is opened there anew.
    """

    def __init__(
        self,
        path: Path,
        manifest: dict[str, Any],
        columns: dict[str, np.ndarray],
        splits: dict[str, np.ndarray],
    ) -> None:
        self.path = path
        self.manifest = manifest
        self.columns = columns
        self.splits = splits
        self.schema = FeatureSchema.from_dict(manifest["schema"])
        self.targets = TargetSchema.from_dict(manifest["targets"])
        self.fingerprint: str = manifest["fingerprint"]

    @classmethod
    def open(cls, path: str | os.PathLike[str], verify: bool = False) -> GraphStore:
        """Opens a store without reading its columns.

        Args:
            path: Folder of the store.
            verify: Compute the checksums of all files even if none has changed since
                they were last verified.

        Raises:
            StoreError: The folder is missing, no store, of another version, truncated
                or damaged.
        """
        path = Path(path)
        manifest = _read_manifest(path)
        stats = _check_sizes(path, manifest)
        if verify or not _is_verified(path, manifest, stats):
            _verify_checksums(path, manifest)
            _remember_verified(path, manifest, stats)
        columns: dict[str, np.ndarray] = {}
        splits: dict[str, np.ndarray] = {}
        for name, entry in manifest["files"].items():
            array = _map_array(path / name, entry)
            if name.startswith("split_"):
                splits[name[len("split_") : -len(".npy")]] = array
            else:
                columns[name[: -len(".npy")]] = array
        _check_offsets(path, columns)
        try:
            return cls(path, manifest, columns, splits)
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(f"{path}: manifest cannot be used: {error}") from error

    def __len__(self) -> int:
        return len(self.columns["node_offset"]) - 1

    def __reduce__(self) -> tuple[Any, ...]:
        return (GraphStore.open, (str(self.path),))

    def __repr__(self) -> str:
        return f"GraphStore({str(self.path)!r}, graphs={len(self)})"

    @cached_property
    def sizes(self) -> np.ndarray:
        """int32 [G] nodes of each graph."""
        return np.diff(self.columns["node_offset"]).astype(np.int32)

    @property
    def target(self) -> Optional[np.ndarray]:
        """Labels [G, C] or [sum N]; None in a store without."""
        return self.columns.get("target")

    def rows(self, graphs: np.ndarray) -> np.ndarray:
        """Rows (0-based) of the source that graphs come from.

        Differs from the graphs' numbers where unparsable molecules were skipped.
        """
        graphs = np.asarray(graphs, dtype=np.int64)
        if "row" not in self.columns:
            return graphs
        return self.columns["row"][graphs].astype(np.int64)


def describe(store: GraphStore) -> str:
    """One line with which two people can see that they train on the same thing.

    Example:
        ``nci: 3,993 train / 499 valid / 499 test graphs, target penalised_logp
        (dimensionless), fingerprint 1a2b3c4d5e6f``
    """
    order = {"train": 0, "valid": 1, "test": 2}
    names = sorted(store.splits, key=lambda name: (order.get(name, 3), name))
    counts = " / ".join(f"{len(store.splits[name]):,} {name}" for name in names)
    targets = store.targets
    if len(targets.names) > 3:
        target = f"{len(targets.names)} targets"
    else:
        plural = "s" if len(targets.names) > 1 else ""
        target = f"target{plural} {', '.join(targets.names)}"
    if targets.kind == "regression":
        kind = targets.unit or "unit not given"
    elif targets.kind == "binary":
        kind = "binary"
    else:
        kind = f"{targets.num_classes} classes"
    parts = [f"{counts} graphs", f"{target} ({kind})"]
    missing = store.manifest["counts"]["missing_labels"]
    if missing:
        parts.append(f"{missing:,} labels missing")
    unused = store.manifest["counts"]["graphs_in_no_split"]
    if unused:
        parts.append(f"{unused:,} graphs in no split")
    skipped = store.manifest["counts"]["skipped"]
    if skipped:
        parts.append(f"{skipped:,} unparsable rows skipped")
    parts.append(f"fingerprint {store.fingerprint[:12]}")
    return f"{store.manifest['dataset']}: " + ", ".join(parts)


# ------------------------------------------------------------------------ writing


class StoreWriter:
    """Writes a store from chunks of graphs with bounded memory.

    A context manager. Chunks go to a temporary folder beside ``path``; `finish` puts
    it in place, replacing what was there. Leaving the context before that, by an
    error or Ctrl-C, removes the temporary folder; the next build removes one that a
    killed process left. The caller holds `store_lock`.

    Args:
        path: Final folder.
        node_dims: Number of values of each node column where known; else they are the
            largest value found + 1. None for float features.
        bond_dims: Number of values of each bond column likewise.

    Example:
        >>> with store_lock(path), StoreWriter(path) as writer:
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
        self.folder = self.path.parent / f".tmp-{self.path.name}-{os.getpid()}"
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
            self._column("row", _UNSIGNED).append(np.asarray(chunk.row))
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
            "schema": schema.to_dict(),
            "targets": targets.to_dict(),
            "files": files,
        }
        manifest["fingerprint"] = _fingerprint(manifest)
        manifest["checksum"] = _manifest_checksum(manifest)
        with open(self.folder / MANIFEST, "w", encoding="utf-8") as file:
            json.dump(manifest, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        _fsync_folder(self.folder)
        _replace_folder(self.folder, self.path)
        _remember_verified(self.path, manifest, _check_sizes(self.path, manifest))
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
        store_lock(path),
        StoreWriter(path, node_dims=node_dims, bond_dims=bond_dims) as writer,
    ):
        for chunk in chunks:
            writer.append(chunk)
        writer.finish(**finish)
    return GraphStore.open(path)


@contextlib.contextmanager
def store_lock(
    path: str | os.PathLike[str], on_wait: Optional[Callable[[], None]] = None
) -> Iterator[None]:
    """Holds the lock of a store; blocks while another process has it.

    The lock is the kernel's (``flock``), so it ends with its holder, however that dies.

    Args:
        path: Folder of the store, which need not exist.
        on_wait: Called once if the lock is taken.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.parent / f".{path.name}.lock", "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if on_wait is not None:
                on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def remove_leftovers(path: Path) -> None:
    """Removes temporary folders of builds of ``path`` that were killed.

    Only the holder of the store's lock may call it: then no build is under way.
    """
    for prefix in (".tmp-", ".old-"):
        for folder in path.parent.glob(f"{prefix}{path.name}-*"):
            shutil.rmtree(folder, ignore_errors=True)


class _Column:
    """A growing ``.npy`` file that takes a wider type when a value asks for it."""

    def __init__(self, path: Path, dtypes: tuple[str, ...]) -> None:
        self.path = path
        self.dtypes = [np.dtype(dtype) for dtype in dtypes]
        self.dtype = self.dtypes[0]
        self.tail: Optional[tuple[int, ...]] = None
        self.rows = 0
        self.file: BinaryIO = open(path, "wb")
        self.file.write(bytes(_HEADER_BYTES))

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
                old.seek(_HEADER_BYTES)
                new.write(bytes(_HEADER_BYTES))
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
        self.file.write(_npy_header(self.dtype, shape))
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()


def _npy_header(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    """Header of the .npy format, version 1.0, of a fixed length."""
    fields = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    text = repr(fields).encode("ascii")
    magic = b"\x93NUMPY\x01\x00"
    length = _HEADER_BYTES - len(magic) - 2
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
        if not name.isidentifier():
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
    return hashlib.sha256(_canonical(content)).hexdigest()


def _manifest_checksum(manifest: Mapping[str, Any]) -> str:
    content = {key: value for key, value in manifest.items() if key != "checksum"}
    return hashlib.sha256(_canonical(content)).hexdigest()


def _canonical(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def _file_entry(path: Path) -> dict[str, Any]:
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    return {
        "sha256": file_sha256(path),
        "bytes": path.stat().st_size,
        "dtype": array.dtype.str,
        "shape": list(array.shape),
    }


def file_sha256(path: str | os.PathLike[str]) -> str:
    """sha256 of a file's content, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fsync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replace_folder(new: Path, path: Path) -> None:
    """Renames ``new`` to ``path``; what was there goes.

    A store is deleted. Anything else is set aside under another name: it is not ours.
    """
    if path.exists():
        if (path / MANIFEST).exists():
            old = path.parent / f".old-{path.name}-{os.getpid()}"
            os.rename(path, old)
            shutil.rmtree(old, ignore_errors=True)
        else:
            number = 1
            while (aside := path.parent / f"{path.name}.foreign{number}").exists():
                number += 1
            os.rename(path, aside)
            logger.warning("%s is no graph store; moved to %s", path, aside)
    os.rename(new, path)
    _fsync_folder(path.parent)


# ------------------------------------------------------------------------ reading


def _read_manifest(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        raise StoreError(f"{path}: no such graph store")
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StoreError(f"{path}: no graph store ({MANIFEST} is missing)") from None
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise StoreError(f"{path}: {MANIFEST} is damaged") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise StoreError(f"{path}: no graph store ({MANIFEST} is not ours)")
    version = manifest.get("version")
    if version != FORMAT_VERSION:
        raise StoreError(
            f"{path}: written in format {version}, this version reads "
            f"{FORMAT_VERSION}; prepare the data set again"
        )
    if manifest.get("checksum") != _manifest_checksum(manifest):
        raise StoreError(f"{path}: {MANIFEST} is damaged (checksum differs)")
    return manifest


def _check_sizes(path: Path, manifest: Mapping[str, Any]) -> dict[str, list[int]]:
    """State of every file as `_remember_verified` keeps it."""
    stats = {}
    for name, entry in manifest["files"].items():
        try:
            stat = (path / name).stat()
        except OSError as error:
            raise StoreError(f"{path}: {name}: {error.strerror}") from None
        if stat.st_size != entry["bytes"]:
            raise StoreError(
                f"{path}: {name} has {stat.st_size} bytes, expected {entry['bytes']}"
            )
        stats[name] = [stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
    return stats


def _verified_record(path: Path) -> Path:
    return path.parent / f".{path.name}.verified.json"


def _is_verified(
    path: Path, manifest: Mapping[str, Any], stats: dict[str, list[int]]
) -> bool:
    try:
        record = json.loads(_verified_record(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return record == {"manifest": manifest["checksum"], "files": stats}


def _remember_verified(
    path: Path, manifest: Mapping[str, Any], stats: dict[str, list[int]]
) -> None:
    record = _verified_record(path)
    newest = max(times[-1] for times in stats.values())
    if time.time_ns() - newest < _CLOCK_TICK_NS:
        return  # a change within the same tick of the clock could not be told
    temporary = record.with_name(f"{record.name}.{os.getpid()}")
    try:
        content = {"manifest": manifest["checksum"], "files": stats}
        temporary.write_text(json.dumps(content), encoding="utf-8")
        os.replace(temporary, record)
    except OSError as error:  # read-only media: verified again at the next open
        logger.info("cannot write %s: %s", record, error)


def _verify_checksums(path: Path, manifest: Mapping[str, Any]) -> None:
    for name, entry in manifest["files"].items():
        if file_sha256(path / name) != entry["sha256"]:
            raise StoreError(f"{path}: {name} is damaged (checksum differs)")


def _map_array(path: Path, entry: Mapping[str, Any]) -> np.ndarray:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise StoreError(f"{path.parent}: {path.name} is damaged: {error}") from error
    if array.dtype.str != entry["dtype"] or list(array.shape) != entry["shape"]:
        raise StoreError(
            f"{path.parent}: {path.name} holds {array.dtype.str} {list(array.shape)}, "
            f"expected {entry['dtype']} {entry['shape']}"
        )
    return array


def _check_offsets(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    try:
        pairs = [("node_offset", "x"), ("edge_offset", "edge_src")]
        pairs += [("edge_offset", "edge_dst"), ("edge_offset", "edge_bond")]
        for offset, column in pairs:
            first, last = int(columns[offset][0]), int(columns[offset][-1])
            if first != 0 or last != len(columns[column]):
                raise StoreError(
                    f"{path}: {offset} runs from {first} to {last}, expected 0 to "
                    f"{len(columns[column])} ({column})"
                )
        if len(columns["node_offset"]) != len(columns["edge_offset"]):
            raise StoreError(f"{path}: node_offset and edge_offset differ in length")
    except KeyError as error:
        raise StoreError(f"{path}: column {error} is missing") from None
