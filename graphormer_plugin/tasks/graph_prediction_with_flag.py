"""Graph prediction with adversarial augmentation of the node vectors (FLAG)."""

from dataclasses import dataclass
from typing import Any

import torch
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.tasks import register_task
from torch import Tensor

from graphormer_plugin.choices import option
from graphormer_plugin.modules.layers.graph_random import FLAG, uniform
from graphormer_plugin.tasks._config import GraphPredictionConfig, check_flags
from graphormer_plugin.tasks.graph_prediction import GraphPredictionTask


@dataclass
class GraphPredictionWithFlagConfig(GraphPredictionConfig):
    """Options of ``--task graph_prediction_with_flag``; names and defaults are
    Graphormer v2's."""

    flag_m: int = option(3, "passes over each batch, >= 1 (m)")
    flag_step_size: float = option(1e-3, "size of an ascent step, >= 0 (alpha)")
    flag_mag: float = option(
        1e-3,
        "largest Euclidean norm of a node's perturbation, >= 0; 0 does not limit it "
        "(epsilon)",
    )


@register_task("graph_prediction_with_flag", dataclass=GraphPredictionWithFlagConfig)
class GraphPredictionWithFlagTask(GraphPredictionTask):
    """FLAG: free large-scale adversarial augmentation on graphs (Kong et al. 2020,
    arXiv:2010.09891), as Graphormer's released code has it.

    Each update passes ``flag_m`` times over its batch. A perturbation of the encoded
    node features, ``[B, N, D]``, starts uniform and takes a step of ``flag_step_size``
    along the sign of its gradient between two passes. Each node's vector is projected back
    onto the ball of radius ``flag_mag``, unless that is 0. The gradient of the weights is
    the mean over all passes. The log shows the last pass, which has the strongest
    perturbation. Validation is not perturbed.
    """

    def __init__(self, cfg: GraphPredictionWithFlagConfig, **kwargs: Any) -> None:
        super().__init__(cfg, **kwargs)
        check_flags(cfg, flag_m=1, flag_step_size=0, flag_mag=0)

    def build_model(self, cfg, from_checkpoint: bool = False):
        """See `GraphPredictionTask`."""
        model = super().build_model(cfg, from_checkpoint)
        self.embed_dim: int = model.embed_dim
        return model

    def passes(self, sample, model, criterion, optimizer, update_num, ignore_grad):
        """Forward and backward passes over a batch; see fairseq's `train_step`."""
        model.train()
        model.set_num_updates(update_num)
        batch = sample["net_input"]["batch"]
        perturb = self.first_perturbation(batch["node_mask"], batch["seed"])
        for index in range(self.cfg.flag_m):
            if index:
                perturb = self.ascend(perturb)
            perturb.requires_grad_()
            net_input = {**sample["net_input"], "perturb": perturb}
            with torch.autocast("cuda", enabled=isinstance(optimizer, AMPOptimizer)):
                loss, sample_size, logging_output = criterion(
                    model, {**sample, "net_input": net_input}
                )
            # The gradient of a filler batch of an uneven shard must be zero.
            optimizer.backward(loss * (0 if ignore_grad else 1 / self.cfg.flag_m))
        return loss, sample_size, logging_output

    def first_perturbation(self, node_mask: Tensor, seed: Tensor) -> Tensor:
        """Uniform float32 ``[B, N, D]`` by the seed of each graph, zero at padding.

        Each entry lies within ``flag_mag / sqrt(D)``, so that norms are at most
        ``flag_mag``, or within ``flag_step_size`` if ``flag_mag`` is 0.
        """
        bound = self.cfg.flag_step_size
        if self.cfg.flag_mag > 0:
            bound = self.cfg.flag_mag / self.embed_dim**0.5
        shape = torch.Size([*node_mask.shape, self.embed_dim])
        real = node_mask.unsqueeze(-1).float()
        return uniform(seed, shape, FLAG, real) * (bound * real)

    def ascend(self, perturb: Tensor) -> Tensor:
        """The perturbation after a step along the sign of its gradient, projected."""
        perturb = perturb.detach() + self.cfg.flag_step_size * perturb.grad.sign()
        if self.cfg.flag_mag > 0:
            perturb = torch.renorm(
                perturb.flatten(0, 1), p=2, dim=0, maxnorm=self.cfg.flag_mag
            ).view_as(perturb)
        return perturb
