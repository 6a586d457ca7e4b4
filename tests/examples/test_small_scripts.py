"""examples/gap_table.py, plot_training.py, random_forest.py and the scripts
of fidelity."""

import csv
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import gap_table
import numpy as np
import plot_training
import pytest
import random_forest
import summarise
from fidelity import curves, differences

from support.benchmark_files import REFUSED, SMILES, write_ogbg

# Rows of PCQM4Mv2 with the hydrogens of its 3D structures, and as a table here has them.
FOLDED = {
    r"[H]C1C2=C(NC(=O)[C@@]1([H])C1=C([H])C([H])=C(C([H])([H])[H])C([H])=C1[H])C([H])"
    r"=C([H])N=C2[H] |(6.4528,-1.5789,-1.2859)|": (
        "Cc1ccc([C@H]2[CH]c3cnccc3[N]C2=O)cc1"
    ),
    r"[H]C1=C(OC([H])([H])[H])C([H])=C(OC([H])([H])[H])C(/C([H])=C(\[H])N(C(=O)C([H])"
    r"([H])[H])C([H])([H])[H])=C1[H]": r"COc1ccc(/C=C/N(C)C(C)=O)c(OC)c1",
    "[H][H]": "[H][H]",
    "[H]O[H]": "O",
}


def test_hydrogens_are_folded():
    assert {smiles: gap_table.fold_hydrogens(smiles) for smiles in FOLDED} == FOLDED


def test_gaps_keep_their_digits(tmp_path, capsys):
    path, output = tmp_path / "qm9.csv", tmp_path / "gaps.csv.gz"
    path.write_text("id,SMILES,gap\n7,[H]O[H],9.836916000\n9,C#C,NA\n")
    words = [str(path), str(output), "--columns", "SMILES", "gap"]
    assert gap_table.main(words) == 0
    assert gzip.decompress(output.read_bytes()).decode() == (
        "idx,smiles,homolumogap\n0,[H]O[H],9.836916000\n1,C#C,NA\n"
    )
    first = output.read_bytes()
    assert gap_table.main(words) == 0 and output.read_bytes() == first
    path.write_text("SMILES,gap\nO,1\n*not,2\n")
    assert gap_table.main([*words, "--fold-hydrogens"]) == 2
    assert "*not" in capsys.readouterr().err and output.read_bytes() == first


PLAIN = """\
2026-01-01 10:00:00 | INFO | train_inner | epoch 001:    2 / 6 loss=1.2, num_updates=2
2026-01-01 10:00:00 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 0.5 \
| mae 9.5 | mae_mu (D) 3 | wps 0 | num_updates 6
2026-01-01 10:00:01 | INFO | train | epoch 001 | loss 1.5 | mae 26 | wps 1344.7 \
| num_updates 6 | lr 0.001 | train_wall 0 | wall 2
epoch 002 | valid on 'valid' subset | loss 0.25 | mae nan | num_updates 12 | best_mae 9
"""
JSON = """\
x | INFO | train_inner | {"epoch": 1, "update": 0.3, "loss": "1.2", "num_updates": "2"}
x | INFO | valid | {"epoch": 1, "valid_loss": "0.5", "valid_mae": "9.5", \
"valid_mae_mu (D)": "3", "valid_num_updates": "6"}
x | INFO | train | {"epoch": 1, "train_loss": "1.5", "train_mae": "26", \
"train_num_updates": "6", "train_lr": "0.001", "train_train_wall": "0"}
{"epoch": 2, "valid_loss": "0.25", "valid_mae": "NaN", "valid_num_updates": "12"}
"""


@pytest.mark.parametrize("text", [PLAIN, JSON, 2 * PLAIN.replace("\n", "\r")])
def test_reads_what_fairseq_prints(text):
    curves = plot_training.read(text)
    assert set(curves) == {"loss", "mae", "mae_mu (D)", "lr"}
    assert curves["mae_mu (D)"] == {"valid": [(6, 3)]}
    assert curves["loss"] == {"valid": [(6, 0.5), (12, 0.25)], "train": [(6, 1.5)]}
    assert curves["mae"]["valid"][0] == (6, 9.5) and len(curves["mae"]["valid"]) == 2
    assert curves["lr"] == {"train": [(6, 0.001)]}


