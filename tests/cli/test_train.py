"""graphormer-train: from a table to a folder with a model."""

import contextlib
import io
import json
import logging
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

import graphormer_plugin
from graphormer_plugin import hub
from graphormer_plugin.cli import explain, predict
from graphormer_plugin.cli.train import build_parser, main, parsed_settings
from graphormer_plugin.data import files
from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.graphs.descriptors import COMPUTED, PREFIX
from graphormer_plugin.data.graphs.smiles import mol_of_any_smiles
from graphormer_plugin.data.graphs.start_molecules import ENDING, write_seen
from graphormer_plugin.data.targets import Kind, TargetSchema
from graphormer_plugin.estimators.gp import read_estimator
from graphormer_plugin.inference.checkpoint import read_checkpoint
from graphormer_plugin.inference.model_folder import read_folder
from graphormer_plugin.workbench.experiment import experiment, results, starts, training
from graphormer_plugin.workbench.experiment import run as running
from graphormer_plugin.workbench.experiment.settings import Settings
from graphormer_plugin.workbench.explain.masking import contributions
from graphormer_plugin.workbench.fitting import fit_gp
from graphormer_plugin.workbench.fitting.calibration import SPREAD_SCORES
from support.golden import published_graphormer
from support.labelled_molecules import undrawn
from support.tables import rows
from support.training import assert_same_weights, forked

QUICK = "--trees 5 --device cpu --quiet --split random".split()
SHORT = [*QUICK, *"--epochs 1 --batch-size 4".split()]
ALCOHOLS = [f"{'C' * k}O,{k / 4}" for k in range(1, 31)]


# One worker has the experiment that most tests read.
pytestmark = pytest.mark.xdist_group("train")


@pytest.fixture(scope="module", autouse=True)
def reports_without_pictures():
    """experiment/test_results.py draws them."""
    with undrawn():
        yield


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
    words += ["--ratios", "60,20,20", "--replicates", "2"]
    words += ["--ensemble", "2", "--model", "finetune"]
    return [*words, "--start", checkpoint("grpe_tiny"), *more]


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Function: write lines to t.csv, in the current folder, and name it and the folder
    of the results, both in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def command(header, lines, *words):
        Path("t.csv").write_text("\n".join([header, *lines]) + "\n")
        return ["t.csv", "--out", "model", *words]

    return command


def chosen(model):
    return json.loads((model / "models.json").read_text())["models"]


def test_files(folder):
    model = folder / "model"
    runs = [f"replicate{run}/finetune{k}" for run in (1, 2) for k in (1, 2)]
    assert chosen(model) == [f"{name}/checkpoint_best.pt" for name in runs]
    tables = (model / "results.txt").read_text().split("\n\n")
    (title, *table), (_, *spreads), worse = (text.splitlines() for text in tables)
    assert title == "Test molecules (* best)"
    assert table[0].split() == ["model", "n", "rmse", "mae", "r2", "spearman"]
    assert spreads[0].split() == ["model", *SPREAD_SCORES]
    assert [line.split("  ")[0] for line in spreads[1:]] == ["fine-tuned"]
    names = [line.split("  ")[0] for line in table[1:]]
    assert names == ["mean", "boosted trees", "fine-tuned"]
    assert table[3].count("±") == 4 and table[3].split()[1] == "6"
    assert worse[0].startswith("the model is worse than the boosted trees in rmse: gap")
    page = (model / "report.html").read_text()
    start = json.loads((model / "settings.json").read_text())
    name = Path(start["start"]).name
    assert f"{name}, sha256 {start['start_sha256']}</td>" in page
    assert page.count("data:image/png;base64,") == 5 and "<script" not in page
    assert not re.search(r'(src|href)="(?!data:)', page)
    assert len([*(model / "data/stores").glob("*/manifest.json")]) == 1
    for name in ("parity", "residuals", "errors", "calibration", "curves"):
        assert (model / f"{name}.png").read_bytes()[:4] == b"\x89PNG"


