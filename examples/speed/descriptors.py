"""RDKit's descriptors as a head reads them, compared with RDKit's own function.

    python examples/speed/descriptors.py --csv lipophilicity.csv

The two take turns on the same molecules, and the values must be equal. Prints
milliseconds of CPU time per molecule, in the fastest of the rounds, and which
descriptors take most of it.
"""

import time

import molecules
import numpy as np
from rdkit import Chem, RDLogger
from rdkit.Chem import Descriptors

from graphormer_plugin.data import descriptors

NAMES = [name for name in descriptors.DESCRIPTORS if name not in descriptors.LEFT_OUT]


def rdkit(mols: list[Chem.Mol]) -> np.ndarray:
    """RDKit's own function, one molecule after another."""
    rows = [Descriptors.CalcMolDescriptors(mol, missingVal=np.nan) for mol in mols]
    return np.array([[row[name] for name in NAMES] for row in rows], float)


def ours(mols: list[Chem.Mol]) -> np.ndarray:
    """The same values, descriptor after descriptor."""
    size = descriptors.BLOCK
    starts = range(0, len(mols), size)
    parts = [mols[start : start + size] for start in starts]
    return np.concatenate(
        [descriptors.descriptors_of_mols(part, NAMES) for part in parts]
    )


def main() -> None:
    arguments = molecules.parser(__doc__, 256, 3).parse_args()
    RDLogger.DisableLog("rdApp.*")
    smiles = molecules.read_smiles(arguments)
    smiles = [string for string in smiles if Chem.MolFromSmiles(string) is not None]
    seconds = {rdkit: [], ours: []}
    for _ in range(arguments.rounds):
        found = []
        for way, times in seconds.items():
            mols = [Chem.MolFromSmiles(string) for string in smiles]  # nothing cached
            start = time.process_time()
            found.append(way(mols))
            times.append(time.process_time() - start)
        assert np.array_equal(*found, equal_nan=True)
    for way, times in seconds.items():
        print(f"{way.__name__:6} {1000 * min(times) / len(smiles):.2f} ms a molecule")
    print(f"speed-up {min(seconds[rdkit]) / min(seconds[ours]):.2f}")
    mols = [Chem.MolFromSmiles(string) for string in smiles]
    spent = {}
    for name in NAMES:
        start = time.process_time()
        descriptors.descriptors_of_mols(mols, [name])
        spent[name] = time.process_time() - start
    for name in sorted(spent, key=spent.get, reverse=True)[:8]:
        print(f"{name:20} {spent[name] / sum(spent.values()):.1%}")


if __name__ == "__main__":
    main()
