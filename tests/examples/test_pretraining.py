"""examples/pretraining: the table of descriptors that it makes of molecules."""

import csv
import gzip
import hashlib
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from rdkit import Chem
from rdkit.Chem import Descriptors
from scipy.stats import norm, rankdata

sys.path.append(str(Path(__file__).parents[2] / "examples/pretraining"))

import blocks
import judge
import mixture
import prepare

from graphormer_plugin.data.datasets.csv_file import csv_dataset
from graphormer_plugin.data.options import DatasetOptions

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
    judged = tmp_path / "judged.csv.gz"
    judged.write_bytes(gzip.compress(b"smiles,y\nCC(=O)[O-],1\nC(C,0\n"))
    return SimpleNamespace(found=[molecules, repeats], judged=judged)


def make(folder, sources, *more):
    words = [folder, *sources.found, "--leave-out", sources.judged, *more]
    prepare.main([*map(str, words), "--valid-fraction", "0.3"])
    with gzip.open(folder / "molecules.csv.gz", "rt") as file:
        return list(csv.DictReader(file))


def test_table(tmp_path, sources):
    rows = make(tmp_path / "table", sources)
    smiles = [row["smiles"] for row in rows]
    assert len(smiles) == len(set(smiles)) and "CC(=O)O" not in smiles
    assert smiles[-1] == "C[Hg]C"  # the salt and the repeat are there already
    expected = list(dict.fromkeys(SMILES))
    assert smiles[:-1] == [one for one in expected if one != "CC(=O)O"]
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
    """Whole or by the largest fragment; with --leave-out beside them."""
    salt = "CCCCN.OS(=O)(=O)O"  # in the source; one key of the whole, one of the amine
    sources.found[1].write_text(f"{salt}\nCCCCCN.Cl\n")
    whole = prepare.first_block(Chem.MolFromSmiles(salt))
    amine = prepare.first_block(Chem.MolFromSmiles("CCCCCN"))
    keys = tmp_path / "keys.txt.gz"
    sources.found = sources.found[::-1]
    for key, left in {whole: salt, amine: "CCCCCN.Cl"}.items():
        keys.write_bytes(gzip.compress(f"{key}\n".encode()))
        rows = make(tmp_path / key, sources, "--leave-out-keys", keys)
        found = {row["smiles"] for row in rows}
        assert left not in found and {salt, "CCCCCN.Cl"} - {left} < found
    keys.write_bytes(gzip.compress(b"CCO\n"))
    with pytest.raises(ValueError, match="'CCO' is not"):
        prepare.read_keys(keys)


def test_mixture(tmp_path):
    """Any first part has the shares; a repeat counts for the first source."""
    names = {"a": "C", "b": "N", "c": "O"}
    for name, start in names.items():
        lines = [start + "C" * more for more in range(400)]
        (tmp_path / f"{name}.smi").write_text("\n".join([*lines, "", "CC"]))
    files = [f"{tmp_path}/{name}.smi" for name in names]
    sources = [f"0.75={files[0]}", f"0.25={files[1]},{files[2]}"]
    lists = []
    for most in ("40", "200", "5000"):
        assert mixture.main([f"{tmp_path}/{most}.smi", *sources, "--most", most]) == 0
        lists.append((tmp_path / f"{most}.smi").read_text().split())
    few, some, everything = lists
    assert some[:40] == few and everything[:200] == some
    assert len(everything) == len(set(everything)) == 1200
    assert 130 < sum(smiles.startswith("C") for smiles in some) < 170


def test_shares_of_the_loss(tmp_path, sources):
    """The sum of a block's squared targets is its share, as a model that predicts 0
    sees it."""
    sources.found[1].write_text("\n".join("C" * size + "F" for size in range(40)))
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
    words = [str(folder), "--labels", str(labels)]
    assert blocks.main(words) == 0
    table = pd.read_parquet(folder / "blocks.parquet")
    names = (folder / "blocks.txt").read_text().strip().split(",")
    assert [*table.columns] == ["smiles", "split", *names]
    assert table.smiles.tolist() == smiles
    values = table[table.split == "train"]
    minimol = values.filter(like="minimol_").to_numpy()
    assert np.nansum(minimol**2) / len(values) == pytest.approx(300, rel=1e-4)
    label = values["a_ppb_reg"].to_numpy()
    assert (label**2).mean() == pytest.approx(150, rel=1e-4)
    assert "a_rare" not in names  # too few labels
    assert table.filter(like="minimol_").iloc[3].isna().all()
    options = {"name": f"{folder}/blocks.parquet", "target_columns": tuple(names)}
    read = csv_dataset(DatasetOptions(**options)).targets
    np.testing.assert_array_equal(read, table[names].to_numpy())
    words += ["--shares", "teacher=1", "labels=2", "--output", "few"]
    assert blocks.main(words) == 0
    few = pd.read_parquet(folder / "few.parquet")
    assert len(few.columns) == 2 + 513
    assert few.a_ppb_reg.to_numpy() == pytest.approx(2 * table.a_ppb_reg.to_numpy())


def test_better_vectors_have_smaller_errors(tmp_path):
    """Labels are the first of the vectors and a little noise; test rows have absurd ones."""
    rng = np.random.default_rng(1)
    molecules = ["C" * size + end for size in range(1, 16) for end in "ONFS"]
    vectors = {name: rng.normal(size=(len(molecules), 3)) for name in ("good", "noise")}
    labels = vectors["good"][:, 0] + 0.05 * rng.normal(size=len(molecules))
    lines = [f"{s},{y},train" for s, y in zip(molecules, labels, strict=True)]
    lines.append("CCCCCCN,1e9,test")
    for name in judge.DEVELOPMENT:
        text = "\n".join(["smiles,y,split", *lines])
        (tmp_path / f"{name}.csv").write_text(text)
    names = [*judge.BIOGEN, "other"]
    rows = [f"{line},{name}" for name in names for line in lines]
    biogen = tmp_path / "biogen.csv"
    biogen.write_text("\n".join(["smiles,y,split,endpoint", *rows]))
    sets = judge.training_rows(tmp_path, biogen)
    assert [*sets] == [*judge.DEVELOPMENT, *judge.BIOGEN]
    assert all(smiles == molecules and max(y) < 9 for smiles, y in sets.values())
    two = dict([*sets.items()][-2:])
    errors = [
        [*judge.judge(two, np.tile(v, (2, 1))).values()] for v in vectors.values()
    ]
    assert len(errors[0]) == 2 * 3 and max(errors[0]) < 0.5 < min(errors[1]) < 1.5
