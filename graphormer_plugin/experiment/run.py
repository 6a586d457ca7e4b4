"""Runs an experiment, step by step; a killed one goes on where it was."""

import contextlib
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from graphormer_plugin.data.checks import listed
from graphormer_plugin.data.files import (
    atomic_write,
    file_lock,
    file_sha256,
    home_path,
)
from graphormer_plugin.data.table_formats import open_table
from graphormer_plugin.experiment import figures
from graphormer_plugin.experiment.plan import TITLES, Experiment, fitted_rows
from graphormer_plugin.experiment.references import mean_labels
from graphormer_plugin.experiment.report import (
    molecules_text,
    png_of,
    report,
    split_text,
)
from graphormer_plugin.experiment.results import (
    FOREST,
    MEAN,
    RESULTS_FILE,
    Run,
    calibration,
    result_table,
    write_models,
    write_predictions,
    write_results,
)
from graphormer_plugin.experiment.scores import MAIN
from graphormer_plugin.experiment.search import optuna_module
from graphormer_plugin.experiment.settings import (
    HEAD,
    Settings,
    claim,
)
from graphormer_plugin.experiment.splits import (
    INVALID_FILE,
    MOLECULES_FILE,
    SPLITS,
    make_splits,
    warnings_of,
    write_molecules,
)
from graphormer_plugin.experiment.starts import find_start
from graphormer_plugin.experiment.steps import (
    FOREST_STEPS,
    choose,
    forest,
    forest_file,
    is_made,
    model_files,
    model_predictions,
    search_options,
    write_commands,
)
from graphormer_plugin.experiment.table import Table, read_table
from graphormer_plugin.experiment.training import (
    COMMANDS_FILE,
    LOG_FILE,
    Start,
    read_curves,
)
from graphormer_plugin.inference.loading import usable_device
from graphormer_plugin.inference.model_folder import MODELS_FILE
from graphormer_plugin.inference.values import Prediction

REPORT_FILE = "report.html"
SUMMARY_FILE = "results.txt"
FINISHED_FILE = "data/finished.json"  # names what a finished experiment has written
WRITTEN = (  # in each
    MOLECULES_FILE,
    COMMANDS_FILE,
    RESULTS_FILE,
    *(f"predictions_{split}.csv" for split in SPLITS),
    MODELS_FILE,
    SUMMARY_FILE,
    REPORT_FILE,
)
PLACES = ("table", "folder", "device")  # settings that results do not depend on


def run_experiment(
    settings: Settings,
    say: Callable[[str], None],
    warn: Callable[[str], None],
    progress: bool = True,
) -> None:
    """Do an experiment, or the part of it that is not done yet.

    Args:
        settings: What to do.
        say: Takes lines about the experiment, and the table at its end.
        warn: Takes warnings.
        progress: Show a progress bar.

    Raises:
        OSError, ValueError: One line says what is wrong.
    """
    folder = Path(settings.folder)
    usable_device(settings.device)  # or an error, before anything is computed
    if settings.trials:
        optuna_module()
    table = read_table(settings, progress)
    settings = dataclasses.replace(settings, split=table.split)
    splits = make_splits(table, settings)
    start = find_start(settings)
    experiment = Experiment(settings, table, splits, [], start, warn)
    experiment.check_heads()
    experiment.check_names()
    identity = identity_of(settings, start)
    claim(folder, identity, write=False)  # or an error, before there is a lock file
    with (
        contextlib.nullcontext()  # also of somebody else, who may read it only
        if is_finished(folder)
        else file_lock(
            folder / "experiment",
            lambda: say(f"another process works in {folder}; waiting"),
        )
    ):
        claim(folder, identity)  # another process may have been faster
        warnings = warnings_of(table, splits, settings) + experiment.warnings()
        names = table.targets.names
        targets = f"target{'s' if len(names) > 1 else ''} {listed(names)}"
        say(
            f"{settings.table}: {molecules_text(table)}, SMILES in column "
            f"{table.smiles_column}, {targets} ({table.targets.kind})"
        )
        say(f"split {split_text(settings, [Run(split) for split in splits])}")
        for text in warnings:
            warn(text)
        if is_finished(folder):
            say(f"{folder} is finished; its results:\n")
            say((folder / SUMMARY_FILE).read_text(encoding="utf-8").rstrip())
            return
        experiment.sources = write_molecules(folder, table, splits)
        bar = tqdm(unit="step", disable=not progress, smoothing=0.1, delay=0.1)
        with bar as experiment.bar:
            runs = do_runs(experiment)
        finish(experiment, runs, warnings)
        say("\n" + (folder / SUMMARY_FILE).read_text(encoding="utf-8").rstrip())
        say(f"\n{folder / REPORT_FILE}")


