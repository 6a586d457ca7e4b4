"""Graphs of SMILES, and scaffolds."""

import numpy as np
import pytest
from rdkit import Chem

from cython_ext import read_molecule
from graphormer_plugin.data.benchmarks.nci import nci_file
from graphormer_plugin.data.graphs import smiles as smiles_module
from graphormer_plugin.data.graphs.smiles import (
    PLAIN,
    OGBFeaturiser,
    captured_rdkit_log,
    feature_dims,
    graph_atom_by_atom,
    graph_of_mol,
    mol_of_any_smiles,
    mol_of_smiles,
    murcko_scaffold,
    parent,
    parent_key,
)
from graphormer_plugin.data.store.featurise import parse

# What RDKit's binary form writes in ways of its own.
UNUSUAL = (
    r"[13CH4], [2H]C([2H])O, [CH3], [CH2], [O][O], *C, [*:3]C, [CH3:5]C, "
    r"[CH3:500]C, C* |$_AP1;$|, [Na]->O, [Fe+2], [U+6], [C-]#[O+], "
    r"F[P-](F)(F)(F)(F)F, FS(F)(F)(F)(F)F, C/C=C\C, F/C=C/F, CC=CC |w:1.0|, "
    r"N[C@H](C)O, F[Pt@SP1](Cl)(Br)I, C[As@TB1](F)(Cl)(Br)N, O=[Os](=O)(=O)=O, "
    r"[Co@OH1](F)(Cl)(Br)(I)(C)N, c1ccc2ccccc2c1, C[Si]1(C)CCCC1, [nH]1cccc1, "
    r"C1CC2CCC1CC2, [H][H], [H+]"
).split(", ")
UNUSUAL += ["C" * 255, "C" * 256, "C1CCCCC1" * 50, "C/C=C/" * 90]
# A bond whose kind of stereo OGB's list lacks.
ATROPISOMER = (
    "Cc1cccc(F)c1-c1c(C)cccc1Cl |(-1,1,;-1,0,;-2,-1,;-1,-2,;0,-2,;1,-1,;2,-1,;0,0,;"
    "0,1,;1,2,;2,2,;1,3,;0,4,;-1,3,;-1,2,;-2,2,),wU:7.7|"
)

SMILES = ["CCO", "c1ccccc1O", "C", "C/C=C/C", "N[C@@H](C)C(=O)O", "[Na+].[Cl-]", "C#N"]
NCI = [line.split()[0] for line in nci_file().read_text().splitlines()]


class TestFeatures:
    def test_equal_to_ogb(self, ogb):
        for string in SMILES + NCI[:300]:
            graph, expected = PLAIN.read_row(string), ogb.utils.smiles2graph(string)
            assert np.array_equal(graph.x, expected["node_feat"]), string
            assert np.array_equal(graph.edge_index, expected["edge_index"]), string
            assert np.array_equal(graph.edge_attr, expected["edge_feat"]), string

    def test_equal_to_atom_by_atom(self):
        for string in SMILES + UNUSUAL + NCI[::10]:
            try:
                mol = mol_of_any_smiles(string)
            except ValueError:
                continue
            self.check(mol)
        mol = Chem.AddHs(mol_of_any_smiles("OC(=O)CN"))
        self.check(Chem.RenumberAtoms(mol, list(range(mol.GetNumAtoms()))[::-1]))
        self.check(Chem.MolFromSmiles(""))

    @staticmethod
    def check(mol):
        expected, found = graph_atom_by_atom(mol), graph_of_mol(mol)
        for one, other in zip(expected[:3], found[:3], strict=True):
            assert one.dtype == other.dtype, Chem.MolToSmiles(mol)
            assert one.tolist() == other.tolist(), Chem.MolToSmiles(mol)

    def test_one_call(self, monkeypatch):
        monkeypatch.delattr(smiles_module, "graph_atom_by_atom")
        for string in SMILES:
            PLAIN.read_row(string)

    def test_falls_back(self):
        """Queries, residues and rings of another kind are read atom by atom."""
        plain = mol_of_any_smiles("CC1CCN1")
        query = Chem.AdjustQueryProperties(plain)
        residue = Chem.MolFromSequence("G")
        rings = Chem.Mol(plain)
        rings.ClearComputedProps()
        rings.UpdatePropertyCache()
        Chem.FastFindRings(rings)
        codes = smiles_module._ogb_codes()
        for mol in (query, residue, rings):
            assert read_molecule(mol.ToBinary(0), *codes) is None
            self.check(mol)

    def test_unknown_stereo(self):
        mol = mol_of_any_smiles(ATROPISOMER)
        assert {str(bond.GetStereo()) for bond in mol.GetBonds()} > {"STEREONONE"}
        with pytest.raises(ValueError, match="STEREOATROP"):
            graph_of_mol(mol)

    def test_dims(self):
        nodes, bonds = feature_dims()
        assert nodes == [119, 5, 12, 12, 10, 6, 6, 2, 2] and bonds == [5, 6, 2]


def test_scaffolds():
    from rdkit.Chem.Scaffolds import MurckoScaffold

    for string in NCI[:300]:
        mol = Chem.MolFromSmiles(string)
        assert murcko_scaffold(mol, stereo=True) == MurckoScaffold.MurckoScaffoldSmiles(
            mol=mol, includeChirality=True
        )
    mol = Chem.MolFromSmiles("CC(=O)Oc1ccccc1CC1CC1")
    assert murcko_scaffold(mol) == "c1ccc(CC2CC2)cc1"
    assert murcko_scaffold(Chem.MolFromSmiles("CCO")) == ""


