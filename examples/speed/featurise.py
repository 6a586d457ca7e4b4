"""From SMILES to graphs on one core: RDKit alone, atom by atom, and in one call.

    python examples/speed/featurise.py --csv molhiv.csv.gz

The three take turns on the same molecules. Prints molecules per second of CPU time, the
fastest of the rounds, and checks that both ways make the same graphs.
"""

from collections.abc import Callable
from functools import partial

import molecules
import numpy as np
from measuring import in_turn
from rdkit import Chem, RDLogger

from graphormer_plugin.data.graphs.smiles import (
    graph_atom_by_atom,
    graph_of_mol,
    mol_of_any_smiles,
)


def main() -> None:
    arguments = molecules.parser(__doc__, 1000, 5).parse_args()
    RDLogger.DisableLog("rdApp.*")
    smiles = molecules.read_smiles(arguments)
    smiles = [string for string in smiles if Chem.MolFromSmiles(string) is not None]
    ways = {
        "RDKit's parser": Chem.MolFromSmiles,
        "atom by atom": lambda string: graph_atom_by_atom(mol_of_any_smiles(string)),
        "in one call": lambda string: graph_of_mol(mol_of_any_smiles(string)),
    }
    for string in smiles:
        slow, fast = ways["atom by atom"](string), ways["in one call"](string)
        assert all(map(np.array_equal, slow[:3], fast[:3])), string

    def read_all(way: Callable) -> None:
        for string in smiles:
            way(string)

    calls = {name: partial(read_all, way) for name, way in ways.items()}
    seconds, _ = in_turn(calls, arguments.rounds)
    best = {name: min(times) for name, times in seconds.items()}
    for name, value in best.items():
        ratio = value / best["RDKit's parser"]
        print(f"{name:15} {len(smiles) / value:7,.0f} molecules/s, {ratio:.2f} x RDKit")
    print(f"speed-up {best['atom by atom'] / best['in one call']:.2f}")


if __name__ == "__main__":
    main()
