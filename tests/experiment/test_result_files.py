"""Files of predictions, and the calibration of their spread."""

import numpy as np
import pytest

from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.experiment import figures
from graphormer_plugin.experiment.results import (
    FOREST,
    MEAN,
    Run,
    all_results,
    calibration,
    conformal_interval,
    metric_tables,
    metrics_of_test,
    summary_text,
    worse_than_references,
    write_models,
    write_predictions,
    write_results,
)
from graphormer_plugin.heads.prediction import Prediction, SpreadScale
from graphormer_plugin.inference.model_folder import read_folder
from support.labelled_molecules import FewLabels
from support.tables import rows

LABELS = np.arange(60.0)[:, None]
SPLIT = dict(zip(("train", "valid", "test"), np.arange(60).reshape(3, 20)))


class Table(FewLabels):
    logs: list[int] = []

    def __len__(self):
        return len(self.labels)

    @property
    def in_unit(self):
        return self.targets

    def label_cells(self, row, in_unit):
        return [f"{value:g}" for value in self.labels[row]]


TABLE = Table(
    labels=LABELS,
    targets=TargetSchema(["y"]),
    smiles=["C"] * 60,
    smiles_column="smiles",
    extra_names=["y_predicted", "replicate"],
    extras=[["mine", "a"]] * 60,
)


def run_of(title, error, std=0.1):
    spread = None if std is None else np.full((60, 1), std)
    known = {MEAN: Prediction(LABELS * 0), FOREST: Prediction(LABELS * 2)}
    known[title] = Prediction(LABELS + error, spread, np.ones(60))
    return Run(SPLIT, known, title, reason=title, calibrates=title != "head")


def test_a_head_is_calibrated_already(tmp_path, monkeypatch):
    """Also where another replicate has an ensemble, whose spread is scaled."""
    runs = [
        run_of("head", 7),
        run_of("head + fine-tuned", 0.3),
        run_of("alone", 0, None),
    ]
    scale = calibration(TABLE, runs)
    assert scale(np.full((1, 1), 0.1)) == pytest.approx(0.3)
    for others in (runs[:1], runs[2:]):
        assert calibration(TABLE, others) == ([1], [0])
    for run in runs:
        run.scale = scale
    write_predictions(tmp_path, TABLE, runs)
    found = rows(tmp_path / "predictions_test.csv")
    assert [len(found), *found[0]] == [60] + (
        "replicate_predicted smiles y_predicted replicate y y_predicted_predicted y_std "
        "in_domain y_forest"
    ).split()
    assert [found[at]["y_std"] for at in (0, 20, 40)] == ["0.1", "0.3", ""]
    assert list(found[20].values()) == (
        ["2", "C", "mine", "a", "40", "40.3", "0.3", "1", "80"]
    )
    assert len(rows(tmp_path / "predictions_valid.csv")) == 60
    drawn = []
    monkeypatch.setattr(
        figures, "calibration_figure", lambda values, std, *more: drawn.append(std)
    )
    figures.spread_figure(TABLE, runs[:2])
    assert drawn[0][[0, 20], 0] == pytest.approx([0.1, 0.3])


@pytest.mark.parametrize("std", [0.1, None])
def test_conformal_intervals(tmp_path, std):
    """The 19th smallest of 20 scores, in the files and in the folder of the models."""
    run = run_of("head", np.linspace(-3, 3, 60)[:, None], std)
    run.predictions["head"].values[25:30] = 0
    run.interval = conformal_interval(TABLE, run, 0.9)
    scores = np.abs(run.predicted.values - LABELS)[SPLIT["valid"], 0] / (std or 1)
    assert run.interval.factor[0] == pytest.approx(np.sort(scores)[18])
    write_predictions(tmp_path, TABLE, [run])
    first = rows(tmp_path / "predictions_test.csv")[0]
    ends = [float(first[name]) for name in ("y_low90", "y_high90")]
    half = run.interval.factor[0] * (std or 1)
    value = run.predicted.values[40, 0]
    assert ends == pytest.approx([value - half, value + half], rel=1e-5)
    run.checkpoints, run.weights = ["a/b.pt"], [1.0]
    write_models(tmp_path, TABLE, [run], ("ND", "-999"))
    found = read_folder(tmp_path)
    assert found.missing_labels == ["ND", "-999"]
    assert found.interval(TABLE.targets) == run.interval
    with pytest.raises(ValueError, match="models.json has no interval of .*'z'"):
        found.interval(TargetSchema(["y", "z"]))


def test_metrics_of_a_spread():
    """Of the test molecules, and for the chosen model of its calibrated spread."""
    run = run_of("head + fine-tuned", np.resize([0.3, -0.3], (60, 1)))
    run.predictions["alone"] = run.predicted
    run.scale = SpreadScale(np.array([3.0]), np.array([0.0]))
    found = {
        (line.model, line.split): line.value
        for line in all_results(TABLE, [run])
        if line.metric == "coverage90"
    }
    assert found == {("head + fine-tuned", "test"): 1, ("alone", "test"): 0}


