"""Sums of rows of a small table, with a fast backward pass."""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

# Rows up to which a GPU counts look-ups; additions to more rows wait for each other less,
# and the counts grow with them (our choice; not measured).
FEW_ROWS = 512


class _EmbeddingSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, table: Tensor, rows: Tensor) -> Tensor:
        """table [R, D], rows [M, L] -> [M, D]."""
        ctx.save_for_backward(rows)
        ctx.num_rows = len(table)
        return F.embedding_bag(rows, table, mode="sum")

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:
        """Gradient of table."""
        (rows,) = ctx.saved_tensors
        # float32 at least: a sum of many halves loses small terms.
        wide = grad.to(torch.promote_types(grad.dtype, torch.float32)).contiguous()
        few = grad.device.type != "cpu" and ctx.num_rows <= FEW_ROWS
        total = _counts_times if few else _added_up
        return total(rows, wide, ctx.num_rows).to(grad.dtype), None


def _added_up(rows: Tensor, grad: Tensor, num_rows: int) -> Tensor:
    """rows [M, L], grad [M, D] -> sum of grad over the look-ups of each row, [R, D]."""
    total = grad.new_zeros(num_rows, grad.shape[1])
    for column in rows.unbind(1):  # int32 would take torch's slow path
        total.index_add_(0, column.long(), grad)
    return total


def _counts_times(
    rows: Tensor, grad: Tensor, num_rows: int, most: int = 2**24
) -> Tensor:
    """`_added_up` for a GPU, as products with the matrix [M, R] of how often each sum has
    each row, `most` numbers at a time: nothing is sorted, as in torch's backward pass, no
    additions wait for each other on a few rows, and every run gives the same numbers.
    """
    total = grad.new_zeros(num_rows, grad.shape[1])
    size = max(1, most // num_rows)
    for some, of_grad in zip(rows.split(size), grad.split(size)):
        counts = grad.new_zeros(len(some), num_rows)
        ones = counts.new_ones(1, 1).expand(some.shape)
        counts.scatter_add_(1, some.long(), ones)
        total.addmm_(counts.T, of_grad)
    return total


def embedding_sum(table: Tensor, rows: Tensor) -> Tensor:
    """Sum of `table[rows[..., i]]` over i, without the looked-up rows in memory.

    An embedding bag. In the backward pass torch sorts all look-ups; for a small table
    adding them up on a CPU is several times faster, and a GPU multiplies matrices.

    Args:
        table: [R, D].
        rows: integers [..., L] in 0..R - 1.

    Returns:
        [..., D].
    """
    if torch.compiler.is_compiling():  # also an export, e.g. to ONNX
        return F.embedding(rows, table).sum(-2)
    out = _EmbeddingSum.apply(table, rows.flatten(0, -2))
    return out.view(*rows.shape[:-1], table.shape[1])