def write_logs(folder, runs):
    """Logs of complete trainings: after ten epochs an MAE of 1.01, and 1 more by run."""
    for number, run in enumerate(runs):
        for seed in (1, 2):
            path = folder / run / f"seed{seed}"
            path.mkdir(parents=True)
            with open(path / "train.log", "w") as log:
                for epoch in range(1, 11):
                    mae = 1.01 + number + seed / 10 - epoch / 100
                    for split in ("valid", "train"):
                        stats = {"epoch": epoch, f"{split}_mae": str(mae)}
                        stats[f"{split}_num_updates"] = str(157 * epoch)
                        log.write(f"2026 | INFO | {split} | {json.dumps(stats)}\n")


def test_curves_of_complete_runs(tmp_path, monkeypatch, capsys):
    """Nothing is trained again; the last checkpoint is tested, not the best one."""
    tested = []
    monkeypatch.setattr(
        curves.record, "measure", lambda *what: tested.append(what) or "0.987654"
    )
    write_logs(tmp_path, curves.MODELS)
    assert curves.main([str(tmp_path)]) == 0
    last = tmp_path / "grpe_small" / "seed1" / "checkpoint_last.pt"
    assert len(tested) == 6 and tested[0] == (last, "test", "mae")
    printed = capsys.readouterr().out.splitlines()
    assert printed[2].startswith("| `grpe_small` | 1 | 0.454 | 1.010 | 0.482 | 0.988 |")
    lines = (tmp_path / "curves.tsv").read_text().splitlines()
    assert len(lines) == 1 + 3 * 2 * 10 and lines[10].endswith("\t0.987654")
    assert (tmp_path / "curves.png").exists()


def test_differences_of_complete_runs(tmp_path, capsys):
    write_logs(
        tmp_path, [f"difference{i}" for i in range(len(differences.DIFFERENCES))]
    )
    assert differences.main([str(tmp_path)]) == 0
    rows = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines()]
    rows = [[cell.strip() for cell in row] for row in rows]
    assert rows[2] == ["none: the model here", "1.010", "1.110", "1.060"]
    assert rows[7] == ["all four", "6.010", "6.110", "6.060"]
    assert rows[8] == ["the released code itself", "0.454", "0.460", "0.457"]


ROWS = """
import json, sys
from types import SimpleNamespace
from cython_ext.codes import RELATION_FAR, RELATION_SELF, RELATION_UNREACHABLE, hop_relation
from fidelity.released_rows import ReleasedRows, ReleasedRowsConfig
from support.architectures import SCHEMA, TARGETS
config = ReleasedRowsConfig(**json.loads(sys.argv[1]))
model = ReleasedRows.build_model(config, SimpleNamespace(schema=SCHEMA, targets=TARGETS))
hops, bonds = model.encoder.encodings[0].rows
assert (hops[RELATION_FAR] == hops[hop_relation(config.max_hop)]) == config.far_is_last
same = bonds[RELATION_SELF] == bonds[RELATION_UNREACHABLE]
assert same == config.self_is_no_edge and hops[RELATION_SELF] == 0
"""


@pytest.mark.parametrize("flag", [None, "far_is_last", "self_is_no_edge"])
def test_rows_of_the_released_code(flag):
    """A process of its own: the folder registers an architecture."""
    options = json.dumps({flag: True} if flag else {})
    folders = [str(Path(curves.__file__).parents[1]), str(Path(__file__).parents[1])]
    path = os.pathsep.join([*folders, *sys.path])
    subprocess.run(
        [sys.executable, "-c", ROWS, options],
        check=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def test_the_page_has_the_table_of_the_curves():
    folder = Path(curves.__file__).parent
    with open(folder / "curves.tsv", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert curves.table(rows) in (folder / "README.md").read_text(encoding="utf-8")


def test_ogb(tmp_path):
    """OGB's list of SMILES and splits, with a molecule that RDKit refuses."""
    labels = np.arange(len(SMILES) + 1)[:, None] // 10 % 2.0
    write_ogbg(tmp_path, "ogbg-molhiv", [*SMILES, REFUSED], labels)
    words = f"--data-root {tmp_path} --dataset-name ogbg-molhiv --trees 5 --results"
    results = tmp_path / "results.tsv"
    for seed in ("1", "2"):
        random_forest.main([*words.split(), str(results), "--seed", seed])
    rows = summarise.read_results(results)
    assert [row["seed"] for row in rows] == ["1", "2"]
    assert rows[0]["recipe"] == "molhiv/random_forest"
    assert rows[0]["metric"] == "roc_auc" and 0 <= float(rows[0]["value"]) <= 1


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
