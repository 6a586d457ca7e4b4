"""Boosted trees on Peptides-func: test AP on LRGB's split, mean over the ten classes.

python examples/small_data/peptides.py FOLDER   # of LRGB's two official files
"""

import ast
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import average_precision_score

from graphormer_plugin.cli import CommandParser, command
from graphormer_plugin.data.benchmarks.pickles import load_pickle
from graphormer_plugin.data.graphs.smiles import mol_of_smiles
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.estimators.domain import MoleculeDescription
from graphormer_plugin.estimators.kernels import molecule_features
from graphormer_plugin.workbench.fitting.fit_trees import fit_trees

TABLE = "peptide_multi_class_dataset.csv.gz"
SPLIT = "splits_random_stratified_peptide.pickle"


@command
def main(arguments: Sequence[str] | None = None) -> None:
    parser = CommandParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help=f"has {TABLE} and {SPLIT}")
    parser.add_argument("--trees", type=int, default=300, help="default: 300")
    args = parser.parse_args(arguments)
    table = pd.read_csv(args.folder / TABLE)
    rows = load_pickle((args.folder / SPLIT).read_bytes())
    labels = np.array([*map(ast.literal_eval, table.labels)], float)
    mols = [*map(mol_of_smiles, table.smiles)]
    raw = {x: molecule_features(x, mols) for x in ("fingerprint", "descriptors")}
    print(f"features: {time.process_time():.0f} s of CPU time")
    fitted = np.concatenate([rows["train"], rows["val"]])
    schema = TargetSchema.of(
        [f"class {k}" for k in range(labels.shape[1])], kind="binary"
    )
    trees = fit_trees(
        {name: values[fitted] for name, values in raw.items()},
        MoleculeDescription.of(mols)[fitted],
        labels[fitted],
        schema,
        trees=args.trees,
    )
    test = np.asarray(rows["test"])
    found = trees.predict_features({name: x[test] for name, x in raw.items()})
    ap = average_precision_score(labels[test], found.values)
    print(f"all: {time.process_time():.0f} s of CPU time\ntest AP {ap:.4f}")


if __name__ == "__main__":
    sys.exit(main())
