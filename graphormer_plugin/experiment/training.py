"""Lines of fairseq-train, and running one with its progress."""

import ctypes
import functools
import glob
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import graphormer_plugin
from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.experiment.scores import MAIN, Metric
from graphormer_plugin.experiment.settings import Settings, Training
from graphormer_plugin.experiment.splits import SMILES_COLUMN
from graphormer_plugin.finetune.published import Published
from graphormer_plugin.finetune.transfer import flag, preset_options

LOG_FILE = "train.log"
BEST, LAST = "checkpoint_best.pt", "checkpoint_last.pt"
LOSSES = {
    "regression": "mse_loss",
    "binary": "binary_logloss",
    "multiclass": "multiclass_cross_entropy",
}
COMMANDS_FILE = "commands.sh"
POLL_SECONDS = 0.2
PROGRAM = [sys.executable, "-m", "fairseq_cli.train"]
ENVIRONMENT: Mapping[str, str] | None = None  # None: that of this process

Curves = dict[str, dict[str, list[tuple[float, float]]]]


@dataclass(frozen=True)
class Start:
    """Weights that a fine-tuning starts from.

    Attributes:
        flags: Of fairseq-train.
        path: Checkpoint of this package, or of the code that published it.
        arch: Its architecture.
        layers: Number of its layers.
        published: What it is, if it is of another code.
    """

    flags: tuple[str, ...]
    path: Path
    arch: str
    layers: int
    published: Published | None = None


