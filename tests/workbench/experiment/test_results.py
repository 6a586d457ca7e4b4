"""Predictions, metrics, figures and report of runs whose predictions are known."""

import dataclasses
import html
import re
import shlex

import numpy as np
import pytest
from matplotlib import rc_context

from graphormer_plugin.data.targets import Kind
from graphormer_plugin.estimators.kernels import molecule_features
from graphormer_plugin.estimators.prediction import Prediction, class_scores
from graphormer_plugin.inference.model_folder import read_folder
from graphormer_plugin.workbench.experiment import figures
from graphormer_plugin.workbench.experiment.data_warnings import label_shift
from graphormer_plugin.workbench.experiment.labelled_molecules import SplitLabels
from graphormer_plugin.workbench.experiment.predictions import (
    Run,
    calibrated,
    calibration,
    calibration_molecules,
    conformal_interval,
    predicted_labels,
    write_models,
    write_predictions,
)
from graphormer_plugin.workbench.experiment.report import (
    label_table,
    molecules_text,
    neighbours,
    report,
    worst_predicted,
)
from graphormer_plugin.workbench.experiment.results import (
    all_results,
    held_out_metrics,
    limit_lines,
    metric_tables,
    set_lines,
    summary_text,
    worse_than_baselines,
    write_results,
)
from support.labelled_molecules import experiment_of, molecules_of, undrawn
from support.tables import rows

LABELS = np.arange(60.0)[:, None]
SMILES = [f"{'C' * (k // 3 + 1)}{end}" for k in range(20) for end in ("O", "N", "Cl")]
SPLIT = dict(zip(("train", "valid", "test"), np.arange(60).reshape(3, 20)))
WAVE = np.resize([1.0, -1.0], 60)[:, None]


def run_of(
    table, values, std=None, ensemble=False, trees=None, in_domain=None, mean=(0.0,)
):
    """A run with these predictions, and trees beside it; those of an ensemble are to be
    calibrated."""
    std = None if std is None else np.broadcast_to(std, values.shape)
    in_domain = np.ones(len(values)) if in_domain is None else in_domain
    predicted = Prediction(np.asarray(values, float), std, in_domain)
    raw = std if ensemble else None
    labels = SplitLabels(table, SPLIT)
    of_trees = Prediction(values if trees is None else trees)
    comparison = Run(labels, of_trees, ["a/c.pt"], model="trees")
    return Run(labels, predicted, ["a/b.pt"], np.array(mean), comparison, raw)


def test_predictions_with_a_calibrated_spread(tmp_path):
    """A head is calibrated by itself, and an ensemble by its own run alone."""
    others = {"y_predicted": ["mine"] * 60, "replicate": ["a"] * 60}
    table = molecules_of(LABELS, ["C"] * 60, ["y"], others=others)
    head = run_of(table, LABELS + 7, 0.1, trees=LABELS * 2)
    ensemble = run_of(table, LABELS + 0.3, 0.1, True, LABELS * 2)
    runs = [calibrated(table, run) for run in (head, ensemble)]
    assert runs[0] is head
    assert calibration(table, runs)(np.full((1, 1), 0.1)) == pytest.approx(0.3)
    assert calibration(table, runs[:1]) == ([1], [0])
    write_predictions(tmp_path, table, runs)
    found = rows(tmp_path / "predictions_test.csv")
    assert [len(found), *found[0]] == [40] + (
        "replicate_predicted smiles y_predicted replicate y y_predicted_predicted y_std "
        "in_domain y_trees"
    ).split()
    assert [found[at]["y_std"] for at in (0, 20)] == ["0.1", "0.3"]
    assert [*found[20].values()] == (
        ["2", "C", "mine", "a", "40.0", "40.3", "0.3", "1", "80"]
    )
    assert len(rows(tmp_path / "predictions_valid.csv")) == 40
    results = all_results(table, runs)
    assert "nrmse" not in {*results.metric}
    found = results[results.metric == "coverage90"]
    assert found[["replicate", "split", "value"]].to_numpy().tolist() == (
        [[1, "test", 0.0], [2, "test", 1.0]]
    )


