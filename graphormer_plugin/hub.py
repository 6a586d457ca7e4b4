"""Use a checkpoint from Python.

>>> from graphormer_plugin import hub
>>> predictor = hub.load("checkpoint_best.pt")        # doctest: +SKIP
>>> predictor.predict(["CCO", "c1ccccc1"]).shape      # doctest: +SKIP
(2, 1)
"""

from graphormer_plugin.inference.predictor import Predictor, load

__all__ = ["Predictor", "load"]
