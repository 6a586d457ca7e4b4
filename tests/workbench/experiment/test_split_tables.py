"""The splits of an experiment, and the files for fairseq-train. What cannot be split is in
tests/test_refusals.py."""

import dataclasses
import json

import numpy as np
import pytest

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.graphs.clusters import clusters_of
from graphormer_plugin.data.splits import scaffold_split
from graphormer_plugin.data.tables.options import DatasetOptions
from graphormer_plugin.data.tables.table import CsvTable
from graphormer_plugin.workbench.experiment.data_warnings import experiment_warnings
from graphormer_plugin.workbench.experiment.labelled_molecules import (
    SplitLabels,
    read_table,
)
from graphormer_plugin.workbench.experiment.split_tables import (
    SMILES_COLUMN,
    labelled_splits,
    make_splits,
    write_molecules,
)
from support.labelled_molecules import (
    HEADER,
    PARTS,
    ROWS,
    settings,
    splits_of,
    write_table,
)
from support.stores import csv_dataset


def cells_of(path, *names):
    return [cells for *_, cells in CsvTable(path).rows(names)]


def test_a_split_column(write):
    asked = settings(write(), split="column:part", target_columns=("value",))
    table = read_table(asked)
    (split,) = splits_of(table, asked)
    assert {name: rows.tolist() for name, rows in split.rows.items()} == {
        "train": [0, 1, 3],
        "valid": [5],  # 4 has no label
        "test": [2, 6],
    }
    assert [*table.others] == ["name", "active"]
    shared = "1 of 2 rows of test is a molecule that train or valid has too"
    _, first, second = experiment_warnings(table, [split], asked)
    assert first.startswith("1 molecule with several rows and contradicting labels")
    assert second.startswith(shared) and "duplicates" not in second
    asked = dataclasses.replace(asked, extra_columns=("active",))
    _, only = experiment_warnings(read_table(asked), [split], asked)
    assert only.startswith(shared) and "duplicates" not in only
    # Heads and trees are fitted to valid, too.
    parts = map(np.array, ([0, 1], [3], [3, 2]))
    fitted = SplitLabels(table, dict(zip(("train", "valid", "test"), parts)))
    assert "2 of 2 rows of test are" in experiment_warnings(table, [fitted], asked)[2]


@pytest.mark.parametrize("parts", [("test",), ("valid", "test")])
@pytest.mark.parametrize("split", ["random", "time:x"])
def test_files_of_test_and_valid(tmp_path, parts, split):
    """The same rows as in one table, with columns in another order. No file's row numbers are
    a target, and each file has its encoding."""
    numbers = {"test": range(20, 26), "valid": range(17, 20)}
    rows = {k: ["C" * k + "O", k / 2, 50 - k] for k in range(1, 26)}
    files = {}
    for part in parts:
        lines = [["a", n, *rows.pop(k)[::-1]] for n, k in enumerate(numbers[part])]
        files[f"{part}_file"] = str(tmp_path / f"{part}.csv")
        write_table(files[f"{part}_file"], lines, ["remark", "n", "x", "y", "smiles"])
    lines = [[*row, n] for n, row in enumerate(rows.values())]
    path = write_table(tmp_path / "train.csv", lines, ["smiles", "y", "x", "n"])
    with open(files["test_file"], "ab") as file:
        file.write(b"\xe9,6,23,13.5,CCN\n")
    if "valid" not in parts:
        files["split"] = split
    asked = settings(path, target_columns=("y",), replicates=2, **files)
    table = read_table(asked)
    split_rows, again = splits_of(table, asked)
    labels = {part: table.labels[at].ravel() for part, at in split_rows.rows.items()}
    assert labels["test"].tolist() == [*(k / 2 for k in range(20, 26)), 13.5]
    assert len(labels["valid"]) == 3
    if files.get("split") == "time:x":  # the shortest are the latest
        assert sorted(labels["valid"]) == [0.5, 1.0, 1.5]
    assert sorted(np.concatenate([*split_rows.rows.values()])) == [*range(26)]
    text = "\n".join(experiment_warnings(table, [split_rows, again], asked))
    assert ("of train are valid, drawn by --split" in text) == ("valid" not in parts)
    assert ("have the split of the files: they differ" in text) == ("valid" in parts)
    assert "rows of test are molecules" not in text
    encoding = "test.csv: text that is not UTF-8 is read as Windows-1252"
    assert encoding in "\n".join(table.warned)
    if "valid" in parts:
        every = dataclasses.replace(asked, target_columns=("all",), weight_column="x")
        assert read_table(every).targets.names == ["y"]


