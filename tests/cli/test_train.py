"""graphormer-train: from a table to a folder with a model."""

import dataclasses
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from graphormer_plugin import hub
from graphormer_plugin.cli import explain, predict
from graphormer_plugin.cli.train import default_folder, main
from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.experiment import plan, starts, training
from graphormer_plugin.experiment import run as running
from graphormer_plugin.experiment.settings import Settings
from graphormer_plugin.finetune import fit_head
from graphormer_plugin.finetune.transfer import read_pretrained
from graphormer_plugin.inference.checkpoint import read_checkpoint
from graphormer_plugin.inference.head import read_head
from graphormer_plugin.inference.model_folder import read_folder, write_folder
from support.published_weights import random_state
from support.tables import rows
from support.training import assert_same_weights, forked, server_environment

SHORT = "--epochs 1 --batch-size 4 --trees 5 --device cpu --quiet".split()


# One worker has the experiment that most tests read.
pytestmark = pytest.mark.xdist_group("train")


@pytest.fixture(scope="module")
def quick():
    """Trainings run in forks of one process that has all imports."""
    environment = server_environment()
    python = shutil.which("python", path=environment["PATH"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "PROGRAM", [python, "-m", "fairseq_cli.train"])
        patch.setattr(training, "ENVIRONMENT", environment)
        yield environment


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
    words += ["--ensemble", "2", "--model", "finetune"]
    return [*words, "--start", checkpoint("grpe_tiny"), *more]


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
    assert page.count("data:image/png;base64,") == 3 and "<script" not in page
    assert not re.search(r'(src|href)="(?!data:)', page)
    for name in ("parity.png", "calibration.png", "curves.png"):
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
        "in_domain",
        "gap_forest",
    ]
    assert first["name"] == f"alcohol {len(first['SMILES']) - 1}"
    members = [
        hub.load(model / f"replicate1/finetune{member}/checkpoint_best.pt")
        for member in (1, 2)
    ]
    values = np.array([one.predict([first["SMILES"]])[0, 0] for one in members])
    assert float(first["gap_predicted"]) == pytest.approx(values.mean(), rel=1e-5)
    # A replicate has too few molecules in valid to calibrate it, both together do not.
    std = values.std(ddof=1)
    assert float(first["gap_std"]) == pytest.approx(std, rel=0.02)
    assert read_folder(model).scale(members[0].targets)(std) != pytest.approx(std)
    assert all(float(line["in_domain"]) == 1 for line in found["train"])
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


def test_the_folder_predicts(folder, tmp_path):
    """All replicates together, with the spread as it was calibrated."""
    assert (
        predict.main(
            [
                str(folder / "model"),
                str(folder / "table.csv"),
                str(tmp_path / "out.csv"),
            ]
        )
        == 0
    )
    found = rows(tmp_path / "out.csv")
    values = [
        np.load(path)["values"][:, 0]
        for path in sorted(folder.glob("model/replicate*/finetune*/predictions.npz"))
    ]
    assert len(values) == 4
    assert [float(line["gap_predicted"]) for line in found] == pytest.approx(
        np.mean(values, 0), rel=1e-4, abs=1e-6
    )
    scale = read_folder(folder / "model").scale(TargetSchema(["gap"]))
    std = scale(np.std(values, 0, ddof=1))
    assert [float(line["gap_std"]) for line in found] == pytest.approx(std, rel=1e-3)


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
    monkeypatch.setattr(running, "file_lock", None)  # of a folder to read only
    assert main(arguments(folder, checkpoint)) == 0
    out = capsys.readouterr().out
    assert "is finished; its results:" in out
    assert (folder / "model/results.txt").read_text().strip() in out
    assert main(arguments(folder, checkpoint, "--seed", "2")) == 2
    assert "another experiment: seed was 1, now 2" in capsys.readouterr().err
    assert not list(folder.glob(".*.lock"))  # it may not be writable, unlike model/


