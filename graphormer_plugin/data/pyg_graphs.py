"""From PyG graphs to chunks of a store."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from tqdm import tqdm

from graphormer_plugin.data.chunk import CHUNK_ROWS, NODE_SPLITS, GraphChunk
from graphormer_plugin.data.errors import DatasetError, counted, one_line_of


class MappedGraphs:
    """Graphs that a function makes of the items of a sequence, each on access."""

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
    edge_kinds: dict[str, int] = {}
    numbered = enumerate(bar)
    while True:
        with one_line_of("the iterable of graphs"):
            block = list(itertools.islice(numbered, CHUNK_ROWS))
        if not block:
            break
        parts = {}
        for number, data in block:
            part = _arrays(data, number, level, values, with_target)
            masked = masks and level == "node"
            if masked and getattr(data, "train_mask", None) is not None:
                part["node_split"] = _node_split(data, number, len(part["x"]))
            for name in ("x", "target", "pos", "node_split", "edge_attr"):
                if name == "edge_attr" and not part["edge_index"].size:
                    continue
                kind = _columns(part.get(name), name)
                other, wanted = first.setdefault(name, (number, kind))
                if kind != wanted:
                    name = {"target": "y", "node_split": "train_mask"}.get(name, name)
                    raise DatasetError(
                        f"graph {number}: {name} has {kind}, but graph {other} has "
                        f"{wanted}"
                    )
            parts[number] = part
        _settle_edges({n: p for n, p in parts.items() if "edge_attr" in p}, edge_kinds)
        chunk = GraphChunk.joined([GraphChunk(**part) for part in parts.values()])
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
    arrays = {}
    for name in ("x", "edge_index", *["y"] * with_target, "edge_attr", "pos"):
        value = getattr(data, name, None)
        if value is not None:
            arrays[name] = as_array(value)
        elif name not in ("edge_attr", "pos"):
            kind = type(data).__name__
            raise DatasetError(f"graph {number}: {kind} has no {name}")

    def _require(name: str, fits: bool, expected: str) -> None:
        array = arrays[name]
        if not fits or array.dtype.kind not in "iubf":
            raise DatasetError(
                f"graph {number}: {name} has shape {list(array.shape)} and dtype "
                f"{array.dtype}, expected {expected}"
            )

    x, edge_index = arrays["x"], arrays["edge_index"]
    x = x[:, None] if x.ndim == 1 else x
    _require("x", x.ndim == 2 and len(x) > 0, "[nodes >= 1, features] of numbers")
    if edge_index.size == 0:
        edge_index = np.zeros((2, 0), dtype=np.int64)
    is_pair = edge_index.ndim == 2 and len(edge_index) == 2
    integers = edge_index.dtype.kind in "iu"
    _require("edge_index", is_pair and integers, "[2, E] integers")
    edges = edge_index.shape[1]
    result = {"num_nodes": np.array([len(x)]), "num_edges": np.array([edges])}
    result |= {"x": x, "edge_index": edge_index}
    if "edge_attr" in arrays and (edges or len(arrays["edge_attr"])):
        attr = arrays["edge_attr"]
        attr = attr[:, None] if attr.ndim == 1 else attr
        fits = attr.ndim == 2 and len(attr) == edges
        _require("edge_attr", fits, f"[{edges}, columns] of numbers")
        result["edge_attr"] = attr
    if "pos" in arrays:
        result["pos"] = arrays["pos"]
        _require("pos", result["pos"].shape == (len(x), 3), f"[{len(x)}, 3] numbers")
    if not with_target:
        return result
    y = arrays["y"]
    _require("y", level == "node" or y.ndim < 2 or len(y) == 1, "numbers [C] or [1, C]")
    with np.errstate(over="ignore"):
        small = not np.isinf(y.astype(np.float32)).any()
    _require("y", small, "numbers that fit float32, NaN where missing")
    if level == "graph":
        return result | {"target": y.reshape(1, -1).astype(np.float64)}
    kind, missing = ("values", "NaN") if values else ("integer classes", "-1")
    fits = y.size == len(x) and (values or y.dtype.kind != "f")
    _require("y", fits, f"{len(x)} {kind} (one per node), {missing} for no label")
    target = y.reshape(-1).astype(np.float32 if values else np.int64)
    return result | {"target": target}


def as_array(values: Any) -> np.ndarray:
    """A tensor, or whatever NumPy takes, as an array."""
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)


def _node_split(data: Any, number: int, nodes: int) -> np.ndarray:
    """See `GraphChunk.node_split`."""
    split = np.zeros(nodes, np.uint8)
    for code, name in enumerate(NODE_SPLITS.values(), 1):
        mask = getattr(data, name, None)
        if mask is None:
            continue
        mask = as_array(mask)
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


def _settle_edges(parts: dict[int, dict[str, np.ndarray]], kinds: dict[str, int]):
    """Makes ``edge_attr`` floats or integers, as the first graphs with some decide.

    Args:
        parts: Arrays of consecutive graphs with features of edges, by number.
        kinds: Kind of the features, and a graph that has it; empty before the first.

    Raises:
        DatasetError: A graph has fractions where others have categories.
    """
    for number, part in parts.items():
        values = part["edge_attr"]
        if values.dtype.kind != "f":
            kinds.setdefault("whole numbers", number)
        # A float above 2^53 is whole, but no category.
        elif (values % 1 != 0).any() or (np.abs(values) > 2**53).any():
            kinds.setdefault("fractions", number)
    if parts and not kinds:
        kinds["whole numbers"] = min(parts)
    if len(kinds) > 1:
        (kind, graph), (other, number) = kinds.items()
        raise DatasetError(
            f"graph {number}: edge_attr has {other}, but graph {graph} has {kind}; whole "
            "numbers are categories"
        )
    for part in parts.values():
        if part["edge_attr"].dtype.kind == "f":
            number_type = np.float64 if "fractions" in kinds else np.int64
            part["edge_attr"] = part["edge_attr"].astype(number_type)
