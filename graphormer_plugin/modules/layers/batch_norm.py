"""Normalisations, and BatchNorm that sees real nodes only, of all processes."""

import contextlib
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphormer_plugin.modules.layers.derivatives import differentiable_by
from graphormer_plugin.processes import gathered, is_filler_batch, several_processes

# torch's defaults.
EPSILON = 1e-5
MOMENTUM = 0.1
_keeps_statistics = False


@contextlib.contextmanager
def running_statistics_kept() -> Iterator[None]:
    """Keep the running statistics during training passes, e.g. the second pass over a
    batch in activation checkpointing."""
    global _keeps_statistics
    before = _keeps_statistics
    _keeps_statistics = True
    try:
        yield
    finally:
        _keeps_statistics = before


def _formula(eps: float, rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`_NormaliseTogether` of one process."""
    if several_processes():
        raise NotImplementedError(
            "BatchNorm over several processes has no second derivative; train on forces "
            "in one process or without BatchNorm"
        )
    count = max(1, len(rows))
    centred = rows - rows.sum(0) / count
    variance = centred.square().sum(0) / count
    return centred * (weight * torch.rsqrt(variance + eps)) + bias


class _NormaliseTogether(torch.autograd.Function):
    """Normalises the rows of all processes by their common mean and deviation.

    `torch.nn.SyncBatchNorm` does the same, but only on GPUs.
    """

    @staticmethod
    def forward(ctx, eps, rows, weight, bias):
        """rows [R, D] -> normalised rows, common mean and variance [D], number of rows."""
        dim = rows.shape[1]
        mean = rows.sum(0) / max(1, len(rows))
        squares = (rows - mean).square().sum(0)
        parts = gathered(torch.cat([mean, squares, mean.new_full((1,), len(rows))]))
        means, squares, counts = parts.split([dim, dim, 1], 1)
        count = counts.sum()
        total = count.clamp(min=1)
        mean = (counts * means).sum(0) / total
        squares = squares + counts * (means - mean).square()
        # 1 without any row, so that numbers that nothing reads stay finite
        variance = torch.where(count > 0, squares.sum(0) / total, 1)
        inverse = torch.rsqrt(variance + eps)
        ctx.counts = not is_filler_batch()
        ctx.options = eps
        ctx.save_for_backward(rows, weight, bias, mean, inverse, total)
        ctx.mark_non_differentiable(mean, variance, count)
        return (rows - mean) * (weight * inverse) + bias, mean, variance, count

    @staticmethod
    @differentiable_by(_formula)
    def backward(ctx, grad, *_):
        """Gradients of rows, weight and bias."""
        rows, weight, _, mean, inverse, total = ctx.saved_tensors
        rows = (rows - mean) * inverse
        sums = torch.cat([(grad * rows).sum(0), grad.sum(0)])
        grad_weight, grad_bias = sums.chunk(2)
        everywhere = gathered(sums if ctx.counts else torch.zeros_like(sums)).sum(0)
        if ctx.counts:  # these rows are in mean and deviation
            along, constant = (everywhere / total).chunk(2)
            grad = grad - rows * along - constant
        return None, grad * (weight * inverse), grad_weight, grad_bias


class MaskedBatchNorm(nn.Module):
    """BatchNorm over the real rows of a batch: equal to `torch.nn.BatchNorm1d` on these
    rows, zero elsewhere.

    The rows of all processes share the mean and deviation of a training batch, also in the
    backward pass. Results and running statistics then do not depend on the number of
    processes. Every process must call the module equally often.

    Statistics are summed and kept in float32 or wider, also of rows in half precision, and
    weights stay in float32. If they are frozen (`requires_grad` False), training uses the
    running statistics and does not update them.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.register_buffer("running_mean", torch.zeros(dim))
        self.register_buffer("running_var", torch.ones(dim))

    def forward(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        """
        Args:
            x: [..., D].
            rows: [R] int64, numbers of the real rows (`NodeLayout.flat_index`); None: all.

        Returns:
            [..., D] in the type of x. A single row of a training batch equals its mean and
            becomes `bias`. A batch without rows does not update the running statistics.
        """
        flat = x.flatten(0, -2)
        values = flat if rows is None else flat.index_select(0, rows)
        out = self._normalise(values)
        if rows is not None:
            out = torch.zeros_like(flat).index_copy(0, rows, out)
        return out.view_as(x)

    def _normalise(self, values: Tensor) -> Tensor:
        """[R, D] -> [R, D]."""
        weights = (self.weight, self.bias)
        training = self.training and self.weight.requires_grad
        if training and (len(values) < 2 or several_processes()):
            wide = values.to(torch.promote_types(values.dtype, torch.float32))
            out, *statistics = _NormaliseTogether.apply(EPSILON, wide, *weights)
            if not _keeps_statistics:
                self._update(*statistics)
            return out.to(values.dtype)
        running = (self.running_mean, self.running_var)
        if training and _keeps_statistics:  # torch would update them
            running = tuple(statistic.clone() for statistic in running)
        return F.batch_norm(values, *running, *weights, training, MOMENTUM, EPSILON)

    @torch.no_grad()
    def _update(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        share = MOMENTUM * (count > 0).to(variance.dtype)
        unbiased = variance * count / (count - 1).clamp(min=1)
        for running, value in ((self.running_mean, mean), (self.running_var, unbiased)):
            running.lerp_(value.to(running.dtype), share.to(running.dtype))

    def _apply(self, fn, recurse=True):
        """Move the module. Conversion to halves leaves it in float32."""
        before = [tensor.data for tensor in (*self.parameters(), *self.buffers())]
        super()._apply(fn, recurse)
        for tensor, wide in zip((*self.parameters(), *self.buffers()), before):
            if torch.finfo(tensor.dtype).bits < 32:
                tensor.data = wide.to(tensor.device, torch.float32)
        return self

    def extra_repr(self) -> str:
        """See `nn.Module`."""
        return f"{len(self.weight)}"


def has_batch_norm(model: nn.Module) -> bool:
    """Whether a model normalises by the statistics of a batch."""
    kinds = (MaskedBatchNorm, nn.modules.batchnorm._BatchNorm)
    return any(isinstance(module, kinds) for module in model.modules())


# Width -> normalisation; `MaskedBatchNorm` reads which rows are real nodes.
NORMS: dict[str, Callable[[int], nn.Module]] = {
    "batch": MaskedBatchNorm,
    "layer": nn.LayerNorm,
    "none": lambda embed_dim: nn.Identity(),
}
