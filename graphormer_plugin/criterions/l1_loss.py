"""Mean absolute error for graph regression."""

from dataclasses import dataclass

import torch
from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass
from torch import Tensor

from graphormer_plugin.criterions.graph_criterion import GraphCriterion
from graphormer_plugin.criterions.metrics import log_mean_error


@dataclass
class L1LossConfig(FairseqDataclass):
    """No options: the unit and the standardisation come from the data."""


@register_criterion("l1_loss", dataclass=L1LossConfig)
class L1Loss(GraphCriterion):
    """Absolute error, trained on standardised targets, reported in their unit.

    ``loss`` is the mean absolute error of the standardised targets (dimensionless).
    ``mae`` is that of the whole split in the target's unit, e.g. eV; with several
    targets the mean of ``mae_<target>``, each over the rows that have that target.

    Args:
        task: with ``targets`` of kind ``regression``.

    Raises:
        ValueError: the targets are classes.
    """

    def __init__(self, task) -> None:
        super().__init__(task)
        if self.targets.kind != "regression":
            raise ValueError(
                f"l1_loss needs regression targets, received {self.targets.kind} "
                f"targets {', '.join(self.targets.names)}"
            )

    def model_target(self, target: Tensor) -> Tensor:
        return self.targets.standardise(target)

    def entry_loss(self, output: Tensor, target: Tensor) -> Tensor:
        return (output - target).abs()

    def batch_metrics(
        self, output: Tensor, target: Tensor, present: Tensor
    ) -> dict[str, Tensor]:
        """``abs_error`` and ``count`` of each target, float64 ``[C]``."""
        error = (self.targets.restore(output.double()) - target).abs()
        return {
            "abs_error": torch.where(present, error, 0.0).sum(dim=0),
            "count": present.sum(dim=0).double(),
        }

    def log_metrics(self, sums: dict[str, Tensor]) -> None:
        log_mean_error("mae", self.targets.names, sums["abs_error"], sums["count"])
