"""Vectors judged by cross-validation on training rows of MoleculeACE and Biogen ADME.

    python examples/pretraining/judge.py grpe_small_descriptors --sets SETS \\
        --biogen biogen_polaris.csv.gz --results pilots.tsv

SETS is a folder with the CSV files of the PyPI package MoleculeACE 3.0.0. Test rows are
not read: they are for the final start. The vectors are those of a checkpoint, a start of
the package, or a file .npy with a row for each molecule of the sets, in the order that
`--smiles FILE` writes.

Our choices: eleven development sets, and HLM clearance and solubility of Biogen; five
folds by a seed; the kernels of a head, whose hyper-parameters are fitted once per set, to
500 of its molecules. All vectors are judged alike, so that the labels of a fold among
these do not favour any.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.linalg import cho_factor, cho_solve

from graphormer_plugin import hub
from graphormer_plugin.cli import command
from graphormer_plugin.heads import marginal_likelihood
from graphormer_plugin.heads.kernels import (
    Floats,
    Reference,
    raw_features,
    weighted_sum,
)

DEVELOPMENT = [
    *("CHEMBL218_EC50", "CHEMBL231_Ki", "CHEMBL237_EC50", "CHEMBL262_Ki"),
    *("CHEMBL287_Ki", "CHEMBL1862_Ki", "CHEMBL1871_Ki", "CHEMBL2047_EC50"),
    *("CHEMBL2835_Ki", "CHEMBL4203_Ki", "CHEMBL4792_Ki"),
]
BIOGEN = ("HLM_CLint", "solubility")
BLOCKS = {
    "vectors": ["vectors"],
    "vectors + fingerprint": ["vectors", "fingerprint"],
    "all": ["vectors", "fingerprint", "descriptors"],
}
FOLDS, FITTED, SEED = 5, 500, 1

Set = tuple[list[str], Floats]  # SMILES and labels [n]


def training_rows(sets: Path, biogen: Path) -> dict[str, Set]:
    """SMILES and labels of the training rows of each set."""
    found = {}
    for name in DEVELOPMENT:
        table = pd.read_csv(sets / f"{name}.csv")
        table = table[table.split == "train"]
        found[name] = table.smiles.tolist(), table.y.to_numpy(float)
    table = pd.read_csv(biogen)
    for name in BIOGEN:
        part = table[(table.endpoint == name) & (table.split == "train")]
        if part.empty:
            raise ValueError(f"{biogen}: no training rows of the endpoint {name}")
        found[name] = part.smiles.tolist(), part.y.to_numpy(float)
    return found


def cross_validated(
    blocks: Sequence[str], compared: Sequence[Floats], labels: Floats
) -> float:
    """RMSE over all folds; ``compared`` is `Reference.compare` of each block [n, n]."""
    count, rng = len(labels), np.random.default_rng(SEED)
    fold = rng.permutation(count) % FOLDS
    rows = np.sort(rng.choice(count, min(count, FITTED), replace=False))
    standard = (labels - labels.mean()) / labels.std()
    ones = np.ones(len(rows))
    found = marginal_likelihood.fit(
        blocks,
        [matrix[np.ix_(rows, rows)] for matrix in compared],
        [(np.arange(len(rows)), standard[rows], ones, 0 * ones)],
    )
    kernel = weighted_sum(blocks, compared, found.weights, found.lengths)
    errors = np.empty(count)
    for number in range(FOLDS):
        train, test = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        noisy = kernel[np.ix_(train, train)]
        noisy[np.diag_indices(len(train))] += found.noise + marginal_likelihood.JITTER
        mean, spread = labels[train].mean(), labels[train].std()
        dual = cho_solve(cho_factor(noisy, lower=True), (labels[train] - mean) / spread)
        predicted = mean + spread * (kernel[np.ix_(test, train)] @ dual)
        errors[test] = predicted - labels[test]
    return float(np.sqrt(np.mean(errors**2)))


def judge(sets: dict[str, Set], vectors: Floats) -> dict[tuple[str, str], float]:
    """RMSE by set and key of `BLOCKS`; vectors [n, D] of `training_rows`, set by set."""
    found, start = {}, 0
    for name, (smiles, labels) in sets.items():
        part = vectors[start : (start := start + len(smiles))]
        compared = {}
        for block in BLOCKS["all"]:
            raw = raw_features(block, part, smiles)
            compared[block] = Reference(block, raw).compare(raw)
        for key, blocks in BLOCKS.items():
            matrices = [compared[block] for block in blocks]
            found[name, key] = cross_validated(blocks, matrices, labels)
    return found


@command
def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("vectors", help="checkpoint, start of the package, or file .npy [n, D]")
    add("--sets", type=Path, required=True, help="folder of MoleculeACE's CSV files")
    add("--biogen", type=Path, required=True, help="table of Biogen ADME")
    add("--name", help="in the results; default: the vectors")
    add("--results", type=Path, help="TSV that gets a line for each set and blocks")
    add("--smiles", type=Path, help="write the molecules to this file, nothing else")
    args = parser.parse_args(arguments)
    sets = training_rows(args.sets, args.biogen)
    smiles = [text for texts, _ in sets.values() for text in texts]
    if args.smiles:
        args.smiles.write_text("".join(f"{text}\n" for text in smiles))
        return
    if args.vectors.endswith(".npy"):
        vectors = np.load(args.vectors)
    else:
        vectors = hub.load(args.vectors, head=None).embed(smiles)
    if len(vectors) != len(smiles):
        raise ValueError(f"{len(vectors)} vectors of {len(smiles)} molecules")
    found = judge(sets, vectors)
    for key in BLOCKS:
        ace = np.mean([found[name, key] for name in DEVELOPMENT])
        biogen = np.mean([found[name, key] for name in BIOGEN])
        print(f"{key}: mean RMSE {ace:.4f} (MoleculeACE), {biogen:.4f} (Biogen)")
    if args.results:
        name, new = args.name or args.vectors, not args.results.exists()
        lines = [[name, *key, f"{value:.4f}"] for key, value in found.items()]
        table = pd.DataFrame(lines, columns=["name", "set", "blocks", "rmse"])
        table.to_csv(args.results, sep="\t", mode="a", header=new, index=False)


if __name__ == "__main__":
    sys.exit(main())
