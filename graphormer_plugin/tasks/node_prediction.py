"""Predict a class for every node of a graph."""

from dataclasses import dataclass

from fairseq.tasks import register_task

from graphormer_plugin.tasks.graph_prediction import (
    GraphPredictionConfig,
    GraphPredictionTask,
)


@dataclass
class NodePredictionConfig(GraphPredictionConfig):
    """Options of ``--task node_prediction``: those of ``graph_prediction``."""


@register_task("node_prediction", dataclass=NodePredictionConfig)
class NodePredictionTask(GraphPredictionTask):
    """Predicts a class for every node.

    Has the encoders of `GraphPredictionTask`, with the head on each node: the model
    returns ``[B, N, classes]``. The target is int64 ``[B, N]`` with -1 at padding and
    missing labels, which losses and metrics leave out.
    """

    level = "node"
