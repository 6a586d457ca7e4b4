"""The model that comes with the package."""

import argparse
from pathlib import Path

import numpy as np
import pytest

from graphormer_plugin import hub
from graphormer_plugin.cli import convert
from graphormer_plugin.compat.command_line import check_paths
from graphormer_plugin.inference.checkpoint import (
    DEFAULT_START,
    packaged_models,
    read_checkpoint,
)
from graphormer_plugin.inference.model_folder import models_named
from graphormer_plugin.published.names import find_file, load_pretrained
from graphormer_plugin.workbench.experiment.settings import Settings
from graphormer_plugin.workbench.experiment.starts import find_start
from graphormer_plugin.workbench.fitting.fit_gp import fit_gp
from graphormer_plugin.workbench.predictions.arrow import TablePredictor


def test_the_default_start_joins_its_parts():
    """The parts are the virtual node, the mean of the nodes and the outputs."""
    predictor = hub.load(DEFAULT_START)
    smiles = ["CCO", "c1ccccc1C(=O)N", "C[N+](C)(C)C"]
    vectors = predictor.embed(smiles)
    assert vectors.shape == (3, 256 + 256 + 558)
    nodes = predictor.embed(smiles, nodes=True)
    assert [len(x) for x in nodes] == [3, 9, 5]
    parts = [predictor.embed(smiles, layers=1), [x.mean(0) for x in nodes]]
    joined = np.concatenate([*parts, predictor.predict(smiles)], 1)
    np.testing.assert_allclose(vectors, joined, rtol=1e-4, atol=1e-4)
    assert packaged_models()[DEFAULT_START].stat().st_size < 15_000_000


def test_commands_take_the_name(tmp_path, capsys):
    assert convert.main(["--info", DEFAULT_START]) == 0
    assert "architecture: grpe_small\n" in capsys.readouterr().out
    assert convert.main(["--slim", DEFAULT_START, str(tmp_path / "slim.pt")]) == 0
    for flag in ("--path", "--finetune-from-model"):
        arguments = argparse.Namespace(**{flag[2:].replace("-", "_"): DEFAULT_START})
        check_paths(arguments)
        assert str(packaged_models()[DEFAULT_START]) in vars(arguments).values()


def test_fine_tuning_and_heads_take_the_name():
    assert load_pretrained(DEFAULT_START).options["_name"] == "grpe_small"
    predictor = hub.load(DEFAULT_START)
    smiles = [f"{'C' * number}{end}" for number in range(1, 9) for end in "ONF"]
    vectors = predictor.embed(smiles)
    labels = vectors[:, 0].copy()
    labels[3] = np.nan  # its molecule is left out
    head = fit_gp(DEFAULT_START, smiles, labels, blocks=["vectors"])
    found = head.predict_features({"vectors": vectors}).values[:, 0]
    assert np.corrcoef(found, vectors[:, 0])[0, 1] > 0.9


def test_a_file_of_that_name_is_given_as_a_path(tmp_path, monkeypatch):
    """A planted file or folder in the current folder does not take the model's place."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRAPHORMER_DATA_ROOT", str(tmp_path))
    Path("pretrained").mkdir()
    Path("pretrained", f"{DEFAULT_START}.pt").touch()
    for make in (Path.touch, lambda path: path.unlink() or path.mkdir()):
        make(Path(DEFAULT_START))
        start = find_start(Settings("a.csv", "out"))
        named = find_start(Settings("a.csv", "out", start=DEFAULT_START))
        assert start == named and start.name == DEFAULT_START
        assert start.path == packaged_models()[DEFAULT_START]
        assert find_file(DEFAULT_START) == start.path
        assert models_named([DEFAULT_START]).checkpoints == [start.path]
        assert read_checkpoint(DEFAULT_START).arch == "grpe_small"
        assert TablePredictor(DEFAULT_START).checkpoint == DEFAULT_START
        path = str(tmp_path / DEFAULT_START)
        assert TablePredictor(f"./{DEFAULT_START}").checkpoint == path
        for name in (f"./{DEFAULT_START}", Path(DEFAULT_START)):
            with pytest.raises((OSError, ValueError), match="cut off|folder"):
                hub.load(name)
        with pytest.raises((OSError, ValueError), match="cut off|folder"):
            find_start(Settings("a.csv", "out", start=f"./{DEFAULT_START}"))
    with pytest.raises(OSError, match="no such file"):
        find_start(Settings("a.csv", "out", start="./none"))


def test_holds_no_path_of_a_machine():
    state = read_checkpoint(DEFAULT_START).state
    assert not state["last_optimizer_state"]
    assert "/root" not in repr({k: v for k, v in state.items() if k != "model"})
