"""Predict a class or a value for edges, or for pairs of nodes, of a graph."""

import dataclasses
import logging
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
from fairseq.tasks import register_task

from graphormer_plugin.choices import option
from graphormer_plugin.data.batches.collator import GraphCollator
from graphormer_plugin.data.batches.negatives import links_among_edges, negatives_of
from graphormer_plugin.data.columns import LINK_LEVELS
from graphormer_plugin.data.errors import counted
from graphormer_plugin.tasks._config import GraphPredictionConfig, check_flags
from graphormer_plugin.tasks.graph_prediction import GraphPredictionTask

logger = logging.getLogger(__name__)

SEARCHED = 1000  # graphs, for edges that are links


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

    The encoders are those of `GraphPredictionTask`, see `GraphModel.links` for the
    prediction of an edge: the model returns ``[B, P, classes]``, or ``[B, P, C]`` of other
    targets, for edges or links in the order of the source. Targets are as in
    `NodePredictionTask`, with edges or links in place of nodes. Pairs with a binary target
    have `Negatives`; those of an evaluation are of epoch 0.
    """

    levels = LINK_LEVELS

    def __init__(self, cfg: EdgePredictionConfig, **kwargs: Any) -> None:
        super().__init__(cfg, **kwargs)
        check_flags(cfg, negatives=0)

    @property
    def collator(self) -> GraphCollator:
        """See `GraphPredictionTask`."""
        collator = super().collator
        if collator.negatives is None:
            cfg = self.cfg
            collator.negatives = negatives_of(self.targets, cfg.negatives, cfg.seed)
            if collator.negatives:
                collator.negatives = dataclasses.replace(
                    collator.negatives, edges_are_links=self.edges_are_links(collator)
                )
        return collator

    def edges_are_links(self, collator: GraphCollator) -> bool:
        """Whether each split has a single graph, or the first training graphs have
        `links_among_edges`. Warns where most links to predict are edges the other way round.
        """
        splits = self.store.splits
        is_one = len(self.store) == len(splits)
        graphs = splits.get("train", np.zeros(0, np.int64))[:SEARCHED]
        graphs = np.arange(len(self.store)) if is_one else graphs
        if not len(graphs):
            return False
        is_edge, turned = links_among_edges(collator.graphs(graphs))
        known = int((turned & ~is_edge).sum())
        if 2 * known > (~is_edge).sum():
            logger.warning(
                "%s are edges the other way round: if the graph is undirected, split it with "
                "RandomLinkSplit(is_undirected=True)",
                counted(known, "link"),
            )
        return is_one or bool(is_edge.any())
