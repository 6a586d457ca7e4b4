"""Cross-entropy over classes, for graphs or nodes."""

from fairseq.criterions import register_criterion
from torch import Tensor

from graphormer_plugin.criterions.class_weights import ClassWeightsConfig
from graphormer_plugin.criterions.graph_criterion import ClassCriterion


@register_criterion("multiclass_cross_entropy", dataclass=ClassWeightsConfig)
class MulticlassCrossEntropy(ClassCriterion):
    """Cross-entropy, with equal weights for all labels by default; see `ClassCriterion`."""

    name = "multiclass_cross_entropy"

    def weights(self, labels: Tensor, present: Tensor) -> Tensor | None:
        """See `GraphCriterion`."""
        if self.class_weights is None:
            return None
        return self.class_weights[0][labels]
