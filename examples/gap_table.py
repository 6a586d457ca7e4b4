"""The table of a recipe of electronic gaps (`gap.sh`), from a CSV with other columns.

    python examples/gap_table.py qm9.csv qm9_gap_subset.csv.gz --columns SMILES gap
    python examples/gap_table.py pcqm4mv2-2k.csv pcqm4mv2_subset.csv.gz \\
        --columns smiles homo --fold-hydrogens

Writes the columns idx (the row, from 0), smiles and homolumogap (eV).
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from rdkit import Chem, RDLogger

from graphormer_plugin.cli import CommandParser, command
from graphormer_plugin.data.files import atomic_write


def fold_hydrogens(smiles: str) -> str:
    """Canonical SMILES without explicit hydrogens, from a SMILES that has all hydrogens
    as atoms and perhaps coordinates (CXSMILES). An atom that lacks a hydrogen stays a
    radical.

    Raises:
        ValueError: RDKit cannot read it.
    """
    parameters = Chem.SmilesParserParams()
    parameters.sanitize = parameters.removeHs = False
    mol = Chem.MolFromSmiles(smiles.split()[0], parameters)
    if mol is None:
        raise ValueError(f"not a SMILES: {smiles}")
    for atom in mol.GetAtoms():
        atom.SetNoImplicit(True)
    Chem.SanitizeMol(mol)
    return Chem.MolToSmiles(Chem.RemoveHs(mol))


@command
def main(argv: Sequence[str] | None = None) -> None:
    parser = CommandParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("input", type=Path, help="CSV")
    parser.add_argument("output", type=Path, help="CSV, gzipped")
    parser.add_argument(
        "--columns",
        nargs=2,
        required=True,
        metavar=("SMILES", "GAP"),
        help="of the molecules, and of the gaps in eV",
    )
    parser.add_argument(
        "--fold-hydrogens",
        action="store_true",
        help="the SMILES have all hydrogens; write them without",
    )
    arguments = parser.parse_args(argv)
    RDLogger.DisableLog("rdApp.*")
    # Read as text, so that gaps keep their digits.
    table = pd.read_csv(arguments.input, dtype=str, keep_default_na=False)
    if missing := [name for name in arguments.columns if name not in table]:
        raise ValueError(
            f"{arguments.input} has no column {missing[0]}, has {', '.join(table)}"
        )
    smiles, gaps = (table[name] for name in arguments.columns)
    if arguments.fold_hydrogens:
        smiles = smiles.map(fold_hydrogens)
    table = pd.DataFrame({"smiles": smiles, "homolumogap": gaps}).rename_axis("idx")
    with atomic_write(arguments.output) as file:  # without a time, see gzip
        table.to_csv(file, compression={"method": "gzip", "mtime": 0})


if __name__ == "__main__":
    sys.exit(main())
