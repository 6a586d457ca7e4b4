import multiprocessing
import os
from collections import Counter
from pathlib import Path
from pickle import loads
from signal import SIGKILL
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from loky.backend.reduction import dumps

from graphormer_plugin import hub
from graphormer_plugin.cli import _prediction, predict
from graphormer_plugin.cli.predict import main
from graphormer_plugin.data.files import file_lock
from graphormer_plugin.data.tables.formats import open_table
from graphormer_plugin.inference import bfloat16
from graphormer_plugin.inference.model_folder import write_folder
from graphormer_plugin.workbench.predictions import run
from graphormer_plugin.workbench.predictions.prediction_chunks import PredictionChunks
from graphormer_plugin.workbench.predictions.table_run import RowRange
from graphormer_plugin.workers import in_workers
from support.tables import rows
from support.training import forked

SMILES = ["CCO", "c1ccccc1O", "CC(=O)[O-].[Na+]", "C1CC", "", "CCN"]
GOOD = [0, 1, 2, 5]


@pytest.fixture
def inputs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = ["name,SMILES,note", *(f'm{i},{s},"a, {i}"' for i, s in enumerate(SMILES))]
    Path("in.csv").write_text("\ufeff" + "\n".join(lines) + "\n", encoding="utf-8")


def test_table(checkpoint, inputs, capsys):
    path = checkpoint("grpe_tiny")
    assert main([path, "in.csv", "out.csv", "--quiet"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("out.csv: 6 rows, 2 without prediction; gap (eV); ")
    found = rows("out.csv")
    assert list(found[0]) == ["name", "SMILES", "note", "gap", "reason"]
    assert [row["SMILES"] for row in found] == SMILES
    assert [row["note"] for row in found] == [f"a, {i}" for i in range(6)]
    assert "unclosed ring" in found[3]["reason"] and found[4]["reason"] == "no SMILES"
    assert [at for at, row in enumerate(found) if not row["reason"]] == GOOD
    assert [row["gap"] for row in found if row["reason"]] == ["", ""]
    expected = hub.load(path).predict([SMILES[row] for row in GOOD])[:, 0]
    gaps = [float(found[row]["gap"]) for row in GOOD]
    np.testing.assert_allclose(gaps, expected, rtol=1e-5)
    assert sorted(os.listdir()) == ["in.csv", "out.csv"]


def test_bfloat16(checkpoint, inputs, monkeypatch, refused):
    command = [checkpoint("grpe_tiny"), "in.csv", "out.csv", "--quiet"]
    command += ["--dtype", "bf16"]
    monkeypatch.setattr(bfloat16, "has_bfloat16", lambda device: False)
    assert "bfloat16 would be slower than float32" in refused(main, *command)
    monkeypatch.setattr(bfloat16, "has_bfloat16", lambda device: True)
    assert main(command) == 0
    found = np.array([float(rows("out.csv")[row]["gap"]) for row in GOOD])
    predictor = hub.load(command[0])
    expected = predictor.predict([SMILES[row] for row in GOOD])[:, 0]
    assert 0 < np.abs(found - expected).max() < 0.05 * predictor.targets.std[0]


def test_ensemble(checkpoint, inputs, refused):
    """Options may stand between checkpoints and files."""
    paths = [checkpoint("grpe_tiny"), checkpoint("gt_zinc")]
    assert main([*paths, "--batch-size", "2", "in.csv", "--quiet", "out.csv"]) == 0
    found = rows("out.csv")[0]
    both = [hub.load(path).predict(["CCO"])[0, 0] for path in paths]
    assert float(found["gap"]) == pytest.approx(np.mean(both), rel=1e-5)
    assert float(found["gap_std"]) == pytest.approx(np.std(both, ddof=1), rel=1e-5)
    other = checkpoint("grpe_tiny", "--target-unit", "kJ")
    line = refused(main, paths[0], other, "in.csv", "no.csv")
    assert "predict different things: unit ['kJ'] and ['eV']" in line


@pytest.mark.parametrize("fingerprint", [False, True])
def test_embeddings(checkpoint, inputs, fingerprint):
    path, more = checkpoint("grpe_tiny"), ["--grpe-fingerprint"] * fingerprint
    command = [path, "in.csv", "out.csv", "--embeddings", "e.npy", "--quiet"]
    assert main([*command, "--layers", "2", *more]) == 0
    found = np.load("e.npy")
    assert found.shape == (6, 32) and found.dtype == np.float32
    assert np.flatnonzero(~np.isnan(found).all(1)).tolist() == GOOD
    smiles = [SMILES[row] for row in GOOD]
    expected = hub.load(path).embed(smiles, 2, fingerprint=fingerprint)
    np.testing.assert_allclose(found[GOOD], expected, atol=1e-5)


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), OSError(28, "No space left")])
def test_the_same_command_goes_on(checkpoint, many, tmp_path, monkeypatch, capfd, stop):
    """After it is stopped, to the bytes of a run that was not, and its metrics."""
    monkeypatch.chdir(tmp_path)
    lines = Path(many).read_text().splitlines()
    labels = ["gap", *map(str, range(1100))]
    Path(many).write_text("\n".join(map(",".join, zip(lines, labels))) + "\n")
    command = [checkpoint("grpe_tiny"), many, "--quiet"]
    assert main([*command, "whole.csv", "--embeddings", "w.npy"]) == 0
    whole = capfd.readouterr().out
    again = [*command, "out.csv", "--embeddings", "e.npy"]
    write = PredictionChunks.write

    def stopped(parts, part):
        if parts.count == 2:
            raise stop
        return write(parts, part)

    with monkeypatch.context() as patch:
        patch.setattr(PredictionChunks, "write", stopped)
        assert main(again) == (2 if isinstance(stop, OSError) else 130)
    kept, end = capfd.readouterr().err.splitlines()
    assert kept == "the first 1,024 rows are kept, the same command goes on"
    full = f"error: {stop}; free a disk, perhaps /dev/shm, which processes share"
    assert end == (full if isinstance(stop, OSError) else "interrupted")
    assert not Path("out.csv").exists() and not Path("e.npy").exists()
    assert main([*again, "--batch-size", "64"]) == 0
    assert Path("out.csv").read_bytes() == Path("whole.csv").read_bytes()
    np.testing.assert_array_equal(np.load("e.npy"), np.load("w.npy"))
    assert not [name for name in os.listdir() if "part" in name]
    out = capfd.readouterr().out
    assert "1,100 rows, 22 without prediction" in out
    assert out.partition("Labels")[2] == whole.partition("Labels")[2] != ""


