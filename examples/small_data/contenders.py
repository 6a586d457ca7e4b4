"""One contender on one split: learns from train and valid, predicts test.

    python examples/small_data/contenders.py forest bbbp-1.csv predictions.csv

`measure.py` runs each in a process of its own, whose CPU seconds are counted.
"""

import argparse
import functools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from graphormer_plugin.cli import CommandParser, command
from graphormer_plugin.data.files import atomic_write

TREES = 500
SECONDS = ".seconds"  # beside predictions: of what was read instead of computed


def targets_of(table: pd.DataFrame) -> list[str]:
    return [name for name in table if name not in ("smiles", "split")]


def features(table: pd.DataFrame, args: argparse.Namespace) -> dict[str, np.ndarray]:
    """Morgan counts and descriptors of all molecules, which all splits of a set and two
    contenders share: computed once, and counted in the seconds of each of them.

    Args:
        table: of a split.
        args: ``table``, its path; ``seconds`` grows by the seconds of features that were
            computed before.
    """
    path = args.table.parent / f"{args.table.stem.rpartition('-')[0]}-features.npz"
    if not path.exists():
        from graphormer_plugin.heads.kernels import raw_features

        smiles, before = table.smiles.tolist(), time.process_time()
        blocks = ("fingerprint", "descriptors")
        found = {block: raw_features(block, np.empty(0), smiles) for block in blocks}
        seconds = time.process_time() - before
        with atomic_write(path) as file:
            np.savez_compressed(file, seconds=seconds, **found)
        return found
    found = dict(np.load(path))
    args.seconds += float(found.pop("seconds"))
    return found


def all_features(
    table: pd.DataFrame, args: argparse.Namespace
) -> dict[str, np.ndarray]:
    """`features`, and the vectors of the start; a file .npz has vectors of SMILES."""
    if args.start.endswith(".npz"):
        with np.load(args.start) as file:
            rows = {smiles: row for row, smiles in enumerate(file["smiles"])}
            vectors = file["vectors"][[rows[smiles] for smiles in table.smiles]]
    else:
        from graphormer_plugin import hub

        vectors = hub.load(args.start).embed(table.smiles.tolist())
    return {"vectors": vectors, **features(table, args)}


