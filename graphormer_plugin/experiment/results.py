"""Predictions and metrics of an experiment, as files."""

import contextlib
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from graphormer_plugin.criterions.metrics import METRICS, RISING
from graphormer_plugin.data.errors import DatasetError, listed
from graphormer_plugin.data.files import atomic_write, read_arrays
from graphormer_plugin.data.schema import mean_of_defined, target_statistics
from graphormer_plugin.data.splits import SPLITS
from graphormer_plugin.data.tables.csv_lines import write_csv
from graphormer_plugin.experiment.labelled_table import Split, Table
from graphormer_plugin.experiment.scores import (
    COUNT,
    IN_UNIT,
    MAIN,
    Cell,
    main_metric,
    metric_cells,
    score,
    scores,
    spread_text,
    text_table,
)
from graphormer_plugin.heads.calibration import (
    SPREAD_SCORES,
    conformal_factor,
    spread_scale,
    spread_scores,
)
from graphormer_plugin.heads.prediction import (
    IN_DOMAIN,
    Interval,
    Prediction,
    SpreadScale,
    antilog,
    from_log,
    per_target,
)
from graphormer_plugin.inference.model_folder import write_folder
from graphormer_plugin.inference.prediction_columns import (
    COMPARED,
    free_names,
    prediction_columns,
)

RESULTS_FILE = "results.csv"
TESTED, SPREAD = "Test molecules", "Spread of the predictions"  # titles of tables
MOST_ENDPOINTS = 20  # with rows of their own in a text

MEAN, MAJORITY, FOREST = "mean", "majority", "random forest"


@dataclass
class Run:
    """One split with the predictions of all models for all molecules.

    Attributes:
        split: Molecules of train, valid and test.
        predictions: For all n molecules by the name of the model; NaN for molecules that
            the random forest does not predict, all but test.
        chosen: Name of the model of the experiment.
        checkpoints: Its files, in the folder of the experiment.
        reason: Its name and metric in valid.
        calibrates: Its spread is to be calibrated on the validation molecules.
        scale: That calibration.
        interval: Conformal intervals of the chosen model, or None.
    """

    split: Split
    predictions: dict[str, Prediction] = field(default_factory=dict)
    chosen: str = ""
    checkpoints: list[str] = field(default_factory=list)
    reason: str = ""
    calibrates: bool = False
    scale: SpreadScale | None = None
    interval: Interval | None = None

    @property
    def predicted(self) -> Prediction:
        """Predictions of the chosen model."""
        return self.predictions[self.chosen]

    @property
    def std(self) -> np.ndarray | None:
        """Its standard deviations, calibrated; None without."""
        std = self.predicted.std
        return self.scale(std) if std is not None and self.calibrates else std


class Result(NamedTuple):
    """A line of `RESULTS_FILE`. The target is empty for the mean over the targets that
    have a value; an undefined value is NaN."""

    replicate: int
    model: str
    chosen: str
    split: str
    target: str
    metric: str
    value: float


def label_spread(table: Table, split: Split) -> np.ndarray:
    """Standard deviation of the labels of each target in train [T]."""
    labels = table.trained_labels(split)
    return np.array(target_statistics(labels, np.arange(len(labels)))[1])


def tested(table: Table, runs: Sequence[Run]) -> tuple[np.ndarray, np.ndarray]:
    """Predictions [n, C] and labels [n, T] of the test molecules of all runs; see
    `scored_labels`."""
    rows = [run.split["test"] for run in runs]
    values = [run.predicted.values[at] for run, at in zip(runs, rows)]
    labels = [table.scored_labels(run.split, "test") for run in runs]
    return np.concatenate(values), np.concatenate(labels)


def all_results(table: Table, runs: Sequence[Run]) -> Iterator[Result]:
    """All metrics. References and spreads have metrics of the test rows only. Metrics of a
    head in the validation rows are of a head that has not seen them."""
    kind, names = table.targets.kind, table.targets.names
    several = len(names) > 1 or table.logs
    for number, run in enumerate(runs, 1):
        spread = label_spread(table, run.split)
        for model, predicted in run.predictions.items():
            is_chosen = "yes" if model == run.chosen else "no"
            title = model if model != MEAN or kind == "regression" else MAJORITY
            for split in ("test",) if model in (MEAN, FOREST) else SPLITS:
                labels = table.scored_labels(run.split, split)
                values = predicted.values[run.split[split]]
                counts = (~np.isnan(labels)).sum(0).tolist()
                found = {COUNT: counts} | scores(table.targets, values, labels, spread)
                std = run.std if model == run.chosen else predicted.std
                if kind == "regression" and std is not None and split == "test":
                    found |= _spread_scores(labels - values, std[run.split[split]])
                lines = []
                for target in table.logs:  # in the unit, too
                    pair = antilog(values[:, target]), antilog(labels[:, target])
                    name = table.in_unit.names[target]
                    lines.append((name, COUNT, counts[target]))
                    lines += [(name, one, score(one, *pair)) for one in METRICS[kind]]
                for metric, of_targets in found.items():
                    total = math.fsum if metric == COUNT else mean_of_defined
                    lines.append(("", metric, total(of_targets)))
                    for name, value in zip(names, of_targets) if several else ():
                        lines.append((name, metric, value))
                for line in lines:
                    yield Result(number, title, is_chosen, split, *line)


