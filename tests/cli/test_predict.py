import os
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from graphormer_plugin import hub
from graphormer_plugin.cli import _prediction, predict
from graphormer_plugin.cli.predict import main
from graphormer_plugin.heads.prediction import Prediction
from graphormer_plugin.inference import bfloat16
from graphormer_plugin.inference.part_files import PartFiles
from support.tables import rows
from support.training import forked

CLASSES = (
    "--dataset-name classes.csv --target-kind multiclass --target-unit= "
    "--criterion multiclass_cross_entropy"
)
SMILES = ["CCO", "c1ccccc1O", "CC(=O)[O-].[Na+]", "C1CC", "", "CCN"]


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
    good = [row for row in found if not row["reason"]]
    assert [row["gap"] for row in found if row["reason"]] == ["", ""]
    expected = hub.load(path).predict([row["SMILES"] for row in good])[:, 0]
    np.testing.assert_allclose([float(row["gap"]) for row in good], expected, rtol=1e-5)
    assert sorted(os.listdir()) == ["in.csv", "out.csv"]


def test_bfloat16(checkpoint, inputs, monkeypatch, capsys):
    command = [checkpoint("grpe_tiny"), "in.csv", "--quiet"]
    assert main([*command, "out.csv"]) == 0
    for has, code in ((True, 0), (False, 2)):
        monkeypatch.setattr(bfloat16, "has_bfloat16", lambda device, has=has: has)
        assert main([*command, f"{has}.csv", "--dtype", "bf16"]) == code
    assert "error: bfloat16 would be slower than float32" in capsys.readouterr().err
    assert not Path("False.csv").exists()
    expected, found = (
        np.array([float(row["gap"] or 0) for row in rows(name)])
        for name in ("out.csv", "True.csv")
    )
    assert 0 < np.abs(found - expected).max() < 0.05 * expected.std()


def test_columns_of_the_input_are_kept(checkpoint, inputs):
    """Also where they are called as the new ones."""
    Path("in.csv").write_text("canonical_smiles,gap,reason\nCCO,7,why\n")
    assert main([checkpoint("grpe_tiny"), "in.csv", "out.csv", "--quiet"]) == 0
    (row,) = rows("out.csv")
    assert list(row)[3:] == ["gap_predicted", "reason_predicted"]
    assert (row["gap"], row["reason"], row["reason_predicted"]) == ("7", "why", "")


def test_ensemble(checkpoint, inputs):
    paths = [checkpoint("grpe_tiny"), checkpoint("gt_zinc")]
    assert main([*paths, "in.csv", "out.csv", "--quiet"]) == 0
    found = rows("out.csv")[0]
    both = [hub.load(path).predict(["CCO"])[0, 0] for path in paths]
    assert float(found["gap"]) == pytest.approx(np.mean(both), rel=1e-5)
    assert float(found["gap_std"]) == pytest.approx(np.std(both, ddof=1), rel=1e-5)


def test_embeddings(checkpoint, inputs):
    path = checkpoint("grpe_tiny")
    more = ["--embeddings", "e.npy", "--layers", "2", "--quiet"]
    assert main([path, "in.csv", "out.csv", *more]) == 0
    found = np.load("e.npy")
    assert found.shape == (6, 32) and found.dtype == np.float32
    assert np.isnan(found).all(1).tolist() == [False] * 3 + [True, True, False]
    good = [0, 1, 2, 5]
    smiles = [SMILES[row] for row in good]
    predictor = hub.load(path)
    np.testing.assert_allclose(found[good], predictor.embed(smiles, 2), atol=1e-5)
    more = ["--embeddings", "f.npy", "--layers", "2", "--grpe-fingerprint", "--quiet"]
    assert main([path, "in.csv", "out3.csv", *more]) == 0
    fingerprints = np.load("f.npy")[good]
    expected = predictor.embed(smiles, 2, fingerprint=True)
    np.testing.assert_allclose(fingerprints, expected, atol=1e-5)
    lengths = np.linalg.norm(fingerprints.reshape(4, 2, 16), axis=2)
    np.testing.assert_allclose(lengths, 1, atol=1e-6)


@pytest.fixture
def classes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"{'C' * i}O,{i % 3}" for i in range(1, 41)]
    Path("classes.csv").write_text("\n".join(["smiles,kind", *lines]) + "\n")