@pytest.mark.parametrize("std", [0.1, None])
def test_conformal_intervals(tmp_path, std):
    """The 19th smallest of 20 scores, in the files and in the folder of the models."""
    table = molecules_of(LABELS, names=["y"])
    values = LABELS + np.linspace(-3, 3, 60)[:, None]
    values[25:30] = 0
    run = run_of(table, values, std)
    interval = conformal_interval(run, 0.9)
    scores = np.abs(values - LABELS)[SPLIT["valid"], 0] / (std or 1)
    assert interval.factor[0] == pytest.approx(np.sort(scores)[18])
    write_predictions(tmp_path, table, [run.in_unit(0.9)])
    first = rows(tmp_path / "predictions_test.csv")[0]
    ends = [float(first[name]) for name in ("y_low90", "y_high90")]
    half = interval.factor[0] * (std or 1)
    assert ends == pytest.approx([values[40, 0] - half, values[40, 0] + half], rel=1e-5)
    write_models(tmp_path, table, [run], ("ND", "-999"), 0.9)
    found = read_folder(tmp_path)
    assert found.missing_labels == ["ND", "-999"]
    assert found.intervals(table.targets) == interval
    assert found.calibration["y"] == [
        values[20:40].T.tolist(),
        *[LABELS[20:40, 0].tolist()] * 2,
    ]


def test_bounds_among_calibration_molecules():
    """They have two ends; a missing label is left out."""
    bounds = np.zeros((60, 1))
    bounds[20:23, 0] = np.inf, -np.inf, 1.5
    labels = np.where(np.arange(60)[:, None] > 23, np.nan, LABELS)
    labels[30] = 30
    table = molecules_of(labels, names=["y"], bounds=bounds)
    ((values, low, high),) = calibration_molecules(run_of(table, LABELS)).values()
    assert values == [[20, 21, 22, 23, 30]]
    assert low == [20, -np.inf, 20.5, 23, 30] and high == [np.inf, 21, 23.5, 23, 30]


@pytest.mark.parametrize("kind, classes", [("binary", 2), ("multiclass", 3)])
def test_sets_of_classes(kind, classes, rng, tmp_path):
    """Their coverage on exchangeable draws, of two classes that of each; the files have them."""
    labels = np.resize(np.arange(classes), 60)[:, None].astype(float)
    table = molecules_of(labels, kind=kind)
    y = labels[40:, 0].astype(int)
    found = []
    for _ in range(500):
        values = np.exp(2 * rng.normal(size=(60, classes)))
        values[np.arange(60), labels[:, 0].astype(int)] *= 3
        values /= values.sum(1, keepdims=True)
        run = run_of(table, values[:, 1:] if classes == 2 else values)
        interval = conformal_interval(run, 0.8)
        target, limits = table.targets.targets[0], interval.limits["y0"]
        is_in = class_scores(target, run.predicted.values[40:]) <= limits
        held = is_in[np.arange(20), y]
        found.append(
            [held[y == k].mean() for k in range(2)] if classes == 2 else held.mean()
        )
    mean, error = np.mean(found, 0), np.std(found, 0) / np.sqrt(len(found))
    counted = 10 if classes == 2 else 20
    assert (mean > 0.8 - 2 * error).all()
    assert (mean < 0.8 + 1 / (counted + 1) + 2 * error).all()
    run = run.in_unit(0.8)
    (line,) = set_lines(run)
    assert (
        f"{(is_in.sum(1) == 1).mean():.1%} of the sets of y0 in test have one cl"
        in line
    )
    assert (
        f"{is_in[np.arange(20), y].mean():.1%}: {is_in[y == 0, 0].mean():.1%} of cl"
        in line
    )
    write_predictions(tmp_path, table, [run])
    words = rows(tmp_path / "predictions_test.csv")[0]["y0_set80"]
    assert words == "|".join(map(str, np.flatnonzero(is_in[0])))
    write_models(tmp_path, table, [run.learned], (), 0.8)
    again = read_folder(tmp_path)
    assert again.intervals(table.targets).limits == {"y0": limits}
    assert again.calibration["y0"][1] == labels[20:40, 0].tolist()


