"""Random splits and splits by scaffold."""

import numpy as np
import pytest
from rdkit import Chem

from graphormer_plugin.data.graphs.smiles import captured_rdkit_log, murcko_scaffold
from graphormer_plugin.data.splits import (
    folds,
    joined_groups,
    random_split,
    scaffold_split,
    splits_of_graphs,
    time_split,
)
from graphormer_plugin.data.tables.table import CsvTable
from support.benchmark_files import REFUSED_ROWS
from support.golden import GOLDEN


@pytest.mark.parametrize(
    "rows, ratios, sizes",
    [
        (101, [], [81, 10, 10]),
        (50, [(0.6, 0.2, 0.2)], [30, 10, 10]),
        (3, [], [1, 1, 1]),
    ],
)
def test_random_split(rows, ratios, sizes):
    splits = random_split(rows, 3, *ratios)
    assert [len(splits[name]) for name in ("train", "valid", "test")] == sizes
    joined = np.concatenate(list(splits.values()))
    assert np.array_equal(np.sort(joined), np.arange(rows))


def test_warning_of_graphs_in_two_splits(caplog):
    splits = {"train": [0, 1], "valid": [2, 4], "test": [0, 1, 4]}
    splits_of_graphs(splits, np.arange(5), "mine")
    assert caplog.messages == [
        "mine: train and test share 2 graphs",
        "mine: valid and test share 1 graph",
    ]


@pytest.mark.parametrize(
    "times, ratios, expected",
    [
        ([5, 4, 3, 2, 1, 0], (0.6, 0.2, 0.2), ([4, 5], [2, 3], [0, 1])),
        # Ties stay together; a part gets at least its share.
        ([0, 1, 1, 2, 2, 2], (0.8, 0.1, 0.1), ([0], [1, 2], [3, 4, 5])),
        ([7, 7, 7, 9, 9, 9], (0.8, 0.1, 0.1), ([], [0, 1, 2], [3, 4, 5])),
        ([0, 1, 2, 3, 4, 5], (8 / 9, 1 / 9, 0.0), ([0, 1, 2, 3, 4], [5], [])),
    ],
)
def test_split_by_time(times, ratios, expected):
    labels = np.ones((len(times), 2))
    labels[:, 1] = np.nan  # a target without labels has no share
    found = time_split(np.array(times, float), labels, ratios)
    parts = ("train", "valid", "test")
    assert tuple(found[part].tolist() for part in parts) == expected
    # Labels count, not rows.
    labels = np.vstack([labels, np.full((50, 2), np.nan)])
    more = time_split(np.r_[times, np.full(50, 99.0)], labels, ratios)
    assert all(np.array_equal(more[part], found[part]) for part in parts)


class TestFolds:
    def test_each_row_is_tested_once(self):
        found = folds(23, 5, seed=2)
        tested = np.concatenate([splits["test"] for splits in found])
        assert np.array_equal(np.sort(tested), np.arange(23))
        for splits, after in zip(found, [*found[1:], found[0]]):
            rows = np.concatenate(list(splits.values()))
            assert np.array_equal(np.sort(rows), np.arange(23))
            assert np.array_equal(splits["valid"], after["test"])
        assert not np.array_equal(folds(23, 5, seed=3)[0]["test"], found[0]["test"])

    def test_scaffolds_stay_together(self):
        scaffolds = list("aaaabbbccddeefgh")
        found = folds(16, 4, 1, scaffolds)
        assert [len(splits["test"]) for splits in found] == [4, 4, 4, 4]
        for splits in found:
            groups = [{scaffolds[row] for row in rows} for rows in splits.values()]
            assert sum(map(len, groups)) == 8


class TestScaffoldSplit:
    def test_rule(self):
        # Groups by size, then by first molecule, both descending: b, d, c, a.
        scaffolds = list("abbbbbbcdd")
        splits = scaffold_split(scaffolds)
        assert splits["train"].tolist() == [1, 2, 3, 4, 5, 6, 8, 9]
        assert splits["valid"].tolist() == [7]
        assert splits["test"].tolist() == [0]

    def test_ratios(self):
        scaffolds = [str(number) for number in range(20)]
        splits = scaffold_split(scaffolds, (0.5, 0.2, 0.3))
        assert [len(rows) for rows in splits.values()] == [10, 4, 6]

    def test_seeds_order_the_groups(self, rng):
        scaffolds = [*"a" * 60, *"b" * 15, *map(str, rng.integers(0, 60, 125))]
        found = [scaffold_split(scaffolds, seed=seed) for seed in range(5)]
        for splits in found:
            rows = np.concatenate(list(splits.values()))
            assert np.array_equal(np.sort(rows), np.arange(200))
            groups = [{scaffolds[row] for row in rows} for rows in splits.values()]
            assert not (groups[0] & groups[1] or groups[0] & groups[2])
            assert not groups[1] & groups[2]
            assert {"a", "b"} <= groups[0]  # more than half of the 20 in test
            assert 150 <= len(splits["train"]) <= 160
            assert 10 <= len(splits["valid"]) and 20 <= len(splits["test"]) <= 30
        assert len({tuple(splits["test"]) for splits in found}) == 5
        again = scaffold_split(scaffolds, seed=3)
        assert np.array_equal(again["test"], found[3]["test"])

    @pytest.mark.long
    @pytest.mark.parametrize("sizes", [[171, 10, 10, 9], [27] * 5, [3, 1, 1]])
    def test_few_or_large_scaffolds(self, sizes):
        """All parts have molecules, whatever the order; the large scaffold is train."""
        scaffolds = np.repeat([*"abcde"][: len(sizes)], sizes)
        for seed in range(5):
            splits = scaffold_split(scaffolds.tolist(), seed=seed)
            assert all(map(len, splits.values())), seed
            assert sizes[0] < 171 or {*scaffolds[splits["train"]]} == {"a"}

    def test_official_molhiv_split(self, shared_data):
        """All scaffolds, numbered in golden/molhiv_scaffolds.npz: RDKit takes 12 s for
        them. Those of each fortieth molecule and number are made again."""
        with np.load(GOLDEN / "molhiv_scaffolds.npz") as file:
            numbers = file["number"]
        again = np.arange(len(numbers)) % 40 == 0
        again |= numbers % 40 == 0
        rows = CsvTable(shared_data / "molhiv.csv.gz").rows(["smiles"])
        pairs = set()
        with captured_rdkit_log():
            for row, *_, (smiles,) in rows:
                if not again[row] and row not in REFUSED_ROWS:
                    continue
                mol = Chem.MolFromSmiles(smiles)
                assert (mol is None) == (row in REFUSED_ROWS)
                if mol is None:  # a metal complex; rings are all that matters
                    mol = Chem.MolFromSmiles(smiles, sanitize=False)
                    Chem.FastFindRings(mol)
                pairs.add((numbers[row], murcko_scaffold(mol, stereo=True)))
        for column in zip(*pairs):
            assert len(set(column)) == len(pairs) > 800
        splits = scaffold_split(numbers.tolist())
        table = CsvTable(shared_data / "molhiv_split.csv.gz")
        official = [cells[0] for *_, cells in table.rows(["split"])]
        for name, numbers in splits.items():
            assert numbers.tolist() == [i for i, s in enumerate(official) if s == name]


def test_groups_that_share_a_name_are_one():
    """Rows 0 and 1 share a scaffold, 1 and 3 a series."""
    found = joined_groups(["x", "x", "y", "z"], ["p", "q", "r", "q"])
    assert found[0] == found[1] == found[3] != found[2]
