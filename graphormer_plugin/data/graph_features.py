"""Numbers of each graph that join the output layer: columns of a table, descriptors."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from rdkit import Chem

from graphormer_plugin.data.datasets.smiles import (
    mol_of_largest_fragment,
    mol_of_smiles,
)
from graphormer_plugin.data.descriptors import DESCRIPTORS, LEFT_OUT, rdkit_descriptors
from graphormer_plugin.data.options import DatasetOptions
from graphormer_plugin.data.registry import DatasetSource

PREFIX = "rdkit:"  # of the name of a descriptor


def graph_features(
    source: DatasetSource, options: DatasetOptions, kept: np.ndarray, rows: int
) -> dict[str, Any]:
    """Names and values of the numbers that join the output layer, for the kept rows.

    Args:
        source: Has names and values, or SMILES for descriptors.
        options: Say whether there are descriptors.
        kept: Rows that became graphs.
        rows: Number of all rows.

    Raises:
        ValueError: The values are not [rows, K].
    """
    names, values = list(source.graph_features), np.empty((len(kept), 0))
    if names:
        values = np.asarray(source.graph_values, np.float64)
        if values.shape != (rows, len(names)):
            raise ValueError(
                f"graph_values have shape {list(values.shape)}, expected "
                f"[{rows}, {len(names)}] for the features {names}"
            )
        values = values[kept]
    if options.descriptors:
        names += feature_names()
        parse = mol_of_smiles
        if options.largest_fragment:
            parse = mol_of_largest_fragment
        texts = [source.smiles[row] for row in kept]
        values = with_descriptors(names, values, texts, parse)
    return {"graph_features": names, "graph_values": values}


def feature_names() -> list[str]:
    """Names of the columns of `rdkit_descriptors` as features of graphs."""
    return [PREFIX + name for name in DESCRIPTORS if name not in LEFT_OUT]


def with_descriptors(
    names: Sequence[str],
    given: np.ndarray,
    smiles: Sequence[str],
    parse: Callable[[str], Chem.Mol] = mol_of_smiles,
) -> np.ndarray:
    """Features of graphs: numbers that are given, and descriptors.

    Args:
        names: Of all K features, the given ones first.
        given: Float [n, columns].
        smiles: Molecules [n].
        parse: SMILES -> molecule with known rings.

    Returns:
        Float64 [n, K], NaN where missing.

    Raises:
        ValueError: RDKit refuses a molecule, or this version lacks a descriptor.
    """
    wanted = [name for name in names if name.startswith(PREFIX)]
    if not wanted:
        return given
    known = feature_names()
    if {*wanted} - {*known}:
        lacking = min({*wanted} - {*known}).removeprefix(PREFIX)
        raise ValueError(f"this version of RDKit has no descriptor {lacking}")
    found = rdkit_descriptors(smiles, parse)[:, [known.index(one) for one in wanted]]
    return np.concatenate([given, found], 1)
