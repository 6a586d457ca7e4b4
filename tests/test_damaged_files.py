"""Half of a file, as a broken copy leaves it, or other text in its place: one line with its
name. Stores and checkpoints of trainings have tests of their own."""

import re

import numpy as np
import pandas
import pytest
from rdkit import Chem

from graphormer_plugin import hub
from graphormer_plugin.data import DatasetOptions
from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.heads.fit import fit_on_features
from graphormer_plugin.heads.head import read_head
from graphormer_plugin.inference.checkpoint import packaged_models
from support.stores import csv_dataset

TABLE = pandas.DataFrame({"smiles": ["C" * n for n in range(1, 60)], "y": 1.0})


def read_table(path):
    csv_dataset(DatasetOptions(name=str(path), target_columns="y"))


def write_head(path):
    raw = {"vectors": np.random.default_rng(2).normal(size=(40, 8)).astype(np.float32)}
    mols, y = [Chem.MolFromSmiles("CO")] * 40, np.arange(40.0)[:, None]
    fit_on_features(raw, mols, y, TargetSchema(["y"]), "of", blocks=["vectors"]).save(
        path
    )


def write_checkpoint(path):
    path.write_bytes(packaged_models()["grpe_minimol"].read_bytes())


KINDS = {
    "table.csv.gz": (lambda path: TABLE.to_csv(path, index=False), read_table),
    "table.parquet": (TABLE.to_parquet, read_table),
    "table.xlsx": (lambda path: TABLE.to_excel(path, index=False), read_table),
    "head.npz": (write_head, lambda path: read_head(path, "of")),
    "checkpoint_best.pt": (write_checkpoint, hub.load),
}


@pytest.mark.parametrize("name", KINDS)
def test_one_line(name, tmp_path):
    write, read = KINDS[name]
    path = tmp_path / name
    write(path)
    read(path)
    content = path.read_bytes()
    for damaged in (content[: len(content) // 2], b"smiles,y\nC,1\n" * 9):
        path.write_bytes(damaged)
        with pytest.raises((ValueError, OSError), match=re.escape(str(path))) as caught:
            read(path)
        assert "\n" not in str(caught.value)