def test_classes(checkpoint, classes):
    path = checkpoint("grpe_tiny", *CLASSES.split())
    assert main([path, "classes.csv", "out.csv", "--quiet"]) == 0
    (expected,) = hub.load(path).predict(["CO"])
    row = rows("out.csv")[0]
    probabilities = [f"kind_probability_{number}" for number in range(3)]
    assert list(row)[2:] == ["kind_predicted", *probabilities, "reason"]
    assert row["kind_predicted"] == str(expected.argmax())
    assert float(row["kind_probability_1"]) == pytest.approx(expected[1], rel=1e-5)


def test_ensemble_of_classes(checkpoint, classes, rng, monkeypatch):
    """The class of the highest mean probability, and the spread of this probability."""
    path = checkpoint("grpe_tiny", *CLASSES.split())
    members = rng.dirichlet(np.ones(3), size=(2, 40))
    answers = iter(members)
    monkeypatch.setattr(
        hub.Predictor, "_estimate", lambda *_: Prediction(next(answers))
    )
    assert main([path, path, "classes.csv", "out.csv", "--quiet"]) == 0
    best = members.mean(0).argmax(1)
    assert all((best != member.argmax(1)).any() for member in members)
    table = rows("out.csv")
    assert [int(row["kind_predicted"]) for row in table] == best.tolist()
    spread = [float(row["kind_std"]) for row in table]
    expected = members.std(0, ddof=1)[np.arange(40), best]
    np.testing.assert_allclose(spread, expected, rtol=1e-5)


def test_the_same_command_goes_on(checkpoint, many, tmp_path, monkeypatch, capfd):
    """After it is stopped, to the bytes of a run that was not, and its metrics."""
    monkeypatch.chdir(tmp_path)
    lines = Path(many).read_text().splitlines()
    labels = ["gap", *map(str, range(1100))]
    Path(many).write_text("\n".join(map(",".join, zip(lines, labels))) + "\n")
    command = [checkpoint("grpe_tiny"), many, "--quiet"]
    assert main([*command, "whole.csv", "--embeddings", "w.npy"]) == 0
    whole = capfd.readouterr().out
    again = [*command, "out.csv", "--embeddings", "e.npy"]
    write = PartFiles.write

    def stop(parts, part):
        if parts.count == 2:
            raise KeyboardInterrupt
        return write(parts, part)

    with monkeypatch.context() as patch:
        patch.setattr(PartFiles, "write", stop)
        assert main(again) == 130
    err = capfd.readouterr().err
    assert (
        err == "the first 1,024 rows are kept, the same command goes on\ninterrupted\n"
    )
    assert not Path("out.csv").exists() and not Path("e.npy").exists()
    assert main([*again, "--batch-size", "64"]) == 0
    assert Path("out.csv").read_bytes() == Path("whole.csv").read_bytes()
    np.testing.assert_array_equal(np.load("e.npy"), np.load("w.npy"))
    assert not [name for name in os.listdir() if "part" in name]
    out = capfd.readouterr().out
    assert "1,100 rows, 22 without prediction" in out
    assert out.partition("Labels")[2] == whole.partition("Labels")[2] != ""


def test_parts_are_of_one_command(checkpoint, inputs):
    """The key changes with all that the numbers depend on."""
    one, other = checkpoint("grpe_tiny"), checkpoint("gt_zinc")
    Path("code").mkdir()
    Path("code/a.py").touch()

    def key(*arguments, rows=("SMILES", "digest", 0, 6, 512)):
        parsed = predict.build_parser().parse_intermixed_args([*arguments, "out.csv"])
        return _prediction.run_key(parsed, _prediction.models_of(parsed), *rows)

    first = key(one, "in.csv")
    for more in (
        "--batch-size 7",
        "--workers 2",
        "--device cpu",
        "--smiles-column SMILES",
    ):
        assert key(one, "in.csv", *more.split()) == first
    options = ["--embeddings e.npy", "--embeddings e.npy --layers 1", "--dtype bf16"]
    options += ["--embeddings e.npy --grpe-fingerprint", "--head none", "--max-atoms 9"]
    keys = [key(one, "in.csv", *more.split()) for more in options]
    keys += [key(other, "in.csv"), key(one, other, "in.csv"), key(one, one, "in.csv")]
    keys += [key(one, "in.csv", rows=("SMILES", "digest", 6, 9, 512)), first]
    for text in ("", "x = 1"):
        Path("code/a.py").write_text(text)
        keys.append(key(one, "in.csv", "--user-data-dir", "code"))
    assert len(set(keys)) == len(keys) == 13


