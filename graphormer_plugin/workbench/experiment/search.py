"""Search of learning rate, dropout and depth of freezing with Optuna."""

import dataclasses
import math
from types import ModuleType

from graphormer_plugin.criterions.metrics import RISING
from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.workbench.experiment.experiment import Experiment, ModelRun
from graphormer_plugin.workbench.experiment.settings import Training
from graphormer_plugin.workbench.experiment.training import (
    LOG_FILE,
    fairseq_arguments,
    read_curves,
    train,
)

TRIALS_FOLDER = "trials"
LR_RANGE = 10.0  # factor below and above the default
LARGEST_DROPOUT = 0.4
FROZEN = (0.0, 0.25, 0.5, 0.75)


def optuna_module() -> ModuleType:
    """Optuna."""
    try:
        import optuna
    except ImportError:
        raise DatasetError(
            "--trials needs Optuna: pip install 'graphormer-plugin[hpopt]'"
        ) from None
    return optuna


def search(experiment: Experiment) -> Training:
    """Best options of a training on the first split, by its validation metric.

    Trials are kept in a database of the folder, and each has a seed of its own, so that a
    killed search goes on, also within a training, and finds the same. A trial whose
    training fails, or whose metric is never finite, is the worst. A learning rate of the
    user is not varied.
    """
    optuna = optuna_module()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    settings = experiment.settings
    rises = experiment.metric(0) in RISING
    base = experiment.training
    folder = experiment.folder / TRIALS_FOLDER
    folder.mkdir(exist_ok=True)
    worst = -math.inf if rises else math.inf

    def _options(trial) -> Training:
        varied = {"dropout": trial.suggest_float("dropout", 0, LARGEST_DROPOUT)}
        if settings.lr is None:
            low = base.lr / LR_RANGE
            high = base.lr * LR_RANGE
            varied["lr"] = trial.suggest_float("lr", low, high, log=True)
        if experiment.start is not None:
            varied["frozen"] = trial.suggest_categorical("frozen", FROZEN)
        return dataclasses.replace(base, **varied)

    def _objective(trial) -> float:
        values = _train_trial(experiment, f"trial{done + 1}", _options(trial))
        return (max if rises else min)(values, default=worst)

    # A module of Optuna's; as text, a name with ? or % would be another one.
    from sqlalchemy.engine import URL

    database = URL.create("sqlite", database=str(folder.resolve() / "trials.db"))
    study = optuna.create_study(
        storage=database.render_as_string(),
        study_name="trials",
        load_if_exists=True,
        direction="maximize" if rises else "minimize",
    )
    finished = len(study.get_trials(states=(optuna.trial.TrialState.COMPLETE,)))
    experiment.bar.total += max(0, settings.trials - finished) * base.epochs
    for done in range(finished, settings.trials):
        study.sampler = optuna.samplers.TPESampler(seed=settings.seed + done)
        study.optimize(_objective, n_trials=1)
    if study.best_value == worst:
        raise DatasetError(
            f"all {settings.trials} trials failed, see {folder / 'trial1' / LOG_FILE}; "
            f"remove {folder} to search again"
        )
    return _options(optuna.trial.FixedTrial(study.best_params))


def _train_trial(experiment: Experiment, name: str, options: Training) -> list[float]:
    """Train a trial; returns the finite validation metrics of its epochs."""
    tried = dataclasses.replace(experiment, tuned_training=options)
    line = fairseq_arguments(tried, ModelRun(0, experiment.model))
    line["save_dir"] = f"{TRIALS_FOLDER}/{name}"
    folder = experiment.folder / TRIALS_FOLDER / name
    values: list[float] = []
    try:
        with experiment.progress(f"{TRIALS_FOLDER}, {name}", options.epochs):
            train(experiment, line)
        points = read_curves(folder / LOG_FILE).get((experiment.metric(0), "valid"), {})
        values = [y for y in points.values() if math.isfinite(y)]
    except DatasetError as error:
        experiment.warn(f"{TRIALS_FOLDER}/{name} failed: {error}")
    for checkpoint in folder.glob("*.pt"):
        checkpoint.unlink()
    return values
