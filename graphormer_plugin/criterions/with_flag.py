"""Graphormer v2's names for the losses of a task with FLAG.

In Graphormer v2 the loss passed the perturbation to the model. Here the task does, so
each class is the plain loss under a second name.
"""

from fairseq.criterions import register_criterion

from graphormer_plugin.criterions.binary_logloss import (
    BinaryLogLoss,
    BinaryLogLossConfig,
)
from graphormer_plugin.criterions.l1_loss import L1Loss, L1LossConfig
from graphormer_plugin.criterions.multiclass_cross_entropy import (
    MulticlassCrossEntropy,
    MulticlassCrossEntropyConfig,
)


@register_criterion("l1_loss_with_flag", dataclass=L1LossConfig)
class L1LossWithFlag(L1Loss):
    """`l1_loss`, for commands written for Graphormer v2."""


@register_criterion("binary_logloss_with_flag", dataclass=BinaryLogLossConfig)
class BinaryLogLossWithFlag(BinaryLogLoss):
    """`binary_logloss`, for commands written for Graphormer v2."""


@register_criterion(
    "multiclass_cross_entropy_with_flag", dataclass=MulticlassCrossEntropyConfig
)
class MulticlassCrossEntropyWithFlag(MulticlassCrossEntropy):
    """`multiclass_cross_entropy`, for commands written for Graphormer v2."""
