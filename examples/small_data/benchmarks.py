"""MoleculeACE, Biogen ADME and TDC's ADMET group on their splits, beside other models.

    python examples/small_data/benchmarks.py runs/benchmarks --moleculeace SETS \\
        --biogen biogen_polaris.csv.gz --models graphormer-train
    python examples/small_data/benchmarks.py runs/tdc --tdc DATA    # see tdc.py
    python examples/small_data/benchmarks.py --write   # tables into the page

SETS is the folder of the CSV files in the wheel of MoleculeACE 3.0.0. The folder gets
results.tsv; the same command goes on where it was stopped. `chemprop` and `minimol` need
environments of their own (``--chemprop COMMAND``, ``--minimol PYTHON``).

Our choices: one seed; chemprop chooses its epoch on a tenth of the training rows, from
which the other models also learn.
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "pretraining")]

import tdc  # noqa: E402
from blocks import teacher  # noqa: E402
from tsv import append, read  # noqa: E402

from graphormer_plugin.cli import CommandParser, command  # noqa: E402
from graphormer_plugin.data.targets import TargetSchema  # noqa: E402
from graphormer_plugin.estimators.domain import MoleculeDescription  # noqa: E402
from graphormer_plugin.estimators.kernels import molecule_features  # noqa: E402
from graphormer_plugin.workbench.fitting.fit_gp import fit_on_features  # noqa: E402

COLUMNS = "set model rmse rmse_cliffs pearson train test commit".split()
BIOGEN = {
    "HLM_CLint": "HLM CLint",
    "RLM_CLint": "RLM CLint",
    "MDR1_ER": "MDR1 ER",
    "solubility": "solubility",
    "hPPB": "human PPB",
    "rPPB": "rat PPB",
}
# Mean RMSE over the thirty sets, and on cliff molecules: computed from the files of
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
# Pearson's r by the columns of `BIOGEN`, mean of five seeds: JacksonBurns/chemeleon; of
# MolGPS: the leaderboard of Polaris.
PUBLISHED_BIOGEN = {
    "MolGPS, 1 billion weights, ensemble": (0.778, 0.798, 0.879, 0.770, 0.888, 0.908),
    "CheMeleon": (0.718, 0.746, 0.804, 0.656, 0.760, 0.788),
    "MiniMol": (0.724, 0.732, 0.792, 0.687, 0.434, 0.436),
    "MLP on descriptors, pre-trained": (0.661, 0.694, 0.768, 0.552, 0.821, 0.833),
    "fastprop": (0.650, 0.681, 0.744, 0.561, 0.810, 0.795),
    "random forest": (0.657, 0.655, 0.742, 0.575, 0.767, 0.747),
    "chemprop": (0.643, 0.692, 0.697, 0.596, 0.533, 0.208),
}


def read_sets(moleculeace: Path, biogen: Path) -> dict[str, pd.DataFrame]:
    """Columns smiles, y, cliff (0 or 1) and split (train or test) of each set."""
    columns = ["smiles", "y", "cliff", "split"]
    found = {}
    for path in sorted(moleculeace.glob("CHEMBL*.csv")):
        rows = pd.read_csv(path).rename(columns={"cliff_mol": "cliff"})
        found[path.stem] = rows[columns]
    if not found:
        raise ValueError(f"{moleculeace} has no files CHEMBL*.csv")
    for name, rows in pd.read_csv(biogen).assign(cliff=0).groupby("endpoint"):
        found[name] = rows[columns].reset_index(drop=True)
    return found


def run(command: Sequence[object], log: Path) -> None:
    """Raises ValueError, which names the file with the output."""
    quiet = os.environ | {"PYTHONWARNINGS": "ignore"}
    with open(log, "w") as file:
        words = [*map(str, command)]
        code = subprocess.run(words, env=quiet, stdout=file, stderr=file).returncode
    if code:
        raise ValueError(f"{command[0]} ended with code {code}; see {log}")


def train(table: pd.DataFrame, folder: Path, options: Sequence[str] = ()) -> None:
    """The command with its defaults, and further options."""
    table.to_csv(folder / "table.csv", index=False)
    command = [Path(sys.executable).with_name("graphormer-train"), folder / "table.csv"]
    command += ["--target-columns", "y", "--out", folder / "model"]
    run([*command, *options], folder / "log")


def graphormer_train(
    table: pd.DataFrame, folder: Path, args: argparse.Namespace
) -> dict[str, np.ndarray]:
    """The command with its defaults, and the model that it compares with its own."""
    train(table, folder)
    found = pd.read_csv(folder / "model/predictions_test.csv")
    columns = {"graphormer-train": "y_predicted"}
    columns |= {"boosted trees": "y_trees", "head": "y_head"}
    kept = {title: name for title, name in columns.items() if name in found}
    return {title: found[name].to_numpy() for title, name in kept.items()}


def chemprop(
    table: pd.DataFrame, folder: Path, args: argparse.Namespace
) -> dict[str, np.ndarray]:
    """``chemprop train`` with its defaults."""
    train = np.flatnonzero(table.split == "train")
    valid = np.random.default_rng(1).permutation(train)[: len(train) // 10]
    split = table.split.where(~table.index.isin(valid), "val")
    table.assign(split=split).to_csv(folder / "table.csv", index=False)
    command = [args.chemprop, "train", "--data-path", folder / "table.csv"]
    command += ["--output-dir", folder, "--smiles-columns", "smiles"]
    command += ["--target-columns", "y", "--splits-column", "split"]
    command += ["--task-type", "regression", "--pytorch-seed", 1]
    run([*command, "--remove-checkpoints"], folder / "log")
    (path,) = folder.glob("**/test_predictions.csv")
    return {"chemprop": pd.read_csv(path).y.to_numpy()}


def minimol(
    table: pd.DataFrame, folder: Path, args: argparse.Namespace
) -> dict[str, np.ndarray]:
    """A head, fitted as in `graphormer-train`, on MiniMol's own vectors."""
    smiles, learn = table.smiles.tolist(), (table.split == "train").to_numpy()
    table[["smiles"]].to_csv(folder / "molecules.csv.gz", index=False)
    run([args.minimol, HERE.parent / "pretraining/teacher.py", folder], folder / "log")
    raw = {"vectors": teacher(folder, smiles)}
    for block in ("fingerprint", "descriptors"):
        raw[block] = molecule_features(block, smiles)
    head = fit_on_features(
        {block: values[learn] for block, values in raw.items()},
        MoleculeDescription.of(table.smiles[learn], parents=True),
        table.loc[learn, ["y"]].to_numpy(float),
        TargetSchema.of(["y"], kind="regression"),
        seed=1,
    )
    rest = {block: values[~learn] for block, values in raw.items()}
    return {"minimol": head.predict_features(rest).values[:, 0]}


