"""From PyG graphs to chunks of a store."""

import itertools
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from graphormer_plugin.data.columns import (
    Columns,
    Level,
    column_type,
    numeric_attributes,
    row_width,
)
from graphormer_plugin.data.errors import (
    DatasetError,
    counted,
    listed,
    user_code_errors,
)
from graphormer_plugin.data.graphs.chunk import CHUNK_ROWS, NODE_SPLITS, GraphChunk
from graphormer_plugin.data.schema import FeatureSchema

logger = logging.getLogger(__name__)

_READ = ("x", "edge_index", "edge_attr", "y", *NODE_SPLITS.values(), "num_nodes")
_READ += ("edge_label_index", "edge_label")
# Instead of them, edge_attr is read.
_OF_EDGES = ("edge_weight", "edge_type")


def label_of(level: Level) -> str:
    """Attribute that has the labels."""
    return "edge_label" if level is Level.LINK else "y"


def edge_kind_of(schema: FeatureSchema) -> str:
    """The kind of ``edge_attr`` for a model with these columns, see `chunks_of_graphs`."""
    return "real" if schema.num_edge_features else "category"


class MappedGraphs:
    """Graphs that a function makes of the items of a sequence, each on access."""

    def __init__(self, items: Any, graph: Callable[[Any], Any]) -> None:
        self.items = items
        self.graph = graph

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Any]:
        return (self.graph(self.items[index]) for index in range(len(self)))


def chunks_of_graphs(
    graphs: Iterable[Any],
    *,
    level: Level = Level.GRAPH,
    values: bool = False,
    with_target: bool = True,
    masks: bool = False,
    edge_kind: str = "",
    progress: bool = True,
    description: str = "graphs",
) -> Iterator[GraphChunk]:
    """Check PyG ``Data`` objects and join them into chunks.

    Args:
        graphs: objects with ``x`` [n] or [n, F] (integers are categories from 0, floats
            are features), ``edge_index`` [2, E], and where wanted ``edge_attr`` [E] or
            [E, columns], ``y`` (a number or C numbers; at other levels a row or number for
            each node or edge), ``pos`` and ``forces`` [n, 3], and what registered fields read.
            All graphs have the same columns. Other attributes are named in a warning.
        level: what ``y`` labels: graphs, nodes or the edges of ``edge_index``. At link level
            ``edge_label`` [P] or [P, C] labels the links ``edge_label_index`` [2, P],
            as PyG's link loaders write them.
        values: at other levels than graphs, labels are numbers, NaN where missing, not the
            integers of a multiclass target, -1 where missing.
        masks: at node level, read ``train_mask``, ``val_mask`` and ``test_mask``, bool [n],
            where graphs have the first: the splits of the labels.
        edge_kind: ``category`` or ``real``: what ``edge_attr`` is; empty: floats are real
            features, integers are categories from 0.
    """
    if hasattr(graphs, "to_data_list"):  # a Batch
        graphs = graphs.to_data_list()
    if hasattr(graphs, "is_node_attr"):  # Data
        raise DatasetError("expected several graphs, got one: give a list")
    total = len(graphs) if hasattr(graphs, "__len__") else None
    bar = tqdm(
        graphs, total=total, desc=description, unit="graph", disable=not progress
    )
    # The first graph that has columns, whose columns all others must have.
    first: dict[str, tuple[int, str]] = {}
    unread: set[str] = set()
    numbered = enumerate(bar)
    while True:
        with user_code_errors("the iterable of graphs"):
            block = list(itertools.islice(numbered, CHUNK_ROWS))
        if not block:
            break
        parts = []
        for number, data in block:
            unread |= _unread_attributes(data, number)
            part = _arrays(data, number, level, values, with_target, edge_kind)
            masked = masks and level is Level.NODE
            if masked and getattr(data, "train_mask", None) is not None:
                part["node_split"] = _node_split(data, number, len(part["x"]))
            _check_columns(part, number, first, label_of(level))
            parts.append(GraphChunk.from_arrays(part))
        chunk = GraphChunk.joined(parts)
        chunk.check(first=block[0][0])
        yield chunk
    if unread:
        logger.warning(
            "%s: attributes that nothing reads: %s; register_field(..., reads=[...]) makes "
            "fields of them",
            description,
            listed(sorted(unread)),
        )


