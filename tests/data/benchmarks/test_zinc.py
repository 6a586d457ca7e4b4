"""ZINC from its pickles and from SMILES."""

import dataclasses
import json
import pickle
import shutil

import pytest

from graphormer_plugin.data import DatasetError, describe, get_store
from graphormer_plugin.data.benchmarks import zinc
from graphormer_plugin.data.benchmarks.official import SingleFile
from graphormer_plugin.data.benchmarks.zinc import (
    ZINC_ATOM_TYPES,
    ZINC_BOND_TYPES,
    parse_zinc_smiles,
)
from support.benchmark_files import SMILES, Code, pack, write_csv, write_zinc
from support.tables import rows

PARTS = {
    "train": [(smiles, 0.5 * row) for row, smiles in enumerate(SMILES[:30])],
    "val": [(smiles, -1.0) for smiles in SMILES[30:40]],
    "test": [(smiles, -2.0) for smiles in SMILES[40:]],
}
EXTRA = {"train": [("CCS", 9.0)] * 3, "val": [("CS", 9.0)], "test": []}


def write_zinc_csv(root, parts=PARTS):
    path = root / "ZINC" / "zinc12k.csv.gz"
    lines = [[split, *pair] for split, pairs in parts.items() for pair in pairs]
    write_csv(path, ["split", "smiles", "y"], lines)
    return path


@pytest.mark.parametrize(
    "name, source, sizes, labels",
    [
        ("zinc", "", [30, 10, 8], [0.0, 0.5, 1.0, 1.5]),
        ("zinc", "pyg", [30, 10, 8], [0.0, 0.5, 1.0, 1.5]),
        ("zinc", "ogb", [30, 10, 8], [0.0, 0.5, 1.0, 1.5]),
        ("zinc-full", "", [33, 11, 8], [9.0, 9.0, 9.0, 0.0]),
    ],
)
def test_benchmark_and_full_set(tmp_path, options, name, source, sizes, labels):
    """The benchmark says that it is a subset."""
    write_zinc(tmp_path, PARTS, EXTRA)
    store = get_store(options(name, source=source))
    assert [len(store.splits[part]) for part in ("train", "valid", "test")] == sizes
    assert store.schema.node_dims == [28] and store.schema.bond_dims == [4]
    assert store.target[:4, 0].tolist() == labels
    assert ("zinc-full has all 249,456" in describe(store)) == (name == "zinc")


def test_zinc_from_smiles_equals_zinc_from_pickles(tmp_path, options):
    folder = write_zinc(tmp_path, PARTS)
    pickles = get_store(options("zinc"))
    shutil.rmtree(folder)
    path = write_zinc_csv(tmp_path)
    smiles = get_store(options("zinc", source="smiles"))
    assert smiles.path != pickles.path
    assert smiles.fingerprint == pickles.fingerprint
    # found without being named, where the pickles are not there
    shutil.rmtree(pickles.path)
    assert get_store(options("zinc")).path == smiles.path
    # and good without its file
    path.unlink()
    assert get_store(options("zinc", source="smiles")).path == smiles.path
    shutil.rmtree(smiles.path)
    with pytest.raises(DatasetError, match="zinc12k.csv.gz: No such file"):
        get_store(options("zinc", source="smiles"))


def test_vocabulary_by_hand():
    def read(smiles):
        graph = parse_zinc_smiles(smiles)
        bonds = {
            (int(a), int(b)): ZINC_BOND_TYPES[kind]
            for a, b, kind in zip(*graph.edge_index, graph.edge_attr[:, 0])
        }
        assert all(bonds[b, a] == kind for (a, b), kind in bonds.items())
        return [ZINC_ATOM_TYPES[kind] for kind in graph.x[:, 0]], bonds

    atoms, bonds = read("C#CO")
    assert atoms == ["C", "C", "O"]
    assert bonds == {
        **dict.fromkeys([(0, 1), (1, 0)], "TRIPLE"),
        **dict.fromkeys([(1, 2), (2, 1)], "SINGLE"),
    }
    # chirality puts an atom in brackets, pyrrole's hydrogen does not
    assert read("C[C@H](N)[NH3+]")[0] == ["C", "C H1", "N", "N H3 +"]
    assert read("c1cc[nH]c1")[0] == ["C", "C", "C", "N", "C"]
    assert read("C[NH+](C)CC(=O)[O-]")[0][1] == "N H1 +"
    assert read("C[NH+](C)CC(=O)[O-]")[0][-1] == "O -"
    # a Kekule structure: three double bonds in benzene
    bonds = list(read("c1ccccc1")[1].values())
    assert bonds.count("DOUBLE") == bonds.count("SINGLE") == 6
    for text, message in (
        ("C[Si](C)C", "atom type 'Si' is not in the vocabulary"),
        ("C1CC", "RDKit refuses it"),
        ("C O", "text after a blank"),
        ("", "no SMILES"),
    ):
        with pytest.raises(ValueError, match=message):
            parse_zinc_smiles(text)


def test_sizes_and_types_of_the_real_molecules(shared_data):
    """A tenth of the 12,000; the totals in the data's README are those of all."""
    molecules = rows(shared_data / "zinc12k.csv.gz")
    first = {}
    for row in molecules:
        first.setdefault(row["split"], row["smiles"])
    sizes = [parse_zinc_smiles(first[split]) for split in ("train", "val", "test")]
    published = [(29, 64), (35, 78), (16, 34)]
    assert [(len(g.x), g.edge_index.shape[1]) for g in sizes] == published
    types, bonds = set(), set()
    for row in molecules[::10]:
        graph = parse_zinc_smiles(row["smiles"])
        types.update(graph.x[:, 0].tolist())
        bonds.update(graph.edge_attr[:, 0].tolist())
    assert max(types) <= 20 and len(types) >= 15
    assert bonds == {1, 2, 3}


def test_vocabulary_equals_the_published_one(shared_data):
    vocabulary = json.loads((shared_data / "zinc_vocab_and_target.json").read_text())
    assert vocabulary["atom_types"] == {n: i for i, n in enumerate(ZINC_ATOM_TYPES)}
    assert vocabulary["bond_types"] == {n: i for i, n in enumerate(ZINC_BOND_TYPES)}


def test_a_pickle_with_code_is_refused(tmp_path, options, capsys):
    folder = write_zinc(tmp_path, PARTS)
    (folder / "train.pickle").write_bytes(pickle.dumps([Code()]))
    with pytest.raises(DatasetError, match="names builtins.print, which no data need"):
        get_store(options("zinc"))
    assert "executed" not in capsys.readouterr().out


def test_an_archive_and_index_files(tmp_path, options, monkeypatch):
    """The archive holds the pickles; the index files come from elsewhere."""
    folder = write_zinc(tmp_path / "server", PARTS)
    moved = tmp_path / "server" / "index"
    moved.mkdir()
    for path in folder.glob("*.index"):
        shutil.move(path, moved / path.name)
    pack(folder, tmp_path / "molecules.zip", "molecules")
    apart = tuple(SingleFile(path.name, path.as_uri()) for path in moved.iterdir())
    monkeypatch.setattr(zinc, "ZINC", dataclasses.replace(zinc.ZINC, apart=apart))
    assert len(get_store(options("zinc")).splits["train"]) == 30
