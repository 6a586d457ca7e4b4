"""Predict a class or a value for every node of a graph."""

from fairseq.tasks import register_task

from graphormer_plugin.tasks._config import GraphPredictionConfig
from graphormer_plugin.tasks.graph_prediction import GraphPredictionTask


@register_task("node_prediction", dataclass=GraphPredictionConfig)
class NodePredictionTask(GraphPredictionTask):
    """Predicts a class or a value for every node.

    Has the encoders of `GraphPredictionTask`, with the head on each node: the model
    returns ``[B, N, classes]``, or ``[B, N, 1]`` in regression. The target is ``[B, N]``:
    classes int64 with -1, or values float64 with NaN, at padding and missing labels,
    which losses and metrics leave out.
    """

    level = "node"