def test_the_same_command_after_a_kill_in_its_last_second(
    checkpoint, inputs, monkeypatch, capfd
):
    """It says what the killed one said, and does not predict again."""
    Path("in.csv").write_text("smiles,gap\nC,1\nCC,2\nCCC,4\n")
    command = [checkpoint("grpe_tiny"), "in.csv", "out.csv", "--quiet"]
    with monkeypatch.context() as patch:
        patch.setattr(
            PredictionChunks, "remove", lambda _: os.kill(os.getpid(), SIGKILL)
        )
        child = forked(main, command)
        child.join()
    assert child.exitcode == -SIGKILL
    said, content = capfd.readouterr().out, Path("out.csv").read_bytes()
    monkeypatch.setattr(run, "load", None)  # it would load the model
    assert main(command) == 0
    assert capfd.readouterr().out == f"out.csv is finished\n{said}"
    assert "rmse" in said and Path("out.csv").read_bytes() == content
    assert not [name for name in os.listdir() if name.startswith(("out.csv.", "."))]
    assert main(command) == 2


def hold_lock(pipe):
    with file_lock("out.csv"):
        pipe.send("locked")
        pipe.recv()


def test_two_commands_with_one_output(checkpoint, inputs, monkeypatch):
    """The second computes nothing before the first is done."""
    ours, theirs = multiprocessing.Pipe()
    child = forked(hold_lock, theirs)
    ours.recv()
    lines = []

    def waits(line):
        lines.append(line)
        assert not Path("out.csv").exists()
        Path("out.csv").write_text("mine")
        ours.send("end")

    monkeypatch.setattr(_prediction, "print_warning", waits)
    assert main([checkpoint("grpe_tiny"), "in.csv", "out.csv", "--quiet"]) == 2
    child.join()
    assert lines == ["another process writes out.csv; waiting"]
    assert Path("out.csv").read_text() == "mine"


