"""Search of the options of a training."""

import json
import sys

import pytest

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.experiment import search as searching
from graphormer_plugin.experiment.scores import Metric
from graphormer_plugin.experiment.settings import Training

BASE = Training(lr=1e-3, epochs=3, patience=2)


def search(folder, trials, train, rises=False, begin=lambda trials: None, **more):
    options = {"seed": 1, "keep_lr": False, "freezes": True, **more}
    metric = Metric("rmse", rises)
    return searching.search(folder, BASE, trials, metric, train, begin, **options)


def write_log(folder, values):
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"epoch": 1, "valid_rmse": str(value), "valid_num_updates": number})
        for number, value in enumerate(values)
    ]
    (folder / "train.log").write_text("\n".join(lines))


@pytest.fixture
def train(tmp_path):
    """Writes the log of a training that is best without dropout and frozen layers."""
    tried = []

    def train(options, name):
        if len(tried) == 3 and not getattr(train, "killed", False):
            train.killed = True
            raise KeyboardInterrupt
        tried.append(options)
        rmse = 1 + options.dropout + options.frozen
        write_log(tmp_path / name, [rmse + 1, rmse])
        (tmp_path / name / "checkpoint_best.pt").touch()

    train.tried = tried
    return train


def test_the_best_options_of_all_trials_also_after_a_kill(tmp_path, train):
    with pytest.raises(KeyboardInterrupt):
        search(tmp_path, 8, train)
    left = []
    found = search(tmp_path, 8, train, begin=left.append)
    assert len(train.tried) == 8 and left == [5]
    assert found == min(train.tried, key=lambda one: one.dropout + one.frozen)
    assert (found.epochs, found.patience) == (BASE.epochs, BASE.patience)
    assert all(1e-4 <= one.lr <= 1e-2 for one in train.tried)
    assert not list(tmp_path.glob("trials/*/*.pt"))
    assert search(tmp_path, 8, train) == found and len(train.tried) == 8
    folders = sorted(path.name for path in tmp_path.glob("trials/trial?"))
    assert folders == [f"trial{number}" for number in range(1, 9)]
    killed, train.tried[:] = list(train.tried), []
    (tmp_path / "trials").rename(tmp_path / "before")
    assert search(tmp_path, 8, train) == found and train.tried == killed


def test_what_is_not_varied(tmp_path, train):
    train.killed = True
    found = search(tmp_path, 4, train, True, keep_lr=True, freezes=False)
    assert {one.lr for one in train.tried} == {BASE.lr} and found.frozen == 0
    assert found.dropout == max(one.dropout for one in train.tried)


@pytest.mark.parametrize("rises", [False, True])
def test_trials_that_fail_are_the_worst(tmp_path, rises):
    """Each counts, so that a search ends; values that are not finite do not count."""
    logs = [["nan"], [], DatasetError("gradients are Nan/Inf"), ["nan", 2, 1], [3, 4]]
    tried = []

    def train(options, name):
        tried.append(options)
        found = logs[len(tried) - 1]
        if isinstance(found, Exception):
            write_log(tmp_path / name, [0, 9])  # before it failed
            raise found
        write_log(tmp_path / name, found)

    best = search(tmp_path, 5, train, rises)
    assert best == tried[4 if rises else 3] and len(tried) == 5
    tried.clear()
    (tmp_path / "trials").rename(tmp_path / "before")
    for _ in range(2):
        with pytest.raises(DatasetError, match="all 3 trials failed, see .*trial1/tra"):
            search(tmp_path, 3, train, rises)
        assert len(tried) == 3


def test_without_optuna(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(DatasetError, match=r"pip install 'graphormer-plugin\[hpopt\]'"):
        searching.optuna_module()
