"""Graphormer v2's names for the losses of a task with FLAG.

The loss of Graphormer v2 passed the perturbation to the model. Here the task does, so each
class is the plain loss under a second name.
"""

from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass

from graphormer_plugin.criterions.binary_logloss import BinaryLogLoss
from graphormer_plugin.criterions.class_weights import ClassWeightsConfig
from graphormer_plugin.criterions.l1_loss import L1Loss
from graphormer_plugin.criterions.multiclass_cross_entropy import MulticlassCrossEntropy


@register_criterion("l1_loss_with_flag", dataclass=FairseqDataclass)
class L1LossWithFlag(L1Loss):
    """`l1_loss`, for commands written for Graphormer v2."""


@register_criterion("binary_logloss_with_flag", dataclass=ClassWeightsConfig)
class BinaryLogLossWithFlag(BinaryLogLoss):
    """`binary_logloss`, for commands written for Graphormer v2."""


@register_criterion("multiclass_cross_entropy_with_flag", dataclass=ClassWeightsConfig)
class MulticlassCrossEntropyWithFlag(MulticlassCrossEntropy):
    """`multiclass_cross_entropy`, for commands written for Graphormer v2."""
