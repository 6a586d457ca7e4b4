"""Attention along given edges, on a CPU."""

from typing import Any

import numpy as np

from cython_ext import _edges
from cython_ext._checks import checked_array, checked_integer
from cython_ext._team import gomp_parallel
from cython_ext.attention import FLOAT, HAS_ATTENTION, INDEX, PARTS

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
    *arrays: np.ndarray | None,
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
    grad: np.ndarray | None,
    grad_channels: np.ndarray | None,
    qkv: np.ndarray,
    factor: np.ndarray | None,
    index: np.ndarray,
    kind: np.ndarray | None = None,
    keep: np.ndarray | None = None,
    heads: int = 1,
    epsilon: float = 0.0,
    channels: bool = False,
    num_threads: int = 1,
) -> Any:
    """Check all arguments and call the kernel; without ``grad`` the forward pass."""
    if not HAS_ATTENTION:
        raise NotImplementedError("compiled without vector types")
    nodes, width = checked_array("qkv", qkv, FLOAT, (None, None)).shape
    heads = checked_integer("heads", heads, 1)
    if not width or width % (3 * heads):
        raise ValueError(f"qkv has width {width}, expected a multiple of 3 x {heads}")
    width //= 3
    edges = checked_array("index", index, INDEX, (2, None)).shape[1]
    rows = edges if kind is None or factor is None else len(factor)
    for name, array, types, shape, limit in (
        ("index", index, INDEX, (2, edges), nodes),
        ("kind", kind, INDEX, (edges,), rows),
        ("factor", factor, FLOAT, (rows, width), 0),
        ("keep", keep, FLOAT, (edges, heads), 0),
        ("grad", grad, FLOAT, (nodes, width), 0),
        ("grad of channels", grad_channels, FLOAT, (edges, width), 0),
    ):
        if array is not None:
            checked_array(name, array, types, shape)
            if types is INDEX and edges and not 0 <= array.min() <= array.max() < limit:
                raise ValueError(f"{name} has a number outside 0..{limit - 1}")
    num_threads = checked_integer("num_threads", num_threads, 1)

    parts = min(nodes, PARTS)
    qkv, factor = _padded(qkv.reshape(nodes, 3, width)), _padded(factor)
    P = qkv.shape[2]
    results: list[np.ndarray | None] = [None] * 4
    if grad is None:
        results[0] = np.zeros((nodes, P), np.float32)
        results[1] = np.empty((edges, P), np.float32) if channels else None
    else:
        results[2] = np.zeros_like(qkv)
        if factor is not None:
            shape = (1 if kind is None else parts, *factor.shape)
            results[3] = np.zeros(shape, np.float32)
    if edges:
        _edges.run(
            *(qkv, factor, index, kind, keep, *results[:2]),
            *(_padded(grad), _padded(grad_channels), *results[2:]),
            heads=heads,
            channels_of_head=width // heads,
            epsilon=epsilon,
            parts=parts,
            num_threads=num_threads,
            gomp_parallel=gomp_parallel() if num_threads > 1 else 0,
        )
    cut = [x if x is None else np.ascontiguousarray(x[..., :width]) for x in results]
    if grad is None:
        return cut[0], cut[1]
    # The parts are summed in a fixed order, whatever the threads.
    return cut[2].reshape(nodes, -1), None if cut[3] is None else cut[3].sum(0)


def _padded(array: np.ndarray | None) -> np.ndarray | None:
    """The array with zeros after the channels, up to a multiple of `LANES`."""
    if array is None or not (missing := -array.shape[-1] % LANES):
        return array
    return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, missing)])
