"""MoleculeACE and Biogen ADME on their published splits, and the tables of the page.

    python examples/small_data/benchmarks.py runs/benchmarks --moleculeace SETS \\
        --biogen biogen_polaris.csv.gz --contenders auto forest
    python examples/small_data/benchmarks.py --write   # tables into README.md

SETS is the folder of the CSV files in the wheel of MoleculeACE 3.0.0. Our choice: a
tenth of the training rows, drawn by the seed, is the split valid. Contenders that stop
early choose the epoch on it, the others are fitted to it as well. The folder gets the
splits, the predictions and results.tsv; the same command goes on where it was stopped.

For MiniMol's vectors in our head: `--list`, then ``teacher.py runs/benchmarks`` of
examples/pretraining, then `--contenders head --start runs/benchmarks/minimol.npz`.
"""

import argparse
import csv
import gzip
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from contenders import CONTENDERS, STARTED  # noqa: E402
from measure import commit, predict, read_rows  # noqa: E402
from pretraining.blocks import teacher  # noqa: E402
from tables import TITLES, put, table  # noqa: E402
from tsv import append  # noqa: E402

from graphormer_plugin.cli import CommandParser, command  # noqa: E402
from graphormer_plugin.data.files import atomic_write  # noqa: E402

BIOGEN = {
    "HLM_CLint": "HLM CLint",
    "RLM_CLint": "RLM CLint",
    "MDR1_ER": "MDR1 ER",
    "solubility": "solubility",
    "hPPB": "human PPB",
    "rPPB": "rat PPB",
}
COLUMNS = (
    "set contender start seed rmse rmse_cliffs pearson train valid test seconds machine "
    "commit"
).split()
# Mean RMSE over the thirty sets, and on cliff molecules. Computed from the files of
# JacksonBurns/chemeleon (CheMeleon, MiniMol, chemprop, forest), molML/MoleculeACE (SVM)
# and guillaume-osmo/TabICL-MLX.
PUBLISHED = {
    "TabICL on distilled CheMeleon vectors": (0.6313, 0.7458),
    "CheMeleon": (0.6664, 0.7645),
    "SVM on ECFP": (0.6712, 0.7511),
    "random forest on Morgan fingerprints": (0.6937, 0.7811),
    "MiniMol": (0.7002, 0.7923),
    "chemprop": (0.8317, 0.8955),
}
# Pearson r by the columns of `BIOGEN`, mean of five seeds, JacksonBurns/chemeleon.
PUBLISHED_BIOGEN = {
    "CheMeleon": (0.718, 0.746, 0.804, 0.656, 0.760, 0.788),
    "MiniMol": (0.724, 0.732, 0.792, 0.687, 0.434, 0.436),
    "MLP on descriptors, pre-trained": (0.661, 0.694, 0.768, 0.552, 0.821, 0.833),
    "fastprop": (0.650, 0.681, 0.744, 0.561, 0.810, 0.795),
    "random forest": (0.657, 0.655, 0.742, 0.575, 0.767, 0.747),
    "chemprop": (0.643, 0.692, 0.697, 0.596, 0.533, 0.208),
}
BLOCKS = {
    "no_vectors": "fingerprint and descriptors, no vectors",
    "vectors": "vectors",
    "vectors_fingerprint": "vectors and fingerprint",
    "head": "vectors, fingerprint and descriptors",
}


def read_sets(moleculeace: Path, biogen: Path) -> dict[str, pd.DataFrame]:
    """Columns smiles, split (train or test), t0 and cliff (bool) of each set."""
    found = {}
    for path in sorted(moleculeace.glob("CHEMBL*.csv")):
        rows = pd.read_csv(path).rename(columns={"y": "t0"})
        rows["cliff"] = rows.cliff_mol == 1
        found[path.stem] = rows[["smiles", "split", "t0", "cliff"]]
    if not found:
        raise ValueError(f"{moleculeace} has no files CHEMBL*.csv")
    for name, rows in pd.read_csv(biogen).groupby("endpoint"):
        rows = rows.rename(columns={"y": "t0"}).assign(cliff=False)
        found[name] = rows[["smiles", "split", "t0", "cliff"]].reset_index(drop=True)
    return found


