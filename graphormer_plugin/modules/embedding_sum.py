"""Sums of rows of a small table, with a fast backward pass on a CPU."""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F


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
        wide = torch.promote_types(grad.dtype, torch.float32)
        grad_table = grad.new_zeros(ctx.num_rows, grad.shape[1], dtype=wide)
        source = grad.to(wide).contiguous()
        for column in rows.unbind(1):  # int32 would take torch's slow path
            grad_table.index_add_(0, column.long(), source)
        return grad_table.to(grad.dtype), None


def embedding_sum(table: Tensor, rows: Tensor) -> Tensor:
    """Sum of `table[rows[..., i]]` over i, without the looked-up rows in memory.

    An embedding bag. On a CPU torch sorts all look-ups in the backward pass; for a
    small table adding them up is several times faster.

    Args:
        table: [R, D].
        rows: integers [..., L] in 0..R - 1.

    Returns:
        [..., D].
    """
    if torch.compiler.is_compiling():  # also an export, e.g. to ONNX
        return F.embedding(rows, table).sum(-2)
    flat = rows.flatten(0, -2)
    if table.device.type == "cpu":
        out = _EmbeddingSum.apply(table, flat)
    else:
        out = F.embedding_bag(flat, table, mode="sum")
    return out.view(*rows.shape[:-1], table.shape[1])
