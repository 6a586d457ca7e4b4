"""Sums of rows of a small table, with a fast backward pass."""

import torch
from torch import Tensor
from torch.nn import functional as F

from graphormer_plugin.modules.layers.derivatives import differentiable_by

# The largest table whose look-ups a GPU counts. Additions to more rows collide less often,
# and the counts grow with the rows (our choice; not measured).
FEW_ROWS = 512


def _formula(_: None, table: Tensor, rows: Tensor) -> Tensor:
    """table [R, D], rows [M, L] -> [M, D]."""
    return F.embedding(rows, table).sum(-2)


class _EmbeddingSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, options: None, table: Tensor, rows: Tensor) -> Tensor:
        """table [R, D], rows [M, L] -> [M, D]."""
        ctx.options = options
        ctx.save_for_backward(table, rows)
        return F.embedding_bag(rows, table, mode="sum")

    @staticmethod
    @differentiable_by(_formula)
    def backward(ctx, grad: Tensor) -> tuple[None, Tensor, None]:
        """Gradient of table."""
        table, rows = ctx.saved_tensors
        # float32 at least: a sum of many halves loses small terms.
        wide = grad.to(torch.promote_types(grad.dtype, torch.float32)).contiguous()
        few = grad.device.type != "cpu" and len(table) <= FEW_ROWS
        total = _counted_row_sums if few else _row_sums
        return None, total(rows, wide, len(table)).to(grad.dtype), None


def _row_sums(rows: Tensor, grad: Tensor, num_rows: int) -> Tensor:
    """rows [M, L], grad [M, D] -> sum of grad over the look-ups of each row, [R, D]."""
    total = grad.new_zeros(num_rows, grad.shape[1])
    for column in rows.unbind(1):  # int32 would take torch's slow path
        total.index_add_(0, column.long(), grad)
    return total


def _counted_row_sums(
    rows: Tensor, grad: Tensor, num_rows: int, most: int = 2**24
) -> Tensor:
    """`_row_sums` for a GPU: products with the counts [M, R] of each row in each sum, `most`
    numbers at a time. Unlike torch's backward pass it sorts nothing, no additions wait for
    each other, and every run gives the same numbers."""
    total = grad.new_zeros(num_rows, grad.shape[1])
    size = max(1, most // num_rows)
    for some, part in zip(rows.split(size), grad.split(size)):
        counts = grad.new_zeros(len(some), num_rows)
        ones = counts.new_ones(1, 1).expand(some.shape)
        counts.scatter_add_(1, some.long(), ones)
        total.addmm_(counts.T, part)
    return total


def embedding_sum(table: Tensor, rows: Tensor) -> Tensor:
    """Sum of `table[rows[..., i]]` over i, without the looked-up rows in memory:
    table [R, D], integers rows [..., L] in 0..R - 1 -> [..., D].

    An embedding bag. torch sorts all look-ups in the backward pass; for a small table it is
    several times faster to add them up on a CPU, and to multiply matrices on a GPU.
    """
    if torch.compiler.is_compiling():  # an export too, e.g. to ONNX
        return _formula(None, table, rows)
    out = _EmbeddingSum.apply(None, table, rows.flatten(0, -2))
    return out.view(*rows.shape[:-1], table.shape[1])
