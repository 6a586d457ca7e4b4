"""What importing this package imports, and what it defers."""

import subprocess
import sys

import numpy as np
import pytest
from fairseq.criterions import sentence_prediction
from scipy.stats import spearmanr
from sklearn.metrics import f1_score, roc_curve

from graphormer_plugin.compat.quick_imports import DEFERRED, deferred_modules

LATE = (
    *("fairseq", "hydra", "omegaconf", "torch_geometric"),
    *("sklearn", "pandas", "networkx", "matplotlib", "scipy"),
)


@pytest.mark.long  # starts processes
def test_commands_import_nothing_large_that_they_may_not_need():
    program = (
        "import gc, logging, sys, numpy, graphormer_plugin.cli._prediction; "
        "from graphormer_plugin.cli import train; train.build_parser(); "
        "from graphormer_plugin.estimators.kernels import KERNELS, Reference; "
        "raw = numpy.eye(3, dtype=numpy.uint8); "  # what a head reads
        "[Reference(block, raw).compare(raw) for block in KERNELS]; "
        f"print(*sorted({set(LATE)} & set(sys.modules)), gc.isenabled(), "
        "logging.root.level == logging.WARNING, logging.root.handlers)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True True []\n"


def test_fairseq_calls_what_was_deferred():
    labels, predicted = [1, 0, 1, 1], [1, 1, 0, 1]
    expected = f1_score(labels, predicted)
    assert sentence_prediction.f1_score(labels, y_pred=predicted) == expected


def test_deferred_functions_import_the_real_ones(monkeypatch):
    real = {name: sys.modules[name] for name in DEFERRED}
    for name in DEFERRED:
        monkeypatch.delitem(sys.modules, name)
    with deferred_modules():
        from scipy import stats as not_deferred  # scipy itself is there
        from scipy.stats import spearmanr as late_spearmanr
        from sklearn import metrics
    assert not set(DEFERRED) & set(sys.modules)
    for name, module in real.items():
        monkeypatch.setitem(sys.modules, name, module)
    assert not_deferred.spearmanr is spearmanr
    x, y = np.arange(5), np.array([0, 2, 1, 4, 3])
    assert late_spearmanr is not spearmanr
    assert late_spearmanr(x, y) == spearmanr(x, y)
    found = metrics.roc_curve(y > 1, score := x / 4)
    for one, other in zip(found, roc_curve(y > 1, score), strict=True):
        np.testing.assert_array_equal(one, other)


def test_deferred_modules_have_no_special_attributes(monkeypatch):
    for name in DEFERRED:
        monkeypatch.delitem(sys.modules, name)
    with deferred_modules(), pytest.raises(AttributeError, match="__file__"):
        print(sys.modules["sklearn"].__file__)
