"""Clusters of similar molecules by Tanimoto distance of Morgan fingerprints."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator
from rdkit.DataStructs import BulkTanimotoSimilarity
from rdkit.ML.Cluster import Butina
from rdkit.SimDivFilters.rdSimDivPickers import LeaderPicker

from graphormer_plugin.data.graphs.smiles import mol_of_smiles

DISTANCE = 0.35  # Tanimoto distance of neighbours (our choice)
# Molecules; RDKit's matrix of all distances takes 8 bytes for each pair.
MOST_BUTINA = 5000


def clusters_of(
    smiles: Sequence[str],
    parse: Callable[[str], Any] = mol_of_smiles,
    most: int = MOST_BUTINA,
) -> list[str]:
    """Name of each molecule's cluster, by Butina (1999, doi:10.1021/ci9803381). More than
    ``most`` molecules join the most similar of RDKit's leaders, which are no neighbours of
    each other. The order of the molecules decides ties."""
    generator = GetMorganGenerator(radius=2, fpSize=2048)
    prints = [generator.GetFingerprint(parse(text)) for text in smiles]
    if len(prints) > most:
        picked = LeaderPicker().LazyBitVectorPick(prints, len(prints), DISTANCE)
        leaders = [prints[number] for number in picked]
        nearest = (
            np.argmax(BulkTanimotoSimilarity(fingerprint, leaders))
            for fingerprint in prints
        )
        return [str(number) for number in nearest]
    likeness = [
        np.array(BulkTanimotoSimilarity(prints[number], prints[:number]), np.float32)
        for number in range(1, len(prints))
    ]
    distances = 1 - np.concatenate([np.empty(0, np.float32), *likeness])
    names = [""] * len(prints)
    clusters = Butina.ClusterData(distances, len(prints), DISTANCE, isDistData=True)
    for number, members in enumerate(clusters):
        for member in members:
            names[member] = str(number)
    return names
