"""Dropout with sixteen random bits per element, several times faster than torch's on a CPU."""

import torch
from torch import Tensor, nn

_LEVELS = 1 << 16


def keep_mask(shape: torch.Size, p: float, like: Tensor) -> Tensor:
    """Draw a mask: 0 with probability p (0 <= p < 1), else 1 (kept).

    On the CPU torch draws a Bernoulli variable for each element, about twenty times the
    cost of the multiplication that uses it. Here a 64-bit draw of torch's generator,
    which `torch.manual_seed` seeds, serves four elements; p is rounded to a multiple of
    2^-16.
    """
    if like.device.type != "cpu":
        return torch.empty(shape, dtype=like.dtype, device=like.device).bernoulli_(
            1 - p
        )
    numel = shape.numel()
    bits = torch.empty((numel + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    bits = bits.view(torch.int16)[:numel].view(shape)
    first_kept = round(p * _LEVELS) - _LEVELS // 2
    # int16 -> float, then clamp(bits - first_kept + 1, 0, 1): three vectorised passes,
    # where a comparison would go through bool and a scalar conversion.
    mask = bits.to(torch.float32).add_(1 - first_kept).clamp_(0, 1)
    return mask.to(like.dtype)


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, p: float) -> Tensor:
        """x of any shape -> x, with entries dropped and the others scaled."""
        mask = keep_mask(x.shape, p, x).mul_(1 / (1 - p))
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:
        """Gradient of x."""
        (mask,) = ctx.saved_tensors
        return grad * mask, None


class Dropout(nn.Module):
    """Same contract as `torch.nn.Dropout`, several times faster on a CPU."""

    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"dropout probability {p}, expected 0 <= p < 1")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """x of any shape -> x, in training with entries dropped."""
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu":
            return nn.functional.dropout(x, self.p)
        return _Dropout.apply(x, self.p)

    def extra_repr(self) -> str:
        """See `nn.Module`."""
        return f"p={self.p}"
