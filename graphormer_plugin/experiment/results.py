"""Predictions and metrics of an experiment, as files."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from graphormer_plugin.criterions.metrics import mean_of_defined
from graphormer_plugin.data.files import atomic_write
from graphormer_plugin.experiment.scores import METRICS, scores, text_table
from graphormer_plugin.experiment.table import SPLITS, Split, Table
from graphormer_plugin.inference.values import format_value

MODELS_FILE = "models.json"
RESULTS_FILE = "results.csv"

MEAN, FOREST = "mean", "random forest"


@dataclass
class Run:
    """One split with the predictions of all models for all molecules.

    Attributes:
        split: Molecules of train, valid and test.
        predictions: [members, n, T] by the name of the model.
        chosen: Name of the model that the experiment chooses.
        checkpoints: Of the chosen model, in the folder of the experiment.
        reason: Why it was chosen.
    """

    split: Split
    predictions: dict[str, np.ndarray] = field(default_factory=dict)
    chosen: str = ""
    checkpoints: list[str] = field(default_factory=list)
    reason: str = ""

    @property
    def predicted(self) -> np.ndarray:
        """Mean of the chosen model's members [n, T]."""
        return self.predictions[self.chosen].mean(0)


def model_name(runs: Sequence[Run]) -> str:
    """Name of the row of the chosen models."""
    names = dict.fromkeys(run.chosen for run in runs)
    return " or ".join(names)


def reference_name(kind: str) -> str:
    """Name of the row of the mean of the labels."""
    return "majority" if kind == "binary" else MEAN


def test_rows(table: Table, runs: Sequence[Run]) -> dict[str, dict[str, list[float]]]:
    """Test metrics of each run by metric and by the name of the model, references first.

    With several targets a metric is the mean over the targets that have one.
    """
    kind = table.targets.kind
    found: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        test = run.split["test"]
        for name in (MEAN, FOREST, run.chosen):
            row = name
            if name == MEAN:
                row = reference_name(kind)
            elif name == run.chosen:
                row = model_name(runs)
            values = scores(
                kind, run.predictions[name].mean(0)[test], table.labels[test]
            )
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

    The target is empty for the mean over targets. References and heads that are fitted
    to the validation rows too have no metrics of these.
    """
    kind, names = table.targets.kind, table.targets.names

    def lines() -> Iterator[list[Any]]:
        yield ["replicate", "model", "chosen", "split", "target", "metric", "value"]
        for number, run in enumerate(runs, 1):
            for model, members in run.predictions.items():
                predicted = members.mean(0)
                for split in SPLITS:
                    if model in (MEAN, FOREST) and split != "test":
                        continue
                    rows = run.split[split]
                    found = scores(kind, predicted[rows], table.labels[rows])
                    start = [number, model, "yes" if model == run.chosen else "no"]
                    for metric, values in found.items():
                        all_targets = mean_of_defined(values)
                        yield [*start, split, "", metric, format_metric(all_targets)]
                        for name, value in zip(names, values) if len(names) > 1 else ():
                            yield [*start, split, name, metric, format_metric(value)]

    write_csv(folder / RESULTS_FILE, lines())


def format_metric(value: float) -> str:
    """A number of a table; empty for NaN."""
    return "" if math.isnan(value) else f"{value:.6g}"


def write_predictions(folder: Path, table: Table, runs: Sequence[Run]) -> None:
    """Write ``predictions_<split>.csv`` for train, valid and test.

    A line per replicate and molecule: the replicate, SMILES, the other columns of the
    input, the measured targets, the predicted ones, with several members their standard
    deviation, and for test the prediction of the random forest.
    """
    names = table.targets.names
    for split in SPLITS:
        several = any(len(run.predictions[run.chosen]) > 1 for run in runs)
        header = ["replicate", table.smiles_column, *table.extra_names, *names]
        header += [f"{name}_predicted" for name in names]
        header += [f"{name}_std" for name in names] if several else []
        header += [f"{name}_forest" for name in names] if split == "test" else []
        lines: list[list[Any]] = [header]
        for number, run in enumerate(runs, 1):
            members = run.predictions[run.chosen]
            columns = [members.mean(0)]
            if several:
                many = len(members) > 1
                columns.append(members.std(0, ddof=1) if many else 0 * members[0])
            if split == "test":
                columns.append(run.predictions[FOREST].mean(0))
            numbers = np.concatenate(columns, 1)
            for row in run.split[split].tolist():
                labels = ["" if x != x else repr(x) for x in table.labels[row].tolist()]
                start = [number, table.smiles[row], *table.extras[row], *labels]
                lines.append([*start, *(format_value(x) for x in numbers[row])])
        write_csv(folder / f"predictions_{split}.csv", lines)


def write_models(folder: Path, runs: Sequence[Run]) -> None:
    """Write `MODELS_FILE`: the checkpoints that ``graphormer-predict FOLDER`` loads."""
    models = [path for run in runs for path in run.checkpoints]
    with atomic_write(folder / MODELS_FILE, "w", encoding="utf-8") as file:
        json.dump({"models": models}, file, indent=1)
        file.write("\n")


def write_csv(path: Path, lines: Any) -> None:
    """A CSV file, which is there when it is complete."""
    with atomic_write(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """An ``.npz`` file, which is there when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        np.savez(file, **arrays)
