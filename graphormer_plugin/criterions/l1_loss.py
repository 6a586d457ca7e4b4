"""Mean absolute error for regression."""

from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass
from torch import Tensor

from graphormer_plugin.criterions.graph_criterion import RegressionCriterion
from graphormer_plugin.criterions.losses import VALUE_LOSSES


@register_criterion("l1_loss", dataclass=FairseqDataclass)
class L1Loss(RegressionCriterion):
    """Absolute error; see `RegressionCriterion`."""

    name = "l1_loss"

    def value_loss(self, output: Tensor, value: Tensor) -> Tensor:
        """Absolute error."""
        return VALUE_LOSSES["l1"](output, value, reduction="none")
