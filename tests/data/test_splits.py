"""Random splits and splits by scaffold."""

import numpy as np
import pytest

from graphormer_plugin.data.datasets.csv_file import CsvTable
from graphormer_plugin.data.datasets.smiles import murcko_scaffold
from graphormer_plugin.data.featurise import captured_rdkit_log
from graphormer_plugin.data.splits import random_split, scaffold_split


def test_random_split():
    splits = random_split(101, seed=3)
    assert [len(splits[name]) for name in ("train", "valid", "test")] == [
        81,
        10,
        10,
    ]
    joined = np.concatenate(list(splits.values()))
    assert np.array_equal(np.sort(joined), np.arange(101))


class TestScaffoldSplit:
    def test_rule(self):
        # Groups by size, then by first molecule, both descending: b, d, c, a.
        scaffolds = list("abbbbbbcdd")
        splits = scaffold_split(scaffolds)
        assert splits["train"].tolist() == [1, 2, 3, 4, 5, 6, 8, 9]
        assert splits["valid"].tolist() == [7]
        assert splits["test"].tolist() == [0]

    @pytest.mark.slow
    def test_official_molhiv_split(self, shared_data):
        from rdkit import Chem

        rows = CsvTable(shared_data / "molhiv.csv.gz").rows(["smiles"])
        scaffolds = []
        with captured_rdkit_log():
            for _, _, (smiles,) in rows:
                mol = Chem.MolFromSmiles(smiles)
                if mol is None:  # seven metal complexes; rings are all that matters
                    mol = Chem.MolFromSmiles(smiles, sanitize=False)
                    Chem.FastFindRings(mol)
                scaffolds.append(murcko_scaffold(mol))
        splits = scaffold_split(scaffolds)
        table = CsvTable(shared_data / "molhiv_split.csv.gz")
        official = [cells[0] for _, _, cells in table.rows(["split"])]
        for name, numbers in splits.items():
            assert numbers.tolist() == [i for i, s in enumerate(official) if s == name]
