"""An experiment from its table to its report; a killed experiment goes on."""

import contextlib
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

import graphormer_plugin.tasks  # noqa: F401  (registers them with fairseq)
from graphormer_plugin.data.errors import DatasetError, listed
from graphormer_plugin.data.files import atomic_write, file_lock, read_text, write_text
from graphormer_plugin.data.splits import SPLITS
from graphormer_plugin.experiment import results, split_tables, steps
from graphormer_plugin.experiment.figures import figures
from graphormer_plugin.experiment.label_statistics import label_table
from graphormer_plugin.experiment.labelled_table import Table, read_table
from graphormer_plugin.experiment.mistakes import warnings_of
from graphormer_plugin.experiment.plan import (
    TITLES,
    Experiment,
    fitted_rows,
    unfit_for_head,
)
from graphormer_plugin.experiment.references import mean_labels
from graphormer_plugin.experiment.report import molecules_text, report, split_text
from graphormer_plugin.experiment.results import Run
from graphormer_plugin.experiment.scores import text_table
from graphormer_plugin.experiment.search import optuna_module, search
from graphormer_plugin.experiment.settings import (
    CONFORMAL,
    HEAD,
    TABLES,
    Settings,
    claim,
    refuse_links,
)
from graphormer_plugin.experiment.starts import find_start
from graphormer_plugin.experiment.training import COMMANDS_FILE, Start
from graphormer_plugin.experiment.worst import worst_predicted
from graphormer_plugin.heads.prediction import Prediction
from graphormer_plugin.inference.loading import usable_device
from graphormer_plugin.inference.model_folder import MODELS_FILE

REPORT_FILE = "report.html"
SUMMARY_FILE = "results.txt"
FINISHED_FILE = "data/finished.json"  # names of the files of a finished experiment
WRITTEN = (  # in each
    split_tables.MOLECULES_FILE,
    COMMANDS_FILE,
    results.RESULTS_FILE,
    *(f"predictions_{split}.csv" for split in SPLITS),
    MODELS_FILE,
    SUMMARY_FILE,
    REPORT_FILE,
)
MOST_LISTED = 12  # targets in the terminal; the report has all
FOREST_STEPS = 10  # of the progress bar; an epoch is one
# Settings that results do not depend on.
PLACES = (*TABLES, "folder", "device")


def run_experiment(
    settings: Settings,
    say: Callable[[str], None],
    warn: Callable[[str], None],
    progress: bool = True,
) -> None:
    """Do an experiment, or the part of it that is not done yet; ``say`` takes lines about
    it, and the table at its end, ``warn`` takes warnings.

    Raises:
        OSError, ValueError: One line says what is wrong.
    """
    folder = Path(settings.folder)
    usable_device(settings.device)  # or an error, before anything is computed
    if settings.trials:
        optuna_module()
    table = read_table(settings, progress)
    settings = dataclasses.replace(settings, split=table.split)
    start = find_start(settings)
    identity = identity_of(settings, table, start)
    if folder.exists():
        claim(folder, identity, write=False)
    kept = split_tables.recorded_splits(folder, table, settings)
    splits = kept or split_tables.make_splits(table, settings)
    unfit = {name for split in splits for name in unfit_for_head(table, split)}
    table = table.without(unfit, "too few different labels in train")
    splits = kept or split_tables.labelled_splits(table, splits, settings)
    experiment = Experiment(settings, table, splits, start, warn)
    experiment.check()
    with (
        contextlib.nullcontext()  # also of somebody else, who may read it only
        if is_finished(folder)
        else file_lock(
            folder / "experiment",
            lambda: say(f"another process works in {folder}; waiting"),
        )
    ):
        claim(folder, identity)  # another process may have been faster
        names = table.targets.names
        targets = f"target{'s' if len(names) > 1 else ''} {listed(names)}"
        say(
            f"{', '.join([settings.table, *settings.part_files.values()])}: "
            f"{molecules_text(table)}, SMILES in column "
            f"{table.smiles_column}, {targets} ({table.targets.kind})"
        )
        say(f"split {split_text(settings, splits)}")
        say(text_table(label_table(table, splits[0])[: MOST_LISTED + 1]))
        if start is not None:
            say(f"start {start.name}, sha256 {start.sha256}")
        warnings = warnings_of(table, splits, settings)
        warnings += experiment.warnings()
        for text in warnings:
            warn(text)
        finished = is_finished(folder)
        if finished:
            say(f"{folder} is finished; its results:")
        else:
            refuse_links(folder)
            split_tables.write_molecules(folder, table, splits)
            bar = tqdm(unit="step", disable=not progress, smoothing=0.1, delay=0.1)
            with bar as experiment.bar:
                runs = do_runs(experiment)
            finish(experiment, runs, warnings)
            if not is_finished(folder):
                raise DatasetError(
                    f"{folder} was removed, or files in it, while they were written; "
                    "type the same command again"
                )
        say("\n" + read_text(folder / SUMMARY_FILE).rstrip())
        if not finished:
            say(f"\n{folder / REPORT_FILE}")


