"""Search of learning rate, dropout and depth of freezing with Optuna."""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.experiment.scores import Metric
from graphormer_plugin.experiment.settings import Training
from graphormer_plugin.experiment.training import LOG_FILE, read_curves

TRIALS_FOLDER = "trials"
LR_RANGE = 10.0  # factor below and above the default
LARGEST_DROPOUT = 0.4
FROZEN = (0.0, 0.25, 0.5, 0.75)


def optuna_module() -> ModuleType:
    """Optuna.

    Raises:
        DatasetError: It is not installed.
    """
    try:
        import optuna
    except ImportError:
        raise DatasetError(
            "--trials needs Optuna: pip install 'graphormer-plugin[hpopt]'"
        ) from None
    return optuna


def search(
    folder: Path,
    base: Training,
    trials: int,
    metric: Metric,
    train: Callable[[Training, str], None],
    begin: Callable[[int], None],
    *,
    seed: int,
    keep_lr: bool,
    freezes: bool,
) -> Training:
    """Best options of a training, by its validation metric.

    Trials are kept in a database of the folder, and each has a seed of its own, so that a
    killed search goes on, also within a training, and finds the same. A trial whose
    training fails, or whose metric is never finite, is the worst.

    Args:
        folder: Of the experiment.
        base: Options to vary.
        trials: How many to make in all.
        metric: Of the log, as it selects the checkpoint.
        train: Trains with some options into a folder of that name.
        begin: Called with the number of trials that are left.
        seed: Of the search.
        keep_lr: Do not vary the learning rate.
        freezes: Vary the share of layers that are frozen.

    Raises:
        DatasetError: All trials failed.
    """
    optuna = optuna_module()
    worst = -math.inf if metric.rises else math.inf
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    (folder / TRIALS_FOLDER).mkdir(exist_ok=True)

    def options(trial) -> Training:
        found = {"dropout": trial.suggest_float("dropout", 0, LARGEST_DROPOUT)}
        if not keep_lr:
            low, high = base.lr / LR_RANGE, base.lr * LR_RANGE
            found["lr"] = trial.suggest_float("lr", low, high, log=True)
        if freezes:
            found["frozen"] = trial.suggest_categorical("frozen", FROZEN)
        return dataclasses.replace(base, **found)

    def objective(trial) -> float:
        name = f"{TRIALS_FOLDER}/trial{done + 1}"
        points: Sequence[tuple[float, float]] = []
        with contextlib.suppress(DatasetError):  # its log says why it failed
            train(options(trial), name)
            curves = read_curves(folder / name / LOG_FILE)
            points = curves.get(metric.name, {}).get("valid", [])
        for checkpoint in (folder / name).glob("*.pt"):
            checkpoint.unlink()
        values = [value for _, value in points if math.isfinite(value)]
        return (max if metric.rises else min)(values, default=worst)

    study = optuna.create_study(
        storage=f"sqlite:///{folder.resolve() / TRIALS_FOLDER}/trials.db",
        study_name="trials",
        load_if_exists=True,
        direction="maximize" if metric.rises else "minimize",
    )
    complete = (optuna.trial.TrialState.COMPLETE,)
    finished = len(study.get_trials(states=complete))
    begin(max(0, trials - finished))
    for done in range(finished, trials):
        study.sampler = optuna.samplers.TPESampler(seed=seed + done)
        study.optimize(objective, n_trials=1)
    if study.best_value == worst:
        place = folder / TRIALS_FOLDER
        raise DatasetError(
            f"all {trials} trials failed, see {place / 'trial1' / LOG_FILE}; remove "
            f"{place} to search again"
        )
    return options(optuna.trial.FixedTrial(study.best_params))
