import re
import sys
from pathlib import Path

import numpy as np
import pytest
from fairseq.logging import metrics
from fairseq_cli import train as fairseq_train

from graphormer_plugin import hub
from graphormer_plugin.cli.explain import MOST, main
from graphormer_plugin.data import rings as rings_module

USER_DIR = str(Path(__file__).parents[2] / "graphormer_plugin")
ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """Function: an architecture to a checkpoint after one update."""
    folder = tmp_path_factory.mktemp("explain")
    lines = [f"{'C' * i}O,{i}" for i in range(1, 41)]
    (folder / "alcohols.csv").write_text("\n".join(["smiles,gap", *lines]) + "\n")
    done = {}

    def train(arch, *more):
        save_dir = folder / arch
        if arch in done:
            return done[arch]
        arguments = f"""--user-dir {USER_DIR} --task graph_prediction --arch {arch}
            --dataset-name {folder}/alcohols.csv --data-root {folder} --target-unit eV
            --prepare-workers 1 --num-workers 0 --criterion l1_loss --optimizer adam
            --encoder-layers 2 --encoder-embed-dim 16 --encoder-attention-heads 2
            --batch-size 8 --max-update 1 --disable-validation --no-epoch-checkpoints
            --save-dir {save_dir} --no-progress-bar --cpu"""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["fairseq-train", *arguments.split(), *more])
            metrics.reset()
            fairseq_train.cli_main()
        done[arch] = str(save_dir / "checkpoint_last.pt")
        return done[arch]

    return train


@pytest.fixture(params=["grpe_tiny", "graphormer_slim", "cgt_zinc", "gt_zinc"])
def model(request, checkpoint):
    more = ["--rwse-dim", "4"] if request.param == "cgt_zinc" else []
    return checkpoint(request.param, *more)


def alts(html):
    return re.findall(r'<img alt="([^"]*)"', html)


def test_page_of_every_model(model, tmp_path, capsys):
    out = tmp_path / "page.html"
    assert main([model, ASPIRIN, "CCO", str(out)]) == 0
    predictor = hub.load(model)
    values = predictor.predict([ASPIRIN, "CCO"])[:, 0]
    lines = capsys.readouterr().out.splitlines()
    for smiles, value, line in zip([ASPIRIN, "CCO"], values, lines):
        assert line == f"{smiles}\tgap: {value:.4g} eV"
    assert lines[2:] == [str(out)]
    virtual = predictor.model.virtual_node
    source = "the virtual node" if virtual else "all atoms"
    expected = [f"attention from {source}", "gradient x input", "bonds"]
    expected += ["layer 1", "layer 2"]
    if "cgt" in model:
        expected += [f"channel {number}" for number in range(1, 17)]
    found = [alt.split(",")[0] for alt in alts(out.read_text())]
    assert found == 2 * expected


def test_predictor(model):
    predictor = hub.load(model).double()
    smiles = ["CCO", ASPIRIN]
    maps = predictor.attention(smiles)
    virtual = int(predictor.model.virtual_node)
    maps_per_layer = 16 if "cgt" in model else 2
    assert [m.shape for m in maps] == [
        (2, maps_per_layer, n + virtual, n + virtual) for n in (3, 13)
    ]
    (alone,) = predictor.attention(["CCO"])
    np.testing.assert_array_equal(maps[0], alone)
    gradient = predictor.gradient_times_input(smiles)
    assert [g.shape for g in gradient] == [(3,), (13,)]
    with pytest.raises(ValueError, match=r"output 1, expected 0\.\.0"):
        predictor.gradient_times_input(smiles, 1)


def test_numbering_of_atoms_does_not_matter(checkpoint):
    predictor = hub.load(checkpoint("grpe_tiny")).double()
    there, back = predictor.attention(["CCO", "OCC"])
    order = [0, 3, 2, 1]  # the virtual node stays first
    np.testing.assert_allclose(there, back[:, :, order][..., order], atol=1e-12)
    there, back = predictor.gradient_times_input(["CCO", "OCC"])
    np.testing.assert_allclose(there, back[::-1], atol=1e-12)


def test_gradient_is_in_the_unit_of_the_target(checkpoint):
    predictor = hub.load(checkpoint("grpe_tiny"))
    (one,) = predictor.gradient_times_input(["CCO"])
    predictor.targets.std[0] *= 10
    np.testing.assert_allclose(predictor.gradient_times_input(["CCO"])[0], 10 * one)


