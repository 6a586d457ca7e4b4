"""Mean absolute error for regression."""

from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass

from graphormer_plugin.criterions.graph_criterion import RegressionCriterion


@register_criterion("l1_loss", dataclass=FairseqDataclass)
class L1Loss(RegressionCriterion):
    """Absolute error; see `RegressionCriterion`."""

    name = "l1_loss"
