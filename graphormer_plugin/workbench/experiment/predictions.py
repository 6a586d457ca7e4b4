"""The predictions of an experiment: of each run, in one frame, and as files."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from graphormer_plugin.data.files import write_csv
from graphormer_plugin.data.graphs.start_molecules import START_HAS_SEEN
from graphormer_plugin.data.splits import SPLITS
from graphormer_plugin.data.tables.labels import label_ends
from graphormer_plugin.data.targets import Kind, target_statistics
from graphormer_plugin.estimators.prediction import (
    Estimate,
    Interval,
    Prediction,
    SpreadScale,
    class_scores,
    in_unit,
    per_target,
)
from graphormer_plugin.inference.model_folder import write_folder
from graphormer_plugin.inference.prediction_columns import (
    COMPARED,
    OutputColumn,
    free_names,
    prediction_columns,
)
from graphormer_plugin.workbench.experiment.labelled_molecules import (
    LabelledMolecules,
    SplitLabels,
)
from graphormer_plugin.workbench.experiment.settings import HEAD
from graphormer_plugin.workbench.fitting.calibration import (
    best_cut_off,
    conformal_factor,
    spread_scale,
)


@dataclass(frozen=True)
class Run:
    """One split with predictions for all n molecules.

    Attributes:
        predicted: predictions of the model, the mean of its members.
        mean: mean of the fitted labels, for each output [C].
        beside: the model that it is compared with, None without.
        raw_std: spread of an ensemble or of trees before its calibration, else None; heads
            are calibrated by themselves.
        model: kind of the model.
        interval: what the ends of the predictions are, None without.
        learned: the run on the scales that models learn, of a run in the labels' unit.
    """

    labels: SplitLabels
    predicted: Prediction | Estimate
    checkpoints: Sequence[str]
    mean: np.ndarray | None = None
    comparison: "Run | None" = None
    raw_std: np.ndarray | None = None
    model: str = HEAD
    interval: Interval | None = None
    learned: "Run | None" = None

    def in_unit(self, coverage: float = 0.0) -> "Run":
        """The run in the unit of its labels; ``coverage`` is that of conformal intervals, or
        0."""
        table = self.labels.table
        predicted = self.predicted
        interval = conformal_interval(self, coverage)
        if interval is None and any(table.scales) and predicted.std is not None:
            interval = Interval.of_scales(table.targets, table.scales)
        comparison = self.comparison
        split = self.labels.in_unit
        targets = split.table.targets.changed(cut_off=cut_offs(self))
        return replace(
            self,
            labels=SplitLabels(replace(split.table, targets=targets), split.rows),
            predicted=in_unit(predicted, table.targets, table.scales, interval),
            comparison=None if comparison is None else comparison.in_unit(),
            interval=interval,
            learned=self,
        )


def calibrated(table: LabelledMolecules, run: Run) -> Run:
    """A run with a calibrated spread. Only its own validation molecules calibrate it;
    those of another run may be test molecules here."""
    if run.raw_std is None:
        return run
    std = calibration(table, [run])(run.raw_std)
    return replace(run, predicted=run.predicted._replace(std=std))


def predicted_labels(table: LabelledMolecules, runs: Sequence[Run]) -> pd.DataFrame:
    """Test labels that metrics count, with their predictions: a row for each.

    Columns:
        run, row, target: numbers from 0.
        label, value: measured and predicted; of a multiclass target the likeliest class.
        std: calibrated standard deviation, NaN without.
        in_domain: likeness to the training molecules, NaN where it is not known.
        error: size of the error, in standard deviations of the target in train; for
            classes 1 - the probability of the measured class.
    """
    frames = []
    for index, run in enumerate(runs):
        rows = run.labels.rows["test"]
        labels = run.labels.scored("test")
        values, std, in_domain = run.predicted[:3]
        likeness = per_target(in_domain, values)[rows]
        std = np.full(values.shape, np.nan)[rows] if std is None else std[rows]
        values = values[rows]
        targets = table.targets.targets
        parts = [values[:, outputs] for outputs in table.targets.outputs]
        columns = zip(targets, parts, labels.T, strict=True)
        error = np.stack([target.errors(*pair) for target, *pair in columns], 1)
        values = np.stack([t.shown(part) for t, part in zip(targets, parts)], 1)
        error /= np.where(table.targets.is_number, run.labels.deviation, 1)
        likeness, std = (x[:, table.targets.first_outputs] for x in (likeness, std))
        known = at, target = np.nonzero(~np.isnan(labels))
        columns = {"label": labels, "value": values, "std": std}
        columns |= {"in_domain": likeness, "error": error}
        frames.append(
            pd.DataFrame(
                {"run": index, "row": rows[at], "target": target}
                | {name: column[known] for name, column in columns.items()}
            )
        )
    return pd.concat(frames, ignore_index=True)


def calibration(table: LabelledMolecules, runs: Sequence[Run]) -> SpreadScale:
    """Calibration of the standard deviations of ensembles and trees, by the validation molecules of
    some runs. It changes nothing for classes, nor for heads."""
    chosen = [run for run in runs if run.raw_std is not None]
    count = table.targets.num_outputs
    scale = SpreadScale(np.ones(count), np.zeros(count))
    outputs = np.flatnonzero(table.targets.is_number_of_output)
    if not chosen or not len(outputs):
        return scale
    parts = [_distinct_valid(run) for run in chosen]
    values, std = (
        np.concatenate([x[rows][:, outputs] for x, (rows, _) in zip(arrays, parts)])
        for arrays in (
            [run.predicted.values for run in chosen],
            [run.raw_std for run in chosen],
        )
    )
    labels = np.concatenate([labels for _, labels in parts])
    found = spread_scale(values, std, labels[:, table.targets.is_number])
    scale.factor[outputs], scale.floor[outputs] = found
    return scale


def cut_offs(run: Run) -> list[float]:
    """Cut-off between two classes for each target, by the validation molecules; 0.5 of other
    targets."""
    targets = run.labels.table.targets
    rows, labels = _distinct_valid(run)
    values = run.predicted.values[rows]
    return [
        best_cut_off(values[:, output], y) if kind is Kind.BINARY else 0.5
        for kind, output, y in zip(targets.kinds, targets.first_outputs, labels.T)
    ]


def conformal_interval(run: Run, coverage: float) -> Interval | None:
    """Intervals by the errors on the validation molecules, sets of classes by their
    `class_scores`; None for a coverage of 0.

    Each of two classes has a limit of its own (Mondrian), so that a rare class is covered as
    often as the other.
    """
    if not coverage:
        return None
    targets = run.labels.table.targets
    factors = np.zeros(targets.num_outputs)
    limits = {}
    rows, labels = _distinct_valid(run)
    for target, outputs, column in zip(targets.targets, targets.outputs, labels.T):
        known = ~np.isnan(column)
        y = column[known]
        values, std = (
            None if x is None else x[rows[known], outputs] for x in run.predicted[:2]
        )
        if target.kind.is_number:
            scores = np.abs(y - values[:, 0]) / (1.0 if std is None else std[:, 0])
            factors[outputs] = conformal_factor(scores, coverage)
            continue
        scores = class_scores(target, values)[np.arange(len(y)), y.astype(int)]
        numbers = range(len(target.class_labels))
        groups = [y == k if target.kind.has_one_output else y >= 0 for k in numbers]
        limits[target.name] = [conformal_factor(scores[g], coverage) for g in groups]
    return Interval(coverage, factors, limits)


def calibration_molecules(run: Run) -> dict[str, tuple[Any, ...]]:
    """`ModelFolder.calibration`, by the validation molecules of a run in the labels' unit."""
    table = run.labels.table
    rows = table.without_copies(run.labels.rows["valid"])
    labels = np.where(run.labels.unlearned, np.nan, table.labels[rows])
    low, high = label_ends(labels, table.bounds[rows])
    found = {}
    for target, name in enumerate(table.targets.names):
        known = ~np.isnan(labels[:, target])
        values = run.predicted.values[rows[known], table.targets.outputs[target]]
        ends = (x[known, target].tolist() for x in (low, high))
        found[name] = (values.T.tolist(), *ends)
    return found


