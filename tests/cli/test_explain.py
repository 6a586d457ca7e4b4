import contextlib
import os
import re
import shutil
import textwrap
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import torch

from graphormer_plugin import hub
from graphormer_plugin.cli import _explanation
from graphormer_plugin.cli.explain import main
from graphormer_plugin.data.batches.fields import rings as rings_module
from graphormer_plugin.data.files import file_lock
from graphormer_plugin.inference.checkpoint import checkpoint_path
from graphormer_plugin.inference.model_folder import write_folder
from graphormer_plugin.workbench.explain import drawing
from graphormer_plugin.workbench.explain.explanation import Explainer, NoPredictionError
from graphormer_plugin.workbench.fitting.fit_gp import fit_gp
from graphormer_plugin.workbench.predictions.prediction_chunks import PredictionChunks

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"
# Each has a map of its own in every layer.
FOUR_CHANNELS = ["--node-encoding-dim", "2", "--encoder-embed-dim", "4"]


@pytest.fixture(autouse=True)
def small_pictures(monkeypatch):
    """A quarter of the pixels; test_drawing.py has those that people see."""
    monkeypatch.setattr(drawing, "PNG_DPI", 72)


@pytest.fixture(params=["grpe_tiny", "graphormer_slim", "cgt_zinc", "gt_zinc"])
def model(request, checkpoint):
    more = FOUR_CHANNELS if request.param == "cgt_zinc" else []
    return checkpoint(request.param, *more)


def alts(html):
    return re.findall(r'<img alt="([^"]*)"', html)


PARTS = ["atoms", "BRICS fragments", "rings, linkers, side chains", "environments"]


def test_page_of_every_model(model, tmp_path, capsys):
    out = tmp_path / "page.html"
    assert main([model, ASPIRIN, "CCO", str(out), "--attention"]) == 0
    predictor = hub.load(model)
    values = predictor.predict([ASPIRIN, "CCO"])[:, 0]
    lines = capsys.readouterr().out.splitlines()
    parts = ["CC(=O)O", "O=CO", "c1ccccc1", "C=O", "CC=O", "O"]
    for smiles, value, line in zip([ASPIRIN, "CCO"], values, lines):
        text, _, largest = line.partition("; largest contributions: ")
        assert text == f"{smiles}\tgap: {value:.4g} eV"
        named = re.findall(r"(\S+) [+-][\d.e-]+", largest)
        assert len(named) == (3 if smiles == ASPIRIN else 0) and {*named} < {*parts}
    assert lines[2:] == [str(out)]
    titles = [f"{part}, eV" for part in PARTS]
    source = "the virtual node" if predictor.model.virtual_node else "all atoms"
    attention = [f"attention from {source}", "bonds"]
    attention += ["layer 1", "layer 2"]
    # Ethanol is one fragment, without which nothing is left.
    expected = [*titles, *attention, titles[0], titles[3], *attention]
    assert alts(out.read_text()) == expected
    assert "The training molecules are not known" in out.read_text()


def test_model_without_attention(checkpoint, tmp_path, refused):
    path, out = checkpoint("gin"), tmp_path / "page.html"
    assert main([path, "CC(C)O", str(out)]) == 0
    line = refused(main, path, "CCO", out, "--atoms", "1")
    assert line.endswith("has no attention maps\n")


def drawn(arguments, monkeypatch):
    """Groups of panels that the command draws."""
    seen = []
    monkeypatch.setattr(_explanation, "draw", lambda x, _: seen.append(x) or b"")
    assert main(arguments) == 0
    return seen[0]


