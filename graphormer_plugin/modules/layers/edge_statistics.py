"""Sums and extremes over the edges that arrive at a node."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graphormer_plugin.modules.layers.derivatives import differentiable_by
from graphormer_plugin.modules.layers.sparse import scatter_sum, wide_type

STATISTICS = ("sum", "square", "max", "min")
CHUNK = 2048  # edges at once on a CPU, so that their vectors stay in its cache


def _formula(
    names: tuple[str, ...],
    nodes: Tensor,
    table: Tensor | None,
    source: Tensor,
    target: Tensor,
    bond: Tensor | None,
) -> tuple[Tensor, ...]:
    """`message_statistics` with a vector per edge in memory."""
    terms = nodes.index_select(0, source)
    if table is not None:
        terms = terms + table.index_select(0, bond)
    terms = terms.to(wide_type(terms))
    size = len(nodes)
    statistics = {
        "sum": lambda: scatter_sum(terms, target, size),
        "square": lambda: scatter_sum(terms.square(), target, size),
        "max": lambda: scatter_max(terms, target, size),
        "min": lambda: -scatter_max(-terms, target, size),
    }
    return tuple(statistics[name]() for name in names)


class _MessageStatistics(torch.autograd.Function):
    """Holds no vector per edge: the backward pass recomputes them."""

    @staticmethod
    def forward(ctx: Any, names, nodes, table, source, target, bond):
        """[S, D] for each name; see `message_statistics`."""
        wide = wide_type(nodes)
        starts = {"max": -torch.inf, "min": torch.inf}
        statistics = {
            name: nodes.new_full(nodes.shape, starts.get(name, 0), dtype=wide)
            for name in names
        }
        for part in _chunks(source):
            to = target[part]
            terms = _terms(nodes, table, source[part], bond, part).to(wide)
            for name, out in statistics.items():
                if name in starts:
                    rows = to.unsqueeze(1).expand_as(terms)
                    out.scatter_reduce_(0, rows, terms, f"a{name}")
                else:
                    out.index_add_(0, to, terms if name == "sum" else terms.square())
        for name in starts.keys() & statistics.keys():
            statistics[name].masked_fill_(statistics[name].isinf(), 0)
        ctx.options = names
        values = tuple(statistics.values())
        ctx.save_for_backward(nodes, table, source, target, bond, *values)
        return values

    @staticmethod
    @differentiable_by(_formula)
    def backward(ctx: Any, *grads):
        """Gradients of nodes and table."""
        names = ctx.options
        nodes, table, source, target, bond, *values = ctx.saved_tensors
        statistics = dict(zip(names, values))
        grad = dict(zip(names, grads))
        extremes = [name for name in names if name in ("max", "min")]
        wide = values[0].dtype
        ties = {name: torch.zeros_like(statistics[name]) for name in extremes}
        for part in _chunks(source) if extremes else ():
            to = target[part]
            terms = _terms(nodes, table, source[part], bond, part).to(wide)
            for name in extremes:
                hit = terms == statistics[name].index_select(0, to)
                ties[name].index_add_(0, to, hit.to(wide))
        for name in extremes:  # equal values share the gradient
            grad[name] = grad[name] / ties[name].clamp(min=1)
        grad_nodes = torch.zeros_like(nodes, dtype=wide)
        grad_table = None if table is None else torch.zeros_like(table, dtype=wide)
        for part in _chunks(source):
            start = source[part]
            to = target[part]
            terms = _terms(nodes, table, start, bond, part).to(wide)
            out = torch.zeros_like(terms)
            if "sum" in grad:
                out += grad["sum"].index_select(0, to)
            if "square" in grad:
                out.addcmul_(terms, grad["square"].index_select(0, to), value=2)
            for name in extremes:
                hit = terms == statistics[name].index_select(0, to)
                out.addcmul_(hit, grad[name].index_select(0, to))
            grad_nodes.index_add_(0, start, out)
            if table is not None:
                grad_table.index_add_(0, bond[part], out)
        if table is not None:
            grad_table = grad_table.to(table.dtype)
        return None, grad_nodes.to(nodes.dtype), grad_table, None, None, None


def _chunks(index: Tensor) -> list[slice]:
    if index.device.type != "cpu" or torch.compiler.is_compiling():
        return [slice(None)]
    return [slice(i, i + CHUNK) for i in range(0, len(index), CHUNK)]


def _terms(
    nodes: Tensor, table: Tensor | None, source: Tensor, bond: Tensor, part: slice
) -> Tensor:
    terms = nodes.index_select(0, source)
    return terms if table is None else terms.add_(table.index_select(0, bond[part]))


def message_statistics(
    nodes: Tensor,
    table: Tensor | None,
    source: Tensor,
    target: Tensor,
    bond: Tensor | None,
    names: Sequence[str],
) -> list[Tensor]:
    """Statistics over the edges j -> i that arrive at each node of nodes_j + table_bond,
    without a vector per edge in memory.

    Args:
        nodes: [S, ...].
        table: vectors of bond types [K + 1, ...], or None.
        source, target: [E].
        bond: [E], with a table.

    Returns:
        [S, ...] for each name, in float32 at least; zero where no edge arrives.
    """
    flat = None if table is None else table.flatten(1).to(nodes.dtype)
    statistics = _MessageStatistics.apply(
        tuple(names), nodes.flatten(1), flat, source, target, bond
    )
    return [values.view_as(nodes) for values in statistics]


class _Max(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, index: Tensor, size: int):
        """[size, ...]; see `scatter_max`."""
        rows = index.view(-1, *[1] * (values.dim() - 1)).expand_as(values)
        out = values.new_zeros(size, *values.shape[1:]).scatter_reduce(
            0, rows, values, "amax", include_self=False
        )
        ctx.save_for_backward(values, index, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor):
        """Gradient of values; equal values share it. It is differentiable itself."""
        values, index, out = ctx.saved_tensors
        first = (values == out.index_select(0, index)).to(grad.dtype)
        ties = scatter_sum(first, index, out.shape[0]).clamp(min=1)
        share = (grad / ties).to(grad.dtype).index_select(0, index)
        return first * share, None, None


def scatter_max(values: Tensor, index: Tensor, size: int) -> Tensor:
    """Largest of the rows of `values` [M, ...] that share an index -> [size, ...], zero if no
    row has the index.

    `Tensor.scatter_reduce` with a backward pass of a few plain operations, several times
    as fast on a CPU; equal values share the gradient.
    """
    return _Max.apply(values, index, size)