TITLES = {
    "graphormer-train": "`graphormer-train`",
    "minimol": "MiniMol's vectors in our head",
}
MODELS = {"graphormer-train": graphormer_train, "chemprop": chemprop}
MODELS["minimol"] = minimol


def commit() -> str:
    """The commit of this file."""
    words = ["git", "-C", HERE, "describe", "--always", "--dirty", "--abbrev=10"]
    return subprocess.run(words, capture_output=True, text=True).stdout.strip()


def measure(name: str, table: pd.DataFrame, model: str, args: argparse.Namespace):
    """Add the lines of a set to results.tsv, unless they are there."""
    folder, results = args.folder / name / model, args.folder / "results.tsv"
    done = read(results) if results.exists() else []
    if any((row["set"], row["model"]) == (name, model) for row in done):
        return
    folder.mkdir(parents=True, exist_ok=True)
    predicted = MODELS[model](table, folder, args)
    test = table[table.split == "test"]
    cliff = test.cliff.to_numpy() == 1
    lines = []
    for title, values in predicted.items():
        squares = (values - test.y.to_numpy()) ** 2
        cliffs = np.sqrt(squares[cliff].mean()) if cliff.any() else np.nan
        figures = np.sqrt(squares.mean()), cliffs, np.corrcoef(values, test.y)[0, 1]
        sizes = len(table) - len(test), len(test)
        texts = [f"{value:.6f}" for value in figures]
        lines.append([name, title, *texts, *sizes, commit()])
    append(results, COLUMNS, lines)
    print(*lines, sep="\n", flush=True)


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def moleculeace(results: pd.DataFrame) -> str:
    """Mean RMSE over the thirty sets, best first."""
    rows = [(*pair, name, "published") for name, pair in PUBLISHED.items()]
    for model, part in results.groupby("model"):
        figures = part.rmse.mean(), part.rmse_cliffs.mean()
        rows.append((*figures, TITLES.get(model, model), "measured here"))
    cells = [
        [name, f"{a:.3f}", f"{b:.3f}", source] for a, b, name, source in sorted(rows)
    ]
    return markdown(["", "RMSE", "RMSE on cliff molecules", ""], cells)


