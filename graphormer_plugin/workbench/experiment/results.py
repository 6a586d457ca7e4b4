"""Metrics of an experiment: as a table of all, and as text about the test molecules."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from graphormer_plugin.criterions.metrics import RISING
from graphormer_plugin.data.errors import listed
from graphormer_plugin.data.files import write_csv
from graphormer_plugin.data.graphs.start_molecules import seen_text
from graphormer_plugin.data.splits import SPLITS
from graphormer_plugin.data.targets import Kind, mean_of_defined
from graphormer_plugin.estimators.kernels import Reference
from graphormer_plugin.estimators.prediction import Prediction, class_scores
from graphormer_plugin.workbench.experiment.experiment import TITLES
from graphormer_plugin.workbench.experiment.labelled_molecules import (
    FEW_TESTED,
    LabelledMolecules,
    SplitLabels,
)
from graphormer_plugin.workbench.experiment.predictions import Run
from graphormer_plugin.workbench.experiment.settings import TREES
from graphormer_plugin.workbench.fitting.calibration import SPREAD_SCORES, spread_scores
from graphormer_plugin.workbench.predictions.scores import (
    COUNT,
    IN_UNIT,
    NRMSE,
    main_metrics,
    metric_cells,
    score,
    scores,
    spread_text,
    text_table,
)

RESULTS_FILE = "results.csv"
# Numbers of a target beside `Kind.metrics`.
BESIDE = {
    Kind.REGRESSION: (COUNT, NRMSE, *SPREAD_SCORES),
    Kind.BINARY: (COUNT,),
    Kind.MULTICLASS: (COUNT,),
}
# The target is empty for the mean over the targets that have a value.
COLUMNS = ("replicate", "model", "chosen", "split", "target", "metric", "value")
# Titles of tables.
TESTED = "Test molecules"
SPREAD = "Spread of the predictions"
MOST_ENDPOINTS = 20  # a text with more has no rows for each
FEWEST = 5  # molecules with repeats, or test molecules on cliffs, that a line tells of
SIMILAR = 0.9  # Tanimoto similarity on a cliff, as in MoleculeACE
MOST_PAIRS = 3 * 10**7  # of a test molecule and another, that are compared
RESAMPLES = 100  # of the test molecules, for the error of a difference; our choice

MEAN = "mean"
MAJORITY = "majority"


def all_results(table: LabelledMolecules, runs: Sequence[Run]) -> pd.DataFrame:
    """All metrics, with `COLUMNS`; an undefined value is NaN. Baselines and spreads have
    metrics of the test rows only.

    Metrics of the validation rows come from heads and trees that have not seen them.
    """
    lines = []
    for number, run in enumerate(runs, 1):
        models = {name: Prediction(x) for name, x in _baselines(table, run).items()}
        models[TITLES[run.model]] = run.predicted
        for model, predicted in models.items():
            is_chosen = predicted is run.predicted
            for split in SPLITS if is_chosen else ("test",):
                first = (number, model, "yes" if is_chosen else "no", split)
                metrics = _metrics(table, run, predicted, split)
                lines += [(*first, *line) for line in metrics]
    return pd.DataFrame(lines, columns=COLUMNS)


def _baselines(table: LabelledMolecules, run: Run) -> dict[str, np.ndarray]:
    """Predictions [n, C] of the mean, and of the model beside if there is one."""
    constant = MEAN if table.targets.is_number.any() else MAJORITY
    values = {constant: np.broadcast_to(run.mean, run.predicted.values.shape)}
    if run.comparison is not None:
        values[TITLES[run.comparison.model]] = run.comparison.predicted.values
    return values


def _metrics(
    table: LabelledMolecules, run: Run, predicted: Prediction, split: str
) -> list[tuple[str, str, float]]:
    """Target, metric and value of a model on a part of a split."""
    names = table.targets.names
    is_number = table.targets.is_number
    labels = run.labels.scored(split)
    rows = run.labels.rows[split]
    values = predicted.values[rows]
    counts = (~np.isnan(labels)).sum(0).tolist()
    deviation = run.labels.deviation
    by_metric = {COUNT: counts}
    by_metric |= scores(run.labels.table.targets, values, labels, deviation)
    first = table.targets.first_outputs
    if is_number.any() and predicted.std is not None and split == "test":
        learned = run.learned or run  # where errors are normal
        values, std = (x[rows][:, first] for x in learned.predicted[:2])
        errors = np.where(is_number, learned.labels.scored(split) - values, np.nan)
        spreads = [spread_scores(*pair) for pair in zip(errors.T, std.T, strict=True)]
        by_metric |= {name: [of[name] for of in spreads] for name in SPREAD_SCORES}
    lines = []
    for metric, of_targets in by_metric.items():
        total = math.fsum if metric == COUNT else mean_of_defined
        lines.append(("", metric, total(of_targets)))
        if len(names) > 1:
            lines += [
                (name, metric, x)
                for name, kind, x in zip(names, table.targets.kinds, of_targets)
                if metric in (*kind.metrics, *BESIDE[kind])
            ]
    return lines


# Values of each run by metric, by the name of a model, by target, as in `COLUMNS`.
HeldOutMetrics = Mapping[str, Mapping[str, Mapping[str, list[float]]]]


def held_out_metrics(results: pd.DataFrame) -> HeldOutMetrics:
    """Metrics of the test molecules. A single target has the name of the mean over several,
    which is empty."""
    test = results[results.split == "test"]
    by_target: dict[str, dict[str, dict[str, list[float]]]] = {}
    for keys, values in test.groupby(["target", "model", "metric"], sort=False).value:
        target, model, metric = keys
        by_target.setdefault(target, {}).setdefault(model, {})[metric] = values.tolist()
    return by_target


def metric_tables(
    table: LabelledMolecules, by_target: HeldOutMetrics
) -> dict[str, list[list[str]]]:
    """Tables of `held_out_metrics` by title: a row per target and model, the means over
    targets, and metrics of the spread of models that have a spread; headers first."""
    names = list(table.targets.names)
    means = len(names) > 1
    main = main_metrics(table.targets)
    every = dict.fromkeys(name for kind in main for name in kind.metrics)
    metrics = [COUNT, *every]
    several = by_target.keys() - {""}
    rows = {name: by_target[name] for name in names if name in several} or by_target
    first = ["endpoint"] if several else []
    tables: dict[str, list[list[str]]] = {TESTED: [[*first, "model", *metrics]]}
    for name, models in rows.items():
        start = [name][: len(first)]
        tables[TESTED] += [[*start, *row] for row in metric_cells(models, metrics)]
    if means:
        title = f"Mean over {len(table.targets.names):,} endpoints"
        metrics = [*main.values()]
        metrics += [x for x in every if x not in (*IN_UNIT, *metrics)]
        tables[title] = [["model", *metrics], *metric_cells(by_target[""], metrics)]
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


def worse_than_baselines(
    table: LabelledMolecules, runs: Sequence[Run], by_target: HeldOutMetrics
) -> list[str]:
    """Where a baseline is better than the model in the main metric or in ranking, by more
    than `difference_error`, a line for each of both, and what to try."""
    lines = []
    advice = {TITLES[TREES]: f"; try --model {TREES}"}
    scales = (runs[0].learned or runs[0]).labels.table.scales
    medians = (
        "; it predicts medians: graphormer-predict --mean gives means, and --log-targets "
        "none learns the labels as they are"
    )
    metrics = [*(kind.main_metric for kind in table.targets.kinds), "spearman"]
    for metric in dict.fromkeys(metrics):
        *baselines, model = by_target[""]
        for baseline in reversed(baselines):
            worse = []
            are_medians = False
            for target, name in enumerate(table.targets.names):
                models = by_target.get(name, by_target[""])
                if metric not in models[baseline]:
                    continue
                values = [mean_of_defined(models[x][metric]) for x in (model, baseline)]
                texts = [spread_text([value], metric) for value in values]
                gain = (values[1] - values[0]) * (1 if metric in RISING else -1)
                if gain > 0 and texts[0] != texts[1]:
                    error = difference_error(table, runs, baseline, target, metric)
                    if gain > error:
                        worse.append(f"{name} ({texts[0]}, {texts[1]})")
                        are_medians |= bool(scales and scales[target])
            if worse:
                text = f"the model is worse than the {baseline} in {metric}: {listed(worse)}"
                if baseline == MEAN and are_medians:
                    text += medians
                lines.append(text + advice.get(baseline, ""))
    return lines


def difference_error(
    table: LabelledMolecules,
    runs: Sequence[Run],
    baseline: str,
    target: int,
    metric: str,
) -> float:
    """Standard error of the difference of a test metric, a mean over the runs, between the
    model and a baseline: the Poisson bootstrap over molecules, each with all its rows.
    """
    outputs: slice | int = table.targets.outputs[target]
    if table.targets.targets[target].kind.has_one_output:
        outputs = outputs.start
    generator = np.random.default_rng(0)
    means = []
    for _ in range(RESAMPLES):
        times = table.resampled(generator)
        differences = []
        for run in runs:
            tested = run.labels.rows["test"]
            drawn = np.repeat(np.arange(len(tested)), times[tested])
            labels = run.labels.scored("test")[drawn, target]
            pair = [
                score(metric, values[tested[drawn], outputs], labels)
                for values in (run.predicted.values, _baselines(table, run)[baseline])
            ]
            differences.append(pair[0] - pair[1])
        means.append(mean_of_defined(differences))
    return float(pd.Series(means).std())


def report_numbers(
    table: LabelledMolecules, tested: pd.DataFrame, by_target: HeldOutMetrics
) -> dict[str, Any]:
    """How good a model is, what to expect of a prediction, and where it fails.

    Returns:
        ``model``, the name of the model; ``by_kind``, for each kind of targets its
        ``metric``, whether that ``falls`` for better models, and its value ``own``, also as
        ``text``; ``baselines``, the name, value and text of each; ``names`` of the targets
        and ``endpoints``, of those that have `FEW_TESTED` labels value and name, the best
        first. Of a single regression the quantiles of the errors, ``half`` and ``most``;
        ``covered``, the share of the measured values in the intervals of 90 %; ``ratio``,
        see `far_to_near`. NaN where it is unknown.
    """
    *_, model = by_target[""]
    by_kind = []
    for kind, metric in main_metrics(table.targets).items():
        falls = metric not in RISING
        names = [*compress(table.targets.names, table.targets.are(kind))]
        *baselines, (_, own, text) = [
            (name, mean_of_defined(values), spread_text(values, metric))
            for name, values in _means(by_target, names, metric).items()
        ]
        endpoints = [
            (value, name)
            for name in names
            if (of := by_target.get(name))
            and mean_of_defined(of[model][COUNT]) >= FEW_TESTED
            if (value := mean_of_defined(of[model][metric])) == value
        ]
        by_kind.append(
            {
                "metric": metric,
                "falls": falls,
                "own": own,
                "text": text,
                "baselines": baselines,
                "names": names,
                "endpoints": sorted(endpoints, reverse=not falls),
            }
        )
    half = most = np.nan
    if by_kind[0]["metric"] == "rmse":
        half, most = np.quantile(np.abs(tested.value - tested.label), [0.5, 0.9])
    return {
        "model": model,
        "by_kind": by_kind,
        "half": half,
        "most": most,
        "covered": mean_of_defined(by_target[""][model].get("coverage90", ())),
        "ratio": far_to_near(tested),
    }


def _means(
    by_target: HeldOutMetrics, names: Sequence[str], metric: str
) -> dict[str, list[float]]:
    """A metric of each run by model, the mean over some targets."""
    models = [by_target[name] for name in names if name in by_target] or [by_target[""]]
    return {
        model: [*map(mean_of_defined, zip(*(of[model][metric] for of in models)))]
        for model in by_target[""]
    }


def far_to_near(tested: pd.DataFrame) -> float:
    """Mean error of the half of the `predicted_labels` that is less like the training
    molecules, over the mean of the other half; NaN if all are equally like them."""
    far = tested.in_domain <= tested.in_domain.median()
    if tested.in_domain.isna().any() or far.all() or not tested.error[~far].sum():
        return np.nan
    return float(tested.error[far].mean() / tested.error[~far].mean())


def seen_line(table: LabelledMolecules, runs: Sequence[Run], seen: np.ndarray) -> str:
    """A line about test molecules that the start has ``seen`` [n], with the main metrics of
    the others; empty without any."""
    tested = np.unique(np.concatenate([run.labels.rows["test"] for run in runs]))
    counts = Counter(seen[tested].tolist())
    if counts["no"] == len(tested):
        return ""
    text = seen_text(counts, len(tested), "test molecules")
    if not counts["no"]:
        return f"{text}, and no other test molecule is left"
    others = []
    for run in runs:
        is_new = seen[rows := run.labels.rows["test"]] == "no"
        labels = run.labels.scored("test")[is_new]
        values = run.predicted.values[rows[is_new]]
        others.append(scores(table.targets, values, labels, run.labels.deviation))
    metrics = [
        f"{name} {spread_text([mean_of_defined(of[name]) for of in others], name)}"
        for name in main_metrics(table.targets).values()
    ]
    return f"{text}; without them {listed(metrics)}"


def set_lines(run: Run) -> list[str]:
    """A line for each target with sets of classes: how many sets of test molecules have one
    class, and how many hold the measured class."""
    limits = {} if run.interval is None else run.interval.limits
    table = run.labels.table
    rows = run.labels.rows["test"]
    lines = []
    for name, limit in limits.items():
        index = table.targets.names.index(name)
        target = table.targets.targets[index]
        y = run.labels.scored("test")[:, index]
        values = run.predicted.values[rows, table.targets.outputs[index]]
        is_in = class_scores(target, values) <= limit
        single = (is_in.sum(1) == 1).mean()
        held = [
            f"{is_in[y == label, label].mean():.1%} of class {word}"
            for label, word in enumerate(target.class_labels)
            if (y == label).any()
        ]
        known = np.flatnonzero(~np.isnan(y))
        share = is_in[known, y[known].astype(int)].mean()
        lines.append(
            f"{single:.1%} of the sets of {name} in test have one class, "
            f"{(~is_in.any(1)).mean():.1%} none; they hold {share:.1%}: {listed(held)}"
        )
    return lines


def limit_lines(
    split: SplitLabels, tested: pd.DataFrame, fingerprints: np.ndarray
) -> list[str]:
    """Lines about targets of numbers.

    Args:
        split: what is learned; labels of a cliff are more than its standard deviation apart
            (our choice; in MoleculeACE, where that is about 1.2 decades, more than one).
        tested: `predicted_labels` in the unit of the table.
        fingerprints: Morgan counts of all molecules [n, bits].
    """
    table = split.table
    kept = table.without_copies(np.arange(len(table)))
    conditions = pd.Series([(table.keys[row], bytes(table.extra[row])) for row in kept])
    lines = []
    for target in np.flatnonzero(table.targets.is_number).tolist():
        name = table.in_unit.targets.names[target]
        part = tested[tested.target == target]
        squares = (part.value - part.label) ** 2
        labels = pd.Series(table.in_unit.exact_labels[kept, target])
        repeats = labels.groupby(conditions).agg(["count", "var"]).query("count > 1")
        if len(repeats) >= FEWEST:
            freedom = repeats["count"] - 1
            noise = np.average(repeats["var"], weights=freedom) ** 0.5
            error = noise / (2 * freedom.sum()) ** 0.5  # of a normal deviation
            lines.append(
                f"repeats of {name} differ by {noise:.3g} ± {error:.2g} ({len(repeats):,} "
                "molecules), about the rmse of a perfect model; that of this one is "
                f"{squares.mean() ** 0.5:.3g}"
            )
        if len(part) * len(table) > MOST_PAIRS:
            continue
        learned = table.exact_labels[:, target]
        rows = part.row.to_numpy()
        near = Reference("fingerprint", fingerprints).compare(fingerprints[rows])
        is_far = np.abs(learned[rows, None] - learned) > split.deviation[target]
        on_cliff = ((near >= SIMILAR) & is_far).any(1)
        if on_cliff.sum() >= FEWEST:
            lines.append(
                f"{on_cliff.sum():,} of {len(part):,} test labels of {name} are on activity "
                f"cliffs: a very similar molecule has a label far from theirs; the rmse there "
                f"is {squares[on_cliff].mean() ** 0.5:.3g}"
            )
    return lines


def summary_text(
    table: LabelledMolecules, by_target: HeldOutMetrics, lines: Sequence[str]
) -> str:
    """`metric_tables` and lines below them as text."""
    tables = metric_tables(table, by_target)
    parts = [
        f"{title}{' (* best)' if title != SPREAD else ''}\n{text_table(rows)}"
        for title, rows in tables.items()
        if len(by_target) <= MOST_ENDPOINTS or title not in (TESTED, SPREAD)
    ]
    if len(parts) < len(tables):
        parts.append(f"{RESULTS_FILE} has the metrics of each endpoint")
    parts += ["\n".join(lines)]
    return "\n\n".join(filter(None, parts)) + "\n"


def write_results(folder: Path, results: pd.DataFrame) -> None:
    """Write `RESULTS_FILE`, with empty cells for undefined values."""
    texts = results.value.map(lambda x: "" if x != x else f"{x:.6g}")
    lines = results.assign(value=texts).itertuples(index=False)
    write_csv(folder / RESULTS_FILE, [COLUMNS, *lines])