def test_split_by_cluster(write):
    heads = (
        "c1ccccc1 C1CCNCC1 n1ccsc1 ON=C OC(=O) FC(F)(F) N#C c1cc[nH]c1 C1CC1".split()
    )
    heads.append("S(=O)(=O)(N)")
    lines = [[f"{head}{'C' * k}", k / 2] for head in heads for k in (9, 10, 11)]
    asked = settings(write(lines, ["smiles", "y"]), split="cluster")
    table = read_table(asked)
    splits = splits_of(table, dataclasses.replace(asked, replicates=2))
    for split in splits:
        assert sorted(np.concatenate([*split.rows.values()])) == [*range(30)]
    assert {*splits[0].rows["test"]} != {*splits[1].rows["test"]}
    clusters = np.array(clusters_of(table.smiles))
    parts = [{*clusters[rows]} for rows in splits[0].rows.values()]
    assert sum(map(len, parts)) == len({*clusters}) > 3


def test_splits_by_seed_and_fold(read):
    columns = {"y": range(30)}
    _, _, drawn = read(columns, split="random", replicates=3)
    assert len({tuple(split.rows["test"]) for split in drawn}) == 3
    _, _, (later,) = read(columns, split="random", seed=2)
    assert np.array_equal(later.rows["test"], drawn[1].rows["test"])
    _, _, folds = read(columns, split="random", folds=5)
    _, _, five_times = read(columns, split="random", folds=5, replicates=5)
    assert len(five_times) == 25
    for number, split in enumerate(folds):
        assert np.array_equal(split.rows["test"], five_times[number].rows["test"])
    for start in range(0, 25, 5):
        tested = [split.rows["test"] for split in five_times[start : start + 5]]
        assert sorted(np.concatenate(tested)) == list(range(30))
    assert len({tuple(split.rows["test"]) for split in five_times}) == 25


@pytest.mark.parametrize("options", [{}, {"folds": 4}, {"replicates": 2}])
def test_random_rows_of_a_molecule_stay_together(write, options):
    """Copies, replicates, stereoisomers, salts and ions."""
    molecules = [f"{'C' * k}[C@@H](F)O" for k in range(2, 22)]
    rows = [[text, k] for k, text in enumerate(molecules)]
    rows += [[text.replace("@@", "@"), k] for k, text in enumerate(molecules[:8])]
    rows += [[text, k + at] for k, text in enumerate(molecules[:6]) for at in (0, 1)]
    rows += [[f"{text}.O", k] for k, text in enumerate(molecules[4:9])]
    rows += [[text[:-1] + "[O-].[K+]", k] for k, text in enumerate(molecules[5:10])]
    asked = settings(write(rows, ["smiles", "y"]), split="random", **options)
    table = read_table(asked)
    flat = [text.replace("@", "").replace("[O-].[K+]", "O") for text in table.smiles]
    flat = np.array([text.removesuffix(".O") for text in flat])
    for split in splits_of(table, asked):
        assert sorted(np.concatenate([*split.rows.values()])) == [*range(50)]
        parts = [{*flat[rows]} for rows in split.rows.values()]
        assert sum(map(len, parts)) == 20 and min(map(len, parts)) > 1


RINGS = [f"C1{'C' * n}C1" for n in range(1, 7)]
CHAINS = ["", "C", "N", "O", "S", "CC", "CN", "CO", "CS", "CCC"]
TABLE = [[f"{chain}{ring}", str(at)] for at, (ring, chain) in enumerate(
    (ring, chain) for ring in RINGS for chain in CHAINS
)]  # fmt: skip


@pytest.mark.parametrize("how", [{}, {"split": "random"}, {"folds": 3}])
def test_the_order_of_the_rows_does_not_matter(write, how):
    """Whatever a table is sorted by, and however many rows have no label."""
    tested = []
    for rows in (TABLE, TABLE[::-1], [*TABLE, ["CCO", ""], ["C1CCC1O", ""]]):
        asked = settings(write(rows, ["smiles", "y"]), target_columns=("y",), **how)
        table = read_table(asked)
        splits = splits_of(table, asked)
        names = [[table.smiles[row] for row in split.rows["test"]] for split in splits]
        tested.append([*names, [table.smiles[row] for row in splits[0].rows["train"]]])
    assert tested[0] == tested[1] == tested[2]
    (later,) = splits_of(table, dataclasses.replace(asked, seed=2, folds=0))
    assert [table.smiles[row] for row in later.rows["test"]] != tested[0][0]


