"""Attention in which queries, keys and values meet a vector per relation, on a CPU."""

from typing import Any, NamedTuple

import numpy as np

from cython_ext import _attention
from cython_ext._checks import (
    FLOAT,
    INDEX,
    check_floats,
    checked_array,
    checked_integer,
    zeros,
)
from cython_ext._team import team

# Whether the compiler has vector types, as GCC and clang have.
HAS_ATTENTION: bool = bool(_attention.COMPILED)
PARTS = 32  # parts of a batch; a thread takes one after another


class Relations(NamedTuple):
    """Relations of the node pairs of a batch, and their vectors.

    Attributes:
        query_table, key_table, value_table: Rq, Rk and Rv, float32 ``[H, R + 1, d]``;
            the last row is not read.
        relation_index: int64 ``[B, T, T]``, relations 0..R; R forbids a pair.
    """

    query_table: np.ndarray
    key_table: np.ndarray
    value_table: np.ndarray
    relation_index: np.ndarray


def dropped_out(x: np.ndarray, dropout: float, seed: int) -> np.ndarray:
    """Compute a dropout: entries become 0 with probability p, and the others x / (1 - p).

    Args:
        x: float32 of any shape, C-contiguous.
        dropout: p, 0 <= p < 1.
        seed: 0..2^64 - 1; decides with the position which entries are dropped.

    Raises:
        ValueError: x has another type, or p another value.
        NotImplementedError: without `HAS_ATTENTION`.
    """
    _check(dropout)
    x = checked_array("x", x, FLOAT, (None,) * np.ndim(x))
    out = np.empty_like(x)
    seed = checked_integer("seed", seed, 0, 2**64 - 1)
    _attention.drop_out(x.reshape(-1), out.reshape(-1), dropout, seed)
    return out


def relative_attention(
    qkv: np.ndarray,
    relations: Relations | None = None,
    attn_bias: np.ndarray | None = None,
    *,
    key_from_row: bool = False,
    dropout: float = 0.0,
    seed: int = 0,
    num_threads: int = 1,
) -> np.ndarray:
    """Compute attention with relations (GRPE), with a bias (Graphormer), or both.

    For the relation r of nodes i and j, each of H heads of width d computes

        a_ij = (q_i.k_j + q_i.Rq[r] + k_j.Rk[r]) / sqrt(d) + bias_ij
        z_i  = sum_j dropout(softmax_j(a_ij)) (v_j + Rv[r])

    The kernel takes one graph after another, which stays in the processor's cache, and eight
    heads at a time in vector instructions.

    Args:
        qkv: float32 ``[B, T, 3 D]``, queries, keys and values, head after head.
        relations: relations of the pairs; None allows all pairs.
        attn_bias: float32 ``[B, H, T, T]``, or ``[B, H, 1, T]`` for all rows.
        key_from_row: take k_i instead of k_j next to Rk.
        dropout: probability p of dropping a weight; the others are divided by 1 - p.
        seed: 0..2^64 - 1; decides with graph, head, i, j and T which weights are dropped.
        num_threads: threads of the caller's OpenMP team, if the process has a team
            (serial otherwise). They change nothing in the results.

    Returns:
        z, float32 ``[B, T, D]``; zero where all pairs of a node are forbidden.

    Raises:
        ValueError: an array has another type, shape or relation, or neither relations
            nor bias are there.
        NotImplementedError: without `HAS_ATTENTION`.
    """
    out, _, _ = _run(
        None, qkv, relations, attn_bias, key_from_row, dropout, seed, num_threads
    )
    return out


def relative_attention_gradient(
    grad: np.ndarray,
    *arrays: Any,
    **options: Any,
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Compute the gradients of `relative_attention` with the same arguments.

    It computes the weights a second time, so that nothing quadratic in T is kept
    between the two calls.

    Args:
        grad: gradient of the result, float32 ``[B, T, D]``.
        **options: the keywords of `relative_attention`.

    Returns:
        the gradients of qkv; of the three tables, ``[3, H, R + 1, d]`` with zeros in
        the last row, or None; and of the bias, or None. A bias for all rows has none.
    """
    return _run(grad, *arrays, **options)


def _run(
    grad: Any,
    qkv: Any,
    relations: Any = None,
    attn_bias: Any = None,
    key_from_row: bool = False,
    dropout: float = 0.0,
    seed: int = 0,
    num_threads: int = 1,
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Check all arguments and call the kernel; without ``grad`` the forward pass."""
    _check(dropout)
    batch, nodes, width = checked_array("qkv", qkv, FLOAT, (None,) * 3).shape
    heads = 0
    rows = 1
    d = 0
    if relations is not None:
        heads, rows, d = np.shape(relations.query_table)
        check_floats(*zip(Relations._fields, relations[:3], [(heads, rows, d)] * 3))
        pairs = (batch, nodes, nodes)
        checked_array("relation_index", relations.relation_index, INDEX, pairs)
    if attn_bias is not None:
        heads = heads or np.shape(attn_bias)[1]
        for_rows = 1 if np.shape(attn_bias)[2:3] == (1,) else nodes
        checked_array("attn_bias", attn_bias, FLOAT, (batch, heads, for_rows, nodes))
    d = d or width // max(3 * heads, 1)
    if not rows or not width or width != 3 * heads * d:
        raise ValueError(
            f"qkv has width {width} and tables {rows} rows, expected width "
            f"{3 * heads * d} for {heads} heads, and at least a row"
        )
    parts = min(batch, PARTS)
    out = np.empty((batch, nodes, width // 3), np.float32)
    grad_tables = grad_bias = None
    if grad is not None:
        checked_array("grad", grad, FLOAT, out.shape)
        out = np.empty_like(qkv)
        if relations is not None:
            grad_tables = zeros(parts, 3, heads, rows, d)
        if attn_bias is not None and for_rows == nodes:
            grad_bias = np.empty_like(attn_bias)
    threads = team(num_threads)
    wrong = _attention.run(
        qkv,
        None if relations is None else relations[:3],
        None if relations is None else relations.relation_index,
        attn_bias,
        grad,
        out,
        grad_tables,
        grad_bias,
        heads=heads,
        parts=parts,
        key_from_row=key_from_row,
        dropout=dropout,
        seed=checked_integer("seed", seed, 0, 2**64 - 1),
        **threads,
    )
    if wrong >= 0:
        raise ValueError(
            f"graph {wrong} of relation_index has a relation outside 0..{rows - 1}"
        )
    if grad_tables is not None:
        grad_tables = grad_tables.sum(0)  # one order of the sum, whatever the threads
    return out, grad_tables, grad_bias


def _check(dropout: float) -> None:
    if not HAS_ATTENTION:
        raise NotImplementedError("compiled without vector types")
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout is {dropout}, expected 0 <= p < 1")
