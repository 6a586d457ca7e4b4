"""Attention in which every channel of a vector has a score of its own, on a CPU."""

from typing import Any

import numpy as np

from cython_ext import _channels
from cython_ext._checks import checked_array, padded
from cython_ext._team import team
from cython_ext.attention import FLOAT, HAS_ATTENTION, PARTS

LANES = 16  # channels that a vector instruction takes at most


def channel_attention(
    base: np.ndarray,
    v: np.ndarray,
    features: np.ndarray,
    att: np.ndarray,
    val: np.ndarray | None = None,
    keep: np.ndarray | None = None,
    *,
    num_threads: int = 1,
) -> np.ndarray:
    """Compute the attention of CGT, with E^att = features @ att and E^val = features @ val,
    for channel c of head h:

        w_ijc = softmax_j(base_hij + E^att_ijc)
        z_ic  = sum_j keep_ij w_ijc (v_jc + E^val_ijc)

    The kernel takes one receiver i after another, which stays in the processor's cache. A
    feature that is 0 costs nothing and adds nothing, even if the map has an infinity.

    Args:
        base: float32 ``[B, H, N, N]``, or ``[B, H, 1, N]`` for all receivers.
        v: float32 ``[B, N, D]``; D is a multiple of H.
        features: float32 ``[B, N, N, F]``.
        att: float32 ``[F, D]``.
        val: like ``att``; None: E^val is 0.
        keep: float32 ``[B, N, N]``; None: 1.
        num_threads: see `relative_attention`.

    Returns:
        z, float32 ``[B, N, D]``.

    Raises:
        ValueError: an array has another type or shape.
        NotImplementedError: without `HAS_ATTENTION`.
    """
    return _run(None, base, v, features, att, val, keep, num_threads)


def channel_attention_gradient(
    grad: np.ndarray,
    base: np.ndarray,
    v: np.ndarray,
    features: np.ndarray,
    att: np.ndarray,
    val: np.ndarray | None = None,
    keep: np.ndarray | None = None,
    *,
    num_threads: int = 1,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Compute the gradients of `channel_attention` with the same arguments.

    It computes the weights a second time, so that nothing of the size of E^att is kept
    between the two calls.

    Args:
        grad: gradient of the result, float32 ``[B, N, D]``.

    Returns:
        the gradients of base, v, att and val.
    """
    return _run(grad, base, v, features, att, val, keep, num_threads)


def _run(
    grad: np.ndarray | None,
    base: np.ndarray,
    v: np.ndarray,
    features: np.ndarray,
    att: np.ndarray,
    val: np.ndarray | None,
    keep: np.ndarray | None,
    num_threads: int,
) -> Any:
    """Check all arguments and call the kernel; without ``grad`` the forward pass."""
    if not HAS_ATTENTION:
        raise NotImplementedError("compiled without vector types")
    batch, nodes, width = checked_array("v", v, FLOAT, (None,) * 3).shape
    heads, receivers, _ = np.shape(base)[1:]
    if receivers != 1:
        receivers = nodes
    number = np.shape(features)[-1]
    pairs = (batch, nodes, nodes)
    for name, array, shape in (
        ("base", base, (batch, heads, receivers, nodes)),
        ("features", features, (*pairs, number)),
        ("att", att, (number, width)),
        ("val", val, (number, width)),
        ("keep", keep, pairs),
        ("grad", grad, v.shape),
    ):
        if array is not None or name == "att":
            checked_array(name, array, FLOAT, shape)
    if not heads or not number or not width or width % heads:
        raise ValueError(
            f"{number} features and v of width {width}, expected at least 1 and a "
            f"multiple of {heads} heads"
        )
    threads = team(num_threads)

    parts = min(batch, PARTS)  # parts of the graphs; few graphs are split by receivers
    slices = min(nodes, PARTS // max(parts, 1))
    v = padded(v, LANES)
    att = padded(att, LANES)
    val = padded(val, LANES)
    out = grad_base = grad_v = grad_att = grad_val = None
    if grad is None:
        out = np.empty_like(v)
    else:
        grad = padded(grad, LANES)
        grad_base = np.zeros((slices if receivers == 1 else 1, *base.shape), np.float32)
        grad_v = np.zeros((slices, *v.shape), np.float32)
        grad_att = np.zeros((parts * slices, *att.shape), np.float32)
        grad_val = None if val is None else np.zeros_like(grad_att)
    if batch and nodes:
        _channels.run(
            *(base, v, features, att, val, keep, grad),
            *(out, grad_base, grad_v, grad_att, grad_val),
            channels_of_head=width // heads,
            parts=parts,
            slices=slices,
            **threads,
        )
    if out is not None:
        return np.ascontiguousarray(out[..., :width])
    of_base = summed(grad_base, nodes)
    return of_base, *(summed(x, width) for x in (grad_v, grad_att, grad_val))


def summed(parts: np.ndarray | None, width: int) -> np.ndarray | None:
    """Sum in a fixed order, whatever the threads, without the padding of the rows."""
    if parts is None:
        return None
    total = parts[0] if len(parts) == 1 else parts.sum(0)
    return np.ascontiguousarray(total[..., :width])