def test_attention_of_chosen_atoms_by_channel(checkpoint, tmp_path, monkeypatch):
    """Figure 3 of CSA: maps of channels, and rows of them on the molecule."""
    path = checkpoint("cgt_zinc", *FOUR_CHANNELS)
    options = "--layer 2 --channels 3,4 --atoms 2,13,4".split()
    words = [path, ASPIRIN, str(tmp_path / "a.png"), *options]
    *_, maps, two, thirteen, four = drawn(words, monkeypatch)
    (attention,) = hub.load(path).attention([ASPIRIN])
    channels = attention[1, [2, 3]]
    assert maps[0] == "channels of layer 2"
    np.testing.assert_array_equal([panel.matrix for panel in maps[1]], channels)
    names = {1: "2 (C)", 12: "13 (O)", 3: "4 (O)"}
    for (heading, panels), (atom, name) in zip((two, thirteen, four), names.items()):
        assert heading == f"what atom {name} attends to, channels of layer 2"
        assert [panel.title for panel in panels] == ["channel 3", "channel 4"]
        assert {panel.marked for panel in panels} == {atom}
        np.testing.assert_array_equal([p.values for p in panels], channels[:, atom])


def test_attention_of_an_atom_by_layer(checkpoint, tmp_path, monkeypatch):
    """The virtual node, first in the maps, is not an atom of the molecule."""
    path = checkpoint("grpe_tiny")
    words = [path, "OCC", str(tmp_path / "a.png"), "--atoms", "1"]
    *_, (heading, panels) = drawn(words, monkeypatch)
    (attention,) = hub.load(path).attention(["OCC"])
    assert heading == "what atom 1 (O) attends to, mean over heads"
    rows = attention.mean(1)[:, 1, 1:]
    np.testing.assert_array_equal([panel.values for panel in panels], rows)


def test_pictures_of_unusual_molecules(checkpoint, tmp_path):
    out, unusual = tmp_path / "out.html", ["C", "[Na+].[Cl-]", "C" * 70]
    assert main([checkpoint("grpe_tiny"), *unusual, str(out), "--atoms", "1"]) == 0
    assert len(alts(out.read_text())) > 20


def test_files_of_molecules(checkpoint, tmp_path):
    csv, smi = tmp_path / "in.csv", tmp_path / "in.smi"
    csv.write_text("id,SMILES,other\n1,CCN,C\n2,CCS,C\n")
    smi.write_text("CCF \xe9thyl fluoride\n\nCCCl\n", encoding="latin-1")
    out = tmp_path / "page.html"
    given = [str(csv), "CCO", str(smi), str(out), "--smiles-column", "SMILES"]
    assert main([checkpoint("grpe_tiny"), *given]) == 0
    titles = re.findall(r"<h2>(.*?)</h2>", out.read_text())
    assert titles == ["1: CCN", "2: CCS", "CCO", "éthyl fluoride: CCF", "CCCl"]
    given = [str(smi), str(out), "--smiles-column", "smiles"]
    assert main([checkpoint("grpe_tiny"), *given]) == 0


def test_table_of_values(checkpoint, tmp_path, monkeypatch, capfd):
    """The values of a fragment are shared by its atoms, and sum to the prediction."""
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text(f"smiles,name\nC1CC,\n{ASPIRIN},aspirin\nO,water\n")
    path = checkpoint("gin")
    assert main([path, "in.csv", "out.csv", "--myerson", "fragments"]) == 0
    table = pd.read_csv("out.csv")
    assert [
        *table
    ] == "molecule name smiles atom symbol contribution myerson".split() + [
        "myerson_error"
    ]
    assert table.molecule.tolist() == [2] * 13 + [3]
    assert table.symbol[:3].tolist() == ["C", "C", "O"] and table.atom[12] == 13
    assert np.isnan(table.contribution[13])  # nothing is left
    sums = table.groupby("name", sort=False).myerson.sum()
    values = hub.load(path).predict([ASPIRIN, "O"])[:, 0]
    np.testing.assert_allclose(sums, values, atol=1e-6)
    assert table.myerson[:3].nunique() == 1


