"""Cross-entropy over classes, for graphs or nodes."""

from dataclasses import dataclass

from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass

from graphormer_plugin.criterions.graph_criterion import ClassCriterion


@dataclass
class MulticlassCrossEntropyConfig(FairseqDataclass):
    """No options."""


@register_criterion("multiclass_cross_entropy", dataclass=MulticlassCrossEntropyConfig)
class MulticlassCrossEntropy(ClassCriterion):
    """Cross-entropy with equal weights for all labels; see `ClassCriterion`."""

    name = "multiclass_cross_entropy"
