"""Search of the options of a training."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from tqdm import tqdm

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.workbench.experiment import search as searching
from graphormer_plugin.workbench.experiment.settings import FINETUNE, TRAININGS
from support.labelled_molecules import experiment_of, molecules_of

BASE = TRAININGS[FINETUNE]


@pytest.fixture
def search(tmp_path, monkeypatch):
    """Function: search with a training that has the metric of a function. Its attributes
    are the options that were tried, and the warnings."""
    arguments = lambda tried, member: {"trial": tried.tuned_training}  # noqa: E731
    monkeypatch.setattr(searching, "fairseq_arguments", arguments)

    def search(trials, values_of, rises=False, start=True, **options):
        def train(tried, line):
            found = values_of(len(search.tried), line["trial"])
            search.tried.append(line["trial"])
            folder = search.folder / line["save_dir"]
            folder.mkdir(parents=True, exist_ok=True)
            failed = isinstance(found, Exception)
            lines = [
                json.dumps(
                    {"epoch": 1, "valid_num_updates": x, f"valid_{name}": str(y)}
                )
                for x, y in enumerate([0, 9] if failed else found)
            ]
            (folder / "train.log").write_text("\n".join(lines))
            (folder / "checkpoint_best.pt").touch()
            if failed:
                raise found

        monkeypatch.setattr(searching, "train", train)
        kind, name = ("multiclass", "accuracy") if rises else ("regression", "rmse")
        table = molecules_of(np.arange(4.0)[:, None], kind=kind)
        split = dict.fromkeys(("train", "valid", "test"), np.arange(4))
        experiment = experiment_of(
            table, [split], search.folder, trials=trials, **options
        )
        bar = tqdm(disable=True, total=0)
        more = {} if start else {"start": None}
        changed = replace(experiment, warn=search.warned.append, bar=bar, **more)
        return searching.search(changed)

    search.folder, search.tried, search.warned = tmp_path, [], []
    return search


def best_without(number, options):
    """A training that is best without dropout and frozen layers."""
    rmse = 1 + options.dropout + options.frozen
    return [rmse + 1, rmse]


def test_the_best_options_of_all_trials_also_after_a_kill(search, tmp_path):
    def killed(number, options):
        if number == 2:
            raise KeyboardInterrupt
        return best_without(number, options)

    with pytest.raises(KeyboardInterrupt):
        search(5, killed)
    assert len(search.tried) == 2
    best = search(5, best_without)
    assert len(search.tried) == 5
    assert best == min(search.tried, key=lambda one: one.dropout + one.frozen)
    assert (best.epochs, best.patience) == (BASE.epochs, BASE.patience)
    assert all(1e-4 <= one.lr <= 1e-2 for one in search.tried)
    assert len({one.lr for one in search.tried}) == 5  # a seed each
    assert not list(tmp_path.glob("trials/*/*.pt"))
    folders = sorted(path.name for path in tmp_path.glob("trials/trial?"))
    assert folders == [f"trial{number}" for number in range(1, 6)]
    before, search.tried[:] = list(search.tried), []
    (tmp_path / "trials").rename(tmp_path / "before")
    for _ in range(2):  # anew, then from the database
        assert search(5, best_without) == best and search.tried == before


def test_folders_whose_names_mean_something_in_a_url(search, tmp_path):
    """Each has its own database."""
    names = ["a", "a%20b", "a?b", "a?c"]
    for name in names:
        search.folder = tmp_path / name
        search.folder.mkdir()
        search.tried.clear()
        search(1, best_without)
        assert len(search.tried) == 1 and (search.folder / "trials/trials.db").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_what_is_not_varied(search):
    more = {"start": False, "model": "scratch"}
    found = search(4, best_without, rises=True, lr=0.5, **more)
    assert {one.lr for one in search.tried} == {0.5} and found.frozen == 0
    assert found.dropout == max(one.dropout for one in search.tried)


def test_trials_that_fail_are_the_worst(search, tmp_path):
    """Each counts, so that a search ends; values that are not finite do not count."""
    logs = [["nan"], [], DatasetError("gradients are Nan/Inf"), ["nan", 2, 1], [3, 4]]
    best = search(5, lambda number, _: logs[number], rises=True)
    assert best == search.tried[4] and len(search.tried) == 5
    assert search.warned == ["trials/trial3 failed: gradients are Nan/Inf"]
    search.tried.clear()
    (tmp_path / "trials").rename(tmp_path / "before")
    for _ in range(2):
        with pytest.raises(DatasetError, match="all 3 trials failed, see .*trial1/tra"):
            search(3, lambda number, _: logs[number])
        assert len(search.tried) == 3


def test_without_optuna(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(DatasetError, match=r"pip install 'graphormer-plugin\[hpopt\]'"):
        searching.optuna_module()
