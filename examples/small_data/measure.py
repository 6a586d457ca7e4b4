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
import csv
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from contenders import CONTENDERS, SECONDS, STARTED, parts, score
from sets import SETS, write_splits

COLUMNS = (
    "set split contender start metric value targets train valid test seconds commit"
).split()
HERE = Path(__file__).resolve().parent


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def commit() -> str:
    command = ["git", "-C", str(HERE), "describe", "--always", "--dirty", "--abbrev=10"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def measured(results: Path) -> dict[tuple[str, ...], float]:
    """Seconds by set, split, contender and start."""
    if not results.exists():
        return {}
    with open(results, newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    names = ("set", "split", "contender", "start")
    return {tuple(row[name] for name in names): float(row["seconds"]) for row in rows}


def run(args: argparse.Namespace, name: str, split: int, contender: str) -> None:
    """One figure, unless the table has it."""
    results = args.folder / "results.tsv"
    start = Path(args.start).stem if contender in STARTED else ""
    if (name, str(split), contender, start) in measured(results):
        return
    path = write_splits(args.data, args.folder / "splits", name, args.splits)[split - 1]
    others = parts(pd.read_csv(path)) if contender == "auto" else []
    for other in others:
        run(args, name, split, other)
    output = args.folder / "predictions" / f"{name}-{split}-{contender}{start}.csv"
    output.parent.mkdir(exist_ok=True)
    command = [HERE / "contenders.py", contender, path, output, "--seed", split]
    command += ["--chemprop", args.chemprop, "--start", args.start]
    shared = output.with_suffix(SECONDS)
    shared.unlink(missing_ok=True)
    before = cpu_seconds()
    subprocess.run([sys.executable, *map(str, command)], check=True)
    seconds = cpu_seconds() - before
    if shared.exists():
        seconds += float(shared.read_text())
    done = measured(results)
    seconds += sum(done[name, str(split), other, start] for other in others)
    table, kind = pd.read_csv(path), SETS[name].kind
    value, targets = score(table, pd.read_csv(output), kind)
    metric = "rmse" if kind == "regression" else "roc_auc"
    sizes = [int((table.split == part).sum()) for part in ("train", "valid", "test")]
    line = [name, split, contender, start, metric, f"{value:.6f}", targets, *sizes]
    line += [f"{seconds:.0f}", commit()]
    new = not results.exists()
    with open(results, "a", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerows([COLUMNS, line] if new else [line])
    print(*line, flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add(
        "folder",
        type=Path,
        help="where splits, predictions and results.tsv are written",
    )
    add("--data", type=Path, required=True, help="folder of the sets")
    add("--sets", nargs="+", default=list(SETS), choices=SETS)
    add("--contenders", nargs="+", default=list(CONTENDERS), choices=CONTENDERS)
    add("--splits", type=int, default=5, help="number of splits, from seed 1 on")
    add("--chemprop", default="chemprop", help="command of chemprop")
    add("--start", default="", help="name or file of the pre-trained model")
    args = parser.parse_args(arguments)
    os.environ["OMP_NUM_THREADS"] = "1"
    args.folder.mkdir(parents=True, exist_ok=True)
    for split in range(1, args.splits + 1):
        for name in args.sets:
            for contender in args.contenders:
                run(args, name, split, contender)


if __name__ == "__main__":
    main()
