"""Mean squared error for regression."""

from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass

from graphormer_plugin.criterions.graph_criterion import RegressionCriterion


@register_criterion("mse_loss", dataclass=FairseqDataclass)
class MSELoss(RegressionCriterion):
    """Squared error; see `RegressionCriterion`."""

    name = "mse_loss"
    loss = "mse"