def test_parts_are_of_one_command(inputs):
    """The key changes with all that the numbers depend on."""
    one = "best.pt"
    other = "last.pt"
    for name in (one, other):  # files are not loaded
        Path(name).write_text(name)
    Path("code").mkdir()
    Path("code/a.py").touch()

    def key(words, rows=(0, 6, 512)):
        parsed = predict.build_parser().parse_intermixed_args(words.split())
        models = _prediction.named_models(parsed)
        options = _prediction.run_options(parsed)
        table = open_table(Path("in.csv"))
        return run.run_digest(options, models, table, RowRange(*rows))

    command = f"{one} in.csv out.csv"
    first = key(command)
    for more in ("--batch-size 7", "--workers 2", "--device cpu", "--quiet"):
        assert key(f"{command} {more}") == first
    options = ["--embeddings e.npy", "--embeddings e.npy --layers 1", "--dtype bf16"]
    options += ["--embeddings e.npy --grpe-fingerprint", "--head none", "--max-atoms 9"]
    options += ["--smiles-column S", "--mean", "--cut-off 0.3"]
    keys = [first, *(key(f"{command} {more}") for more in options)]
    keys += [key(f"{models} in.csv out.csv") for models in (other, f"{one} {one}")]
    keys += [key(command, rows) for rows in ((3, 6, 512), (0, 5, 512), (0, 6, 64))]
    for text in ("", "x = 1"):
        Path("code/a.py").write_text(text)
        keys.append(key(f"{command} --user-data-dir code"))
    for content in ({}, {"log_targets": ["gap"]}, {"spread_floor": {"gap": 1.0}}):
        write_folder(".", [one], **content)
        keys.append(key(". in.csv out.csv"))
    assert keys.pop(-3) == first
    for name in ("head.npz", "best.domain.npz", "in.csv"):
        with open(name, "a") as file:
            file.write("x\n")
        keys.append(key(command))
    assert max(Counter(keys).values()) == 1


def test_no_molecule_at_all(checkpoint, inputs, capsys):
    command = [checkpoint("grpe_tiny"), "--quiet"]
    capsys.readouterr()  # the training's output
    assert main([*command, "in.csv", "out.csv", "--smiles-column", "name"]) == 0
    err = capsys.readouterr().err
    assert "nothing in column 'name'" in err and "--smiles-column" in err
    assert all(not row["gap"] and row["reason"] for row in rows("out.csv"))
    Path("in.smi").write_text("C1CC\n\tname\n")
    assert main([*command, "in.smi", "out2.csv"]) == 0
    assert "column 'reason'\n" in capsys.readouterr().err
    assert [row["reason"] for row in rows("out2.csv")][1] == "no SMILES"


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("out of memory"), MemoryError()]
)
def test_out_of_memory(checkpoint, inputs, monkeypatch, refused, error):
    def refuse(*arguments):
        raise error

    path = checkpoint("grpe_tiny")
    monkeypatch.setattr(hub.Member, "estimate", refuse)
    line = refused(main, path, "in.csv", "out.csv", "--quiet")
    assert line.startswith("error: rows 0 to 5 do not fit into memory")
    assert "has 7 atoms" in line and "--batch-size below 128" in line


def test_processes(checkpoint, many, tmp_path, monkeypatch, capsys):
    """Processes that predict, or read SMILES for a GPU, write what one process does."""

    def forked(workers, function, *rest):  # loky's processes take seconds to start
        return in_workers(workers, loads(bytes(dumps(function))), *rest[:2], fork=True)

    monkeypatch.setattr(run, "in_workers", forked)
    monkeypatch.chdir(tmp_path)
    path = checkpoint("grpe_tiny")
    capsys.readouterr()  # the training's output
    written = []
    for workers, kind in (("0", "cpu"), ("2", "cpu"), ("2", "cuda")):
        device = property(lambda _, kind=kind: SimpleNamespace(type=kind))
        monkeypatch.setattr(hub.Predictor, "device", device)
        command = [path, many, "out.csv", "--embeddings", "e.npy", "--quiet"]
        assert main([*command, "--workers", workers]) == 0
        printed = capsys.readouterr()
        assert "1,100 rows" in printed.out
        written.append((rows("out.csv"), np.load("e.npy"), printed.err))
        os.remove("out.csv"), os.remove("e.npy")
    (one, vectors, warned), *more = written
    for other, others, also in more:
        assert [row["smiles"] for row in one] == [row["smiles"] for row in other]
        assert [row["reason"] for row in one] == [row["reason"] for row in other]
        gaps = [[float(row["gap"] or "nan") for row in out] for out in (one, other)]
        np.testing.assert_allclose(*gaps, rtol=1e-5)
        np.testing.assert_allclose(vectors, others, rtol=1e-4, atol=1e-5)
        assert warned == also
