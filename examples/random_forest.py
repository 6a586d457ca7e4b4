"""A random forest on Morgan fingerprints, one forest per target.

    python examples/random_forest.py --dataset-name ogbg-molhiv
    python examples/random_forest.py --dataset-name bbbp.csv --target-kind binary --split scaffold

trains on train, prints the metric on valid and test, and appends a line for test to
`results.tsv`. The dataset is a CSV file, or OGB's list of SMILES (`mapping/mol.csv.gz` and
`split/scaffold/` below the data root). It takes the flags of `graphormer-preprocess`.

Settings of classes: the code of the row "Morgan Finger Prints + Random Forest" of Table 12
of Ying et al. 2021 (cyrusmaher/ogb-molecule-comp, OGBcomp.ipynb and ogbcomp_helper.py):
2048 bits of radius 2, 1000 trees, at least 2 molecules in a leaf, scikit-learn's defaults;
of more than 50,000 labels at most 50,000 negatives, or 20 per positive, train.
Regression is our choice: the same trees, a third of the bits at each split. Another number
of trees is a variant in the table.
"""

import dataclasses
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from platform import machine

import numpy as np
import record
from rdkit import Chem, rdBase
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from graphormer_plugin.cli import CommandParser, command
from graphormer_plugin.criterions.metrics import METRICS
from graphormer_plugin.data.checks import molecule_key
from graphormer_plugin.data.datasets.csv_file import csv_dataset
from graphormer_plugin.data.datasets.ogb import MOLHIV, MOLPCBA
from graphormer_plugin.data.descriptors import morgan_counts
from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.options import (
    DatasetConfig,
    DatasetOptions,
    add_flag,
)
from graphormer_plugin.data.registry import DatasetSource
from graphormer_plugin.data.schema import mean_of_defined
from graphormer_plugin.data.smiles import mol_of_any_smiles, murcko_scaffold
from graphormer_plugin.data.splits import scaffold_split
from graphormer_plugin.data.store.build import hash_of_rows
from graphormer_plugin.data.tables.formats import open_table
from graphormer_plugin.data.tables.roles import find_split
from graphormer_plugin.experiment.scores import MAIN, pairs, score

BENCHMARKS = {"ogbg-molhiv": MOLHIV, "ogbg-molpcba": MOLPCBA}
MOST_NEGATIVES, NEGATIVES_PER_POSITIVE = 50_000, 20
TREES = 1000
ROWS = 10_000  # molecules at once, whose counts become bits


def load(options: DatasetOptions) -> tuple[str, DatasetSource, str]:
    """Name for the table, SMILES, targets and splits of a dataset, and what a file is
    split by.

    Raises:
        DatasetError: it cannot be read, or has no list of SMILES.
    """
    benchmark = BENCHMARKS.get(options.name)
    if benchmark is not None:
        missing = benchmark.smiles.missing(options)
        if missing:
            raise DatasetError(f"{options.name} is not there: no {missing[0]}")
        source = dataclasses.replace(benchmark, graphs=benchmark.smiles).load(options)
        return options.name.removeprefix("ogbg-"), source, ""
    source = csv_dataset(options)
    if source.splits is None:
        mols = [mol_of_any_smiles(text) for text in source.smiles]
        splits = scaffold_split(
            [*map(murcko_scaffold, mols)],
            seed=options.seed,
            labels=source.targets,
            molecules=[molecule_key(Chem.MolToSmiles(mol)) for mol in mols],
        )
        source = dataclasses.replace(source, splits=splits)
    column = find_split(open_table(options.path), options)
    split = f"column:{column}" if column else f"{options.split or 'random'} split"
    return source.label, source, split


def morgan_bits(smiles: Sequence[str]) -> np.ndarray:
    """bool [n, 2048], whether each environment occurs."""
    parts = [smiles[start : start + ROWS] for start in range(0, len(smiles), ROWS)]
    return np.concatenate(
        [morgan_counts(p, parse=mol_of_any_smiles) > 0 for p in parts]
    )


def training_rows(labels: np.ndarray, kind: str, seed: int) -> np.ndarray:
    """Rows with a label; of very many negatives a random part."""
    rows = np.flatnonzero(~np.isnan(labels))
    if kind == "regression" or len(rows) <= MOST_NEGATIVES:
        return rows
    positive, negative = rows[labels[rows] == 1], rows[labels[rows] == 0]
    most = max(MOST_NEGATIVES, NEGATIVES_PER_POSITIVE * len(positive))
    kept = np.random.default_rng(seed).permutation(negative)[:most]
    return np.sort(np.concatenate([positive, kept]))


