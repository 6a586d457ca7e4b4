"""The NCI molecules in RDKit's wheel, with a target that is computed."""

import functools
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rdkit import Chem, RDConfig
from rdkit.Chem import Crippen

from graphormer_plugin.data.files import file_sha256
from graphormer_plugin.data.graphs.chunk import MoleculeGraph
from graphormer_plugin.data.graphs.featurisers import vocabulary_of
from graphormer_plugin.data.graphs.smiles import (
    OGBFeaturiser,
    module_in,
    mol_of_smiles,
)
from graphormer_plugin.data.sources.registry import DatasetSource, register_dataset
from graphormer_plugin.data.splits import Split
from graphormer_plugin.data.tables.options import DatasetOptions

# Rows (from 0) of the file that RDKit's valence rules refuse: oxo-mercury nitrate and
# aluminium, beryllium, silicon and phosphorus complexes drawn with plain bonds.
NCI_REFUSED = (2097, 2897, 3226, 3369, 4508, 4595, 4596, 4780)


def nci_file() -> Path:
    """The file in RDKit's wheel."""
    return Path(RDConfig.RDDataDir) / "NCI" / "first_5K.smi"


@register_dataset(
    "nci",
    source="rdkit",
    options=("positions",),
    content=lambda options: {"file": file_sha256(nci_file())},
)
def nci(options: DatasetOptions) -> DatasetSource:
    """The 4,999 NCI molecules in RDKit's wheel, with ZINC's constrained solubility.

    target = z(logP) - z(SA) - z(cyc), dimensionless, higher is better. logP is
    Crippen's, SA the synthetic accessibility of Ertl & Schuffenhauer 2009
    (doi:10.1186/1758-2946-1-8), and cyc = max(0, `longest_cycle` - 6). Each term is
    standardised (z) by the mean and the population standard deviation of the training split,
    as in Jin et al. 2018 (arXiv:1802.04364), the source of ZINC's target.

    RDKit refuses 8 of the 4,999 rows (`NCI_REFUSED`), which are left out. Rows that end in 8
    are valid, rows that end in 9 test, the others train. A molecule that another release of
    RDKit refuses therefore moves no other molecule.
    """
    lines = nci_file().read_text(encoding="utf-8").splitlines()
    rows = np.arange(len(lines))
    featuriser = options.featuriser
    return DatasetSource(
        smiles=[line.split()[0] for line in lines],
        parser=functools.partial(_parse_with_solubility, featuriser=featuriser),
        **vocabulary_of(featuriser),
        targets=_standardised_solubility,
        target_names=["penalised_logp"],
        unit="dimensionless",
        kind="regression",
        splits={
            "train": rows[rows % 10 < 8],
            "valid": rows[rows % 10 == 8],
            "test": rows[rows % 10 == 9],
        },
        exclude=NCI_REFUSED,
    )


def _parse_with_solubility(smiles: str, featuriser: OGBFeaturiser) -> MoleculeGraph:
    mol = mol_of_smiles(smiles)
    return featuriser.graph(mol)._replace(extras={"terms": solubility_terms(mol)})


def solubility_terms(mol: Any) -> tuple[float, float, float]:
    """Crippen logP, synthetic accessibility, and max(0, longest cycle - 6)."""
    cycle = max(0, longest_cycle(mol) - 6)
    return Crippen.MolLogP(mol), _sa_scorer().calculateScore(mol), float(cycle)


def _standardised_solubility(
    extras: Mapping[str, list[Any]], splits: Split
) -> np.ndarray:
    terms = np.array(extras["terms"], dtype=np.float64)  # [G, 3]
    train = terms[splits["train"]]
    standard = (terms - train.mean(axis=0)) / train.std(axis=0)
    return (standard @ np.array([1.0, -1.0, -1.0]))[:, None]


def longest_cycle(mol: Any) -> int:
    """Length of the longest cycle in the cycle basis that ZINC's target is made with.

    Paton 1969 (doi:10.1145/363219.363232): a spanning tree is grown depth-first from
    the lowest atom of each fragment, neighbours visited in ascending order; each
    further bond closes a cycle. The basis, and so the length, depends on that order
    and on the numbering of the atoms.
    """
    import networkx  # late: it takes long

    bonds = sorted(
        sorted((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()))
        for bond in mol.GetBonds()
    )
    longest = 0
    for atoms in Chem.GetMolFrags(mol):
        # networkx visits neighbours in the order in which edges were added.
        graph = networkx.Graph([bond for bond in bonds if bond[0] in atoms])
        if graph:
            cycles = networkx.cycle_basis(graph, root=min(atoms))
            longest = max([longest, *map(len, cycles)])
    return longest


@functools.cache
def _sa_scorer() -> types.ModuleType:
    """RDKit's contributed module, which not every build can import by name."""
    return module_in(Path(RDConfig.RDContribDir) / "SA_Score" / "sascorer.py")
