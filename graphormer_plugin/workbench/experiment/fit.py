"""Fit the models of an experiment. Each step leaves a file; a complete file is done."""

import functools
import warnings
from collections.abc import Sequence
from dataclasses import replace
from itertools import compress
from typing import Any

import numpy as np

from graphormer_plugin import hub
from graphormer_plugin.criterions.metrics import RISING
from graphormer_plugin.data.files import write_text
from graphormer_plugin.data.splits import Split
from graphormer_plugin.data.targets import mean_of_defined
from graphormer_plugin.estimators.array_file import weights_digest
from graphormer_plugin.estimators.gp import HEAD_FILE, GPEstimator
from graphormer_plugin.estimators.prediction import Prediction, combined, per_target
from graphormer_plugin.estimators.trees import TreesEstimator
from graphormer_plugin.inference.checkpoint import write_file
from graphormer_plugin.inference.molecules import Molecules
from graphormer_plugin.workbench.experiment.experiment import (
    BEST,
    LAST,
    TITLES,
    Experiment,
    ModelRun,
    saved_arrays,
)
from graphormer_plugin.workbench.experiment.labelled_molecules import (
    FEW_TESTED,
    LabelledMolecules,
    SplitLabels,
)
from graphormer_plugin.workbench.experiment.predictions import (
    Run,
    calibrated,
    write_models,
)
from graphormer_plugin.workbench.experiment.search import search
from graphormer_plugin.workbench.experiment.settings import (
    AUTO,
    CONFORMAL,
    FITTED,
    HEAD,
    TREES,
    Settings,
)
from graphormer_plugin.workbench.experiment.split_tables import write_molecules
from graphormer_plugin.workbench.experiment.starts import find_start, start_state
from graphormer_plugin.workbench.experiment.targets import check_log_targets, on_scales
from graphormer_plugin.workbench.experiment.training import (
    COMMANDS_FILE,
    fairseq_arguments,
    shell_lines,
    train,
)
from graphormer_plugin.workbench.fitting.fit_gp import (
    BLOCKS,
    fit_on_features,
    limit_warnings,
    save_training_domain,
    training_sample,
)
from graphormer_plugin.workbench.fitting.fit_trees import fit_trees
from graphormer_plugin.workbench.predictions.scores import main_metrics, scores

PREDICTIONS = "predictions.npz"
DRAWS = 25  # bootstrap samples of the validation molecules
LEAST_ERRORS = 2.0  # standard errors that the trees must be better by (our choice)


def fit_all(experiment: Experiment) -> tuple[list[Run], Experiment]:
    """Write the lines of fairseq-train that run, and fit and predict every model that is not
    in the folder yet; the experiment has the options that a search has found."""
    splits = experiment.splits
    folder = experiment.folder
    kinds = dict.fromkeys((experiment.model, TREES))
    experiment.bar.total = sum(
        experiment.cost(kind) * len(experiment.model_runs(kind)) for kind in kinds
    )
    if experiment.settings.trials:
        experiment = replace(experiment, tuned_training=search(experiment))
    comments = []
    if experiment.model in FITTED:
        comments = ["Heads (head.npz) are fitted by graphormer-train itself."]
    lines = [fairseq_arguments(experiment, member) for member in experiment.trainings()]
    write_text(folder / COMMANDS_FILE, shell_lines(lines, folder, comments))
    runs = [fit_run(experiment, index) for index in range(len(splits))]
    return choose(runs, experiment)


def fit_run(experiment: Experiment, index: int) -> Run:
    """Fit and predict the models of a split that are not in the folder yet, and the trees
    beside other models."""
    table = experiment.table
    rows = table.without_copies(experiment.splits[index].fitted)
    measured = table.in_unit.labels[rows]
    with warnings.catch_warnings(action="ignore"):  # of a target without labels
        mean = np.nanmean(table.targets.output_labels(measured), 0)
    run = fit_models(experiment, index, experiment.model)
    comparison = None
    if experiment.model != TREES:
        comparison = fit_models(experiment, index, TREES)
    return replace(run, mean=mean, comparison=comparison)


def choose(runs: list[Run], experiment: Experiment) -> tuple[list[Run], Experiment]:
    """The trees in place of the heads, if the experiment leaves the choice to the validation
    molecules, and these choose them."""
    settings = experiment.settings
    is_open = settings.model == AUTO and experiment.model == HEAD
    # Intervals hold what they promise if valid has chosen nothing.
    if not is_open or settings.interval == CONFORMAL:
        return runs, experiment
    if not trees_are_better(runs, settings.seed):
        return runs, experiment
    swapped = [
        replace(run.comparison, mean=run.mean, comparison=replace(run, comparison=None))
        for run in runs
    ]
    return swapped, replace(
        experiment, selected_model=TREES, parsed=experiment.molecules
    )


