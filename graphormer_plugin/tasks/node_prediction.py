"""Predict a class or a value for every node of a graph."""

from fairseq.tasks import register_task

from graphormer_plugin.data.columns import Level
from graphormer_plugin.tasks._config import GraphPredictionConfig
from graphormer_plugin.tasks.graph_prediction import GraphPredictionTask


@register_task("node_prediction", dataclass=GraphPredictionConfig)
class NodePredictionTask(GraphPredictionTask):
    """Predicts a class or a value for every node.

    The encoders are those of `GraphPredictionTask`, with the head on each node: the model
    returns ``[B, N, classes]``, or ``[B, N, 1]`` in regression. The target is ``[B, N, 1]``:
    int64 classes or float64 values. Losses and metrics leave out padding and missing labels,
    -1 or NaN.
    """

    level = Level.NODE
