"""Print a table of the first page, made from data inside RDKit, as CSV.

`activity`: the 1,017 molecules and activities of ChEMBL's CHEMBL2321810. `tpsa`: 4,999
molecules of NCI and their polar surface areas in Å².
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from rdkit import RDConfig


def activity() -> pd.DataFrame:
    """Columns smiles, name and activity."""
    folder = Path(RDConfig.RDContribDir) / "FreeWilson/data"
    molecules = pd.read_csv(
        folder / "CHEMBL2321810.smi", sep=" ", names=["smiles", "name"], dtype=str
    )
    labels = pd.read_csv(folder / "CHEMBL2321810_act.csv", dtype=str)
    labels.columns = ["name", "activity"]
    return molecules.merge(labels, on="name", validate="one_to_one")


def tpsa() -> pd.DataFrame:
    """Columns smiles and tpsa, in Å²."""
    path = Path(RDConfig.RDDataDir) / "NCI/first_5k.tpsa.csv"
    # The first line is a comment.
    return pd.read_csv(path, skiprows=1, names=["smiles", "tpsa"], dtype=str)


TABLES = {"activity": activity, "tpsa": tpsa}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=TABLES)
    table = TABLES[parser.parse_args(argv).table]()
    table.to_csv(sys.stdout, index=False)


if __name__ == "__main__":
    main()
