"""examples/small_data: the sets, one small measurement, and the tables."""

import argparse
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

FOLDER = Path(__file__).parents[1] / "examples/small_data"
sys.path.append(str(FOLDER))

import contenders  # noqa: E402
import measure  # noqa: E402
import sets  # noqa: E402
import tables  # noqa: E402
import trials  # noqa: E402

from graphormer_plugin.cli.train import build_parser, settings_of  # noqa: E402
from graphormer_plugin.inference.kernels import MAX_COUNT  # noqa: E402

SMILES = [f"OC1{'C' * number}C1" for number in range(1, 31)]  # of as many scaffolds


@pytest.fixture
def data(tmp_path):
    """Two of the sets, with a molecule that RDKit refuses."""
    smiles = [*SMILES, "C(C)(C)(C)(C)C"]
    rng = np.random.default_rng(1)
    pd.DataFrame({"smiles": smiles, "logp": rng.normal(size=len(smiles))}).to_csv(
        tmp_path / "esol.csv", index=False
    )
    labels = rng.integers(0, 2, (len(smiles), 7)).astype(float)
    labels[:, 2] = np.nan
    names = [f"assay {number}" for number in range(7)]
    table = pd.DataFrame({"smiles": smiles} | dict(zip(names, labels.T)))
    table.to_csv(tmp_path / "toxcast.csv.gz", index=False)
    return tmp_path


def test_the_same_half_of_the_assays_is_drawn(data, monkeypatch):
    monkeypatch.setattr(sets, "MIN_LABELS", 5)
    table, scaffolds = sets.molecules(data, "toxcast")
    assert list(table) == ["smiles", "t0", "t1", "t2"]  # of six with labels
    assert len(table) == len(scaffolds) == len(SMILES)
    assert table.equals(sets.molecules(data, "toxcast")[0])


