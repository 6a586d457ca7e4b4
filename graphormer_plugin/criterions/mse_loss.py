"""Mean squared error for regression."""

from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass
from torch import Tensor

from graphormer_plugin.criterions.graph_criterion import RegressionCriterion
from graphormer_plugin.criterions.losses import VALUE_LOSSES


@register_criterion("mse_loss", dataclass=FairseqDataclass)
class MSELoss(RegressionCriterion):
    """Squared error; see `RegressionCriterion`."""

    name = "mse_loss"

    def value_loss(self, output: Tensor, value: Tensor) -> Tensor:
        """Squared error."""
        return VALUE_LOSSES["mse"](output, value, reduction="none")