def test_full_disk(checkpoint, many, tmp_path, monkeypatch, capsys):
    """It names the file, and the rows before are kept."""
    monkeypatch.chdir(tmp_path)
    path, fsync, calls = checkpoint("grpe_tiny"), os.fsync, []

    def full(number):
        calls.append(number)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        fsync(number)

    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert main([path, many, "out.csv", "--quiet"]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("the first 512 rows are kept")
    assert ".parts/000001.npz: No space left" in second
    assert main([path, many, "out.csv", "--quiet"]) == 0
    smiles = [[row["smiles"] for row in rows(name)] for name in ("out.csv", many)]
    assert smiles[0] == smiles[1]


@pytest.mark.long
def test_kill_9(checkpoint, many, tmp_path, monkeypatch):
    """A process that is killed for real, beside processes that predict."""
    write, out = PartFiles.write, tmp_path / "out.csv"
    command = [checkpoint("grpe_tiny"), many, str(out), "--quiet", "--workers", "2"]
    slowly = lambda *part: (write(*part), time.sleep(0.5))[0]  # noqa: E731
    with monkeypatch.context() as patch:
        patch.setattr(PartFiles, "write", slowly)
        process = forked(main, command)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not [*tmp_path.glob("*.parts/000000.npz")]:
        time.sleep(0.02)
    process.kill()
    process.join()
    assert process.exitcode == -9 and not out.exists()
    assert [*tmp_path.glob("*.parts/000000.npz")]
    assert main(command) == 0
    assert main([*command[:2], str(tmp_path / "whole.csv"), "--quiet"]) == 0
    assert out.read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_no_molecule_at_all(checkpoint, inputs, capsys):
    path = checkpoint("grpe_tiny")
    capsys.readouterr()  # of its training
    more = ["--smiles-column", "name", "--quiet"]
    assert main([path, "in.csv", "out.csv", *more]) == 0
    err = capsys.readouterr().err
    assert "nothing in column 'name'" in err and "--smiles-column" in err
    table = rows("out.csv")
    assert len(table) == 6 and all(not row["gap"] and row["reason"] for row in table)
    Path("in.smi").write_text("C1CC\n\tname\n")
    assert main([path, "in.smi", "out2.csv", "--quiet"]) == 0
    assert "column 'reason'" in capsys.readouterr().err
    assert [row["reason"] for row in rows("out2.csv")][1] == "no SMILES"


def test_models_that_do_not_fit_together(checkpoint, inputs, refused):
    one = checkpoint("grpe_tiny")
    other = checkpoint("graphormer_slim", "--target-unit", "kJ")
    line = refused(main, one, other, "in.csv", "out.csv")
    assert "predict different things: unit 'kJ' and 'eV'" in line


def test_options_between_checkpoints_and_files(checkpoint, inputs):
    path = checkpoint("grpe_tiny")
    assert main([path, path, "--batch-size", "2", "in.csv", "--quiet", "out.csv"]) == 0
    assert float(rows("out.csv")[0]["gap_std"]) == 0


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory."),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
        MemoryError(),
    ],
)
def test_out_of_memory(checkpoint, inputs, monkeypatch, refused, error):
    def refuse(*arguments):
        raise error

    path = checkpoint("grpe_tiny")
    monkeypatch.setattr(hub.Predictor, "_estimate", refuse)
    line = refused(main, path, "in.csv", "out.csv", "--quiet")
    assert line.startswith("error: rows 0 to 5 do not fit into memory")
    assert "has 7 atoms" in line and "--batch-size below 128" in line


def test_processes(checkpoint, many, tmp_path, monkeypatch, capsys):
    """Processes that predict, or read SMILES for a GPU, write what one process does."""
    monkeypatch.chdir(tmp_path)
    path = checkpoint("grpe_tiny")
    capsys.readouterr()  # of its training
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
