"""One spelling of a molecule: featurisers that read it from its canonical SMILES."""

from itertools import combinations

import numpy as np
import pytest
from rdkit import Chem
from test_predictor import predictor

from graphormer_plugin.data.columns import Level
from graphormer_plugin.data.graphs.featurisers import featuriser_named, list_featurisers
from graphormer_plugin.estimators.domain import MoleculeDescription
from graphormer_plugin.inference.molecules import read

PEPTIDE = "C[C@H](N)C(=O)N[C@@H](Cc1ccccc1)C(=O)O"
MIRRORED = "C[C@@H](N)C(=O)N[C@H](Cc1ccccc1)C(=O)O"
MOL = Chem.MolFromSmiles(PEPTIDE)
SPELLINGS = [
    Chem.MolToSmiles(MOL, rootedAtAtom=at, canonical=False, kekuleSmiles=at % 2 > 0)
    for at in range(9)
]


@pytest.mark.parametrize("arch", ["grpe_tiny", "graphormer_slim"])
def test_spellings_of_a_molecule(arch):
    """Nine spellings have one number; the mirror image another, by its chirality, if that is
    not ignored."""
    assert len({*SPELLINGS}) == 9 and len({*map(Chem.CanonSmiles, SPELLINGS)}) == 1
    model = predictor(arch, featuriser="ogb_canonical")
    values = model.predict([*SPELLINGS, PEPTIDE, MOL])
    assert np.ptp(values) < 1e-12  # a matrix product rounds its last rows differently
    assert abs(model.predict([MIRRORED])[0] - values[0]) > 1e-4
    flat = predictor(arch, featuriser="ogb_canonical_ignore_stereo")
    assert (
        np.ptp(flat.predict([MIRRORED, PEPTIDE, MOL, Chem.MolFromSmiles(MIRRORED)]))
        == 0
    )
    prints = flat.read([MIRRORED, PEPTIDE]).features("fingerprint")
    assert np.array_equal(*prints) and Chem.FindMolChiralCenters(MOL)
    as_given = predictor(arch).predict(SPELLINGS)
    assert np.ptp(as_given) > 1e-4


def test_map_numbers_change_nothing():
    """Of penicillin G, in its own order and in reverse, with some or all of them."""
    plain = "CC1(C)S[C@@H]2[C@H](NC(=O)Cc3ccccc3)C(=O)N2[C@H]1C(=O)O"
    mol = Chem.MolFromSmiles(plain)
    mapped = []
    for step in (1, -1, 3):
        copy = Chem.Mol(mol)
        for atom in list(copy.GetAtoms())[::step]:
            atom.SetAtomMapNum(len(mapped) + 1 + abs(step) * atom.GetIdx())
        mapped += [Chem.MolToSmiles(copy), Chem.MolToSmiles(copy, canonical=False)]
    assert len({*mapped}) > 3
    found = predictor(featuriser="ogb_canonical").predict([plain, *mapped])
    assert np.ptp(found) < 1e-12


@pytest.mark.parametrize("name", list_featurisers("ogb", "ogb_[cil]*"))
def test_descriptors_are_of_the_graph(name):
    """And do not depend on the spelling where the graph does not."""
    salts = [f"{text}.Cl" for text in SPELLINGS[:3]]
    molecules = read(salts, featuriser_named(name))
    sizes = {mol.GetNumAtoms() for mol in molecules.descriptor_mols}
    assert sizes == {MOL.GetNumAtoms() + ("largest" not in name)}
    if "canonical" in name:
        assert np.ptp(molecules.descriptors, axis=0).max() == 0
        assert len({*molecules.texts}) == 1
        again = read(salts, featuriser_named(name))
        again.parsed = ()  # as in another process
        assert np.array_equal(again.descriptors, molecules.descriptors)


