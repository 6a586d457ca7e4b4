"""The task energy_forces: a training on springs, its checkpoint, and wrong data."""

import csv
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch
from fairseq_cli import train as fairseq_train
from fairseq_cli import validate as fairseq_validate

from graphormer_plugin import hub
from graphormer_plugin.cli import predict
from graphormer_plugin.data.graphs.sources import Atoms
from support.springs import write_waters
from support.training import TINY, USER_DIR, error, logged, run, run_once  # noqa: F401

ase = pytest.importorskip("ase", reason="pip install ase")
build = pytest.importorskip("ase.build", reason="pip install ase")
io = pytest.importorskip("ase.io", reason="pip install ase")

pytestmark = pytest.mark.usefixtures("fresh_fairseq")

TRAINING = f"""--user-dir {USER_DIR} --task energy_forces --criterion energy_forces
    {TINY} --encoder-layers 2 --positions file --pair-encodings gaussians
    --gaussian-kernels 16 --gaussian-types sum --gaussian-node-factor 1
    --split random --optimizer adam --lr 1e-2 --lr-scheduler polynomial_decay
    --total-num-update 180 --dropout 0 --attention-dropout 0 --batch-size 8 --max-epoch 25 --cpu
    --best-checkpoint-metric force_mae --log-format json --num-workers 0
    --no-epoch-checkpoints --no-last-checkpoints"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Folder, frames and log of a training."""
    folder = tmp_path_factory.mktemp("springs")
    write_waters(folder / "springs.xyz")
    frames = io.read(folder / "springs.xyz", ":")
    words = shlex.split(TRAINING) + ["--dataset-name", str(folder / "springs.xyz")]
    words += ["--data-root", str(folder), "--save-dir", str(folder)]
    return folder, frames, run_once(fairseq_train.cli_main, words)


def test_training_lowers_both_errors(trained):
    *_, log = trained
    first, *_, last = logged(log, "valid")
    assert last["valid_mae_per_atom"] < 0.5 * first["valid_mae_per_atom"]
    assert last["valid_force_mae"] < 0.5 * first["valid_force_mae"]
    assert last["valid_force_cosine"] > max(0.8, first["valid_force_cosine"])


def test_predictor(trained, monkeypatch, tmp_path):
    """Energies have those of the atoms; forces are their slopes, and those of the log."""
    folder, frames, log = trained
    checkpoint = folder / "checkpoint_best.pt"
    words = f"--user-dir {USER_DIR} --task energy_forces --path {checkpoint} --cpu"
    words += f" --valid-subset valid --data-root {folder} --batch-size 3"
    words += f" --results-path {tmp_path} --log-format json --num-workers 0"
    (valid,) = logged(
        run(fairseq_validate.cli_main, words.split(), monkeypatch), "valid"
    )
    with open(tmp_path / "predictions_valid.csv") as file:
        lines = [*csv.DictReader(file)]
    predictor = hub.load(checkpoint).double()
    rows = [int(line["row"]) for line in lines]
    texts = [Atoms.of(frames[row].numbers, frames[row].positions) for row in rows]
    energies, forces = predictor.energies_and_forces(texts, batch_size=2)
    assert np.allclose(predictor.predict(texts)[:, 0], energies, rtol=0, atol=1e-9)
    true = [frames[row].get_potential_energy() for row in rows]
    assert np.abs(energies - true).max() < 1
    for energy, line in zip(energies, lines, strict=True):
        assert float(line["energy"]) == pytest.approx(energy, abs=1e-3)
    with open(tmp_path / "forces_valid.csv") as file:
        lines = [*csv.DictReader(file)]
    atoms = [(row, atom) for row in rows for atom in range(len(frames[row]))]
    assert [(int(line["row"]), int(line["node"])) for line in lines] == atoms
    labels = np.concatenate([frames[row].get_forces() for row in rows])
    for line, force, true in zip(lines, np.concatenate(forces), labels, strict=True):
        for axis, *numbers in zip("xyz", force, true):
            name = f"forces_{axis}"
            written = [float(line[name]), float(line[f"{name}_target"])]
            assert written == pytest.approx(numbers, abs=1e-4)
    errors = [f - frames[row].get_forces() for f, row in zip(forces, rows)]
    assert np.abs(np.concatenate(errors)).mean() == pytest.approx(
        valid["valid_force_mae"], abs=1e-3
    )
    numbers, pos = frames[rows[0]].numbers, frames[rows[0]].positions
    steps = [pos.copy(), pos.copy()]
    steps[0][1, 2] += 1e-3
    steps[1][1, 2] -= 1e-3
    high, low = predictor.predict([Atoms.of(numbers, step) for step in steps])[:, 0]
    assert (low - high) / 2e-3 == pytest.approx(forces[0][1, 2], abs=1e-3)


