"""Checkpoints: made slim, described, and refused where they are not ours."""

import copy
import os
import pickle
import zipfile
from argparse import Namespace
from importlib.metadata import version

import numpy as np
import pandas as pd
import pytest
import record
import torch

from graphormer_plugin import hub
from graphormer_plugin.cli import convert, explain, predict
from graphormer_plugin.inference.checkpoint import read_checkpoint
from graphormer_plugin.workbench.fitting.fit_gp import fit_gp, save_training_domain
from support.benchmark_files import Planted
from support.golden import published_graphormer
from support.training import trained_once

SMILES = ["CCO", "CC(=O)Oc1ccccc1C(=O)O", "C"]


pytestmark = pytest.mark.usefixtures("fresh_fairseq")


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints") / "run"
    trained_once(data, folder, "--max-epoch", 2)
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def slimmed(trained):
    path = trained.with_name("slim.pt")
    assert convert.main(["--slim", str(trained), str(path)]) == 0
    return path


def load(path):
    return torch.load(path, weights_only=True)


class TestSlim:
    def test_only_what_resuming_needs_is_left_out(self, trained, slimmed):
        full, slim = load(trained), load(slimmed)
        assert full["last_optimizer_state"] and slim["last_optimizer_state"] is None
        assert full["task_state"].pop("molecules")
        for name in ("args", "cfg", "criterion", "task_state"):
            assert slim[name] == full[name]
        assert full["model"] and list(slim["model"]) == list(full["model"])
        for name, weight in full["model"].items():
            assert weight.dtype == slim["model"][name].dtype
            assert torch.equal(weight, slim["model"][name])
        before, after = full["extra_state"], slim["extra_state"]
        assert set(before) - set(after) == {"metrics"}
        assert after["train_iterator"] == before["train_iterator"]

    def test_sizes_are_printed(self, trained, tmp_path, capsys):
        out, again = tmp_path / "out.pt", tmp_path / "again.pt"
        assert convert.main(["--slim", str(trained), str(out)]) == 0
        sizes = trained.stat().st_size, out.stat().st_size
        assert sizes[1] < sizes[0] / 2
        first, *lines = capsys.readouterr().out.splitlines()
        assert first.startswith(f"{out}: ")
        after = f"after: {sizes[1]:,} bytes, {sizes[1] / sizes[0]:.0%}"
        assert lines == [f"before: {sizes[0]:,} bytes", after]
        assert convert.main(["--slim", str(out), str(again)]) == 0
        assert 0 < again.stat().st_size <= sizes[1] + 100

    def test_resuming_stops_in_one_line(self, train, slimmed, error):
        line = error(train, "resumed", "--max-epoch", 3, "--restore-file", slimmed)
        assert "--finetune-from-model" in line

    def test_a_new_optimiser_goes_on(self, train, slimmed, tmp_path):
        options = ["--restore-file", slimmed, "--reset-optimizer", "--lr", "1e-9"]
        train("reset", "--max-epoch", 3, *options)
        path = tmp_path / "reset/checkpoint_last.pt"
        assert read_checkpoint(slimmed).epochs == 2
        assert read_checkpoint(path).epochs == 3
        old, new = hub.load(slimmed).predict(SMILES), hub.load(path).predict(SMILES)
        assert np.abs(old - new).max() < 1e-4


class TestVectors:
    @pytest.fixture(scope="class")
    @classmethod
    def start(cls, trained, tmp_path_factory):
        out = tmp_path_factory.mktemp("start") / "start.pt"
        parts = ["--vectors", "nodes", "outputs"]
        assert convert.main(["--slim", str(trained), str(out), *parts]) == 0
        return out

    def test_are_what_a_head_and_embeddings_take(self, start, tmp_path):
        path = tmp_path / "start.pt"
        path.write_bytes(start.read_bytes())
        labels = np.arange(len(SMILES), dtype=float)
        fit_gp(path, SMILES, labels).save(tmp_path / "head.npz")
        predictor, vectors = hub.load(path), hub.load(path, head=None).embed(SMILES)
        assert vectors.shape[1] == 16 + 2  # the mean of the nodes, the outputs
        np.testing.assert_array_equal(predictor.member.head.domain.vectors, vectors)
        table, out = tmp_path / "new.csv", tmp_path / "out.csv"
        table.write_text("\n".join(["smiles", *SMILES]))
        embeddings = tmp_path / "out.npy"
        words = [path, table, out, "--embeddings", embeddings]
        assert predict.main(list(map(str, words))) == 0
        np.testing.assert_allclose(np.load(embeddings), vectors, atol=1e-5)
        predicted = predictor.predict(SMILES)[:, 0]
        np.testing.assert_allclose(pd.read_csv(out).target_0, predicted, rtol=1e-5)

    def test_the_domain_is_of_the_last_layer(self, start, tmp_path):
        path = tmp_path / "start.pt"
        path.write_bytes(start.read_bytes())
        alcohols = ["CCO", "CCCO", "CCCCO"]
        save_training_domain(path, alcohols)
        estimate = hub.load(path).estimate([*alcohols, SMILES[1]])
        assert estimate.in_domain[:3].tolist() == [1, 1, 1]
        assert estimate.in_domain[3] < 1


