"""The optimiser with an L2 penalty, next to its formula."""

import torch
from fairseq.optim.adam import FairseqAdamConfig
from omegaconf import OmegaConf

from graphormer_plugin.optim import AdamL2


def test_a_step_is_that_of_adam_with_a_penalty_in_the_gradient():
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(5, dtype=torch.float64))
    cfg = OmegaConf.structured(FairseqAdamConfig(weight_decay=0.1))
    OmegaConf.set_struct(cfg, False)
    cfg.lr, cfg.adam_betas = [0.01], "(0.9, 0.99)"
    optimiser = AdamL2(cfg, [weight])
    wanted, mean, square = weight.detach().clone(), 0.0, 0.0
    for step in range(1, 4):
        grad = torch.randn(5, dtype=torch.float64)
        weight.grad = grad.clone()
        optimiser.step()
        grad = grad + 0.1 * wanted
        mean, square = 0.9 * mean + 0.1 * grad, 0.99 * square + 0.01 * grad**2
        root = (square / (1 - 0.99**step)).sqrt() + 1e-8
        wanted = wanted - 0.01 * mean / (1 - 0.9**step) / root
        assert (weight - wanted).abs().max() < 1e-12
