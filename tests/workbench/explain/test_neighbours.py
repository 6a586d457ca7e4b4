import csv
import json

import numpy as np
import pytest
from rdkit import Chem

from graphormer_plugin.data.graphs.smiles import OGBFeaturiser
from graphormer_plugin.workbench.explain.neighbours import TrainingMolecules

ROWS = [
    ["CCO", "ethanol", "1.5"],
    ["CCCO", "propanol", ""],
    ["CCCCO", "butanol", "3.0"],
    ["CCCCCO", "pentanol", "9.0"],
    ["c1ccccc1", "benzene", "-4.0"],
    ["CCCl", "test", "2.0"],
    ["OCC", "again", "1.25"],
]
SPLIT = {"train": [0, 1, 2, 3], "valid": [4, 6], "test": [5]}


@pytest.fixture
def checkpoints(tmp_path):
    """Where models of two replicates lie; the second has one training molecule more."""
    with open(tmp_path / "molecules.csv", "w", newline="") as file:
        csv.writer(file).writerows([["smiles", "name", "y"], *ROWS])
    paths = []
    for number, split in enumerate([SPLIT, SPLIT | {"train": [5], "test": []}], 1):
        folder = tmp_path / f"replicate{number}"
        folder.mkdir()
        (folder / "split.json").write_text(json.dumps(split))
        paths.append(folder / "head1/checkpoint_best.pt")
    return paths


def nearest(training, smiles, *among):
    """Titles, with the unit K."""
    mol = Chem.MolFromSmiles(smiles)
    return [panel.title for panel in training.nearest(mol, "K", *among)]


def test_molecules_of_the_models(checkpoints):
    """Labelled rows of train and valid, of the named models alone."""
    names = ["ethanol", "butanol", "pentanol", "benzene", "again"]
    training = TrainingMolecules(checkpoints[:1], "y", OGBFeaturiser())
    assert training.names == names and len(training.mols) == 5
    both = TrainingMolecules(checkpoints, "y", OGBFeaturiser())
    assert {*both.names} == {*names, "test"}


def test_nearest(checkpoints):
    training = TrainingMolecules(checkpoints[:1], "y", OGBFeaturiser())
    # 5 of 14 environments are in ethanol and butanol, 5 of 17 in ethanol and pentanol.
    assert nearest(training, "OCC") == [
        "ethanol: 1.5 K, similarity 1.00",
        "again: 1.25 K, similarity 1.00",
        "butanol: 3.0 K, similarity 0.36",
        "pentanol: 9.0 K, similarity 0.29",
    ]
    panel, *_ = training.nearest(Chem.MolFromSmiles("Cc1ccccc1"), "")
    assert panel.title.startswith("benzene: -4.0, similarity 0.")
    assert Chem.MolToSmiles(panel.mol) == "c1ccccc1" and panel.values is None
    training.names = [""] * 5
    assert nearest(training, "CCO")[0] == "1.5 K, similarity 1.00"


def test_another_outcome(checkpoints):
    training = TrainingMolecules(checkpoints[:1], "y", OGBFeaturiser())
    far = training.other_outcome(1.5)  # the standard deviation is 4.16
    assert far.tolist() == [False, False, True, True, False]
    pentanol, benzene = nearest(training, "CCO", far)
    assert pentanol.startswith("pentanol: 9.0") and benzene.startswith("benzene: -4")
    training.labels = np.array([">1.5", "1.0-2.0", "1.5", "<9.0", "-4.0"])
    assert training.other_outcome(1.5).tolist() == [False] * 3 + [True] * 2
    training.labels = np.array(["active", "inactive", "active", "inactive", "active"])
    other = training.other_outcome("active")
    assert other.tolist() == [False, True, False, True, False]


def test_salts_count_without_their_ions(checkpoints, tmp_path):
    text = (tmp_path / "molecules.csv").read_text().replace("CCCCO,", "CCCCO.[Na+],")
    (tmp_path / "molecules.csv").write_text(text)
    for is_partial in (False, True):
        featuriser = OGBFeaturiser(False, is_partial)
        training = TrainingMolecules(checkpoints[:1], "y", featuriser)
        first, *_ = nearest(training, "CCCCO")
        assert first.startswith("butanol") and ("1.00" in first) == is_partial


def test_a_model_outside_of_an_experiment(tmp_path):
    training = TrainingMolecules([tmp_path / "a/b/checkpoint.pt"], "y", OGBFeaturiser())
    assert not training.mols and nearest(training, "CCO") == []
    assert training.other_outcome(1.0).tolist() == []
