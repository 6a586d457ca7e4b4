"""Attention on a CPU as compiled functions with gradients (`cython_ext`).

They compute the attention of GRPE, Graphormer and CGT in float32 on a CPU, so a change of
its formula in Python has no effect there. ``GRAPHORMER_COMPILED=0`` in the environment
switches to the plain operations of torch, which are the formula (`plain_only`).
"""

import os

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from cython_ext.attention import (
    HAS_ATTENTION,
    Relations,
    relative_attention,
    relative_attention_gradient,
)
from cython_ext.channels import channel_attention, channel_attention_gradient


def plain_only() -> bool:
    """Whether attention is computed by plain operations of torch: if ``GRAPHORMER_COMPILED``
    is 0, and in an exported program."""
    compiling = torch.compiler.is_compiling()
    return compiling or os.environ.get("GRAPHORMER_COMPILED") == "0"


def compiled_fits(x: Tensor, dtypes: tuple = (torch.float32,)) -> bool:
    """Whether compiled functions of these types take a tensor."""
    return (
        HAS_ATTENTION
        and x.device.type == "cpu"
        and x.dtype in dtypes
        and not plain_only()
    )


def compiled_attention_fits(qkv: Tensor, num_heads: int, widest: int) -> bool:
    """Whether `compiled_attention` takes queries, keys and values [B, T, 3 D], and its heads
    are narrow enough for it to be faster than operations of torch."""
    dtypes = (torch.float32, torch.bfloat16)
    return compiled_fits(qkv, dtypes) and qkv.shape[-1] <= 3 * num_heads * widest


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

    The seed of the dropout comes from torch's generator, which `torch.manual_seed` seeds.
    The backward pass draws the same mask from it.

    Args:
        qkv: [B, T, 3 D].
        tables: tables of queries, keys and values, [H, R + 1, D / H] each.
        relation_index: [B, T, T] int64 in 0..R, with `tables`.
        attn_bias: [B, H, T, T].
        dropout: rate on the weights, 0 <= p < 1.

    Returns:
        [B, T, D], in the type of `qkv`.
    """
    dtype, qkv = qkv.dtype, qkv.float()
    tables = tuple(table.float() for table in tables) if tables else (None, None, None)
    attn_bias = None if attn_bias is None else attn_bias.float()
    seed = int(torch.empty((), dtype=torch.int64).random_()) if dropout else 0
    options = {"dropout": dropout, "seed": seed, "key_from_row": key_from_row}
    arguments = (options, qkv, *tables, relation_index, attn_bias)
    return _CompiledAttention.apply(*arguments).to(dtype)


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
    @once_differentiable
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


class CompiledChannels(torch.autograd.Function):
    """`cython_ext.channel_attention` of tensors, float32 on the CPU."""

    @staticmethod
    def forward(ctx, *tensors):
        """base, v, features, att, val, keep -> [B, N, D]."""
        ctx.save_for_backward(*tensors)
        threads = torch.get_num_threads()
        out = channel_attention(*map(_array, tensors), num_threads=threads)
        return torch.from_numpy(out)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        """Gradients of base, v, att and val; features and keep get none."""
        gradients = channel_attention_gradient(
            *map(_array, (grad, *ctx.saved_tensors)),
            num_threads=torch.get_num_threads(),
        )
        base, v, att, val = (
            None if array is None else torch.from_numpy(array) for array in gradients
        )
        return base, v, None, att, val, None


def _array(tensor):
    return None if tensor is None else tensor.detach().contiguous().numpy()