def test_shares_are_of_the_labels_of_each_target():
    """The second target has labels in every fourth molecule, the third in few scaffolds."""
    rng = np.random.default_rng(1)
    labels = rng.normal(size=(1000, 3))
    scaffolds = rng.integers(0, 400, 1000)
    labels[rng.random(1000) > 0.25, 1] = np.nan
    labels[scaffolds > 60, 2] = np.nan
    for seed in range(5):
        split = scaffold_split([*map(str, scaffolds)], seed=seed, labels=labels)
        counts = np.array([(~np.isnan(labels[rows])).sum(0) for rows in split.values()])
        shares = counts / counts.sum(0)
        assert shares[0] == pytest.approx([0.8] * 3, abs=0.06)
        assert (shares[1:] > 0.04).all()


def test_rows_go_with_the_only_target_that_they_had_a_label_of(read):
    labels = {"y": [*range(6), "", 7, ""], "z": [""] * 6 + [1.0, "", 2.0]}
    parts = {"part": [*PARTS, "train", "test", "valid"]}
    table, asked, splits = read(labels | parts, target_columns=("y", "z"))
    rows_of = [split.rows for split in splits]
    assert rows_of[0]["train"].tolist() == [0, 1, 6]
    (split,) = labelled_splits(table.without(["z"], "x"), rows_of, asked)
    rows = {name: numbers.tolist() for name, numbers in split.rows.items()}
    assert rows == {"train": [0, 1], "valid": [2, 3], "test": [4, 5, 7]}
    with pytest.raises(DatasetError, match="no label in split test"):
        labelled_splits(table.without(["y"], "x"), rows_of, asked)


def test_the_file_for_fairseq(write, tmp_path):
    """The column of the SMILES is the asked one of two, and cells keep their ends. The split
    of a folder is kept, since its models were trained on it."""
    rows = [[*row, "x", row[0][::-1]] for row in ROWS]
    rows[2][1] = "old\rmac"
    invalid = ["C1CC", "open", "1", "train", "0", "y", "CC1C"]
    asked = settings(
        write([*rows, invalid], [*HEADER, "split", "smiles"]),
        smiles_column=HEADER[0],
        target_columns=("value",),
        skip_invalid=True,
        split="column:part",
    )
    table = read_table(asked)
    (split,) = splits_of(table, asked)
    for _ in range(2):
        write_molecules(tmp_path, table, [split.rows] * 2)
    options = DatasetOptions(
        name=str(tmp_path / "molecules.csv"),
        smiles_column=SMILES_COLUMN,  # as the line of fairseq-train says
        target_columns=("value",),
        split="rows:replicate2/split.json",
    )
    source = csv_dataset(options)
    assert source.smiles == [row[0] for row in ROWS]
    assert np.array_equal(source.targets, table.labels, equal_nan=True)
    for run in (1, 2):
        kept = json.loads((tmp_path / f"replicate{run}/split.json").read_text())
        assert kept == {name: rows.tolist() for name, rows in split.rows.items()}
    names = cells_of(tmp_path / "molecules.csv", "name", "split")
    assert names == [row[1:6:4] for row in rows]
    assert cells_of(tmp_path / "invalid.csv", "row", "smiles") == [["7", "C1CC"]]
    other = split.rows | {"test": split.rows["valid"]}
    with pytest.raises(DatasetError, match="replicate1/split.json is another split"):
        write_molecules(tmp_path, table, [other, split])


def test_a_column_of_folds_is_a_cross_validation(read):
    labels = {"y": [*range(12)], "part": ["0", "1.0", "2", "10"] * 3}
    _, _, splits = read(labels, target_columns=("y",), replicates=2)
    assert len(splits) == 8
    for number, split in enumerate(splits[:4]):
        assert sorted(split.rows["test"]) == [number, number + 4, number + 8]
        following = (number + 1) % 4 + np.array([0, 4, 8])
        assert sorted(split.rows["valid"]) == sorted(following)
        assert len(split.rows["train"]) == 6


@pytest.mark.parametrize(
    "options",
    [{"split": "random"}, {"split": "random", "folds": 3}, {"split": "time:y"}],
)
def test_groups_stay_on_one_side(write, options):
    rows = [
        [f"{'C' * k}{end}", k, f"series {k % 7}"] for k in range(1, 13) for end in "ON"
    ]
    path = write(rows, ["smiles", "y", "series"])
    asked = settings(path, target_columns=("y",), groups="series", **options)
    table = read_table(asked)
    series = np.array(table.groups)
    for split in make_splits(table, asked):
        sides = [{*series[rows]} for rows in split.values()]
        assert sum(map(len, sides)) == len({*series})
        assert not sides[0] & sides[2] and not sides[0] & sides[1]