@pytest.mark.parametrize(
    "out, words", [("trained.pt", "exists"), ("no/out.pt", "there is no folder")]
)
def test_no_file_is_overwritten(out, words, trained, tmp_path, refused):
    path = tmp_path / "trained.pt"
    path.symlink_to(trained)
    before = trained.read_bytes()
    line = refused(convert.main, "--slim", path, tmp_path / out)
    assert words in line and str(tmp_path / out) in line
    assert trained.read_bytes() == before


def test_a_full_disk_is_named(trained, tmp_path, monkeypatch, refused):
    """torch's own error has no file."""

    def save(state, file):
        raise RuntimeError("unexpected pos 64 vs 0") from None

    monkeypatch.setattr(torch, "save", save)
    line = refused(convert.main, "--slim", trained, tmp_path / "out.pt")
    assert line.startswith(f"error: cannot write {tmp_path}/out.pt: unexpected pos")
    assert not [*tmp_path.iterdir()]


class TestInfo:
    def lines(self, path, capsys):
        assert convert.main(["--info", str(path)]) == 0
        lines = capsys.readouterr().out.splitlines()
        return dict(line.split(": ", 1) for line in lines)

    def test_says_what_it_is(self, data, trained, slimmed, capsys):
        full, slim = (self.lines(path, capsys) for path in (trained, slimmed))
        state = load(trained)
        count = sum(p.numel() for p in hub.load(trained).model.parameters())
        expected = {
            "file": str(trained),
            "size": f"{trained.stat().st_size:,} bytes",
            "architecture": "grpe_tiny",
            "parameters": f"{count:,}",
            "task": "graph_prediction",
            "criterion": "l1_loss",
            "dataset": str(data / "molecules.csv"),
            "fingerprint": state["task_state"]["fingerprint"],
            "targets": "length, carbons (no unit)",
            "featuriser": "ogb",
            "epochs": "2",
            "updates": "12",
            "best mae": f"{state['extra_state']['best']:.6g}",
            "mae here": f"{state['extra_state']['val_loss']:.6g}",
            "optimiser": "yes",
        }
        assert {name: full[name] for name in expected} == expected
        assert "--encoder-layers 1" in full["options"]
        assert "_name" not in full["options"] and "dropout" not in full["options"]
        assert f"torch {version('torch')}" in full["versions"]
        other = {name for name in full if full[name] != slim[name]}
        assert other == {"file", "size", "optimiser"}
        assert slim["optimiser"] == "no, slim"

    def test_of_a_converted_one(self, tmp_path, capsys):
        torch.save({"model": published_graphormer()}, tmp_path / "in.pt")
        arguments = ["--from", "microsoft-graphormer", str(tmp_path / "in.pt")]
        out = str(tmp_path / "out.pt")
        assert convert.main([*arguments, out, "--target-names", "a,b"]) == 0
        capsys.readouterr()
        lines = self.lines(out, capsys)
        assert lines["targets"] == "a, b (no unit)" and lines["updates"] == "0"
        assert lines["versions"] == "not stored" and "best loss" not in lines