@pytest.mark.parametrize("name", list_featurisers("ogb", "ogb_[cil]*"))
def test_molecules_that_are_not_kept(name):
    """Are read one at a time, with the same features and facts; otherwise once."""
    texts = ["CC(C)O.Cl", "[2H]C([2H])O", *SPELLINGS]
    kept = read(texts, featuriser_named(name))
    again = read(texts, featuriser_named(name), keep_parsed=False)
    assert all(isinstance(mol, str) for mol in again.descriptor_mols)
    assert all(isinstance(mol, Chem.Mol) for mol in kept.descriptor_mols)
    for block in ("fingerprint", "descriptors"):
        expected = kept.features(block)
        np.testing.assert_allclose(again.features(block), expected, rtol=1e-5)
    facts = [
        MoleculeDescription.of(molecules.descriptor_mols) for molecules in (kept, again)
    ]
    for one, other in zip(*(vars(part).values() for part in facts)):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("salt", ["", ".Cl"])
def test_values_of_atoms_have_the_order_of_the_source(salt):
    """Whatever order the model reads them in."""
    name = "ogb_canonical" + "_largest_fragment" * bool(salt)
    model = predictor(featuriser=name)
    texts = [text + salt for text in SPELLINGS]
    inputs = [*texts, Chem.RenumberAtoms(MOL, [*range(17)][::-1][:17])]
    assert MOL.GetNumAtoms() == 17
    first, *others = model.embed(inputs, nodes=True)
    attention = model.attention(inputs)
    mols = [Chem.MolFromSmiles(text) for text in SPELLINGS] + [inputs[-1]]
    for at, other in enumerate(others, 1):
        # Atoms of the first spelling, in their order, are these of another.
        match = list(mols[at].GetSubstructMatch(mols[0], useChirality=True))
        carbonyl = [mols[at].GetAtomWithIdx(int(n)).GetSymbol() for n in match]
        assert carbonyl == [atom.GetSymbol() for atom in mols[0].GetAtoms()]
        ring = {atom.GetIdx() for atom in mols[0].GetAtoms() if atom.GetIsAromatic()}
        kept = [n for n in range(17) if n not in ring]  # the ring is symmetric
        places = np.array(match)[kept]
        assert other[places] == pytest.approx(first[kept])
        maps = attention[at][:, :, places + 1][..., places + 1]
        found = attention[0][:, :, np.array(kept) + 1][..., np.array(kept) + 1]
        assert maps == pytest.approx(found)


def test_a_molecule_whose_canonical_smiles_is_refused(monkeypatch):
    model = predictor(featuriser="ogb_canonical")
    expected = predictor().embed(["CCO"], nodes=True)[0]
    monkeypatch.setattr(Chem, "MolToSmiles", lambda mol: "C(")
    assert model.embed(["CCO"], nodes=True)[0] == pytest.approx(expected)


@pytest.mark.parametrize("name", ["ogb", "ogb_canonical"])
def test_ends_have_the_numbers_of_the_source(name):
    """Atoms of edges and pairs are those of the SMILES, not of its canonical form."""
    molecules = read(SPELLINGS[:2], featuriser_named(name))
    first = 0
    for number, text in enumerate(SPELLINGS[:2]):
        mol = Chem.MolFromSmiles(text)
        atoms = [atom.GetIdx() for atom in mol.GetAtoms()]
        bonds = {(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in mol.GetBonds()}
        edges = molecules.edge_label_index(Level.EDGE)[number].tolist()
        assert {*map(tuple, edges)} == bonds | {(j, i) for i, j in bonds}
        pairs = molecules.edge_label_index(Level.LINK)[number]
        found = {*map(frozenset, pairs.tolist())}
        assert found == {*map(frozenset, combinations(atoms, 2))}
        x = molecules.chunk.x[first : first + len(atoms), 0]
        elements = np.array([atom.GetAtomicNum() - 1 for atom in mol.GetAtoms()])
        graph_pairs = np.stack(np.triu_indices(len(atoms), 1), 1)
        assert (x[graph_pairs] == elements[pairs]).all()
        first += len(atoms)
