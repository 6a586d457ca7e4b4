"""False shares of shortlists of the highest quarter of MoleculeACE's sets, with calibration
molecules that are drawn like the library, and with others.

    python examples/predicting/shortlists.py SETS runs/shortlists.csv

SETS is the folder of the CSV files in the wheel of MoleculeACE 3.0.0. A line of the CSV is
the mean of a set; the same command goes on where it was stopped.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmilesFromSmiles

from graphormer_plugin import hub
from graphormer_plugin.data.splits import random_split, scaffold_split
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.estimators.domain import MoleculeDescription
from graphormer_plugin.estimators.kernels import molecule_features
from graphormer_plugin.workbench.fitting.fit_gp import BLOCKS, fit_on_features
from graphormer_plugin.workbench.predictions.shortlist import Shortlist, selected

RATIOS, SEED, DRAWS = (0.6, 0.2, 0.2), 1, 100
SHARES = 0.1, 0.2


def figures(values, labels, calibrates):
    """False share of a list, share of the hits that it has, for each of `SHARES`."""
    is_hit = labels > np.quantile(labels, 0.75)
    failing = np.sort(values[calibrates & ~is_hit])
    found = []
    for share in SHARES:
        part = Shortlist(0, 1, failing, calibrates.sum(), share, "")
        is_listed = selected(part.p_values(values[~calibrates]), share)
        hits = is_hit[~calibrates]
        false = (is_listed & ~hits).sum() / max(is_listed.sum(), 1)
        found += [false, (is_listed & hits).sum() / max(hits.sum(), 1)]
    return found


def measure(table):
    """Rows of `figures` of a set."""
    smiles = table.smiles.tolist()
    raw = {"vectors": hub.load("grpe_minimol", head=None).embed(smiles)}
    raw |= {b: molecule_features(b, smiles) for b in BLOCKS if b != "vectors"}
    description = MoleculeDescription.of(smiles, parents=True)
    labels = table.y.to_numpy()
    rng = np.random.default_rng(SEED)

    def predict(rows):
        part = {block: x[rows] for block, x in raw.items()}
        schema = TargetSchema.of(["y"])
        head = fit_on_features(
            part, description[rows], labels[rows, None], schema, seed=SEED
        )
        return head.predict_features(raw).values[:, 0]

    def one(values, calibration, library):
        rows = np.concatenate([calibration, library])
        calibrates = np.arange(len(rows)) < len(calibration)
        return figures(values[rows], labels[rows], calibrates)

    train, valid, test = random_split(len(smiles), SEED, RATIOS).values()
    values, count = predict(train), len(valid)
    draws = [rng.permutation(np.concatenate([valid, test])) for _ in range(DRAWS)]
    same = np.mean([one(values, d[:count], d[count:]) for d in draws], 0)
    permuted = np.mean(
        [one(rng.permutation(values), d[:count], d[count:]) for d in draws], 0
    )
    scaffolds = [MurckoScaffoldSmilesFromSmiles(text) for text in smiles]
    train, valid, test = scaffold_split(scaffolds, RATIOS, SEED).values()
    apart = one(predict(train), valid, test)
    mixed = rng.permutation(np.concatenate([train, valid]))
    new = one(predict(mixed[count:]), mixed[:count], test)
    titles = ["random", "values permuted", "scaffold"]
    titles.append("random, library of new scaffolds")
    return zip(titles, [same, permuted, apart, new])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sets", type=Path)
    parser.add_argument("output", type=Path)
    args = parser.parse_args(arguments)
    names = [f"{what} {share}" for share in SHARES for what in ("false", "found")]
    for path in sorted(args.sets.glob("CHEMBL*.csv")):
        done = pd.read_csv(args.output)["set"].tolist() if args.output.exists() else []
        if path.stem not in done:
            lines = [[path.stem, line, *x] for line, x in measure(pd.read_csv(path))]
            frame = pd.DataFrame(lines, columns=["set", "split", *names])
            frame.to_csv(args.output, mode="a", header=not done, index=False)
    groups = pd.read_csv(args.output).groupby("split", sort=False)[names]
    print(
        groups.mean().round(3).to_string(), groups.sem().round(3).to_string(), sep="\n"
    )


if __name__ == "__main__":
    sys.exit(main())
