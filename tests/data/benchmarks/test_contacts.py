"""Contacts of molecules: the pairs, the graphs, and what a person may mistype."""

import json
import logging

import numpy as np
import pytest
from fairseq_cli import train as fairseq_train
from rdkit import Chem

from graphormer_plugin import hub
from graphormer_plugin.cli import explain, predict
from graphormer_plugin.data.benchmarks.contacts import contacts_of
from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.graphs.conformers import embedded_positions
from graphormer_plugin.data.store.build import get_store
from graphormer_plugin.data.tables.options import DatasetOptions
from support import tables
from support.training import TINY, USER_DIR, run

ACID = "O=C(O)c1ccccc1Nc1ccccc1C(=O)O"


def hops(mol):
    """Bonds between atoms by relaxation, inf where there is no path."""
    n = mol.GetNumAtoms()
    apart = np.where(np.eye(n), 0, np.inf)
    for _ in range(n):
        for bond in mol.GetBonds():
            i, j = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
            apart[i] = np.minimum(apart[i], apart[j] + 1)
            apart[j] = np.minimum(apart[j], apart[i] + 1)
    return apart


def test_pairs_are_near_in_space_and_far_along_bonds():
    """A chain of ten atoms in a line and a fragment, on a grid of 1.2 angstrom."""
    mol = Chem.MolFromSmiles("CCCCCCCCCC.CC")
    pos = np.zeros((12, 3))
    pos[:10, 0] = np.minimum(np.arange(10), 9 - np.arange(10))  # folded
    pos[5:10, 1] = 2
    pos[10:, 1] = 1
    pos *= 1.2
    apart = hops(mol)
    expected = [
        [i, j]
        for i in range(10)
        for j in range(10)
        if 5 < apart[i, j] and np.linalg.norm(pos[i] - pos[j]) < 3.5
    ]
    found = contacts_of(mol, pos).T.tolist()
    assert found == expected and [0, 9] in found and [9, 0] in found
    assert [2, 7] not in found and [1, 8] in found  # five bonds, and seven


def contacts(folder, source, **options):
    given = {"source": source, "data_root": str(folder), "progress": False}
    return get_store(DatasetOptions("contacts", **given, **options))


def test_a_table(tmp_path, caplog):
    table = tmp_path / "molecules.csv"
    chains = [f"C{'C' * n}O" for n in range(3)]
    table.write_text("\n".join(["smiles", *chains, *[ACID] * 10]))
    caplog.set_level(logging.INFO)
    store = contacts(tmp_path, f"table:{table}")
    assert store.targets.level == "link" and store.targets.kind == "binary"
    assert store.featuriser == "ogb" and "pos" not in store.columns
    assert "left out 3 molecules without a contact" in caplog.text
    mol = Chem.MolFromSmiles(ACID)
    pairs = contacts_of(mol, embedded_positions(mol))
    assert len(store) == 10 and pairs.shape[1]
    for graph in range(10):
        assert store.edge_label_index(np.array([graph])).tolist() == pairs.T.tolist()
    assert (store.target == 1).all()


def test_molecules_that_cannot_be_read(tmp_path):
    table = tmp_path / "molecules.csv"
    table.write_text("\n".join(["smiles", *[ACID] * 10, "C1CC"]))
    with pytest.raises(DatasetError, match="row 10, C1CC: .* or leave such molecules"):
        contacts(tmp_path, f"table:{table}")
    assert len(contacts(tmp_path, f"table:{table}", skip_invalid=True)) == 10


@pytest.mark.long
@pytest.mark.usefixtures("fresh_fairseq")
def test_pairs_of_smiles_are_predicted(tmp_path, monkeypatch, capsys):
    """Training on a table, and predictions of all pairs of new molecules, in any spelling."""
    table = tmp_path / "molecules.csv"
    table.write_text("\n".join(["smiles", *[ACID] * 10]))
    words = f"""--user-dir {USER_DIR} --task edge_prediction --dataset-name contacts
        --dataset-source table:{table} --data-root {tmp_path} --criterion link_logloss
        {TINY} --optimizer adam --lr 1e-2 --max-epoch 1 --batch-size 8 --num-workers 0
        --cpu --best-checkpoint-metric mrr --no-epoch-checkpoints --no-progress-bar
        --save-dir {tmp_path}/run"""
    run(fairseq_train.cli_main, words.split(), monkeypatch)
    checkpoint = str(tmp_path / "run/checkpoint_best.pt")
    predictor = hub.load(checkpoint)
    one, lone, other = predictor.predict(["CCO", "C", "OCC"])
    assert one.shape == (3, 1) and lone.shape == (0, 1)
    np.testing.assert_allclose(one, other[::-1], atol=1e-6)
    (tmp_path / "in.csv").write_text("smiles,contact\nCCO,1\nC1CC,0\nC,1\n")
    output = tmp_path / "out.csv"
    predict.main([checkpoint, str(tmp_path / "in.csv"), str(output), "--quiet"])
    rows = tables.rows(output)
    assert list(rows[0]) == ["smiles", "contact", "links", "reason"]
    assert rows[0]["links"].startswith("[[0, 1, ")  # numbers of atoms are integers
    links = json.loads(rows[0]["links"])
    assert [pair[:2] for pair in links] == [[0, 1], [0, 2], [1, 2]]
    np.testing.assert_allclose([pair[2:] for pair in links], one, atol=1e-6)
    assert rows[1]["links"] == "" and "unclosed ring" in rows[1]["reason"]
    assert rows[2]["links"] == "[]" and rows[2]["reason"] == ""
    other = str(tmp_path / "other.csv")
    picture = str(tmp_path / "picture.png")
    capsys.readouterr()
    for command, words, line in (
        (
            explain,
            [checkpoint, "CCO", picture],
            "links, and explanations are of graphs",
        ),
        (predict, [checkpoint, checkpoint, str(output), other], "name one of them"),
    ):
        assert command.main(words) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and line in error