def _check_columns(
    part: Columns, number: int, first: dict[str, tuple[int, str]], label: str
) -> None:
    """DatasetError unless a graph has the columns of the ``first`` graphs, to which it may
    belong: their number and kind of columns by name. The target is called ``label``."""
    columns = sorted(numeric_attributes().values())
    for name in ("x", "target", "node_split", "edge_attr", *columns):
        if name == "edge_attr" and not part["edge_index"].size:
            continue
        kind = _columns(part.get(name), name)
        other, wanted = first.setdefault(name, (number, kind))
        if kind != wanted:
            attribute = label if name == "target" else column_type(name).attribute
            raise DatasetError(
                f"graph {number}: {attribute} has {kind}, but graph {other} has {wanted}"
            )


def _columns(array: np.ndarray | None, name: str) -> str:
    """Describe columns that graphs have in common."""
    if array is None:
        return "no values"
    floats = name in ("x", "edge_attr") and array.dtype.kind == "f"
    kind = " of floats" if floats else ""
    return f"{counted(row_width(array), 'column')}{kind}"


def _unread_attributes(data: Any, number: int) -> set[str]:
    """Attributes with numbers that nothing reads; an error for those of edges that are to be
    ``edge_attr``, and for graphs with several types of nodes."""
    if hasattr(data, "to_homogeneous"):
        raise DatasetError(
            f"graph {number}: {type(data).__name__} has several types of nodes or edges; "
            "give data.to_homogeneous()"
        )
    if not hasattr(data, "to_dict"):
        return set()
    attributes = data.to_dict()
    unread = attributes.keys() - {*_READ} - numeric_attributes().keys()
    unread = {name for name in unread if hasattr(attributes[name], "__array__")}
    for name in _OF_EDGES:
        if name in unread and attributes.get("edge_attr") is None:
            raise DatasetError(
                f"graph {number}: {name} is not read; give it as edge_attr (floats are "
                "real features, integers are categories)"
            )
    return unread


def _attributes(data: Any, number: int, needed: Sequence[str]) -> Columns:
    """The ``needed`` attributes, and ``edge_attr`` if there is one."""
    arrays = {}
    for name in (*needed, "edge_attr"):
        value = getattr(data, name, None)
        if isinstance(value, tuple):
            raise DatasetError(
                f"graph {number}: {name} is a tuple; join it to a tensor, categories as "
                "columns of 0 and 1 (torch.nn.functional.one_hot) beside the floats"
            )
        if value is not None:
            arrays[name] = as_array(value)
        elif name != "edge_attr":
            kind = type(data).__name__
            advice = "; for nodes without features, give zeros [nodes, 1] of integers"
            advice = advice if name == "x" else ""
            raise DatasetError(f"graph {number}: {kind} has no {name}{advice}")
    return arrays


def _arrays(
    data: Any,
    number: int,
    level: Level,
    values: bool,
    with_target: bool,
    edge_kind: str,
) -> Columns:
    """Arrays of a graph in the shapes of a `GraphChunk`, which checks their values."""
    needed = ["x", "edge_index", *["edge_label_index"] * (level is Level.LINK)]
    arrays = _attributes(data, number, [*needed, *[label_of(level)] * with_target])

    def _require(name: str, fits: bool, expected: str) -> None:
        _check_array(arrays[name], f"graph {number}: {name}", fits, expected)

    x = arrays["x"]
    edge_index = arrays["edge_index"]
    x = x[:, None] if x.ndim == 1 else x
    _require("x", x.ndim == 2 and len(x) > 0, "[nodes >= 1, features] of numbers")
    if edge_index.size == 0:
        edge_index = np.zeros((2, 0), dtype=np.int64)
    _require("edge_index", _are_ends(edge_index), "[2, E] integers")
    edges = edge_index.shape[1]
    result = {"num_nodes": np.array([len(x)]), "num_edges": np.array([edges])}
    result |= {"x": x, "edge_index": edge_index}
    if "edge_attr" in arrays and (edges or len(arrays["edge_attr"])):
        attr = arrays["edge_attr"]
        attr = attr[:, None] if attr.ndim == 1 else attr
        fits = attr.ndim == 2 and len(attr) == edges
        _require("edge_attr", fits, f"[{edges}, columns] of numbers")
        result["edge_attr"] = _edges_of_kind(attr, edge_kind, number)
    counts = {Level.GRAPH: 1, Level.NODE: len(x), Level.EDGE: edges}
    for name, column in numeric_attributes().items():
        value = getattr(data, name, None)
        if value is not None:
            rows = counts[column_type(column).level]
            tail = column_type(column).tail
            arrays[name] = as_array(value)
            fits = tail is None or arrays[name].shape[1:] == tail
            fits &= len(arrays[name]) == rows
            tail = "..." if tail is None else ", ".join(map(str, tail))
            _require(name, fits, f"[{rows}, {tail}] of numbers")
            result[column] = arrays[name].astype(np.float64)
    if level is Level.EDGE:
        result["edge_label_index"] = edge_index
    elif level is Level.LINK:
        links = arrays["edge_label_index"]
        _require("edge_label_index", _are_ends(links), "[2, P] integers")
        counts[level] = links.shape[1]
        result |= {"edge_label_index": links, "num_links": np.array([links.shape[1]])}
    if with_target:
        y = arrays[label_of(level)]
        label = f"graph {number}: {label_of(level)}"
        result["target"] = _target(y, label, level, counts[level], values)
    return result