def biogen(results: pd.DataFrame) -> str:
    """Pearson's r of each endpoint, best mean first."""
    rows = [(values, name, "published") for name, values in PUBLISHED_BIOGEN.items()]
    for model, part in results.groupby("model"):
        values = part.set_index("set").pearson[[*BIOGEN]]
        rows.append((tuple(values), TITLES.get(model, model), "measured here"))
    rows.sort(key=lambda row: -np.mean(row[0]))
    cells = [[name, *(f"{r:.3f}" for r in row), source] for row, name, source in rows]
    return markdown(["", *BIOGEN.values(), ""], cells)


def write(page: Path, results: pd.DataFrame) -> None:
    """Put the tables into a page, between the lines with their names."""
    known = results["set"].str.startswith("CHEMBL")
    header, *rows = tdc.page_rows(pd.DataFrame())
    tables = {
        "moleculeace": moleculeace(results[known]),
        "biogen": biogen(results[~known]),
        "tdc": markdown(header, rows),
    }
    text = page.read_text(encoding="utf-8")
    for name, table in tables.items():
        marked = rf"(<!-- figures: {name} -->\n).*?(<!-- end -->)"
        text = re.sub(marked, rf"\g<1>\n{table}\n\g<2>", text, flags=re.DOTALL)
    page.write_text(text, encoding="utf-8")


@command
def main(arguments: Sequence[str] | None = None) -> None:
    parser = CommandParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("folder", type=Path, nargs="?", help="of trainings and results.tsv")
    add("--moleculeace", type=Path, help="folder of the CSV files of MoleculeACE")
    add("--biogen", type=Path, help="table with endpoint, split, smiles, y")
    add("--tdc", type=Path, help="folder with admet_group, as PyTDC writes it")
    add("--sets", nargs="+", default=[], help="names of sets; default: all")
    add("--models", nargs="+", default=["graphormer-train"], choices=MODELS)
    add("--chemprop", default="chemprop", help="command of chemprop")
    add("--minimol", default="python", help="Python of an environment with MiniMol")
    add("--write", action="store_true", help="benchmarks.tsv as tables into README.md")
    args = parser.parse_args(arguments)
    if args.write:
        write(HERE / "README.md", pd.read_csv(HERE / "benchmarks.tsv", sep="\t"))
        return
    os.environ["OMP_NUM_THREADS"] = "1"
    if args.folder and args.tdc:
        args.folder.mkdir(parents=True, exist_ok=True)
        tdc.measure(args.tdc, args.folder / "tdc.tsv", args.sets, commit(), train)
        return
    if not (args.folder and args.moleculeace and args.biogen):
        parser.error("give a folder, --moleculeace and --biogen, or --tdc, or --write")
    sets = read_sets(args.moleculeace, args.biogen)
    for name in args.sets or sets:
        for model in args.models:
            measure(name, sets[name], model, args)


if __name__ == "__main__":
    sys.exit(main())