def trees_are_better(runs: Sequence[Run], seed: int) -> bool:
    """Whether the model beside is better than the model of each run in the main metric of the
    validation molecules, by more than noise: `LEAST_ERRORS` standard errors, which come
    from bootstrap samples of the molecules, each with all its rows; never by fewer than
    `FEW_TESTED` molecules."""
    table = runs[0].labels.table
    gain = _gain(runs, np.ones(len(table), int))
    valid = np.concatenate([run.labels.rows["valid"] for run in runs])
    few = len(np.unique(table.molecules[valid])) < FEW_TESTED
    if few or not gain > 0:  # also NaN, without validation labels
        return False
    generator = np.random.default_rng(seed)
    draws = [_gain(runs, table.resampled(generator)) for _ in range(DRAWS)]
    return bool(gain > LEAST_ERRORS * np.nanstd(draws))


def _gain(runs: Sequence[Run], times: np.ndarray) -> float:
    """How much the model beside is better on validation rows, each so many ``times``
    [rows]; mean over the kinds of targets, and the runs, that have a value."""
    gains = []
    for run in runs:
        valid = run.labels.rows["valid"]
        rows = np.repeat(np.arange(len(valid)), times[valid])
        targets = run.labels.table.targets
        labels = run.labels.scored("valid")[rows]
        values = [
            scores(
                targets, one.predicted.values[valid[rows]], labels, run.labels.deviation
            )
            for one in (run, run.comparison)
        ]
        of_kinds = []
        for kind, metric in main_metrics(targets).items():
            head, trees = (
                mean_of_defined([*compress(of[metric], targets.are(kind))])
                for of in values
            )
            of_kinds.append(trees - head if metric in RISING else head - trees)
        gains.append(mean_of_defined(of_kinds))
    return mean_of_defined(gains)


def fit_models(experiment: Experiment, index: int, model: str) -> Run:
    """Fit and predict the models of a kind of a split, whose mean counts."""
    members = [member for member in experiment.model_runs(model) if member.run == index]
    predictions = []
    for member in members:
        title = f"{experiment.settings.run_name(index + 1)}, {TITLES[model]}"
        if model not in FITTED:
            title += f" {member.ensemble_index + 1}"
        with experiment.progress(title, experiment.cost(model)):
            predictions.append(model_predictions(experiment, member))
    predicted = combined(predictions)
    run = Run(
        experiment.splits[index],
        predicted,
        [f"{member.save_dir}/{BEST}" for member in members],
        raw_std=None if model == HEAD else predicted.std,
        model=model,
    )
    return calibrated(experiment.table, run)


def fit_folder(
    settings: Settings,
    molecules: LabelledMolecules,
    split: Split,
    parsed: Molecules,
) -> None:
    """Fit the models of labelled molecules and a split, and write the folder of the settings,
    which predicts."""
    start = find_start(settings)
    check_log_targets(molecules, settings)
    molecules = on_scales(molecules, SplitLabels(molecules, split), settings)
    experiment = Experiment(
        settings, molecules, [SplitLabels(molecules, split)], start, parsed=parsed
    )
    experiment.check()
    write_molecules(experiment.folder, molecules, [split])
    if settings.model == AUTO:
        runs, experiment = choose([fit_run(experiment, 0)], experiment)
    else:
        runs = [fit_models(experiment, 0, experiment.model)]
    write_models(experiment.folder, molecules, runs)
    experiment.keep_seen()


def model_predictions(experiment: Experiment, member: ModelRun) -> Prediction:
    """Predictions of a model [n, C]. A model with a missing file is made first; its training
    goes on from its checkpoint if there is one."""
    save_dir = experiment.folder / member.save_dir
    path = save_dir / PREDICTIONS
    if not all((experiment.folder / name).exists() for name in member.files):
        path.unlink(missing_ok=True)
    # A training that goes on may not write its best checkpoint again.
    if not (save_dir / BEST).exists():
        (save_dir / LAST).unlink(missing_ok=True)
    predict = fitted_predictions if member.model in FITTED else trained_predictions
    table = experiment.table
    arrays = saved_arrays(
        path,
        lambda: predict(experiment, member)._asdict(),
        {"values": (len(table), table.targets.num_outputs)},
    )
    return Prediction(*map(arrays.get, Prediction._fields))


