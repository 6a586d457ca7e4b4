import numpy as np
import pytest
from rdkit import Chem

from graphormer_plugin import hub
from graphormer_plugin.data.graphs.featurisers import featuriser_named
from graphormer_plugin.data.store.featurise import RowReader
from graphormer_plugin.workbench.explain.explanation import largest
from graphormer_plugin.workbench.explain.masking import (
    ATOMS,
    BRICS_FRAGMENTS,
    ENVIRONMENTS,
    MURCKO_PARTS,
    PARTS,
    brics_fragments,
    contributions,
    environments,
    murcko_parts,
    without,
)

START = "grpe_minimol"
DRUG = "CC(=O)Nc1ccc(OC[C@H](Cl)c2c[nH]c3ccccc23)cc1"
MOLECULES = [
    *(DRUG, "F/C=C/Cl", "C[N+](C)(C)CC([O-])=O", "O=[N+]([O-])c1ccccc1"),
    *("CC[C@](F)(Cl)C[C@H](N)C(=O)O", "C[S@](=O)c1ccccc1", "[Na+].CC(=O)[O-]"),
    *("C1CC2CCC1CC2", "O=c1cc[nH]c2ccccc12", "C#CC1=CN=CN1", "FC(F)(F)c1cnn(C)c1"),
]


@pytest.mark.parametrize(
    "smiles, atoms, rest",
    [
        ("Cc1ccccc1", [0], "c1ccccc1"),
        ("Cc1ccccc1", [1, 2, 3, 4, 5, 6], "C"),
        ("CC(=O)O", [2], "CCO"),  # two hydrogens for the double bond
        ("CC#N", [2], "CC"),
        ("c1cc[nH]c1", [0], "C=CNC"),  # an opened ring is not aromatic
        ("CCOCC", [2], "CC.CC"),
        ("C[N+](C)(C)C", [0], "C[NH+](C)C"),  # charges stay
        ("CC[C@](F)(Cl)CN", [3], "CC[C@]([H])(Cl)CN"),  # and so does chirality
        ("CC[C@](F)(Cl)CN", [0, 1], "[H][C@](F)(Cl)CN"),
        ("F/C=C/Cl", [0], "C=CCl"),
    ],
)
def test_rest_of_a_molecule(smiles, atoms, rest):
    assert without(Chem.MolFromSmiles(smiles), atoms) == Chem.CanonSmiles(rest)


def test_nothing_is_left():
    assert without(Chem.MolFromSmiles("CCO"), [0, 1, 2]) == ""


@pytest.mark.parametrize("smiles", MOLECULES)
def test_rests_are_molecules_of_the_other_atoms(smiles):
    mol = Chem.MolFromSmiles(smiles)
    for split in PARTS.values():
        for atoms in split(mol):
            if len(atoms) == mol.GetNumAtoms():
                continue
            rest = Chem.MolFromSmiles(without(mol, atoms))
            assert rest.GetNumHeavyAtoms() == mol.GetNumAtoms() - len(atoms)
            assert not any(atom.GetNumRadicalElectrons() for atom in rest.GetAtoms())


@pytest.mark.parametrize("split", [brics_fragments, murcko_parts])
@pytest.mark.parametrize("smiles", MOLECULES)
def test_each_atom_is_in_one_fragment(smiles, split):
    mol = Chem.MolFromSmiles(smiles)
    atoms = [atom for part in split(mol) for atom in part]
    assert sorted(atoms) == list(range(mol.GetNumAtoms()))


def test_fragments_of_a_drug():
    mol = Chem.MolFromSmiles(DRUG)

    def named(split):
        return sorted(Chem.MolFragmentToSmiles(mol, atoms) for atoms in split(mol))

    rings = ["c1ccc2[nH]ccc2c1", "c1ccccc1"]
    assert named(murcko_parts) == ["CC(N)=O", "CCO", "Cl", *rings]
    assert named(brics_fragments) == ["CC=O", "CCCl", "N", "O", *rings]
    assert environments(mol)[1] == (1, 0, 2, 3)


def test_contributions_are_differences_of_predictions():
    predictor = hub.load(START)
    smiles = "Cc1ccc(O)cc1"
    whole, toluene, phenol, others = predictor.predict(
        [smiles, "Cc1ccccc1", "Oc1ccccc1", "C.O"]
    )[:, 3]
    found = {
        (part.kind, part.atoms): part
        for part in contributions(predictor, predictor.read([smiles]), 3)
    }
    for kind, atoms, name, rest in (
        (ATOMS, (0,), "C", phenol),
        (ATOMS, (5,), "O", toluene),
        (MURCKO_PARTS, (0,), "C", phenol),
        (MURCKO_PARTS, (1, 2, 3, 4, 6, 7), "c1ccccc1", others),
        (ENVIRONMENTS, (5, 4), "cO", None),
    ):
        part = found[kind, atoms]
        assert part.smiles == name
        if rest is not None:
            assert part.value == pytest.approx(whole - rest, abs=1e-5)
    (brics,) = (part for (kind, _), part in found.items() if kind == BRICS_FRAGMENTS)
    assert np.isnan(brics.value)  # the whole molecule
    assert "nan" not in largest([*found.values()])


def test_a_rest_that_the_model_cannot_read_has_no_contribution(monkeypatch):
    read = RowReader.__call__

    def refuse_oxygen(self, smiles):
        if smiles == "O":
            raise ValueError("no oxygen")
        return read(self, smiles)

    monkeypatch.setattr(RowReader, "__call__", refuse_oxygen)
    predictor = hub.load(START)
    methane, methanol = predictor.predict(["C", "CO"])[:, 0]
    parts = contributions(predictor, predictor.read(["CO"]))
    values = {part.smiles: part.value for part in parts if part.kind == ATOMS}
    assert np.isnan(values["C"])
    assert values["O"] == pytest.approx(methanol - methane, abs=1e-5)


def test_every_fragment_of_a_rest_counts():
    """The largest fragment is chosen once, in the molecule, not in what is left of it."""
    predictor = hub.load(START)
    smiles = "c1ccccc1OCCN.Cl"
    plain = contributions(predictor, predictor.read(["c1ccccc1OCCN"]))
    predictor.featuriser = featuriser_named("ogb_largest_fragment")
    chosen = contributions(predictor, predictor.read([smiles]))
    assert [part[:3] for part in chosen] == [part[:3] for part in plain]
    values = [[part.value for part in parts] for parts in (plain, chosen)]
    np.testing.assert_allclose(*values, atol=1e-4)