def training_line(
    settings: Settings,
    training: Training,
    targets: TargetSchema,
    *,
    start: Start | None,
    molecules: str,
    split_column: str,
    train_rows: int,
    metric: Metric,
    seed: int,
    save_dir: str,
) -> list[str]:
    """Arguments of fairseq-train for one model, in the folder of the experiment.

    Args:
        settings: The experiment.
        training: Options of the training.
        targets: What it predicts.
        start: Weights to start from; None trains from scratch.
        molecules: File of molecules.
        split_column: Its column that says which are for what.
        train_rows: Number of training molecules.
        metric: Selects the best checkpoint.
        seed: Of weights, batches and dropout.
        save_dir: Folder of the checkpoints.
    """
    steps = -(-train_rows // training.batch_size)
    total = steps * training.epochs
    folder = Path(graphormer_plugin.__file__).resolve().parent
    arch = start.arch if start else settings.arch
    words = [
        *("--user-dir", folder, "--task", "graph_prediction"),
        *("--dataset-name", molecules, "--data-root", "data"),
        *("--smiles-column", SMILES_COLUMN, "--target-kind", targets.kind),
        *("--split", f"column:{split_column}"),
    ]
    texts = text_options(settings, targets)
    # One word each: a text such as -logKow would be taken for a flag.
    words += [f"{flag(name)}={text}" for name, text in texts.items() if text]
    if settings.largest_fragment:
        words.append("--largest-fragment")
    if settings.descriptors:
        words.append("--descriptors")
    if settings.max_atoms != Settings.max_atoms:
        words += ["--max-atoms", settings.max_atoms]
    words += ["--arch", arch]
    if start:
        words += start.flags
        if training.frozen:
            frozen = round(training.frozen * start.layers)
            words += ["--freeze-encoder-layers", frozen]
        if training.lr_decay != 1:
            words += ["--layerwise-lr-decay", training.lr_decay]
    if training.dropout is not None:
        known = preset_options(arch)
        for name in ("dropout", "attention_dropout", "act_dropout"):
            words += [flag(name), training.dropout] if name in known else []
    words += [
        *("--criterion", LOSSES[targets.kind], "--batch-size", training.batch_size),
        *("--required-batch-size-multiple", 1),  # fairseq would make 24 of 30
        *("--num-workers", 0, "--distributed-world-size", 1, "--seed", seed),
        *("--optimizer", "adam", "--clip-norm", 5, "--lr", training.lr),
        *("--lr-scheduler", "polynomial_decay", "--total-num-update", total),
        *("--warmup-updates", max(1, total // 20)),
        *("--max-epoch", training.epochs, "--patience", training.patience),
        *("--best-checkpoint-metric", metric.name),
    ]
    if settings.class_weights:
        words += ["--class-weights", settings.class_weights]
    if metric.rises:
        words.append("--maximize-best-checkpoint-metric")
    words += ["--no-epoch-checkpoints", "--save-dir", save_dir, "--log-format", "json"]
    if settings.device == "cpu":
        words.append("--cpu")
    return [str(word) for word in words]


def text_options(settings: Settings, targets: TargetSchema) -> dict[str, str]:
    """Options of fairseq-train that the user or the table has written."""
    return {
        "target_columns": ",".join(map(column_pattern, targets.names)),
        "target_unit": targets.unit,
        "class_names": ",".join(class_names_flag(settings, targets)),
        "weight_column": settings.weight_column,
        "extra_columns": ",".join(settings.extra_columns),
    }


def column_pattern(name: str) -> str:
    """A name, or if it has a comma, which separates names, a pattern that fits it."""
    return glob.escape(name).replace(",", "?") if "," in name else name


def class_names_flag(settings: Settings, targets: TargetSchema) -> Sequence[str]:
    """Names of classes that fairseq-train must know, because the words of the kept rows
    may not tell their order; empty if each target has words of its own."""
    if settings.class_names:
        return settings.class_names
    found = targets.class_names[:1] or [[]]
    same = all(names == found[0] for names in targets.class_names)
    return found[0] if same and not any("," in name for name in found[0]) else ()


def selecting_metric(targets: TargetSchema, valid_labels) -> Metric:
    """Metric that selects the best checkpoint.

    The ROC-AUC of a validation split that lacks a class is undefined: then the loss.
    """
    metric = MAIN[targets.kind]
    if metric.is_defined(valid_labels):
        return metric
    return Metric("loss", rises=False)


def shell_lines(lines: Sequence[Sequence[str]], comments: Sequence[str] = ()) -> str:
    """A script of fairseq-train lines, after comments."""
    text = "# Type these lines in this folder, or in another with its table.\n"
    text += "".join(f"# {comment}\n" for comment in comments)
    for words in lines:
        text += "\nfairseq-train"
        for word in words:
            text += " \\\n    " if word.startswith("--") else " "
            text += shlex.quote(word)
        text += "\n"
    return text


def run_training(
    folder: Path, words: Sequence[str], on_epoch: Callable[[int], None]
) -> None:
    """Run fairseq-train in a folder; its output goes to `LOG_FILE` beside the model.

    Training goes on from its last checkpoint if there is one. The process ends with this
    one, also if this one is killed.

    Args:
        folder: Of the experiment.
        words: Arguments, see `training_line`.
        on_epoch: Called with the number of finished epochs.

    Raises:
        DatasetError: fairseq-train failed; one line.
    """
    save_dir = folder / words[words.index("--save-dir") + 1]
    save_dir.mkdir(parents=True, exist_ok=True)
    log_path = save_dir / LOG_FILE
    with open(log_path, "a", encoding="utf-8") as log:
        start = log.tell()
        process = subprocess.Popen(
            [*PROGRAM, *words],
            cwd=folder,
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            preexec_fn=functools.partial(_end_with, os.getpid()),
        )
        try:
            with open(log_path, encoding="utf-8", errors="replace") as lines:
                lines.seek(start)
                while process.poll() is None:
                    _report_epochs(lines.read(), on_epoch)
                    time.sleep(POLL_SECONDS)
                _report_epochs(lines.read(), on_epoch)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    if process.returncode:
        with open(log_path, encoding="utf-8", errors="replace") as lines:
            lines.seek(start)
            raise DatasetError(
                f"{reason_of(lines.read(), process.returncode)}; see {log_path}"
            )


def _report_epochs(text: str, on_epoch: Callable[[int], None]) -> None:
    for epoch in re.findall(r'\{"epoch": (\d+), "train_', text):
        on_epoch(int(epoch))


_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def _end_with(parent: int) -> None:
    """In a new process: ask the kernel for SIGTERM when the parent dies."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it has died already
        os._exit(1)


def reason_of(log: str, code: int) -> str:
    """Why a training failed: its last line that names an error."""
    for line in reversed(log.splitlines()):
        error = r"error: (.+)|^(?:\w+\.)*(\w*(?:Error|Exception): .+)"
        found = re.search(error, line)
        if found:
            return found[1] or found[2]
    return f"fairseq-train ended with exit code {code}"


def read_curves(path: Path) -> Curves:
    """Curves of a log in JSON: name, then train or valid, to (updates, value).

    A resumed run may repeat an epoch: the last value counts. None without the file.
    """
    if not path.exists():
        return {}
    found: dict[str, dict[str, dict[float, float]]] = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        match = re.search(r'\{"epoch": .*\}\s*$', line)
        if not match:
            continue
        stats = json.loads(match[0])
        for split in ("train", "valid"):
            updates = stats.get(f"{split}_num_updates")
            for key, value in stats.items() if updates is not None else ():
                if key.startswith(f"{split}_"):
                    name = key.removeprefix(f"{split}_")
                    points = found.setdefault(name, {}).setdefault(split, {})
                    points[float(updates)] = float(value)
    return {
        name: {split: sorted(points.items()) for split, points in splits.items()}
        for name, splits in found.items()
    }