@pytest.mark.parametrize("suffix, start", [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_picture_of_one_molecule(checkpoint, tmp_path, suffix, start):
    out = tmp_path / f"out.{suffix}"
    assert main([checkpoint("grpe_tiny"), "CCO", str(out), "--layer", "2"]) == 0
    assert out.read_bytes().startswith(start)


def test_files_of_molecules(checkpoint, tmp_path):
    csv, smi = tmp_path / "in.csv", tmp_path / "in.smi"
    csv.write_text("id,SMILES\n1,CCN\n2,CCS\n")
    smi.write_text("CCF ethyl fluoride\n\nCCCl\n")
    out = tmp_path / "page.html"
    assert main([checkpoint("grpe_tiny"), str(csv), "CCO", str(smi), str(out)]) == 0
    titles = re.findall(r"<h2>(.*?)</h2>", out.read_text())
    assert titles == ["CCN", "CCS", "CCO", "CCF", "CCCl"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["CCO", "a.jpg"], "a.jpg: expected a name that ends in .svg, .png or .html"),
        (["CCO", "CCN", "a.png"], "a.png is for one molecule, not 2; use .html"),
        (["C1CC", "a.png"], "SMILES 'C1CC': RDKit refuses it"),
        (["bad.csv", "a.html"], "bad.csv, line 3: SMILES 'C1CC': RDKit refuses it"),
        (["bad.csv", "a.html", "--smiles-column", "mol"], "no column 'mol'"),
        (["many.smi", "a.html"], f"many.smi: more than {MOST} molecules"),
        (["none.txt", "a.html"], "no molecule in none.txt"),
        (["gone.csv", "a.html"], "gone.csv"),
        (["CCO", "a.html", "--target", "mu"], "--target mu: expected one of gap"),
        (["CCO", "a.html", "--layer", "3"], "--layer 3: the model has 2 layers"),
        (["CCO", "no_folder/a.html"], "no_folder/a.html"),
    ],
)
def test_bad_input_is_one_line(
    checkpoint, tmp_path, monkeypatch, capfd, arguments, message
):
    path = checkpoint("grpe_tiny")
    monkeypatch.chdir(tmp_path)
    Path("bad.csv").write_text("smiles\nCCO\nC1CC\n")
    Path("many.smi").write_text("C\n" * (MOST + 1))
    Path("none.txt").write_text("\n")
    capfd.readouterr()
    assert main([path, *arguments]) == 2
    err = capfd.readouterr().err
    assert err.startswith("error: ") and err.count("\n") == 1 and message in err
    assert not list(tmp_path.glob("a.*"))


def test_substructures_of_a_user(checkpoint, tmp_path, capsys, monkeypatch):
    """Trained with them, the model predicts where their folder is given."""
    names = dict(rings_module.SUBSTRUCTURES)
    monkeypatch.setattr(rings_module, "SUBSTRUCTURES", names)
    text = rings_module.__doc__.split("names:\n")[1]
    lines = ["from graphormer_plugin.data.rings import register_substructures"]
    lines += [line[4:] for line in text.splitlines()]
    folders = [tmp_path / name for name in ("training", "later")]
    for folder in folders:
        folder.mkdir()
        (folder / "stars.py").write_text("\n".join(lines) + "\n")
    options = f"--rwse-dim 4 --substructures stars --user-data-dir {folders[0]}"
    path = checkpoint("cgt_zinc_rings", *options.split())
    del names["stars"]
    with pytest.raises(
        ValueError, match="unknown substructures 'stars'.*user_data_dir"
    ):
        hub.load(path).predict(["CCO"])
    out = str(tmp_path / "out.svg")
    capsys.readouterr()
    assert main([path, "CC(C)C", out]) == 2
    message = capsys.readouterr().err
    assert "give its folder as --user-data-dir" in message and message.count("\n") == 1
    assert main([path, "CC(C)C", out, "--user-data-dir", str(folders[1])]) == 0
    seen = []
    predictor = hub.load(path, user_data_dir=folders[1])
    predictor.model.register_forward_pre_hook(
        lambda _, args: seen.append(args[0]["ring"])
    )
    assert np.isfinite(predictor.predict(["CC(C)CC", "CCO"])).all()
    assert sorted(seen[0].sum((1, 2)).tolist()) == [0, 16]  # a carbon and its three
