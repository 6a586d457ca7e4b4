"""From PyG graphs to chunks of a store."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from graphormer_plugin.data.chunk import CHUNK_ROWS, GraphChunk
from graphormer_plugin.data.errors import DatasetError, one_line_of


def chunks_of_graphs(
    graphs: Iterable[Any],
    *,
    level: str = "graph",
    values: bool = False,
    with_target: bool = True,
    progress: bool = True,
    description: str = "graphs",
) -> Iterator[GraphChunk]:
    """Checks PyG ``Data`` objects and joins them into chunks.

    Args:
        graphs: Objects with ``x`` [n] or [n, F] (integers are categories from 0, floats
            are features), ``edge_index`` [2, E], and where wanted ``edge_attr`` [E] or
            [E, columns], ``y`` (a number or C numbers; at node level classes or values
            [n]) and ``pos`` [n, 3]. All graphs have the same columns. Features of edges are
            numbers where they are floats, and those of the first `CHUNK_ROWS` graphs
            have fractions among them; else categories.
        level: ``graph`` or ``node``: what ``y`` labels.
        values: At node level, labels are values, not classes.
        with_target: Whether ``y`` is required.
        progress: Show a progress bar.
        description: Its label.

    Raises:
        ValueError: A graph has the wrong type, shape, range or columns; names it.
    """
    total = len(graphs) if hasattr(graphs, "__len__") else None
    bar = tqdm(
        graphs, total=total, desc=description, unit="graph", disable=not progress
    )
    # Number and arrays of graph 0, and of the first graph with edges.
    first: tuple[int, dict[str, np.ndarray]] | None = None
    first_with_edges: tuple[int, dict[str, np.ndarray]] | None = None
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
            first = first or (number, part)
            _check_same_columns(part, number, ("x", "target", "pos"), *first)
            if part["edge_index"].size:
                first_with_edges = first_with_edges or (number, part)
                _check_same_columns(part, number, ("edge_attr",), *first_with_edges)
            parts.append(part)
        edge_kind.settle(
            {
                number: part
                for (number, _), part in zip(block, parts)
                if "edge_attr" in part
            }
        )
        joined = {
            name: np.concatenate([part[name] for part in parts if name in part])
            for name in ("x", "edge_attr", "target", "pos")
            if any(name in part for part in parts)
        }
        chunk = GraphChunk(
            num_nodes=np.array([len(part["x"]) for part in parts]),
            num_edges=np.array([part["edge_index"].shape[1] for part in parts]),
            edge_index=np.concatenate([part["edge_index"] for part in parts], axis=1),
            **joined,
        )
        chunk.check(first=block[0][0])
        yield chunk


def _arrays(
    data: Any, number: int, level: str, values: bool, with_target: bool
) -> dict[str, np.ndarray]:
    """Arrays of one graph in the shapes of a `GraphChunk`, which checks their values."""

    def fail(text: str) -> DatasetError:
        return DatasetError(f"graph {number}: {text}")

    def get(name: str) -> np.ndarray | None:
        value = getattr(data, name, None)
        if value is None:
            return None
        if hasattr(value, "detach"):
            value = value.detach().cpu().numpy()
        array = np.asarray(value)
        if array.dtype.kind not in "iubf":
            raise fail(f"{name} has dtype {array.dtype}, expected numbers")
        return array

    x, edge_index = get("x"), get("edge_index")
    if x is None:
        raise fail(f"{type(data).__name__} has no x; give every node a feature")
    if edge_index is None:
        raise fail(f"{type(data).__name__} has no edge_index; give an empty [2, 0]")
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2 or x.shape[0] < 1:
        raise fail(f"x has shape {list(x.shape)}, expected [nodes >= 1, features]")
    if edge_index.size == 0:
        edge_index = np.zeros((2, 0), dtype=np.int64)
    if edge_index.ndim != 2 or edge_index.shape[0] != 2:
        raise fail(f"edge_index has shape {list(edge_index.shape)}, expected [2, E]")
    if edge_index.dtype.kind not in "iu":
        raise fail(f"edge_index has dtype {edge_index.dtype}, expected integers")
    edges = edge_index.shape[1]
    result = {"x": x, "edge_index": edge_index}

    edge_attr = get("edge_attr")
    if edge_attr is not None and (edges or len(edge_attr)):
        edge_attr = edge_attr[:, None] if edge_attr.ndim == 1 else edge_attr
        if edge_attr.ndim != 2 or len(edge_attr) != edges:
            raise fail(
                f"edge_attr has shape {list(edge_attr.shape)}, "
                f"expected [{edges}, columns]"
            )
        result["edge_attr"] = edge_attr

    y = get("y") if with_target else None
    if with_target and y is None:
        raise fail(f"{type(data).__name__} has no y")
    if y is not None and level == "node":
        y = y.reshape(-1)
        if len(y) != len(x) or (not values and y.dtype.kind == "f"):
            what = "values" if values else "integer classes"
            raise fail(
                f"y has {len(y)} entries of dtype {y.dtype}, expected {len(x)} {what} "
                "(one per node)"
            )
        with np.errstate(over="ignore"):
            if values and np.isinf(y.astype(np.float32)).any():
                raise fail("y has a value that float32 does not hold; missing is NaN")
        result["target"] = y.astype(np.float32 if values else np.int64)
    elif y is not None:
        if y.ndim > 1 and y.shape[0] != 1:
            raise fail(f"y has shape {list(y.shape)}, expected [C] or [1, C]")
        if np.isinf(y).any():
            raise fail("y has an infinite value; missing labels are NaN")
        result["target"] = y.reshape(1, -1).astype(np.float64)

    pos = get("pos")
    if pos is not None:
        if pos.shape != (len(x), 3):
            raise fail(f"pos has shape {list(pos.shape)}, expected [{len(x)}, 3]")
        result["pos"] = pos
    return result


class _EdgeKind:
    """Whether the features of edges are numbers or categories, for all graphs alike."""

    def __init__(self) -> None:
        self.real: bool | None = None
        self.integers: int | None = None  # the first graph that has integers

    def settle(self, parts: dict[int, dict[str, np.ndarray]]) -> None:
        """Makes ``edge_attr`` floats or integers, decided by the first call.

        Args:
            parts: Arrays of graphs with edge features, by the graph's number.

        Raises:
            DatasetError: A graph has fractions where others have categories.
        """
        fractions = None
        for number, part in parts.items():
            values = part["edge_attr"]
            if values.dtype.kind != "f":
                self.integers = number if self.integers is None else self.integers
            # A float above 2^53 is whole, but no category.
            elif (values % 1 != 0).any() or (np.abs(values) > 2**53).any():
                fractions = number if fractions is None else fractions
        if self.real and self.integers is not None:
            raise DatasetError(
                f"graph {self.integers}: edge_attr has integers, but earlier graphs "
                "have fractions"
            )
        if self.real is None and parts:
            self.real = fractions is not None
        if fractions is not None and (self.integers is not None or not self.real):
            other = self.integers
            where = "earlier graphs have" if other is None else f"graph {other} has"
            raise DatasetError(
                f"graph {fractions}: edge_attr has fractions, but {where} whole "
                "numbers, which are categories"
            )
        for part in parts.values():
            kind = np.float64 if self.real else np.int64
            if part["edge_attr"].dtype.kind == "f":
                part["edge_attr"] = part["edge_attr"].astype(kind)


def _check_same_columns(
    part: dict[str, np.ndarray],
    number: int,
    names: Sequence[str],
    like: int,
    other: dict[str, np.ndarray],
) -> None:
    """DatasetError if a graph lacks a column of graph `like`, or has another kind."""
    for name in names:
        said = "y" if name == "target" else name
        if (name in part) != (name in other):
            has, does = ("has", "does not") if name in part else ("has no", "does")
            raise DatasetError(f"graph {number}: {has} {said}, but graph {like} {does}")
        if name not in part or part[name].ndim == 1:
            continue
        width, expected = part[name].shape[1], other[name].shape[1]
        if width != expected:
            raise DatasetError(
                f"graph {number}: {said} has {width} columns, expected {expected} as "
                f"graph {like}"
            )
    if "x" in names and (part["x"].dtype.kind == "f") != (other["x"].dtype.kind == "f"):
        raise DatasetError(
            f"graph {number}: x has dtype {part['x'].dtype}, but that of graph {like} "
            f"is {other['x'].dtype}: all integers or all floats"
        )
