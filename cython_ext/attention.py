"""Attention in which queries, keys and values meet a vector per relation, on a CPU."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from cython_ext import _attention
from cython_ext._checks import checked_array, checked_integer

# Whether the compiler has vector types, as GCC and clang have.
HAS_ATTENTION: bool = bool(_attention.COMPILED)
GRAPHS_PER_THREAD = 16  # some hundred microseconds of work
FLOAT = (np.dtype(np.float32),)


def relative_attention(
    qkv: np.ndarray,
    query_table: np.ndarray,
    key_table: np.ndarray,
    value_table: np.ndarray,
    relation_index: np.ndarray,
    *,
    key_from_row: bool = False,
    num_threads: int = 1,
) -> np.ndarray:
    """Computes the attention of GRPE for prediction: nothing is kept for a gradient.

    With the relation r of nodes i and j, and for each of H heads of width d

        a_ij = (q_i.k_j + q_i.Rq[r] + k_j.Rk[r]) / sqrt(d)
        z_i  = sum_j softmax_j(a_ij) (v_j + Rv[r])

    One graph after another, with everything of it in the processor's cache, and eight
    heads at a time in vector instructions.

    Args:
        qkv: float32 ``[B, T, 3 D]``, queries, keys and values, head after head.
        query_table: Rq, float32 ``[H, R + 1, d]``; the last row is not read.
        key_table: Rk.
        value_table: Rv.
        relation_index: int64 ``[B, T, T]``, relations 0..R; R forbids a pair.
        key_from_row: k_i in place of k_j.
        num_threads: Threads that share the graphs, `GRAPHS_PER_THREAD` or more each.
            They end with this call.

    Returns:
        z, float32 ``[B, T, D]``; zero where all pairs of a node are forbidden.

    Raises:
        ValueError: An array has another type, shape or relation.
        NotImplementedError: Without `HAS_ATTENTION`.
    """
    if not HAS_ATTENTION:
        raise NotImplementedError("compiled without vector types")
    qkv = checked_array("qkv", qkv, FLOAT, 3)
    tables = [
        checked_array(name, table, FLOAT, 3)
        for name, table in (
            ("query_table", query_table),
            ("key_table", key_table),
            ("value_table", value_table),
        )
    ]
    index = (np.dtype(np.int64),)
    relation_index = checked_array("relation_index", relation_index, index, 3)
    batch, nodes, width = qkv.shape
    heads, rows, d = tables[0].shape
    if not heads or not rows or not d:
        raise ValueError(f"query_table has shape {list(tables[0].shape)}")
    for name, array, expected in (
        ("qkv", qkv, (batch, nodes, 3 * heads * d)),
        ("key_table", tables[1], (heads, rows, d)),
        ("value_table", tables[2], (heads, rows, d)),
        ("relation_index", relation_index, (batch, nodes, nodes)),
    ):
        if array.shape != expected:
            raise ValueError(
                f"{name} has shape {list(array.shape)}, expected {list(expected)}"
            )
    out = np.empty((batch, nodes, width // 3), np.float32)
    num_threads = checked_integer("num_threads", num_threads, 1)
    threads = max(1, min(num_threads, batch // GRAPHS_PER_THREAD))
    cuts = [batch * part // threads for part in range(threads + 1)]

    def attend(first: int, last: int) -> int:
        graphs = slice(first, last)
        wrong = _attention.attend(
            qkv[graphs], *tables, relation_index[graphs], key_from_row, out[graphs]
        )
        return wrong if wrong < 0 else first + wrong

    if threads == 1:
        wrong = attend(0, batch)
    else:
        # A new pool per call: a fork would not copy the threads of a kept one.
        with ThreadPoolExecutor(threads) as pool:
            wrong = max(pool.map(attend, cuts[:-1], cuts[1:]))
    if wrong >= 0:
        raise ValueError(
            f"graph {wrong} of relation_index has a relation outside 0..{rows - 1}"
        )
    return out
