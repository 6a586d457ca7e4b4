"""The table of columns: what each has one of, its stored types, how graphs are joined.

A column holds many graphs. It has one name in a chunk (`GraphChunk`), in a store and among
what kernels read (`cython_ext.columns`, which owns the types of those); a batch pads its
rows (`fields.FIELDS`). Labels are always ``[rows of their level, targets]``.

Columns of attributes and fields that users register are called ``<level>.<name>``.
"""

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from cython_ext.columns import DTYPES, ranges
from graphormer_plugin.choices import check_choice

# Columns by name, or other arrays.
Columns = dict[str, np.ndarray]


class Level(StrEnum):
    """What a column has a row of, and a target a label of."""

    GRAPH = "graph"
    NODE = "node"
    EDGE = "edge"
    LINK = "link"  # a pair of nodes, joined or not, that has a label
    ALL_PAIRS = "pair"  # every ordered pair of nodes of a graph
    SET = "set"  # edges that a field brings, see `offset_of`

    __repr__ = str.__repr__  # messages show the word

    @property
    def offset(self) -> str:
        """Column with the first row of each graph."""
        return f"{self}_offset"

    @property
    def counted_by(self) -> str:
        """Column whose differences count the rows: `offset`, and for graphs the nodes' offset."""
        return Level.NODE.offset if self is Level.GRAPH else self.offset

    @property
    def task(self) -> str:
        """The task that learns its labels."""
        return f"{Level.EDGE if self is Level.LINK else self}_prediction"


# Columns of vectors of nodes, see `targets.VectorTarget`.
DISPLACEMENT = "displacement"
FORCES = "forces"
NODE_VECTORS = (DISPLACEMENT, FORCES)
LEARNED_LEVELS = (Level.GRAPH, Level.NODE, Level.EDGE, Level.LINK)
LINK_LEVELS = (Level.EDGE, Level.LINK)  # their labels have two nodes
EDGE_LABEL_COLUMNS = ("label_src", "label_dst")


def learned_level(word: str) -> Level:
    """Level of labels; ValueError for a word that is none."""
    check_choice("level", word, LEARNED_LEVELS)
    return Level(word)


@dataclass(frozen=True)
class ColumnType:
    """What the rows of a column are.

    Attributes:
        level: What has a row; None: what has a label.
        dtypes: Types in a store. The first type of integers that holds all values is taken.
        attribute: Attribute of PyG's ``Data`` that it is read from; empty if there is none.
        can_lack: Whether rows may be missing; see `filling`.
        axis: Axis of the rows, along which graphs are joined.
        tail: Shape of a row; None: the same for all rows, but not known.
        is_attribute: Numbers beside features and labels, in `GraphChunk.attributes`.
        is_offset: Starts of ranges, which go on from graph to graph.
    """

    level: Level | None
    dtypes: tuple[np.dtype, ...] = ()
    attribute: str = ""
    can_lack: bool = False
    axis: int = 0
    tail: tuple[int, ...] | None = None
    is_attribute: bool = False
    is_offset: bool = False

    def filling(self, dtype: np.dtype) -> float:
        """Padding value: NaN (-1 for classes) where rows may be missing, else 0."""
        if not self.can_lack:
            return 0
        return np.nan if np.dtype(dtype).kind == "f" else -1


COLUMNS: dict[str, ColumnType] = {}


def register_column(name: str, column: ColumnType) -> None:
    """Add a column to the table, or replace it; ValueError if it has another level there."""
    level = COLUMNS.get(name, column).level
    if level is not column.level:
        raise ValueError(
            f"column {name!r} has a row per {level}, not per {column.level}"
        )
    COLUMNS[name] = column


def user_column(level: Level, name: str) -> str:
    """Column of an attribute or field that a user registers."""
    return f"{level}.{name}"


def offset_of(column: str, level: Level) -> str:
    """Column with the first row of each graph in a column of a level. Every field that brings
    edges has an offset of its own."""
    if level is not Level.SET:
        return level.offset
    return f"{column.removesuffix('.ends')}.offset"


def register_attribute(name: str) -> None:
    """Read an attribute of PyG's ``Data`` into a column; see `attribute_column`."""
    column = attribute_column(name)
    register_column(column, dataclasses.replace(column_type(column), attribute=name))


def attribute_column(name: str) -> str:
    """Column of a registered attribute: edges have those with ``edge`` in the name."""
    return user_column(Level.EDGE if "edge" in name else Level.NODE, name)


def numeric_attributes() -> dict[str, str]:
    """Columns of positions, forces and registered attributes, by PyG's attribute."""
    return {c.attribute: name for name, c in COLUMNS.items() if c.is_attribute}


def column_type(name: str) -> ColumnType:
    """The column of a name. Those of users say their level, registered or not: a store keeps
    them for a process that does not register them."""
    if name not in COLUMNS and "." in name:
        level, *_, last = name.split(".")
        if (level, last) == (Level.SET, "offset"):
            return COLUMNS[Level.ALL_PAIRS.offset]
        return ColumnType(Level(level), _FLOAT32, is_attribute=True)
    return COLUMNS[name]


