"""Graphs of SMILES, and scaffolds."""

import sys

import numpy as np
import pytest

from graphormer_plugin.data.datasets.nci import nci_file
from graphormer_plugin.data.datasets.smiles import (
    feature_dims,
    murcko_scaffold,
    parse_smiles,
)

SMILES = ["CCO", "c1ccccc1O", "C", "C/C=C/C", "N[C@@H](C)C(=O)O", "[Na+].[Cl-]", "C#N"]


@pytest.fixture
def ogb_smiles2graph(monkeypatch):
    monkeypatch.setitem(sys.modules, "outdated", None)  # it would call a server
    from ogb.utils import smiles2graph

    return smiles2graph


class TestFeatures:
    def test_equal_to_ogb(self, ogb_smiles2graph):
        lines = nci_file().read_text().splitlines()
        strings = SMILES + [line.split()[0] for line in lines[:300]]
        for string in strings:
            graph, expected = parse_smiles(string), ogb_smiles2graph(string)
            assert np.array_equal(graph.x, expected["node_feat"]), string
            assert np.array_equal(graph.edge_index, expected["edge_index"]), string
            assert np.array_equal(graph.edge_attr, expected["edge_feat"]), string

    def test_one_atom(self):
        graph = parse_smiles("C")
        assert graph.x.shape == (1, 9)
        assert graph.edge_index.shape == (2, 0) and graph.edge_attr.shape == (0, 3)

    def test_dims(self):
        nodes, bonds = feature_dims()
        assert nodes == [119, 5, 12, 12, 10, 6, 6, 2, 2] and bonds == [5, 6, 2]


def test_scaffolds():
    from rdkit import Chem
    from rdkit.Chem.Scaffolds import MurckoScaffold

    for line in nci_file().read_text().splitlines()[:300]:
        mol = Chem.MolFromSmiles(line.split()[0])
        assert murcko_scaffold(mol) == MurckoScaffold.MurckoScaffoldSmiles(
            mol=mol, includeChirality=True
        )
    mol = Chem.MolFromSmiles("CC(=O)Oc1ccccc1CC1CC1")
    assert murcko_scaffold(mol) == "c1ccc(CC2CC2)cc1"
    assert murcko_scaffold(Chem.MolFromSmiles("CCO")) == ""
