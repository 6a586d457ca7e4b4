"""Cross-entropy weighted by the class sizes of the batch, for PATTERN and CLUSTER."""

import torch
from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass
from torch import Tensor

from graphormer_plugin.criterions.evaluation import Evaluation, Sums
from graphormer_plugin.criterions.graph_criterion import ClassCriterion
from graphormer_plugin.criterions.log import batch_recall, log_weighted_accuracy
from graphormer_plugin.processes import gathered


@register_criterion("weighted_cross_entropy", dataclass=FairseqDataclass)
class WeightedCrossEntropy(ClassCriterion):
    """Cross-entropy that gives rare classes a larger weight.

    The loss of the benchmark (Dwivedi et al. 2020, arXiv:2003.00982): in a batch of V
    labels, n_r of them of class r, a label of class r weighs (V - n_r) / V, and the
    sum is divided by the sum of the weights used. A batch of one class has no weight
    and contributes zero (the benchmark's code divides 0 by 0). A training counts V and n_r
    over the batches of all processes. Each pass of ``--update-freq``, and each batch of an
    evaluation, has its own class weights; the sum over all of them is divided by the sum of
    all weights.

    Metrics: ``accuracy``, and the metrics of `log_weighted_accuracy`.
    """

    name = "weighted_cross_entropy"
    logged = ("weighted_accuracy", "weighted_accuracy_batch")

    def weights(self, labels: Tensor, present: Tensor) -> Tensor | None:
        """See `GraphCriterion`."""
        count = self.per_class(labels, present)
        if self.training:
            count = gathered(count).sum(0)
        total = count.sum().clamp(min=1)
        weight = (total - count) / total  # unused for classes that do not occur
        return weight.to(torch.float32)[labels]

    def batch_metrics(self, output: Tensor, labels: Tensor, present: Tensor) -> Sums:
        """Sums of `ClassCriterion`, and the benchmark's accuracy of this batch."""
        sums = super().batch_metrics(output, labels, present)
        counts = (sums["hits"], sums["labelled"], sums["predicted"])
        return {
            **sums,
            "batch_recall": batch_recall(*counts),
            "batches": present.any().double(),
        }

    def log_metrics(self, sums: Sums, evaluation: Evaluation | None) -> None:
        """See `GraphCriterion`."""
        super().log_metrics(sums, evaluation)
        log_weighted_accuracy(
            sums["hits"], sums["labelled"], sums["batch_recall"], sums["batches"]
        )
