"""Trainings with fairseq-train: their flags, a process of their own, and their logs."""

import contextlib
import ctypes
import functools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import graphormer_plugin
from graphormer_plugin.criterions.metrics import RISING
from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.files import read_text
from graphormer_plugin.data.tables.options import (
    ROWS,
    TableOptions,
    flag_words,
    list_of_names,
    table_options,
)
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.models import ARCHITECTURES
from graphormer_plugin.workbench.experiment.experiment import Experiment, ModelRun
from graphormer_plugin.workbench.experiment.settings import Settings
from graphormer_plugin.workbench.experiment.split_tables import (
    MOLECULES_FILE,
    SMILES_COLUMN,
    split_file,
)
from graphormer_plugin.workbench.experiment.starts import START_PATHS

LOG_FILE = "train.log"
COMMANDS_FILE = "commands.sh"
# -P: it starts in the folder of the experiment, of which it imports no module.
PROGRAM = [sys.executable, "-P", "-m", "fairseq_cli.train"]
ENVIRONMENT: Mapping[str, str] | None = None  # None: the environment of this process
ERROR = re.compile(r"error: (.+)|^(?:\w+\.)*(\w*(?:Error|Exception): .+)")

CLIP_NORM = 5

# Values by the number of updates, by the name of the statistic and train or valid.
Curves = dict[tuple[str, str], dict[float, float]]