def test_what_the_training_had_not(trained, tmp_path, monkeypatch, capsys):
    """It is named by graphormer-predict and by fairseq-validate."""
    folder, frames, _ = trained
    checkpoint = str(folder / "checkpoint_best.pt")
    path = str(tmp_path / "tags.xyz")
    for atoms in frames[:20]:
        numbers = [16 if number == 8 else number for number in atoms.numbers]
        other = ase.Atoms(numbers, atoms.positions, tags=[0] * len(atoms))
        other.info["energy"] = 0.0
        other.arrays["forces"] = atoms.get_forces()
        io.write(path, other, append=True)
    predict.main([checkpoint, path, str(tmp_path / "o.csv"), "--quiet"])
    line = "no training molecule has S (in 20 molecules), tag 0 (in 20 molecules)"
    assert line in capsys.readouterr().err
    words = f"--user-dir {USER_DIR} --task energy_forces --path {checkpoint} --cpu"
    words += f" --dataset-name {path} --positions file --split random --batch-size 4"
    words += f" --valid-subset train --num-workers 0 --data-root {tmp_path}"
    log = run(fairseq_validate.cli_main, words.split(), monkeypatch)
    assert f"split train: {line.replace('20', '16')}" in log


def test_predictions_in_bohr_are_doubted(trained, tmp_path, capsys):
    folder, frames, _ = trained
    checkpoint = str(folder / "checkpoint_best.pt")
    for factor in (1, 1.8897):
        scaled = [ase.Atoms(a.numbers, a.positions * factor) for a in frames[:9]]
        path = tmp_path / f"{factor}.xyz"
        io.write(path, scaled)
        for unit in ("", "bohr") if factor > 1 else ("",):
            words = [checkpoint, str(path), f"{path}.{unit}.csv", "--quiet"]
            assert predict.main(words + ["--length-unit", unit] * bool(unit)) == 0
            assert ("in bohr?" in capsys.readouterr().err) == (factor > 1 and not unit)
    one, two = (
        pandas.read_csv(tmp_path / name)
        for name in ("1.xyz..csv", "1.8897.xyz.bohr.csv")
    )
    assert np.allclose(one.energy, two.energy, rtol=0, atol=1e-3)


