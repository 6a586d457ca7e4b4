"""The graph store: a folder of flat columns, memory-mapped, written once.

Nothing quadratic in the number of nodes is stored. A folder holds one ``.npy`` per
column and split, and a ``manifest.json``:

| file | shape, dtype | meaning |
|---|---|---|
| `node_offset` | [G+1] int64 | first row in `x` of each graph |
| `edge_offset` | [G+1] int64 | first edge of each graph |
| `x` | [sum N, F] uint8, int16, int32 or float32 | node features |
| `edge_src` | [sum E] uint8, uint16 or int32 | source, node number within its graph |
| `edge_dst` | [sum E], as `edge_src` | target, node number within its graph |
| `edge_bond` | [sum E] uint8 or uint16 | bond type from 1 |
| `edge_attr` | [sum E, F] float32 | real features of edges, if the source has them |
| `target` | [G, C] float32, or float64 for large labels | NaN = missing |
| | or [labels] int8, int16 or int32 | classes of nodes, edges or links, -1 = missing |
| | or [labels] float32 | their values, NaN = missing |
| `label_src` | [labels] uint8, uint16 or int32 | a node of each labelled edge or link |
| `label_dst` | [labels], the same | the other, in the order of the source |
| `link_offset` | [G+1] int64 | first label of each graph, if labels are of links |
| `row` | [G] uint8, uint16 or int32 | row of the source; absent if it is the graph id |
| `molecule` | [G] uint64 | `molecule_key`, if the graphs are of SMILES |
| `pos` | [sum N, 3] float32 | coordinates, if the source has them |
| `weight` | [G] float32 | of each graph in the loss, 0 or more, if the source has them |
| `bound` | [G, C] float32 | how far the value may be from the target (`label_ends`), if some are |
| `graph_features` | [G, K] float32 | numbers of each graph, NaN = missing, if there are some |
| `node_split` | [sum N] uint8 | split of each node, if splits are of nodes (`NODE_SPLITS`) |
| `split_<name>` | [graphs] int64 | graph ids of a split |

Edges of a graph are sorted by (source, target, bond type). Integers take the smallest
type that fits the whole column.

Every open compares the size, dtype and shape of every file with the manifest, and the splits
with the number of graphs, which takes milliseconds for any number of graphs. ``verify=True``
(``graphormer-preprocess --verify``) reads the whole store and compares checksums.
"""

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from graphormer_plugin.data.columns import (
    EDGE_LABEL_COLUMNS,
    Columns,
    Level,
    edge_label_index_of,
    rows_of_graphs,
)
from graphormer_plugin.data.errors import (
    NewerStoreError,
    StoreError,
    counted,
    named_damage,
)
from graphormer_plugin.data.files import PathName, file_sha256, read_text, text_sha256
from graphormer_plugin.data.graphs.chunk import NODE_SPLITS, node_split_number
from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.splits import SPLITS, Split
from graphormer_plugin.data.targets import TargetSchema

FORMAT = "graphormer_plugin.GraphStore"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"


class GraphStore:
    """A store on disk, opened for reading; see the module's text for its columns.

    Attributes:
        columns: memory-mapped arrays by name, without the splits.
        splits: graph ids, int64 arrays by split name, in the source's order.
        manifest: ``options``, ``source`` and ``counts`` say where the store comes from.
        warnings: probable mistakes in the data, see `label_warnings.warnings_about`.
        featuriser: name of the `Featuriser` that makes such graphs of SMILES, for
            prediction; empty if there is none.
        fingerprint: hash (64 hexadecimal digits) of everything that is trained on:
            columns, splits and schemas. Equal fingerprints mean the same graphs in the
            same order. The manifest keeps the fingerprint of the files.

    A store that is sent to another process is opened again there.
    """

    def __init__(
        self,
        path: Path,
        manifest: dict[str, Any],
        columns: Columns,
        splits: Split,
    ) -> None:
        self.path = path
        self.manifest = manifest
        labels = columns["target"]  # files of nodes may have one dimension
        self.columns = columns | {"target": labels.reshape(len(labels), -1)}
        self.splits = splits
        self.schema = FeatureSchema(**manifest["schema"])
        self.targets = TargetSchema.of(**manifest["targets"])
        self.featuriser = str(manifest["featuriser"])
        self.fingerprint: str = manifest["fingerprint"]
        self.warnings = [str(text) for text in manifest.get("warnings", [])]
        self.reopen: tuple[Any, ...] = GraphStore.open, (str(path),)

    @classmethod
    def open(cls, path: PathName, verify: bool = False) -> "GraphStore":
        """Open a store without reading its columns, or with ``verify`` read all files and
        compares their checksums. StoreError says that it is missing, damaged, or of another
        version; NewerStoreError, that a newer version has written it."""
        path = Path(path)
        with named_damage(f"{path}: wrong content", StoreError):
            manifest = _read_manifest(path)
            if verify and manifest["fingerprint"] != fingerprint_of(manifest):
                raise StoreError(f"{path}: {MANIFEST} is damaged (fingerprint differs)")
            columns: Columns = {}
            splits: Split = {}
            for name, entry in manifest["files"].items():
                array = _open_column(path / name, entry, verify)
                if name.startswith("split_"):
                    splits[name[len("split_") : -len(".npy")]] = array
                else:
                    columns[name[: -len(".npy")]] = array
            store = cls(path, manifest, columns, splits)
            for name, ids in splits.items():
                if len(ids) and not 0 <= ids.min() <= ids.max() < len(store):
                    raise StoreError(
                        f"{path}: split_{name}.npy names graphs it has not"
                    )
            return store

    def __len__(self) -> int:
        return len(self.columns["node_offset"]) - 1

    def __reduce__(self) -> tuple[Any, ...]:
        return self.reopen

    def __repr__(self) -> str:
        return f"GraphStore({str(self.path)!r}, graphs={len(self)})"

    @cached_property
    def sizes(self) -> np.ndarray:
        """int32 [G] nodes of each graph."""
        return np.diff(self.columns["node_offset"]).astype(np.int32)

    @property
    def target(self) -> np.ndarray:
        """Labels [rows of their level, C]."""
        return self.columns["target"]

    @property
    def stores(self) -> list["GraphStore"]:
        """This store alone; see `ShardedStore`."""
        return [self]

    def graphs_in(self, split: str) -> np.ndarray:
        """Graph ids of a split; none without it."""
        return self.splits.get(split, np.zeros(0, np.int64))

    def label_rows(self, graph_ids: np.ndarray, split: str = "") -> np.ndarray:
        """Rows of the labels of graphs; where splits are of nodes, those in a given one."""
        rows = rows_of_graphs(self.columns, graph_ids, self.targets.level)
        if split in NODE_SPLITS and "node_split" in self.columns:
            rows = rows[self.columns["node_split"][rows] == node_split_number(split)]
        return rows

    @cached_property
    def label_counts(self) -> np.ndarray:
        """Rows of labels of each graph [G]."""
        level = self.targets.level
        if level is Level.GRAPH:
            return np.ones(len(self), np.int64)
        return np.diff(self.columns[level.offset])

    def labels(self, graph_ids: np.ndarray) -> np.ndarray:
        """Labels of graphs, or of their nodes, edges or links, [n, C]."""
        return np.asarray(self.target[self.label_rows(graph_ids)])

    def edge_label_index(self, graph_ids: np.ndarray) -> np.ndarray:
        """Nodes of the labelled edge or link of graphs, int64 [n, 2]."""
        rows = self.label_rows(graph_ids)
        return edge_label_index_of(
            {name: self.columns[name][rows] for name in EDGE_LABEL_COLUMNS}
        )

    def rows(self, graph_ids: np.ndarray) -> np.ndarray:
        """Rows (from 0) of the source that graphs come from.

        They differ from the graph ids if unparsable molecules were left out.
        """
        graph_ids = np.asarray(graph_ids, dtype=np.int64)
        if "row" not in self.columns:
            return graph_ids
        return self.columns["row"][graph_ids].astype(np.int64)