def test_no_line_tells_where_it_was_written(folder, checkpoint, capsys):
    """Of the files that are shown to others, and of the terminal."""
    assert main(arguments(folder, checkpoint)) == 0
    texts = [*capsys.readouterr()]
    texts += [
        (folder / "model" / n).read_text() for n in ("commands.sh", "report.html")
    ]
    places = [str(folder), str(Path(checkpoint("grpe_tiny")).parent), str(Path.home())]
    assert not [place for text in texts for place in places if f'"{place}' in text]
    assert not re.search(r"""(?:^|[\s"'=])/(?:tmp|home|root|usr)""", "\n".join(texts))


def test_predictions(folder):
    model = folder / "model"
    names = ("train", "valid", "test")
    found = {name: rows(model / f"predictions_{name}.csv") for name in names}
    assert [len(lines) for lines in found.values()] == [36, 12, 12]
    first = found["test"][0]
    header = "replicate SMILES name gap gap_predicted gap_std in_domain gap_trees"
    assert list(first) == header.split()
    assert first["name"] == f"alcohol {len(first['SMILES']) - 1}"
    paths = [model / f"replicate1/finetune{k}/checkpoint_best.pt" for k in (1, 2)]
    members = [hub.load(path) for path in paths]
    values = np.array([one.predict([first["SMILES"]])[0, 0] for one in members])
    assert float(first["gap_predicted"]) == pytest.approx(values.mean(), rel=1e-5)
    # A replicate has too few molecules in valid to calibrate it, both together do not.
    std = values.std(ddof=1)
    assert float(first["gap_std"]) == pytest.approx(std, rel=0.02)
    assert read_folder(model).scale(members[0].targets)(std) != pytest.approx(std)
    assert {float(line["in_domain"]) for line in found["train"]} == {1}


def test_the_folder_predicts(folder, tmp_path):
    """All replicates together, with the spread as it was calibrated."""
    output = tmp_path / "out.csv"
    words = [str(folder / "model"), str(folder / "table.csv"), str(output)]
    assert predict.main(words) == 0
    found = rows(output)
    values = [
        np.load(path)["values"][:, 0]
        for path in sorted(folder.glob("model/replicate*/finetune*/predictions.npz"))
    ]
    assert len(values) == 4
    assert [float(line["gap_predicted"]) for line in found] == pytest.approx(
        np.mean(values, 0), rel=1e-4, abs=1e-6
    )
    scale = read_folder(folder / "model").scale(TargetSchema.of(["gap"]))
    std = scale(np.std(values, 0, ddof=1))
    assert [float(line["gap_std"]) for line in found] == pytest.approx(std, rel=1e-3)


def test_the_folder_explains(folder, tmp_path):
    """With the training molecules of its replicates, and of one alone."""
    out, model = tmp_path / "page.html", folder / "model"
    split = json.loads((model / "replicate1/split.json").read_text())
    fitted = {row + 1 for part in ("train", "valid") for row in split[part]}
    carbons = min(fitted)
    smiles = f"{'C' * carbons}O"
    assert explain.main([str(model), smiles, str(out)]) == 0
    text = out.read_text()
    headings = re.findall("<summary>(.*?)</summary>", text)
    assert headings == [
        "nearest training molecules",
        "nearest training molecules with another outcome",
    ]
    titles = re.findall(r'alt="(alcohol \d+: [^"]*)"', text)
    assert titles[0] == f"alcohol {carbons}: {carbons / 4}, similarity 1.00"
    assert str(folder) not in text
    path = model / chosen(model)[0]
    assert explain.main([str(path), "CCCCCCO", str(out), "--attention"]) == 0
    seen = re.findall(r'alt="alcohol (\d+):', out.read_text())
    assert len(seen) > 4 and {*map(int, seen)} <= fitted


def test_lines_give_the_same_model_when_typed(folder, quick, tmp_path):
    """Also in a second run of the command, since these are the lines that it runs."""
    (tmp_path / "replicate2").mkdir()
    for name in ("molecules.csv", "replicate2/split.json"):
        shutil.copy(folder / "model" / name, tmp_path / name)
    script = (folder / "model/commands.sh").read_text()
    lines = script.replace("\\\n", " ").split("\nfairseq-train ")[1:]
    assert len(lines) == 4 and "--finetune-from-model" in lines[3]
    words = shlex.split(lines[3])
    plugin = Path(graphormer_plugin.__file__).parent
    start = words.index("--finetune-from-model") + 1
    words[start] = str(folder / "model" / words[start])
    run = [*training.PROGRAM, *(str(plugin) if x == "$PLUGIN" else x for x in words)]
    subprocess.run(run, cwd=tmp_path, env=quick, check=True, capture_output=True)
    last = "replicate2/finetune2/checkpoint_last.pt"
    assert_same_weights(tmp_path / last, folder / "model" / last)


