"""Attention of graphs whose pairs of nodes have states, on a CPU."""

from typing import Any

import numpy as np

from cython_ext import _pairs
from cython_ext._checks import FLOAT, INDEX, check_floats, checked_array, zeros
from cython_ext._team import team
from cython_ext.attention import PARTS

LANES = 8  # channels that a vector instruction takes


def pair_attention(
    sizes: np.ndarray,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    maps: np.ndarray,
    score: np.ndarray,
    keep: np.ndarray | None = None,
    *,
    num_threads: int = 1,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute the attention of GRIT. In each head, with the receiver i, the sender j and the
    factor w_ij and bias b_ij of their pair:

        s_ij = (q_i + k_j) w_ij,  t_ij = ReLU(sign(s_ij) sqrt(|s_ij|) + b_ij)
        a_ij = keep_ij softmax_j(clamp(score . t_ij, -5, 5))

    The pairs of a graph of n nodes are n^2 rows, those of receiver 0 first.

    Args:
        sizes: nodes of each graph, int64 ``[B]``; their sum is S, that of their squares P.
        q, k, v: float32 ``[S, D]``; D / H is a multiple of `LANES`.
        maps: float32 ``[P, 2 D]``; each head has its D / H factors, then its biases.
        score: float32 ``[H, D / H]``.
        keep: float32 ``[P, H]``; None: 1.
        num_threads: see `relative_attention`.

    Returns:
        t ``[P, D]``; the sums over j of a_ij v_j and of a_ij t_ij, ``[S, D]`` each.

    Raises:
        ValueError: an array has another type or shape.
        NotImplementedError: without `HAS_ATTENTION`.
    """
    return _run(None, None, sizes, q, k, v, maps, score, keep, num_threads)


def pair_attention_gradient(
    grads: tuple[np.ndarray, np.ndarray, np.ndarray],
    t: np.ndarray,
    *arrays: Any,
    **options: Any,
) -> tuple[np.ndarray, ...]:
    """Compute the gradients of `pair_attention` with the same arguments.

    Args:
        grads: those of its three results.
        t: its first result.
        **options: its keywords.

    Returns:
        the gradients of q, k, v, maps and score; the root's at 0, infinite, is taken as 0.
    """
    return _run(grads, t, *arrays, **options)


def _run(
    grads: Any,
    t: Any,
    sizes: Any,
    q: Any,
    k: Any,
    v: Any,
    maps: Any,
    score: Any,
    keep: Any = None,
    num_threads: int = 1,
) -> Any:
    """Check all arguments and call the kernel; without ``grads`` the forward pass."""
    sizes = checked_array("sizes", sizes, INDEX, (None,))
    if (sizes < 0).any():
        raise ValueError("sizes has a number below 0")
    heads, width = checked_array("score", score, FLOAT, (None, None)).shape
    if not heads or not width or width % LANES:
        raise ValueError(f"score {heads} x {width}, expected a multiple of {LANES}")
    starts = [np.append(0, np.cumsum(number)) for number in (sizes, sizes**2)]
    nodes, pairs = (int(start[-1]) for start in starts)
    of_node = (nodes, heads * width)
    of_pair = (pairs, heads * width)
    of_maps = (pairs, 2 * heads * width)
    of_keep = (pairs, heads)
    names = ["q", "k", "v", "maps", "keep", "grad of t", "of mixed", "of states", "t"]
    shapes = [*[of_node] * 3, of_maps, of_keep, of_pair, of_node, of_node, of_pair]
    arrays = [q, k, v, maps, keep, *(grads or [None] * 3), t]
    check_floats(*zip(names, arrays, shapes))
    parts = min(len(sizes), PARTS)
    threads = team(num_threads, parts)
    if grads is None:
        results = [np.empty(shape, np.float32) for shape in (of_pair, of_node, of_node)]
        outputs = [*results, *[None] * 8]
    else:
        of_score = zeros(parts, *score.shape)
        results = [zeros(*of_node) for _ in range(3)]
        results += [np.empty_like(maps), of_score]
        outputs = [t, None, None, *grads, *results]
    if pairs:
        numbers = -(-int(sizes.max()) * heads // 16) * 16  # whole vectors
        room = 2 * (heads * width + numbers) + -(-heads // 16) * 16
        rooms = zeros(threads["num_threads"], room)
        _pairs.run(
            *(q, k, v, maps, score, keep, *outputs, *starts),
            *(rooms, len(sizes), heads, width, parts, numbers, rooms.shape[1]),
            **threads,
        )
    # The parts are summed in a fixed order, whatever the threads.
    return tuple(results) if grads is None else (*results[:4], of_score.sum(0))