@pytest.mark.parametrize("kind", ["regression", "binary"])
def test_no_model_is_scored_on_a_target_without_a_label_in_train(kind, tmp_path):
    """Although a model with one output for each target predicts it."""
    labels = np.arange(120.0).reshape(60, 2) // 2 % 2
    labels[:20, 1] = np.nan
    table = molecules_of(labels, names=["y", "z"], kind=kind)
    unknown = np.array([[0.5, np.nan]] * 60)
    values = np.stack([labels[:, 0], 1 - labels[:, 0]], 1)
    run = run_of(table, values, trees=unknown, mean=unknown[0])
    results = all_results(table, [run])
    found = held_out_metrics(results)[""]
    metric = {"regression": "rmse", "binary": "accuracy"}[kind]
    assert [of[metric] for of in found.values()] == (
        [[0.5], [0.5], [float(kind == "binary")]]
    )
    write_results(tmp_path, results)
    lines = rows(tmp_path / "results.csv")
    assert {line["value"] for line in lines if line["target"] == "z"} == {"", "0"}
    assert {x["metric"] for x in lines if x["target"] == "z" and x["value"]} == {"n"}
    reference = {"regression": "mean", "binary": "majority"}[kind]
    assert {line["model"] for line in lines} == {reference, "boosted trees", "head"}


@pytest.fixture
def endpoints():
    """Test metrics of two endpoints, one of which has numbers a thousand times as large;
    the model is better than the trees on the small one."""
    labels = np.stack([np.arange(60.0), 1000.0 * np.resize([3, 1, 2], 60)], 1)
    table = molecules_of(labels, names=["y", "z"])
    trees = labels + WAVE * [2, 100]
    run = run_of(table, labels + WAVE * [1, 400], 1.0, trees=trees, mean=[9.5, 2000])
    return table, [run], held_out_metrics(all_results(table, [run]))


def test_a_row_for_each_endpoint_and_model(endpoints):
    table, runs, found = endpoints
    tables = metric_tables(table, found)
    first, mean, spreads = tables.values()
    assert [*tables][1] == "Mean over 2 endpoints"
    assert first[0] == ["endpoint", "model", "n", "rmse", "mae", "r2", "spearman"]
    names = [(name, model) for name, model, *_ in first[1:]]
    assert names == [(y, m) for y in "yz" for m in ("mean", "boosted trees", "head")]
    best = [["*" in cell for cell in cells] for _, _, *cells in first[1:]]
    assert best[2][1:3] == [True, True] and best[4][1:4] == [True, True, True]
    assert first[3][3] == "1.000*" and first[6][3] == "400.000"
    assert mean[0] == ["model", "nrmse", "r2", "spearman"]
    spread = [np.arange(20).std(), 1000 * np.resize([3, 1, 2], 20).std()]
    expected = np.mean(np.array([1, 400]) / spread)
    assert float(mean[3][1].rstrip("*")) == pytest.approx(expected, abs=1e-3)
    assert [row[0] for row in spreads] == ["endpoint", "y", "z"]
    (line,) = worse_than_baselines(table, runs, found)
    text = summary_text(table, found, [line])
    assert "\n\nMean over 2 endpoints (* best)\nmodel          nrmse " in text
    assert "\nz         head           20  400.000 " in text
    found["y"]["head"]["rmse"] = [found["y"]["boosted trees"]["rmse"][0] + 1e-5]
    assert worse_than_baselines(table, runs, found) == [line]
    assert line == (
        "the model is worse than the boosted trees in rmse: z (400.000, 100.000); try "
        "--model trees"
    )
    assert text.endswith(f"\n\n{line}\n")


