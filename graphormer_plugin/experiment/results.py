"""Predictions and metrics of an experiment, as files."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from graphormer_plugin.criterions.metrics import mean_of_defined
from graphormer_plugin.data.csv_lines import write_csv
from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.files import atomic_write
from graphormer_plugin.experiment.scores import METRICS, scores, text_table
from graphormer_plugin.experiment.splits import SPLITS, scored_labels
from graphormer_plugin.experiment.table import Split, Table
from graphormer_plugin.inference.calibration import spread_scale
from graphormer_plugin.inference.columns import (
    COMPARED,
    free_names,
    prediction_columns,
)
from graphormer_plugin.inference.model_folder import write_folder
from graphormer_plugin.inference.values import Prediction, SpreadScale

RESULTS_FILE = "results.csv"

MEAN, FOREST = "mean", "random forest"


@dataclass
class Run:
    """One split with the predictions of all models for all molecules.

    Attributes:
        split: Molecules of train, valid and test.
        predictions: For all n molecules by the name of the model; that of the random
            forest is NaN but for test.
        chosen: Name of the model that the experiment chooses.
        checkpoints: Of the chosen model, in the folder of the experiment.
        weights: How much each of them counts; their sum is 1.
        reason: Why it was chosen.
        calibrates: Its spread is to be calibrated on the validation molecules.
        scale: That calibration.
    """

    split: Split
    predictions: dict[str, Prediction] = field(default_factory=dict)
    chosen: str = ""
    checkpoints: list[str] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    reason: str = ""
    calibrates: bool = False
    scale: SpreadScale | None = None

    @property
    def predicted(self) -> Prediction:
        """Predictions of the chosen model."""
        return self.predictions[self.chosen]

    @property
    def std(self) -> np.ndarray | None:
        """Its standard deviations, calibrated; None without."""
        std = self.predicted.std
        return self.scale(std) if std is not None and self.calibrates else std


def model_name(runs: Sequence[Run]) -> str:
    """Name of the row of the chosen models."""
    names = dict.fromkeys(run.chosen for run in runs)
    return " or ".join(names)


def reference_name(kind: str) -> str:
    """Name of the row of the mean of the labels."""
    return MEAN if kind == "regression" else "majority"


def test_rows(table: Table, runs: Sequence[Run]) -> dict[str, dict[str, list[float]]]:
    """Test metrics of each run by metric and by the name of the model, references first.

    With several targets a metric is the mean over the targets that have one.
    """
    kind = table.targets.kind
    found: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        test = run.split["test"]
        labels = scored_labels(table, run.split, "test")
        for name in (MEAN, FOREST, run.chosen):
            row = name
            if name == MEAN:
                row = reference_name(kind)
            elif name == run.chosen:
                row = model_name(runs)
            values = scores(kind, run.predictions[name].values[test], labels)
            for metric, per_target in values.items():
                found.setdefault(row, {}).setdefault(metric, []).append(
                    mean_of_defined(per_target)
                )
    return found


def result_table(table: Table, runs: Sequence[Run]) -> str:
    """The table that ends an experiment."""
    kind = table.targets.kind
    return text_table(test_rows(table, runs), METRICS[kind])


def write_results(folder: Path, table: Table, runs: Sequence[Run]) -> None:
    """Write `RESULTS_FILE`: a line per run, model, split, target and metric.

    The target is empty for the mean over targets. References have metrics of the test
    rows only. Those of a head in the validation rows are of one that has not seen them.
    """
    kind, names = table.targets.kind, table.targets.names

    def lines() -> Iterator[list[Any]]:
        yield ["replicate", "model", "chosen", "split", "target", "metric", "value"]
        for number, run in enumerate(runs, 1):
            for model, predicted in run.predictions.items():
                for split in SPLITS:
                    if model in (MEAN, FOREST) and split != "test":
                        continue
                    labels = scored_labels(table, run.split, split)
                    values = predicted.values[run.split[split]]
                    found = scores(kind, values, labels)
                    title = reference_name(kind) if model == MEAN else model
                    start = [number, title, "yes" if model == run.chosen else "no"]
                    for metric, each in found.items():
                        all_targets = mean_of_defined(each)
                        yield [*start, split, "", metric, format_metric(all_targets)]
                        for name, value in zip(names, each) if len(names) > 1 else ():
                            yield [*start, split, name, metric, format_metric(value)]

    write_csv(folder / RESULTS_FILE, lines())


def format_metric(value: float) -> str:
    """A number of a table; empty for NaN."""
    return "" if math.isnan(value) else f"{value:.6g}"


def write_predictions(folder: Path, table: Table, runs: Sequence[Run]) -> None:
    """Write ``predictions_<split>.csv`` for train, valid and test.

    A line per replicate and molecule: the replicate, SMILES, the other columns of the
    input, the measured targets, `prediction_columns`, and for test the prediction of the
    random forest. Names that the
    input has already get another ending, see `free_names`.

    Args:
        folder: Where.
        table: The molecules.
        runs: With their predictions.
    """
    has_std = any(run.predicted.std is not None for run in runs)
    for split in SPLITS:
        lines: list[list[Any]] = []
        for number, run in enumerate(runs, 1):
            rows = run.split[split]
            found = run.predicted._replace(std=run.std)
            values, std, in_domain = (
                None if one is None else one[rows] for one in found
            )
            if has_std and std is None:
                std = np.full(values.shape, np.nan)
            if in_domain is None:
                in_domain = np.full(len(rows), np.nan)
            predicted = prediction_columns(
                table.targets, values, std, in_domain, layout=COMPARED
            )
            columns = {column.name: column.cells for column in predicted}
            if split == "test":
                of_forest = run.predictions[FOREST].values[rows]
                forest = prediction_columns(table.targets, of_forest)
                for name, column in zip(table.targets.names, forest):
                    columns[f"{name}_forest"] = column.cells
            if not lines:
                given = [table.smiles_column, *table.extra_names, *table.targets.names]
                number_column, *names = free_names(["replicate", *columns], given)
                lines.append([number_column, *given, *names])
            for row, cells in zip(rows, zip(*columns.values()), strict=True):
                first = [number, table.smiles[row], *table.extras[row]]
                lines.append([*first, *table.label_cells(row), *cells])
        write_csv(folder / f"predictions_{split}.csv", lines)


def calibration(table: Table, runs: Sequence[Run]) -> SpreadScale:
    """Calibration of the standard deviations of ensembles, from the validation molecules
    of some runs. Those of one run are test molecules of another.

    It changes nothing for classes, nor for heads, which are calibrated by themselves.
    """
    chosen = [run for run in runs if run.predicted.std is not None and run.calibrates]
    if not chosen or table.targets.kind != "regression":
        count = table.targets.num_outputs
        return SpreadScale(np.ones(count), np.zeros(count))
    rows = [run.split["valid"] for run in chosen]
    return spread_scale(
        np.concatenate([run.predicted.values[at] for run, at in zip(chosen, rows)]),
        np.concatenate([run.predicted.std[at] for run, at in zip(chosen, rows)]),
        np.concatenate([scored_labels(table, run.split, "valid") for run in chosen]),
    )


def write_models(folder: Path, table: Table, runs: Sequence[Run]) -> None:
    """Write which checkpoints ``graphormer-predict FOLDER`` loads."""
    scale = calibration(table, runs)
    factors = zip(table.targets.names, scale.factor.tolist())
    floors = zip(table.targets.names, scale.floor.tolist())
    write_folder(
        folder,
        [path for run in runs for path in run.checkpoints],
        {name: factor for name, factor in factors if factor != 1},
        {name: floor for name, floor in floors if floor},
        [weight for run in runs for weight in run.weights],
    )


def save_prediction(path: Path, prediction: Prediction) -> None:
    """An ``.npz`` file, which is there when it is complete."""
    save_arrays(path, {k: v for k, v in prediction._asdict().items() if v is not None})


def read_prediction(path: Path) -> Prediction:
    """What `save_prediction` wrote."""
    return Prediction(**read_arrays(path))


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """An ``.npz`` file, which is there when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        np.savez(file, **arrays)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """What `save_arrays` wrote.

    Raises:
        DatasetError: The file is damaged, as by a copy that was cut off.
    """
    try:
        with np.load(path) as arrays:
            return dict(arrays)
    except (BadZipFile, ValueError, EOFError):
        raise DatasetError(f"{path} is damaged; remove it, and run again") from None