def foreign(kind, trained, path, marker):
    """Write a file of a kind; returns a part of its line."""
    whole, state = trained.read_bytes(), load(trained)
    code = "holds code or Python objects"
    mkdir = f"{code} ({os.mkdir.__module__ or 'posix'}.mkdir)"
    unreadable = "is empty, cut off or damaged"
    other = "is not a checkpoint of graphormer_plugin"
    wrong = "is damaged, or of another version"
    places = {"folder": "name a checkpoint in it", "missing": "no such file"}
    if kind in places:
        if kind == "folder":
            path.mkdir()
        return places[kind]
    if kind == "compressed":
        with zipfile.ZipFile(trained) as old, zipfile.ZipFile(path, "w", 8) as new:
            for name in old.namelist():
                new.writestr(name, old.read(name))
        return unreadable
    if kind == "TorchScript":
        torch.jit.script(torch.nn.Linear(2, 2)).save(str(path))
        return f"{code} (TorchScript)"
    entries = zipfile.ZipFile(trained).infolist()
    entries = [entry for entry in entries if "/data/" in entry.filename]
    weights = max(entries, key=lambda entry: entry.file_size)
    flipped, data = bytearray(whole), zipfile.ZipFile(trained).read(weights)
    flipped[whole.index(data) + len(data) // 2] ^= 1
    contents = {
        "empty": (b"", unreadable),
        "cut off": (whole[: len(whole) // 2], unreadable),
        "flipped weight": (bytes(flipped), unreadable),
        "pickle": (pickle.dumps(Planted(marker), protocol=2), mkdir),
    }
    if kind in contents:
        path.write_bytes(contents[kind][0])
        return contents[kind][1]
    states = {
        "code": ({"model": Planted(marker)}, mkdir),
        "code in ours": ({**state, "x": Planted(marker)}, mkdir),
        "code in an old format": ({"model": Planted(marker)}, mkdir),
        "state dict": (state["model"], other),
        "module": (torch.nn.Linear(2, 2), f"{code} (torch.nn.modules.linear.Linear)"),
        "published": ({"model": {"a": torch.zeros(2)}, "args": Namespace()}, other),
        "no config": ({**state, "cfg": None}, wrong),
    }
    archive = kind != "code in an old format"
    torch.save(states[kind][0], path, _use_new_zipfile_serialization=archive)
    return states[kind][1]


KINDS = """code|code in ours|code in an old format|pickle|folder|missing|empty|cut off
    |flipped weight|compressed|TorchScript|state dict|module|published|no config"""


@pytest.mark.parametrize("kind", [kind.strip() for kind in KINDS.split("|")])
def test_a_foreign_file_is_one_line(
    kind, trained, tmp_path, monkeypatch, refused, validate, error
):
    # It switches the safe loader off where a caller does not say what it wants.
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    path, marker = tmp_path / "foreign.pt", tmp_path / "ran"
    message = foreign(kind, trained, path, marker)
    line = refused(convert.main, "--info", path)
    assert str(path) in line and message in line
    with pytest.raises((ValueError, OSError), match="foreign.pt"):
        hub.load(path)
    if kind != "no config":  # fairseq's own error
        assert str(path) in error(validate, path)
    if kind not in ("state dict", "published", "no config"):
        words = ["--from", "microsoft-graphormer", path, tmp_path / "out.pt"]
        assert str(path) in refused(convert.main, *words)
    assert {file.name for file in tmp_path.iterdir()} <= {"foreign.pt"}
    if kind == "pickle":  # the payload is one: without the safe loader it runs
        pickle.loads(path.read_bytes())
        assert marker.exists()


def test_every_command_refuses_it(data, trained, train, tmp_path, refused, error):
    path, marker = tmp_path / "foreign.pt", tmp_path / "ran"
    message = foreign("code", trained, path, marker)
    results = ["--metric", "mae", "--recipe", "r", "--results", tmp_path / "r.tsv"]
    for main, *words in (
        (convert.main, "--slim", path, tmp_path / "out.pt"),
        (explain.main, path, "CCO", tmp_path / "out.svg"),
        (predict.main, path, data / "molecules.csv", tmp_path / "out.csv"),
        (record.main, path, *results),
    ):
        line = refused(main, *words)
        assert str(path) in line and message in line
    for flag in ("--finetune-from-model", "--restore-file"):
        assert str(path) in error(train, "never", "--max-epoch", 1, flag, path)
    assert not marker.exists()


def changed(state, place, value):
    """A copy in which one item has another value, or is absent for None."""
    state = item = copy.copy(state)
    for name in place[:-1]:
        item[name] = copy.copy(item[name])
        item = item[name]
    item[place[-1]] = value
    if value is None:
        del item[place[-1]]
    return state


@pytest.mark.parametrize(
    "place, value, message",
    [
        (("cfg", "model", "_name"), "transformer", "'transformer', which is not"),
        (("cfg", "model", "_name"), "unheard_of", "'unheard_of', which is not"),
        (("cfg", "model", "encoder_layers"), 3, "is damaged, or of another version"),
        (("cfg", "model", "encoder_layers"), "x", "is damaged, or of another version"),
        (
            ("cfg", "model", "pair_encodings"),
            "mine",
            "in.pt: unknown pair .*user_data_dir",
        ),
        (("cfg", "model", "encoder_embed_dim"), 32, "size mismatch"),
        (("task_state", "schema", "node_dims"), None, "damaged.* Missing key"),
        (("task_state", "targets"), 3, "is damaged, or of another version"),
        (("task_state", "vectors"), ["edges"], "unknown vectors 'edges'"),
        (("extra_state", "train_iterator"), None, "KeyError: 'train_iterator'"),
        (("optimizer_history",), [], "IndexError"),
        (("model", "head.bias"), None, 'Missing key.* "head.bias"'),
        (("model", "head.bias"), [1.0], "AttributeError"),
    ],
)
def test_parts_that_do_not_fit(place, value, message, trained, tmp_path, refused):
    torch.save(changed(load(trained), place, value), tmp_path / "in.pt")
    with pytest.raises(ValueError, match=message) as error:
        hub.load(tmp_path / "in.pt")
    assert "in.pt" in str(error.value) and len(str(error.value)) < 500
    refused(convert.main, "--info", tmp_path / "in.pt")


@pytest.mark.parametrize(
    "name, value", [("bucket_ratio", -1.0), ("_name", "task_of_another_folder")]
)
def test_options_of_the_training_data_do_not_matter(name, value, trained, tmp_path):
    """A model is loaded without its task."""
    place = ("cfg", "task", name)
    torch.save(changed(load(trained), place, value), tmp_path / "in.pt")
    one, other = hub.load(trained), hub.load(tmp_path / "in.pt")
    assert np.array_equal(one.predict(SMILES), other.predict(SMILES))