def _spread_scores(errors: np.ndarray, std: np.ndarray) -> dict[str, list[float]]:
    """`spread_scores` of each target by metric; errors [n, T] are NaN without label."""
    known = ~np.isnan(errors)
    of_targets = [
        spread_scores(error[rows], spread[rows])
        for error, spread, rows in zip(errors.T, std.T, known.T, strict=True)
    ]
    return {name: [of[name] for of in of_targets] for name in SPREAD_SCORES}


# Values of each run by metric, by the name of a model, by target, as in `Result`.
MetricsOfTest = dict[str, dict[str, dict[str, list[float]]]]


def metrics_of_test(results: Sequence[Result], runs: Sequence[Run]) -> MetricsOfTest:
    """Metrics of the test molecules: of references, and of the chosen models together. A
    single target has the name of the mean over several, which is empty."""
    chosen = " or ".join(dict.fromkeys(run.chosen for run in runs))
    found: MetricsOfTest = {}
    for result in results:
        is_reference = result.model in (MEAN, MAJORITY, FOREST)
        if result.split == "test" and (is_reference or result.chosen == "yes"):
            models = found.setdefault(result.target, {})
            row = models.setdefault(result.model if is_reference else chosen, {})
            row.setdefault(result.metric, []).append(result.value)
    return found


def metric_tables(
    table: Table, found: MetricsOfTest
) -> dict[str, list[list[Cell | str]]]:
    """Tables of `metrics_of_test` by title: a row per target and model, the means over
    targets, and metrics of the spread of models that have a spread; headers first."""
    kind, names = table.targets.kind, list(table.targets.names)
    means = len(names) > 1
    names += [table.in_unit.names[target] for target in table.logs]
    metrics = [COUNT, *METRICS[kind]]
    several = found.keys() - {""}
    rows = {name: found[name] for name in names if name in several} or found
    first = ["endpoint"] if several else []
    tables: dict[str, list[list[Cell | str]]] = {TESTED: [[*first, "model", *metrics]]}
    for name, models in rows.items():
        start = [name][: len(first)]
        tables[TESTED] += [[*start, *row] for row in metric_cells(models, metrics)]
    if means:
        title = f"Mean over {len(table.targets.names):,} endpoints"
        metrics = [main_metric(table.targets).name]
        metrics += [x for x in METRICS[kind] if x not in (*IN_UNIT, *metrics)]
        tables[title] = [["model", *metrics], *metric_cells(found[""], metrics)]
    spreads = [
        row
        for name, models in rows.items()
        for model, values in models.items()
        if SPREAD_SCORES[0] in values
        for row in metric_cells({name or model: values}, SPREAD_SCORES)
    ]
    if spreads:
        tables[SPREAD] = [[*(first or ["model"]), *SPREAD_SCORES], *spreads]
    return tables


def worse_than_references(table: Table, found: MetricsOfTest) -> list[str]:
    """Where a reference is better than the model in the main metric or in ranking, a line
    for each of both."""
    lines = []
    for metric in dict.fromkeys((MAIN[table.targets.kind].name, "spearman")):
        for reference in (FOREST, MEAN, MAJORITY):
            worse = []
            for name in table.targets.names:
                models = found.get(name, found[""])
                if metric not in models.get(reference, ()):
                    continue
                *_, own = models
                values = [mean_of_defined(models[x][metric]) for x in (own, reference)]
                sign = 1 if metric in RISING else -1
                if sign * values[0] < sign * values[1]:
                    texts = [spread_text([value], metric) for value in values]
                    worse.append(f"{name} ({texts[0]}, {texts[1]})")
            if worse:
                lines.append(
                    f"the model is worse than the {reference} in {metric}: {listed(worse)}"
                )
    return lines


def summary_text(table: Table, found: MetricsOfTest) -> str:
    """`metric_tables` and `worse_than_references` as text."""
    tables = metric_tables(table, found)
    parts = [
        f"{title}{' (* best)' if title != SPREAD else ''}\n{text_table(rows)}"
        for title, rows in tables.items()
        if len(found) <= MOST_ENDPOINTS or title not in (TESTED, SPREAD)
    ]
    if len(parts) < len(tables):
        parts.append(f"{RESULTS_FILE} has the metrics of each endpoint")
    parts += ["\n".join(worse_than_references(table, found))]
    return "\n\n".join(filter(None, parts)) + "\n"


def write_results(folder: Path, results: Sequence[Result]) -> None:
    """Write `RESULTS_FILE`, with empty cells for undefined values."""
    lines = [
        result._replace(
            value="" if result.value != result.value else f"{result.value:.6g}"
        )
        for result in results
    ]
    write_csv(folder / RESULTS_FILE, [Result._fields, *lines])


