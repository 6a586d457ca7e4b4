"""Batch fields of users: numbers of each graph, node or pair of nodes.

A function in a folder that ``--user-dir`` or ``--user-data-dir`` names computes them from the
edges of a graph, once per store (`field_cache`):

    @register_field("resistance", per="pair")
    def resistance(num_nodes, edge_index):
        laplacian = np.zeros((num_nodes, num_nodes))
        ...
        return laplacian  # [n, n]

A model, or a pair encoding, reads the field if its name is among its fields.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from tqdm import tqdm

from graphormer_plugin.data.errors import one_line_of
from graphormer_plugin.data.fields import FIELDS, BatchSpec, Field
from graphormer_plugin.data.fields.field_cache import (
    CACHED_FIELDS,
    CachedField,
    Columns,
)
from graphormer_plugin.data.fields.rings import code_place
from graphormer_plugin.data.graph_columns import edges_of_graph
from graphormer_plugin.data.registry import code_hash

# Number of nodes and edges int64 [2, E] -> numbers.
Function = Callable[[int, np.ndarray], np.ndarray]
_SHAPES = {"graph": "[B, ...]", "node": "[B, N, ...]", "pair": "[B, N, N, ...]"}
_functions: dict[str, Function] = {}


def register_field(name: str, per: str) -> Callable[[Function], Function]:
    """Decorator: makes numbers of graphs a batch field, float32, 0 at padding.

    The function gets the number of nodes n and the edges (int64 ``[2, E]``), and returns
    finite numbers: ``[...]`` of the graph, ``[n, ...]`` of its nodes, or ``[n, n, ...]``
    of pairs. The dimensions in place of the dots are the same for all graphs. The results are
    kept beside the store, 4 bytes a number, and computed again after a change of the
    function's file or folder.

    Args:
        name: Letters, digits and ``_``.
        per: ``graph``, ``node`` or ``pair``.

    Raises:
        ValueError: A field of another module has the name, or an argument is wrong.
    """
    if per not in _SHAPES or not name.isidentifier():
        raise ValueError(
            f"field {name!r} per {per!r}: expected letters, digits and _ per "
            f"{'|'.join(_SHAPES)}"
        )

    def _register(function: Function) -> Function:
        known = _functions.get(name)
        again = known is not None and (
            known.__module__ == function.__module__
            or code_place(known) == code_place(function)
        )
        if name in FIELDS and not again:
            raise ValueError(f"field {name!r} exists already")
        _functions[name] = function
        meaning = (function.__doc__ or name).partition("\n")[0]
        FIELDS[name] = Field(_SHAPES[per], "float32", "0", meaning, per)
        columns = (f"{per}.{name}", *(["pair_offset"] if per == "pair" else []))
        CACHED_FIELDS[name] = CachedField(
            key=lambda spec: f"field.{name}",
            columns=columns,
            compute=partial(_compute, columns, function),
            version=code_hash(function),
        )
        return function

    return _register


def _compute(
    names: tuple[str, ...],
    function: Function,
    columns: Columns,
    spec: BatchSpec,
    progress: str | None,
) -> dict[str, np.ndarray]:
    """The columns of a field, with a row for each graph, node or pair."""
    per, _, field = names[0].partition(".")
    dimensions = list(_SHAPES).index(per)
    sizes = np.diff(columns["node_offset"])
    offset = np.cumsum([0, *sizes**dimensions], dtype=np.int64)
    rows = None
    for graph in tqdm(
        range(len(sizes)), unit="graph", desc=progress, disable=not progress
    ):
        size = int(sizes[graph])
        with one_line_of(f"the function of the field {field}"):
            values = np.asarray(
                function(size, edges_of_graph(columns, graph)), np.float32
            )
            rest = values.shape[dimensions:] if rows is None else rows.shape[1:]
            expected = (size,) * dimensions + rest
            if values.shape != expected or not np.isfinite(values).all():
                raise ValueError(
                    f"graph {graph}: shape {list(values.shape)}, expected "
                    f"{list(expected)} of finite numbers"
                )
        if rows is None:
            rows = np.empty((int(offset[-1]), *rest), np.float32)
        rows[offset[graph] : offset[graph + 1]] = values.reshape(-1, *rest)
    return dict(zip(names, (rows, offset)))