def test_a_finished_experiment_says_so(folder, checkpoint, capsys):
    """And writes nothing: the folder may be there to read only."""
    (folder / "model/.experiment.lock").unlink()
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert main(arguments(folder, checkpoint)) == 0
    after = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert before == after and len(before) > 9
    out = capsys.readouterr().out
    assert "is finished; its results:\n\n" in out
    assert (folder / "model/results.txt").read_text().strip() in out
    assert main(arguments(folder, checkpoint, "--seed", "2")) == 2
    assert "another experiment: seed was 1, now 2" in capsys.readouterr().err
    assert not list(folder.glob(".*.lock"))  # it may not be writable, unlike model/


def test_it_goes_on_where_it_was(folder, checkpoint, tmp_path, capsys):
    """Without the last steps, as after a kill; what is there is not trained again."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    model = tmp_path / "model"
    kept = model / "replicate2/finetune1/checkpoint_last.pt"
    before = kept.stat().st_mtime_ns
    for removed in (
        ["report.html", "replicate2/finetune2/predictions.npz", "results.csv"]
        + ["predictions_valid.csv", "molecules.csv", "parity.png"],
        ["replicate2/finetune1/checkpoint_best.domain.npz"],
    ):
        for name in removed:
            (model / name).unlink()
        assert main(arguments(tmp_path, checkpoint)) == 0
        for name in {"results.csv", "predictions_test.csv", "models.json", removed[-1]}:
            assert (model / name).read_bytes() == (folder / "model" / name).read_bytes()
    assert kept.stat().st_mtime_ns == before
    kept.unlink()
    capsys.readouterr()
    assert main(arguments(tmp_path, checkpoint)) == 0
    assert "is finished" in capsys.readouterr().out


def test_a_folder_that_is_removed(tmp_path, checkpoint, monkeypatch, capsys):
    """It is not finished, though all further files can be written."""
    monkeypatch.chdir(tmp_path)
    Path("table.csv").write_text("\n".join(["smiles,y", *ALCOHOLS]))
    summary_text = results.summary_text

    def removed(*arguments):
        shutil.rmtree("m")
        return summary_text(*arguments)

    command = ["table.csv", "--out", "m", "--start", checkpoint("grpe_tiny"), *QUICK]
    with monkeypatch.context() as patch:
        patch.setattr(results, "summary_text", removed)
        assert main(command) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "was removed while this command worked; remove m, and type" in error
    shutil.rmtree("m")
    assert main(command) == 0


def test_heads_of_published_weights(folder, tmp_path, monkeypatch, capsys):
    """Fitted to a sample of the molecules; the limit of atoms stays."""
    monkeypatch.setenv("GRAPHORMER_PRETRAINED_DIR", str(tmp_path))
    weights = {"model": published_graphormer()}
    torch.save(weights, tmp_path / "checkpoint_best_pcqm4mv2.pt")
    for module in (fit_gp, experiment):
        monkeypatch.setattr(module, "MAX_ROWS", 20)
    model = tmp_path / "model"
    words = [str(folder / "table.csv"), "--out", str(model), *QUICK]
    words += ["--start", "pcqm4mv2_graphormer_base", "--max-atoms", "40"]
    words += ["--model", "head"]
    assert main([*words, "--replicates", "2"]) == 0
    # fairseq-train would not find it by itself
    start = starts.find_start(
        Settings("a.csv", "out", start=words[words.index("--start") + 1])
    )
    assert start.options["pretrained_dir"] == str(tmp_path)
    text = "arning: heads are fitted to 20 of 27 molecules"
    assert text in capsys.readouterr().err
    assert text in (model / "report.html").read_text()
    for number in ("1", "2"):
        kept = model / f"replicate{number}/head1"
        assert len(read_estimator(kept / "head.npz")) == 20
        predictor = hub.load(kept / "checkpoint_best.pt")
        assert predictor.max_atoms == 40
        lines = rows(model / "predictions_test.csv")
        test = [line for line in lines if line["replicate"] == number]
        assert len(test) == 3
        values = predictor.predict([line["SMILES"] for line in test])[:, 0]
        written = [float(line["gap_predicted"]) for line in test]
        assert written == pytest.approx(values, rel=1e-4)


def test_a_start_of_other_features(checkpoint, command, refused):
    """It is refused before anything is computed or written; a training can start from it."""
    state = read_checkpoint(checkpoint("grpe_tiny")).state
    state["task_state"]["featuriser"] = "zinc"
    torch.save(state, "other.pt")
    words = command("smiles,gap", [f"{'C' * k}O,{k}" for k in range(1, 31)], *QUICK)
    line = refused(main, *words, "--start", "other.pt")
    assert "other.pt reads other features than those of OGB" in line
    assert not Path("model").exists()


def test_the_architecture_of_a_start(checkpoint, tmp_path):
    path = checkpoint("grpe_tiny")
    own = starts.find_start(Settings("a.csv", "out", start=path))
    assert (own.path, own.arch, own.layers) == (Path(path), "grpe_tiny", 2)
    state = torch.load(path, weights_only=True)
    state["cfg"]["model"]["_name"] = "mixer"
    torch.save(state, tmp_path / "mixer.pt")
    with pytest.raises(DatasetError, match=r"mixer\.pt: unknown --arch mixer"):
        starts.find_start(Settings("a.csv", "out", start=str(tmp_path / "mixer.pt")))


def test_classes_from_scratch(quick, command, capsys):
    lines = [f"{'C' * k}{end},{k % 2},{k % 3 // 2}" for k in range(12) for end in "ON"]
    words = command("smiles,a/b,c", lines, *SHORT, "--target-columns", "a/b,c")
    assert main([*words, "--model", "scratch", "--arch", "grpe_tiny"]) == 0
    out = capsys.readouterr().out
    assert "24 molecules, SMILES in column smiles, targets a/b, c (binary)" in out
    models = r"majority .*\n.*boosted trees .*\n.*from scratch .*\n"
    assert re.search(f"a/b +{models}c +{models}(.*\n)+{models}", out)
    assert Path("model/roc.png").exists()
    found = rows("model/predictions_test.csv")
    cells = {line[name] for line in found for name in ("a/b", "c")}
    assert {"0", "1"} <= cells <= {"0", "1", ""}


@pytest.mark.parametrize("model, options", [("head", QUICK), ("finetune", SHORT)])
def test_words_weights_and_salts(quick, checkpoint, command, capsys, model, options):
    """Classes keep their words up to the predictions of the folder."""
    ends = {"O": "sweet", "N": "bitter", "Cl": "sour"}
    lines = [
        f"{'C' * k}{end}{'.Cl' * (k % 2)},{word},{k}"
        for k in range(1, 13)
        for end, word in ends.items()
    ]
    options = [*options, "--largest-fragment", "--ignore-stereo"]
    words = command("smiles,taste,trust", lines, *options)
    named = "--target-columns taste --class-names sweet,sour,bitter"
    words += ["--model", model, *named.split()]
    words += ["--weight-column", "trust", "--class-weights", "balanced"]
    assert main([*words, "--start", checkpoint("grpe_tiny")]) == 0
    out = capsys.readouterr().out
    assert "target taste (multiclass)" in out
    assert "accuracy  balanced_accuracy  log_loss" in out
    assert Path("model/confusion.png").exists()
    first = rows("model/predictions_test.csv")[0]
    assert first["taste"] in ends.values() and first["taste_trees"] in ends.values()
    chances = {w: float(first[f"taste_probability_{w}"]) for w in ends.values()}
    assert first["taste_predicted"] == max(chances, key=chances.get)
    assert chosen(Path("model")) == [f"replicate1/{model}1/checkpoint_best.pt"]
    assert predict.main(["model", "t.csv", "out.csv"]) == 0
    (found,) = [line for line in rows("out.csv") if line["smiles"] == first["smiles"]]
    assert found["taste_predicted"] == first["taste_predicted"]
    chance = float(found["taste_probability_sour"])
    assert chance == pytest.approx(chances["sour"], rel=1e-4)
    # Without its salt and stereo marks a molecule is the same.
    predictor = hub.load("model")
    one, *others = predictor.predict(["CCO.Cl", "CCO", "C[C@H](O)N", "C[C@@H](O)N.Cl"])
    np.testing.assert_allclose([one, others[1]], [others[0], others[2]], rtol=1e-5)
    assert predictor.targets.class_names == [["sweet", "sour", "bitter"]]
    Path("salt.csv").write_text("smiles\nCCO.[Na+]\n")
    assert predict.main(["model", "salt.csv", "of_salt.csv"]) == 0
    assert "no training molecule has" not in capsys.readouterr().err


@pytest.fixture(scope="module")
def of_sixty(quick, checkpoint, tmp_path_factory):
    """A finished experiment of a head, as a person may ask for one, and its output: a target
    that is learned as a logarithm, whose amines are wrong and have no weight; a target that depends
    on pH and has all labels but one; and a target that train knows one value of."""
    root = tmp_path_factory.mktemp("sixty")
    parts = [*["train"] * 24, *["valid", "test"] * 3]
    lines = []
    for k, part in enumerate(parts, 1):
        ph, other = (2, 9)[k % 2], "" if k == 25 else k / 4 + (2, 9)[k % 2]
        flat = 1.5 if part == "train" else k
        rest = f"{other},{flat},{ph if k % 10 else ''},{part}"
        lines += [f"{'C' * k}O,{10 ** (k / 10):.6g},1,{rest}"]
        lines += [f"{'C' * k}N,1e9,0,{rest}"]
    header = "smiles,dose,trust,other,flat,pH,Split"
    (root / "t.csv").write_text("\n".join([header, *lines]) + "\n")
    start = shutil.copy(checkpoint("grpe_tiny"), root / "start.pt")
    seen = [mol_of_any_smiles("C" * k + "O") for k in (28, 30)]
    write_seen(root / f"start{ENDING}", seen, [True, False])
    words = ["t.csv", "--out", "model", *QUICK[:-2], "--start", str(start)]
    words += ["--target-columns", "dose,other,flat"]
    words += ["--weight-column", "trust", "--extra-columns", "pH"]
    streams = io.StringIO(), io.StringIO()
    with contextlib.chdir(root), contextlib.redirect_stdout(streams[0]):
        with contextlib.redirect_stderr(streams[1]):
            assert main(words) == 0
    return root, words, *(stream.getvalue() for stream in streams)


@pytest.fixture
def sixty(of_sixty, monkeypatch):
    """Its command, output and warnings, in its folder."""
    root, *others = of_sixty
    monkeypatch.chdir(root)
    return others


HEAD = "replicate1/head1"


def test_lines_of_a_run(sixty):
    _, out, err = sixty
    assert "t.csv: 60 molecules, SMILES in column smiles, targets dose, other" in out
    assert "split column:Split: 48 train, 6 valid, 6 test\n" in out
    line = "ose is learned as log10 dose, on which each training label is 2.38 times"
    assert line in out and line in Path("model/report.html").read_text()
    assert "warning: flat is left out: too few different labels in train" in err
    settings = json.loads(Path("model/settings.json").read_text())
    assert settings["split"] == "column:Split"


def test_what_the_start_has_seen(sixty):
    """In the lines, the files, and predictions with the folder."""
    _, out, _ = sixty
    assert "2 of 6 test molecules were training molecules of the start, 1 with" in out
    assert "flatter; without them nrmse " in out
    words = [line["start_has_seen"] for line in rows("model/predictions_test.csv")]
    assert sorted(words) == ["label"] + 4 * ["no"] + ["structure"]
    Path("seen.csv").write_text(f"smiles,pH,other\n{'C' * 30}O,9,1\nCCN,9,2\nCN,2,3\n")
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
        assert predict.main(["model", "seen.csv", "of_seen.csv", "--quiet"]) == 0
    assert [line["start_has_seen"] for line in rows("of_seen.csv")][:2] == [
        "structure",
        "no",
    ]
    assert (
        "1 of 3 rows were training molecules of the start, 0 with labels: metrics of"
        in shown.getvalue()
    )
    assert "other, new  2 " in shown.getvalue()


def test_rows_without_weight_teach_nothing(sixty):
    """Neither the head nor the trees."""
    tested = rows("model/predictions_test.csv")
    assert max(float(line["dose"]) for line in tested) == 1e9
    for name in ("dose_predicted", "dose_trees"):
        assert max(float(line[name]) for line in tested) < 1e5


def test_the_head_has_seen_the_validation_molecules(sixty):
    """But not for the metrics of these."""
    head = read_estimator(Path("model", HEAD, "head.npz"))
    assert len(head) == 27 and head.targets.names == ["log10 dose", "other"]
    assert chosen(Path("model")) == [f"{HEAD}/checkpoint_best.pt"]
    *_, line = rows("model/predictions_valid.csv")
    predictor = hub.load(f"model/{HEAD}/checkpoint_best.pt")
    (values,) = predictor.predict([line["smiles"]], extra={"pH": [float(line["pH"])]})
    assert values[1] != pytest.approx(float(line["other_predicted"]), rel=1e-3)


def test_a_target_without_some_labels_of_valid(sixty):
    """The head of train has one score for both targets, the head of all has two."""
    scores = [
        [float(line[f"{name}_in_domain"]) for name in ("dose", "other")]
        for line in rows("model/predictions_valid.csv")
    ]
    assert all(a == b for a, b in scores) and min(scores)[0] < 1


def test_the_folder_predicts_in_the_unit(sixty):
    """With an interval; the model itself predicts the logarithm."""
    folder = json.loads(Path("model/models.json").read_text())
    assert folder["log_targets"] == ["log10 dose"]
    assert "dose" in rows("model/molecules.csv")[0]  # as under --log-targets none
    given = {"pH": [9.0]}
    logs = hub.load(f"model/{HEAD}/checkpoint_best.pt").estimate(["CCCCN"], extra=given)
    values, *_ = hub.load("model").estimate(["CCCCN"], extra=given)
    assert values[0] == pytest.approx([10 ** logs.values[0, 0], logs.values[0, 1]])
    Path("new.csv").write_text("smiles,pH\nCCCCN,9\n")
    assert predict.main(["model", "new.csv", "out.csv", "--quiet"]) == 0
    assert predict.main(["model", "new.csv", "mean.csv", "--quiet", "--mean"]) == 0
    (line,), (means,) = rows("out.csv"), rows("mean.csv")
    assert (
        float(means["dose"]) > float(line["dose"]) and means["other"] == line["other"]
    )
    names = "dose dose_std other other_std dose_low90 dose_high90".split()
    assert [*line][2:8] == names
    ends = 10 ** (logs.values[0, 0] + 1.644854 * logs.std[0, 0] * np.array([-1, 1]))
    interval = [float(line[f"dose_{end}90"]) for end in ("low", "high")]
    assert interval == pytest.approx(ends, rel=1e-4)


@pytest.mark.parametrize("name", ["dose", "other"])
def test_metrics_are_those_of_the_predictions_in_the_unit(sixty, name):
    """Those of the mean are of the fitted labels."""
    tested = rows("model/predictions_test.csv")
    pairs = np.array(
        [[line[name], line[f"{name}_predicted"]] for line in tested], float
    )
    parts = [rows(f"model/predictions_{part}.csv") for part in ("train", "valid")]
    mean = np.mean([float(x[name]) for part in parts for x in part if x[name]])
    keys = dict(target=name, split="test", metric="mae").items()
    found = {
        x["model"]: float(x["value"])
        for x in rows("model/results.csv")
        if keys <= x.items()
    }
    expected = [np.abs(pairs[:, 0] - x).mean() for x in (mean, pairs[:, 1])]
    assert [found["mean"], found["head"]] == pytest.approx(expected, rel=1e-4)


def test_columns_beside_the_molecule(sixty, quick, capfd, refused, tmp_path):
    """Heads and trainings read them, and predictions need them."""
    words = ["t.csv", "--out", str(tmp_path), *SHORT[:-4], "--batch-size", "4"]
    words += ["--target-columns", "other", "--extra-columns", "pH", "--descriptors"]
    words += ["--epochs", "5", "--start", sixty[0][sixty[0].index("--start") + 1]]
    assert main(words) == 0
    tuned = tmp_path / "replicate1/finetune1/checkpoint_best.pt"
    state = read_checkpoint(tuned).state["task_state"]["schema"]
    assert state["graph_features"] == ["pH", *(PREFIX + name for name in COMPUTED)]
    for path in (tuned, f"model/{HEAD}/checkpoint_best.pt"):
        predictor = hub.load(path)
        assert predictor.extra_columns == ["pH"]
        low, high = (
            predictor.predict(["CCCO"], extra={"pH": [ph]})[0, -1] for ph in (2, 9)
        )
        assert low < high
        with pytest.raises(ValueError, match="the model reads pH beside the molecules"):
            predictor.predict(["CCCO"])
        new, output = tmp_path / "new.csv", tmp_path / "out.csv"
        text = "smiles;pH;Größe\nCCCO;9,0;1\nCCCBr;acid;\nCCCO;;\n"
        new.write_bytes(text.encode("latin-1"))
        output.unlink(missing_ok=True)
        capfd.readouterr()
        assert predict.main([str(path), str(new), str(output)]) == 0
        err = capfd.readouterr().err
        assert "new.csv: cells are sep" in err and "Windows-1252" in err
        first, second, third = rows(output)
        assert float(first["other"]) == pytest.approx(high, rel=1e-4)
        assert (second["other"], second["reason"]) == ("", "'acid' is not a number")
        assert low < float(third["other"]) < high  # a typical pH
        new.write_text("smiles\nCCCO\n")
        line = refused(predict.main, path, new, tmp_path / "no.csv")
        assert "new.csv: no column 'pH'" in line
    page = str(tmp_path / "a.html")
    assert explain.main([str(path), "CCCO", page, "--target", "other"]) == 0
    text = (tmp_path / "a.html").read_text()
    (mean,) = predictor.typical_extra
    assert 2 < mean < 9 and f"Predictions are at pH {mean:.6g}, means of" in text
    # Numbers of a table are those of its molecules, and of what is left of them.
    new.write_text("smiles;pH\nCCCO;9,0\nCCCO;\nCCCO;acid\n")
    capfd.readouterr()
    page = str(tmp_path / "b.html")
    assert explain.main([str(path), str(new), page, "--target", "other"]) == 0
    out, err = capfd.readouterr()
    values = predictor.predict(["CCCO", "CCC"], extra={"pH": [9, 9]})[:, -1]
    first, second, _ = out.splitlines()
    assert first.startswith(f"CCCO\tother: {values[0]:.4g}") and " at pH 9" in first
    assert f" at pH {mean:.6g}" in second
    assert "left out: CCCO: column 'pH': 'acid' is not a number" in err
    parts = contributions(predictor, predictor.read(["CCCO"]), -1, np.array([9.0]))
    (oxygen,) = [x for x in parts if x.atoms == (3,) and x.kind == "atoms"]
    assert oxygen.value == pytest.approx(values[0] - values[1])


def test_trees_are_a_model(command, capfd):
    """They predict and explain from their folder, and read no vectors."""
    lines = [f"{'C' * k}{end},{k / 4}" for k in range(1, 31) for end in ("O", "N")]
    assert main(command("smiles,gap", lines, *QUICK, "--model", "trees")) == 0
    out = capfd.readouterr().out
    assert re.search("^boosted trees +6 ", out, re.MULTILINE) and "head" not in out
    assert "boosted trees  " in out.split("Spread of the predictions")[1]
    assert chosen(Path("model")) == ["replicate1/trees1/checkpoint_best.pt"]
    assert not Path("model/data/vectors.npz").exists()
    assert predict.main(["model", "t.csv", "out.csv"]) == 0
    assert "was fitted to the molecules of 54 of 60 rows" in capfd.readouterr().err
    # The input has the column gap.
    found = {line["smiles"]: line for line in rows("out.csv")}
    for line in rows("model/predictions_test.csv"):
        for name in ("gap_predicted", "gap_std", "in_domain"):
            other = float(found[line["smiles"]][name])
            assert other == pytest.approx(float(line[name]), rel=1e-6)
    assert explain.main(["model", "CCCO", "out.html"]) == 0
    assert explain.main(["model", "CCCO", "out.html", "--attention"]) == 2


def test_trees_beside_a_head(sixty):
    """They are kept, and read the same further columns."""
    (trees,) = Path("model/replicate1").glob("trees*")
    line = rows("model/predictions_test.csv")[0]
    predictor = hub.load(trees / "checkpoint_best.pt")
    number = {"pH": [float(line["pH"])]}
    (values,) = predictor.predict([line["smiles"]], extra=number)
    assert values[1] == pytest.approx(float(line["other_trees"]), rel=1e-5)
    assert 10 ** values[0] == pytest.approx(float(line["dose_trees"]), rel=1e-4)


def test_test_rows_in_a_file_of_their_own(checkpoint, command, capfd, refused):
    """The command goes on with the same files; predictions of the file have its metrics."""
    words = command("smiles,gap", ALCOHOLS[:20], *QUICK, "--model", "head")
    words += ["--start", checkpoint("grpe_tiny"), "--test-file", "later.csv"]
    lines = "\n".join(["gap,smiles", *(f"{k / 4},N{'C' * k}" for k in range(3, 10))])
    Path("later.csv").write_text(lines)
    assert main(words) == 0
    out = capfd.readouterr().out
    assert "t.csv, later.csv: 27 molecules" in out
    assert "split valid by random, test later.csv: 17 train, 3 valid, 7 test" in out
    assert [line["smiles"] for line in rows(Path("model/predictions_test.csv"))] == [
        f"N{'C' * k}" for k in range(3, 10)
    ]
    shutil.rmtree("model/data")
    Path("later.csv").rename("moved.csv")
    assert main([*words[:-1], "moved.csv"]) == 0
    (own,) = re.findall("^head +(7.*)", capfd.readouterr().out, re.MULTILINE)
    assert predict.main(["model", "moved.csv", "out.csv"]) == 0
    (row,) = re.findall("^gap +(7.*)", capfd.readouterr().out, re.MULTILINE)
    assert row.split() == own.replace("*", "").split()
    Path("moved.csv").write_text(lines.replace("0.75", "0.76"))
    line = refused(main, *words[:-1], "moved.csv")
    assert "--test-file is another file, or has changed" in line
    line = refused(main, *words[:-2])
    assert "another experiment: --test-file is another file" in line
    assert "later.csv: No such file" in refused(main, *words)


@pytest.mark.slow
def test_a_killed_command_goes_on(quick, command, monkeypatch):
    """Its training ends with it, and continues from the last checkpoint."""
    lines = [f"{'C' * k}O,{k / 4}" for k in range(1, 61)]
    words = command("smiles,gap", lines, *SHORT, "--epochs", "25")
    words += ["--arch", "grpe_tiny", "--model", "scratch"]
    log = Path("model/replicate1/scratch1/train.log")
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
    assert Path("model/report.html").exists()


def test_a_folder_is_locked_first(folder, checkpoint, tmp_path, monkeypatch):
    """Two experiments that come at once would write different settings."""

    def lock(path, on_wait):
        raise ValueError(f"{path.resolve()} is taken")

    monkeypatch.setattr(running, "file_lock", lock)
    (tmp_path / "new").mkdir()
    assert main(arguments(folder, checkpoint, "--out", str(tmp_path / "new"))) == 2
    assert not list((tmp_path / "new").iterdir())


def test_a_file_system_without_locks_is_told():
    assert main(["gone.csv"]) == 2
    assert logging.getLogger(files.__name__).isEnabledFor(logging.WARNING)


def test_a_failed_training_names_its_log(quick, command, monkeypatch, capsys):
    monkeypatch.setattr(Kind.REGRESSION, "loss", "no_such")
    assert main(command("smiles,y", ALCOHOLS, *SHORT, "--model", "scratch")) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "no_such" in error
    assert error.endswith("see model/replicate1/scratch1/train.log")


@pytest.mark.parametrize("table", ["data/esol.csv.gz", "esol.sdf"])
def test_default_folder(table):
    settings = parsed_settings(build_parser().parse_args([table]))
    assert (settings.table, settings.folder) == (table, "esol-model")