def test_standard_output_may_be_full(folder, checkpoint, capsys, monkeypatch):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(arguments(folder, checkpoint)) == 0
    assert "standard output cannot be written" in capsys.readouterr().err


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
    for name in (  # by a user, of a finished one
        "results.txt",
        "predictions_valid.csv",
        "molecules.csv",
        "parity.png",
        "replicate2/finetune1/checkpoint_best.domain.npz",
    ):
        (model / name).unlink()
        assert main(arguments(tmp_path, checkpoint)) == 0
        assert (model / name).read_bytes() == (folder / "model" / name).read_bytes()
    assert kept.stat().st_mtime_ns == before
    capsys.readouterr()
    assert main(arguments(tmp_path, checkpoint)) == 0
    assert "is finished" in capsys.readouterr().out


def test_the_better_of_head_and_fine_tuning(folder, checkpoint, tmp_path, capsys):
    """One update is worse than a head: alcohols differ in their length alone."""
    words = [str(folder / "table.csv"), "--out", str(tmp_path / "model"), *SHORT]
    words += ["--split", "random", "--start", checkpoint("grpe_tiny")]
    assert main(words) == 0
    model = tmp_path / "model"
    listed = json.loads((model / "models.json").read_text())["models"]
    assert listed == ["replicate1/head1/checkpoint_best.pt"]
    lines = [
        line
        for line in rows(model / "results.csv")
        if (line["split"], line["metric"]) == ("valid", "rmse")
    ]
    assert [(line["model"], line["chosen"]) for line in lines] == [
        ("head", "yes"),
        ("fine-tuned", "no"),
        ("head + fine-tuned", "no"),
    ]
    head, tuned, both = (float(line["value"]) for line in lines)
    assert head < both < tuned
    reason = f"fine-tuned: {tuned:.3f}, head + fine-tuned: {both:.3f}"
    page = (model / "report.html").read_text()
    assert f"head, valid rmse {head:.3g} ({reason})" in page
    # The head that is kept has seen the validation molecules too, and reads back.
    head = read_head(model / "replicate1/head1/head.npz")
    assert len(head) == 27 and head.targets.names == ["gap"]
    predictor = hub.load(model / listed[0])
    found = rows(model / "predictions_test.csv")
    smiles = [line["SMILES"] for line in found]
    values, std, in_domain = predictor.estimate(smiles)
    for name, column in (("predicted", values), ("std", std)):
        assert [float(line[f"gap_{name}"]) for line in found] == pytest.approx(
            column[:, 0], rel=1e-4
        )
    assert [float(line["in_domain"]) for line in found] == pytest.approx(in_domain)
    # A model that was removed is made again.
    before = (model / "predictions_test.csv").read_bytes()
    shutil.rmtree(model / "replicate1/head1")
    best = model / "replicate1/finetune1/checkpoint_best.pt"
    shutil.copy(best, tmp_path / "best.pt")
    best.unlink()
    assert main(words) == 0
    assert_same_weights(best, tmp_path / "best.pt")
    assert hub.load(model / listed[0]).predict(smiles) == pytest.approx(values)
    assert (model / "predictions_test.csv").read_bytes() == before
    # What both say together is what a folder of both predicts.
    write_folder(model, [listed[0], "replicate1/finetune1/checkpoint_best.pt"])
    errors = hub.load(model).predict(smiles)[:, 0]
    errors -= [float(line["gap"]) for line in found]
    (together,) = (
        float(line["value"])
        for line in rows(model / "results.csv")
        if (line["model"], line["split"], line["metric"])
        == ("head + fine-tuned", "test", "rmse")
    )
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(together, rel=1e-4)


