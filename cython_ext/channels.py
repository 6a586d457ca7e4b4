"""Attention in which every channel of a vector has a score of its own, on a CPU."""

from typing import Any

import numpy as np

from cython_ext import _channels
from cython_ext._checks import FLOAT, check_floats, checked_array, padded, zeros
from cython_ext._team import team
from cython_ext.attention import PARTS

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
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the attention of CGT, with E^att_ijc = sum_f features_fij att_fc and
    E^val likewise, for channel c of head h:

        w_ijc = softmax_j(base_hij + E^att_ijc)
        z_ic  = sum_j keep_ij w_ijc (v_jc + E^val_ijc)

    The kernel takes a few pairs of a receiver i after another, which stay in the processor's
    cache. A feature that is 0 costs nothing and adds nothing, even if the map has an infinity.

    Args:
        base: float32 ``[B, H, N, N]``, or ``[B, H, 1, N]`` for all receivers.
        v: float32 ``[B, N, D]``; D is a multiple of H.
        features: float32 ``[B, F, N, N]``, of receiver i and sender j.
        att: float32 ``[F, D]``.
        val: like ``att``; None: E^val is 0.
        keep: float32 ``[B, N, N]``; None: 1.
        num_threads: see `relative_attention`.

    Returns:
        z, float32 ``[B, N, D]``, and what `channel_attention_gradient` reads of the scores.

    Raises:
        ValueError: an array has another type or shape.
        NotImplementedError: without `HAS_ATTENTION`.
    """
    return _run(None, None, base, v, features, att, val, keep, num_threads)


def channel_attention_gradient(
    grad: np.ndarray,
    *arrays: Any,
    state: np.ndarray | None = None,
    **options: Any,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Compute the gradients of `channel_attention` with the same arguments.

    Args:
        grad: gradient of z, float32 ``[B, N, D]``.
        state: second result of `channel_attention`; None: compute it again.
        **options: its keywords.

    Returns:
        the gradients of base, v, att and val.
    """
    if state is None:
        _, state = _run(None, None, *arrays, **options)
    return _run(grad, state, *arrays, **options)


def _run(
    grad: Any,
    state: Any,
    base: Any,
    v: Any,
    features: Any,
    att: Any,
    val: Any = None,
    keep: Any = None,
    num_threads: int = 1,
) -> Any:
    """Check all arguments and call the kernel; without ``grad`` the forward pass."""
    batch, nodes, width = checked_array("v", v, FLOAT, (None,) * 3).shape
    heads, receivers, _ = np.shape(base)[1:]
    if receivers != 1:
        receivers = nodes
    features = checked_array("features", features, FLOAT, (batch, None, nodes, nodes))
    number = features.shape[1]
    state_shape = (3, batch, nodes, width + -width % LANES)
    checked_array("att", att, FLOAT, (number, width))
    check_floats(
        ("base", base, (batch, heads, receivers, nodes)),
        ("val", val, (number, width)),
        ("keep", keep, (batch, nodes, nodes)),
        ("grad", grad, v.shape),
        ("state", state, state_shape),
    )
    if not heads or not number or not width or width % heads:
        raise ValueError(
            f"{number} features and v of width {width}, expected at least 1 and a "
            f"multiple of {heads} heads"
        )
    parts = min(batch, PARTS)  # parts of the graphs; few graphs are split by receivers
    slices = min(nodes, PARTS // max(parts, 1))
    threads = team(num_threads, parts * slices)
    v = padded(v, LANES)
    att = padded(att, LANES)
    val = padded(val, LANES)
    grad_base = grad_v = grad_att = grad_val = None
    if grad is None:
        state = zeros(*state_shape)  # z, largest scores, 1 / sums of their exponentials
    else:
        grad = padded(grad, LANES)
        grad_base = zeros(slices if receivers == 1 else 1, *base.shape)
        grad_v = zeros(slices, *v.shape)
        grad_att = zeros(parts * slices, *att.shape)
        grad_val = None if val is None else zeros(*grad_att.shape)
    if batch and nodes:
        bits = zeros(threads["num_threads"], -(-number // 32) * nodes + LANES)
        _channels.run(
            *(base, v, features, att, val, keep, grad),
            *(state, grad_base, grad_v, grad_att, grad_val, bits),
            *(batch, nodes, heads, width // heads, number, v.shape[2]),
            *(receivers, parts, slices),
            **threads,
        )
    if grad is None:
        return np.ascontiguousarray(state[0, ..., :width]), state
    of_base = summed(grad_base, nodes)
    return of_base, *(summed(x, width) for x in (grad_v, grad_att, grad_val))


def summed(parts: np.ndarray | None, width: int) -> np.ndarray | None:
    """Sum in a fixed order, whatever the threads, without the padding of the rows."""
    if parts is None:
        return None
    total = parts[0] if len(parts) == 1 else parts.sum(0)
    return np.ascontiguousarray(total[..., :width])