def fit(
    bits: np.ndarray, labels: np.ndarray, kind: str, trees: int, seed: int, jobs: int
) -> RandomForestClassifier | RandomForestRegressor:
    """A forest for one target.

    Args:
        bits: [n, F].
        labels: [n], NaN where there is none.
        kind: binary or regression.
        trees: their number.
        seed: of the forest and of the negatives that are left out.
        jobs: threads.
    """
    shared = {"n_estimators": trees, "min_samples_leaf": 2}
    shared |= {"random_state": seed, "n_jobs": jobs}
    rows = training_rows(labels, kind, seed)
    if kind == "regression":
        forest = RandomForestRegressor(max_features=1 / 3, **shared)
        return forest.fit(bits[rows], labels[rows])
    return RandomForestClassifier(**shared).fit(bits[rows], labels[rows].astype(int))


def scores(forest, bits: np.ndarray) -> np.ndarray:
    """Predicted value, or probability of class 1."""
    if isinstance(forest, RandomForestRegressor):
        return forest.predict(bits)
    chances = np.zeros((len(bits), 2))
    chances[:, forest.classes_] = forest.predict_proba(bits)
    return chances[:, 1]


@command
def main(argv: Sequence[str] | None = None) -> int:
    parser = CommandParser(description=__doc__.splitlines()[0])
    for option in dataclasses.fields(DatasetConfig):
        add_flag(parser, option, option.name.removeprefix("prepare_"))
    parser.add_argument("--seed", type=int, default=1, help="of forest and split")
    parser.add_argument("--trees", type=int, default=TREES)
    parser.add_argument("--metric", help="instead of AP (molpcba), ROC-AUC or RMSE")
    parser.add_argument("--jobs", type=int, default=1, help="threads")
    parser.add_argument(
        "--results", type=Path, default=Path(__file__).with_name("results.tsv")
    )
    arguments = parser.parse_args(argv)
    options = DatasetOptions.from_config(arguments, seed=arguments.seed)
    quiet = rdBase.BlockLogs()  # a line for each molecule that is unusual
    if options.target_kind == "multiclass":
        raise DatasetError("a forest here is for regression or binary targets")
    try:
        name, source, split_by = load(options)
    except DatasetError as error:
        if options.name not in BENCHMARKS:
            raise
        print(f"skipped: {error}")
        return 0
    for split in ("train", "valid", "test"):
        if not len(source.splits.get(split, ())):
            raise DatasetError(f"{name}: no molecules in split {split}")
    kind = source.kind
    usual = "ap" if name == "molpcba" else MAIN[kind].name
    measured = arguments.metric or usual
    if measured not in METRICS[kind]:
        known = ", ".join(METRICS[kind])
        raise DatasetError(
            f"no metric {measured!r} of {kind} targets; there are {known}"
        )

    bits, targets = morgan_bits(source.smiles), np.asarray(source.targets)
    del quiet
    parts = {split: np.asarray(rows) for split, rows in source.splits.items()}
    found = {split: [] for split in ("valid", "test")}
    started, nodes = time.monotonic(), 0
    for labels in targets.T:
        forest = fit(
            bits[parts["train"]],
            labels[parts["train"]],
            kind,
            arguments.trees,
            arguments.seed,
            arguments.jobs,
        )
        nodes += sum(tree.tree_.node_count for tree in forest.estimators_)
        for split, columns in found.items():
            columns.append(scores(forest, bits[parts[split]]))
    values = {}
    for split, columns in found.items():
        both = pairs(kind, np.stack(columns, 1), targets[parts[split]])
        values[split] = mean_of_defined([score(measured, *pair) for pair in both])
    row = dict.fromkeys(record.summarise.COLUMNS, "") | {
        "recipe": f"{name}/random_forest",
        "variant": "" if arguments.trees == TREES else f"{arguments.trees} trees",
        "dataset": options.name if options.name in BENCHMARKS else name,
        "source": split_by,
        "fingerprint": hash_of_rows(source.smiles)[:12],
        "commit": record.commit(),
        "arch": "random_forest",
        "parameters": nodes,
        "seed": arguments.seed,
        **dict.fromkeys(("epochs", "updates", "batch"), 0),
        "subset": "test",
        "metric": measured,
        "value": f"{values['test']:.6g}",
        "device": f"{arguments.jobs} thread{'s'[: arguments.jobs > 1]} of {machine()}",
        "devices": 1,
        "seconds": round(time.monotonic() - started),
    }
    record.append(arguments.results, row)
    shown = ", ".join(f"{split} {value:.4f}" for split, value in values.items())
    print(f"{name}, {len(targets.T)} targets: {measured} {shown}; {arguments.results}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
