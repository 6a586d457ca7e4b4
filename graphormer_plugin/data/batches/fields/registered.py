"""Batch fields of users: numbers of each graph, node, pair of nodes or edge, and edges.

A function in a folder that ``--user-dir`` or ``--user-data-dir`` names computes them from a
graph, once per store (`field_cache`):

    @register_field("resistance", per="pair")
    def resistance(graph):
        laplacian = np.zeros((graph.num_nodes, graph.num_nodes))
        ...
        return laplacian  # [n, n]

A model, or a pair encoding, reads the field if its name is among its fields.
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from tqdm import tqdm

from graphormer_plugin.data.batches.fields import FIELDS, BatchSpec, Field
from graphormer_plugin.data.batches.fields.field_cache import CACHED_FIELDS, CachedField
from graphormer_plugin.data.columns import (
    Columns,
    Level,
    attribute_column,
    offset_of,
    offsets_of,
    register_attribute,
    user_column,
)
from graphormer_plugin.data.errors import DatasetError, user_code_errors
from graphormer_plugin.data.graphs.graph_columns import (
    columns_of_graphs,
    edges_of_graph,
)
from graphormer_plugin.data.sources.registry import code_hash, is_made_again

# See `register_field`.
Function = Callable[[SimpleNamespace], Any]
_SHAPES = {
    Level.GRAPH: "[B, ...]",
    Level.NODE: "[B, N, ...]",
    Level.ALL_PAIRS: "[B, N, N, ...]",
    Level.SET: "[M, ...]",
}
_LEVELS = dict(zip(("graph", "node", "pair", "edge"), _SHAPES))
# Columns that the function gets if the data have them.
_FEATURES = ("x", "pos", "edge_attr", "edge_bond")
_functions: dict[str, Function] = {}


def register_field(
    name: str, per: str, reads: Sequence[str] = ()
) -> Callable[[Function], Function]:
    """Decorator: makes numbers of graphs a batch field, float32, 0 at padding.

    The function gets a graph with ``num_nodes`` n, ``edge_index`` int64 ``[2, E]``, ``seed``
    (an int that follows from both), ``x`` ``[n, F]`` and, where the data have them, ``pos``
    ``[n, 3]``, ``edge_attr`` (real features ``[E, columns]``) or ``edge_bond`` (joint type of
    the categories ``[E]``), and the attributes that it ``reads``. It returns finite numbers:
    ``[...]`` of the graph, ``[n, ...]`` of its nodes, ``[n, n, ...]`` of pairs, or ``[E, ...]``
    of its edges. The dimensions in place of the dots are the same for all graphs. The results
    are kept beside the store, 4 bytes a number, and computed again after a change of the
    function's file or folder.

    A field per edge may bring edges: the function then returns their nodes, integers ``[2, M]``,
    and numbers ``[M, ...]``, such as ``np.empty((M, 0))``. Its edges are the field
    ``NAME_index``, int64 ``[2, M]`` with the numbers of nodes of ``edge_index``.

    A name has letters, digits and ``_``; ``per`` is ``graph``, ``node``, ``pair`` or ``edge``. The
    attributes that a field ``reads`` are PyG's ``Data``'s, float32: with a row per edge if
    ``edge`` is in the name (``edge_weight``), else per node. Data are prepared with them while
    the field is registered.
    """
    if per not in _LEVELS or not name.isidentifier():
        raise ValueError(
            f"field {name!r} per {per!r}: expected letters, digits and _ per "
            f"{'|'.join(_LEVELS)}"
        )
    level = _LEVELS[per]

    def _register(function: Function) -> Function:
        earlier = _functions.get(name)
        again = earlier is not None and is_made_again(earlier, function)
        ends = f"{name}_index" if level is Level.SET else name
        if not again and (taken := {name, ends} & FIELDS.keys()):
            raise ValueError(f"field {min(taken)!r} exists already")
        _functions[name] = function
        for attribute in reads:
            register_attribute(attribute)
        meaning = (function.__doc__ or name).partition("\n")[0]
        code = code_hash(function)
        column = user_column(level, name)
        columns = [column]
        padding = None if level is Level.SET else "0"
        FIELDS[name] = Field(_SHAPES[level], "float32", padding, meaning, column)
        if level in (Level.ALL_PAIRS, Level.SET):
            columns.append(offset_of(column, level))
        if level is Level.SET:
            columns.append(f"{column}.ends")
            FIELDS[ends] = Field("[2, M]", "int64", None, meaning, columns[-1])
        CACHED_FIELDS[name] = cached = CachedField(
            key=lambda spec: f"field.{name}",
            columns=tuple(columns),
            compute=partial(_compute, name, level, function, tuple(reads)),
            version=lambda spec: code,
        )
        CACHED_FIELDS[ends] = cached
        return function

    return _register


def _compute(
    field: str,
    level: Level,
    function: Function,
    reads: tuple[str, ...],
    columns: Columns,
    spec: BatchSpec,
    progress: str | None,
) -> Columns:
    """The columns of a field, with a row for each graph, node, pair or edge."""
    brings = level is Level.SET
    dimensions = 1 if brings else list(_SHAPES).index(level)
    offset = offsets_of(np.diff(columns["node_offset"]) ** dimensions)
    rows = None
    sets = []
    if lacking := [read for read in reads if attribute_column(read) not in columns]:
        raise DatasetError(
            f"the field {field} reads {lacking[0]}, which these graphs do not have; data that "
            "were prepared before the field was registered are prepared again with --rebuild"
        )
    graphs = tqdm(
        _graphs(columns, reads),
        total=len(offset) - 1,
        unit="graph",
        desc=progress,
        disable=not progress,
    )
    for graph, of_graph in enumerate(graphs):
        size = of_graph.num_nodes
        with user_code_errors(f"the function of the field {field}"):
            values = function(of_graph)
            if brings:
                ends, values = _edges(graph, of_graph, values)
                size = len(ends)
            values = np.asarray(values, np.float32)
            rest = values.shape[dimensions:] if rows is None else rows.shape[1:]
            expected = (size,) * dimensions + rest
            if values.shape != expected or not np.isfinite(values).all():
                raise ValueError(
                    f"graph {graph}: shape {list(values.shape)}, expected "
                    f"{list(expected)} of finite numbers"
                    + ", or a tuple of edges [2, M] and their numbers" * brings
                )
        if rows is None:
            rows = np.empty((0 if brings else int(offset[-1]), *rest), np.float32)
        if brings:
            sets.append((ends, values))
        else:
            rows[offset[graph] : offset[graph + 1]] = values.reshape(-1, *rest)
    column = user_column(level, field)
    if brings:
        ends, numbers = zip(*sets)
        rows = np.concatenate(numbers)
        offset = offsets_of(map(len, ends))
    computed = {column: rows}
    if level in (Level.ALL_PAIRS, Level.SET):
        computed[offset_of(column, level)] = offset
    if brings:
        computed[f"{column}.ends"] = np.concatenate(ends)
    return computed


def _graphs(columns: Columns, reads: Sequence[str]) -> Iterator[SimpleNamespace]:
    """What the function of a field gets of each graph, see `register_field`."""
    attributes = {name: name for name in _FEATURES if name in columns}
    attributes |= {read: attribute_column(read) for read in reads}
    names = {"node_offset", "edge_offset", *attributes.values()}
    read_columns = {name: columns[name] for name in names}
    for graph, size in enumerate(np.diff(columns["node_offset"]).tolist()):
        of_graph = columns_of_graphs(read_columns, np.array([graph]))
        edge_index = edges_of_graph(columns, graph)
        yield SimpleNamespace(
            num_nodes=size,
            edge_index=edge_index,
            seed=zlib.crc32(edge_index.tobytes(), size),
            **{name: of_graph[column] for name, column in attributes.items()},
        )


def _edges(graph: int, of: SimpleNamespace, result: Any) -> tuple[np.ndarray, Any]:
    """Nodes of edges, int32 [M, 2], and numbers of what a function returns for a graph."""
    if not isinstance(result, tuple):
        return of.edge_index.T.astype(np.int32), result
    ends, numbers = result
    ends = np.asarray(ends)
    has_nodes = (
        ends.dtype.kind in "iu" and (0 <= ends).all() and (ends < of.num_nodes).all()
    )
    if ends.ndim != 2 or len(ends) != 2 or ends.size and not has_nodes:
        raise ValueError(
            f"graph {graph}: edges of shape {list(ends.shape)}, expected [2, M] of nodes "
            f"0..{of.num_nodes - 1}"
        )
    return ends.T.astype(np.int32), numbers
