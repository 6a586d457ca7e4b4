"""Measure contenders on small sets, and append the figures to a table.

    python examples/small_data/measure.py runs/small_data --data DATA \\
        --contenders forest chemprop --chemprop CHEMPROP_VENV/bin/chemprop

The folder gets the splits, the predictions of the test rows and results.tsv. A line
that is there is not measured again, so the same command goes on where it was stopped.
One process computes at a time, with one thread; seconds are its CPU time, that of
reading the molecules and of importing libraries included. Fingerprints and descriptors
of a set are computed once, and their time counts for each split.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from contenders import CONTENDERS, SECONDS, STARTED, targets_of
from sets import SETS, SPLITS, write_splits

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tsv import append, read  # noqa: E402

from graphormer_plugin.cli import CommandParser, command  # noqa: E402
from graphormer_plugin.criterions.metrics import mean_of_defined  # noqa: E402
from graphormer_plugin.experiment import scores  # noqa: E402

COLUMNS = (
    "set split contender start metric value targets train valid test seconds machine "
    "commit"
).split()


def score(table: pd.DataFrame, predicted: pd.DataFrame, kind: str) -> tuple[float, int]:
    """`mean_score` of the test rows."""
    names, test = targets_of(table), table.split == "test"
    if test.sum() != len(predicted):
        raise ValueError(f"{len(predicted)} predictions of {test.sum()} rows")
    labels = table.loc[test, names].to_numpy(float)
    return mean_score(labels, predicted[names].to_numpy(float), kind)


def mean_score(
    labels: np.ndarray, predicted: np.ndarray, kind: str
) -> tuple[float, int]:
    """RMSE or ROC-AUC, the mean over the targets that have one.

    Args:
        labels: [n, T], NaN where missing.
        predicted: [n, T].
        kind: regression or binary.

    Returns:
        The figure, and the number of targets that count.

    Raises:
        ValueError: the prediction of a label is not finite.
    """
    if not np.isfinite(predicted[~np.isnan(labels)]).all():
        raise ValueError("a prediction is not finite")
    name = scores.MAIN[kind].name
    found = [
        scores.score(name, *pair) for pair in scores.pairs(kind, predicted, labels)
    ]
    return mean_of_defined(found), sum(value == value for value in found)


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def commit() -> str:
    command = ["git", "-C", str(HERE), "describe", "--always", "--dirty", "--abbrev=10"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def read_rows(path: Path) -> list[dict[str, str]]:
    """Rows of a table; none where it is not there."""
    return read(path) if path.exists() else []


def predict(
    args: argparse.Namespace, path: Path, contender: str, kind: str, seed: int
) -> tuple[pd.DataFrame, float]:
    """Predictions of the test rows of a split, and CPU seconds.

    Args:
        args: ``folder``, ``chemprop`` and ``start``.
        path: table of the split.

    Raises:
        ValueError: the contender failed.
    """
    start = Path(args.start).stem if contender in STARTED else ""
    output = args.folder / "predictions" / f"{path.stem}-{contender}{start}.csv"
    output.parent.mkdir(exist_ok=True)
    command = [HERE / "contenders.py", contender, path, output, "--seed", seed]
    command += ["--chemprop", args.chemprop, "--start", args.start, "--kind", kind]
    shared = output.with_suffix(SECONDS)
    shared.unlink(missing_ok=True)
    before = cpu_seconds()
    if subprocess.run([sys.executable, *map(str, command)]).returncode:
        raise ValueError(f"{contender} failed on {path}; see above")
    seconds = cpu_seconds() - before
    if shared.exists():
        seconds += float(shared.read_text())
    return pd.read_csv(output), seconds


def run(args: argparse.Namespace, name: str, split: int, contender: str) -> None:
    """One figure, unless the table has it."""
    results = args.folder / "results.tsv"
    rows = read_rows(results)
    done = {(r["set"], r["split"], r["contender"], r["start"]) for r in rows}
    start = Path(args.start).stem if contender in STARTED else ""
    if (name, str(split), contender, start) in done:
        return
    path = write_splits(args.data, args.folder / "splits", name, args.splits)[split - 1]
    kind, revision = SETS[name].kind, commit()
    predicted, seconds = predict(args, path, contender, kind, split)
    table = pd.read_csv(path)
    value, targets = score(table, predicted, kind)
    metric = scores.MAIN[kind].name
    sizes = [int((table.split == part).sum()) for part in ("train", "valid", "test")]
    line = [name, split, contender, start, metric, f"{value:.6f}", targets, *sizes]
    line += [f"{seconds:.0f}", args.machine, revision]
    append(results, COLUMNS, [line])
    print(*line, flush=True)


@command
def main(arguments: Sequence[str] | None = None) -> None:
    parser = CommandParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add(
        "folder",
        type=Path,
        help="where splits, predictions and results.tsv are written",
    )
    add("--data", type=Path, required=True, help="folder of the sets")
    add("--sets", nargs="+", default=list(SETS), choices=SETS)
    add("--contenders", nargs="+", default=list(CONTENDERS), choices=CONTENDERS)
    add("--splits", type=int, default=SPLITS, help="number of splits, from seed 1 on")
    add("--chemprop", default="chemprop", help="command of chemprop")
    add("--start", default="", help="name or file of the pre-trained model")
    add(
        "--machine", default="1", help="number of the machine whose seconds are counted"
    )
    args = parser.parse_args(arguments)
    started = sorted(STARTED.intersection(args.contenders))
    if started and not args.start:
        parser.error(f"--start: {', '.join(started)} begin with a pre-trained model")
    if args.start.endswith(".pt") and not Path(args.start).is_file():
        parser.error(f"--start {args.start}: no such file")
    if not (
        {"chemprop", "chemprop_5"}.isdisjoint(args.contenders)
        or shutil.which(args.chemprop)
    ):
        parser.error(f"--chemprop {args.chemprop}: no such command")
    os.environ["OMP_NUM_THREADS"] = "1"
    args.folder.mkdir(parents=True, exist_ok=True)
    for split in range(1, args.splits + 1):
        for name in args.sets:
            for contender in args.contenders:
                run(args, name, split, contender)


if __name__ == "__main__":
    sys.exit(main())
