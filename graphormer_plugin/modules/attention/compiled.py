"""Attention on a CPU as compiled functions with gradients (`cython_ext`).

They compute the attention of all systems but TokenGT in float32 on a CPU, so a change of its
formula in Python has no effect there. `plain_attention` switches to the plain operations
of torch, which are the formula, and so does ``GRAPHORMER_COMPILED=0`` in the environment.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

from cython_ext.attention import (
    HAS_ATTENTION,
    Relations,
    relative_attention,
    relative_attention_gradient,
)
from cython_ext.channels import channel_attention, channel_attention_gradient
from cython_ext.edges import edge_attention, edge_attention_gradient
from cython_ext.pairs import pair_attention, pair_attention_gradient
from graphormer_plugin.modules.attention.formula import (
    RelationTables,
    heads_first,
    relation_messages,
    relation_weights,
)
from graphormer_plugin.modules.layers.derivatives import differentiable_by
from graphormer_plugin.modules.layers.dropout import drawn_seed
from graphormer_plugin.modules.layers.graph_random import kept_pairs

_plain = ContextVar("plain", default=os.environ.get("GRAPHORMER_COMPILED") == "0")


@contextlib.contextmanager
def plain_attention(plain: bool = True) -> Iterator[None]:
    """Attention inside is computed by plain operations of torch, on any device.

    Args:
        plain: False: by the fastest code that fits, also if ``GRAPHORMER_COMPILED`` is 0.
    """
    token = _plain.set(plain)
    try:
        yield
    finally:
        _plain.reset(token)


def plain_only() -> bool:
    """Whether attention is computed by plain operations of torch: inside of
    `plain_attention`, and in an exported program."""
    return torch.compiler.is_compiling() or _plain.get()


def compiled_fits(x: Tensor, dtypes: tuple = (torch.float32,)) -> bool:
    """Whether compiled functions of these types take a tensor."""
    return (
        HAS_ATTENTION
        and x.device.type == "cpu"
        and x.dtype in dtypes
        and not plain_only()
    )


def compiled_attention_fits(qkv: Tensor) -> bool:
    """Whether `compiled_attention` takes queries, keys and values [B, T, 3 D]."""
    return compiled_fits(qkv, (torch.float32, torch.bfloat16))


def compiled_attention(
    qkv: Tensor,
    tables: tuple[Tensor, Tensor, Tensor] | None = None,
    relation_index: Tensor | None = None,
    attn_bias: Tensor | None = None,
    *,
    dropout: float = 0.0,
    key_from_row: bool = False,
) -> Tensor:
    """`cython_ext.relative_attention` of tensors on the CPU, computed in float32.

    The backward pass draws the mask of the dropout again from its seed.

    Args:
        qkv: [B, T, 3 D].
        tables: tables of queries, keys and values, [H, R + 1, D / H] each.
        relation_index: [B, T, T] int64 in 0..R, with `tables`.
        attn_bias: [B, H, T, T], or [B, H, 1, T] for all rows.
        dropout: rate on the weights, 0 <= p < 1.

    Returns:
        [B, T, D], in the type of `qkv`.
    """
    dtype = qkv.dtype
    qkv = qkv.float()
    tables = tuple(table.float() for table in tables) if tables else (None, None, None)
    if attn_bias is not None:
        attn_bias = attn_bias.float()
        if attn_bias.requires_grad:
            attn_bias = attn_bias.expand(-1, -1, qkv.shape[1], -1)
    seed = drawn_seed() if dropout else 0
    options = {"dropout": dropout, "seed": seed, "key_from_row": key_from_row}
    arguments = (options, qkv, *tables, relation_index, attn_bias)
    return _CompiledAttention.apply(*arguments).to(dtype)


def _attention_formula(
    options: dict[str, Any],
    qkv: Tensor,
    query_table: Tensor | None,
    key_table: Tensor | None,
    value_table: Tensor | None,
    relation_index: Tensor | None,
    attn_bias: Tensor | None,
) -> Tensor:
    """`compiled_attention` in plain operations."""
    tables = None
    num_heads = len(query_table if attn_bias is None else attn_bias[0])
    if query_table is not None:
        tables = RelationTables(query_table, key_table, value_table)
    q, k, v = heads_first(qkv, num_heads)
    weights = relation_weights(
        q,
        k,
        tables,
        relation_index,
        attn_bias,
        key_from_row=options["key_from_row"],
    )
    rate = options["dropout"]
    if rate:
        keep = kept_pairs(options["seed"], weights.shape, rate)
        weights = weights * (keep / (1 - rate))
    return relation_messages(weights, v, value_table, relation_index)


class _CompiledAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, options, *tensors):
        """[B, T, D]; see `compiled_attention`."""
        ctx.options = options
        ctx.save_for_backward(*tensors)
        threads = torch.get_num_threads()
        arrays = _arrays(tensors)
        out = relative_attention(*arrays, **options, num_threads=threads)
        return torch.from_numpy(out)

    @staticmethod
    @differentiable_by(_attention_formula)
    def backward(ctx, grad):
        """Gradients of qkv, the tables and the bias."""
        qkv, tables, bias = relative_attention_gradient(
            _array(grad),
            *_arrays(ctx.saved_tensors),
            **ctx.options,
            num_threads=torch.get_num_threads(),
        )
        tables = (None,) * 3 if tables is None else torch.from_numpy(tables)
        bias = None if bias is None else torch.from_numpy(bias)
        return None, torch.from_numpy(qkv), *tables, None, bias


def _arrays(tensors):
    """The arguments of the compiled functions."""
    qkv, *relations, bias = map(_array, tensors)
    return qkv, None if relations[0] is None else Relations(*relations), bias


def compiled_channels(
    formula: Callable[..., Tensor], *tensors: Tensor | None
) -> Tensor:
    """`cython_ext.channel_attention` of base, v, features, att, val and keep, float32 on the
    CPU -> [B, N, D]; features and keep get no gradients.

    Args:
        formula: the same in operations of torch, of the same tensors.
    """
    return _CompiledChannels.apply(formula, *tensors)


class _CompiledChannels(torch.autograd.Function):
    @staticmethod
    def forward(ctx, options, *tensors):
        """[B, N, D]; see `compiled_channels`."""
        ctx.options = options
        ctx.save_for_backward(*tensors)
        threads = torch.get_num_threads()
        out = channel_attention(*map(_array, tensors), num_threads=threads)
        return torch.from_numpy(out)

    @staticmethod
    @differentiable_by(lambda formula, *tensors: formula(*tensors))
    def backward(ctx, grad):
        """Gradients of base, v, att and val."""
        gradients = channel_attention_gradient(
            *map(_array, (grad, *ctx.saved_tensors)),
            num_threads=torch.get_num_threads(),
        )
        base, v, att, val = (
            None if array is None else torch.from_numpy(array) for array in gradients
        )
        return None, base, v, None, att, val, None


def compiled_pairs(
    formula: Callable[..., tuple[Tensor, ...]], *tensors: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """`cython_ext.pair_attention` of pairs, sizes, q, k, v, maps, score and keep, float32 on
    the CPU; keep gets no gradient.

    Args:
        formula: the same in operations of torch, of an option and the same tensors.
    """
    return _CompiledPairs.apply(formula, *tensors)


class _CompiledPairs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, options, *tensors):
        """t [P, D] and two sums [S, D]; see `compiled_pairs`."""
        ctx.options = options
        threads = torch.get_num_threads()
        out = pair_attention(*map(_array, tensors[1:]), num_threads=threads)
        out = tuple(map(torch.from_numpy, out))
        ctx.save_for_backward(*tensors, out[0])
        return out

    @staticmethod
    @differentiable_by(lambda formula, *tensors: formula(None, *tensors))
    def backward(ctx, *grads):
        """Gradients of q, k, v, maps and score."""
        _, *arrays, t = map(_array, ctx.saved_tensors)
        threads = torch.get_num_threads()
        grads = tuple(map(_array, grads))
        found = pair_attention_gradient(grads, t, *arrays, num_threads=threads)
        return None, None, None, *map(torch.from_numpy, found), None


def compiled_edges(
    formula: Callable[..., tuple[Tensor, Tensor | None]],
    options: dict[str, Any],
    *tensors: Tensor | None,
) -> tuple[Tensor, Tensor | None]:
    """`cython_ext.edge_attention` of qkv, factor, index, kind and keep, float32 on the CPU;
    keep gets no gradient.

    Args:
        formula: the same in operations of torch, of options and the same tensors.
        options: heads, epsilon and channels.
    """
    return _CompiledEdges.apply((formula, options), *tensors)


def _edge_formula(options, *tensors):
    formula, settings = options
    return tuple(out for out in formula(settings, *tensors) if out is not None)


class _CompiledEdges(torch.autograd.Function):
    @staticmethod
    def forward(ctx, options, *tensors):
        """[S, D], and [E, D] or None; see `compiled_edges`."""
        ctx.options = options
        ctx.save_for_backward(*tensors)
        threads = torch.get_num_threads()
        out = edge_attention(*map(_array, tensors), **options[1], num_threads=threads)
        return tuple(
            None if array is None else torch.from_numpy(array) for array in out
        )

    @staticmethod
    @differentiable_by(_edge_formula)
    def backward(ctx, *grads):
        """Gradients of qkv and factor."""
        options = {**ctx.options[1], "num_threads": torch.get_num_threads()}
        del options["channels"]
        arrays = map(_array, ctx.saved_tensors)
        qkv, factor = edge_attention_gradient(
            tuple(map(_array, grads)), *arrays, **options
        )
        factor = None if factor is None else torch.from_numpy(factor)
        return None, torch.from_numpy(qkv), factor, None, None, None


def _array(tensor):
    return None if tensor is None else tensor.detach().contiguous().numpy()
