"""examples/random_forest.py: a forest per target, and its line in the table."""

import dataclasses

import numpy as np
import random_forest
import summarise

from support.benchmark_files import REFUSED, SMILES, write_ogbg

LABELS = np.arange(len(SMILES) + 1)[:, None] // 10 % 2.0


def run(tmp_path, *words):
    results = tmp_path / "results.tsv"
    random_forest.main([*map(str, words), "--trees", "5", "--results", str(results)])
    return summarise.read_results(results) if results.exists() else []


def test_ogb(tmp_path, monkeypatch):
    """OGB's list of SMILES and splits: with a molecule that RDKit refuses; with missing
    labels, a target without positive ones, and average precision."""
    write_ogbg(tmp_path, "ogbg-molhiv", [*SMILES, REFUSED], LABELS)
    where = ("--data-root", tmp_path, "--dataset-name")
    (row,) = run(tmp_path, *where, "ogbg-molhiv")
    assert row["recipe"] == "molhiv/random_forest" and row["arch"] == "random_forest"
    assert row["metric"] == "roc_auc" and 0 <= float(row["value"]) <= 1
    assert int(row["parameters"]) >= 5 and row["updates"] == "0"
    rows = run(tmp_path, *where, "ogbg-molhiv", "--seed", 2)
    assert [row["seed"] for row in rows] == ["1", "2"]
    assert "| 2 |" in summarise.forests(rows)
    benchmark = dataclasses.replace(random_forest.MOLPCBA, tasks=8)
    monkeypatch.setitem(random_forest.BENCHMARKS, "ogbg-molpcba", benchmark)
    labels = np.repeat(LABELS[:-1], 8, axis=1)
    labels[::3, ::2] = np.nan
    labels[:, 5] = 0
    names = [f"task{number}" for number in range(8)]
    write_ogbg(tmp_path, "ogbg-molpcba", SMILES, labels, tasks=names)
    *_, row = run(tmp_path, *where, "ogbg-molpcba")
    assert row["metric"] == "ap" and 0 < float(row["value"]) <= 1


def test_csv(tmp_path):
    table = tmp_path / "mine.csv"
    lines = [f"{smiles},{len(smiles) % 2}" for smiles in SMILES]
    table.write_text("smiles,y\n" + "\n".join(lines) + "\n")
    words = ("--dataset-name", table, "--target-kind", "regression")
    (row,) = run(tmp_path, *words)
    assert (row["recipe"], row["source"]) == ("mine/random_forest", "random split")
    again = run(tmp_path, *words)[-1]
    assert row["metric"] == "rmse" and again["value"] == row["value"]


def test_negatives_that_train():
    """The released code's rule: 50,000, or 20 for each positive one."""
    labels = np.zeros(60_000)
    labels[:3000], labels[-10:] = 1, np.nan
    rows = random_forest.training_rows(labels, "binary", 1)
    assert len(rows) == 59_990  # 20 x 3,000 negatives may stay
    labels[1000:3000] = 0
    rows = random_forest.training_rows(labels, "binary", 1)
    assert len(rows) == 51_000 and (labels[rows] == 1).sum() == 1000
    assert len(random_forest.training_rows(labels, "regression", 1)) == 59_990