def is_finished(folder: Path) -> bool:
    """Whether an experiment is finished, and nothing that it wrote was removed."""
    path = folder / FINISHED_FILE
    if not path.exists():
        return False
    try:
        names = [str(name) for name in json.loads(path.read_bytes())]
    except (ValueError, TypeError, RecursionError):  # damaged
        return False
    return bool(names) and all((folder / name).exists() for name in names)


def identity_of(settings: Settings, start: Start | None) -> dict[str, Any]:
    """What the results depend on."""
    found = {
        name: value for name, value in vars(settings).items() if name not in PLACES
    }
    found["ratios"] = settings.shares
    path = home_path(settings.table)
    if path.is_dir():
        table = open_table(path)
        found["sha256"] = table.digest(0, table.count())
    else:
        found["sha256"] = file_sha256(path)
    if start is not None and start.path.exists():
        found["start_sha256"] = file_sha256(start.path)
    return found


def do_runs(experiment: Experiment) -> list[Run]:
    """Train and predict what is missing."""
    folder = experiment.folder
    forests = [forest_file(folder, run) for run in range(len(experiment.splits))]
    experiment.bar.total = FOREST_STEPS * sum(not path.exists() for path in forests)
    for which in experiment.everything():
        if not is_made(folder / experiment.save_dir(*which), which[1]):
            experiment.bar.total += experiment.cost(which[1])
    if experiment.settings.trials:
        experiment.found = search_options(experiment)
    write_commands(experiment)
    runs = []
    for number, split in enumerate(experiment.splits):
        run = Run(split)
        table = experiment.table
        labels = table.labels[fitted_rows(split)]
        of_mean = mean_labels(labels, table.targets.num_classes)
        shape = (len(table.labels), len(of_mean))
        run.predictions[MEAN] = Prediction(np.broadcast_to(of_mean, shape))
        run.predictions[FOREST] = forest(experiment, number)
        members = {}
        for model in experiment.models:
            try:
                members[model] = [
                    model_predictions(experiment, number, model, member)
                    for member in range(experiment.members(model))
                ]
            except (ValueError, MemoryError) as error:
                if model != HEAD or len(experiment.models) == 1:
                    raise
                reason = str(error) or "not enough memory"
                name = experiment.settings.run_name(number + 1)
                experiment.warn(f"{name} has no head: {reason}")
        choose(experiment, run, number, members)
        runs.append(run)
    return runs


def calibrate(table: Table, runs: list[Run]) -> None:
    """Calibrate the spread of each run by its own validation molecules: among those of
    others are its test molecules."""
    for run in runs:
        run.scale = calibration(table, [run])


def finish(experiment: Experiment, runs: list[Run], warnings: list[str]) -> None:
    """Write predictions, figures, the list of models, the report, and last which files
    there are."""
    folder, table = experiment.folder, experiment.table
    write_results(folder, table, runs)
    calibrate(table, runs)
    write_predictions(folder, table, runs)
    write_models(folder, table, runs)
    with atomic_write(folder / SUMMARY_FILE, "w", encoding="utf-8") as file:
        file.write(result_table(table, runs) + "\n")
    curves = {
        experiment.save_dir(*which): read_curves(
            folder / experiment.save_dir(*which) / LOG_FILE
        )
        for which in experiment.trainings()
    }
    test = figures.TEST_FIGURES[table.targets.kind]
    drawn = {
        test: figures.test_figure(table, runs),
        "calibration": figures.spread_figure(table, runs),
        "curves": figures.curves_figure(curves, MAIN[table.targets.kind].name),
    }
    pictures, written = {}, [*WRITTEN]
    titles = {"roc": "ROC curves", "parity": "Parity", "curves": "Learning curves"}
    titles |= {"calibration": "Calibration", "confusion": "Confusion of classes"}
    for name, figure in drawn.items():
        if figure is not None:
            pictures[titles[name]] = png_of(figure)
            written.append(f"{name}.png")
            with atomic_write(folder / written[-1]) as file:
                file.write(pictures[titles[name]])
    trainings = {
        TITLES[model]: experiment.options(model)
        for model in experiment.models
        if model != HEAD
    }
    page = report(experiment.settings, table, runs, warnings, pictures, trainings)
    with atomic_write(folder / REPORT_FILE, "w", encoding="utf-8") as file:
        file.write(page)
    if table.failures:
        written.append(INVALID_FILE)
    for which in experiment.everything():
        save_dir = experiment.save_dir(*which)
        if is_made(folder / save_dir, which[1]):  # an unfit head is not
            written += [f"{save_dir}/{name}" for name in model_files(which[1])]
    (folder / FINISHED_FILE).parent.mkdir(exist_ok=True)
    with atomic_write(folder / FINISHED_FILE, "w", encoding="utf-8") as file:
        json.dump(written, file, indent=1)
