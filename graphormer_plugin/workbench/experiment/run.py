"""An experiment from its table to its report; a killed experiment goes on."""

import contextlib
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tqdm import tqdm

import graphormer_plugin.tasks  # noqa: F401  (registers them with fairseq)
from graphormer_plugin.data.errors import DatasetError, listed
from graphormer_plugin.data.files import atomic_write, file_lock, read_text, write_text
from graphormer_plugin.data.splits import RATIOS
from graphormer_plugin.inference.loading import usable_device
from graphormer_plugin.workbench.experiment import (
    fit,
    predictions,
    results,
    split_tables,
)
from graphormer_plugin.workbench.experiment.data_warnings import experiment_warnings
from graphormer_plugin.workbench.experiment.experiment import Experiment, unfit_for_head
from graphormer_plugin.workbench.experiment.figures import figures
from graphormer_plugin.workbench.experiment.labelled_molecules import (
    LabelledMolecules,
    SplitLabels,
    read_table,
)
from graphormer_plugin.workbench.experiment.report import (
    label_table,
    molecules_text,
    report,
    split_text,
    worst_predicted,
)
from graphormer_plugin.workbench.experiment.search import optuna_module
from graphormer_plugin.workbench.experiment.settings import (
    CONFORMAL,
    SETTINGS_FILE,
    TABLES,
    Settings,
    claim,
)
from graphormer_plugin.workbench.experiment.split_tables import MOLECULES_FILE
from graphormer_plugin.workbench.experiment.starts import (
    Start,
    find_start,
    reads_positions,
)
from graphormer_plugin.workbench.experiment.targets import (
    learned_targets,
    on_scales,
)
from graphormer_plugin.workbench.predictions.scores import text_table

REPORT_FILE = "report.html"
SUMMARY_FILE = "results.txt"
FINISHED_FILE = "data/finished.json"  # names of the files of a finished experiment
MOST_LISTED = 12  # most targets in the terminal; the report has all
# Settings that results do not depend on.
PLACES = (*TABLES, "folder", "device")


def run_experiment(
    settings: Settings,
    print_line: Callable[[str], None],
    warn: Callable[[str], None],
    progress: bool = True,
) -> None:
    """Do an experiment, or the part of it that is not done yet; ``print_line`` takes lines about
    it, and the table at its end, ``warn`` takes warnings.

    Raises:
        OSError, ValueError: One line says what is wrong.
    """
    folder = Path(settings.folder)
    usable_device(settings.device)  # or an error, before anything is computed
    if settings.trials:
        optuna_module()
    experiment = prepare(settings, warn, progress)
    settings = experiment.settings
    table = experiment.table.in_unit
    splits = experiment.in_unit.splits
    with (
        contextlib.nullcontext()  # a finished folder may be there to read only
        if is_finished(folder)
        else file_lock(
            folder / "experiment",
            lambda: print_line(f"another process works in {folder}; waiting"),
        )
    ):
        claim(folder, experiment_identity(settings, table, experiment.start))
        for text in _first_lines(experiment.in_unit):
            print_line(text)
        warnings = experiment_warnings(table, splits, settings) + experiment.warnings()
        for text in warnings:
            warn(text)
        finished = is_finished(folder)
        if finished:
            print_line(f"{folder} is finished; its results:")
        else:
            rows_of = [split.rows for split in splits]
            # What fairseq-train learns; else all scales have one table to be compared on.
            shown = experiment.table if experiment.trainings() else table
            split_tables.write_molecules(folder, shown, rows_of)
            with experiment.bar:
                runs, experiment = fit.fit_all(experiment)
            finish(experiment, runs, warnings)
        print_line("\n" + read_text(folder / SUMMARY_FILE).rstrip())
        if not finished:
            print_line(f"\n{folder / REPORT_FILE}")


def _first_lines(experiment: Experiment) -> list[str]:
    """Lines about the table, the split, the labels and the start."""
    settings = experiment.settings
    table = experiment.table
    start = experiment.start
    names = table.targets.names
    targets = f"target{'s' if len(names) > 1 else ''} {listed(names)}"
    rows = experiment.splits[0].rows
    return [
        f"{', '.join([settings.table, *settings.part_files.values()])}: "
        f"{molecules_text(table)}, SMILES in column "
        f"{table.smiles_column}, {targets} ({table.targets.kinds_text})",
        f"split {split_text(settings, rows)}",
        text_table(label_table(table, rows)[: MOST_LISTED + 1]),
        *table.scaled,
        *([] if start is None else [f"start {start.name}, sha256 {start.sha256}"]),
    ]


