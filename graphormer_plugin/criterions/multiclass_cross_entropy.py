"""Cross-entropy over classes, for graphs or nodes."""

from dataclasses import dataclass, field
from typing import Optional

from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass
from torch import Tensor

from graphormer_plugin.criterions.class_weights import HELP
from graphormer_plugin.criterions.graph_criterion import ClassCriterion


@dataclass
class MulticlassCrossEntropyConfig(FairseqDataclass):
    """Options of ``--criterion multiclass_cross_entropy``."""

    class_weights: Optional[str] = field(default=None, metadata={"help": HELP})


@register_criterion("multiclass_cross_entropy", dataclass=MulticlassCrossEntropyConfig)
class MulticlassCrossEntropy(ClassCriterion):
    """Cross-entropy, with equal weights for all labels by default; see `ClassCriterion`."""

    name = "multiclass_cross_entropy"

    def __init__(self, task, class_weights: str | None = None) -> None:
        super().__init__(task, class_weights)

    def weights(self, labels: Tensor, present: Tensor) -> Tensor | None:
        """See `GraphCriterion`."""
        if self.class_weights is None:
            return None
        return self.class_weights[0].to(labels.device)[labels]
