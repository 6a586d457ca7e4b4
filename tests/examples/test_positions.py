"""examples/positions: solvent.py from the files to the figures, and the rows for its peers."""

import json
import runpy
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from fairseq_cli import train as fairseq_train
from fairseq_cli import validate as fairseq_validate

from graphormer_plugin.data.sources import registry
from graphormer_plugin.data.sources.registry import DatasetSource
from graphormer_plugin.data.tables.options import DatasetOptions
from support.recipes import EXAMPLES
from support.springs import write_waters
from support.training import logged, run_once

ase = pytest.importorskip("ase", reason="pip install ase")
pytest.importorskip("ase.io", reason="pip install ase")
sys.path.append(str(EXAMPLES / "positions"))
import graphs_per_second  # noqa: E402
import peers  # noqa: E402
import rows  # noqa: E402
import solvent  # noqa: E402

MAIN = {
    "fairseq_cli.train": fairseq_train.cli_main,
    "fairseq_cli.validate": fairseq_validate.cli_main,
}
SMALL = "--embed-dim 8 --attention-heads 2 --gaussian-kernels 4 --log-format json"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folder with the results of `solvent.py`, and its logs."""
    folder = tmp_path_factory.mktemp("solvent")
    write_waters(folder / "waters.xyz")
    logs = []

    def run(program, check):
        more = "--log-format json" if logs else SMALL
        words = [*program[3:], *more.split()]
        logs.append(run_once(MAIN[program[2]], words))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "run", run)
        words = [str(folder / "waters.xyz")] * 2
        solvent.main([*words, "--out", str(folder / "out"), "--updates", "5"])
    return folder / "out", logs


def test_solvent(folder):
    """Every tenth frame of the first file chooses, the second file is tested."""
    out, (training, test) = folder
    assert logged(training, "valid")[-1]["valid_force_mae"] > 0
    assert logged(test, "test")[0]["test_force_mae"] > 0
    assert json.loads((out / "split.json").read_text())["valid"] == [*range(5, 64, 10)]


def test_rows_of_peers(folder, monkeypatch):
    """Targets without those of atoms, and near pairs, of graphs as of the file."""
    out, _ = folder
    (store,) = out.glob("stores/*/")
    words = [str(store), str(out / "rows.npz"), "--split", str(out / "split.json")]
    rows.main(words)
    frames = ase.io.read(out / "solvent.xyz", ":")
    names = "Z R idx_i idx_j idx_m n_atoms offsets".split()
    properties = SimpleNamespace(**{name: name for name in names})
    library = SimpleNamespace(properties=properties)
    monkeypatch.setattr(peers, "library", lambda: library)
    monkeypatch.setattr(peers, "CUTOFF", 1.3)
    found = peers.Rows(str(out / "rows.npz"))
    assert found.arrays["test"].tolist() == [*range(64, 128)]
    chosen = np.array([7, 64])
    batch = found.batch(chosen)
    atoms = [frames[row] for row in chosen]
    energies = batch["target"].numpy() * found.scale + found.offset[chosen]
    expected = [frame.get_potential_energy() for frame in atoms]
    np.testing.assert_allclose(energies, expected, rtol=1e-5)
    forces = np.concatenate([frame.get_forces() for frame in atoms])
    np.testing.assert_allclose(batch["true_forces"] * found.scale, forces, atol=1e-4)
    pairs = set()
    for first, frame in zip((0, len(atoms[0])), atoms):
        near = np.argwhere(frame.get_all_distances() < 1.3) + first
        pairs |= {(i, j) for i, j in near.tolist() if i != j}
    assert {*zip(batch["idx_i"].tolist(), batch["idx_j"].tolist())} == pairs
    assert batch["idx_m"].tolist() == [0] * len(atoms[0]) + [1] * len(atoms[1])


def test_graphs_per_second(folder, monkeypatch, capsys):
    """A line with weights and two rates for each model."""
    out, _ = folder
    (store,) = out.glob("stores/*/")
    ours = {"grpe_tiny": graphs_per_second.GAUSSIANS}
    monkeypatch.setattr(graphs_per_second, "OURS", ours)
    graphs_per_second.main([str(store), "", "--turns", "1", "--batch-size", "4"])
    header, line = capsys.readouterr().out.splitlines()
    name, *numbers = line.split("\t")
    assert name == "grpe_tiny" and all(int(number) > 0 for number in numbers)
    assert len(numbers) == 3 and header.count("\t") == 3


def test_a_part_of_qm9(monkeypatch):
    """Rows stay in their split, with their targets."""
    monkeypatch.setattr(registry, "DATASETS", {})
    part = runpy.run_path(str(EXAMPLES / "positions/datasets/qm9_part.py"))
    splits = {"train": range(0, 60), "valid": range(60, 80), "test": range(80, 100)}
    whole = DatasetSource(
        smiles=[str(row) for row in range(100)],
        targets=np.arange(100.0)[:, None],
        splits={name: np.array(ids) for name, ids in splits.items()},
    )
    names = part["qm9_part"].__globals__
    monkeypatch.setitem(names, "qm9", lambda options: whole)
    monkeypatch.setitem(names, "ROWS", {"train": 6, "valid": 2, "test": 3})
    found = part["qm9_part"](DatasetOptions("qm9_part"))
    assert [*map(float, found.smiles)] == found.targets[:, 0].tolist()
    for name, ids in found.splits.items():
        assert {int(found.smiles[row]) for row in ids} <= {*splits[name]}
    assert [len(ids) for ids in found.splits.values()] == [6, 2, 3]
