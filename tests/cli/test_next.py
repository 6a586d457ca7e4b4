"""``graphormer-next``: the molecules to measure next."""

from pathlib import Path

import numpy as np
import pytest
import torch
from rdkit import Chem

from graphormer_plugin.cli.next import main
from graphormer_plugin.inference.member import Member
from graphormer_plugin.inference.model_folder import write_folder
from graphormer_plugin.workbench.fitting.fit_gp import fit_gp
from graphormer_plugin.workbench.predictions import next_batch
from support.heads import molecules
from support.tables import rows

KNOWN, POOL = molecules(60)[:20], molecules(60)[16:]
BATCH = ["in.csv", "out.csv", "--quiet", "--size", "5"]


@pytest.fixture
def model(checkpoint, tmp_path, monkeypatch):
    """Function: a folder with two heads on labels [20, T], and a pool of ten spellings each."""
    monkeypatch.chdir(tmp_path)
    spelt = [
        Chem.MolToSmiles(Chem.MolFromSmiles(smiles), doRandom=True, rootedAtAtom=n % 2)
        for n in range(10)
        for smiles in POOL
    ]
    lines = [f"{s},{1 + n % 3}" for n, s in enumerate([*spelt, "C1CC"])]
    Path("in.csv").write_text("\n".join(["smiles,price", *lines]) + "\n")
    path = checkpoint("grpe_tiny")

    def model(labels, names=("y",), classes=False, **content):
        paths = []
        for number, blocks in enumerate((["vectors", "fingerprint"], ["fingerprint"])):
            Path(f"m{number}").mkdir()
            paths.append(f"m{number}/c.pt")
            Path(paths[-1]).write_bytes(Path(path).read_bytes())
            named = {"names": names, "classes": classes, "blocks": blocks}
            fit_gp(path, KNOWN, labels, **named).save(f"m{number}/head.npz")
        write_folder(".", paths, **content)
        return "."

    return model


SIZES = np.array(
    [[Chem.MolFromSmiles(s).GetNumAtoms(), i % 4] for i, s in enumerate(KNOWN)]
)


def test_copies_and_known_molecules_are_no_picks(model, capsys, monkeypatch):
    model = model(
        SIZES, ["size", "noise"], spread_scale={"size": 1.5}, spread_floor={"size": 0.1}
    )
    monkeypatch.setattr(next_batch, "SURVIVORS", 25)
    assert main([model, *BATCH]) == 0
    out = capsys.readouterr().out
    assert "5 of 441 rows; size: best so far" in out and "40 rows are left out" in out
    assert "; 1 row without prediction" in out
    found = rows()
    names = "size size_std noise noise_std in_domain rank probability_better".split()
    assert [*found[0]] == [
        "smiles",
        "price",
        *names,
        "expected_best",
        "nearest",
        "similarity",
    ]
    smiles = [Chem.CanonSmiles(row["smiles"]) for row in found]
    assert len({*smiles}) == 5 and not {*smiles} & {*map(Chem.CanonSmiles, KNOWN)}
    assert [row["rank"] for row in found] == [*"12345"]
    assert all(row["nearest"] != row["rank"] for row in found)
    reached = [float(row["expected_best"]) for row in found]
    assert reached == sorted(reached)
    Path("out.csv").rename("cheap.csv")
    assert main([model, *BATCH, "--cost", "price"]) == 0
    assert "; price 5;" in capsys.readouterr().out and len(rows()) == 5
    Path("out.csv").unlink()
    assert main([model, *BATCH[:3], "--size", "25"]) == 0
    assert main([model, "in.csv", "o.csv", "--quiet", "--size", "41"]) == 2
    assert "has 25 molecules to choose from" in capsys.readouterr().err


@pytest.mark.parametrize("goal", ["lowest", "learn"])
def test_goals(model, goal, capsys):
    labels = SIZES[:, :1].astype(float)
    model = model(np.log10(labels), ["log10 y"], log_targets=["log10 y"])
    assert main([model, *BATCH, "--goal", goal]) == 0
    found = rows()
    if goal == "lowest":
        reached = [float(row["expected_best"]) for row in found]
        assert labels.min() > reached[0] > reached[-1] > 0
    else:
        assert "variance" in capsys.readouterr().out
        left = [float(row["variance_left"]) for row in found]
        assert 1 > left[0] > left[-1] > 0 and "probability_better" not in found[0]


@pytest.mark.parametrize("goal", ["highest", "learn"])
def test_classes(model, goal):
    assert main([model(SIZES[:, :1] > 4, classes=True), *BATCH, "--goal", goal]) == 0
    assert all(0 < float(row["y"]) < 1 for row in rows())
    if goal == "highest":
        assert all(0 < float(row["expected_best"]) < 1 for row in rows())


def test_candidates_of_the_joint_step_keep_no_gradients(model, monkeypatch):
    """They would keep the activations of all batches."""
    embed, found = Member.embed, []

    def record(*arguments):
        found.append(torch.is_grad_enabled())
        return embed(*arguments)

    monkeypatch.setattr(Member, "embed", record)
    assert main([model(SIZES[:, :1]), *BATCH, "--workers", "0"]) == 0
    assert len(found) > 1 and not any(found)


def test_a_run_goes_on(model, monkeypatch, capsys):
    command = [model(SIZES[:, :1]), *BATCH, "--workers", "0"]
    for name, more in (("whole.csv", []), ("half.csv", ["--dtype", "bf16"])):
        assert main([*command[:2], name, *command[3:], *more]) == 0
    assert Path("half.csv").read_text() != Path("whole.csv").read_text()
    with monkeypatch.context() as patch:
        patch.setattr(next_batch, "batch", lambda *_: 1 / 0)
        assert main(command) == 2
    assert "the first 441 rows are kept" in capsys.readouterr().err
    monkeypatch.setattr(next_batch.TableRun, "predict", None)
    assert main(command) == 0
    assert Path("out.csv").read_text() == Path("whole.csv").read_text()
    assert not [*Path(".").glob("*.parts")]
