"""graphormer-train: from a table to a folder with a model."""

import csv
import json
import re
import shlex
import shutil
import subprocess

import numpy as np
import pytest

from graphormer_plugin import hub
from graphormer_plugin.cli.train import default_folder, main
from graphormer_plugin.experiment import training
from support.training import assert_same_weights, server_environment

SHORT = "--epochs 1 --trees 5 --device cpu --quiet".split()


@pytest.fixture(scope="module")
def quick():
    """Trainings run in forks of one process that has all imports."""
    environment = server_environment()
    python = shutil.which("python", path=environment["PATH"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "PROGRAM", [python, "-m", "fairseq_cli.train"])
        patch.setattr(training, "ENVIRONMENT", environment)
        yield environment


def rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def folder(quick, checkpoint, tmp_path_factory):
    """A finished experiment: two replicates, an ensemble of two, fine-tuned."""
    root = tmp_path_factory.mktemp("experiment")
    lines = [f"{'C' * k}O,alcohol {k},{k / 4}" for k in range(1, 31)]
    (root / "table.csv").write_text("\n".join(["SMILES,name,gap", *lines]) + "\n")
    assert main(arguments(root, checkpoint)) == 0
    return root


def arguments(root, checkpoint, *more):
    words = [str(root / "table.csv"), "--out", str(root / "model"), *SHORT]
    words += ["--split", "random", "--ratios", "60,20,20", "--replicates", "2"]
    words += ["--ensemble", "2", "--start", checkpoint("grpe_tiny"), *more]
    return words


def test_files(folder):
    model = folder / "model"
    listed = json.loads((model / "models.json").read_text())["models"]
    assert listed == [
        f"replicate{run}/finetune{member}/checkpoint_best.pt"
        for run in (1, 2)
        for member in (1, 2)
    ]
    table = (model / "results.txt").read_text().splitlines()
    assert table[0].split() == ["rmse", "mae", "r2"]
    assert [line.split("  ")[0] for line in table[1:]] == [
        "mean",
        "random forest",
        "fine-tuned",
    ]
    assert table[3].count("±") == 3
    page = (model / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 2 and "<script" not in page
    assert not re.search(r'(src|href)="(?!data:)', page)
    for name in ("parity.png", "curves.png"):
        assert (model / name).read_bytes()[:4] == b"\x89PNG"


def test_predictions(folder):
    model = folder / "model"
    found = {
        name: rows(model / f"predictions_{name}.csv")
        for name in ("train", "valid", "test")
    }
    assert [len(lines) for lines in found.values()] == [36, 12, 12]
    first = found["test"][0]
    assert list(first) == "replicate SMILES name gap".split() + [
        "gap_predicted",
        "gap_std",
        "gap_forest",
    ]
    assert first["name"] == f"alcohol {len(first['SMILES']) - 1}"
    members = [
        hub.load(model / f"replicate1/finetune{member}/checkpoint_best.pt")
        for member in (1, 2)
    ]
    values = np.array([one.predict([first["SMILES"]])[0, 0] for one in members])
    assert float(first["gap_predicted"]) == pytest.approx(values.mean(), rel=1e-5)
    assert float(first["gap_std"]) == pytest.approx(values.std(ddof=1), rel=0.02)
    # The metrics are those of the predictions.
    test = [line for line in found["test"] if line["replicate"] == "2"]
    error = [float(line["gap_predicted"]) - float(line["gap"]) for line in test]
    (result,) = [
        line
        for line in rows(model / "results.csv")
        if (line["replicate"], line["chosen"]) == ("2", "yes")
        and (line["split"], line["metric"]) == ("test", "mae")
    ]
    assert float(result["value"]) == pytest.approx(np.abs(error).mean(), rel=1e-4)


def test_lines_give_the_same_model_when_typed(folder, quick, tmp_path):
    """Also in a second run of the command, since these are the lines that it runs."""
    shutil.copy(folder / "model/molecules.csv", tmp_path)
    script = (folder / "model/commands.sh").read_text()
    lines = script.replace("\\\n", " ").split("\nfairseq-train ")[1:]
    assert len(lines) == 4 and "--finetune-from-model" in lines[3]
    words = shlex.split(lines[3])
    run = [*training.PROGRAM, *words]
    subprocess.run(run, cwd=tmp_path, env=quick, check=True, capture_output=True)
    last = "replicate2/finetune2/checkpoint_last.pt"
    assert_same_weights(tmp_path / last, folder / "model" / last)


def test_a_finished_experiment_says_so(folder, checkpoint, capsys, monkeypatch):
    monkeypatch.setattr(training, "PROGRAM", ["false"])
    assert main(arguments(folder, checkpoint)) == 0
    out = capsys.readouterr().out
    assert "is finished; its results:" in out
    assert (folder / "model/results.txt").read_text().strip() in out
    assert main(arguments(folder, checkpoint, "--seed", "2")) == 2
    assert "another experiment: seed was 1, now 2" in capsys.readouterr().err


def test_it_goes_on_where_it_was(folder, checkpoint, tmp_path, capsys):
    """Without the last steps, as after a kill; what is there is not trained again."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    model = tmp_path / "model"
    for name in ("report.html", "results.csv", "replicate2/finetune2/predictions.npz"):
        (model / name).unlink()
    kept = model / "replicate2/finetune1/checkpoint_last.pt"
    before = kept.stat().st_mtime_ns
    assert main(arguments(tmp_path, checkpoint)) == 0
    assert kept.stat().st_mtime_ns == before
    for name in ("results.csv", "predictions_test.csv", "models.json"):
        assert (model / name).read_bytes() == (folder / "model" / name).read_bytes()


def test_classes_from_scratch(quick, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = [f"{'C' * k}{end},{k % 2},{k % 3 // 2}" for k in range(12) for end in "ON"]
    text = "\n".join(["smiles,a/b,c", *lines]) + "\n"
    (tmp_path / "classes.csv").write_text(text)
    words = ["classes.csv", "--target-columns", "a/b,c", "--split", "random", *SHORT]
    assert main([*words, "--arch", "grpe_tiny"]) == 0
    captured = capsys.readouterr()
    assert "24 molecules, SMILES in column smiles, target a/b, c (binary)" in (
        captured.out
    )
    assert "no pre-trained model ships with this version" in captured.err
    table = captured.out.splitlines()
    assert [line.split("  ")[0] for line in table if "0." in line] == [
        "majority",
        "random forest",
        "from scratch",
    ]
    assert (tmp_path / "classes-model/roc.png").exists()


@pytest.mark.parametrize(
    "words, message",
    [
        (["none.csv"], "none.csv: No such file or directory"),
        (["in.csv", "--ratios", "1,1"], "--ratios 1,1: expected three numbers"),
        (["in.csv", "--smiles-column", "x"], "no column 'x', the header has"),
        (["in.csv", "--model", "finetune"], "--model finetune needs --start"),
        (["in.csv", "--model", "scratch", "--start", "a.pt"], "--start does not go"),
        (["in.csv", "--start", "a.pt"], "a.pt"),
        (["in.csv", "--split", "column:part"], "no column 'part'"),
    ],
)
def test_errors_are_one_line(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = [f"{'C' * k},{k}" for k in range(1, 31)]
    (tmp_path / "in.csv").write_text("\n".join(["smiles,y", *lines]) + "\n")
    if "column:part" not in words:
        words = [*words, "--split", "random"]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not (tmp_path / "in-model").exists()


def test_a_failed_training_names_its_log(quick, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = [f"{'C' * k},{k}" for k in range(1, 31)]
    (tmp_path / "in.csv").write_text("\n".join(["smiles,y", *lines]) + "\n")
    words = ["in.csv", "--split", "random", *SHORT, "--arch", "no_such"]
    assert main(words) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "no_such" in error
    assert error.endswith("see in-model/replicate1/scratch1/train.log")


def test_default_folder():
    assert default_folder("data/esol.csv.gz") == "esol-model"
