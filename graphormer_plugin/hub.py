"""Use a checkpoint, or a folder with the models of an ensemble, from Python.

>>> from graphormer_plugin import hub
>>> predictor = hub.load("checkpoint_best.pt")        # doctest: +SKIP
>>> predictor.predict(["CCO", "c1ccccc1"]).shape      # doctest: +SKIP
(2, 1)
"""

from graphormer_plugin.inference.model_folder import EnsemblePredictor
from graphormer_plugin.inference.model_folder import load_any as load
from graphormer_plugin.inference.predictor import Predictor

__all__ = ["EnsemblePredictor", "Predictor", "load"]
