"""Ten rounds of twenty molecules of each set of MoleculeACE, chosen in five ways.

    python examples/next_batch/retrospective.py SETS runs/next.tsv --seeds 1
    python examples/next_batch/retrospective.py --show

SETS is the folder of the CSV files in the wheel of MoleculeACE 3.0.0. The first 50 molecules
of a set's training split are drawn at random; its test split gives the RMSE. The same
command goes on where it was stopped; --show prints the tables of retrospective.tsv.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tsv import append  # noqa: E402

from graphormer_plugin import hub  # noqa: E402
from graphormer_plugin.data.targets import TargetSchema  # noqa: E402
from graphormer_plugin.estimators.domain import MoleculeDescription  # noqa: E402
from graphormer_plugin.workbench.experiment.comparison import differences  # noqa: E402
from graphormer_plugin.workbench.fitting import fit_gp as fitting  # noqa: E402
from graphormer_plugin.workbench.predictions import batch_choice  # noqa: E402

START, ROUNDS, SIZE, SURVIVORS = 50, 10, 20, 1000
WAYS = ["random", "greedy", "upper bound", "highest", "learn"]
COLUMNS = ["set", "seed", "way", "found", "below", "rmse"]


def choose(way, head, raw, measured, rng):
    """Rows of the pool to measure next."""
    left = np.flatnonzero(~measured)
    if way == "random":
        return rng.choice(left, SIZE, replace=False)
    features = {name: x[left] for name, x in raw.items()}
    values, std, _ = head.predict_features(features)
    bound = values[:, 0] + {"upper bound": 1.645}.get(way, 0) * std[:, 0]
    if way in ("greedy", "upper bound"):
        return left[np.argsort(-bound)[:SIZE]]
    bound = (
        values[:, 0] + 1.645 * std[:, 0] if way == "highest" else rng.random(len(left))
    )
    kept = np.argsort(-bound)[:SURVIVORS]
    joint = head.joint({name: x[kept] for name, x in features.items()}, 0)
    costs = np.ones(len(kept))
    if way == "highest":
        known = {name: x[measured] for name, x in raw.items()}
        best = head.predict_features(known).values.max()
        draws = batch_choice.joint_draws([joint], rng)
        choice = batch_choice.highest(draws, best, SIZE, costs)
    else:
        choice = batch_choice.most_informative(*joint[1:], SIZE, costs)
    return left[kept[choice.rows]]


def play(raw, description, y, is_test, way, seed):
    """Share of the most active 5 % that is found, how far the best is below that of the pool
    (mean of the rounds), and RMSE of the test split."""
    rng = np.random.default_rng(seed)
    schema = TargetSchema.of(["y"])
    pool, test = np.flatnonzero(~is_test), {n: x[is_test] for n, x in raw.items()}
    raw = {name: x[pool] for name, x in raw.items()}
    measured = np.zeros(len(pool), bool)
    measured[rng.choice(len(pool), START, replace=False)] = True
    labels = y[pool]

    def fit():
        features = {name: x[measured] for name, x in raw.items()}
        known = description[pool[measured]]
        return fitting.fit_on_features(features, known, labels[measured, None], schema)

    below = []
    for _ in range(ROUNDS):
        head = None if way == "random" else fit()
        measured[choose(way, head, raw, measured, rng)] = True
        below.append(labels.max() - labels[measured].max())
    errors = fit().predict_features(test).values[:, 0] - y[is_test]
    top = labels >= np.quantile(labels, 0.95)
    return measured[top].mean(), np.mean(below), np.sqrt(np.mean(errors**2))


def show(results):
    for metric in COLUMNS[3:]:
        values = results.pivot_table(metric, "set", "way")[WAYS]
        print(f"\n{metric}, mean of {len(values)} sets, {results.seed.nunique()} seeds")
        print(values.mean().round(3).to_string())
        for (a, b), mean, half, p in differences(values):
            print(f"{a} - {b}: {mean:+.3f} ± {half:.3f}, p {p:.2g}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sets", type=Path, nargs="?")
    parser.add_argument(
        "results", type=Path, nargs="?", default=HERE / "retrospective.tsv"
    )
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="the tables of the results")
    args = parser.parse_args()
    if args.show:
        return show(pd.read_csv(args.results, sep="\t"))
    done = pd.read_csv(args.results, sep="\t") if args.results.exists() else None
    done = set() if done is None else {*map(tuple, done[COLUMNS[:3]].to_numpy())}
    predictor = hub.load("grpe_minimol")
    features = {}
    for seed in range(1, args.seeds + 1):
        for path in sorted(args.sets.glob("CHEMBL*.csv")):
            table = pd.read_csv(path)
            smiles, y = [*table.smiles], table.y.to_numpy()
            for way in WAYS:
                if (path.stem, seed, way) in done:
                    continue
                if path not in features:
                    molecules = predictor.read(smiles)
                    raw = {
                        name: molecules.features(name)
                        for name in ("fingerprint", "descriptors")
                    }
                    raw["vectors"] = np.float32(predictor.embed(molecules))
                    description = MoleculeDescription.of(smiles, parents=True)
                    features[path] = raw, description
                is_test = (table.split == "test").to_numpy()
                figures = play(*features[path], y, is_test, way, seed)
                line = [path.stem, seed, way, *(f"{figure:.4f}" for figure in figures)]
                append(args.results, COLUMNS, [line])
                print(*line, flush=True)


if __name__ == "__main__":
    main()
