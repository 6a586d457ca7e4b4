"""Energies of the elements, fitted to labels."""

import shlex

import numpy as np
import pytest
from fairseq_cli import train as fairseq_train

from graphormer_plugin import hub
from graphormer_plugin.data import DatasetOptions, get_store
from graphormer_plugin.tasks._elements import targets_of_task
from support.springs import write_waters
from support.training import TINY, USER_DIR, logged, run

io = pytest.importorskip("ase.io", reason="pip install ase")


@pytest.fixture
def waters(tmp_path):
    """Frames with a gap beside the energy."""
    write_waters(tmp_path / "springs.xyz")
    frames = io.read(tmp_path / "springs.xyz", ":")
    for number, atoms in enumerate(frames):
        atoms.info["gap"] = 5 + number % 7 / 3
    io.write(tmp_path / "a.xyz", frames, format="extxyz")
    return frames


def prepared(folder, target):
    given = {"positions": "file", "target_columns": target, "progress": False}
    options = DatasetOptions(name=str(folder / "a.xyz"), data_root=str(folder), **given)
    return get_store(options)


@pytest.mark.parametrize(
    "target, choice, subtracts",
    [
        ("energy", "", True),
        ("energy", "no", False),
        ("gap", "", False),
        ("gap", "yes", True),
    ],
)
def test_targets(waters, tmp_path, target, choice, subtracts):
    """Energies that the elements explain are extensive; others wait to be asked."""
    store = prepared(tmp_path, target)
    targets = targets_of_task(store, choice)
    assert bool(targets.atom_energies) == subtracts
    if target == "energy" and subtracts:
        energies = targets.atom_energies
        assert energies[8] + 2 * energies[1] == pytest.approx(-2020, abs=1)
        assert targets.std[0] < store.targets.std[0] / 20
    both = prepared(tmp_path, ["energy", "gap"])
    assert targets_of_task(both, "") == both.targets
    with pytest.raises(ValueError, match="energy, gap, expected one number"):
        targets_of_task(both, "yes")


def test_a_training(waters, tmp_path, monkeypatch):
    """Errors of the log are those of whole energies, which the predictor has."""
    words = f"""--user-dir {USER_DIR} --task graph_prediction --criterion l1_loss {TINY}
        --dataset-name {tmp_path}/a.xyz --positions file --target-columns energy
        --pair-encodings gaussians --gaussian-kernels 8 --optimizer adam --lr 1e-3 --cpu
        --batch-size 8 --max-epoch 1 --data-root {tmp_path} --save-dir {tmp_path}/m
        --log-format json --num-workers 0 --best-checkpoint-metric mae"""
    (valid,) = logged(
        run(fairseq_train.cli_main, shlex.split(words), monkeypatch), "valid"
    )
    predictor = hub.load(tmp_path / "m" / "checkpoint_best.pt")
    frames = [waters[row] for row in prepared(tmp_path, "energy").splits["valid"]]
    errors = predictor.predict(frames)[:, 0] - [
        a.get_potential_energy() for a in frames
    ]
    assert np.abs(errors).mean() == pytest.approx(valid["valid_mae"], abs=1e-3)
    assert valid["valid_mae"] < 2