def test_heads_of_published_weights(folder, tmp_path, monkeypatch, capsys):
    """Fitted to a sample of the molecules; the limit of atoms stays."""
    monkeypatch.setenv("GRAPHORMER_PRETRAINED_DIR", str(tmp_path))
    weights = {"model": random_state()}
    torch.save(weights, tmp_path / "checkpoint_best_pcqm4mv2.pt")
    for module in (fit_head, plan):
        monkeypatch.setattr(module, "MAX_ROWS", 20)
    model = tmp_path / "model"
    words = [str(folder / "table.csv"), "--out", str(model), "--split", "random"]
    words += ["--start", "pcqm4mv2_graphormer_base", "--max-atoms", "40"]
    words += "--replicates 2 --trees 5 --device cpu --quiet".split()
    assert main(words) == 0
    assert "warning: heads are fitted to 20 of 27 molecules\n" in (
        capsys.readouterr().err
    )
    page = (model / "report.html").read_text()
    assert "Warning: heads are fitted to 20 of 27 molecules." in page
    for number in (1, 2):
        kept = model / f"replicate{number}/head1"
        assert len(read_head(kept / "head.npz")) == 20
        predictor = hub.load(kept / "checkpoint_best.pt")
        assert predictor.max_atoms == 40
        test = [
            line
            for line in rows(model / "predictions_test.csv")
            if line["replicate"] == str(number)
        ]
        values = predictor.predict([line["SMILES"] for line in test])[:, 0]
        written = [float(line["gap_predicted"]) for line in test]
        assert written == pytest.approx(values, rel=1e-4)


@pytest.fixture
def nothing_ships(monkeypatch):
    monkeypatch.setattr(starts, "packaged_models", dict)


def test_the_model_of_the_package_is_the_start(checkpoint, monkeypatch):
    path = Path(checkpoint("grpe_tiny"))
    ships = {"small": path, "tiny": path}
    monkeypatch.setattr(starts, "packaged_models", lambda: ships)
    monkeypatch.setattr(starts, "load_pretrained", lambda name: read_pretrained(path))
    start = starts.find_start(Settings("a.csv", "out"))
    # Beside a user's own of that name, which fairseq-train would not find by itself:
    assert start.options["pretrained_model_name"] == "small"
    assert "pretrained_dir" not in start.options
    own = dataclasses.replace(read_pretrained(path), path="models/small.pt")
    with monkeypatch.context() as patch:
        patch.setattr(starts, "load_pretrained", lambda name: own)
        found = starts.find_start(Settings("a.csv", "out")).options
    assert found["pretrained_dir"] == os.path.abspath("models")
    assert (start.path, start.arch, start.layers) == (path, "grpe_tiny", 2)
    with pytest.raises(DatasetError, match="--arch gcn: the start small is a grpe_tin"):
        starts.find_start(Settings("a.csv", "out", arch="gcn"))
    other = dataclasses.replace(read_pretrained(path), options={"_name": "mixer"})
    monkeypatch.setattr(starts, "load_pretrained", lambda name: other)
    with pytest.raises(DatasetError, match=r"\.pt: unknown --arch mixer, expected one"):
        starts.find_start(Settings("a.csv", "out"))
    with pytest.raises(
        DatasetError, match="unknown --arch lstm, expected one of cgt, "
    ):
        starts.find_start(Settings("a.csv", "out", arch="lstm", model="scratch"))


