"""From PyG graphs to chunks of a store."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from graphormer_plugin.data.chunk import CHUNK_ROWS, NODE_SPLITS, GraphChunk
from graphormer_plugin.data.errors import DatasetError, counted, one_line_of


class MappedGraphs:
    """Graphs that are made of the items of a sequence, each on access.

    Args:
        items: Has a length, and items by number.
        graph: Function of an item.
    """

    def __init__(self, items: Any, graph: Callable[[Any], Any]) -> None:
        self.items, self.graph = items, graph

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Any]:
        return (self.graph(self.items[number]) for number in range(len(self)))


def chunks_of_graphs(
    graphs: Iterable[Any],
    *,
    level: str = "graph",
    values: bool = False,
    with_target: bool = True,
    masks: bool = False,
    progress: bool = True,
    description: str = "graphs",
) -> Iterator[GraphChunk]:
    """Checks PyG ``Data`` objects and joins them into chunks.

    Args:
        graphs: Objects with ``x`` [n] or [n, F] (integers are categories from 0, floats
            are features), ``edge_index`` [2, E], and where wanted ``edge_attr`` [E] or
            [E, columns], ``y`` (a number or C numbers; at node level classes or values
            [n]) and ``pos`` [n, 3]. All graphs have the same columns. Features of edges are
            numbers where they are floats, and the first `CHUNK_ROWS` graphs have
            fractions among them; else categories.
        level: ``graph`` or ``node``: what ``y`` labels.
        values: At node level, labels are values, not classes.
        with_target: Whether ``y`` is required.
        masks: At node level, read ``train_mask``, ``val_mask`` and ``test_mask``, bool [n],
            where graphs have the first: the splits of the labels.
        progress: Show a progress bar.
        description: Its label.

    Raises:
        ValueError: A graph has the wrong type, shape, range or columns; names it.
    """
    total = len(graphs) if hasattr(graphs, "__len__") else None
    bar = tqdm(
        graphs, total=total, desc=description, unit="graph", disable=not progress
    )
    # The first graph that has columns, whose columns all others must have.
    first: dict[str, tuple[int, str]] = {}
    edge_kind = _EdgeKind()
    numbered = enumerate(bar)
    while True:
        with one_line_of("the iterable of graphs"):
            block = list(itertools.islice(numbered, CHUNK_ROWS))
        if not block:
            break
        parts = []
        for number, data in block:
            part = _arrays(data, number, level, values, with_target)
            if (
                masks
                and level == "node"
                and getattr(data, "train_mask", None) is not None
            ):
                part["node_split"] = _node_split(data, number, len(part["x"]))
            names = ["x", "target", "pos", "node_split"]
            names += ["edge_attr"] if part["edge_index"].size else []
            for name in names:
                kind = _columns(part.get(name), name)
                other, wanted = first.setdefault(name, (number, kind))
                if kind != wanted:
                    name = {"target": "y", "node_split": "train_mask"}.get(name, name)
                    raise DatasetError(
                        f"graph {number}: {name} has {kind}, but graph {other} has "
                        f"{wanted}"
                    )
            parts.append(part)
        edge_kind.settle(block[0][0], parts)
        chunk = GraphChunk.joined([GraphChunk(**part) for part in parts])
        chunk.check(first=block[0][0])
        yield chunk


def _columns(array: np.ndarray | None, name: str) -> str:
    """Describes columns that graphs have in common."""
    if array is None:
        return "no values"
    kind = " of floats" if name == "x" and array.dtype.kind == "f" else ""
    return f"{counted(array.shape[1] if array.ndim > 1 else 1, 'column')}{kind}"


def _arrays(
    data: Any, number: int, level: str, values: bool, with_target: bool
) -> dict[str, np.ndarray]:
    """Arrays of a graph in the shapes of a `GraphChunk`, which checks their values."""

    def _require(is_right: bool, name: str, expected: str) -> None:
        if not is_right:
            array = arrays[name]
            raise DatasetError(
                f"graph {number}: {name} has shape {list(array.shape)} and dtype "
                f"{array.dtype}, expected {expected}"
            )

    needed = ["x", "edge_index", *(["y"] if with_target else [])]
    arrays = {}
    for name in (*needed, "edge_attr", "pos"):
        value = getattr(data, name, None)
        if value is None:
            if name in needed:
                kind = type(data).__name__
                raise DatasetError(f"graph {number}: {kind} has no {name}")
            continue
        value = value.detach().cpu().numpy() if hasattr(value, "detach") else value
        arrays[name] = np.asarray(value)
        _require(arrays[name].dtype.kind in "iubf", name, "numbers")
    x, edge_index = arrays["x"], arrays["edge_index"]
    x = x[:, None] if x.ndim == 1 else x
    _require(x.ndim == 2 and len(x) > 0, "x", "[nodes >= 1, features]")
    if edge_index.size == 0:
        edge_index = np.zeros((2, 0), dtype=np.int64)
    is_index = edge_index.ndim == 2 and len(edge_index) == 2
    _require(
        is_index and edge_index.dtype.kind in "iu", "edge_index", "[2, E] integers"
    )
    edges = edge_index.shape[1]
    result = {"num_nodes": np.array([len(x)]), "num_edges": np.array([edges])}
    result |= {"x": x, "edge_index": edge_index}
    if "edge_attr" in arrays and (edges or len(arrays["edge_attr"])):
        attr = arrays["edge_attr"]
        attr = attr[:, None] if attr.ndim == 1 else attr
        _require(
            attr.ndim == 2 and len(attr) == edges, "edge_attr", f"[{edges}, columns]"
        )
        result["edge_attr"] = attr
    if "pos" in arrays:
        result["pos"] = arrays["pos"]
        _require(result["pos"].shape == (len(x), 3), "pos", f"[{len(x)}, 3]")
    if with_target:
        y = arrays["y"]
        with np.errstate(over="ignore"):
            small = not np.isinf(y.astype(np.float32)).any()
        _require(small, "y", "numbers that fit float32, NaN where missing")
        if level == "node":
            what = "values" if values else "integer classes"
            right = y.size == len(x) and (values or y.dtype.kind != "f")
            missing = "NaN" if values else "-1"
            _require(
                right, "y", f"{len(x)} {what} (one per node), {missing} for no label"
            )
            result["target"] = y.reshape(-1).astype(np.float32 if values else np.int64)
        else:
            _require(y.ndim < 2 or len(y) == 1, "y", "[C] or [1, C]")
            result["target"] = y.reshape(1, -1).astype(np.float64)
    return result


def _node_split(data: Any, number: int, nodes: int) -> np.ndarray:
    """See `GraphChunk.node_split`."""
    split = np.zeros(nodes, np.uint8)
    for code, name in enumerate(NODE_SPLITS.values(), 1):
        mask = getattr(data, name, None)
        if mask is None:
            continue
        mask = np.asarray(mask.cpu() if hasattr(mask, "cpu") else mask)
        if mask.shape != (nodes,) or mask.dtype != bool:
            raise DatasetError(
                f"graph {number}: {name} has shape {list(mask.shape)} and dtype "
                f"{mask.dtype}, expected [{nodes}] of bool; of several masks take one, "
                f"such as {name}[:, 0]"
            )
        if split[mask].any():
            raise DatasetError(
                f"graph {number}: node {np.flatnonzero(mask & (split > 0))[0]} of {name} "
                "is in another mask, too"
            )
        split[mask] = code
    return split


class _EdgeKind:
    """Whether the features of edges are numbers or categories, for all graphs alike."""

    def __init__(self) -> None:
        self.kind = ""  # fractions, or whole numbers, which are categories
        self.decided = 0  # by the features of this graph

    def settle(self, first: int, parts: Sequence[dict[str, np.ndarray]]) -> None:
        """Makes ``edge_attr`` floats or integers, decided by the first graphs with some.

        Args:
            first: Number of the first graph.
            parts: Arrays of consecutive graphs.

        Raises:
            DatasetError: A graph has fractions where others have categories.
        """
        parts_of = {n: p for n, p in enumerate(parts, first) if "edge_attr" in p}
        for number, part in parts_of.items():
            values = part["edge_attr"]
            kind = "whole numbers"
            if values.dtype.kind == "f":
                # A float above 2^53 is whole, but no category.
                if not (values % 1 != 0).any() and not (np.abs(values) > 2**53).any():
                    continue
                kind = "fractions"
            if not self.kind:
                self.kind, self.decided = kind, number
            if self.kind != kind:
                raise DatasetError(
                    f"graph {number}: edge_attr has {kind}, but graph {self.decided} has "
                    f"{self.kind}; whole numbers are categories"
                )
        if parts_of and not self.kind:
            self.kind, self.decided = "whole numbers", min(parts_of)
        for part in parts_of.values():
            if part["edge_attr"].dtype.kind == "f":
                kind_of_number = np.float64 if self.kind == "fractions" else np.int64
                part["edge_attr"] = part["edge_attr"].astype(kind_of_number)
