"""The registry of featurisers, and what all of them promise."""

import dataclasses

import numpy as np
import pytest
from rdkit import Chem

from graphormer_plugin.data import DatasetError, DatasetSource
from graphormer_plugin.data.batches.fields import FIELDS, list_fields
from graphormer_plugin.data.graphs.featurisers import (
    GraphsOnly,
    featuriser_named,
    list_featurisers,
    register_featuriser,
)
from graphormer_plugin.data.graphs.smiles import OGBFeaturiser
from graphormer_plugin.data.store.featurise import RowReader
from graphormer_plugin.inference.molecules import read
from graphormer_plugin.models import ARCHITECTURES, list_architectures
from graphormer_plugin.modules.encodings.pair_encodings import (
    PAIR_ENCODINGS,
    list_pair_encodings,
)
from support.stores import store_of

NAMES = ["ogb", "ogb_canonical", "ogb_canonical_largest_fragment"]
NAMES += ["ogb_largest_fragment", "ogb_rdkit", "zinc"]
SALT = "OC(=O)CCN.Cl"


def test_names():
    assert {*NAMES, "ogb_file", "atoms"} < {*list_featurisers()}
    assert [featuriser_named(name).name for name in NAMES] == NAMES
    assert list_featurisers("*_fragment", "z*") == [*NAMES[2:4], "zinc"]


@pytest.mark.parametrize("name", NAMES)
def test_graphs_and_molecules_of_a_text(name):
    """They have the same atoms, in the same order."""
    featuriser = featuriser_named(name)
    text = "CCN" if name == "zinc" else SALT
    graph = featuriser.read(text)
    (mol,) = featuriser.mols(text)
    assert mol.GetNumAtoms() == {"zinc": 3}.get(name, 6 if "largest" in name else 7)
    assert len(graph.x) == mol.GetNumAtoms()
    node_dims, bond_dims = featuriser.dims
    assert (graph.x < node_dims).all() and (graph.edge_attr < bond_dims).all()
    if name != "zinc":
        numbers = [atom.GetAtomicNum() - 1 for atom in mol.GetAtoms()]
        assert graph.x[:, 0].tolist() == numbers


@pytest.mark.parametrize(
    "name, plain, whole",
    [
        ("ogb", "ogb", "ogb"),
        ("ogb_canonical", "ogb", "ogb_canonical"),
        ("ogb_largest_fragment", "ogb_largest_fragment", "ogb"),
        ("ogb_canonical_largest_fragment", "ogb_largest_fragment", "ogb_canonical"),
        ("ogb_canonical_ignore_stereo", "ogb_ignore_stereo", "ogb_canonical"),
        ("zinc", "zinc", "zinc"),
    ],
)
def test_forms(name, plain, whole):
    featuriser = featuriser_named(name)
    assert featuriser.without_canonical_order() == featuriser_named(plain)
    assert featuriser.with_all_fragments() == featuriser_named(whole)
    mol = Chem.MolFromSmiles(SALT)
    assert featuriser.select_fragment(mol).GetNumAtoms() == 7 - (
        name != whole and "largest" in name
    )


def test_unknown_names():
    message = "unknown featuriser 'ogbb', expected atoms.ogb.ogb_canonical"
    with pytest.raises(ValueError, match=message):
        featuriser_named("ogbb")
    source = DatasetSource(smiles=["C"], targets=[1.0], featuriser="ogbb")
    with pytest.raises(DatasetError, match=f"dataset 'temporary': {message}"):
        store_of(source)


def test_graphs_of_another_source_read_no_text():
    assert featuriser_named("") == GraphsOnly()
    with pytest.raises(ValueError, match="SMILES 0, 'C': the checkpoint does not say"):
        read(["C"], GraphsOnly())
    with pytest.raises(ValueError, match="^the checkpoint does not say how SMILES"):
        RowReader(GraphsOnly().read, 9)


def test_a_name_has_one_featuriser():
    register_featuriser(OGBFeaturiser())  # as a cell that is run again
    taken = dataclasses.make_dataclass("Taken", [("name", str, "ogb")])
    with pytest.raises(ValueError, match="featuriser 'ogb' is registered already"):
        register_featuriser(taken())
    assert np.array_equal(
        featuriser_named("ogb").read("C").x, OGBFeaturiser().read("C").x
    )


@pytest.mark.parametrize(
    "list_names, registered, pattern",
    [
        (list_architectures, ARCHITECTURES, "grpe_*"),
        (list_fields, FIELDS, "edge_*"),
        (list_pair_encodings, PAIR_ENCODINGS, "random_*"),
    ],
)
def test_lists(list_names, registered, pattern):
    assert list_names() == sorted(registered)
    start = pattern.removesuffix("*")
    expected = [name for name in sorted(registered) if name.startswith(start)]
    assert expected and list_names(pattern) == expected
    assert list_names("no such name") == []
