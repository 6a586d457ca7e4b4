"""Mean squared error for graph regression."""

from dataclasses import dataclass

from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass
from torch import Tensor

from graphormer_plugin.criterions.graph_criterion import RegressionCriterion


@dataclass
class MSELossConfig(FairseqDataclass):
    """No options: the unit comes from the data, the scale from the task."""


@register_criterion("mse_loss", dataclass=MSELossConfig)
class MSELoss(RegressionCriterion):
    """Squared error; see `RegressionCriterion`."""

    name = "mse_loss"

    def value_loss(self, output: Tensor, value: Tensor) -> Tensor:
        """Squared error."""
        return (output - value).square()
