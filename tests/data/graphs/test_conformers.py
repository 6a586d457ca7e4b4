"""Positions of atoms: RDKit's conformers, mol blocks and atoms without bonds."""

import contextlib
import pickle

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import rdDepictor, rdDistGeom, rdMolTransforms
from scipy.spatial.distance import pdist

from graphormer_plugin.data.graphs import conformers
from graphormer_plugin.data.graphs.conformers import (
    doubt_of_unit,
    embedded_positions,
    likely_units,
    nearest_distance,
)
from graphormer_plugin.data.graphs.featurisers import AtomsFeaturiser, featuriser_named
from graphormer_plugin.data.graphs.smiles import OGBFeaturiser
from graphormer_plugin.data.graphs.sources import Atoms, MolBlock

WATER = np.array([[0.0, 0, 0.1], [0.76, 0, -0.48], [-0.76, 0, -0.48]])


def block_of(smiles, factor=1):
    """Text of a conformer with its hydrogens in another unit, and its positions."""
    mol = Chem.AddHs(Chem.MolFromSmiles(smiles))
    rdDistGeom.EmbedMolecule(mol, randomSeed=1)
    positions = mol.GetConformer().GetPositions()
    mol.GetConformer().SetPositions(positions * factor)
    _, block = Chem.MolToMolBlock(mol).split("\n", 1)
    return f"{smiles}\n{block}", positions


def test_conformers_are_equal_for_all_spellings():
    """Distances of each pair of atoms, and no atom in another's place."""
    one = Chem.MolFromSmiles("CC(N)C(=O)OCC")
    pos = embedded_positions(one)
    bonds = [
        np.linalg.norm(pos[b.GetBeginAtomIdx()] - pos[b.GetEndAtomIdx()])
        for b in one.GetBonds()
    ]
    assert 1.1 < min(bonds) and max(bonds) < 1.7  # angstrom
    order = [3, 1, 0, 7, 2, 6, 5, 4]
    other = Chem.RenumberAtoms(one, order)
    np.testing.assert_array_equal(embedded_positions(other), pos[order])


def test_conformers_of_salts_single_atoms_and_none():
    salt = Chem.MolFromSmiles("[Na+].[Cl-]")
    assert pdist(embedded_positions(salt)) > 0.5
    assert embedded_positions(Chem.MolFromSmiles("C")).shape == (1, 3)


def test_a_molecule_without_conformer():
    """Camphor with one centre the other way round would not close its rings."""
    reader = OGBFeaturiser(positions="rdkit")
    assert len(reader.read("CC1(C)[C@H]2CC[C@]1(C)C(=O)C2").pos) == 11
    with pytest.raises(ValueError, match="RDKit finds no conformer"):
        reader.read("CC1(C)[C@@H]2CC[C@]1(C)C(=O)C2")
    with pytest.raises(ValueError, match="RDKit finds no conformer"):
        reader.read("C1C[N+]2=CC3=CC=CC=C3O[Zn]24OC5=CC=CC=C5C=[N+]14")


def test_atoms_of_a_mol_block():
    """Hydrogens are nodes, in the order and at the places of the block."""
    text, positions = block_of("CCO")
    graph = featuriser_named("ogb_file").read(text)
    assert (graph.x[:, 0] + 1).tolist() == [6, 6, 8] + [1] * 6  # OGB counts from 0
    np.testing.assert_allclose(graph.pos, positions, atol=1e-4)
    assert graph.edge_index.shape == (2, 16)


@pytest.mark.parametrize(
    "smiles", ["CCO", "c1ccccc1", "O=CC=O", "O=C=O", "FC(F)=C(Cl)Cl"]
)
@pytest.mark.parametrize("mark", ["2D", "3D", "  "])
@pytest.mark.parametrize("hydrogens", [True, False])
def test_drawings(smiles, mark, hydrogens):
    """By their marks, hydrogens, four neighbours of a carbon in a plane, and equal bonds."""
    mol = Chem.MolFromSmiles(smiles)
    mol = Chem.AddHs(mol) if hydrogens else mol
    rdDepictor.Compute2DCoords(mol)
    _, second, block = Chem.MolToMolBlock(mol).split("\n", 2)
    text = f"{smiles}\n{second[:20]}{mark}\n{block}"
    planar = smiles == "O=C=O"
    refused = pytest.raises(ValueError, match="it is a drawing")
    with contextlib.nullcontext() if planar and mark != "2D" else refused:
        featuriser_named("ogb_file").read(text)


