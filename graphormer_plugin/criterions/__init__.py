"""Losses for graphs for ``--criterion``, which importing this package registers."""

import sys

from graphormer_plugin.components import import_modules
from graphormer_plugin.criterions.graph_criterion import (
    ClassCriterion,
    GraphCriterion,
    RegressionCriterion,
)

__all__ = ["ClassCriterion", "GraphCriterion", "RegressionCriterion"]

import_modules(sys.modules[__name__])
