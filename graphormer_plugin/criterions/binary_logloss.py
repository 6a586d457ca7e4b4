"""Binary cross-entropy over tasks with missing labels."""

import torch
from fairseq.criterions import register_criterion
from torch import Tensor

from graphormer_plugin.criterions.class_weights import ClassWeightsConfig
from graphormer_plugin.criterions.evaluation import Evaluation, Sums
from graphormer_plugin.criterions.graph_criterion import GraphCriterion
from graphormer_plugin.criterions.log import log_accuracy, log_ranking
from graphormer_plugin.criterions.metrics import RANKING_METRICS
from graphormer_plugin.data.targets import Kind


@register_criterion("binary_logloss", dataclass=ClassWeightsConfig)
class BinaryLogLoss(GraphCriterion):
    """Cross-entropy of ``C`` binary tasks; the model returns one logit for each.

    ``loss`` is the mean over the present labels, as in OGB's own training code.
    ``roc_auc`` and ``ap`` are logged in evaluation, over the whole split: the mean over the
    tasks that have both classes. ``accuracy`` is the share of right predictions at
    probability 1/2, the mean over tasks.
    """

    name = "binary_logloss"
    target_kinds = (Kind.BINARY,)
    keeps_outputs = True
    logged = ("accuracy", *RANKING_METRICS)

    def weights(self, labels: Tensor, present: Tensor) -> Tensor | None:
        """See `GraphCriterion`."""
        if self.class_weights is None:
            return None
        low, high = self.class_weights.unbind(1)
        return torch.where(labels > 0, high, low)

    def batch_metrics(self, output: Tensor, labels: Tensor, present: Tensor) -> Sums:
        """``hits`` and ``labelled`` of each task, float64 ``[C]``."""
        hits = present & ((output > 0) == (labels > 0))
        return {
            "hits": hits.flatten(0, -2).sum(dim=0, dtype=torch.float64),
            "labelled": present.flatten(0, -2).sum(dim=0, dtype=torch.float64),
        }

    def log_metrics(self, sums: Sums, evaluation: Evaluation | None) -> None:
        """See `GraphCriterion`."""
        log_accuracy(sums["hits"], sums["labelled"])
        if evaluation is not None:
            log_ranking(evaluation)
