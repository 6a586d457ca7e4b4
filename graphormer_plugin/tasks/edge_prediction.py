"""Predict a class or a value for edges, or for pairs of nodes, of a graph."""

from dataclasses import dataclass
from typing import Any, Optional

from fairseq.tasks import register_task

from graphormer_plugin.choices import option
from graphormer_plugin.data.batches.collator import GraphCollator
from graphormer_plugin.data.batches.negatives import Negatives
from graphormer_plugin.data.columns import OF_ENDS, Level
from graphormer_plugin.tasks._config import GraphPredictionConfig, check_flags
from graphormer_plugin.tasks.graph_prediction import GraphPredictionTask


@dataclass
class EdgePredictionConfig(GraphPredictionConfig):
    """Options of ``--task edge_prediction``."""

    negatives: Optional[int] = option(
        None,
        "pairs of label 0 for each pair of label 1 of a graph, >= 0; those that the data "
        "lack are drawn in every epoch anew (default: 1)",
    )


@register_task("edge_prediction", dataclass=EdgePredictionConfig)
class EdgePredictionTask(GraphPredictionTask):
    """Predicts a class or a value for every edge, or for given pairs of nodes.

    The encoders are those of `GraphPredictionTask`, see `GraphModel.pairs` for the
    prediction of an edge: the model returns ``[B, P, classes]``, or ``[B, P, C]`` of other
    targets, for edges or pairs in the order of the source. Targets are as in
    `NodePredictionTask`, with edges or pairs in place of nodes. Pairs with a binary target
    have `Negatives`; those of an evaluation are of epoch 0.
    """

    levels = OF_ENDS

    def __init__(self, cfg: EdgePredictionConfig, **kwargs: Any) -> None:
        super().__init__(cfg, **kwargs)
        check_flags(cfg, negatives=0)

    @property
    def collator(self) -> GraphCollator:
        """See `GraphPredictionTask`."""
        collator = super().collator
        ratio = self.cfg.negatives
        targets = self.targets
        drawn = targets.level is Level.PAIR and targets.kind == "binary"
        drawn &= len(targets.names) == 1
        if ratio is not None and not drawn:
            raise ValueError(
                f"--negatives {ratio}: the labels are not 0 and 1 of pairs; leave it out"
            )
        if drawn:
            collator.negatives = Negatives(1 if ratio is None else ratio, self.cfg.seed)
        return collator
