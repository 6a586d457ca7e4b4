"""graphormer-train with positions of atoms."""

import json
from pathlib import Path

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import rdDistGeom

from graphormer_plugin.cli import predict
from graphormer_plugin.cli.train import main
from graphormer_plugin.workbench.experiment.training import distance_options
from support.labelled_molecules import undrawn
from support.tables import rows

QUICK = "--split random --trees 5 --device cpu --quiet".split()
SMILES = "CCCO CCCN CCCCl OCCO CC(=O)OC c1ccccc1CO CCOCC CC(C)CO FCCF CCSC NCCO CCCBr"


@pytest.fixture
def molecules(tmp_path, monkeypatch):
    """A file with two conformers of each molecule, in the current folder."""
    monkeypatch.chdir(tmp_path)
    with Chem.SDWriter("mols.sdf") as file:
        for seed in (1, 2):
            for smiles in SMILES.split():
                mol = Chem.AddHs(Chem.MolFromSmiles(smiles))
                rdDistGeom.EmbedMolecule(mol, randomSeed=seed)
                size = np.ptp(mol.GetConformer().GetPositions(), axis=0).max()
                mol.SetProp("size", f"{size:.3f}")
                file.write(mol)
    return ["mols.sdf", "--positions", "file", "--out", "model", *QUICK]


def test_a_model_of_mol_blocks(quick, molecules):
    """The model reads conformers, and its folder those of a file; trees read molecules."""
    more = "--model scratch --arch grpe_tiny --epochs 2 --batch-size 4".split()
    with undrawn():
        assert main([*molecules, *more]) == 0
    commands = Path("model/commands.sh").read_text()
    assert "--positions file" in commands and "--pair-encodings gaussians" in commands
    assert predict.main(["model", "mols.sdf", "out.csv", "--quiet"]) == 0
    found = rows("out.csv")
    first, second = found[:12], found[12:]
    predictions = {float(line["size"]): line["size_predicted"] for line in found}
    assert len({*predictions.values()}) > 20 and "" not in predictions.values()
    assert [line["smiles"] for line in first] == [line["smiles"] for line in second]
    assert all("[H]" not in line["smiles"] for line in found)
    trees = {}
    for split in ("train", "valid", "test"):
        for line in rows(f"model/predictions_{split}.csv"):
            value = float(predictions[float(line["size"])])
            assert float(line["size_predicted"]) == pytest.approx(value, abs=1e-5)
            if split == "test":
                trees.setdefault(line["smiles"], set()).add(line["size_trees"])
    assert trees and all(len(values) == 1 for values in trees.values())
    best = "model/replicate1/scratch1/checkpoint_best.pt"
    with undrawn():
        words = ["--out", "head", "--model", "head", "--start", best]
        assert main([*molecules, *words]) == 0
    assert predict.main(["head", "mols.sdf", "head.csv", "--quiet"]) == 0
    found = [line["size_predicted"] for line in rows("head.csv")]
    assert len({*found}) > 20


def test_trees_read_none(molecules, capsys):
    with undrawn():
        assert main([*molecules, "--model", "trees"]) == 0
    assert "warning: --positions: trees, and heads of" in capsys.readouterr().err
    settings = json.loads(Path("model/settings.json").read_text())
    assert settings["positions"] == "none" and settings["canonical_smiles"]


def test_options_of_architectures():
    assert distance_options("cgt_zinc") == {"pair_encodings": "gaussians"}
    assert distance_options("gt_zinc") == {"length_kernels": 32}
    assert distance_options("graphormer3d_small") == {}