def describe(store: GraphStore) -> str:
    """One line that shows two people whether they train on the same data.

    Example:
        ``nci: 3,993 train / 499 valid / 499 test graphs, target penalised_logp
        (dimensionless), fingerprint 1a2b3c4d5e6f``
    """
    other_splits = sorted(store.splits.keys() - {*SPLITS})
    names = [name for name in (*SPLITS, *other_splits) if name in store.splits]
    counts = " / ".join(f"{len(store.splits[name]):,} {name}" for name in names)
    targets = store.targets
    if len(targets.names) > 3:
        target = f"{len(targets.names)} targets"
    else:
        plural = "s" if len(targets.names) > 1 else ""
        target = f"target{plural} {', '.join(targets.names)}"
    parts = [f"{counts} graphs", f"{target} ({targets.meaning})"]
    nodes = [store.manifest["counts"].get(f"nodes_{name}") for name in names]
    if all(count is not None for count in nodes):
        parts.insert(1, f"labels of {' / '.join(f'{n:,}' for n in nodes)} nodes")
    for name, noun, state in (
        ("missing_labels", "label", "missing"),
        ("graphs_in_no_split", "graph", "in no split"),
        ("skipped", "unparsable row", "skipped"),
    ):
        if count := store.manifest["counts"][name]:
            parts.append(f"{counted(count, noun)} {state}")
    parts.append(f"fingerprint {store.fingerprint[:12]}")
    return f"{store.manifest['dataset']}: " + ", ".join(parts)


def fingerprint_of(manifest: Mapping[str, Any]) -> str:
    """See `GraphStore`."""
    content = {
        "schema": manifest["schema"],
        "targets": manifest["targets"],
        "files": {
            name: entry["sha256"]
            for name, entry in manifest["files"].items()
            if name != "molecule.npy"  # nothing is trained on it
        },
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return text_sha256(text)


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(read_text(path / MANIFEST))
    except FileNotFoundError:
        raise StoreError(f"{path}: not a graph store ({MANIFEST} is missing)") from None
    version = manifest["version"] if manifest.get("format") == FORMAT else 0
    if version > FORMAT_VERSION:
        raise NewerStoreError(
            f"{path}: format {version} of a newer version of this package, which has format "
            f"{FORMAT_VERSION}; install that version, or prepare the dataset in another "
            "folder with --data-root"
        )
    if version != FORMAT_VERSION:
        raise StoreError(f"{path}: not a graph store ({MANIFEST} has another format)")
    if manifest["files"].get("bound.npy", {}).get("dtype") == "|i1":  # without widths
        raise StoreError(
            f"{path}: bounds of an earlier version; prepare the data again"
        )
    return manifest


def _open_column(path: Path, entry: Mapping[str, Any], verify: bool) -> np.ndarray:
    """A memory-mapped column; StoreError unless it is as the manifest says."""
    try:
        size = path.stat().st_size
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise StoreError(f"{path.parent}: {path.name}: {error}") from None
    got = {"bytes": size, "dtype": array.dtype.str, "shape": list(array.shape)}
    if verify:
        got["sha256"] = file_sha256(path)
    if differing := [name for name in got if got[name] != entry[name]]:
        raise StoreError(
            f"{path.parent}: {path.name} is damaged ({differing[0]} differs from the "
            "manifest); prepare the dataset again (graphormer-preprocess --rebuild)"
        )
    return array
