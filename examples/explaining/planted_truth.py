"""Do values of atoms find the contributions that made the labels?

    python examples/explaining/planted_truth.py zinc12k.csv.gz runs/truth \\
        --chemprop CHEMPROP/bin/chemprop

Models learn Crippen's logP and the polar surface of 500 training molecules of ZINC; RDKit
knows what each atom adds to those. Prints the test r^2 and, as the mean ± standard error
over 100 other molecules of at most 16 atoms, the correlation of an explanation with the
truth among the atoms of a molecule. chemprop trains with its defaults and explains by its
Myerson callback.
"""

import argparse
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
from rdkit import Chem

from graphormer_plugin import hub
from graphormer_plugin.data.graphs.atom_parts import descriptor_parts
from graphormer_plugin.data.graphs.descriptors import COMPUTED, rdkit_descriptors
from graphormer_plugin.inference.checkpoint import checkpoint_path
from graphormer_plugin.workbench.explain.masking import ATOMS, contributions, shares
from graphormer_plugin.workbench.explain.sums import prediction_sum
from graphormer_plugin.workbench.fitting.fit_gp import BLOCKS, fit_gp

TRAIN, TEST, LARGEST = 500, 100, 16
TARGETS = ("MolLogP", "TPSA")


def molecules(path):
    """SMILES of the training and of the test molecules, all of the training split."""
    table = pd.read_csv(path).query("split == 'train'").sample(frac=1, random_state=1)
    train = table.smiles[:TRAIN].tolist()
    sizes = table.smiles.map(lambda text: Chem.MolFromSmiles(text).GetNumAtoms())
    return train, table.smiles[TRAIN:][sizes[TRAIN:] <= LARGEST][:TEST].tolist()


def explained(folder, train, labels, test, blocks):
    """Predictions of a head on blocks of features, and values of atoms by explanation."""
    path = folder / "best.pt"
    shutil.copy(checkpoint_path("grpe_minimol"), path)
    fit_gp(path, train, labels, blocks=blocks).save(folder / "head.npz")
    predictor = hub.load(path)
    values = {"sum by atom": [], "Myerson values": [], "leave one out": []}
    for smiles in test:
        read = predictor.read([smiles])
        found = prediction_sum(predictor, read, 0, np.empty((1, 0)))
        values["sum by atom"].append(found.of_atom)
        parts, _ = shares(predictor, read, ATOMS)
        values["Myerson values"].append([part.value for part in parts])
        parts = contributions(predictor, read)
        without = [part.value for part in parts if part.kind == ATOMS]
        values["leave one out"].append(without)
    return predictor.predict(test)[:, 0], values


def chemprop(command, folder, train, labels, test):
    """The same of chemprop."""
    pd.DataFrame({"smiles": train, "y": labels}).to_csv(
        folder / "train.csv", index=False
    )
    pd.DataFrame({"smiles": test}).to_csv(folder / "test.csv", index=False)
    options = ["--accelerator", "cpu", "-n", "0"]
    data = ["train", "-i", folder / "train.csv", "-o", folder / "model"]
    sizes = ["--split-sizes", "0.8", "0.2", "0", "--pytorch-seed", "1"]
    subprocess.run([command, *data, *sizes, *options], check=True)
    data = ["-i", folder / "test.csv", "-o", folder / "test_y.csv"]
    model = ["--model-paths", folder / "model", "--callback", "myerson"]
    subprocess.run([command, "predict", *data, *model, *options], check=True)
    with np.load(folder / "test_y_myerson_explanation.npz") as arrays:
        values = [arrays[name].ravel() for name in arrays.files]
    return pd.read_csv(folder / "test_y.csv").y.to_numpy(), {"Myerson values": values}


def correlation(found, truth):
    """Mean correlation over the molecules whose atoms differ, and its standard error."""
    pairs = [pair for pair in zip(found, truth, strict=True) if np.ptp(pair[1])]
    each = [np.corrcoef(*pair)[0, 1] for pair in pairs]
    return np.mean(each), np.std(each, ddof=1) / np.sqrt(len(each))


def main():
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("table")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--chemprop", help="command of an installed chemprop")
    arguments = parser.parse_args()
    train, test = molecules(arguments.table)
    for target in TARGETS:
        at = COMPUTED.index(target)
        labels, values = rdkit_descriptors(train)[:, at], rdkit_descriptors(test)
        truth = [
            descriptor_parts(Chem.MolFromSmiles(smiles), row)[:, at]
            for smiles, row in zip(test, values)
        ]
        folder = arguments.folder / target
        folder.mkdir(parents=True, exist_ok=True)
        models = {
            name: explained(folder, train, labels, test, blocks)
            for name, blocks in (
                ("head", BLOCKS),
                ("head without descriptors", ["vectors", "fingerprint"]),
            )
        }
        if arguments.chemprop:
            found = chemprop(arguments.chemprop, folder, train, labels, test)
            models["chemprop"] = found
        for model, (predicted, explanations) in models.items():
            r2 = np.corrcoef(predicted, values[:, at])[0, 1] ** 2
            for explanation, found in explanations.items():
                mean, error = correlation(found, truth)
                score = f"{explanation} | {mean:.2f} ± {error:.2f}"
                print(f"{target} | {model} | {r2:.2f} | {score}")


if __name__ == "__main__":
    main()
