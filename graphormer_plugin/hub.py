"""Use a checkpoint, or a folder with the models of an ensemble, from Python.

>>> from graphormer_plugin import hub
>>> predictor = hub.load("checkpoint_best.pt")        # doctest: +SKIP
>>> predictor.predict(["CCO", "c1ccccc1"]).shape      # doctest: +SKIP
(2, 1)
"""

from graphormer_plugin.components import paused_collector

with paused_collector():
    from graphormer_plugin.inference.loading import load
    from graphormer_plugin.inference.member import Member
    from graphormer_plugin.inference.predictor import Predictor

__all__ = ["Member", "Predictor", "load"]