@pytest.mark.parametrize("size, rows, said", [(1.1, 1, 0), (1.3, 1, 1), (1.3, 4, 0)])
def test_worse_is_beyond_the_standard_error(size, rows, said):
    """Errors of the trees are 0 and 1.5, so that of its RMSE, 1.06, is 0.12 for 20 molecules
    and 0.24 for five with four rows each."""
    table = molecules_of(LABELS, names=["y"], parents=(np.arange(60) // rows).tolist())
    trees = LABELS + np.where(np.arange(60) // rows % 2, 0, 1.5)[:, None]
    runs = [run_of(table, LABELS + size * WAVE, trees=trees, mean=[9.5])]
    found = held_out_metrics(all_results(table, runs))
    lines = worse_than_baselines(table, runs, found)
    assert [line for line in lines if "rmse" in line] == said * [
        f"the model is worse than the boosted trees in rmse: y ({size:.3f}, 1.061); "
        "try --model trees"
    ]


@pytest.mark.parametrize("scales, said", [(("log10 ", ""), 0), (("", "log10 "), 1)])
def test_medians_are_told_of_a_target_that_has_them(scales, said):
    labels = np.hstack([LABELS, LABELS])
    table = dataclasses.replace(molecules_of(labels, names=["y", "z"]), scales=scales)
    runs = [run_of(table, labels + WAVE * [0, 99], mean=[9.5, 9.5])]
    found = held_out_metrics(all_results(table, runs))
    (line,) = worse_than_baselines(table, runs, found)
    assert "mean in rmse: z (" in line and ("medians" in line) == said


def test_many_endpoints_have_a_file_of_their_own(endpoints):
    _, runs, found = endpoints
    names = [f"y{index}" for index in range(40)]
    table = molecules_of(np.ones((60, 40)), names=names)
    text = summary_text(table, {"": found[""]} | dict.fromkeys(names, found["y"]), [])
    assert text.startswith("Mean over 40 endpoints") and "\ny7 " not in text
    assert "results.csv has the metrics of each endpoint\n" in text


def test_the_worst_labels_in_units_of_each_target():
    labels = np.stack([np.arange(60.0), 1000 * np.arange(60.0)], 1)
    labels[46, 1] = np.nan
    error = np.zeros((60, 2))
    error[[47, 45, 46], 0], error[45, 1] = [1, -2, 0.5], 1000
    table, spread = molecules_of(labels), np.arange(20).std()
    tested = predicted_labels(table, [run_of(table, labels + error)])
    found = tested[tested.error > 0]
    assert [*zip(found.row, found.target)] == [(45, 0), (45, 1), (46, 0), (47, 0)]
    assert found.error.tolist() == pytest.approx(np.array([2, 1, 0.5, 1]) / spread)
    worst = worst_predicted(tested)[:3]
    assert [*zip(worst.row, worst.target)] == [(45, 0), (47, 0), (46, 0)]
    # A molecule that two runs test counts once, where it is worse.
    other = run_of(table, labels + 1.5 * error)
    both = [run_of(table, labels + error), other]
    worst = worst_predicted(predicted_labels(table, both))[:3]
    assert [*zip(worst.run, worst.row)] == [(1, 45), (1, 47), (1, 46)]


def test_errors_of_two_classes():
    labels = np.resize([0.0, 1.0], 60)[:, None]
    labels[59] = np.nan
    values = np.linspace(0.2, 0.79, 60)[:, None]
    table = molecules_of(labels, kind="binary")
    tested = predicted_labels(table, [run_of(table, values)])
    assert len(tested) == 19
    assert tested.error[:2].tolist() == pytest.approx([0.6, 0.39])


def test_neighbours_have_a_label_in_train():
    smiles = ["CCCO", "CCCCO", "CCCCCO", "c1ccccc1", "CCCCCCCO", "C", "CCCCCCO"]
    table = molecules_of([[1], [2], [np.nan], [3], [4], [5], [6]], smiles)
    split = {"train": np.arange(4), "valid": np.array([4]), "test": np.array([5, 6])}
    run = Run(SplitLabels(table, split), Prediction(np.ones((7, 1))), [])
    prints = molecule_features("fingerprint", smiles)
    found = neighbours(table, run, prints, 6, 0)
    assert [row for row, _ in found] == [1, 0, 3]
    likeness = [value for _, value in found]
    assert 1 > likeness[0] > likeness[1] > likeness[2] == 0


def pictures_of(table, run, folder="out", runs=1):
    """Figures, with the report, of an experiment of a head."""
    tested = predicted_labels(table, [run] * runs)
    worst = worst_predicted(tested)
    experiment = experiment_of(table, [SPLIT] * runs, folder)
    drawn = figures.figures(experiment, tested, worst)
    prints = {"fingerprint": molecule_features("fingerprint", table.smiles)}
    experiment.__dict__["features"] = prints
    experiment.start.__dict__["sha256"] = "5a"
    results = all_results(table, [run] * runs)
    given = (experiment, [run] * runs, results, tested, ["one <b>"])
    return drawn, report(*given, drawn.values(), worst, [])


def test_targets_with_a_metric_come_first():
    labels = np.zeros((60, 9))
    labels[::2, [5, 8]] = 1
    table = molecules_of(labels, kind="binary")
    tested = predicted_labels(table, [run_of(table, labels)]).assign(mark=np.nan)
    figure = figures.panel_figure(table.targets, tested, figures.roc, Kind.BINARY)
    titles = [axis.get_title() for axis in figure.axes]
    assert titles[:3] == ["y5: roc_auc 1.000", "y8: roc_auc 1.000", "y0: roc_auc -"]
    assert len(titles) == 6


@pytest.mark.filterwarnings("error:Glyph")
@pytest.mark.parametrize("kind", ["regression", "binary", "multiclass"])
def test_figures(kind, tmp_path):
    """Names are not read as mathematics, and no matplotlibrc counts."""
    labels = LABELS if kind == "regression" else LABELS % 2
    table = molecules_of(labels, SMILES, [r"$\y$"], r"$\unit$", kind)
    if kind == "multiclass":
        named = table.targets.with_classes([[r"$\no$", r"$\yes$"]])
        object.__setattr__(table, "targets", named)
    values = np.eye(2)[labels[:, 0].astype(int)] if kind == "multiclass" else labels
    in_domain = np.linspace(1, 0, 60)
    run = run_of(table, values, 1.0, in_domain=in_domain, mean=values.mean(0))
    found, _ = pictures_of(table, run, tmp_path)
    assert {*found} == {
        "regression": {"parity", "residuals", "errors", "calibration"},
        "binary": {"roc", "calibration"},
        "multiclass": {"confusion"},
    }[kind]
    with rc_context({"text.usetex": True, "axes.grid": True}):
        assert pictures_of(table, run, tmp_path)[0] == found


def test_errors_and_the_worst_in_them():
    """Against what the model says of itself; the worst have their numbers, in the colour
    of no run."""
    error = np.zeros((60, 1))
    error[40:43, 0] = [1, -2, 3]
    table = molecules_of(LABELS, unit="eV")
    run = run_of(table, LABELS + error, LABELS / 100, in_domain=np.arange(60) / 60)
    tested = predicted_labels(table, [run])
    tested = tested.assign(mark=[np.nan, np.nan, 1.0] + [np.nan] * 17)
    shown = table.targets, tested
    places = {"parity": (42, 45), "residuals": (42 / 60, 3), "errors": (0.42, 3)}
    for name, place in places.items():
        _, draw = figures.PANELS[Kind.REGRESSION][name]
        (axis,) = figures.panel_figure(*shown, draw, Kind.REGRESSION).axes
        drawn, ring, *_ = axis.lines
        assert [x[2] for x in drawn.get_data()] == pytest.approx(place)
        assert [text.get_text() for text in axis.texts] == ["1"]
        assert [x[0] for x in ring.get_data()] == pytest.approx(place)
        assert "eV" in axis.get_ylabel()
    line = axis.lines[-1].get_data()
    assert line[1][1] / line[0][1] == pytest.approx(1.645, abs=1e-3)
    unknown = tested.assign(std=np.nan, in_domain=np.nan)
    for draw in (figures.residuals, figures.errors):
        assert (
            figures.panel_figure(table.targets, unknown, draw, Kind.REGRESSION) is None
        )


def words_of(page):
    """Text that a reader sees, in one line."""
    text = re.sub(r"<style>.*?</style>|<[^>]*>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(text).split())


def page_of(targets=1, unit="", kind="regression", runs=1, names=None):
    """The report of a model whose errors grow away from train."""
    labels = np.arange(60.0 * targets).reshape(60, targets)
    in_domain = np.linspace(1, 0, 60)
    wave = WAVE * (1.2 - in_domain[:, None])
    if kind != "regression":
        labels = labels % {"binary": 2, "multiclass": 3}[kind]
    known = np.eye(3)[labels[:, 0].astype(int)] if kind == "multiclass" else labels
    values, trees = known + 4 * wave, known + 8 * wave
    if kind != "regression":
        values = trees = known + 0.7 * np.abs(wave) * (1 - 2 * known)
    mean = known[:40].mean(0)
    table = molecules_of(labels, SMILES, names, unit, kind)
    run = run_of(table, values, 4.0, False, trees, in_domain, mean)
    with undrawn():
        return pictures_of(table, run, "/srv/it's here", runs)[1]


def test_what_the_report_says():
    page = page_of(unit="mg/L", runs=11)
    text = words_of(page)
    first = re.search(
        r"The model \(head\) predicts y0 of molecules that it has not seen with an RMSE of "
        r"([\d.]+) ± 0.000 mg/L: 86 % below the mean \(30.549 ± 0.000\), 50 % below the "
        r"boosted trees \(([\d.]+) ± 0.000\)\.",
        text,
    )
    assert float(first[2]) == pytest.approx(2 * float(first[1]), abs=2e-3)
    assert "Half of its errors are below 4.2 mg/L, nine of ten below 4.7 mg/L" in text
    assert "its intervals of 90 % hold 100 % of the measured values." in text
    assert "has errors 1.2 times" not in text and "has 1.2 times the errors" in text
    assert "Warning: one &lt;b>" in page.replace("&gt;", ">")
    (line,) = re.findall("<code>graphormer-predict (.*)</code>", page)
    words = ["it's here", "new.csv", "predictions.csv"]
    assert shlex.split(html.unescape(line)) == words and "/srv" not in page
    assert "over 11 replicates" in text
    assert "<td>start</td><td>s.pt, sha256 5a</td>" in page
    # Ten molecules, each with three neighbours.
    assert page.count('<div class="card">') == 10
    assert page.count('src="data:image/svg+xml;base64,') == 10 * 4
    smiles = re.findall('<div class="smiles">([^<]*)</div>', page)
    assert len(smiles) == 40 and {*smiles} <= {*SMILES}
    assert smiles[0] == SMILES[-1] and smiles[1].endswith("Cl")
    text = text.replace("mg/L mg/L", "mg/L")
    assert "1 y0 measured 59 mg/L, predicted 54.2 ± 4 mg/L in_domain 0.00" in text


def test_a_report_of_several_endpoints():
    names = ["y", "a very long name of an endpoint", "<script>alert(1)</script>"]
    text = page_of(3, "%", names=names)
    words = words_of(text)
    assert "predicts 3 endpoints" in words and "not seen with a mean RMSE" in words
    assert "<script" not in text and "Mean over 3 endpoints" in words
    assert re.search(r"It is best on .* \(nrmse 0.24\) and worst on ", words)
    assert "<th>rmse (%)</th>" in text
    assert text.count('<tr class="first">') == 6  # tests and spreads
    assert page_of(25).count("<details>") == 1 + 3  # tables of many rows are folded
    words = words_of(page_of(2, "mg/L", names=["log10 y", "z"]))
    assert "regression in log10(mg/L), mg/L" in words and "rmse mae" in words
    assert "log10 y (log10(mg/L)) head" in words and "z (mg/L) head" in words
    assert "log10(" not in words_of(page_of(2, names=["log10 y", "z"]))


@pytest.mark.parametrize(
    "kind, metric, predicted",
    [
        ("binary", "a ROC-AUC of", "probability 0."),
        ("multiclass", "an accuracy", "0, p"),
    ],
)
def test_a_report_of_classes(kind, metric, predicted):
    words = words_of(page_of(kind=kind))
    assert metric in words and "the majority has" in words
    assert f"predicted {predicted}" in words and "times the errors" in words
    assert "Half of its errors" not in words


def test_labels_of_each_part():
    split = {"train": np.arange(80), "valid": np.arange(80, 90)}
    split["test"] = np.arange(90, 120)
    labels = np.array([[at % 2, np.nan if at < 90 else 2500] for at in range(120)])
    assert label_table(molecules_of(labels, names=["a", "b"]), split) == [
        ["labels", "train", "valid", "test"],
        ["a", "80: 0.5 ± 0.5", "10: 0.5 ± 0.5", "30: 0.5 ± 0.5"],
        ["b", "0", "0", "30: 2.5e+03 ± 0"],
    ]
    binary = label_table(molecules_of(labels[:, :1], kind="binary"), split)
    assert binary[1] == ["y0", "80: 50 %", "10: 50 %", "30: 50 %"]
    _, *lines = label_table(molecules_of(labels[:, :1], kind="multiclass"), split)
    assert [x[:2] for x in lines] == [["y0 0", "80: 50 %"], ["y0 1", "80: 50 %"]]
    labels[45:] = np.nan
    assert molecules_text(molecules_of(labels)) == "120 molecules (45 with a label)"


def test_labels_of_test_that_lie_elsewhere(rng):
    split = {"train": np.arange(80), "valid": np.arange(80, 90)}
    split["test"] = np.arange(90, 120)
    labels = rng.normal(size=(120, 2))
    assert label_shift(SplitLabels(molecules_of(labels), split)) == []
    labels[90:, 1] += 1.5
    (text,) = label_shift(SplitLabels(molecules_of(labels), split))
    assert text.startswith("labels of y1 lie elsewhere in test than in train and valid")
    few = split | {"test": np.arange(117, 120)}  # as likely by chance
    labels[90:, 1] -= 1
    assert label_shift(SplitLabels(molecules_of(labels), few)) == []
    none = split | {"test": np.array([], int)}
    assert label_shift(SplitLabels(molecules_of(labels), none)) == []


CHAINS = [f"{'C' * (8 + row // 2)}O" for row in range(60)]  # two rows of each


@pytest.fixture
def lines():
    """Function: lines about labels [60] that are predicted with an error of 0.5."""

    def lines(labels, extra):
        keys = [row // 2 for row in range(60)]
        table = molecules_of(labels[:, None], CHAINS, ["y"], keys=keys, extra=extra)
        split = {
            "train": np.arange(30),
            "valid": np.arange(0),
            "test": np.arange(30, 60),
        }
        run = Run(SplitLabels(table, split), Prediction(table.labels + 0.5), [])
        prints = molecule_features("fingerprint", CHAINS)
        return limit_lines(run.labels, predicted_labels(table, [run]), prints)

    return lines


def test_repeats(lines):
    """A copy is no repeat, nor is a measurement under another condition."""
    rows = np.arange(60)
    labels = rows // 2 + np.where(rows < 40, rows % 2 * 0.4, 0)
    (line,) = lines(labels, np.zeros((60, 0)))
    assert line.startswith("repeats of y differ by 0.283 ± 0.045 (20 molecules)")
    assert line.endswith("that of this one is 0.5")
    assert lines(labels, rows[:, None] * 1.0) == []


def test_activity_cliffs(lines):
    """Long chains are alike, whose labels jump once."""
    labels = np.where(np.arange(60) < 54, 0.0, 9.0) + np.arange(60) / 600
    labels[:30:2] += 1  # the deviation in train
    assert "on activity cliffs" in lines(labels, np.arange(60.0)[:, None])[-1]
    assert lines(np.arange(60) / 60, np.arange(60.0)[:, None]) == []