def test_table_of_a_sum_goes_on_after_a_kill(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    shutil.copy(checkpoint_path("grpe_minimol"), "best.pt")
    known = [f"{'C' * k}O" for k in range(1, 20)]
    fit_gp("best.pt", known, np.arange(19.0)).save("head.npz")
    explain, seen = Explainer.__call__, []

    def _killed_once(self, molecules, cells):
        seen.append(molecules.texts)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return explain(self, molecules, cells)

    monkeypatch.setattr(Explainer, "__call__", _killed_once)
    words = ["best.pt", "CCO", "CCCN", "out.csv", "--sum"]
    assert main(words) == 130 and not Path("out.csv").exists()
    assert "the first 1 molecule is kept" in capfd.readouterr().err
    with monkeypatch.context() as patch:
        patch.setattr(PredictionChunks, "remove", killed := Mock(side_effect=OSError))
        assert main(words) == 2 and killed.called  # behind the last row
    assert main(words) == 0
    assert seen == [["CCO"], ["CCCN"], ["CCCN"]]
    table = pd.read_csv("out.csv")
    assert table.atom.isna().tolist() == 3 * [False] + [True] + 4 * [False] + [True]
    values = hub.load("best.pt").predict(["CCO", "CCCN"])[:, 0]
    np.testing.assert_allclose(
        table.groupby("molecule")["sum"].sum(), values, atol=1e-6
    )
    assert sorted(os.listdir()) == ["best.pt", "head.npz", "out.csv"]


def test_a_table_of_nothing(checkpoint, tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    none = Mock(side_effect=NoPredictionError("C: no prediction"))
    monkeypatch.setattr(Explainer, "__call__", none)
    assert "C: no" in refused(main, checkpoint("gin"), "C", "CC", "out.csv")
    assert not os.listdir()


def test_two_tables_of_one_name(checkpoint, tmp_path, monkeypatch, capfd):
    """The second explains nothing before the first is done."""
    monkeypatch.chdir(tmp_path)
    Path("out.csv.0.parts").mkdir()

    @contextlib.contextmanager
    def _held(path, on_wait, keep):
        on_wait()
        Path(path).write_text("mine")
        yield

    monkeypatch.setattr(_explanation, "file_lock", _held)
    assert main([checkpoint("gin"), "C", "out.csv"]) == 2
    waits, refusal = capfd.readouterr().err.splitlines()
    assert "another process writes out.csv" in waits and "exists already" in refusal
    assert Path("out.csv").read_text() == "mine"
    Path("out.csv").unlink()
    monkeypatch.setattr(_explanation, "file_lock", file_lock)
    assert main([checkpoint("gin"), "C", "out.csv"]) == 0
    assert "out.csv.0.parts is left of a run" in capfd.readouterr().err


def test_the_models_of_a_folder(checkpoint, tmp_path, capfd, refused):
    """Contributions are of their mean; attention is of one network."""
    for name, more in (("one.pt", []), ("two.pt", ["--seed", "2"])):
        shutil.copy(checkpoint("grpe_tiny", *more), tmp_path / name)
    out = [tmp_path / "a.svg", tmp_path / "b.svg"]
    write_folder(tmp_path, ["one.pt"])
    for model, path in zip((tmp_path, tmp_path / "one.pt"), out):
        assert main([str(model), "CCO", str(path)]) == 0
    assert out[0].read_bytes() == out[1].read_bytes()
    write_folder(tmp_path, ["one.pt", "two.pt"])
    capfd.readouterr()
    assert main([str(tmp_path), "Cc1ccccc1", str(out[1])]) == 0
    predictor = hub.load(tmp_path)
    toluene, benzene, methane = predictor.predict(["Cc1ccccc1", "c1ccccc1", "C"])[:, 0]
    text = capfd.readouterr().out
    assert f"C {toluene - benzene:+.2g}" in text
    assert f"c1ccccc1 {toluene - methane:+.2g}" in text
    line = refused(main, tmp_path, "CCO", out[1], "--attention")
    assert "attention maps are of a single network without head" in line


def test_a_bad_molecule_is_left_out(checkpoint, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text("smiles,name\nCCO,ethanol\nC1CC,open ring\n,nothing\n")
    capfd.readouterr()
    assert main([checkpoint("grpe_tiny"), "in.csv", "CCN", "page.html"]) == 0
    text, (out, err) = Path("page.html").read_text(), capfd.readouterr()
    starts = [line.split("\t")[0] for line in out.splitlines()]
    assert starts == ["ethanol: CCO", "CCN", "page.html"]
    assert "<h2>open ring: C1CC</h2>" in text and "unclosed ring" in text
    lines = [f"warning: left out: in.csv, line {n}: SMILES " for n in (3, 4)]
    lines.append("warning: no training molecule has N (in 1 molecule), degree 3")
    for line, start in zip(err.splitlines(), lines, strict=True):
        assert line.startswith(start)


def test_name_and_smiles_are_on_the_picture(checkpoint, tmp_path):
    smiles = "C" * 70
    (tmp_path / "in.smi").write_text(f"{smiles} n-heptacontane\n")
    out = tmp_path / "out.svg"
    assert main([checkpoint("gin"), str(tmp_path / "in.smi"), str(out)]) == 0
    written = "".join(re.findall(r"<!-- (.*?) -->", out.read_text()))
    assert f"n-heptacontane:{smiles}" in written.replace(" ", "")


@pytest.mark.parametrize(
    "featuriser, factor, message",
    [
        ("zinc", 1, "in.smi, line 2: SMILES 'C[As]': atom type 'As' is not in the"),
        ("", 1, "the model reads graphs, and explanations are of SMILES; in Python, "),
        ("atoms", 1, "the model reads atoms, and explanations are of SMILES"),
        ("mine", 1, "unknown featuriser 'mine', expected atoms|ogb|"),
        ("mine", 1, "; or give the folder that registers it as user_data_dir (--user"),
        ("ogb", np.nan, "C[As]: the prediction is not finite"),
    ],
)
def test_a_molecule_that_the_model_cannot_predict(
    checkpoint, tmp_path, monkeypatch, capfd, featuriser, factor, message
):
    state = torch.load(checkpoint("grpe_tiny"), weights_only=True)
    state["task_state"]["featuriser"] = featuriser
    next(iter(state["model"].values())).mul_(factor)
    monkeypatch.chdir(tmp_path)
    torch.save(state, "x.pt")
    Path("in.smi").write_text("\nC[As]\n")
    assert main(["x.pt", "in.smi", "a.html"]) == 2
    *_, line = capfd.readouterr().err.splitlines()
    assert line.startswith("error: ") and message in line


def test_substructures_of_a_user(checkpoint, tmp_path, refused, monkeypatch):
    """Trained with them, the model predicts where their folder is given."""
    # forgotten after the test
    monkeypatch.setitem(rings_module.SUBSTRUCTURES, "stars", None)
    del rings_module.SUBSTRUCTURES["stars"]
    example = textwrap.dedent(rings_module.__doc__.split("names:\n")[1])
    line = "from graphormer_plugin.data.batches.fields.rings import register_substructures\n"
    folders = [tmp_path / name for name in ("training", "later")]
    for folder in folders:
        folder.mkdir()
        (folder / "stars.py").write_text(line + example)
    words = f"--node-encoding-dim 4 --substructures stars --user-data-dir {folders[0]}"
    path = checkpoint("cgt_zinc_rings", *words.split())
    del rings_module.SUBSTRUCTURES["stars"]
    message = "unknown substructures 'stars'.*user_data_dir"
    with pytest.raises(ValueError, match=message):
        hub.load(path).predict(["CCO"])
    out = str(tmp_path / "out.svg")
    line = refused(main, path, "CC(C)C", out)
    assert "or give the folder that registers it" in line
    assert main([path, "CC(C)C", out, "--user-data-dir", str(folders[1])]) == 0
    seen = []
    predictor = hub.load(path, user_data_dir=folders[1])
    predictor.model.register_forward_pre_hook(lambda _, x: seen.append(x[0]["ring"]))
    assert np.isfinite(predictor.predict(["CC(C)CC", "CCO"])).all()
    assert sorted(seen[0].sum((1, 2)).tolist()) == [0, 16]  # a carbon and its three
