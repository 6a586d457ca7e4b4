"""From SMILES and PyG graphs to chunks of a store, on as many cores as asked for."""

import contextlib
import itertools
import logging
import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NamedTuple, Optional

import numpy as np

from graphormer_plugin.data.errors import DatasetError, WorkerError
from graphormer_plugin.data.parts import Batch, SavedParts
from graphormer_plugin.data.writer import GraphChunk

logger = logging.getLogger(__name__)

CHUNK_ROWS = 256  # a fraction of a second of work, so that Ctrl-C is obeyed at once
PART_CHUNKS = 64  # chunks of a part that is kept on disk: some seconds of work
# Starting workers takes seconds (they import this package); one core featurises some
# thousand molecules in that time, so that fewer rows are faster without.
MIN_ROWS_FOR_WORKERS = 16384


class MoleculeGraph(NamedTuple):
    """What a parser returns for one SMILES.

    Attributes:
        x: int or float [n, F], n >= 1.
        edge_index: int [2, E].
        edge_attr: int [E, columns].
        extras: Values per molecule that targets or splits need, such as a scaffold.
    """

    x: np.ndarray
    edge_index: np.ndarray
    edge_attr: np.ndarray
    extras: dict[str, Any] = {}


Parser = Callable[[str], MoleculeGraph]


def num_workers(asked: Optional[int], rows: int) -> int:
    """Processes to start: 0 means in this process.

    Args:
        asked: As the user said, or None: all cores this process may use, unless
            there are so few rows that starting workers takes longer than the work.
        rows: Rows to be featurised.
    """
    if asked is None:
        if rows < MIN_ROWS_FOR_WORKERS:
            return 0
        asked = len(os.sched_getaffinity(0))
    if asked < 0:
        raise DatasetError(f"workers must be 0 or more, got {asked}")
    return 0 if asked <= 1 else asked


def part_rows() -> int:
    """Rows of a part that is kept on disk."""
    return PART_CHUNKS * CHUNK_ROWS


def featurise(
    smiles: Sequence[str],
    parser: Parser,
    *,
    workers: Optional[int] = None,
    progress: bool = True,
    description: str = "molecules",
    exclude: Iterable[int] = (),
    parts: Optional[SavedParts] = None,
) -> Iterator[Batch]:
    """Parses rows of SMILES into chunks, in their order.

    Args:
        smiles: One per row.
        parser: Function of one SMILES; raises ValueError with a reason for what it
            refuses. With several workers it must be importable by its name.
        workers: See `num_workers`.
        progress: Show a progress bar with the time left.
        description: Its label.
        exclude: Rows left out and not counted as failures.
        parts: Where finished parts are kept, and found again after a kill.

    Raises:
        WorkerError: A worker died (out of memory, most likely).
    """
    from tqdm import tqdm

    finished, first = 0, 0
    if parts is not None:
        for number, part in enumerate(parts.load(), 1):
            yield part
            finished += part.rows
            first = number * part_rows()
    if first:
        logger.info("going on behind %s rows that are finished", f"{first:,}")

    excluded = frozenset(exclude)

    def pieces() -> Iterator[tuple[list[int], list[str]]]:
        for start in range(first, len(smiles), CHUNK_ROWS):
            rows = range(start, min(start + CHUNK_ROWS, len(smiles)))
            kept = [row for row in rows if row not in excluded]
            yield kept, [smiles[row] for row in kept]

    count = num_workers(workers, len(smiles))
    bar = tqdm(
        total=len(smiles) - len(excluded),
        initial=finished,
        desc=description,
        unit="mol",
        disable=not progress,
        smoothing=0.05,
    )
    with bar:
        results = featurise_pieces(pieces(), parser, count)
        number, waiting = first // part_rows(), []
        for batch in results:
            if parts is not None:
                waiting.append(batch)
                if len(waiting) == PART_CHUNKS:
                    parts.save(number, waiting)
                    number, waiting = number + 1, []
            yield batch
            if bar.n == finished:
                bar.unpause()  # starting the workers says nothing about the time left
            bar.update(batch.rows)


def featurise_pieces(
    pieces: Iterable[tuple[list[int], list[str]]], parser: Parser, workers: int = 0
) -> Iterator[Batch]:
    """Parses pieces of work in their order, with a bounded number of them under way.

    Args:
        pieces: Rows and their SMILES, at most `CHUNK_ROWS` or so.
        parser: See `featurise`.
        workers: Processes; 0: this one.

    Raises:
        WorkerError: A worker died.
    """
    if workers == 0:
        return (_featurise_rows(parser, *piece) for piece in pieces)
    return _in_pool(workers, parser, pieces)


