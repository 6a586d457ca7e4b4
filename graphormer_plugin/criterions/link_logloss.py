"""Binary cross-entropy of pairs of nodes, with the ranks of those that are linked."""

from collections.abc import Callable
from typing import Any

import torch
from fairseq.criterions import register_criterion
from torch import Tensor

from graphormer_plugin.criterions.binary_logloss import BinaryLogLoss
from graphormer_plugin.criterions.class_weights import ClassWeightsConfig
from graphormer_plugin.criterions.evaluation import Evaluation, Reported, Sums
from graphormer_plugin.criterions.log import log_sums
from graphormer_plugin.criterions.metrics import LINK_METRICS, TIE
from graphormer_plugin.data.columns import LINK_LEVELS

SCORED_PAIRS = 2**16  # at once
Score = Callable[[Tensor, Tensor], Tensor]  # see `GraphModel.links`


@register_criterion("link_logloss", dataclass=ClassWeightsConfig)
class LinkLogLoss(BinaryLogLoss):
    """`BinaryLogLoss` of edges or links, with metrics of ranks in evaluation.

    Each pair (i, j) of label 1 is ranked among the pairs of i with all nodes of its graph, as
    GraphGPS (``head/inductive_edge.py``) does for PCQM-Contact. ``mrr`` is the
    mean of 1 / rank and ``hits_1``, ``hits_3``, ``hits_10`` are the shares of ranks up to k:
    means over graphs of the means over their pairs. As toenshoff/LRGB has them,
    ``mrr_filtered`` and the like leave out the other pairs (i, k) of label 1, as they are
    written, and ``mrr_filtered_self`` i itself as well. Where edges are links
    (`Negatives.edges_are_links`), both leave out those of i, too. Pairs of equal score share
    their mean rank (our choice).
    """

    name = "link_logloss"
    logged = LINK_METRICS

    def __init__(self, task, class_weights: str | None = None) -> None:
        super().__init__(task, class_weights)
        level = self.targets.level
        if level not in LINK_LEVELS or len(self.targets.names) > 1:
            raise ValueError(
                f"--criterion link_logloss ranks pairs by one target, received "
                f"{len(self.targets.names)} of {level}s; take binary_logloss"
            )

    def forward(self, model, sample: dict[str, Any], reduce: bool = True) -> Reported:
        """See `GraphCriterion`."""
        if self.training:
            return super().forward(model, sample, reduce)
        encoded: list[Tensor] = []
        hook = model.encoder.register_forward_hook(
            lambda *call: encoded.append(call[-1])
        )
        try:
            loss, size, log = super().forward(model, sample, reduce)
        finally:
            hook.remove()
        with torch.no_grad():
            log |= ranking_sums(model.links, model.nodes(encoded[0]), sample)
        return loss, size, log

    def log_metrics(self, sums: Sums, evaluation: Evaluation | None) -> None:
        """See `GraphCriterion`."""
        super().log_metrics(sums, evaluation)
        if evaluation is None:
            return
        means = {
            name: lambda total, graphs, index=index: (total[index] / graphs[0]).item()
            for index, name in enumerate(LINK_METRICS)
        }
        ranked = {"total": sums["ranking"], "graphs": sums["ranked"]}
        log_sums("ranking", ranked, means)


def ranking_sums(score: Score, nodes: Tensor, sample: dict[str, Any]) -> Sums:
    """Sums over the graphs of a sample, from their vectors of nodes [B, N, D]: of the
    `LINK_METRICS` of each graph that has a pair of label 1, and the number of these graphs.
    """
    batch = sample["net_input"]["batch"]
    linked = sample["target"][..., 0] == 1
    sizes = batch["node_mask"].sum(1).tolist()
    total = torch.zeros(len(LINK_METRICS), dtype=torch.float64, device=nodes.device)
    for graph in linked.any(1).nonzero().flatten().tolist():
        ends = batch["edge_label_index"][graph, linked[graph]]
        known = ends
        if "edges" in sample:
            edges = sample["edges"][graph]
            known = torch.cat([ends, edges[edges[:, 0] >= 0]])
        every = ranks_of_graph(score, nodes[graph, : sizes[graph]], ends, known)
        values = [[1 / found, *(found <= k for k in (1, 3, 10))] for found in every]
        total += torch.stack([x.double().mean() for part in values for x in part])
    return {"ranking": total, "ranked": linked.any(1).sum().double().view(1)}


def ranks_of_graph(score: Score, nodes: Tensor, ends: Tensor, known: Tensor) -> Tensor:
    """Ranks of the linked pairs `ends` [Q, 2] of a graph among all nodes, without `known`
    pairs [K, 2], and without these and the node itself, float64 [3, Q]; its vectors of nodes
    are [N, D]."""
    size = len(nodes)
    every = torch.arange(size, device=nodes.device)
    itself = torch.eye(size, dtype=torch.bool, device=nodes.device)
    filtered = torch.zeros_like(itself)
    filtered[known[:, 0], known[:, 1]] = True
    filters = (torch.zeros_like(itself), filtered, filtered | itself)
    results = []
    for part in ends.split(max(1, SCORED_PAIRS // size)):
        sources, targets = part.unbind(1)
        candidates = [sources.repeat_interleave(size), every.repeat(len(part))]
        pairs = torch.stack(candidates, 1).unsqueeze(0)
        scores = score(nodes.unsqueeze(0), pairs).view(len(part), size)
        results.append(
            torch.stack([ranks(scores, targets, f[sources]) for f in filters])
        )
    return torch.cat(results, 1)


def ranks(scores: Tensor, targets: Tensor, left_out: Tensor) -> Tensor:
    """Rank from 1 of the score of a target [Q] among the scores [Q, N] that are not left out
    [Q, N], float64 [Q]; the last if a score is not a number."""
    scores = scores.double()
    score = scores.gather(1, targets.unsqueeze(1))
    margin = TIE * scores.abs().amax(1, keepdim=True)
    others = ~left_out
    others.scatter_(1, targets.unsqueeze(1), False)
    above = ~(scores <= score + margin) & others
    equal = ((scores - score).abs() <= margin) & others
    return 1 + above.sum(1) + equal.sum(1) / 2