def trained_predictions(experiment: Experiment, member: ModelRun) -> Prediction:
    """Train a model, which ends at once if it is trained, and predict all molecules."""
    table = experiment.table
    best = experiment.folder / member.save_dir / BEST
    train(experiment, fairseq_arguments(experiment, member))
    split = experiment.splits[member.run]
    learned = ~np.isnan(split.learned)
    rows = learned.any(1)
    fitted = split.rows["train"][rows]
    sources = [table.sources[row] for row in fitted]
    extra = table.extra[fitted]
    save_training_domain(best, sources, experiment.device, learned[rows], extra)
    predictor = hub.load(best).to(experiment.device)
    return predictor.estimate(experiment.molecules, extra=table.extra)


def fitted_predictions(experiment: Experiment, member: ModelRun) -> Prediction:
    """Fit a head on the vectors of the start, or trees, and predict all molecules.

    The kept model is fitted to the training and validation molecules, or to the former alone
    if the latter are for conformal intervals. A model of the training molecules predicts the
    validation molecules.
    """
    table = experiment.table
    settings = experiment.settings
    split = experiment.splits[member.run]
    is_head = member.model == HEAD
    save_dir = experiment.folder / member.save_dir
    seed = settings.seed + member.run
    state = start_state(experiment.start if is_head else None)
    state["task_state"]["featuriser"] = settings.featuriser.name
    state["cfg"]["task"]["max_atoms"] = settings.max_atoms
    save_dir.mkdir(parents=True, exist_ok=True)
    write_file(state, save_dir / BEST)
    raw = dict(experiment.features)
    if is_head:
        raw |= saved_arrays(  # which all replicates share
            experiment.folder / "data/vectors.npz",
            lambda: {
                "vectors": hub.load(save_dir / BEST, head=None)
                .to(experiment.device)
                .embed(experiment.molecules)
            },
            {"vectors": (len(table), None)},
        )

    fit = functools.partial(_fit_rows, experiment, is_head, seed, state, raw)
    train_rows = split.rows["train"]
    valid = split.rows["valid"]
    holds_out_valid = settings.interval == CONFORMAL
    head = fit(train_rows if holds_out_valid else split.fitted)
    predicted = head.predict_features(raw)
    if len(valid) and not holds_out_valid:
        features = {name: values[valid] for name, values in raw.items()}
        unseen = fit(train_rows).predict_features(features)
        predicted = _with_rows(predicted, valid, unseen)
    for line in limit_warnings(head) if is_head and member.run == 0 else ():
        experiment.warn(line)
    head.save(save_dir / HEAD_FILE)
    return predicted


def _fit_rows(
    experiment: Experiment,
    is_head: bool,
    seed: int,
    state: dict[str, Any],
    raw: dict[str, np.ndarray],
    rows: np.ndarray,
) -> GPEstimator | TreesEstimator:
    """Fit a head, or trees, to some molecules by their features; ``state`` is the start's."""
    table = experiment.table
    settings = experiment.settings
    rows = table.without_copies(rows)
    weights = experiment.label_weights(rows)
    if is_head:
        rows = rows[training_sample(table.labels[rows], seed, weights[rows])]
    data = (
        {name: values[rows] for name, values in raw.items()},
        experiment.description[rows],
        table.labels[rows],
        table.targets,
        weights_digest(state["model"]),
    )
    options = {
        "seed": seed,
        "weights": weights[rows],
        "extra_columns": settings.extra_columns,
    }
    if not is_head:
        return fit_trees(*data, trees=settings.trees, **options)
    return fit_on_features(
        *data,
        layers=0 if state["task_state"].get("vectors") else 1,
        bounds=table.bounds[rows],
        blocks=[*BLOCKS, "extra"] if settings.extra_columns else BLOCKS,
        **options,
    )


def _with_rows(
    predicted: Prediction, rows: np.ndarray, others: Prediction
) -> Prediction:
    """Predictions of all molecules, with those of some rows by another model."""
    if predicted.in_domain.ndim != others.in_domain.ndim:  # by the labels fitted to
        predicted, others = (
            one._replace(in_domain=per_target(one.in_domain, one.values).copy())
            for one in (predicted, others)
        )
    for of_all, of_rows in zip(predicted, others):
        of_all[rows] = of_rows
    return predicted