def fairseq_arguments(experiment: Experiment, member: ModelRun) -> dict[str, Any]:
    """Options of fairseq-train for a model, in the folder of the experiment."""
    settings = experiment.settings
    targets = experiment.table.targets
    training = experiment.training
    start = experiment.start
    updates = -(
        -len(experiment.splits[member.run].rows["train"]) // training.batch_size
    )
    updates *= training.epochs
    metric = experiment.metric(member.run)
    options: dict[str, Any] = {
        "user_dir": Path(graphormer_plugin.__file__).resolve().parent,
        "task": "graph_prediction",
        "dataset_name": MOLECULES_FILE,
        "data_root": "data",
        **table_flags(settings, targets, split_file(member.run)),
        "arch": start.arch if start else settings.arch,
    }
    if settings.positions != "none" and not start:
        options |= distance_options(settings.arch)
    if start:
        options |= start.options
        if training.frozen:
            frozen = round(training.frozen * start.layers)
            options["freeze_encoder_layers"] = frozen
        if training.lr_decay != 1:
            options["layerwise_lr_decay"] = training.lr_decay
    if training.dropout is not None:
        names = ARCHITECTURES[options["arch"]].options()
        for name in ("dropout", "attention_dropout", "act_dropout"):
            if name in names:
                options[name] = training.dropout
    options |= {
        "criterion": targets.kind.loss,
        "batch_size": training.batch_size,
        "required_batch_size_multiple": 1,  # fairseq would make 24 of 30
        "num_workers": 0,
        "distributed_world_size": 1,
        "seed": settings.seed + 100 * member.run + member.ensemble_index,
        "optimizer": "adam",
        "clip_norm": CLIP_NORM,
        "lr": training.lr,
        "lr_scheduler": "polynomial_decay",
        "total_num_update": updates,
        "warmup_updates": max(1, updates // 20),
        "max_epoch": training.epochs,
        "patience": training.patience,
        "best_checkpoint_metric": metric,
        "maximize_best_checkpoint_metric": metric in RISING,
        "class_weights": settings.class_weights,
        "no_epoch_checkpoints": True,
        "save_dir": member.save_dir,
        "log_format": "json",
        "cpu": settings.device == "cpu",
    }
    return {name: x for name, x in options.items() if x is not False and x != ""}


def distance_options(arch: str) -> dict[str, Any]:
    """Options with which an architecture reads distances of atoms (our choice); empty if it
    has none, as Graphormer-3D, which always does."""
    known = ARCHITECTURES[arch].options()
    if "pair_encodings" in known:
        return {"pair_encodings": "gaussians"}
    return {"length_kernels": 32} if "length_kernels" in known else {}


def table_flags(
    settings: Settings, targets: TargetSchema, split: str
) -> dict[str, Any]:
    """Options with which fairseq-train reads the table of `write_molecules`, and a file
    with a split, where they differ from the defaults."""
    options = table_options(
        settings,
        smiles_column=SMILES_COLUMN,
        target_columns=targets.names,
        split=ROWS + split,
        seed=TableOptions.seed,  # the split is given
        target_kind=targets.kind,
        class_names=settings.class_names or common_classes(targets),
        missing_labels=(),  # their cells are empty there
        skip_invalid=False,
    )
    return {
        name: list_of_names(value) if isinstance(value, list | tuple) else value
        for name, value in options.items()
        if value and value != getattr(TableOptions, name)
    }


def common_classes(targets: TargetSchema) -> Sequence[str]:
    """Names of classes that fairseq-train must know, because the words of the kept rows
    may not tell their order; empty if each target has words of its own."""
    first, *rest = targets.class_names or [[]]
    return first if all(names == first for names in rest) else ()


def shell_lines(
    lines: Sequence[Mapping[str, Any]], folder: Path, comments: Sequence[str] = ()
) -> str:
    """A script for a folder: comments, and lines of fairseq-train by their options, without
    absolute paths."""
    text = "# Type these lines in this folder, or in another with its table.\n"
    text += "".join(f"# {comment}\n" for comment in comments)
    if lines:
        text += "PLUGIN=$(python -m graphormer_plugin --path)\n"
    for options in lines:
        paths = {name: options[name] for name in START_PATHS if name in options}
        paths = {
            name: os.path.relpath(x, folder.resolve()) for name, x in paths.items()
        }
        text += '\nfairseq-train \\\n    --user-dir "$PLUGIN"'
        rest = {name: x for name, x in options.items() if name != "user_dir"} | paths
        for word in flag_words(rest):
            text += " \\\n    " if word.startswith("--") else " "
            text += shlex.quote(word)
        text += "\n"
    return text


def train(experiment: Experiment, options: Mapping[str, Any]) -> None:
    """Run fairseq-train in the folder of an experiment, and show its epochs in the progress
    bar."""
    bar = experiment.bar
    start = bar.n
    run_training(
        experiment.folder, options, lambda epoch: bar.update(start + epoch - bar.n)
    )


def run_training(
    folder: Path, options: Mapping[str, Any], on_epoch: Callable[[int], None]
) -> None:
    """Run fairseq-train in a folder; its output goes to `LOG_FILE` beside the model.

    Training goes on from its last checkpoint if that exists. The child process ends with
    its parent, also if the parent is killed.

    Args:
        on_epoch: called with the number of finished epochs.
    """
    save_dir = folder / options["save_dir"]
    save_dir.mkdir(parents=True, exist_ok=True)
    reason = ""
    with (
        open(save_dir / LOG_FILE, "a", encoding="utf-8") as log,
        subprocess.Popen(
            [*PROGRAM, *flag_words(options)],
            cwd=folder,
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            preexec_fn=functools.partial(_end_with, os.getpid()),
        ) as process,
    ):
        try:
            for line in process.stdout:
                log.write(line)
                log.flush()
                if error := ERROR.search(line):
                    reason = error[1] or error[2]
                statistics = logged_statistics(line)
                if "train_num_updates" in statistics:
                    on_epoch(statistics["epoch"])
            process.wait()
        finally:
            process.terminate()  # no effect on a process that has ended
    if process.returncode:
        reason = reason or f"fairseq-train ended with exit code {process.returncode}"
        raise DatasetError(f"{reason}; see {save_dir / LOG_FILE}")


_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def _end_with(parent: int) -> None:
    """In a new process: ask the kernel for SIGTERM when the parent dies."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it has died already
        os._exit(1)


def logged_statistics(line: str) -> dict[str, Any]:
    """Statistics that a line of fairseq's log in JSON ends in; empty without any."""
    # Another kind of line, or a line that a kill cut off, perhaps before a whole one.
    with contextlib.suppress(ValueError):
        return json.loads(line[line.rindex('{"epoch": ') :])
    return {}


def read_curves(path: Path) -> Curves:
    """Curves of a log; empty without the file. A resumed run may repeat an epoch: the
    last value counts."""
    curves: Curves = {}
    text = read_text(path, "replace") if path.exists() else ""
    for line in text.splitlines():
        statistics = logged_statistics(line)
        for key, value in statistics.items():
            split, _, name = key.partition("_")
            updates = statistics.get(f"{split}_num_updates")
            if updates is not None:
                curve = curves.setdefault((name, split), {})
                curve[float(updates)] = float(value)
    return curves