def as_rows(values: Any) -> np.ndarray:
    """Labels [rows, C] of labels [rows, C] or [rows]; ValueError for other shapes."""
    values = np.asarray(values)
    if values.ndim == 1:
        return values[:, None]
    if values.ndim != 2:
        raise ValueError(f"target has shape {list(values.shape)}, expected [G, C]")
    return values


def row_width(values: np.ndarray) -> int:
    """Numbers in a row of an array [rows, ...]."""
    return math.prod(values.shape[1:])


def is_missing(labels: np.ndarray) -> np.ndarray:
    """Where labels are missing: NaN, of classes below 0."""
    return np.isnan(labels) if labels.dtype.kind == "f" else labels < 0


def edge_label_index_of(columns: Columns) -> np.ndarray:
    """Nodes of labelled edges or links, int64 [..., 2]."""
    return np.stack([columns[name] for name in EDGE_LABEL_COLUMNS], -1).astype(np.int64)


def rows_of_graphs(columns: Columns, graph_ids: np.ndarray, level: Level) -> np.ndarray:
    """Rows of some graphs in columns of a level, graph after graph."""
    if level is Level.GRAPH:
        return graph_ids
    _, rows = ranges_of_graphs(columns[level.offset], graph_ids)
    return rows


def ranges_of_graphs(
    offset: np.ndarray, ids: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Offsets of ranges that are joined, and the rows that they hold."""
    start = np.asarray(offset[ids])
    count = offset[ids + 1] - start
    return np.concatenate([[0], np.cumsum(count)]), ranges(start, count)


def _types(dtypes: str) -> tuple[np.dtype, ...]:
    return tuple(map(np.dtype, dtypes.split()))


def _offsets(name: str) -> ColumnType:
    return ColumnType(Level.GRAPH, DTYPES[name], is_offset=True)


def offsets_of(counts: Iterable[int]) -> np.ndarray:
    """First row of each graph and, last, the number of rows, from the rows of each."""
    return np.cumsum([0, *counts], dtype=np.int64)


_FLOAT32 = _types("float32")
_TABLE = {
    "num_nodes": ColumnType(Level.GRAPH),  # of a chunk; a store has offsets
    "num_edges": ColumnType(Level.GRAPH),
    "node_offset": _offsets("node_offset"),
    "edge_offset": _offsets("edge_offset"),
    "num_links": ColumnType(Level.GRAPH),
    "link_offset": ColumnType(Level.GRAPH, _types("int64"), is_offset=True),
    "pair_offset": ColumnType(Level.GRAPH, _types("int64"), is_offset=True),
    "row": ColumnType(Level.GRAPH, _types("uint8 uint16 int32")),
    "molecule": ColumnType(Level.GRAPH, _types("uint64")),
    "weight": ColumnType(Level.GRAPH, _FLOAT32),
    "bound": ColumnType(Level.GRAPH, _FLOAT32),
    "graph_features": ColumnType(Level.GRAPH, _FLOAT32, can_lack=True),
    # Labels of graphs are float64 beside a large offset, see `labels.stored_labels`.
    "target": ColumnType(None, _types("int8 int16 int32 float32"), "y", can_lack=True),
    # Nodes of each labelled edge or link, in the order of the source; of a chunk, of a store.
    "edge_label_index": ColumnType(None, (), "edge_label_index", axis=1),
    **{name: ColumnType(None, DTYPES["edge_src"]) for name in EDGE_LABEL_COLUMNS},
    "x": ColumnType(Level.NODE, DTYPES["x"], "x"),
    # In angstrom, centred: `graph_columns.flat_columns` subtracts the mean of a graph.
    "pos": ColumnType(Level.NODE, DTYPES["pos"], "pos", tail=(3,), is_attribute=True),
    **{
        name: ColumnType(Level.NODE, _FLOAT32, name, True, tail=(3,), is_attribute=True)
        for name in NODE_VECTORS
    },
    "node_split": ColumnType(Level.NODE, _types("uint8"), "train_mask"),
    "lap_pe": ColumnType(Level.NODE, DTYPES["lap_pe"]),
    "wl_role": ColumnType(Level.NODE, DTYPES["wl_role"]),
    "edge_index": ColumnType(Level.EDGE, (), "edge_index", axis=1),  # of a chunk
    "edge_src": ColumnType(Level.EDGE, DTYPES["edge_src"]),
    "edge_dst": ColumnType(Level.EDGE, DTYPES["edge_dst"]),
    "edge_bond": ColumnType(Level.EDGE, DTYPES["edge_bond"]),
    "edge_attr": ColumnType(Level.EDGE, DTYPES["edge_attr"], "edge_attr"),
    # Sets of nodes: a graph has several, and a set has several rows of `ring_node`.
    "ring_offset": _offsets("ring_offset"),
    "ring_start": _offsets("ring_start"),
    "ring_node": ColumnType(Level.NODE, DTYPES["ring_node"]),
}
for _name, _column in _TABLE.items():
    register_column(_name, _column)
