"""Attention along given edges, on a CPU."""

from typing import Any

import numpy as np

from cython_ext import _edges
from cython_ext._checks import (
    FLOAT,
    INDEX,
    check_floats,
    checked_array,
    checked_integer,
    padded,
    zeros,
)
from cython_ext._team import team
from cython_ext.attention import PARTS
from cython_ext.channels import summed

LANES = 8  # channels that a vector instruction takes


def edge_attention(
    qkv: np.ndarray,
    factor: np.ndarray | None,
    index: np.ndarray,
    kind: np.ndarray | None = None,
    keep: np.ndarray | None = None,
    *,
    heads: int,
    epsilon: float = 0.0,
    channels: bool = False,
    num_threads: int = 1,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Compute the attention of Graph Transformer and Exphormer. With an edge e from j to i, the
    factor f_e and the head h of channel c:

        t_ec = q_ic k_jc f_ec / sqrt(D / H),  w_eh = exp(clamp(sum_c t_ec, -5, 5))
        z_ic = sum_e keep_eh w_eh v_jc / (epsilon + sum_e w_eh)

    Args:
        qkv: float32 ``[S, 3 D]``, queries, keys and values, each head after head.
        factor: float32 ``[E, D]``, or ``[R, D]`` with ``kind``; None: 1.
        index: int64 ``[2, E]``, sources and targets; edges may repeat.
        kind: int64 ``[E]``, rows of ``factor``.
        keep: float32 ``[E, H]``; None: 1.
        heads: H, a divisor of D.
        channels: whether t is wanted.
        num_threads: see `relative_attention`.

    Returns:
        z ``[S, D]``, zero where no edge arrives; t ``[E, D]`` or None.

    Raises:
        ValueError: an array has another type or shape, or a number of a node or row is wrong.
        NotImplementedError: without `HAS_ATTENTION`.
    """
    options = (heads, epsilon, channels, num_threads)
    return _run(None, None, qkv, factor, index, kind, keep, *options)


def edge_attention_gradient(
    grads: tuple[np.ndarray, np.ndarray | None],
    *arrays: Any,
    **options: Any,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Compute the gradients of `edge_attention` with the same arguments, whose weights it
    computes a second time.

    Args:
        grads: those of its two results; None: 0.
        **options: its keywords.

    Returns:
        the gradients of qkv and factor.
    """
    return _run(*grads, *arrays, **options)


def _run(
    grad: Any,
    grad_channels: Any,
    qkv: Any,
    factor: Any,
    index: Any,
    kind: Any = None,
    keep: Any = None,
    heads: int = 1,
    epsilon: float = 0.0,
    channels: bool = False,
    num_threads: int = 1,
) -> Any:
    """Check all arguments and call the kernel; without ``grad`` the forward pass."""
    nodes, width = checked_array("qkv", qkv, FLOAT, (None, None)).shape
    heads = checked_integer("heads", heads, 1)
    if not width or width % (3 * heads):
        raise ValueError(f"qkv has width {width}, expected a multiple of 3 x {heads}")
    width //= 3
    edges = checked_array("index", index, INDEX, (2, None)).shape[1]
    rows = edges if kind is None or factor is None else len(factor)
    check_floats(
        ("factor", factor, (rows, width)),
        ("keep", keep, (edges, heads)),
        ("grad", grad, (nodes, width)),
        ("grad of channels", grad_channels, (edges, width)),
    )
    if kind is not None:
        checked_array("kind", kind, INDEX, (edges,))
    for name, numbers, limit in (("index", index, nodes), ("kind", kind, rows)):
        if numbers is not None and edges:
            if not 0 <= numbers.min() <= numbers.max() < limit:
                raise ValueError(f"{name} has a number outside 0..{limit - 1}")
    parts = min(nodes, PARTS)
    threads = team(num_threads, parts)
    qkv = padded(qkv.reshape(nodes, 3, width), LANES)
    factor = padded(factor, LANES)
    P = qkv.shape[2]
    results: list[Any] = [None] * 4
    if grad is None:
        results[0] = zeros(nodes, P)
        results[1] = np.empty((edges, P), np.float32) if channels else None
    else:
        results[2] = zeros(*qkv.shape)
        if factor is not None:
            shape = (1 if kind is None else parts, *factor.shape)
            results[3] = zeros(*shape)
    if edges:
        arrays = (qkv, factor, index, kind, keep, *results[:2])
        arrays += (padded(grad, LANES), padded(grad_channels, LANES), *results[2:])
        sizes = (nodes, edges, rows, heads, width // heads, P, parts)
        _run_steps(arrays, sizes, epsilon, grad is None, threads)
    *rows, of_factor = results
    rows = [None if x is None else summed(x[None], width) for x in rows]
    if grad is None:
        return rows[0], rows[1]
    return rows[2].reshape(nodes, -1), summed(of_factor, width)


def _run_steps(
    arrays: tuple[Any, ...],
    sizes: tuple[int, ...],
    epsilon: float,
    is_forward: bool,
    threads: dict[str, int],
) -> None:
    """Order the edges and fill the results among the arrays, all in the order of ``_edges.h``."""
    nodes, edges, _, heads, _, P, _ = sizes
    first = np.empty(nodes + 1, np.int64)
    words = (
        *arrays,
        None if is_forward else np.empty((2, edges, heads), np.float32),
        *(first, np.empty(edges, np.int64), np.empty(heads + 1, np.intp)),
        np.empty((P // LANES + heads, 2 + LANES), np.int32),  # pieces of heads
        np.array([epsilon], np.float32),
    )
    _edges.run("by_target", *words, None, *sizes)
    numbers = -(-int(np.diff(first).max()) * heads // 16) * 16  # whole vectors
    room = 3 * numbers + -(-(2 * heads + P) // 16) * 16
    job = (*words, zeros(threads["num_threads"], room), *sizes, numbers, room)
    if is_forward:
        _edges.run("forward", *job, **threads)
    else:
        _edges.run("of_targets", *job, **threads)
        _edges.run("by_source", *job)
        _edges.run("of_sources", *job, **threads)