def _distinct_valid(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """Validation rows without copies, and their labels that count [rows, T]."""
    table = run.labels.table
    rows = table.without_copies(run.labels.rows["valid"])
    return rows, SplitLabels(table, {**run.labels.rows, "valid": rows}).scored("valid")


def write_predictions(
    folder: Path,
    table: LabelledMolecules,
    runs: Sequence[Run],
    seen: np.ndarray | None = None,
) -> None:
    """Write ``predictions_<split>.csv`` for train, valid and test.

    A line per replicate and molecule: the replicate, SMILES, the other columns of the
    input, the measured targets, `prediction_columns`, and for test the prediction of the
    model beside it, and last whether the start has ``seen`` it, see `has_seen`.
    Names that the input has already get another ending, see `free_names`.
    """
    several = any(np.ndim(run.predicted.in_domain) > 1 for run in runs)
    # For the digits of its predictions.
    digits = target_statistics(table.labels, slice(None))
    input_names = [table.smiles_column, *table.others, *table.targets.names]
    for split in SPLITS:
        lines: list[Sequence[Any]] = []
        for number, run in enumerate(runs, 1):
            rows = np.sort(run.labels.rows[split])  # the order of the input
            targets = run.labels.table.targets.scaled(*digits)
            own = Estimate(*(None if x is None else x[rows] for x in run.predicted))
            if several:
                own = own._replace(in_domain=per_target(own.in_domain, own.values))
            columns = prediction_columns(
                targets, *own, layout=COMPARED, interval=run.interval
            )
            if split == "test" and run.comparison is not None:
                values = run.comparison.predicted.values[rows]
                columns += [
                    column._replace(name=f"{name}_{run.comparison.model}")
                    for name, column in zip(
                        targets.names, prediction_columns(targets, values)
                    )
                ]
            if seen is not None:
                columns.append(OutputColumn(START_HAS_SEEN, seen[rows].tolist()))
            if not lines:
                names = ["replicate", *(column.name for column in columns)]
                number_column, *names = free_names(names, input_names)
                lines.append([number_column, *input_names, *names])
            for row, *cells in zip(rows, *(column.texts for column in columns)):
                others = (texts[row] for texts in table.others.values())
                first = [number, table.smiles[row], *others]
                lines.append([*first, *table.label_cells(row), *cells])
        write_csv(folder / f"predictions_{split}.csv", lines)


def write_models(
    folder: Path,
    table: LabelledMolecules,
    runs: Sequence[Run],
    missing_labels: Sequence[str] = (),
    coverage: float = 0.0,
) -> None:
    """Write which checkpoints ``graphormer-predict FOLDER`` loads, with the calibration of
    all runs together, and the words that it takes as missing labels."""
    scale = calibration(table, runs)
    names = np.array(table.targets.names)[table.targets.target_of_output]
    is_number = table.targets.is_number_of_output
    interval = conformal_interval(runs[0], coverage)
    conformal = {}
    if interval is not None:
        factors = compress(zip(names, interval.factor), is_number)
        conformal = {
            "interval": dict(factors),
            "sets": interval.limits,
            "calibration": calibration_molecules(runs[0].in_unit()),
        }
    cuts = np.mean([cut_offs(run) for run in runs], 0).tolist()
    write_folder(
        folder,
        [path for run in runs for path in run.checkpoints],
        spread_scale={n: x for n, x in zip(names, scale.factor.tolist()) if x != 1},
        spread_floor={n: x for n, x in zip(names, scale.floor.tolist()) if x},
        log_targets=[*compress(table.targets.names, table.scales)],
        cut_off={n: x for n, x in zip(table.targets.names, cuts) if x != 0.5},
        coverage=coverage,
        missing_labels=missing_labels,
        **conformal,
    )