def _are_ends(ends: np.ndarray) -> bool:
    """Whether an array has two nodes of each edge or link."""
    return ends.ndim == 2 and len(ends) == 2 and ends.dtype.kind in "iu"


def _check_array(array: np.ndarray, name: str, fits: bool, expected: str) -> None:
    """DatasetError unless an array fits and has numbers."""
    if not fits or array.dtype.kind not in "iubf":
        raise DatasetError(
            f"{name} has shape {list(array.shape)} and dtype {array.dtype}, expected "
            f"{expected}"
        )


def _target(
    y: np.ndarray, name: str, level: Level, rows: int, values: bool
) -> np.ndarray:
    """Labels [rows, C] of a graph, or of its nodes, edges or links: classes, or ``values``."""
    if level is Level.GRAPH:
        dtype = np.float64
        fits = math.prod(y.shape[:-1]) == 1
        expected = "numbers [C] or [1, C]"
    else:
        dtype = np.float32 if values else np.int64
        fits = y.ndim in (1, 2) and len(y) == rows and (values or y.dtype.kind != "f")
        expected = f"integer classes [{rows}] of {level}s, -1 for no label"
        if values:
            expected = f"values [{rows}] or [{rows}, C] of {level}s, NaN for no label"
    _check_array(y, name, fits and (y.size or not rows), expected)
    with np.errstate(over="ignore"):
        small = not np.isinf(y.astype(np.float32)).any()
    _check_array(y, name, small, "numbers that fit float32, NaN where missing")
    if dtype is np.int64 and (y < -1).any():
        raise DatasetError(f"{name} has class {y.min()}, expected -1 and above")
    if level is Level.GRAPH:
        y = y.reshape(1, -1)
    return y.astype(dtype).reshape(rows, *y.shape[1:] or (1,))


def as_array(values: Any) -> np.ndarray:
    """A tensor, or whatever NumPy takes, as an array."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        if str(values.dtype) == "torch.bfloat16":  # which NumPy lacks
            values = values.float()
    return np.asarray(values)


def _node_split(data: Any, number: int, nodes: int) -> np.ndarray:
    """See `GraphChunk.node_split`."""
    split = np.zeros(nodes, np.uint8)
    for code, name in enumerate(NODE_SPLITS.values(), 1):
        mask = getattr(data, name, None)
        if mask is None:
            continue
        mask = as_array(mask)
        fits = mask.shape == (nodes,) and mask.dtype == bool
        expected = f"[{nodes}] of bool; of several masks take one, such as {name}[:, 0]"
        _check_array(mask, f"graph {number}: {name}", fits, expected)
        if split[mask].any():
            raise DatasetError(
                f"graph {number}: node {np.flatnonzero(mask & (split > 0))[0]} of {name} "
                "is in another mask, too"
            )
        split[mask] = code
    return split


def _edges_of_kind(attr: np.ndarray, kind: str, number: int) -> np.ndarray:
    """``edge_attr`` as floats or integers; DatasetError if fractions are to be categories."""
    if kind == "real":
        return attr.astype(np.float64)
    if kind == "category" and attr.dtype.kind == "f":
        if (attr % 1 != 0).any():
            raise DatasetError(
                f"graph {number}: edge_attr has fractions, expected categories"
            )
        return attr.astype(np.int64)
    return attr
