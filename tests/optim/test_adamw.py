"""AdamW next to fairseq's Adam."""

import pytest
import torch
from fairseq.optim.adam import FairseqAdam

from graphormer_plugin.optim import AdamL2, AdamW
from support.optimisers import make


@pytest.mark.parametrize("kind", [AdamW, AdamL2])
def test_one_flat_weight_makes_the_steps_of_several(kind):
    """`--fp16` has such a weight."""
    weights = [torch.nn.Parameter(torch.ones(n, dtype=torch.float64)) for n in (3, 2)]
    flat = torch.nn.Parameter(torch.ones(5, dtype=torch.float64))
    optimisers = [make(kind, weight) for weight in (*weights, flat)]
    assert all(optimiser.supports_flat_params for optimiser in optimisers)
    for step in range(3):
        flat.grad = torch.arange(5.0, dtype=torch.float64) - step
        for weight, grad in zip(weights, flat.grad.split([3, 2])):
            weight.grad = grad.clone()
        for optimiser in optimisers:
            optimiser.step()
    assert torch.equal(torch.cat(weights), flat)


def test_steps_are_those_of_fairseq_adam():
    """The rate changes, and the steps go on from a saved state."""
    torch.manual_seed(0)
    start = torch.randn(5, dtype=torch.float64)
    weights = [torch.nn.Parameter(start.clone()) for _ in range(2)]
    optimisers = [make(kind, w) for kind, w in zip((FairseqAdam, AdamW), weights)]
    for step in range(6):
        grad = torch.randn(5, dtype=torch.float64)
        if step == 3:
            state = optimisers[1].state_dict()
            optimisers[1] = make(AdamW, weights[1])
            optimisers[1].load_state_dict(state)
        for optimiser, weight in zip(optimisers, weights):
            optimiser.set_lr(0.01 * (step + 1))
            weight.grad = grad.clone()
            optimiser.step()
        assert (weights[0] - weights[1]).abs().max() < 1e-12