@pytest.mark.parametrize("name", ["ogb_rdkit", "ogb_canonical_rdkit"])
def test_features_and_bonds_do_not_depend_on_positions(name):
    plain = featuriser_named(name.removesuffix("_rdkit")).read("OCC(=O)N")
    graph = featuriser_named(name).read("OCC(=O)N")
    assert np.array_equal(graph.x, plain.x) and plain.pos is None
    assert np.array_equal(graph.edge_index, plain.edge_index)
    assert graph.pos.shape == (5, 3)


def test_atoms_without_bonds():
    forces = WATER * 2
    water = Atoms.of(np.array([8, 1, 1]), WATER, np.array([0, 1, 2]), forces)
    assert str(water) == "H2O"
    graph = AtomsFeaturiser().read(water)
    assert graph.x.tolist() == [[8, 0], [1, 1], [1, 2]]
    assert np.array_equal(graph.pos, WATER) and np.array_equal(graph.forces, forces)
    assert graph.edge_index.shape == (2, 0)
    graph = AtomsFeaturiser().read(Atoms.of(np.array([8, 1, 1]), WATER))
    assert graph.x[:, 1].tolist() == [1, 1, 1] and graph.forces is None
    with pytest.raises(ValueError, match="it is not atoms with positions"):
        AtomsFeaturiser().read("CCO")


def test_distances_of_nearest_atoms():
    numbers = np.array([8, 1, 1])
    bond = pdist(WATER)[0] / (0.66 + 0.31)
    assert nearest_distance(numbers, WATER) == pytest.approx(bond, abs=0.02)
    assert np.isnan(nearest_distance(numbers[:1], WATER[:1]))
    for likes in (
        [1.0, np.nan, 1.9, 1.1],
        [np.nan],
        [],
    ):  # a pair of far atoms is right
        assert not doubt_of_unit(likely_units(likes))
    for change, words in (
        (WATER * np.nan, "atom 0 has position"),
        (WATER[[0, 1, 1]], "atoms 1 and 2 are in one place"),
    ):
        with pytest.raises(ValueError, match=words):
            nearest_distance(numbers, change)
    assert "bohr conv" in doubt_of_unit(likely_units([1.8, 1.9, np.nan, 1.0, 1.9]))
    assert "nm conv" in doubt_of_unit(
        likely_units([nearest_distance(numbers, WATER / 10)])
    )


def test_atoms_are_told_apart():
    """By element, tag and position; forces are labels."""
    numbers = np.array([8, 1, 1])
    first = Atoms.of(numbers, WATER)
    others = [
        Atoms.of(numbers[::-1], WATER),
        Atoms.of(numbers, WATER, np.array([0, 1, 2])),
        Atoms.of(numbers, WATER / 2),
    ]
    assert {source.text for source in others}.isdisjoint({first.text})
    assert first.text == Atoms.of(numbers, WATER, forces=WATER).text


@pytest.mark.parametrize("unit", ["bohr", "nm"])
def test_a_block_in_another_unit(unit):
    text, positions = block_of("CCO", 1 / conformers.LENGTH_UNITS[unit])
    source = MolBlock.of(text, conformers.LENGTH_UNITS[unit])
    read = featuriser_named("ogb_file").read(pickle.loads(pickle.dumps(source)))
    np.testing.assert_allclose(read.pos, positions, atol=1e-3)


@pytest.mark.parametrize("smiles", ["c1ccccc1", "O=CC=O", "O=C=O", "FC(F)=C(Cl)Cl"])
@pytest.mark.parametrize("says", ["3D", "  "])
def test_flat_molecules(smiles, says):
    """A planar molecule has its hydrogens, and bonds of several lengths."""
    mol = Chem.AddHs(Chem.MolFromSmiles(smiles))
    rdDistGeom.EmbedMolecule(mol, randomSeed=1)
    rdMolTransforms.CanonicalizeConformer(mol.GetConformer(), ignoreHs=False)
    mol.GetConformer().SetPositions(mol.GetConformer().GetPositions() * [1.0, 1.0, 0.0])
    block = Chem.MolToMolBlock(mol).replace("3D", says)
    assert featuriser_named("ogb_file").read(smiles + block).pos.any()


def test_nearest_atoms_of_many():
    """All pairs of 20,000 atoms would take 8 GB."""
    pos = np.stack(np.meshgrid(*[np.arange(28.0)] * 3), -1).reshape(-1, 3)[:20_000]
    pos[7, 0] += 0.1
    numbers = np.full(len(pos), 6)
    assert nearest_distance(numbers, pos) == pytest.approx(0.9 / (2 * 0.76), abs=0.02)
