"""Runs an experiment, step by step; a killed one goes on where it was."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from graphormer_plugin import hub
from graphormer_plugin.data.files import atomic_write, file_lock, file_sha256
from graphormer_plugin.experiment import figures
from graphormer_plugin.experiment.references import (
    features,
    forest_predictions,
    mean_labels,
)
from graphormer_plugin.experiment.report import png_of, report, split_text
from graphormer_plugin.experiment.results import (
    FOREST,
    MEAN,
    Run,
    result_table,
    save_arrays,
    write_models,
    write_predictions,
    write_results,
)
from graphormer_plugin.experiment.scores import MAIN, main_score
from graphormer_plugin.experiment.settings import (
    AUTO,
    FINETUNE,
    SCRATCH,
    Settings,
    claim,
)
from graphormer_plugin.experiment.starts import find_start
from graphormer_plugin.experiment.table import (
    Split,
    Table,
    make_splits,
    read_table,
    warnings_of,
    write_molecules,
)
from graphormer_plugin.experiment.training import (
    BEST,
    COMMANDS_FILE,
    LOG_FILE,
    Start,
    read_curves,
    run_training,
    selecting_metric,
    shell_lines,
    training_line,
)

logger = logging.getLogger(__name__)

REPORT_FILE = "report.html"
SUMMARY_FILE = "results.txt"
PREDICTIONS = "predictions.npz"
PLACES = ("table", "folder", "device")  # settings that results do not depend on
TITLES = {FINETUNE: "fine-tuned", SCRATCH: "from scratch"}


@dataclass
class Experiment:
    """What the steps of an experiment share.

    Attributes:
        settings: What the user asked for.
        table: Molecules.
        splits: One per run.
        split_columns: Their columns in the file of molecules.
        start: Pre-trained weights, or None.
        bar: Progress in epochs.
    """

    settings: Settings
    table: Table
    splits: list[Split]
    split_columns: list[str]
    start: Start | None
    bar: Any = field(default=None)

    @property
    def folder(self) -> Path:
        """Where everything is written."""
        return Path(self.settings.folder)

    @property
    def models(self) -> list[str]:
        """Kinds of models to train in each run."""
        if self.settings.model == AUTO:
            return [FINETUNE if self.start else SCRATCH]
        return [self.settings.model]

    def save_dir(self, run: int, model: str, member: int) -> str:
        """Folder of a model, in the folder of the experiment."""
        return f"replicate{run + 1}/{model}{member + 1}"

    def line(self, run: int, model: str, member: int) -> list[str]:
        """Arguments of fairseq-train for a model."""
        valid = self.table.labels[self.splits[run]["valid"]]
        return training_line(
            self.settings,
            self.settings.training(model),
            self.table.targets,
            start=self.start if model == FINETUNE else None,
            split_column=self.split_columns[run],
            train_rows=len(self.splits[run]["train"]),
            metric=selecting_metric(self.table.targets, valid),
            seed=self.settings.seed + 100 * run + member,
            save_dir=self.save_dir(run, model, member),
        )

    def trainings(self) -> list[tuple[int, str, int]]:
        """Run, model and member of all trainings, in their order."""
        return [
            (run, model, member)
            for run in range(len(self.splits))
            for model in self.models
            for member in range(self.settings.ensemble)
        ]


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
    with file_lock(folder, lambda: say(f"another process works in {folder}; waiting")):
        table = read_table(settings, progress)
        splits = make_splits(table, settings)
        start = find_start(settings)
        claim(folder, identity_of(settings, start))
        warnings = warnings_of(table, splits, settings)
        targets = ", ".join(table.targets.names[:3])
        if len(table.targets.names) > 3:
            targets += f" and {len(table.targets.names) - 3} more"
        say(
            f"{settings.table}: {len(table):,} molecules, SMILES in column "
            f"{table.smiles_column}, target {targets} ({table.targets.kind})"
        )
        say(f"split {split_text(settings, [Run(split) for split in splits])}")
        for text in warnings:
            warn(text)
        if (folder / REPORT_FILE).exists():
            say(f"{folder} is finished; its results:\n")
            say((folder / SUMMARY_FILE).read_text(encoding="utf-8").rstrip())
            return
        columns = write_molecules(folder, table, splits)
        experiment = Experiment(settings, table, splits, columns, start)
        if start is None and settings.model == AUTO:
            warn(
                "no pre-trained model ships with this version: training from random "
                "weights; name one with --start"
            )
        lines = [experiment.line(*which) for which in experiment.trainings()]
        with atomic_write(folder / COMMANDS_FILE, "w", encoding="utf-8") as file:
            file.write(shell_lines(lines))
        runs = do_runs(experiment, progress)
        finish(experiment, runs, warnings)
        say("\n" + (folder / SUMMARY_FILE).read_text(encoding="utf-8").rstrip())
        say(f"\n{folder / REPORT_FILE}")


def identity_of(settings: Settings, start: Start | None) -> dict[str, Any]:
    """What the results depend on."""
    found = {
        name: value for name, value in vars(settings).items() if name not in PLACES
    }
    found["sha256"] = file_sha256(Path(settings.table).expanduser())
    if start is not None and start.path.exists():
        found["start_sha256"] = file_sha256(start.path)
    return found


def do_runs(experiment: Experiment, progress: bool) -> list[Run]:
    """Train and predict what is missing."""
    folder = experiment.folder
    open_trainings = [
        which
        for which in experiment.trainings()
        if not (folder / experiment.save_dir(*which) / PREDICTIONS).exists()
    ]
    epochs = sum(
        experiment.settings.training(model).epochs for _, model, _ in open_trainings
    )
    runs = []
    with tqdm(
        total=epochs, unit="epoch", disable=not progress, smoothing=0.1
    ) as experiment.bar:
        for number, split in enumerate(experiment.splits):
            run = Run(split)
            of_mean = mean_labels(experiment.table.labels[fitted_rows(split)])
            shape = experiment.table.labels.shape
            run.predictions[MEAN] = np.broadcast_to(of_mean, (1, *shape))
            run.predictions[FOREST] = forest(experiment, number)[None]
            for model in experiment.models:
                members = [
                    member_predictions(experiment, number, model, member)
                    for member in range(experiment.settings.ensemble)
                ]
                run.predictions[TITLES[model]] = np.stack(members)
            choose(experiment, run, number)
            runs.append(run)
    return runs


def fitted_rows(split: Split) -> np.ndarray:
    """Molecules that models without early stopping are fitted to."""
    return np.concatenate([split["train"], split["valid"]])


def forest(experiment: Experiment, run: int) -> np.ndarray:
    """Predictions [n, T] of the random forest, computed or read."""
    folder, table = experiment.folder, experiment.table
    path = folder / f"replicate{run + 1}/forest/{PREDICTIONS}"
    if not path.exists():
        experiment.bar.set_description(f"replicate {run + 1}, random forest")
        cached = folder / "data/features.npz"
        if not cached.exists():
            save_arrays(cached, {"features": features(table.smiles)})
        found = forest_predictions(
            np.load(cached)["features"],
            table.labels,
            fitted_rows(experiment.splits[run]),
            kind=table.targets.kind,
            trees=experiment.settings.trees,
            seed=experiment.settings.seed + run,
        )
        save_arrays(path, {"values": found})
    return np.load(path)["values"]


def member_predictions(
    experiment: Experiment, run: int, model: str, member: int
) -> np.ndarray:
    """Predictions [n, T] of a model, which is trained first if it is not."""
    folder, bar = experiment.folder, experiment.bar
    save_dir = folder / experiment.save_dir(run, model, member)
    path = save_dir / PREDICTIONS
    if not path.exists():
        bar.set_description(f"replicate {run + 1}, {TITLES[model]} {member + 1}")
        done, epochs = 0, experiment.settings.training(model).epochs

        def on_epoch(epoch: int) -> None:
            nonlocal done
            bar.update(epoch - done)
            done = epoch

        run_training(folder, experiment.line(run, model, member), on_epoch)
        bar.total -= epochs - done  # it stopped early
        bar.refresh()
        predictor = hub.load(save_dir / BEST)
        if torch.cuda.is_available() and experiment.settings.device != "cpu":
            predictor.to("cuda")
        save_arrays(path, {"values": predictor.predict(experiment.table.smiles)})
    return np.load(path)["values"]


def choose(experiment: Experiment, run: Run, number: int) -> None:
    """Choose the model of a run by its validation metric."""
    kind, labels = experiment.table.targets.kind, experiment.table.labels
    metric, valid = MAIN[kind], run.split["valid"]
    found = {
        model: main_score(
            kind, run.predictions[TITLES[model]].mean(0)[valid], labels[valid]
        )
        for model in experiment.models
    }
    best, *others = experiment.models
    for model in others:
        if metric.is_better(found[model], found[best]):
            best = model
    run.chosen = TITLES[best]
    run.checkpoints = [
        f"{experiment.save_dir(number, best, member)}/{BEST}"
        for member in range(experiment.settings.ensemble)
    ]
    run.reason = f"{run.chosen}, valid {metric.name} {found[best]:.3f}"
    for model in others if best == experiment.models[0] else [experiment.models[0]]:
        run.reason += f" ({TITLES[model]}: {found[model]:.3f})"


def finish(experiment: Experiment, runs: list[Run], warnings: list[str]) -> None:
    """Write predictions, figures, the list of models, and last the report."""
    folder, table = experiment.folder, experiment.table
    write_results(folder, table, runs)
    write_predictions(folder, table, runs)
    write_models(folder, runs)
    with atomic_write(folder / SUMMARY_FILE, "w", encoding="utf-8") as file:
        file.write(result_table(table, runs) + "\n")
    curves = {
        experiment.save_dir(*which): read_curves(
            folder / experiment.save_dir(*which) / LOG_FILE
        )
        for which in experiment.trainings()
    }
    test = "roc" if table.targets.kind == "binary" else "parity"
    drawn = {
        test: figures.test_figure(table, runs),
        "curves": figures.curves_figure(curves, MAIN[table.targets.kind].name),
    }
    pictures = {}
    titles = {"roc": "ROC curves", "parity": "Parity", "curves": "Learning curves"}
    for name, figure in drawn.items():
        if figure is not None:
            pictures[titles[name]] = png_of(figure)
            with atomic_write(folder / f"{name}.png") as file:
                file.write(pictures[titles[name]])
    page = report(experiment.settings, table, runs, warnings, pictures)
    with atomic_write(folder / REPORT_FILE, "w", encoding="utf-8") as file:
        file.write(page)