def forest(table: pd.DataFrame, kind: str, args: argparse.Namespace) -> np.ndarray:
    """Random forests of scikit-learn, one per target, on train and valid."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    x = np.hstack(list(features(table, args).values())).astype(np.float32)
    learn, test = table.split != "test", table.split == "test"
    found = []
    for name in targets_of(table):
        rows = learn & table[name].notna()
        if kind == "binary":
            model = RandomForestClassifier(TREES, random_state=args.seed)
            model.fit(x[rows], table.loc[rows, name].astype(int))
            chances = model.predict_proba(x[test])
            found.append(chances @ model.classes_)
        else:
            model = RandomForestRegressor(
                TREES, max_features=1 / 3, random_state=args.seed
            )
            found.append(model.fit(x[rows], table.loc[rows, name]).predict(x[test]))
    return np.stack(found, 1)


def run(
    command: Sequence[object], log: Path, env: Mapping[str, str] | None = None
) -> None:
    """Writes the output to a file. Raises ValueError, which names it."""
    with open(log, "w") as file:
        status = subprocess.run(
            [*map(str, command)], env=env, stdout=file, stderr=subprocess.STDOUT
        ).returncode
    if status:
        raise ValueError(f"{command[0]} ended with code {status}; see {log}")


def chemprop(
    table: pd.DataFrame, kind: str, args: argparse.Namespace, members: int = 1
) -> np.ndarray:
    """``chemprop train`` with its defaults; the mean over an ensemble."""
    folder = args.output.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    path, columns = folder / "table.csv", targets_of(table)
    table.replace({"split": {"valid": "val"}}).to_csv(path, index=False)
    task = "classification" if kind == "binary" else kind
    command = [args.chemprop, "train", "--data-path", path, "--output-dir", folder]
    command += ["--smiles-columns", "smiles", "--splits-column", "split"]
    command += ["--target-columns", *columns, "--task-type", task]
    command += ["--ensemble-size", members, "--pytorch-seed", args.seed]
    command += ["--remove-checkpoints"]
    quiet = {"PYTHONPATH": "", "PYTHONWARNINGS": "ignore"}
    run(command, folder / "log", os.environ | quiet)
    files = sorted(folder.glob("**/model_*/test_predictions.csv"))
    if len(files) != members:
        raise ValueError(f"{folder} has {len(files)} files of predictions")
    return np.mean([pd.read_csv(file)[columns].to_numpy() for file in files], 0)


def head(
    table: pd.DataFrame,
    kind: str,
    args: argparse.Namespace,
    blocks: Sequence[str] = ("vectors", "fingerprint", "descriptors"),
) -> np.ndarray:
    """Gaussian processes on frozen vectors of the start and on other blocks of features,
    fitted to train and valid."""
    raw, learn = all_features(table, args), (table.split != "test").to_numpy()
    fitted = fitted_head(table, kind, raw, learn, seed=args.seed, blocks=blocks)
    return fitted.predict_features(rows_of(raw, ~learn)).values


def fitted_head(
    table: pd.DataFrame,
    kind: str,
    raw: dict[str, np.ndarray],
    learn: np.ndarray,
    **options: Any,
):
    """A `Head` for the targets of a table, fitted to the molecules of ``learn``, bool [n],
    by ``raw``, features of all molecules by block; ``kind`` is regression or binary."""
    from graphormer_plugin.data.schema import TargetSchema
    from graphormer_plugin.finetune.fit_head import fit_on_features

    names = targets_of(table)
    return fit_on_features(
        rows_of(raw, learn),
        table.smiles[learn].tolist(),
        table.loc[learn, names].to_numpy(float),
        TargetSchema(names, kind=kind),
        **options,
    )


def rows_of(raw: dict[str, np.ndarray], rows: np.ndarray) -> dict[str, np.ndarray]:
    """Features of some molecules."""
    return {block: values[rows] for block, values in raw.items()}


def train_command(
    path: Path, names: list[str], kind: str, folder: Path, seed: int, *words: str | int
) -> list[str]:
    """``graphormer-train`` on the table of a split, with further flags, and one tree in
    the random forest beside it."""
    command = ["graphormer-train", path, "--out", folder, "--device", "cpu"]
    command += ["--split", "column:split", "--seed", seed, "--trees", 1]
    command += ["--target-columns", ",".join(names), "--target-kind", kind]
    return [str(word) for word in (*command, *words)]


def graphormer_train(
    table: pd.DataFrame,
    kind: str,
    args: argparse.Namespace,
    model: str = "auto",
    members: int = 1,
) -> np.ndarray:
    """``graphormer-train`` with the flags of `train_command`, a ``--model`` and perhaps an
    ``--ensemble``, and defaults otherwise."""
    folder = args.output.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    # What was interrupted begins anew: the seconds are those of this process.
    shutil.rmtree(folder / "model", ignore_errors=True)
    path, names = folder / "table.csv", targets_of(table)
    table.to_csv(path, index=False)
    words = ["--model", model, "--ensemble", members]
    if model != "scratch":
        words += ["--start", args.start]
    command = train_command(path, names, kind, folder / "model", args.seed, *words)
    run(command, folder / "log")
    found = pd.read_csv(folder / "model/predictions_test.csv")
    shutil.rmtree(folder / "model")
    return found[[f"{name}_predicted" for name in names]].to_numpy()


def mean(table: pd.DataFrame, kind: str, args: argparse.Namespace) -> np.ndarray:
    """Mean of the predictions of the head and of fine-tuning, which `measure.py` made;
    it takes the seconds of both."""
    results = pd.read_csv(args.output.parents[1] / "results.tsv", sep="\t")
    stem, start = args.table.stem, Path(args.start).stem
    of_split = results["set"] + "-" + results.split.astype(str) == stem
    rows = results[of_split & (results.start == start)]
    rows = rows.drop_duplicates("contender", keep="last").set_index("contender")
    found = []
    for contender in ("head", "finetuned"):
        path = args.output.with_name(f"{stem}-{contender}{start}.csv")
        if contender not in rows.index or not path.exists():
            raise ValueError(f"measure {contender} on {stem} first")
        found.append(pd.read_csv(path)[targets_of(table)].to_numpy())
        args.seconds += float(rows.seconds[contender])
    return np.mean(found, 0)


Contender = Callable[[pd.DataFrame, str, argparse.Namespace], np.ndarray]
CONTENDERS: dict[str, Contender] = {
    "forest": forest,
    "chemprop": chemprop,
    "chemprop_5": functools.partial(chemprop, members=5),
    "auto": graphormer_train,
    "auto_5": functools.partial(graphormer_train, members=5),
    "head": head,
    "finetuned": functools.partial(graphormer_train, model="finetune"),
    "mean": mean,
    "vectors": functools.partial(head, blocks=("vectors",)),
    "vectors_fingerprint": functools.partial(head, blocks=("vectors", "fingerprint")),
    "no_vectors": functools.partial(head, blocks=("fingerprint", "descriptors")),
    "scratch": functools.partial(graphormer_train, model="scratch"),
}
# Contenders that begin with a pre-trained model.
STARTED = {"auto", "auto_5", "head", "finetuned", "mean"}
STARTED |= {"vectors", "vectors_fingerprint", "no_vectors"}


@command
def main(arguments: Sequence[str] | None = None) -> None:
    parser = CommandParser(description=__doc__.partition("\n")[0])
    parser.add_argument("contender", choices=CONTENDERS)
    parser.add_argument("table", type=Path, help="columns smiles, split and targets")
    parser.add_argument("output", type=Path, help="predictions of the test rows")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--chemprop", default="chemprop", help="its command")
    parser.add_argument(
        "--start", default="", help="name or file of a pre-trained model"
    )
    parser.add_argument(
        "--kind", choices=("regression", "binary"), default="regression"
    )
    args = parser.parse_args(arguments, argparse.Namespace(seconds=0.0))
    table = pd.read_csv(args.table)
    found = CONTENDERS[args.contender](table, args.kind, args)
    if args.seconds:
        args.output.with_suffix(SECONDS).write_text(str(args.seconds))
    with atomic_write(args.output, "w", newline="") as file:
        pd.DataFrame(found, columns=targets_of(table)).to_csv(file, index=False)


if __name__ == "__main__":
    sys.exit(main())
