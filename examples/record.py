"""Test a trained model and append its metric to a table of results.

    python examples/record.py CHECKPOINT --subset test --metric mae --recipe zinc/grpe_small

The curve of `train.log` beside the checkpoint joins `curves.tsv` beside the table.
All values except the names of the recipe are read from the checkpoint, the repository
and fairseq-validate's output. A checkpoint that is in the table is not tested again. If
a longer training had no better epoch, its row repeats the value.
"""

import argparse
import hashlib
import json
import logging
import math
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import learning_curves
import summarise
import torch
import tsv
from fairseq import options
from fairseq_cli import validate

import graphormer_plugin
from graphormer_plugin import hub
from graphormer_plugin.cli import CommandParser, command
from graphormer_plugin.inference.checkpoint import read_checkpoint

PLUGIN = Path(graphormer_plugin.__file__).parent


class Numbers(logging.Handler):
    """Keeps the last line of fairseq's progress bar: the metrics of the split.

    The lines before it are of every 100th batch and have lists of sums.
    """

    def __init__(self) -> None:
        super().__init__()
        self.line = "{}"

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text.startswith("{"):
            self.line = text

    def values(self) -> dict[str, float]:
        return {name: float(value) for name, value in json.loads(self.line).items()}


def measure(checkpoint: Path, subset: str, metric: str) -> str:
    """A metric of a split from fairseq-validate, to six digits.

    Raises:
        ValueError: the criterion has no such metric.
    """
    cfg = read_checkpoint(checkpoint).state["cfg"]
    arguments = ["--user-dir", str(PLUGIN), "--task", cfg["task"]["_name"]]
    arguments += ["--path", str(checkpoint), "--valid-subset", subset]
    arguments += ["--batch-size", str(cfg["dataset"]["batch_size"])]
    arguments += ["--num-workers", "0", "--log-format", "json"]
    if not torch.cuda.is_available():
        arguments.append("--cpu")
    numbers = Numbers()
    logger = logging.getLogger("fairseq.logging.progress_bar")
    logger.addHandler(numbers)
    logger.setLevel(logging.INFO)
    validate.main(
        options.parse_args_and_arch(options.get_validation_parser(), arguments),
        # The recipe that has trained it names this folder.
        argparse.Namespace(data_root=cfg["task"]["data_root"]),
    )
    logger.removeHandler(numbers)
    found = numbers.values()
    if f"{subset}_{metric}" not in found:
        raise ValueError(f"no metric {metric}, have {sorted(found)}")
    return f"{found[f'{subset}_{metric}']:.6g}"


def device_name() -> str:
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    threads = torch.get_num_threads()
    return f"{threads} thread{'s'[: threads > 1]} of {platform.machine()}"


def commit() -> str:
    """Commit of the sources, with `+` if they differ from it."""

    def git(*words: str) -> str | None:
        command = ["git", "-C", str(PLUGIN), *words]
        try:
            result = subprocess.run(command, capture_output=True, text=True)
        except OSError:
            return None
        return result.stdout.strip() if result.returncode == 0 else None

    revision = git("rev-parse", "--short=10", "HEAD")
    if revision is None:
        return ""
    changed = git(
        "status", "--porcelain", "--untracked-files=no", "--", ".", "../cython_ext"
    )
    return revision + ("+" if changed else "")


def epochs(count: int, updates: int, budget: dict[str, Any]) -> str:
    """Number of epochs; `<N` if the schedule ended a training of N early."""
    longest, most = budget["max_epoch"] or math.inf, budget["max_update"] or math.inf
    if budget["stop_min_lr"] > 0 and count < longest < math.inf and updates < most:
        return f"<{longest}"
    return str(count)


def describe(path: Path, recipe: str, variant: str, devices: int) -> dict[str, Any]:
    """All columns except the measurements."""
    model = hub.load(path).model
    trained = read_checkpoint(path)
    cfg = trained.state["cfg"]
    last = path.with_name("checkpoint_last.pt")
    if last.is_file():  # the length of the training, not the place of its best epoch
        trained = read_checkpoint(last)
    state = trained.state
    batch = cfg["dataset"]["batch_size"] * cfg["optimization"]["update_freq"][0]
    return {
        "recipe": recipe,
        "variant": variant,
        "dataset": Path(state["task_state"]["dataset_name"]).name,
        "source": cfg["task"]["dataset_source"] or "",
        "fingerprint": state["task_state"]["fingerprint"][:12],
        "commit": commit(),
        "arch": trained.arch,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "seed": cfg["common"]["seed"],
        "updates": trained.updates,
        "epochs": epochs(trained.epochs, trained.updates, cfg["optimization"]),
        "batch": batch * devices,
        "device": device_name(),
        "devices": devices,
        "seconds": round(float(state["extra_state"]["previous_training_time"])),
    }


def append(path: Path, row: dict[str, Any]) -> None:
    tsv.append(
        path, summarise.COLUMNS, [[row.get(name, "") for name in summarise.COLUMNS]]
    )


@command
def main(argv: Sequence[str] | None = None) -> None:
    parser = CommandParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--subset", default="test")
    parser.add_argument("--metric", required=True, help="a name that fairseq logs")
    parser.add_argument("--recipe", required=True)
    parser.add_argument("--variant", default="")
    parser.add_argument("--devices", type=int, default=1, help="it was trained on")
    parser.add_argument("--results", type=Path, required=True)
    arguments = parser.parse_args(argv)
    path = arguments.checkpoint
    if not path.is_file():
        raise FileNotFoundError(f"no checkpoint {path}; did the training finish?")
    with open(path, "rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()[:12]
    row = describe(path, arguments.recipe, arguments.variant, arguments.devices)
    row |= {"subset": arguments.subset, "metric": arguments.metric}
    row["checkpoint"] = checksum
    table = (
        summarise.read_results(arguments.results) if arguments.results.exists() else []
    )
    same = ("checkpoint", "subset", "metric")
    tested = [
        known for known in table if all(known[name] == row[name] for name in same)
    ]
    if any(known["updates"] == str(row["updates"]) for known in tested):
        print(f"{path} is in {arguments.results}: {row['metric']} {tested[0]['value']}")
        return
    # A longer training may have had no better epoch.
    if tested:
        row["value"] = tested[0]["value"]
    else:
        row["value"] = measure(path, arguments.subset, arguments.metric)
    # Written before the row, after which this run counts as recorded.
    curves = arguments.results.with_name(learning_curves.NAME)
    try:
        curve = learning_curves.log_curves(
            path.with_name("train.log"), arguments.metric
        )
    except (OSError, ValueError) as error:
        print(f"no curve of this run for {curves}: {error}")
    else:
        learning_curves.append(curves, row, curve)
    append(arguments.results, row)
    print(f"{arguments.results}: {arguments.subset} {arguments.metric} {row['value']}")


if __name__ == "__main__":
    sys.exit(main())