def with_valid(rows: pd.DataFrame, seed: int) -> pd.DataFrame:
    """The set with a tenth of its training rows as valid."""
    train = np.flatnonzero(rows.split == "train")
    drawn = np.random.default_rng(seed).permutation(train)[: len(train) // 10]
    return rows.assign(split=rows.split.where(~rows.index.isin(drawn), "valid"))


def write_list(folder: Path, sets: dict[str, pd.DataFrame]) -> list[str]:
    """All molecules of the sets, in the file that teacher.py reads."""
    smiles = sorted({text for rows in sets.values() for text in rows.smiles})
    with atomic_write(folder / "molecules.csv.gz", "wb") as file:
        with gzip.open(file, "wt", newline="") as text:
            csv.writer(text).writerows([["smiles"], *([one] for one in smiles)])
    return smiles


def measure(
    args: argparse.Namespace, name: str, rows: pd.DataFrame, contender: str
) -> None:
    """One line of results.tsv, unless it is there."""
    results = args.folder / "results.tsv"
    start = Path(args.start).stem if contender in STARTED else ""
    key = (name, contender, start, str(args.seed))
    if key in {
        tuple(row[column] for column in COLUMNS[:4]) for row in read_rows(results)
    }:
        return
    path = args.folder / "splits" / f"{name}-{args.seed}.csv"
    rows = with_valid(rows, args.seed)
    path.parent.mkdir(exist_ok=True)
    with atomic_write(path, "w", newline="") as file:
        rows.drop(columns="cliff").to_csv(file, index=False)
    revision = commit()
    predicted, seconds = predict(args, path, contender, "regression", args.seed)
    test = rows[rows.split == "test"]
    error = predicted.t0.to_numpy() - test.t0.to_numpy()
    if not np.isfinite(error).all():
        raise ValueError(f"{contender} on {name}: a prediction is not finite")
    squares, cliff = error**2, test.cliff.to_numpy()
    figures = [np.sqrt(squares.mean())]
    figures += [np.sqrt(squares[cliff].mean()) if cliff.any() else np.nan]
    figures += [np.corrcoef(predicted.t0, test.t0)[0, 1]]
    sizes = [int((rows.split == part).sum()) for part in ("train", "valid", "test")]
    line = [*key, *(f"{value:.6f}" for value in figures), *sizes]
    line += [f"{seconds:.0f}", args.machine, revision]
    append(results, COLUMNS, [line])
    print(*line, flush=True)


def label(contender: str, start: str) -> str:
    """Of a contender with a start, in a table."""
    text = TITLES.get(contender, BLOCKS.get(contender, contender))
    return f"{text}, `{start}`" if start else text


def moleculeace(results: pd.DataFrame) -> str:
    """Mean RMSE over the thirty sets, published and measured here, best first."""
    rows = [(*pair, name, "published", "") for name, pair in PUBLISHED.items()]
    for (contender, start), part in results.groupby(["contender", "start"]):
        if len(part) == results["set"].nunique() and contender in TITLES:
            figures = part.rmse.mean(), part.rmse_cliffs.mean()
            seconds = f"{part.seconds.mean():.0f}"
            rows.append((*figures, label(contender, start), "measured here", seconds))
    header = ["", "RMSE", "RMSE on cliff molecules", "", "seconds of a set"]
    lines = [
        [name, f"{rmse:.3f}", f"{cliffs:.3f}", source, seconds]
        for rmse, cliffs, name, source, seconds in sorted(rows)
    ]
    return table(header, lines)


def biogen(results: pd.DataFrame) -> str:
    """Pearson r of each endpoint, and seconds of a set."""
    lines = [
        [name, *(f"{value:.3f}" for value in values), "published", ""]
        for name, values in PUBLISHED_BIOGEN.items()
    ]
    for (contender, start), part in results.groupby(["contender", "start"]):
        found = part.groupby("set").pearson.mean()
        if contender in TITLES:
            cells = [f"{found[name]:.3f}" if name in found else "" for name in BIOGEN]
            cells += ["measured here", f"{part.seconds.mean():.0f}"]
            lines.append([label(contender, start), *cells])
    return table(["", *BIOGEN.values(), "", "seconds of a set"], lines)


def ablation(results: pd.DataFrame) -> str:
    """Mean RMSE over the thirty sets of a head on some blocks, by start."""
    part = results[results.contender.isin(BLOCKS)]
    means = part.groupby(["contender", "start"]).rmse.mean().unstack("start")
    # The same for every start, and measured with one.
    means = means.T.fillna({"no_vectors": means.loc["no_vectors"].max()}).T
    lines = [
        [text, *(f"{means.loc[contender, start]:.3f}" for start in means)]
        for contender, text in BLOCKS.items()
    ]
    return table(["blocks of the head", *(f"`{start}`" for start in means)], lines)


@command
def main(arguments: Sequence[str] | None = None) -> None:
    parser = CommandParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("folder", type=Path, nargs="?", help="of splits, predictions and results.tsv")
    add("--moleculeace", type=Path, help="folder of the CSV files of MoleculeACE")
    add("--biogen", type=Path, help="table with endpoint, split, smiles, y")
    add("--sets", nargs="+", help="names of sets; default: all")
    add("--contenders", nargs="+", default=["auto"], choices=CONTENDERS)
    add("--chemprop", default="chemprop", help="command of chemprop")
    add("--start", default="", help="name or file of the start, or vectors .npz")
    add("--seed", type=int, default=1)
    add("--machine", default="1", help="number of the machine that counts seconds")
    add("--list", action="store_true", help="only write molecules.csv.gz")
    add(
        "--write",
        action="store_true",
        help="put the tables of benchmarks.tsv into README.md",
    )
    args = parser.parse_args(arguments)
    if args.write:
        results = pd.read_csv(HERE / "benchmarks.tsv", sep="\t", keep_default_na=False)
        known = results["set"].str.startswith("CHEMBL")
        found = {
            "moleculeace": moleculeace(results[known].astype({"rmse_cliffs": float})),
            "biogen": biogen(results[~known]),
            "ablation": ablation(results[known]),
        }
        put(found, HERE / "README.md")
        return
    if not (args.folder and args.moleculeace and args.biogen):
        parser.error("give a folder, --moleculeace and --biogen, or --write")
    os.environ["OMP_NUM_THREADS"] = "1"
    sets = read_sets(args.moleculeace, args.biogen)
    args.folder.mkdir(parents=True, exist_ok=True)
    smiles = write_list(args.folder, sets)
    if args.list:
        return
    if Path(args.start).stem == "minimol" and not Path(args.start).exists():
        with atomic_write(Path(args.start)) as file:
            np.savez(file, smiles=smiles, vectors=teacher(args.folder, smiles))
    for name in args.sets or sets:
        for contender in args.contenders:
            measure(args, name, sets[name], contender)


if __name__ == "__main__":
    sys.exit(main())