@pytest.mark.parametrize(
    "text, expected",
    [
        ("CC(C)C |w:1,r|", "CC(C)C"),  # written by Indigo
        ("O |bad stuff", "O"),
        ("InChI=1S/C2H6O/c1-2-3/h3H,2H2,1H3", "CCO"),
    ],
)
def test_extensions_and_inchi(text, expected):
    assert Chem.MolToSmiles(mol_of_smiles(text)) == expected


def test_acceptors_of_dative_bonds():
    """RDKit counts a dative bond among those of its acceptor."""
    graph = PLAIN.read_row("CC(C)(C)N->[BH3]", scaffold=True)
    assert len(graph.x) == 6
    assert mol_of_smiles("F[B](F)(F)<-O(C)C").GetNumAtoms() == 7
    for text in ("CC(C)(C)(C)N->[BH3]", "CN->[BH3]C(", "C(C)(C)(C)(C)C"):
        with pytest.raises(ValueError, match="RDKit refuses it"):
            mol_of_smiles(text)


@pytest.mark.parametrize("text", ["CCO>>CC", "CC(=O)O>[H+]>CC"])
def test_reactions_are_named(text):
    """Before RDKit, whose own message would count."""
    with captured_rdkit_log() as messages:
        with pytest.raises(ValueError, match="it is a reaction, which is not read"):
            parse(text, PLAIN.read_row, messages)


def test_racemates():
    """A racemate has one identity, which is neither enantiomer's."""
    left, right = "C[C@H](F)Cl", "C[C@@H](F)Cl"
    texts = [left, f"{left} |a:1|", right, f"{left} |&1:1|", f"{right} |&1:1|"]
    one, same, other, *racemates = (
        PLAIN.read_row(text).extras["identity"] for text in texts
    )
    assert one == same != other and racemates[0] == racemates[1]
    assert racemates[0] not in (one, other)


@pytest.mark.parametrize(
    "text, plain",
    [
        ("[2H]C([2H])([2H])Oc1ccccc1", "COc1ccccc1"),
        ("[3H]OCC", "OCC"),
        ("[2H][C@]([H])(F)Cl", "C(F)Cl"),
    ],
)
def test_isotopes_of_hydrogen_count_as_hydrogen(text, plain):
    for found, expected in zip(PLAIN.read_row(text), PLAIN.read_row(plain)):
        assert np.array_equal(found, expected)


def test_isotopes_of_heavy_atoms_stay():
    assert Chem.MolToSmiles(OGBFeaturiser().mol("[13CH4]")) == "[13CH4]"


@pytest.mark.parametrize("numbers", ["1", "2"])
def test_numbers_of_atoms_in_a_reaction_are_not_read(numbers):
    """Nor are hydrogens that had one atoms; the scaffold is that of the molecule."""
    swap = {"1": "3", "2": "2"}[numbers]
    text = (
        f"[c:1]1([H:9])[o:{swap}][n:3][n:4][c:5]1[C:6]1([H:10])[C:7]([H:11])([H:12])"
        "[N:8]1[H:13]"
    )
    graph = PLAIN.read_row(text, scaffold=True)
    plain = PLAIN.read_row("c1onnc1C1CN1", scaffold=True)
    assert graph.extras == plain.extras and graph.extras["scaffold"] == "c1onnc1C1CN1"
    assert len(graph.x) == len(plain.x) == 8
    penicillin = "CC1(C)S[C@@H]2[C@H](NC(=O)Cc3ccccc3)C(=O)N2[C@H]1C(=O)O"
    mapped = penicillin.replace("[C@@H]", "[C@@H:7]").replace("CC1(C)", "[CH3:1]C1(C)")
    for name, values in vars_of(PLAIN.read_row(mapped)).items():
        assert np.array_equal(values, vars_of(PLAIN.read_row(penicillin))[name]), name


def vars_of(graph):
    return {"x": graph.x, "edges": graph.edge_index, "bonds": graph.edge_attr}


def test_a_scaffold_and_a_constitution_have_no_stereo_marks():
    pair = [PLAIN.read_row(s, True) for s in ("C[C@H]1CCCO1", "C[C@@H]1CCCO1")]
    first, second = (one.extras for one in pair)
    assert first["scaffold"] == second["scaffold"] == "C1CCOC1"
    assert first["constitution"] == second["constitution"]
    assert first["identity"] != second["identity"]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("O=C([O-])c1ccccc1.[Na+]", "O=C(O)c1ccccc1"),
        ("C[C@H]([NH3+])C(=O)[O-].O", "CC(N)C(=O)O"),
        ("CC(=O)O[Ca]OC(C)=O", "CC(=O)O"),
        ("C[N+](C)(C)CC(=O)[O-]", "C[N+](C)(C)CC(=O)O"),
        ("O=[N+]([O-])c1ccccc1", "O=[N+]([O-])c1ccccc1"),
        ("[2H]C([2H])([2H])[18OH]", "CO"),
        ("[Na+].[Cl-]", "Cl"),
        ("[2H][2H]", "[H][H]"),
    ],
)
def test_parents(text, expected):
    """A quaternary nitrogen and a nitro group keep their charges."""
    mol = mol_of_any_smiles(text)
    before = mol.ToBinary()
    assert Chem.MolToSmiles(parent(mol)) == expected
    assert mol.ToBinary() == before
    extras = PLAIN.read_row(text, scaffold=True).extras
    alone = PLAIN.read_row(expected, scaffold=True).extras
    assert extras["parent"] == alone["parent"] == parent_key(mol)
    assert extras["scaffold"] == alone["scaffold"]
