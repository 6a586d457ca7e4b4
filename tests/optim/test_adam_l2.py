"""AdamL2 next to the formula of an L2 penalty."""

import torch

from graphormer_plugin.optim import AdamL2
from support.optimisers import make


def test_a_step_is_that_of_adam_with_a_penalty_in_the_gradient():
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(5, dtype=torch.float64))
    optimiser = make(AdamL2, weight, 1e-2)
    wanted, mean, square = weight.detach().clone(), 0.0, 0.0
    for step in range(1, 4):
        grad = torch.randn(5, dtype=torch.float64)
        weight.grad = grad.clone()
        optimiser.step()
        grad = grad + 0.1 * wanted
        mean, square = 0.9 * mean + 0.1 * grad, 0.99 * square + 0.01 * grad**2
        root = (square / (1 - 0.99**step)).sqrt() + 1e-2
        wanted = wanted - 0.01 * mean / (1 - 0.9**step) / root
        assert (weight - wanted).abs().max() < 1e-12