def write_predictions(folder: Path, table: Table, runs: Sequence[Run]) -> None:
    """Write ``predictions_<split>.csv`` for train, valid and test.

    A line per replicate and molecule: the replicate, SMILES, the other columns of the
    input, the measured targets, `prediction_columns`, and for test the prediction of the
    random forest. Names that the input has already get another ending, see `free_names`.
    """
    has_std = any(run.predicted.std is not None for run in runs)
    several = any(np.ndim(run.predicted.in_domain) > 1 for run in runs)
    targets, logs = table.in_unit, table.logs
    if targets.kind == "regression":  # for the digits of its predictions
        mean, std = target_statistics(table.labels, slice(None))
        targets = replace(targets, mean=mean, std=std)
    given = [table.smiles_column, *table.extra_names, *targets.names]
    for split in SPLITS:
        lines: list[Sequence[Any]] = []
        for number, run in enumerate(runs, 1):
            rows = np.sort(run.split[split])  # as in the input
            every = from_log(run.predicted._replace(std=run.std), logs)
            values, std, in_domain = (None if x is None else x[rows] for x in every)
            nothing = np.full(values.shape, np.nan)
            std = nothing if std is None and has_std else std
            if several:
                in_domain = per_target(in_domain, values)
            in_domain = nothing[:, 0] if in_domain is None else in_domain
            columns = prediction_columns(
                targets,
                values,
                std,
                in_domain,
                layout=COMPARED,
                logs=logs,
                interval=run.interval,
            )
            if split == "test":
                of_forest = from_log(run.predictions[FOREST], logs).values[rows]
                forest = prediction_columns(targets, of_forest)
                columns += [
                    column._replace(name=f"{name}_forest")
                    for name, column in zip(targets.names, forest)
                ]
            if not lines:
                names = ["replicate", *(column.name for column in columns)]
                number_column, *names = free_names(names, given)
                lines.append([number_column, *given, *names])
            for row, *cells in zip(rows, *(column.cells for column in columns)):
                first = [number, table.smiles[row], *table.extras[row]]
                lines.append([*first, *table.label_cells(row, True), *cells])
        write_csv(folder / f"predictions_{split}.csv", lines)


def calibration(table: Table, runs: Sequence[Run]) -> SpreadScale:
    """Calibration of the standard deviations of ensembles, from the validation molecules
    of some runs; validation molecules of a run are test molecules of another.

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
        np.concatenate([table.scored_labels(run.split, "valid") for run in chosen]),
    )


def conformal_interval(table: Table, run: Run, coverage: float) -> Interval:
    """Intervals by the errors of the chosen model on the validation molecules."""
    rows = run.split["valid"]
    errors = np.abs(
        table.scored_labels(run.split, "valid") - run.predicted.values[rows]
    )
    scores = errors if run.std is None else errors / run.std[rows]
    known = (column[~np.isnan(column)] for column in scores.T)
    factors = [conformal_factor(column, coverage) for column in known]
    return Interval(coverage, np.array(factors))


def write_models(
    folder: Path, table: Table, runs: Sequence[Run], missing_labels: Sequence[str]
) -> None:
    """Write which checkpoints ``graphormer-predict FOLDER`` loads, and which words it takes
    as missing labels."""
    scale, names = calibration(table, runs), table.targets.names
    write_folder(
        folder,
        [path for run in runs for path in run.checkpoints],
        {name: x for name, x in zip(names, scale.factor.tolist()) if x != 1},
        {name: x for name, x in zip(names, scale.floor.tolist()) if x},
        [names[target] for target in table.logs],
        *(
            (interval.coverage, dict(zip(names, interval.factor.tolist())))
            if (interval := runs[0].interval)
            else ()
        ),
        missing_labels=missing_labels,
    )


def kept_arrays(
    path: Path,
    compute: Callable[[], Mapping[str, np.ndarray | None]],
    shapes: Mapping[str, tuple[int | None, ...]],
    optional: Collection[str] = (),
) -> dict[str, np.ndarray]:
    """Arrays of an ``.npz`` file, which is computed and written if it is missing, at once
    and whole. An experiment goes on by this.

    Args:
        path: Of the file.
        compute: Makes the arrays by name; None is left out.
        shapes: Shape of each array, which has numbers; None is any size.
        optional: Names of arrays that may be missing.

    Raises:
        DatasetError: The file is damaged, as by a copy that was cut off, or is of other
            molecules or targets.
    """
    if not path.exists():
        arrays = {name: x for name, x in compute().items() if x is not None}
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            np.savez(file, **arrays)
    arrays = {}
    with contextlib.suppress(ValueError):  # damaged
        arrays = read_arrays(path)
    if not {*shapes} - {*optional} <= {*arrays} <= {*shapes} or any(
        x.dtype.kind not in "fiu"
        or len(shapes[name]) - x.ndim not in (0, name == IN_DOMAIN)
        for name, x in arrays.items()
    ):
        raise DatasetError(f"{path} is damaged; remove it, and run again")
    sizes = [pair for name, x in arrays.items() for pair in zip(shapes[name], x.shape)]
    if any(expected not in (None, size) for expected, size in sizes):
        raise DatasetError(
            f"{path} is of other molecules or targets, as an earlier version took them "
            "from the table; name a new folder with --out"
        )
    return arrays
