"""Second derivatives of functions whose fast backward pass has none, and forces."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from graphormer_plugin.modules.layers.sparse import Batch


def differentiable_by(formula: Callable[..., Any]) -> Callable[[Callable], Callable]:
    """Decorator of the `backward` of a `torch.autograd.Function`, in place of torch's
    `once_differentiable`.

    The fast `backward` gives the first derivative. If a graph of the gradients is asked
    for (`create_graph=True`, as for a loss on forces), the formula is computed and
    differentiated by autograd instead, so that derivatives of any order are right.

    The function has the signature `forward(ctx, options, *inputs)`, where inputs are
    tensors or None, and saves the inputs before anything else.

    Args:
        formula: the function in operations of torch, `formula(options, *inputs)`; it reads
            `ctx.options`.
    """

    def _decorate(backward: Callable) -> Callable:
        @functools.wraps(backward)
        def _backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
            if not torch.is_grad_enabled():
                return backward(ctx, *grads)
            needed = ctx.needs_input_grad[1:]
            # Views, so that an input that depends on another counts for itself only.
            inputs = [
                None if saved is None else saved.view_as(saved)
                for saved in ctx.saved_tensors[: len(needed)]
            ]
            with torch.autocast(grads[0].device.type, enabled=False):
                outputs = formula(ctx.options, *inputs)
            outputs = outputs if isinstance(outputs, tuple) else (outputs,)
            outputs = tuple(output for output in outputs if output is not None)
            wanted = [tensor for tensor, need in zip(inputs, needed) if need]
            gradients = iter(
                torch.autograd.grad(
                    outputs,
                    wanted,
                    grads[: len(outputs)],
                    create_graph=True,
                    materialize_grads=True,
                )
            )
            return None, *(next(gradients) if need else None for need in needed)

        return _backward

    return _decorate


def output_and_forces(
    model: Callable[[Batch], Tensor],
    batch: Batch,
    create_graph: bool,
) -> tuple[Tensor, Tensor]:
    """Output [B, 1] of a model, and minus its derivatives by the positions [B, N, 3], in its
    unit per angstrom; 0 at padding.

    Args:
        create_graph: whether the forces have derivatives, for a loss.
    """
    with torch.enable_grad():
        pos = batch["pos"].detach().requires_grad_()
        output = model({**batch, "pos": pos})
        (slope,) = torch.autograd.grad(output.sum(), pos, create_graph=create_graph)
    return output, -slope


def beside_forces(energies: Tensor, forces: Tensor) -> Tensor:
    """Energies [B, 1] of graphs, repeated beside the forces on their atoms, [B, N, 4]."""
    energies = energies.unsqueeze(1).expand(-1, forces.shape[1], 1)
    return torch.cat([energies, forces], 2)
