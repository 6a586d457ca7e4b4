"""Losses for graphs. Importing this package registers them with fairseq."""

from graphormer_plugin.criterions.binary_logloss import BinaryLogLoss
from graphormer_plugin.criterions.graph_criterion import (
    ClassCriterion,
    GraphCriterion,
    RegressionCriterion,
)
from graphormer_plugin.criterions.l1_loss import L1Loss
from graphormer_plugin.criterions.mse_loss import MSELoss
from graphormer_plugin.criterions.multiclass_cross_entropy import (
    MulticlassCrossEntropy,
)
from graphormer_plugin.criterions.weighted_cross_entropy import WeightedCrossEntropy
from graphormer_plugin.criterions.with_flag import (
    BinaryLogLossWithFlag,
    L1LossWithFlag,
    MulticlassCrossEntropyWithFlag,
)

__all__ = [
    "BinaryLogLoss",
    "BinaryLogLossWithFlag",
    "ClassCriterion",
    "GraphCriterion",
    "L1Loss",
    "L1LossWithFlag",
    "MSELoss",
    "MulticlassCrossEntropy",
    "MulticlassCrossEntropyWithFlag",
    "RegressionCriterion",
    "WeightedCrossEntropy",
]
