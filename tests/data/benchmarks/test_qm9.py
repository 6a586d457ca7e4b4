"""QM9 from small files in the form of qm9pack and of PyG's raw folder."""

import csv
import importlib.util
import json

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import rdDistGeom

from graphormer_plugin.data.benchmarks import qm9
from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.graphs.smiles import feature_dims
from graphormer_plugin.data.store.build import get_store
from graphormer_plugin.data.tables.options import DatasetOptions

SMILES = ["C", "N", "O", "CO", "CC=O", "C#N", "CC(N)=O", "C1CC1", "CCF", "OC1CN1"] * 2
REFERENCES = {"H": -13.61312172, "C": -1029.86312267, "N": -1485.30251237}  # of U0, eV
REFERENCES |= {"O": -2042.61123593, "F": -2713.48485589}


def molecules():
    """RDKit's molecules with hydrogens and a conformer."""
    for number, smiles in enumerate(SMILES):
        mol = Chem.AddHs(Chem.MolFromSmiles(smiles))
        rdDistGeom.EmbedMolecule(mol, randomSeed=number)
        yield mol


def symbols(mol):
    return [atom.GetSymbol() for atom in mol.GetAtoms()]


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package qm9pack of two tables, with atoms in an order of their own."""
    folder = tmp_path / "site/qm9pack"
    (folder / "data").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise ImportError('it is not imported')\n")
    columns = [column for _, column, _ in qm9.TARGETS.values()]
    rows = []
    for number, mol in enumerate(molecules()):
        order = np.random.default_rng(number).permutation(mol.GetNumAtoms())
        mol = Chem.RenumberAtoms(mol, order.tolist())
        pos = json.dumps(mol.GetConformer().GetPositions().round(10).tolist())
        values = [-100 - number - place / 8 for place in range(len(columns))]
        elements = str(symbols(mol)).replace(" ", "")
        pos = pos.replace(" ", "").replace(".0,", ".,")
        rows.append([SMILES[number], elements, pos, *values, 0])
    header = ["SMILES", "Elements", "XYZ_Ang", *columns, "RotA_GHz"]
    for part, few in (("1", rows[:9]), ("2", rows[9:])):
        with open(folder / f"data/qm9_part{part}.csv", "w", newline="") as file:
            csv.writer(file).writerows([header, *few])
    monkeypatch.syspath_prepend(str(folder.parent))
    return rows


def prepare(tmp_path, **options):
    root = str(tmp_path / "root")
    return get_store(DatasetOptions("qm9", data_root=root, progress=False, **options))


def test_the_package(package, tmp_path):
    """Targets in eV and as atomisation energies; atoms as in the file, bonds by the SMILES."""
    store = prepare(tmp_path, target_columns="gap,mu,u0")
    assert store.featuriser == "ogb_file" and store.targets.meaning == "eV, D"
    assert store.targets.names == ["gap", "mu", "u0"]
    sizes = [len(store.splits[name]) for name in ("train", "valid", "test")]
    assert sizes == [17, 2, 1]
    offsets = store.columns["node_offset"]
    for number, mol in enumerate(molecules()):
        elements = json.loads(package[number][1].replace("'", '"'))
        gap, mu, u0 = store.target[number]
        assert mu == pytest.approx(-100 - number)
        assert gap == pytest.approx((-100 - number - 4 / 8) * 27.211386246, rel=1e-6)
        free = sum(REFERENCES[element] for element in elements)
        total = (-100 - number - 7 / 8) * 27.211386246
        assert u0 == pytest.approx(total - free, rel=1e-5)
        rows = slice(offsets[number], offsets[number + 1])
        table = Chem.GetPeriodicTable()
        atoms = [table.GetAtomicNumber(element) - 1 for element in elements]
        assert store.columns["x"][rows, 0].tolist() == atoms
        pos = np.array(json.loads(package[number][2].replace(".,", ".0,")))
        found = store.columns["pos"][rows]
        np.testing.assert_allclose(found, pos - pos.mean(0), atol=1e-5)
        edges = np.diff(store.columns["edge_offset"])[number]
        assert edges == 2 * mol.GetNumBonds()
    assert store.schema.node_dims == feature_dims()[0]


def test_positions_are_those_of_the_files(package, tmp_path):
    same = prepare(tmp_path, positions="file").fingerprint
    assert same == prepare(tmp_path).fingerprint
    with pytest.raises(DatasetError, match=r"--positions rdkit, expected none\|file"):
        prepare(tmp_path, positions="rdkit")


def test_other_seeds_are_other_splits(package, tmp_path):
    splits = [prepare(tmp_path, seed=seed).splits["train"] for seed in (1, 2)]
    assert not np.array_equal(*splits)
    whole = {name: len(rows) for name, rows in qm9.split_of(130_831, 1).items()}
    assert whole == {"train": 110_000, "valid": 10_000, "test": 10_831}


def test_bonds_that_positions_do_not_have():
    one, other = (mol for number, mol in enumerate(molecules()) if number in (3, 8))
    pos = one.GetConformer().GetPositions()
    mol = qm9.placed_mol("CO", symbols(one), pos)
    assert Chem.MolToSmiles(Chem.RemoveHs(mol)) == "CO"
    with pytest.raises(ValueError, match="near atoms are not those"):
        qm9.placed_mol("CO", symbols(one), pos * 2)
    with pytest.raises(ValueError, match="near atoms are not those"):
        qm9.placed_mol("CO", symbols(other), other.GetConformer().GetPositions())


def test_the_raw_folder_of_pyg(tmp_path, caplog):
    folder = tmp_path / "root/QM9/raw"
    folder.mkdir(parents=True)
    columns = [name for *_, name in qm9.TARGETS.values()]
    with open(folder / "gdb9.sdf", "w") as sdf:
        for mol in molecules():
            sdf.write(Chem.MolToMolBlock(mol) + "$$$$\n")
    rows = [[f"gdb_{n + 1}", *[n + 0.5] * len(columns)] for n in range(len(SMILES))]
    with open(folder / "gdb9.sdf.csv", "w", newline="") as file:
        csv.writer(file).writerows([["mol_id", *columns], *rows])
    left_out = "head\n" * 9 + "   3 a\n   5 b\n" + "end\n"
    (folder / "uncharacterized.txt").write_text(left_out)
    store = prepare(tmp_path, target_columns="alpha,u0")
    kept = [n for n in range(len(SMILES)) if n not in (2, 4)]
    assert store.target[:, 0].tolist() == [n + 0.5 for n in kept]
    assert "18 graphs, the official release has 130,831" in caplog.text
    mols = [mol for number, mol in enumerate(molecules()) if number in kept]
    sizes = [mol.GetNumAtoms() for mol in mols]
    assert np.diff(store.columns["node_offset"]).tolist() == sizes
    free = [sum(REFERENCES[element] for element in symbols(mol)) for mol in mols]
    energies = [(n + 0.5) * 27.211386246 for n in kept]
    np.testing.assert_allclose(store.target[:, 1], np.subtract(energies, free), 1e-6)


def test_what_is_missing_or_unknown(package, tmp_path, monkeypatch):
    with pytest.raises(DatasetError, match="qm9 has no target 'gpa', only mu, alpha"):
        prepare(tmp_path, target_columns="gpa")
    monkeypatch.setattr(qm9, "_package_files", lambda: [])
    with pytest.raises(DatasetError, match="pip install 'graphormer-plugin.qm9.'"):
        prepare(tmp_path, source="qm9pack")


@pytest.mark.slow
def test_the_whole_package():
    """Bonds of at least 99 % of its molecules are those of the SMILES."""
    if importlib.util.find_spec("qm9pack") is None:
        pytest.skip("pip install qm9pack")
    texts, table = qm9._package()
    assert len(texts) == 130_831
    assert table["HOMO_LUMO_gap_au"].mean() == pytest.approx(0.25204, abs=1e-5)
    wrong = 0
    for row in np.random.default_rng(0).choice(len(texts), 1000, replace=False):
        try:
            graph = qm9.parse_placed(texts[row])
            assert len(graph.x) == texts[row].count("'") // 2
        except ValueError:
            wrong += 1
    assert wrong <= 10
