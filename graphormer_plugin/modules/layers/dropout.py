"""Dropout whose mask is computed from a seed, several times faster than torch's on a CPU."""

import torch
from torch import Tensor, nn

from cython_ext.attention import HAS_ATTENTION, dropped_out


def drawn_seed() -> int:
    """A seed from torch's generator, which `torch.manual_seed` seeds."""
    return int(torch.empty((), dtype=torch.int64).random_())


class _Dropout(torch.autograd.Function):
    """Draws the mask again for the gradient, which keeps no tensor."""

    @staticmethod
    def forward(ctx, x: Tensor, p: float, seed: int) -> Tensor:
        """float32 x of any shape -> x, with entries dropped and the others scaled."""
        ctx.options = p, seed
        return torch.from_numpy(dropped_out(x.detach().contiguous().numpy(), p, seed))

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None, None]:
        """Gradient of x."""
        return _Dropout.apply(grad, *ctx.options), None, None


class Dropout(nn.Module):
    """Same contract as `torch.nn.Dropout`, several times faster on a CPU up to float32."""

    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"dropout probability {p}, expected 0 <= p < 1")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """x of any shape -> x, in training with entries dropped."""
        if not self.training or self.p == 0:
            return x
        fits = HAS_ATTENTION and x.device.type == "cpu" and x.dtype != torch.float64
        if not fits or torch.compiler.is_compiling():
            return nn.functional.dropout(x, self.p)
        return _Dropout.apply(x.float(), self.p, drawn_seed()).to(x.dtype)

    def extra_repr(self) -> str:
        """See `nn.Module`."""
        return f"p={self.p}"
