"""From SMILES to graphs on one core: RDKit alone, atom by atom, and in one call.

    python examples/speed/featurise.py --csv molhiv.csv.gz

The three take turns on the same molecules. Prints molecules per second of CPU time, the
fastest of the rounds, and checks that both ways make the same graphs.
"""

import argparse
import csv
import gzip
import time
from pathlib import Path

import numpy as np
from rdkit import Chem, RDLogger

from graphormer_plugin.data.datasets.nci import nci
from graphormer_plugin.data.datasets.smiles import (
    graph_atom_by_atom,
    graph_of_mol,
    mol_of_any_smiles,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--csv", type=Path, help="column smiles (default: RDKit's NCI)")
    parser.add_argument("--molecules", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    RDLogger.DisableLog("rdApp.*")
    smiles = list(nci().smiles)
    if arguments.csv:
        opener = gzip.open if arguments.csv.suffix == ".gz" else open
        with opener(arguments.csv, "rt") as file:
            smiles = [row["smiles"] for row in csv.DictReader(file)]
    smiles = [string for string in smiles if Chem.MolFromSmiles(string) is not None]
    smiles = smiles[:: max(1, len(smiles) // arguments.molecules)]
    ways = {
        "RDKit's parser": Chem.MolFromSmiles,
        "atom by atom": lambda string: graph_atom_by_atom(mol_of_any_smiles(string)),
        "in one call": lambda string: graph_of_mol(mol_of_any_smiles(string)),
    }
    for string in smiles:
        slow, fast = ways["atom by atom"](string), ways["in one call"](string)
        assert all(map(np.array_equal, slow[:3], fast[:3])), string
    seconds = {name: [] for name in ways}
    for _ in range(arguments.rounds):
        for name, way in ways.items():
            start = time.process_time()
            for string in smiles:
                way(string)
            seconds[name].append(time.process_time() - start)
    best = {name: min(times) for name, times in seconds.items()}
    for name, value in best.items():
        ratio = value / best["RDKit's parser"]
        print(f"{name:15} {len(smiles) / value:7,.0f} molecules/s, {ratio:.2f} x RDKit")
    print(f"speed-up {best['atom by atom'] / best['in one call']:.2f}")


if __name__ == "__main__":
    main()
