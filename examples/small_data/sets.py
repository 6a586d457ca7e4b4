"""The six sets: their rows, targets and scaffold splits."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from rdkit import Chem

from graphormer_plugin.data.files import atomic_write
from graphormer_plugin.data.smiles import murcko_scaffold
from graphormer_plugin.data.splits import scaffold_split

SPLITS = 5  # of each set, by seeds from 1 on
MIN_LABELS = 500  # of an assay of ToxCast
HALF_SEED = 1  # draws half of these assays


@dataclass(frozen=True)
class SmallSet:
    """A file of the set, its kind of target and how many of the targets are used.

    Attributes:
        file: CSV file; its first column has the SMILES, the others are targets.
        kind: regression or binary.
        half: a random half of the targets with more than `MIN_LABELS` labels.
    """

    file: str
    kind: str = "regression"
    half: bool = False


SETS = {
    "esol": SmallSet("esol.csv"),
    "freesolv": SmallSet("freesolv.csv"),
    "lipophilicity": SmallSet("lipophilicity.csv"),
    "bbbp": SmallSet("bbbp.csv", "binary"),
    "tox21": SmallSet("tox21.csv.gz", "binary"),
    "toxcast": SmallSet("toxcast.csv.gz", "binary", half=True),
}


def molecules(folder: Path, name: str) -> tuple[pd.DataFrame, list[str]]:
    """Column smiles and the targets of a set, and the scaffolds.

    Molecules that RDKit refuses are left out, for all contenders. Targets have neutral
    names, which every command line takes.
    """
    small = SETS[name]
    table = pd.read_csv(folder / small.file)
    targets = table.columns[1:]
    if small.half:
        targets = targets[(table[targets].notna().sum() > MIN_LABELS).to_numpy()]
        drawn = np.random.Generator(np.random.PCG64(HALF_SEED)).permutation(
            len(targets)
        )
        targets = targets[np.sort(drawn[: len(targets) // 2])]
    parsed = [Chem.MolFromSmiles(text) for text in table.iloc[:, 0]]
    kept = [mol is not None and mol.GetNumAtoms() > 0 for mol in parsed]
    found = table.loc[kept, [table.columns[0], *targets]].reset_index(drop=True)
    found.columns = ["smiles", *(f"t{number}" for number in range(len(targets)))]
    return found, [murcko_scaffold(mol) for mol, keep in zip(parsed, kept) if keep]


def write_splits(folder: Path, data: Path, name: str, seeds: int) -> list[Path]:
    """CSV files of a set, one per split: smiles, split, and the targets."""
    paths = [data / f"{name}-{seed}.csv" for seed in range(1, seeds + 1)]
    if not all(path.exists() for path in paths):
        data.mkdir(parents=True, exist_ok=True)
        table, scaffolds = molecules(folder, name)
        for seed, path in enumerate(paths, 1):
            split = pd.Series("test", table.index, name="split")
            for part, rows in scaffold_split(scaffolds, seed=seed).items():
                split[rows] = part
            with atomic_write(path, "w", newline="") as file:
                pd.concat([table, split], axis=1).to_csv(file, index=False)
    return paths