def prepare(
    settings: Settings, warn: Callable[[str], None], progress: bool
) -> Experiment:
    """The experiment: its molecules, splits and start, checked before anything is
    written."""
    if settings.positions != "none" and not reads_positions(settings):
        warn(
            "--positions: trees, and heads of such a start, do not read them; --model scratch "
            "trains a model that does"
        )
        settings = dataclasses.replace(settings, positions="none", length_unit="")
    table = learned_targets(read_table(settings, progress), settings)
    folds = {"folds": len(table.folds), "fold_column": True} if table.folds else {}
    settings = dataclasses.replace(settings, split=table.split, **folds)
    start = find_start(settings)
    folder = Path(settings.folder)
    if folder.exists():
        claim(folder, experiment_identity(settings, table, start), write=False)
    rows_of = split_tables.make_splits(table, settings)
    unfit = unfit_for_head([SplitLabels(table, rows) for rows in rows_of])
    table = table.without(unfit, "too few different labels in train")
    splits = split_tables.labelled_splits(table, rows_of, settings)
    table = on_scales(table, splits[0], settings)
    splits = [SplitLabels(table, split.rows) for split in splits]
    bar = tqdm(unit="step", disable=not progress, smoothing=0.1, delay=0.1)
    experiment = Experiment(settings, table, splits, start, warn, bar)
    experiment.check()
    return experiment


def is_finished(folder: Path) -> bool:
    """Whether an experiment is finished, and none of its files was removed."""
    try:
        names = json.loads(read_text(folder / FINISHED_FILE))
        return bool(names) and all((folder / name).exists() for name in names)
    except (OSError, ValueError, TypeError, RecursionError):  # missing or damaged
        return False


def experiment_identity(
    settings: Settings, table: LabelledMolecules, start: Start | None
) -> dict[str, Any]:
    """Settings and digests of files that the results depend on."""
    identity = {name: x for name, x in vars(settings).items() if name not in PLACES}
    identity["ratios"] = settings.ratios or RATIOS
    for part, digest in zip(settings.tables, table.digests, strict=True):
        identity["sha256" if part == "train" else f"{part}_sha256"] = digest
    if start is not None:
        identity["start_sha256"] = start.sha256
    return identity


def finish(
    experiment: Experiment, runs: list[predictions.Run], warnings: list[str]
) -> None:
    """Write predictions, figures, the list of models, the report, and last the names of
    all files."""
    folder = experiment.folder
    settings = experiment.settings
    coverage = settings.coverage if settings.interval == CONFORMAL else 0.0
    learned = experiment.table
    predictions.write_models(folder, learned, runs, settings.missing_labels, coverage)
    # Large labels would have the largest errors on any scale but theirs.
    scored = predictions.predicted_labels(learned, runs)
    worst = worst_predicted(scored)
    pictures = figures(experiment, scored, worst)
    experiment = experiment.in_unit
    runs = [run.in_unit(coverage) for run in runs]
    table = experiment.table
    metrics = results.all_results(table, runs)
    results.write_results(folder, metrics)
    experiment.keep_seen()
    seen = experiment.start_has_seen
    predictions.write_predictions(folder, table, runs, seen)
    found = results.held_out_metrics(metrics)
    tested = predictions.predicted_labels(table, runs).assign(error=scored.error)
    lines = results.worse_than_baselines(table, runs, found)
    lines += results.set_lines(runs[0])
    if seen is not None:
        lines += filter(None, [results.seen_line(table, runs, seen)])
    prints = experiment.features["fingerprint"]
    lines += results.limit_lines(runs[0].learned.labels, tested, prints)
    lines += [
        f"{target.name} is class 1 above a probability of {target.cut_off:.3g}, which has the "
        "highest mcc on valid; graphormer-predict --cut-off takes another"
        for target in runs[0].labels.table.targets.targets
        if target.cut_off != 0.5
    ]
    summary = results.summary_text(table, found, lines)
    write_text(folder / SUMMARY_FILE, summary)
    for name, (_, png) in pictures.items():
        with atomic_write(folder / f"{name}.png") as file:
            file.write(png)
    page = report(
        experiment, runs, metrics, tested, warnings, pictures.values(), worst, lines
    )
    write_text(folder / REPORT_FILE, page)
    # Logs, last checkpoints and trials may be removed to save space.
    written = [path.name for path in folder.glob("[!.]*.*")]
    written += {SETTINGS_FILE, MOLECULES_FILE} - {*written}
    written += map(split_tables.split_file, range(len(runs)))
    for member in experiment.model_runs():
        written += member.files
    for name in written:
        if not (folder / name).exists():
            raise DatasetError(
                f"{folder / name} was removed while this command worked; remove {folder}, "
                "and type it again"
            )
    write_text(folder / FINISHED_FILE, json.dumps(written, indent=1))