@pytest.mark.parametrize("labelled", ["energy forces", "energy", ""])
def test_predictions_of_a_file(trained, labelled, tmp_path, monkeypatch, capsys):
    """A table has forces as lists, and xyz the frames of the input with both. Predicted
    energies and forces are called so together, also where one of them has no label."""
    folder, frames, _ = trained
    path = folder / "springs.xyz"
    ending = "_predicted" if labelled else ""
    if "forces" not in labelled:
        path = tmp_path / "bare.xyz"
        for atoms in frames[:5]:
            bare = ase.Atoms(atoms.numbers, atoms.positions, cell=[9] * 3, pbc=True)
            bare.info |= {"energy": 1.0} if labelled else {}
            io.write(path, bare, append=True)
    checkpoint = str(folder / "checkpoint_best.pt")
    monkeypatch.chdir(tmp_path)
    for output in ("out.csv", "out.xyz"):
        predict.main([checkpoint, str(path), output, "--quiet", "--batch-size", "3"])
    predicted = io.read("out.xyz", ":")
    texts = [Atoms.of(atoms.numbers, atoms.positions) for atoms in predicted]
    energies, forces = hub.load(checkpoint).energies_and_forces(texts)
    with open("out.csv") as file:
        lines = [*csv.DictReader(file)]
    assert len(lines) == len(predicted) == (64 if "forces" in labelled else 5)
    for number, (line, atoms) in enumerate(zip(lines, predicted)):
        assert (line["atoms"], line["reason"]) == (atoms.get_chemical_formula(), "")
        named = atoms.info | atoms.arrays | (atoms.calc.results if atoms.calc else {})
        for values in (line, named):
            energy = float(values[f"energy{ending}"])
            assert energy == pytest.approx(energies[number], abs=1e-3)
        listed = json.loads(line[f"forces{ending}"])
        assert np.allclose(listed, forces[number], rtol=0, atol=1e-5)
        assert np.allclose(named[f"forces{ending}"], forces[number], rtol=0, atol=1e-5)
        assert np.allclose(atoms.positions, frames[number].positions)
        if "forces" in labelled:
            assert np.allclose(atoms.get_forces(), frames[number].get_forces())
        else:
            assert atoms.pbc.all() and atoms.cell.volume == pytest.approx(729)
    predict.main([checkpoint, str(path), "large.csv", "--max-atoms", "1"])
    assert "column 'reason'\n" in capsys.readouterr().err  # and no other column


def test_the_calculator_of_the_page_relaxes_a_molecule(trained, tmp_path, monkeypatch):
    folder, *_ = trained
    page = (Path(USER_DIR).parent / "examples/positions/README.md").read_text()
    code = re.search(r"```python\n(import ase.*?)```", page, re.DOTALL)[1]
    (tmp_path / "forces").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(code, names)
    relaxed = names["atoms"]
    start = build.molecule("H2O", calculator=names["Learned"]())
    assert np.abs(relaxed.get_forces()).max() < 0.05 < np.abs(start.get_forces()).max()
    assert relaxed.get_potential_energy() < start.get_potential_energy()


def test_energies_of_atoms(trained):
    folder, *_ = trained
    targets = hub.load(folder / "checkpoint_best.pt").targets
    assert targets.node_vector.name == "forces" and targets.mean == [0]
    atoms = targets.atom_energies
    assert atoms[8] + 2 * atoms[1] == pytest.approx(-2020, abs=1)
    assert 0.2 < targets.std[0] < 2


def test_wrong_data(trained, tmp_path, monkeypatch, error):  # noqa: F811
    folder, *_ = trained
    xyz = folder / "springs.xyz"
    text = xyz.read_text().replace("forces:R:3", "velo:R:3")
    (tmp_path / "still.xyz").write_text(text)

    def refused(words, path=xyz):
        words = shlex.split(f"{TRAINING} --dataset-name {path} {words}")
        words += ["--data-root", str(tmp_path), "--save-dir", str(tmp_path / "new")]
        return error(run, fairseq_train.cli_main, words, monkeypatch)

    assert "no forces" in refused("", tmp_path / "still.xyz")
    rows = [line.split() for line in xyz.read_text().splitlines()]
    lines = [" ".join([*row[:6], "nan"] if len(row) == 7 else row) for row in rows]
    (tmp_path / "nan.xyz").write_text("\n".join([*lines, ""]))
    assert "training split are missing" in refused("", tmp_path / "nan.xyz")
    other = "--pair-encodings random_walks"
    plain = "--gaussian-kernels 128 --gaussian-types none --gaussian-node-factor 0"
    assert "does not read positions" in refused(f"{other} {plain}")
    assert "only works with pair_encodings gaussians" in refused(other)
    assert "which reads no" in refused("--encoder-layers 1 --gaussian-node-factor 0")
    assert "learns no vectors" in refused("--criterion l1_loss")
    assert "use --task" in refused("--task graph_prediction")
    assert "--energy-weight -1" in refused("--energy-weight -1")


def test_a_model_without_positions_has_no_forces():
    torch.manual_seed(0)
    predictor = hub.load("grpe_minimol")
    with pytest.raises(ValueError, match="that reads positions"):
        predictor.energies_and_forces(["CCO"])
