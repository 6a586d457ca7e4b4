"""Predict a class or a value for edges, or for pairs of nodes, of a graph."""

from fairseq.tasks import register_task

from graphormer_plugin.data.columns import OF_ENDS
from graphormer_plugin.tasks._config import GraphPredictionConfig
from graphormer_plugin.tasks.graph_prediction import GraphPredictionTask


@register_task("edge_prediction", dataclass=GraphPredictionConfig)
class EdgePredictionTask(GraphPredictionTask):
    """Predicts a class or a value for every edge.

    The encoders are those of `GraphPredictionTask`, see `GraphModel.pairs` for the
    prediction of an edge: the model returns ``[B, P, classes]``, or ``[B, P, C]`` of other
    targets, for the edges in the order of the source. Targets are as in `NodePredictionTask`,
    with edges in place of nodes.
    """

    levels = OF_ENDS
