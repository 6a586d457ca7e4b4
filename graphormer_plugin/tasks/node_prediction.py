"""Predict a class or numbers for every node of a graph."""

from fairseq.tasks import register_task

from graphormer_plugin.data.columns import Level
from graphormer_plugin.tasks._config import GraphPredictionConfig
from graphormer_plugin.tasks.graph_prediction import GraphPredictionTask


@register_task("node_prediction", dataclass=GraphPredictionConfig)
class NodePredictionTask(GraphPredictionTask):
    """Predicts a class, or values or binary classes of C targets, for every node.

    The encoders are those of `GraphPredictionTask`, with the head on each node: the model
    returns ``[B, N, C]``, or ``[B, N, classes]``. The target is ``[B, N, C]`` float64, or
    ``[B, N, 1]`` int64 classes. Losses and metrics leave out padding and missing labels, NaN
    or -1.
    """

    levels = (Level.NODE,)