def _in_pool(
    workers: int, parser: Parser, pieces: Iterable[tuple[list[int], list[str]]]
) -> Iterator[Batch]:
    # Not fork: torch, OpenMP and the progress bar may hold locks in other threads.
    # The fork server imports this package once and forks clean workers.
    method = "forkserver"
    if method not in multiprocessing.get_all_start_methods():
        method = "spawn"
    context = multiprocessing.get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload([__name__])
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker)
    pending: deque[Future[Batch]] = deque()
    try:
        for rows, strings in pieces:
            pending.append(pool.submit(_featurise_rows, parser, rows, strings))
            if len(pending) >= 4 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool:
        raise WorkerError(
            f"a worker process died: out of memory (try fewer than {workers} workers), "
            'or a script that prepares data lacks its `if __name__ == "__main__":`'
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _start_worker() -> None:
    """Leaves Ctrl-C to the parent, and dies with it however it dies."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _featurise_rows(parser: Parser, rows: list[int], smiles: list[str]) -> Batch:
    graphs: list[MoleculeGraph] = []
    kept: list[int] = []
    batch = Batch(None, rows=len(rows))
    with captured_rdkit_log() as messages:
        for row, string in zip(rows, smiles, strict=True):
            try:
                graph = parse(string, parser, messages)
            except ValueError as error:
                batch.failures.append((row, string, str(error)))
                continue
            graphs.append(graph)
            kept.append(row)
    if graphs:
        for name in graphs[0].extras:
            batch.extras[name] = [graph.extras[name] for graph in graphs]
        batch.chunk = GraphChunk(
            num_nodes=np.array([len(graph.x) for graph in graphs]),
            num_edges=np.array([graph.edge_index.shape[1] for graph in graphs]),
            x=np.concatenate([graph.x for graph in graphs]),
            edge_index=np.concatenate([graph.edge_index for graph in graphs], axis=1),
            edge_attr=np.concatenate([graph.edge_attr for graph in graphs]),
            row=np.array(kept),
        )
    return batch


def parse(smiles: str, parser: Parser, messages: list[str]) -> MoleculeGraph:
    """Graph of a SMILES.

    Args:
        smiles: One molecule.
        parser: See `featurise`.
        messages: Those of `captured_rdkit_log`, within which this is called.

    Raises:
        ValueError: It is refused; why, in one line, and in RDKit's words if it has some.
    """
    messages.clear()
    try:
        graph = parser(smiles)
        if len(graph.x) == 0:
            raise ValueError("no atoms")
    except ValueError as error:
        reason = messages[0] if messages else str(error)
        raise ValueError(" ".join(reason.split())) from None
    return graph


@contextlib.contextmanager
def captured_rdkit_log() -> Iterator[list[str]]:
    """Collects what RDKit would print, without its time stamps."""
    try:
        from rdkit import rdBase
    except ImportError:
        yield []
        return
    messages: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            messages.append(text.partition("] ")[2] if text[:1] == "[" else text)

    log = logging.getLogger("rdkit")
    before = log.handlers[:], log.propagate
    log.handlers, log.propagate = [Collect(logging.ERROR)], False
    rdBase.LogToPythonLogger()
    try:
        yield messages
    finally:
        rdBase.LogToCppStreams()
        log.handlers, log.propagate = before


# ------------------------------------------------------------------- PyG graphs


def chunks_of_graphs(
    graphs: Iterable[Any],
    *,
    level: str = "graph",
    with_target: bool = True,
    progress: bool = True,
    description: str = "graphs",
) -> Iterator[GraphChunk]:
    """Checks PyG ``Data`` objects and joins them to chunks.

    Args:
        graphs: Objects with ``x`` [n] or [n, F] (integers are categories from 0, floats
            are features), ``edge_index`` [2, E], and where wanted ``edge_attr`` [E] or
            [E, columns] of categories, ``y`` (a number or C numbers; classes [n] at
            node level) and ``pos`` [n, 3]. All agree in their columns.
        level: ``graph`` or ``node``: what ``y`` labels.
        with_target: Whether ``y`` is needed.
        progress: Show a progress bar.
        description: Its label.

    Raises:
        DatasetError: A graph has the wrong type, shape, range or columns; names it.
    """
    from tqdm import tqdm

    total = len(graphs) if hasattr(graphs, "__len__") else None
    bar = tqdm(
        graphs, total=total, desc=description, unit="graph", disable=not progress
    )
    # Number and columns of graph 0, and of the first graph with edges.
    first: Optional[tuple[int, dict[str, np.ndarray]]] = None
    first_with_edges: Optional[tuple[int, dict[str, np.ndarray]]] = None
    numbered = enumerate(bar)
    while block := list(itertools.islice(numbered, CHUNK_ROWS)):
        parts = []
        for number, data in block:
            part = _checked_graph(data, number, level, with_target)
            first = first or (number, part)
            _check_same_columns(part, number, ("x", "target", "pos"), *first)
            if part["edge_index"].size:
                first_with_edges = first_with_edges or (number, part)
                _check_same_columns(part, number, ("edge_attr",), *first_with_edges)
            parts.append(part)
        joined = {
            name: np.concatenate([part[name] for part in parts if name in part])
            for name in ("x", "edge_attr", "target", "pos")
            if any(name in part for part in parts)
        }
        yield GraphChunk(
            num_nodes=np.array([len(part["x"]) for part in parts]),
            num_edges=np.array([part["edge_index"].shape[1] for part in parts]),
            edge_index=np.concatenate([part["edge_index"] for part in parts], axis=1),
            **joined,
        )


def _checked_graph(
    data: Any, number: int, level: str, with_target: bool
) -> dict[str, np.ndarray]:
    def fail(text: str) -> DatasetError:
        return DatasetError(f"graph {number}: {text}")

    def get(name: str) -> Optional[np.ndarray]:
        value = getattr(data, name, None)
        if value is None:
            return None
        if hasattr(value, "detach"):
            value = value.detach().cpu().numpy()
        array = np.asarray(value)
        if array.dtype.kind not in "iubf":
            raise fail(f"{name} has dtype {array.dtype}, expected numbers")
        if array.dtype.kind == "f" and name != "y":
            with np.errstate(over="ignore"):
                stored = array.astype(np.float32)
            if not np.isfinite(stored).all():
                wrong = array[~np.isfinite(stored)][0]
                raise fail(
                    f"{name} has a value {wrong}, expected one that fits float32"
                )
        return array

    x, edge_index = get("x"), get("edge_index")
    if x is None:
        raise fail(f"{type(data).__name__} has no x; give every node a feature")
    if edge_index is None:
        raise fail(f"{type(data).__name__} has no edge_index; give an empty [2, 0]")
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2 or x.shape[0] < 1:
        raise fail(f"x has shape {list(x.shape)}, expected [nodes >= 1, features]")
    if x.dtype.kind != "f" and x.min(initial=0) < 0:
        raise fail(f"x has category {x.min()}, expected 0 and above")
    if edge_index.size == 0:
        edge_index = np.zeros((2, 0), dtype=np.int64)
    if edge_index.ndim != 2 or edge_index.shape[0] != 2:
        raise fail(f"edge_index has shape {list(edge_index.shape)}, expected [2, E]")
    if edge_index.dtype.kind not in "iu":
        raise fail(f"edge_index has dtype {edge_index.dtype}, expected integers")
    outside = (edge_index < 0) | (edge_index >= len(x))
    if outside.any():
        wrong = edge_index[outside][0]
        raise fail(f"edge_index names node {wrong}, expected 0..{len(x) - 1}")
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
        if edge_attr.dtype.kind == "f":
            if (edge_attr != np.floor(edge_attr)).any():
                raise fail(
                    "edge_attr has fractions; edge features are categories here: bin "
                    "them, or leave edge_attr out"
                )
            edge_attr = edge_attr.astype(np.int64)
        if edge_attr.min(initial=0) < 0:
            raise fail(
                f"edge_attr has category {edge_attr.min()}, expected 0 and above"
            )
        result["edge_attr"] = edge_attr

    y = get("y") if with_target else None
    if with_target and y is None:
        raise fail(f"{type(data).__name__} has no y")
    if y is not None and level == "node":
        y = y.reshape(-1)
        if len(y) != len(x) or y.dtype.kind not in "iub":
            raise fail(
                f"y has {len(y)} entries of dtype {y.dtype}, expected {len(x)} integer "
                "classes (one per node)"
            )
        result["target"] = y.astype(np.int64)
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
        result["pos"] = pos.astype(np.float32)
    return result


def _check_same_columns(
    part: dict[str, np.ndarray],
    number: int,
    names: Sequence[str],
    like: int,
    other: dict[str, np.ndarray],
) -> None:
    """These columns of a graph are those of graph `like`."""
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
