"""fairseq's loops over the weights in one call of torch: on a GPU, every weight would be a
launch of its own."""

import torch
from fairseq.optim import FP16Optimizer
from torch import Tensor


def total_norm(grads: list[Tensor], chunk_size: int = 0) -> Tensor:
    """The L2 norm of all gradients, in float32; fairseq has this function with NVIDIA's Apex
    alone."""
    norms = torch._foreach_norm(grads, 2, dtype=torch.float32)
    return torch.linalg.vector_norm(torch.stack(norms))


def _copies(self: FP16Optimizer) -> list[torch.nn.Parameter]:
    """The weights in float32: one of each, or with `--fp16` a vector of all."""
    copies = self.fp32_params
    return list(copies.values() if isinstance(copies, dict) else copies)


def _parts(wides: list[Tensor], halves: list[Tensor]) -> list[Tensor]:
    """Tensors in float32 in the shapes of the halves; a vector of all is split."""
    if len(wides) < len(halves):
        wides = wides[0].split([half.numel() for half in halves])
    return [wide.view_as(half) for wide, half in zip(wides, halves)]


def zero_grad(self: FP16Optimizer) -> None:
    """Empty the gradients of the weights and of their copies in float32."""
    for half in self.fp16_params:
        half.grad = None
    torch._foreach_zero_([copy.grad for copy in _copies(self)])
    self._needs_sync = False


def copy_gradients(self: FP16Optimizer) -> None:
    """Copy the gradients of halves, once an update."""
    if not self._needs_sync:
        return
    halves = []
    wides = []
    gradients = _parts([copy.grad for copy in _copies(self)], self.fp16_params)
    for half, wide in zip(self.fp16_params, gradients):
        if half.grad is not None:  # `zero_grad` has emptied the others
            halves.append(half.grad)
            wides.append(wide)
    torch._foreach_copy_(wides, halves)
    self._needs_sync = False


def copy_weights(self: FP16Optimizer) -> None:
    """Copy the weights in float32 to the halves."""
    halves = list(self.fp16_params)
    with torch.no_grad():
        torch._foreach_copy_(halves, _parts(_copies(self), halves))