def is_finished(folder: Path) -> bool:
    """Whether an experiment is finished, and none of its files was removed."""
    try:
        names = json.loads(read_text(folder / FINISHED_FILE))
        return bool(names) and all((folder / name).exists() for name in names)
    except (OSError, ValueError, TypeError, RecursionError):  # missing or damaged
        return False


def identity_of(
    settings: Settings, table: Table, start: Start | None
) -> dict[str, Any]:
    """Settings and digests of files that the results depend on."""
    identity = {name: x for name, x in vars(settings).items() if name not in PLACES}
    identity["ratios"] = settings.shares
    for part, digest in zip(settings.tables, table.digests, strict=True):
        identity["sha256" if part == "train" else f"{part}_sha256"] = digest
    if start is not None:
        identity["start_sha256"] = start.sha256
    return identity


def do_runs(experiment: Experiment) -> list[Run]:
    """Train and predict, but for the models that are there."""
    settings, members = experiment.settings, experiment.members()
    experiment.bar.total = sum(experiment.cost(member.model) for member in members)
    experiment.bar.total += FOREST_STEPS * len(experiment.splits)
    if settings.trials:
        experiment.searched = search(experiment)
    steps.write_commands(experiment)
    runs, table = [], experiment.table
    for number, split in enumerate(experiment.splits):
        run, name = Run(split), settings.run_name(number + 1)
        of_mean = mean_labels(
            table.labels[fitted_rows(split)], table.targets.num_classes
        )
        shape = (len(table.labels), len(of_mean))
        run.predictions[results.MEAN] = Prediction(np.broadcast_to(of_mean, shape))
        with experiment.progress(f"{name}, random forest", FOREST_STEPS):
            run.predictions[results.FOREST] = steps.forest(experiment, number)
        predictions = []
        for member in (member for member in members if member.run == number):
            title = f"{name}, {TITLES[member.model]}"
            if member.model != HEAD:
                title += f" {member.number + 1}"
            with experiment.progress(title, experiment.cost(member.model)):
                predictions.append(steps.model_predictions(experiment, member))
        steps.take_members(experiment, run, number, predictions)
        # Not by other runs: their validation molecules may be test molecules of this run.
        run.scale = results.calibration(table, [run])
        if settings.interval == CONFORMAL:
            run.interval = results.conformal_interval(table, run, settings.coverage)
        runs.append(run)
    return runs


def finish(experiment: Experiment, runs: list[Run], warnings: list[str]) -> None:
    """Write predictions, figures, the list of models, the report, and last the names of
    all files."""
    folder, table = experiment.folder, experiment.table
    lines = list(results.all_results(table, runs))
    tested = results.metrics_of_test(lines, runs)
    results.write_results(folder, lines)
    results.write_predictions(folder, table, runs)
    results.write_models(folder, table, runs, experiment.settings.missing_labels)
    write_text(folder / SUMMARY_FILE, results.summary_text(table, tested))
    worst = worst_predicted(table, runs)
    pictures = figures(experiment, runs, worst)
    written = [*WRITTEN, *(f"{name}.png" for name in pictures)]
    for name, (_, png) in pictures.items():
        with atomic_write(folder / f"{name}.png") as file:
            file.write(png)
    page = report(experiment, runs, tested, warnings, pictures.values(), worst)
    write_text(folder / REPORT_FILE, page)
    written += map(split_tables.split_file, range(len(runs)))
    if table.failures:
        written.append(split_tables.INVALID_FILE)
    for member in experiment.members():
        if steps.is_made(experiment, member):  # an unfit head is not
            written += member.files
    write_text(folder / FINISHED_FILE, json.dumps(written, indent=1))
