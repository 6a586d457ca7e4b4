"""Attention on a CPU as compiled functions with gradients (`cython_ext`).

They compute the attention of all systems but TokenGT in float32 on a CPU, so a change of its
formula in Python has no effect there. `plain_attention` switches to the plain operations
of torch, which are the formula, and so does ``GRAPHORMER_COMPILED=0`` in the environment.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple

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
    heads_first,
    relation_attention,
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

    def function(*arrays, **threads):
        return (relative_attention(*_related(arrays), **options, **threads),)

    def gradient(grads, *arrays, **threads):
        arrays = _related(arrays)
        qkv, tables, bias = relative_attention_gradient(
            *grads, *arrays, **options, **threads
        )
        return qkv, *((None,) * 3 if tables is None else tables), None, bias

    kernel = Kernel(function, gradient, partial(_attention_formula, options))
    return _Compiled.apply(kernel, qkv, *tables, relation_index, attn_bias)[0].to(dtype)


def _related(arrays):
    """The arguments of the compiled functions."""
    qkv, *relations, bias = arrays
    return qkv, None if relations[0] is None else Relations(*relations), bias


def _attention_formula(
    options: dict[str, Any],
    qkv: Tensor,
    query_table: Tensor | None,
    *others: Tensor | None,
) -> Tensor:
    """`compiled_attention` in plain operations."""
    attn_bias = others[-1]
    num_heads = len(query_table if attn_bias is None else attn_bias[0])
    rate = options["dropout"]
    keep = None
    if rate:
        B, T, _ = qkv.shape
        kept = kept_pairs(options["seed"], (B, num_heads, T, T), rate)
        keep = kept / (1 - rate)
    heads = heads_first(qkv, num_heads)
    key_from_row = options["key_from_row"]
    return relation_attention(
        heads, query_table, *others, keep=keep, key_from_row=key_from_row
    )


def compiled_channels(
    formula: Callable[..., Tensor], *tensors: Tensor | None
) -> Tensor:
    """`cython_ext.channel_attention` of base, v, features, att, val and keep, float32 on the
    CPU -> [B, N, D]; features and keep get no gradients.

    Args:
        formula: the same in operations of torch, of the same tensors.
    """

    def gradient(grads, *arrays, **threads):
        *arrays, _, state = arrays
        base, v, *maps = channel_attention_gradient(
            grads[0], *arrays, state=state, **threads
        )
        return base, v, None, *maps, None

    kernel = Kernel(channel_attention, gradient, formula, kept=2)
    return _Compiled.apply(kernel, *tensors)[0]


def compiled_pairs(
    formula: Callable[..., tuple[Tensor, ...]], *tensors: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """`cython_ext.pair_attention` of pairs, sizes, q, k, v, maps, score and keep, float32 on
    the CPU -> t [P, D] and two sums [S, D]; keep gets no gradient.

    Args:
        formula: the same in operations of torch, of the same tensors.
    """

    def function(_, *arrays, **threads):
        return pair_attention(*arrays, **threads)

    def gradient(grads, _, *arrays, **threads):
        *arrays, t = arrays
        return None, None, *pair_attention_gradient(grads, t, *arrays, **threads), None

    return _Compiled.apply(Kernel(function, gradient, formula, kept=1), *tensors)


def compiled_edges(
    formula: Callable[..., tuple[Tensor, Tensor | None]],
    *tensors: Tensor | None,
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    """`cython_ext.edge_attention` of qkv, factor, index, kind and keep, float32 on the CPU;
    keep gets no gradient.

    Args:
        formula: the same in operations of torch, of the same tensors and options.
    """

    def gradient(grads, *arrays, **threads):
        gradients = edge_attention_gradient(grads, *arrays, **options, **threads)
        return *gradients, None, None, None

    function = partial(edge_attention, **options)
    kernel = Kernel(function, gradient, partial(formula, **options))
    return _Compiled.apply(kernel, *tensors)


class Kernel(NamedTuple):
    """A compiled function of arrays, or None, and of a number of threads.

    Attributes:
        function: arrays -> results.
        gradient: gradients of the results, arrays, and the first results -> gradients of the
            arrays, or None.
        formula: the function in operations of torch, perhaps without the last results.
        kept: number of results that `gradient` takes.
    """

    function: Callable[..., tuple]
    gradient: Callable[..., tuple]
    formula: Callable[..., Tensor | tuple]
    kept: int = 0


class _Compiled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, kernel, *tensors):
        """The results of a `Kernel`."""
        ctx.options = kernel
        threads = torch.get_num_threads()
        arrays = kernel.function(*map(_array, tensors), num_threads=threads)
        results = tuple(map(_tensor, arrays))
        ctx.save_for_backward(*tensors, *results[: kernel.kept])
        return results

    @staticmethod
    @differentiable_by(lambda kernel, *tensors: kernel.formula(*tensors))
    def backward(ctx, *grads):
        """Gradients of the tensors."""
        gradients = ctx.options.gradient(
            tuple(map(_array, grads)),
            *map(_array, ctx.saved_tensors),
            num_threads=torch.get_num_threads(),
        )
        return None, *map(_tensor, gradients)


def _array(tensor):
    return None if tensor is None else tensor.detach().contiguous().numpy()


def _tensor(array):
    return None if array is None else torch.from_numpy(array)
