"""What are groups of descriptors worth to a head, beside the vectors and the fingerprint?

    python examples/small_data/descriptor_groups.py --moleculeace SETS \\
        --biogen biogen_polaris.csv.gz

Five-fold cross-validation on the training rows of eleven sets of MoleculeACE and of
Biogen's six endpoints. Hyper-parameters are fitted once, to 500 molecules of a set. Prints
by how many percent the RMSE exceeds the RMSE with the descriptors of heads, mean ±
standard error over the sets.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks import read_sets
from rdkit.Chem import Descriptors
from rdkit.Chem.rdMolDescriptors import MQNs_
from scipy.linalg import cho_factor, cho_solve

from graphormer_plugin import hub
from graphormer_plugin.cli import CommandParser, command
from graphormer_plugin.data.graphs.descriptors import COMPUTED
from graphormer_plugin.estimators.kernels import (
    Floats,
    Reference,
    molecule_features,
    weighted_sum,
)
from graphormer_plugin.workbench.fitting import marginal_likelihood

DEVELOPMENT = [
    *("CHEMBL218_EC50", "CHEMBL231_Ki", "CHEMBL237_EC50", "CHEMBL262_Ki"),
    *("CHEMBL287_Ki", "CHEMBL1862_Ki", "CHEMBL1871_Ki", "CHEMBL2047_EC50"),
    *("CHEMBL2835_Ki", "CHEMBL4203_Ki", "CHEMBL4792_Ki"),
]
FOLDS, FITTED = 5, 500
FEW, REPEATS = 300, 4  # smaller sets are divided into folds several times
NAMES = [name for name, _ in Descriptors.descList if name != "Ipc"]
NAMES += [f"MQN{number}" for number in range(1, 43)]
# Numbers that come from Crippen's contributions of atoms, and others of some tenths of a
# millisecond.
CRIPPEN = re.compile("MolLogP|MolMR|(SMR|SlogP)_VSA.*")
CHARGES = re.compile(".*PartialCharge|PEOE_VSA.*|NumRotatableBonds|NumHAcceptors")
KEPT = "kept, and the MQN"
SLOW = ("BCUT2D", "BertzCT", "AvgIpc", "SPS", "qed")
GROUPS = {
    "all of RDKit": [name for name in NAMES if not name.startswith("MQN")],
    "without QED, BCUT2D, SPS, BertzCT, AvgIpc": [
        name for name in NAMES if not name.startswith(("MQN", *SLOW))
    ],
    KEPT: COMPUTED,
    "kept, without the MQN": [name for name in COMPUTED if "MQN" not in name],
    "kept, without Crippen's": [n for n in COMPUTED if not CRIPPEN.fullmatch(n)],
    "kept, without Crippen's, charges, rotatable bonds and acceptors": [
        n for n in COMPUTED if not (CRIPPEN.fullmatch(n) or CHARGES.fullmatch(n))
    ],
    "molecular weight alone": ["MolWt"],
}


def error(blocks: Sequence[str], compared: Sequence[Floats], labels: Floats) -> float:
    """RMSE over all folds, of standardised labels; ``compared`` is `Reference.compare` of
    each block [n, n]."""
    count, rng = len(labels), np.random.default_rng(1)
    repeats = REPEATS if count < FEW else 1
    folds = [rng.permutation(count) % FOLDS for _ in range(repeats)]
    rows = np.sort(rng.choice(count, min(count, FITTED), replace=False))
    standard, ones = (labels - labels.mean()) / labels.std(), np.ones(len(rows))
    found = marginal_likelihood.fit(
        blocks,
        [matrix[np.ix_(rows, rows)] for matrix in compared],
        [(np.arange(len(rows)), standard[rows], ones, 0 * ones)],
    )
    kernel = weighted_sum(blocks, compared, found.weights, found.lengths)
    kernel[np.diag_indices(count)] += found.noise
    errors = np.empty((repeats, count))
    for row, fold in zip(errors, folds, strict=True):
        for tested in range(FOLDS):
            train, test = np.flatnonzero(fold != tested), np.flatnonzero(fold == tested)
            factor = cho_factor(kernel[np.ix_(train, train)], lower=True)
            mean = standard[train].mean()
            dual = cho_solve(factor, standard[train] - mean)
            row[test] = mean + kernel[np.ix_(test, train)] @ dual - standard[test]
    return float(np.sqrt(np.mean(errors**2, 1)).mean())


@command
def main(arguments: Sequence[str] | None = None) -> None:
    parser = CommandParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--moleculeace", type=Path, required=True)
    parser.add_argument("--biogen", type=Path, required=True)
    args = parser.parse_args(arguments)
    start, found = hub.load("grpe_minimol", head=None, domain=False), []
    for name, rows in read_sets(args.moleculeace, args.biogen).items():
        if name.startswith("CHEMBL") and name not in DEVELOPMENT:
            continue
        rows = rows[rows.split == "train"]
        molecules = start.read(rows.smiles.tolist())
        mols, labels = molecules.descriptor_mols, rows.y.to_numpy(float)
        values = pd.DataFrame([Descriptors.CalcMolDescriptors(mol) for mol in mols])
        quantum = pd.DataFrame([[*MQNs_(mol)] for mol in mols], columns=NAMES[-42:])
        values = values.join(quantum).astype(np.float32)
        raw = {"vectors": start.embed(molecules)}
        raw["fingerprint"] = molecule_features("fingerprint", mols)
        others = [Reference(b, raw[b]).compare(raw[b]) for b in raw]
        for group, columns in GROUPS.items():
            described = values[columns].to_numpy()
            block = Reference("descriptors", described).compare(described)
            blocks, compared = [*raw, "descriptors"], [*others, block]
            rmse = error(blocks, compared, labels)
            found.append((name.startswith("CHEMBL"), name, group, rmse))
    table = pd.DataFrame(found, columns=["ace", "set", "group", "rmse"])
    wide = table.pivot(index=["ace", "set"], columns="group", values="rmse")[[*GROUPS]]
    more = 100 * (wide.div(wide[KEPT], axis=0) - 1)
    print("|  | numbers | MoleculeACE, % | Biogen, % |\n| --- | --- | --- | --- |")
    for group, columns in GROUPS.items():
        cells = [
            f"{part.mean():+.2f} ± {part.sem():.2f}"
            for part in (more.loc[True, group], more.loc[False, group])
        ]
        print(f"| {group} | {len(columns)} | {cells[0]} | {cells[1]} |")


if __name__ == "__main__":
    sys.exit(main())