def test_classes_from_scratch(quick, nothing_ships, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = [f"{'C' * k}{end},{k % 2},{k % 3 // 2}" for k in range(12) for end in "ON"]
    text = "\n".join(["smiles,a/b,c", *lines]) + "\n"
    (tmp_path / "classes.csv").write_text(text)
    words = ["classes.csv", "--target-columns", "a/b,c", "--split", "random", *SHORT]
    assert main([*words, "--arch", "grpe_tiny"]) == 0
    captured = capsys.readouterr()
    assert "24 molecules, SMILES in column smiles, targets a/b, c (binary)" in (
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
    found = rows(tmp_path / "classes-model/predictions_test.csv")
    cells = {line[name] for line in found for name in ("a/b", "c")}
    assert {"0", "1"} <= cells <= {"0", "1", ""}


def test_words_weights_and_salts(quick, checkpoint, tmp_path, capsys):
    """Classes keep their words up to the predictions of the folder."""
    ends = {"O": "sweet", "N": "bitter", "Cl": "sour"}
    lines = [
        f"{'C' * k}{end}{'.Cl' * (k % 2)},{word},{k}"
        for k in range(1, 13)
        for end, word in ends.items()
    ]
    (tmp_path / "t.csv").write_text("\n".join(["smiles,taste,trust", *lines]) + "\n")
    words = [str(tmp_path / "t.csv"), "--out", str(tmp_path / "model"), *SHORT]
    words += ["--split", "random", "--start", checkpoint("grpe_tiny")]
    words += ["--target-columns", "taste", "--class-names", "sweet,sour,bitter"]
    words += ["--weight-column", "trust", "--class-weights", "balanced"]
    assert main([*words, "--largest-fragment"]) == 0
    out = capsys.readouterr().out
    assert "target taste (multiclass)" in out
    assert "accuracy  balanced_accuracy  log_loss" in out
    model = tmp_path / "model"
    script = (model / "commands.sh").read_text()
    for flag in ("class-names sweet,sour,bitter", "weight-column trust"):
        assert f"--{flag} " in script
    assert "--class-weights balanced" in script and "--largest-fragment" in script
    assert (model / "confusion.png").exists()
    first = rows(model / "predictions_test.csv")[0]
    assert first["taste"] in ends.values() and first["taste_forest"] in ends.values()
    chances = {
        word: float(first[f"taste_probability_{word}"]) for word in ends.values()
    }
    assert first["taste_predicted"] == max(chances, key=chances.get)
    (chosen,) = json.loads((model / "models.json").read_text())["models"]
    assert chosen == "replicate1/head1/checkpoint_best.pt"
    output = tmp_path / "out.csv"
    assert predict.main([str(model), str(tmp_path / "t.csv"), str(output)]) == 0
    (found,) = [line for line in rows(output) if line["smiles"] == first["smiles"]]
    assert found["taste_predicted"] == first["taste_predicted"]
    assert float(found["taste_probability_sour"]) == pytest.approx(
        chances["sour"], rel=1e-4
    )
    # Without its salt a molecule is the same; the fine-tuned model knows that, too.
    for name in ("head1", "finetune1"):
        predictor = hub.load(model / f"replicate1/{name}/checkpoint_best.pt")
        one, other = predictor.predict(["CCO.Cl", "CCO"])
        np.testing.assert_allclose(one, other, rtol=1e-5)
        assert predictor.targets.class_names == [["sweet", "sour", "bitter"]]
    salt, output = tmp_path / "salt.csv", tmp_path / "of_salt.csv"
    salt.write_text("smiles\nCCO.[Na+]\n")
    assert predict.main([str(model), str(salt), str(output)]) == 0
    assert "no training molecule has" not in capsys.readouterr().err


def test_rows_without_weight_teach_nothing(checkpoint, tmp_path):
    """Neither the head nor the forest: amines have wrong labels."""
    lines = [
        f"{'C' * k}{end},{label},{weight}"
        for k in range(1, 31)
        for end, label, weight in (("O", k / 4, 1), ("N", 50, 0))
    ]
    (tmp_path / "t.csv").write_text("\n".join(["smiles,gap,trust", *lines]) + "\n")
    words = [str(tmp_path / "t.csv"), "--out", str(tmp_path / "model"), "--quiet"]
    words += "--split random --model head --trees 5 --device cpu".split()
    words += ["--target-columns", "gap", "--weight-column", "trust"]
    assert main([*words, "--start", checkpoint("grpe_tiny")]) == 0
    found = rows(tmp_path / "model/predictions_test.csv")
    assert {line["gap"] for line in found} > {"50.0"}
    for name in ("gap_predicted", "gap_forest"):
        assert max(float(line[name]) for line in found) < 10


def test_columns_beside_the_molecule(quick, checkpoint, tmp_path, capsys):
    """Heads and trainings read them, and predictions need them."""
    lines = [
        f"{'C' * k}O,{k / 4 + ph:.2f},{ph if k % 5 else ''},{k}"
        for k in range(1, 16)
        for ph in (2, 9)
    ]
    text = "\n".join(["smiles,gap,pH,id", *lines]) + "\n"
    (tmp_path / "t.csv").write_text(text)
    words = [str(tmp_path / "t.csv"), "--out", str(tmp_path / "model"), *SHORT]
    words += ["--split", "random", "--start", checkpoint("grpe_tiny")]
    words += ["--target-columns", "gap", "--extra-columns", "pH", "--descriptors"]
    assert main(words) == 0
    model = tmp_path / "model"
    script = (model / "commands.sh").read_text()
    assert "--extra-columns pH" in script and "--descriptors" in script
    capsys.readouterr()
    for name in ("head1", "finetune1"):
        path = model / f"replicate1/{name}/checkpoint_best.pt"
        predictor = hub.load(path)
        assert predictor.extra_columns == ["pH"]
        low, high = (
            predictor.predict(["CCCO"], extra={"pH": [ph]})[0, 0] for ph in (2, 9)
        )
        assert low < high
        with pytest.raises(ValueError, match="the model reads pH beside the molecules"):
            predictor.predict(["CCCO"])
        new = tmp_path / "new.csv"
        new.write_text("smiles,pH\nCCCO,9\nCCCBr,acid\nCCCO,\n")
        output = tmp_path / f"{name}.csv"
        vectors, atoms = tmp_path / f"{name}.npy", tmp_path / f"{name}_atoms.npy"
        line = [str(path), str(new), str(output), "--embeddings"]
        assert predict.main([*line, str(atoms), "--nodes"]) == 0
        assert np.load(atoms).shape[0] == 8  # of two molecules
        assert np.load(f"{atoms.with_suffix('')}.count.npy").tolist() == [4, 0, 4]
        output.unlink()
        assert predict.main([*line, str(vectors)]) == 0
        assert "no training molecule" not in capsys.readouterr().err  # of two rows
        assert np.isnan(np.load(vectors)).all(1).tolist() == [False, True, False]
        first, second, third = rows(output)
        assert float(first["gap"]) == pytest.approx(high, rel=1e-4)
        assert (second["gap"], second["reason"]) == ("", "'acid' is not a number")
        assert low < float(third["gap"]) < high  # a typical pH
        if name == "finetune1":
            picture = tmp_path / "page.html"
            assert explain.main([str(path), "CCCO", str(picture)]) == 0
            assert "pH have their mean over the training" in picture.read_text()
        new.write_text("smiles\nCCCO\n")
        capsys.readouterr()
        assert predict.main([str(path), str(new), str(tmp_path / "no.csv")]) == 2
        assert capsys.readouterr().err == (
            f"error: {new}: no column 'pH'; the model reads the "
            "columns pH beside the molecules\n"
        )
    state = read_checkpoint(path).state["task_state"]["schema"]
    assert state["graph_features"][0] == "pH" and len(state["graph_features"]) > 200


@pytest.mark.slow
def test_a_column_called_split_is_named(nothing_ships, tmp_path, monkeypatch, capsys):
    """In the lines of the command, and in the settings, as if it were asked for."""

    def stop(*_):
        raise ValueError("stopped")

    monkeypatch.setattr(running, "write_molecules", stop)
    parts = ["train"] * 8 + ["valid", "valid", "test"]
    lines = [f"{'C' * k}O,{k},{part}" for k, part in enumerate(parts, 1)]
    (tmp_path / "t.csv").write_text("\n".join(["smiles,y,Split", *lines]) + "\n")
    assert main([str(tmp_path / "t.csv"), "--out", str(tmp_path / "model")]) == 2
    out = capsys.readouterr().out
    assert "split column:Split: 8 train, 2 valid, 1 test\n" in out
    found = json.loads((tmp_path / "model/settings.json").read_text())
    assert found["split"] == "column:Split"


@pytest.mark.slow
def test_a_killed_command_goes_on(quick, tmp_path, monkeypatch):
    """Its training ends with it, and continues from the last checkpoint."""
    lines = [f"{'C' * k}O,{k / 4}" for k in range(1, 61)]
    (tmp_path / "table.csv").write_text("\n".join(["smiles,gap", *lines]) + "\n")
    words = [str(tmp_path / "table.csv"), "--out", str(tmp_path / "model"), *SHORT]
    words += ["--split", "random", "--arch", "grpe_tiny", "--epochs", "25"]
    words += ["--model", "scratch"]
    log = tmp_path / "model/replicate1/scratch1/train.log"
    with monkeypatch.context() as patch:  # the training is a child, as for users
        program = [sys.executable, "-m", "fairseq_cli.train"]
        patch.setattr(training, "PROGRAM", program)
        process = forked(main, words)
    while not log.exists() or '"epoch": 3, "train_' not in log.read_text():
        assert process.is_alive()
        time.sleep(0.05)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    (child,) = children.read_text().split()
    process.kill()
    process.join()
    while Path(f"/proc/{child}/cmdline").exists():
        time.sleep(0.05)
    before = log.read_text()
    assert main(words) == 0
    epochs = re.findall(r'"epoch": (\d+), "train_', log.read_text()[len(before) :])
    assert int(epochs[0]) >= 3 and int(epochs[-1]) <= 25
    assert (tmp_path / "model/report.html").exists()


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
        (["in.csv", "--weight-column", "w"], "no column 'w'"),
        (["in.csv", "--class-names", "no,yes"], "--class-names"),
        (["in.csv", "--extra-columns", "pH"], "no column 'pH'"),
        (["in.csv", "--extra-columns", ","], "--extra-columns ',': expected names"),
        (["in.csv", "--class-weights", "1,2"], "--class-weights 1,2: the targets are"),
        (["in.csv", "--out", "/proc/x"], "No such file or directory: '/proc/x'"),
    ],
)
def test_errors_are_one_line(
    words, message, nothing_ships, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    lines = [f"{'C' * k},{k}" for k in range(1, 31)]
    (tmp_path / "in.csv").write_text("\n".join(["smiles,y", *lines]) + "\n")
    if "column:part" not in words:
        words = [*words, "--split", "random"]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_a_folder_has_one_lock_by_all_its_names(
    folder, checkpoint, tmp_path, monkeypatch
):
    locked = []

    def lock(path, on_wait):
        locked.append(path.resolve())
        raise ValueError("taken")

    monkeypatch.setattr(running, "file_lock", lock)
    new = tmp_path / "new"
    new.mkdir()
    monkeypatch.chdir(new)
    Path("../link").symlink_to("new")
    for name in (".", "../link", str(new)):
        assert main(arguments(folder, checkpoint, "--out", name)) == 2
    assert locked == [new / "experiment"] * 3
    # Two experiments that come at once would write different settings.
    assert not list(new.iterdir())


def test_a_failed_training_names_its_log(quick, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = [f"{'C' * k},{k}" for k in range(1, 31)]
    (tmp_path / "in.csv").write_text("\n".join(["smiles,y", *lines]) + "\n")
    monkeypatch.setitem(plan.LOSSES, "regression", "no_such")
    words = ["in.csv", "--split", "random", *SHORT, "--model", "scratch"]
    assert main(words) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "no_such" in error
    assert error.endswith("see in-model/replicate1/scratch1/train.log")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there(tmp_path, capsys):
    table = tmp_path / "in.csv"
    table.write_text("smiles,y\nCCO,1\n")
    out = tmp_path / "model"
    assert main([str(table), "--out", str(out), "--device", "cuda"]) == 2
    assert capsys.readouterr().err.startswith("error: --device cuda cannot be used: ")
    assert not out.exists()


def test_default_folder():
    assert default_folder("data/esol.csv.gz") == "esol-model"
    assert default_folder("ligands.sdf") == "ligands-model"
