"""examples/gap_table.py, plot_training.py and quickstart/table.py; imports of speed."""

import gzip
import hashlib
import importlib

import gap_table
import plot_training
import pytest
from explaining import planted_truth
from predicting import shortlists
from quickstart import table

from support.recipes import EXAMPLES

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


@pytest.mark.parametrize(
    "name, digest",
    [
        (
            "activity",
            "b8096b10f5c60ddcb2855d34576561abb92b49868da72785a502bec7c87d23fe",
        ),
        ("tpsa", "02a56f3a47779f1ae2f832e34f044d9e1b25fbfdfc34b363af86426d1e888a70"),
    ],
)
def test_tables_of_the_first_page(name, digest, capsys):
    """The molecules and labels from which the figures of the pages were measured."""
    table.main([name])
    text = capsys.readouterr().out
    assert hashlib.sha256(text.encode()).hexdigest() == digest


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


@pytest.mark.parametrize(
    "script", sorted(EXAMPLES.glob("speed/*.py")), ids=lambda p: p.stem
)
def test_scripts_of_speed_are_imported(script, monkeypatch):
    """The page's test runs their commands, which `make test` does not."""
    monkeypatch.syspath_prepend(script.parent)  # they import each other
    importlib.import_module(script.stem)


def test_a_size_has_three_numbers(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES / "speed")
    size = importlib.import_module("train_step").size
    assert size("2x32x4")["encoder_attention_heads"] == 4
    with pytest.raises(ValueError):
        size("2x32")


@pytest.mark.parametrize("arch, most", [("gt_zinc", 1490), ("gatedgcn", 1016)])
def test_operators_of_a_training_step(arch, most, monkeypatch):
    """An upper bound for launches on a GPU; the page has these numbers."""
    monkeypatch.syspath_prepend(EXAMPLES / "speed")
    operators = importlib.import_module("operators")
    options = importlib.import_module("train_step").size("12x32x4")
    options |= {"dropout": 0.1, "attention_dropout": 0.1, "act_dropout": 0.1}
    number = operators.count_operators(arch, "bfloat16", **options)
    assert 0.9 * most < number <= most


def test_false_shares_of_lists(rng):
    """Perfect predictions find all hits; those of something else list nothing."""
    labels = rng.normal(size=400)
    calibrates = rng.permutation(400) < 200
    false, found, *_ = shortlists.figures(labels, labels, calibrates)
    assert found == 1 and false < 0.2
    false, found, *_ = shortlists.figures(rng.normal(size=400), labels, calibrates)
    assert found < 0.05


def test_correlation_with_the_truth():
    """A molecule whose atoms add the same has none."""
    truth = [0, 1, 2], [1, 1], [0, 2, 4]
    found = [2, 1, 0], [5, 6], [0, 1, 2]
    assert planted_truth.correlation(found, truth) == pytest.approx((0, 1))
