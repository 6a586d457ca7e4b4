"""TDC's ADMET group: its protocol, one fit of all training rows, and the page's table.

`benchmarks.py FOLDER --tdc DATA` reads ``DATA/admet_group/SET/{train_val,test}.csv``, as PyTDC
writes them (columns Drug, Y). A set without test.csv is measured on five scaffold folds of its
training rows.
"""

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles
from tsv import append, read

from graphormer_plugin.workbench.predictions.scores import score

PUBLISHED = Path(__file__).with_name("tdc.tsv")
COLUMNS = "set model metric value low high coverage90 seconds train test commit".split()
METRICS = {"MAE": "mae", "Spearman": "spearman", "AUROC": "roc_auc", "AUPRC": "ap"}
SEEDS, VALID = range(1, 6), 0.125  # of the group's protocol
RESAMPLES = 1000  # of the test rows, for an interval of 95 %
WHOLE, PROTOCOL, FOLDS = "all of train_val", "five splits", "five folds of train_val"


def scaffold_split(smiles: list[str], seed: int) -> list[str]:
    """The part of each molecule, train or valid, by TDC's scaffold split: large scaffolds
    come first, in random order."""
    groups: dict[str, set[int]] = {}
    for row, text in enumerate(smiles):
        groups.setdefault(MurckoScaffoldSmiles(text), set()).add(row)
    train, valid = (int(len(smiles) * share) for share in (1 - VALID, VALID))
    test = len(smiles) - train - valid
    large: list[set[int]] = []
    small: list[set[int]] = []
    for group in groups.values():
        is_large = len(group) > valid / 2 or len(group) > test / 2
        (large if is_large else small).append(group)
    draw = random.Random(seed)
    draw.shuffle(large)
    draw.shuffle(small)
    chosen: list[int] = []
    for group in large + small:
        if len(chosen) + len(group) <= train:
            chosen += group
    return ["train" if row in {*chosen} else "valid" for row in range(len(smiles))]


def tables_of(folder: Path) -> Iterator[tuple[str, pd.DataFrame, list[str]]]:
    """Name, table with a column split, and options of graphormer-train of each fit of a set."""
    names = {"Drug": "smiles", "Y": "y"}
    parts = {
        part: pd.read_csv(folder / f"{part}.csv").rename(columns=names)[["smiles", "y"]]
        for part in ("train_val", "test")
        if (folder / f"{part}.csv").exists()
    }
    train = parts["train_val"]
    if "test" not in parts:
        yield FOLDS, train, ["--folds", "5"]
        return
    test = parts["test"].assign(split="test")
    yield WHOLE, pd.concat([train.assign(split="train"), test]), []
    for seed in SEEDS:
        split = scaffold_split(train.smiles.tolist(), seed)
        name = f"{PROTOCOL} {seed}"
        yield name, pd.concat([train.assign(split=split), test]), ["--seed", str(seed)]


def figures(found: pd.DataFrame, metric: str) -> list[float]:
    """Metric of the test rows, the ends of its interval, and the coverage of 90 % intervals."""

    def of(rows: pd.DataFrame) -> float:
        folds = [fold for _, fold in rows.groupby("replicate")]
        pairs = [
            (fold.y_predicted.to_numpy(), fold.y.to_numpy(float)) for fold in folds
        ]
        return float(np.mean([score(METRICS[metric], *pair) for pair in pairs]))

    draws = np.random.default_rng(1)
    rows = [draws.integers(len(found), size=len(found)) for _ in range(RESAMPLES)]
    low, high = np.nanquantile([of(found.iloc[part]) for part in rows], [0.025, 0.975])
    covered = np.nan
    if "y_low90" in found:
        covered = found.y.between(found.y_low90, found.y_high90).mean()
    elif metric in ("MAE", "Spearman"):
        covered = ((found.y - found.y_predicted).abs() <= 1.645 * found.y_std).mean()
    return [of(found), low, high, covered]


def measure(
    data: Path,
    results: Path,
    sets: list[str],
    commit: str,
    train: Callable[[pd.DataFrame, Path, list[str]], None],
) -> None:
    """Add the lines of the sets to a table, unless they are there; ``train`` writes the folder
    ``model`` of a table into a folder."""
    published = pd.read_csv(PUBLISHED, sep="\t").set_index("set")
    done = read(results) if results.exists() else []
    for name in sets or published.index:
        metric = published.metric[name]
        for model, table, options in tables_of(data / "admet_group" / name):
            if any((row["set"], row["model"]) == (name, model) for row in done):
                continue
            folder = results.parent / name / model.replace(" ", "_")
            folder.mkdir(parents=True, exist_ok=True)
            started = time.monotonic()
            train(table, folder, options)
            seconds = time.monotonic() - started
            found = pd.read_csv(folder / "model/predictions_test.csv")
            texts = [f"{value:.4f}" for value in figures(found, metric)]
            largest = found.groupby("replicate").size().max()
            sizes = len(table) - largest, len(found)
            line = [name, model, metric, *texts, f"{seconds:.0f}", *sizes, commit]
            append(results, COLUMNS, [line])
            print(line, flush=True)


def page_rows(measured: pd.DataFrame) -> list[list[str]]:
    """A header and a row for each set: published figures and ours, an empty cell where there is
    none."""
    published = pd.read_csv(PUBLISHED, sep="\t", dtype=str, keep_default_na=False)
    ours = {
        (row["set"], row.model): f"{row.value:.3f}" for _, row in measured.iterrows()
    }
    header = ["set", "metric", "best", "by"]
    header += [*published.columns[4:], "`graphormer-train`"]
    lines = published.to_numpy().tolist()
    return [header, *([*line, ours.get((line[0], WHOLE), "")] for line in lines)]
