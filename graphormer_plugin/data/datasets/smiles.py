"""Graphs of SMILES with OGB's features."""

from __future__ import annotations

import functools
import importlib.util
import os
import types
from typing import Any

import numpy as np

from graphormer_plugin.data.chunk import MoleculeGraph, Parser
from graphormer_plugin.data.errors import DatasetError


@functools.cache
def _ogb_features() -> types.ModuleType:
    """OGB's module of feature lists.

    Loaded by its path: the package itself asks a server for its version when imported,
    and pulls in torch, which preparing workers do not need.
    """
    package = importlib.util.find_spec("ogb")
    if package is None:
        raise DatasetError("the package ogb is not installed; it defines the features")
    folder = package.submodule_search_locations[0]
    path = os.path.join(folder, "utils", "features.py")
    spec = importlib.util.spec_from_file_location("_ogb_utils_features", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def feature_dims() -> tuple[list[int], list[int]]:
    """Number of values of OGB's 9 node columns and 3 bond columns."""
    features = _ogb_features()
    return features.get_atom_feature_dims(), features.get_bond_feature_dims()


def graph_of_mol(mol: Any) -> MoleculeGraph:
    """Nodes and edges of an RDKit molecule as ``ogb.utils.smiles2graph`` makes them.

    Args:
        mol: RDKit molecule; atoms keep their order.

    Returns:
        x int64 [atoms, 9]; edge_index int64 [2, 2 x bonds] with both directions of a
        bond next to each other; edge_attr int64 [2 x bonds, 3].

    Raises:
        ValueError: A bond has a kind of stereo that OGB's list lacks.
    """
    features = _ogb_features()
    x = [features.atom_to_feature_vector(atom) for atom in mol.GetAtoms()]
    ends, attributes = [], []
    for bond in mol.GetBonds():
        ends.append((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()))
        attributes.append(features.bond_to_feature_vector(bond))
    edges = np.array(ends, dtype=np.int64).reshape(-1, 2)
    return MoleculeGraph(
        np.array(x, dtype=np.int64).reshape(-1, 9),
        np.stack([edges, edges[:, ::-1]], axis=1).reshape(-1, 2).T,
        np.repeat(np.array(attributes, np.int64).reshape(-1, 3), 2, axis=0),
    )


def parse_smiles(smiles: str, scaffold: bool = False) -> MoleculeGraph:
    """Graph of a SMILES with OGB's features; see `graph_of_mol`.

    Args:
        smiles: One molecule; several fragments make one disconnected graph.
        scaffold: Also put the Bemis-Murcko scaffold into ``extras["scaffold"]``.

    Raises:
        ValueError: RDKit refuses it.
    """
    mol = mol_of_smiles(smiles)
    graph = graph_of_mol(mol)
    if scaffold:
        graph = graph._replace(extras={"scaffold": murcko_scaffold(mol)})
    return graph


def parse_any_smiles(smiles: str) -> MoleculeGraph:
    """`parse_smiles` for benchmarks, which lose no graph over RDKit's valence rules.

    Those have become stricter since the benchmarks were made: seven molecules of
    ogbg-molhiv, complexes of Al, B and Ge, are refused today. What they refuse is
    parsed without them; all else (aromaticity, conjugation, rings) is perceived as
    usual.

    Raises:
        ValueError: It is not a SMILES.
    """
    from rdkit import Chem

    try:
        return parse_smiles(smiles)
    except ValueError:
        mol = Chem.MolFromSmiles(smiles, sanitize=False)
        if mol is None:
            raise
    mol.UpdatePropertyCache(strict=False)
    mol = Chem.RemoveHs(mol, sanitize=False)
    everything = Chem.SanitizeFlags.SANITIZE_ALL
    Chem.SanitizeMol(mol, everything ^ Chem.SanitizeFlags.SANITIZE_PROPERTIES)
    Chem.AssignStereochemistry(mol, cleanIt=True, force=True)
    return graph_of_mol(mol)


def smiles_parser(scaffold: bool = False) -> Parser:
    """The default parser, to be sent to workers."""
    return functools.partial(parse_smiles, scaffold=True) if scaffold else parse_smiles


def mol_of_smiles(smiles: str) -> Any:
    """RDKit molecule.

    Raises:
        ValueError: RDKit refuses it, or text follows it.
    """
    from rdkit import Chem

    # RDKit takes what follows a blank for the molecule's name: "[Na+] [Cl-]" would be
    # a sodium ion. CXSMILES extensions stand between bars.
    _, *rest = smiles.split(maxsplit=1) or [""]
    if rest and not rest[0].startswith("|"):
        raise ValueError(f"text after a blank in the SMILES: {rest[0]!r}")
    mol = Chem.MolFromSmiles(smiles)
    if mol is None:
        raise ValueError("RDKit refuses it")
    return mol


def murcko_scaffold(mol: Any) -> str:
    """Bemis-Murcko scaffold as SMILES with chirality; empty without rings.

    As RDKit's ``MurckoScaffoldSmiles``, and also for molecules parsed without
    sanitisation, whose valences that function refuses.

    Args:
        mol: RDKit molecule whose rings are known.
    """
    from rdkit import Chem

    scaffold = Chem.MurckoDecompose(mol)
    scaffold.ClearComputedProps()
    scaffold.UpdatePropertyCache(strict=False)
    Chem.GetSymmSSSR(scaffold)
    return Chem.MolToSmiles(scaffold, isomericSmiles=True)
