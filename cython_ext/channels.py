"""Attention in which every channel of a vector has a score of its own, on a CPU."""

import numpy as np

from cython_ext import _channels
from cython_ext._checks import checked_array, checked_integer, checked_shape
from cython_ext._team import gomp_parallel
from cython_ext.attention import FLOAT, HAS_ATTENTION


def channel_attention(
    base: np.ndarray,
    v: np.ndarray,
    att: np.ndarray,
    val: np.ndarray | None = None,
    keep: np.ndarray | None = None,
    *,
    num_threads: int = 1,
) -> np.ndarray:
    """Computes the attention of CGT: for channel c of head h

        w_ijc = softmax_j(base_ijh + E^att_ijc)
        z_ic  = sum_j keep_ij w_ijc (v_jc + E^val_ijc)

    One receiver i after another, with all of it in the processor's cache.

    Args:
        base: float32 ``[B, N, N, H]``, or ``[B, 1, N, H]`` for all receivers.
        v: float32 ``[B, N, D]``; D is a multiple of H.
        att: E^att, float32 ``[B, N, N, D]``.
        val: E^val, like ``att``; None: 0.
        keep: float32 ``[B, N, N]``; None: 1.
        num_threads: As in `relative_attention`.

    Returns:
        z, float32 ``[B, N, D]``.

    Raises:
        ValueError: An array has another type or shape.
        NotImplementedError: Without `HAS_ATTENTION`.
    """
    _check(base, v, att, val, keep)
    out = np.empty(v.shape, np.float32)
    _run(base, v, att, val, keep, None, out, None, None, None, num_threads)
    return out


def channel_attention_gradient(
    grad: np.ndarray,
    base: np.ndarray,
    v: np.ndarray,
    att: np.ndarray,
    val: np.ndarray | None = None,
    keep: np.ndarray | None = None,
    *,
    num_threads: int = 1,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Computes the gradients of `channel_attention` with the same arguments.

    Args:
        grad: Of the result, float32 ``[B, N, D]``.

    Returns:
        The gradients of base, v, att and val.
    """
    _check(base, v, att, val, keep)
    checked_shape("grad", grad, FLOAT, v.shape)
    of_base, of_v, of_att = np.empty_like(base), np.empty_like(v), np.empty_like(att)
    of_val = None if val is None else np.empty_like(val)
    _run(base, v, att, val, keep, grad, of_v, of_base, of_att, of_val, num_threads)
    return of_base, of_v, of_att, of_val


def _check(
    base: np.ndarray,
    v: np.ndarray,
    att: np.ndarray,
    val: np.ndarray | None,
    keep: np.ndarray | None,
) -> None:
    if not HAS_ATTENTION:
        raise NotImplementedError("compiled without vector types")
    batch, nodes, width = checked_array("v", v, FLOAT, 3).shape
    _, receivers, _, heads = checked_array("base", base, FLOAT, 4).shape
    if receivers != 1:
        receivers = nodes
    checked_shape("base", base, FLOAT, (batch, receivers, nodes, heads))
    if not heads or not width or width % heads:
        raise ValueError(f"v has width {width}, expected a multiple of {heads} heads")
    for name, array in (("att", att), ("val", val)):
        if array is not None or name == "att":
            checked_shape(name, array, FLOAT, (batch, nodes, nodes, width))
    if keep is not None:
        checked_shape("keep", keep, FLOAT, (batch, nodes, nodes))


def _run(*arguments: np.ndarray | None | int) -> None:
    *arrays, num_threads = arguments
    num_threads = checked_integer("num_threads", num_threads, 1)
    team = gomp_parallel() if num_threads > 1 else 0
    _channels.run(*arrays, num_threads=num_threads, gomp_parallel=team)