def test_a_measurement_is_made_once(data, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "out"
    words = [str(folder), "--data", str(data), "--sets", "esol", "--splits", "2"]
    words += ["--contenders", "forest"]

    def run(command, **_):
        monkeypatch.setattr(sys, "argv", command[1:])
        contenders.main()
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(contenders, "TREES", 5)
    monkeypatch.setattr(measure.subprocess, "run", run)
    monkeypatch.setattr(measure, "commit", lambda: "0")
    measure.main(words)
    assert len(capsys.readouterr().out.splitlines()) == 2
    measure.main(words)
    assert not capsys.readouterr().out
    results = tables.read(folder / "results.tsv")
    assert results.split.tolist() == [1, 2]
    split = pd.read_csv(folder / "splits/esol-1.csv")
    test = split[split.split == "test"]
    found = pd.read_csv(folder / "predictions/esol-1-forest.csv").t0
    expected = np.sqrt(np.mean((test.t0.to_numpy() - found) ** 2))
    assert results.value[0] == pytest.approx(expected, abs=1e-5)


def test_a_split_is_there_whole_or_not_at_all(data, tmp_path, monkeypatch):
    def stopped(table, file, **_):
        open(file, "w").close() if isinstance(file, Path) else file.write("smiles")
        raise KeyboardInterrupt

    monkeypatch.setattr(pd.DataFrame, "to_csv", stopped)
    with pytest.raises(KeyboardInterrupt):
        sets.write_splits(data, tmp_path / "splits", "esol", 1)
    assert not [*(tmp_path / "splits").iterdir()]


def test_a_split_of_many_targets(tmp_path, monkeypatch):
    """pandas reads each column into an array of its own, and warns of so many."""
    monkeypatch.setattr(sets, "MIN_LABELS", 5)
    labels = dict.fromkeys((f"assay {number}" for number in range(220)), 1.0)
    table = pd.DataFrame({"smiles": SMILES, **labels})
    table.to_csv(tmp_path / "toxcast.csv.gz", index=False)
    with warnings.catch_warnings(action="error"):
        (path,) = sets.write_splits(tmp_path, tmp_path / "splits", "toxcast", 1)
    header, *lines = path.read_text().splitlines()
    assert header == ",".join(["smiles", *(f"t{n}" for n in range(110)), "split"])
    assert len(lines) == len(SMILES)
    for smiles, line in zip(SMILES, lines):
        assert re.fullmatch(
            re.escape(smiles) + r"(,1\.0){110},(train|valid|test)", line
        )


def test_counts_are_those_of_heads(tmp_path):
    """Cut at the largest one, also when they are read again."""
    table = pd.DataFrame({"smiles": ["C" * 300, "CCO"]})
    args = argparse.Namespace(table=tmp_path / "a-1.csv", output=tmp_path / "a.csv")
    for _ in range(2):
        found = contenders.features(table, args)
        assert found["fingerprint"].max() == MAX_COUNT
        assert found["fingerprint"].dtype == np.uint8
    assert float((tmp_path / "a.seconds").read_text()) >= 0


def test_the_mean_of_two_contenders(tmp_path):
    (tmp_path / "predictions").mkdir()
    lines = ["\t".join(measure.COLUMNS)]
    for contender, value, spent in (("head", 0.2, 30), ("finetuned", 0.6, 70)):
        row = ["bbbp", 2, contender, "start", "roc_auc", 1, 1, 8, 1, 1, spent, 1, "0"]
        lines.append("\t".join(map(str, row)))
        path = tmp_path / f"predictions/bbbp-2-{contender}start.csv"
        path.write_text(f"t0\n{value}\n")
    (tmp_path / "results.tsv").write_text("\n".join(lines) + "\n")
    table = pd.DataFrame({"smiles": ["C"], "split": ["test"], "t0": [1.0]})
    args = argparse.Namespace(
        table=tmp_path / "splits/bbbp-2.csv",
        output=tmp_path / "predictions/bbbp-2-meanstart.csv",
        start="models/start.pt",
    )
    assert contenders.mean(table, "binary", args).tolist() == [[0.4]]
    assert args.output.with_suffix(contenders.SECONDS).read_text() == "100.0"
    args.start = "other"
    with pytest.raises(SystemExit, match="measure head on bbbp-2 first"):
        contenders.mean(table, "binary", args)


@pytest.mark.parametrize(
    "contender, model, members",
    [
        ("auto", "auto", 1),
        ("auto_5", "auto", 5),
        ("finetuned", "finetune", 1),
        ("scratch", "scratch", 1),
    ],
)
def test_the_command_learns_the_same_split(
    tmp_path, monkeypatch, contender, model, members
):
    split = ["train", "train", "valid", "test"]
    table = pd.DataFrame({"smiles": "C", "split": split, "t0": 1.0, "t1": 0.0})

    def run(command, **_):
        name, *words = command
        assert name == "graphormer-train"
        given = settings_of(build_parser().parse_args(words))
        assert given.split == "column:split" and given.seed == 3
        assert given.ensemble == members and (given.model, given.trees) == (model, 1)
        assert given.start == ("" if model == "scratch" else args.start)
        assert given.target_kind == "binary" and given.target_columns == ("t0", "t1")
        assert pd.read_csv(given.table).equals(table)
        path = Path(given.folder) / "predictions_test.csv"
        path.parent.mkdir()
        columns = {"t1_predicted": [0.2], "t0_predicted": [0.8], "t0_forest": [0.5]}
        pd.DataFrame(columns).to_csv(path, index=False)

    monkeypatch.setattr(contenders.subprocess, "run", run)
    output = tmp_path / "bbbp-3-auto.csv"
    (tmp_path / "bbbp-3-auto/model").mkdir(parents=True)  # of one that was interrupted
    args = argparse.Namespace(output=output, seed=3, start="grpe_small_descriptors")
    found = contenders.CONTENDERS[contender](table, "binary", args)
    assert found.tolist() == [[0.8, 0.2]]


def test_seconds_of_two_machines():
    rows = [
        ("forest", "esol", "1", 30.0),
        ("forest", "esol", "1", 50.0),
        ("forest", "esol", "2", 20.0),
        ("forest", "bbbp", "1", 60.0),
        ("auto", "esol", "2", 1200.0),
        ("auto", "bbbp", "1", 7.0),
    ]
    columns = ["contender", "set", "machine", "seconds"]
    lines = tables.seconds(pd.DataFrame(rows, columns=columns)).splitlines()
    assert lines[0] == "|  | esol | bbbp | all sets |"
    assert lines[2:] == [
        "| random forest | 40 | 60 | 100 |",
        "| `graphormer-train` | 1,200 (machine 2) | 7 |  |",
    ]


def test_targets_with_one_class_in_test_do_not_count():
    columns = {"t0": [0, 1, 1.0], "t1": [1, 1, np.nan]}
    table = pd.DataFrame({"smiles": "C", "split": "test"} | columns)
    assert measure.score(table, pd.DataFrame(columns).fillna(0), "binary") == (1, 1)


def test_tables(tmp_path, capsys):
    lines = ["\t".join(measure.COLUMNS)]
    for split, (ours, chemprop) in enumerate([(0.7, 0.8), (0.9, 0.94)], 1):
        for contender, value in (("head", ours), ("chemprop", chemprop)):
            row = ["esol", split, contender, "", "rmse", value, 1, 8, 1, 1, 60, 1, "0"]
            lines.append("\t".join(map(str, row)))
    (tmp_path / "results.tsv").write_text("\n".join(lines) + "\n")
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- figures: gains -->\nold\n<!-- end -->\nb\n")
    words = [str(tmp_path / "results.tsv"), "--page", str(page)]
    tables.main(words)
    output = capsys.readouterr().out
    assert "| head on the frozen start | 0.800 ± 0.100 |" in output
    assert "| chemprop | 60 |" in output
    assert "| chemprop | 2 of 5 | 0 of 5 |" in output
    tables.main([*words, "--write"])
    text = page.read_text()
    assert text.startswith("a\n") and text.endswith("b\n") and "old" not in text
    assert "| chemprop | +0.070 ± 0.030 | 1 of 1 | 1 of 1 |" in text
    tables.main([*words, "--write"])
    assert page.read_text() == text
    row = ["esol", 1, "head", "other", "rmse", 0.7, 1, 8, 1, 1, 60, 1, "0"]
    with open(tmp_path / "results.tsv", "a") as file:
        file.write("\t".join(map(str, row)) + "\n")
    with pytest.raises(SystemExit, match="head has the starts , other; keep the rows"):
        tables.main(words)


@pytest.mark.parametrize(
    "words, message",
    [
        ("head", "--start: head begin with a pre-trained model"),
        ("auto --start none.pt", "--start none.pt: no such file"),
        ("chemprop --chemprop no/chemprop", "--chemprop no/chemprop: no such command"),
    ],
)
def test_what_a_contender_needs_is_there(words, message, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        measure.main(
            [str(tmp_path / "out"), "--data", "x", "--contenders", *words.split()]
        )
    assert stop.value.code == 2 and message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_rows_come_whole_and_below_a_header(tmp_path):
    """Also after a kill between the making of the table and its first line."""
    path = tmp_path / "trials.tsv"
    assert measure.read_rows(path) == []
    path.touch()
    for number in "12":
        measure.append(path, ["a", "b"], [[number, "x"], [number, "y"]])
    assert path.read_text() == "a\tb\n1\tx\n1\ty\n2\tx\n2\ty\n"
    assert [row["b"] for row in measure.read_rows(path)] == [*"xyxy"]


@pytest.mark.parametrize("kind", ["regression", "binary"])
def test_predictions_that_are_not_finite(kind):
    labels = np.array([[0.0, 1.0], [1.0, 0.0]])
    predicted = np.array([[0.1, np.nan], [0.2, 0.3]])
    with pytest.raises(SystemExit, match="not finite"):
        measure.mean_score(labels, predicted, kind)
    labels[0, 1] = np.nan
    value, targets = measure.mean_score(labels, predicted, kind)
    assert np.isfinite(value) and targets == (2 if kind == "regression" else 1)


def trial_table(path, rows):
    """trials.tsv of a trial `mine` on esol: setting, split and value."""
    for setting, split, value in rows:
        row = ["mine", setting, "esol", split, "test", "rmse", value, "0"]
        measure.append(path, trials.COLUMNS, [row])


def test_splits_that_a_trial_lacks(tmp_path):
    path = tmp_path / "trials.tsv"
    trial_table(path, [("a", 1, 0.5), ("b", 1, 0.4), ("a", 2, 0.6)])
    trial_table(path, [("a", 1, 0.7)])  # measured again
    header, _, *lines = tables.trials(path)["mine"].splitlines()
    assert header == "|  | esol, RMSE |"
    assert sorted(lines) == ["| a | 0.650 ± 0.050 |", "| b | 0.400 (1) |"]


def test_trials_are_made_once(data, tmp_path, monkeypatch, capsys):
    """The kernel over all blocks is the head that `measure.py` measures."""
    settings = dict([*trials.TRIALS["blocks"].settings.items()][-1:])
    settings |= {"train only": trials.head_of_train}
    settings |= {"nodes": trials.of_vectors(1, 1)}
    trial = trials.Trial(("esol",), 2, settings)
    monkeypatch.setattr(trials, "TRIALS", {"mine": trial})
    monkeypatch.setattr(trials, "commit", lambda: "0")
    folder = tmp_path / "out"
    words = [str(folder), "--data", str(data), "--trials", "mine"]
    trials.main(words)
    assert len(capsys.readouterr().out.splitlines()) == 8  # of train only on valid, too
    trials.main(words)
    assert not capsys.readouterr().out
    found = pd.read_csv(folder / "trials.tsv", sep="\t")
    table = pd.read_csv(folder / "splits/esol-2.csv")
    args = argparse.Namespace(
        table=folder / "splits/esol-2.csv",
        output=folder / "esol-2.csv",
        start=trials.START,
        seed=2,
    )
    expected = contenders.head(table, "regression", args)
    expected = pd.DataFrame(expected, columns=["t0"])
    of_all = found[found.setting.str.startswith("vectors +") & (found.split == 2)]
    value, _ = measure.score(table, expected, "regression")
    assert of_all.value.tolist() == [pytest.approx(value, abs=1e-6)]
    (text,) = tables.trials(folder / "trials.tsv").values()
    lines = text.splitlines()
    assert lines[0] == "|  | esol, RMSE | esol, valid, RMSE |"
    mean, error = tables.mean_error(found[found.setting == "nodes"].value)
    assert lines[-1] == f"| nodes | {mean:.3f} ± {error:.3f} |  |"


def test_trials_of_classes(data, tmp_path, monkeypatch):
    """Each setting predicts a column per target, and its kernel is the one it names."""
    monkeypatch.setattr(sets, "MIN_LABELS", 5)
    monkeypatch.setattr(contenders, "TREES", 5)
    (path,) = sets.write_splits(data, tmp_path / "splits", "toxcast", 1)
    case = trials.Case("toxcast", 1, path, tmp_path)
    for setting, measured in trials.TRIALS["assays"].settings.items():
        assert 0 <= measured(case)["test"] <= 1, setting
    assert case.fixed[0.3].shape == case.fixed[3].shape == (3, 3)
    assert not np.allclose(case.fixed[0.3], case.fixed[3])
    assert not np.allclose(case.fixed[3], case.default)  # which has a second stage


def test_kernel_classifiers_equal_linear_ones(monkeypatch):
    """Of a linear kernel, logistic regression and support vectors are those of the
    features."""
    rng = np.random.default_rng(1)
    x, other = rng.normal(size=(40, 3)), rng.normal(size=(9, 3))
    labels = (x[:, 0] + rng.normal(size=40) > 0).astype(float)
    kernels = (x @ x.T, other @ x.T, labels)
    monkeypatch.setattr(trials, "kernel_of", lambda case: kernels)
    case = argparse.Namespace(score=lambda predicted: predicted[:, 0])
    model = trials.LogisticRegression(C=2.0, tol=1e-8).fit(x, labels)
    found = trials.kernel_logistic(2.0)(case)
    assert np.allclose(found, model.decision_function(other), atol=1e-3)
    model = trials.SVC(C=2.0, kernel="linear", tol=1e-8).fit(x, labels)
    found = trials.support_vectors(2.0)(case)
    assert np.allclose(found, model.decision_function(other), atol=1e-2)


def test_trials_of_the_command(data, tmp_path, monkeypatch):
    path = sets.write_splits(data, tmp_path / "splits", "esol", 1)[0]
    case = trials.Case("esol", 1, path, tmp_path)
    header = "replicate,model,chosen,split,target,metric,value\n"

    def run(command, **_):
        given = settings_of(build_parser().parse_args(command[1:]))
        assert (given.model, given.lr, given.trees) == ("finetune", 3e-4, 1)
        assert (given.split, given.seed) == ("column:split", 1)
        folder = Path(given.folder)
        folder.mkdir()
        lines = [
            f"1,finetune,yes,{part},,rmse,{len(part)}\n" for part in ("valid", "test")
        ]
        lines += ["1,mean,no,test,,rmse,9\n", "1,finetune,yes,test,,mae,8\n"]
        (folder / "results.csv").write_text(header + "".join(lines))

    monkeypatch.setattr(trials.subprocess, "run", run)
    found = trials.fine_tuned("--lr", "3e-4")(case)
    assert found == {"valid": 5.0, "test": 4.0}
    members = [np.full((3, 1), float(n)) for n in (1, 2, 3, 4, 5)]
    case.ensemble = np.full((3, 1), 9.0), np.stack(members)
    assert np.allclose(trials.half(case), 6) and np.allclose(trials.sixth(case), 4)