@pytest.mark.parametrize("kind", ["regression", "binary"])
def test_no_model_is_scored_on_a_target_without_a_label_in_train(kind, tmp_path):
    """Although a model with one output for each target predicts it."""
    labels = np.arange(120.0).reshape(60, 2) // 2 % 2
    labels[:20, 1] = np.nan
    table = Table(labels=labels, targets=TargetSchema(["y", "z"], kind=kind))
    unknown = Prediction(np.array([[0.5, np.nan]] * 60))
    wrong = Prediction(np.stack([labels[:, 0], 1 - labels[:, 0]], 1))
    run = Run(SPLIT, {MEAN: unknown, FOREST: unknown, "model": wrong}, "model")
    lines = list(all_results(table, [run]))
    found = metrics_of_test(lines, [run])[""]
    reference = {"regression": "mean", "binary": "majority"}[kind]
    metric = {"regression": "rmse", "binary": "accuracy"}[kind]
    assert [found[name][metric] for name in (reference, FOREST, "model")] == (
        [[0.5], [0.5], [float(kind == "binary")]]
    )
    write_results(tmp_path, lines)
    lines = rows(tmp_path / "results.csv")
    assert {line["value"] for line in lines if line["target"] == "z"} == {"", "0"}
    assert {x["metric"] for x in lines if x["target"] == "z" and x["value"]} == {"n"}
    assert {line["model"] for line in lines} == {reference, FOREST, "model"}


@pytest.fixture
def endpoints():
    """Test metrics of two endpoints, one of which has numbers a thousand times as large;
    the model is better than the forest on the small one."""
    labels = np.stack([np.arange(60.0), 1000.0 * np.resize([3, 1, 2], 60)], 1)
    table = Table(labels=labels, targets=TargetSchema(["y", "z"]))
    std = np.ones((60, 2))
    wave = np.resize([1.0, -1.0], 60)[:, None]
    run = Run(
        SPLIT,
        {
            MEAN: Prediction(np.full((60, 2), [9.5, 2000])),
            FOREST: Prediction(labels + wave * [2, 100]),
            "head": Prediction(labels + wave * [1, 400], std),
        },
        "head",
    )
    return table, metrics_of_test(list(all_results(table, [run])), [run])


def test_a_row_for_each_endpoint_and_model(endpoints):
    table, found = endpoints
    tables = metric_tables(table, found)
    first, mean, spreads = tables.values()
    assert [*tables][1] == "Mean over 2 endpoints"
    assert first[0] == ["endpoint", "model", "n", "rmse", "mae", "r2", "spearman"]
    names = [(name, model) for name, model, *_ in first[1:]]
    assert names == [(y, m) for y in "yz" for m in ("mean", "random forest", "head")]
    best = [[cell.is_best for cell in cells] for _, _, *cells in first[1:]]
    assert best[2][1:3] == [True, True] and best[4][1:4] == [True, True, True]
    assert first[3][3].text == "1.000" and first[6][3].text == "400.000"
    assert mean[0] == ["model", "nrmse", "r2", "spearman"]
    spread = [np.arange(20).std(), 1000 * np.resize([3, 1, 2], 20).std()]
    expected = np.mean(np.array([1, 400]) / spread)
    assert float(mean[3][1].text) == pytest.approx(expected, abs=1e-3)
    assert [row[0] for row in spreads] == ["endpoint", "y", "z"]
    text = summary_text(table, found)
    assert "\n\nMean over 2 endpoints (* best)\nmodel          nrmse " in text
    assert "\nz         head           20  400.000 " in text


def test_where_a_reference_is_better(endpoints):
    table, found = endpoints
    (line,) = worse_than_references(table, found)
    assert line == (
        "the model is worse than the random forest in rmse: z (400.000, 100.000)"
    )
    assert summary_text(table, found).endswith(f"\n\n{line}\n")
    del found["z"], found["y"]  # as of a single target
    table.targets = TargetSchema(["y"])
    found[""]["head"]["spearman"] = [-0.5]
    lines = worse_than_references(table, found)
    assert lines[1] == (
        "the model is worse than the random forest in spearman: y (-0.500, "
        f"{found['']['random forest']['spearman'][0]:.3f})"
    )


def test_many_endpoints_have_a_file_of_their_own(endpoints):
    table, found = endpoints
    names = [f"y{number}" for number in range(40)]
    table.targets = TargetSchema(names)
    text = summary_text(table, {"": found[""]} | dict.fromkeys(names, found["y"]))
    assert text.startswith("Mean over 40 endpoints") and "\ny7 " not in text
    assert "results.csv has the metrics of each endpoint\n" in text
