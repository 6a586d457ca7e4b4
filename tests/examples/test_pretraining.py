"""examples/pretraining: the table of descriptors that it makes of molecules."""

import csv
import gzip
import hashlib
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rdkit import Chem
from rdkit.Chem import Descriptors
from scipy.stats import norm, rankdata

from graphormer_plugin.data.graphs.start_molecules import has_seen, read_seen

sys.path.append(str(Path(__file__).parents[2] / "examples/pretraining"))

import blocks
import mixture
import prepare

STARTS = ["C", "NC", "CC(=O)O", "c1ccccc1", "N#CC", "O=C(N)C", "FC(F)(F)C", "BrC"]
SMILES = [start + "C" * more for start in STARTS for more in range(8)]
SMILES = [Chem.CanonSmiles(smiles) for smiles in SMILES]


@pytest.fixture
def sources(tmp_path):
    """A CSV with the molecules and one that is no molecule, and a list of repeats."""
    molecules = tmp_path / "molecules.csv"
    molecules.write_text("\n".join(["id,smiles", *(f"1,{s}" for s in SMILES), "2,C(C"]))
    repeats = tmp_path / "repeats.smi"
    repeats.write_text(f"{SMILES[3]} name\n\nC[NH3+].[Cl-] salt\nC[Hg]C metal\n")
    return [molecules, repeats]


def make(folder, sources, *more):
    judged = folder.parent / "judged.csv.gz"
    judged.write_bytes(gzip.compress(b"smiles,y\nCC(=O)[O-],1\nC(C,0\n"))
    words = [folder, *sources, "--leave-out", judged, *more]
    prepare.main([*map(str, words), "--valid-fraction", "0.3"])
    with gzip.open(folder / "molecules.csv.gz", "rt") as file:
        return list(csv.DictReader(file))


def test_table(tmp_path, sources):
    rows = make(tmp_path / "table", sources)
    # The salt and the repeat are there already; one molecule is judged.
    expected = [*dict.fromkeys(SMILES), "C[Hg]C"]
    expected.remove("CC(=O)O")
    assert [row["smiles"] for row in rows] == expected
    names = list(rows[0])[2:]
    targets = (tmp_path / "table/targets.txt").read_text().strip().split(",")
    assert targets == names and 90 < len(names) < 217
    assert 5 < sum(row["split"] == "valid" for row in rows) < 30
    # The training rows hold the normal scores of their ranks.
    train = [row for row in rows if row["split"] == "train"]
    weights = [Descriptors.MolWt(Chem.MolFromSmiles(row["smiles"])) for row in train]
    scores = norm.ppf((rankdata(weights) - 0.5) / len(train))
    assert [float(row["MolWt"]) for row in train] == pytest.approx(scores, abs=1e-4)


def test_scores_beyond_the_training_rows():
    values = np.array([0.0, 0.0, 1.0, 4.0, 9.0, -3.0, 2.5, np.inf, np.nan])
    train = np.arange(9) < 4
    scores = prepare.normal_scores(values, train)
    low, middle, high = norm.ppf([1 / 4, 5 / 8, 7 / 8])
    half = (middle + high) / 2
    expected = [low, low, middle, high, high, low, half, np.nan, np.nan]
    np.testing.assert_allclose(scores, expected, atol=1e-12)


def test_keys_leave_molecules_out(tmp_path, sources):
    """Whole, by the largest fragment or the ligand; with --leave-out beside them."""
    salt = "CCCCN.OS(=O)(=O)O"  # one key of the whole, one of the other salt's amine
    complexed = "CCCCCC(=O)O[Cu]OC(=O)CC"
    others = {salt: salt, "CCCCCN": "CCCCCN.Cl", "CCCCCC(=O)O": complexed}
    sources[1].write_text("\n".join(others.values()))
    keys = tmp_path / "keys.txt.gz"
    for smiles, left_out in others.items():
        key = prepare.first_block(Chem.MolFromSmiles(smiles))
        keys.write_bytes(gzip.compress(f"{key}\n".encode()))
        rows = make(tmp_path / key, sources[::-1], "--leave-out-keys", keys)
        found = {row["smiles"] for row in rows}
        assert found & {*others.values()} == {*others.values()} - {left_out}


def test_mixture(tmp_path):
    """Any first part has the shares; a repeat counts for the first source."""
    for start in "CNO":
        lines = [start + "C" * more for more in range(400)]
        (tmp_path / f"{start}.smi").write_text("\n".join([*lines, "", "CC"]))
    sources = [f"0.75={tmp_path}/C.smi", f"0.25={tmp_path}/N.smi,{tmp_path}/O.smi"]
    some, everything = tmp_path / "some.smi", tmp_path / "everything.smi"
    for path, most in ((some, "200"), (everything, "5000")):
        assert mixture.main([str(path), *sources, "--most", most]) == 0
    some, everything = (path.read_text().split() for path in (some, everything))
    assert everything[:200] == some
    assert len(everything) == len(set(everything)) == 1200
    assert 130 < sum(smiles.startswith("C") for smiles in some) < 170


def test_shares_of_the_loss(tmp_path, sources):
    """The sum of a block's squared targets is its share, as a model that predicts 0
    sees it."""
    sources[1].write_text("\n".join("C" * size + "F" for size in range(40)))
    folder = tmp_path / "table"
    smiles = [row["smiles"] for row in make(folder, sources)]
    # What a teacher would have written beside the table, and labels of the molecules.
    numbers = np.random.default_rng(1).normal(size=(len(smiles), 512))
    numbers[3] = np.nan  # refused by the teacher
    name = hashlib.blake2b("\n".join(smiles).encode(), digest_size=12).hexdigest()
    (folder / "teacher").mkdir()
    np.save(folder / f"teacher/{name}.npy", numbers.astype(np.float16))
    lines = [f"a,ppb_reg,{text},{0.9 + at / 1e3}" for at, text in enumerate(smiles)]
    lines += [f"a,rare,{smiles[0]},1", f"a,ppb_reg,{smiles[0]},0.91"]
    labels = tmp_path / "labels.csv"
    labels.write_text("\n".join(["source,endpoint,smiles,value", *lines]))
    assert blocks.main([str(folder), "--labels", str(labels)]) == 0
    table = pd.read_parquet(folder / "blocks.parquet")
    mols = [Chem.MolFromSmiles(text) for text in table.smiles]
    seen = has_seen(read_seen(folder / "start.seen.npy"), mols)
    assert np.array_equal(seen == "label", table.split == "train")
    names = (folder / "blocks.txt").read_text().strip().split(",")
    assert [*table.columns] == ["smiles", "split", *names]
    assert table.smiles.tolist() == smiles
    values = table[table.split == "train"]
    minimol, label = values.filter(like="minimol_"), values["a_ppb_reg"]
    assert minimol.pow(2).sum(axis=None) / len(values) == pytest.approx(300, rel=1e-4)
    assert label.pow(2).mean() == pytest.approx(150, rel=1e-4)
    assert "a_rare" not in names  # too few labels
    assert table.filter(like="minimol_").iloc[3].isna().all()
