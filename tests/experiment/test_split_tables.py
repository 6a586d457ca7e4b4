"""The splits of an experiment, and the file for fairseq-train."""

import dataclasses
import json
import re

import numpy as np
import pytest

from graphormer_plugin.data.clusters import clusters_of
from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.options import DatasetOptions
from graphormer_plugin.data.splits import scaffold_split
from graphormer_plugin.data.tables.table import CsvTable
from graphormer_plugin.experiment.data_warnings import warnings_of
from graphormer_plugin.experiment.labelled_molecules import read_table
from graphormer_plugin.experiment.split_tables import (
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


def warnings(table, asked, splits):
    return warnings_of(table, splits, asked)


def cells_of(path, *names):
    return [cells for *_, cells in CsvTable(path).rows(names)]


@pytest.mark.parametrize("label", ["1.5", "1"])
def test_equal_labels_are_refused(read, label):
    with pytest.raises(DatasetError, match="all labels of y are equal"):
        read({"y": [label] * 6, "part": PARTS})
    both = {"target_columns": ("y", "z"), "target_kind": "regression"}
    found = read({"y": [label] * 6, "z": range(6), "part": PARTS}, **both)
    text = "y is left out: all labels are equal, or missing"
    assert warnings(*found)[0] == text
    assert found[0].targets.names == ["z"] and found[0].labels.shape == (6, 1)
    assert found[0].extra_names == ["y"]  # nothing is lost
    assert [float(cell) for (cell,) in found[0].extras] == [float(label)] * 6


@pytest.mark.parametrize(
    "columns, message",
    [
        ({"y": [1, 2, 3, 4, "", ""]}, "test of --split column:part for a target with"),
        ({"y": ["", "", 3, 4, 5, 6]}, "no label in split train of --split column:part"),
    ],
)
def test_a_split_without_a_label(read, columns, message):
    with pytest.raises(DatasetError, match=f"{message}.*; mark labelled rows with the"):
        read({"part": PARTS, **columns}, target_columns=("y",))


@pytest.mark.parametrize("scale", [1, 2.5])
def test_targets_without_a_label_in_train(read, scale):
    """They count in no metric, of no model."""
    both, rare = [0, scale] * 3, ["", "", "", scale, 0, scale]
    asked = {"target_columns": ("a", "b")}
    table, _, (split,) = read({"part": PARTS, "a": both, "b": rare}, **asked)
    labels = table.scored_labels(split, "valid")
    assert np.array_equal(labels[:, 0], table.labels[split["valid"], 0])
    assert np.isnan(labels[:, 1]).all() and not np.isnan(table.labels[3:]).any()
    with pytest.raises(DatasetError, match="in split test .* for a target with labels"):
        read({"part": PARTS, "a": [*both[:4], "", ""], "b": rare}, **asked)


def test_a_split_column(write):
    asked = settings(write(), split="column:part", target_columns=("value",))
    table = read_table(asked)
    (split,) = splits_of(table, asked)
    assert {name: rows.tolist() for name, rows in split.items()} == {
        "train": [0, 1, 3],
        "valid": [5],  # 4 has no label
        "test": [2, 6],
    }
    assert table.extra_names == ["name", "active"]
    shared = "1 of 2 rows of test are molecules that train or valid has too"
    unlabelled, first, second = warnings_of(table, [split], asked)
    assert unlabelled.startswith("1 molecule without a label take no part; graphormer")
    assert first.startswith("1 molecule with several rows and contradicting labels")
    assert second.startswith(shared) and "duplicates" in second
    asked = dataclasses.replace(asked, extra_columns=("active",))
    _, only = warnings_of(read_table(asked), [split], asked)
    assert only.startswith(shared) and "duplicates" not in only
    # Heads and random forests are fitted to valid, too.
    fitted = {
        "train": np.array([0, 1]),
        "valid": np.array([3]),
        "test": np.array([3, 2]),
    }
    assert "2 of 2 rows of test are" in warnings_of(table, [fitted], asked)[2]


@pytest.mark.parametrize(
    "more, options, expected, drawn",
    [
        ({"test": range(20, 26)}, {"split": "random"}, 3, True),
        ({"test": range(20, 26)}, {"split": "time:x"}, 3, True),
        ({"test": range(20, 26), "valid": range(17, 20)}, {}, 3, False),
    ],
)
def test_files_of_test_and_valid(tmp_path, more, options, expected, drawn):
    """The same rows as in one table; columns in another order."""
    paths = {part: str(tmp_path / f"{part}.csv") for part in ("train", *more)}
    rows = {k: ["C" * k + "O", k / 2, 50 - k] for k in range(1, 26)}
    train = [row for k, row in rows.items() if not any(k in of for of in more.values())]
    write_table(paths["train"], train, ["smiles", "y", "x"])
    for part, numbers in more.items():
        lines = [["note", *rows[k][::-1]] for k in numbers]
        write_table(paths[part], lines, ["remark", "x", "y", "smiles"])
    asked = settings(paths["train"], target_columns=("y",), **options)
    files = {f"{part}_file": paths[part] for part in more}
    asked = dataclasses.replace(asked, **files)
    table = read_table(asked)
    (split,) = splits_of(table, asked)
    assert table.labels[split["test"]].ravel().tolist() == [k / 2 for k in more["test"]]
    assert len(split["valid"]) == expected
    if options == {"split": "time:x"}:  # the shortest are the latest
        assert sorted(table.labels[split["valid"]].ravel()) == [0.5, 1.0, 1.5]
    assert sorted(np.concatenate([*split.values()])) == [*range(25)]
    lines = warnings_of(table, [split], asked)
    assert (
        any("of train are valid, drawn by --split" in line for line in lines) == drawn
    )
    assert not any("rows of test are molecules" in line for line in lines)


@pytest.mark.parametrize(
    "row, message",
    [
        ([2.0, "CCCC"], "test.csv: no column 'y', the header has"),
        (["CCCC", "high"], "test.csv: row 1 .line 3., column 'y': 'high' is not a"),
        (["", 2.0], "test.csv: row 1 .line 3., column 'smiles': no SMILES"),
        (["C(", 2.0], "train.csv: 1 molecule cannot .*first: row 1 of test.csv, 'C"),
        (["C", 0.5], "1 of 2 rows of test are molecules that train or valid has too"),
    ],
)
def test_rows_of_a_test_file_are_named(tmp_path, row, message):
    lines = [["C" * k, k / 2] for k in range(1, 12)]
    path, test = (str(tmp_path / f"{part}.csv") for part in ("train", "test"))
    write_table(path, lines, ["smiles", "y"])
    header = ["smiles", "z"] if row == [2.0, "CCCC"] else ["smiles", "y"]
    write_table(test, [["C" * 20, 1.5], row], header)
    asked = settings(path, test_file=test, split="random")
    try:
        table = read_table(asked)
        found = "\n".join(warnings_of(table, splits_of(table, asked), asked))
        assert "--split scaffold" not in found
    except DatasetError as error:
        found = str(error)
    assert re.search(message, found)


def test_valid_of_one_scaffold_beside_a_test_file(tmp_path):
    path, test = (str(tmp_path / f"{part}.csv") for part in ("train", "test"))
    for file in (path, test):
        write_table(file, [["C" * k, k / 2] for k in range(1, 12)], ["smiles", "y"])
    asked = settings(path, test_file=test, split="scaffold")
    with pytest.raises(
        DatasetError, match="labels to .*train.csv, or give --split ran"
    ):
        splits_of(read_table(asked), asked)


def test_numbers_of_the_rows_of_each_file_are_no_target(tmp_path):
    files = []
    for part, count in {"train": 12, "valid": 3, "test": 4}.items():
        path = str(tmp_path / f"{part}.csv")
        lines = [["C" * (k + len(files)) + "O", k, k / 2, ""] for k in range(count)]
        files.append(write_table(path, lines, ["smiles", "n", "y", "note"]))
    path, valid, test = map(str, files)
    with open(test, "ab") as file:
        file.write(b"C,4,2,\xe9\n")
    asked = settings(path, valid_file=valid, test_file=test, replicates=2)
    table = read_table(asked)
    assert table.targets.names == ["y"]
    lines = warnings_of(table, splits_of(table, asked), asked)
    assert f"{test}: text that is not UTF-8 is read as Windows-1252" in lines
    assert any("have the split of the files: they differ" in line for line in lines)


def test_split_by_cluster(tmp_path):
    path, heads = str(tmp_path / "t.csv"), ["c1ccccc1", "C1CCNCC1", "n1ccsc1", "ON=C"]
    heads += ["OC(=O)", "FC(F)(F)", "N#C", "c1cc[nH]c1", "S(=O)(=O)(N)", "C1CC1"]
    lines = [[f"{head}{'C' * k}", k / 2] for head in heads for k in (9, 10, 11)]
    asked = settings(write_table(path, lines, ["smiles", "y"]), split="cluster")
    table = read_table(asked)
    splits = splits_of(table, dataclasses.replace(asked, replicates=2))
    for split in splits:
        assert sorted(np.concatenate([*split.values()])) == [*range(30)]
    assert {*splits[0]["test"]} != {*splits[1]["test"]}
    clusters = clusters_of(table.smiles)
    parts = {}
    for part, rows in splits[0].items():
        for row in rows:
            parts.setdefault(clusters[row], set()).add(part)
    assert len(parts) > 3 and all(len(found) == 1 for found in parts.values())


def test_splits_by_seed_and_fold(read):
    columns = {"y": range(30)}
    _, _, found = read(columns, split="random", replicates=3)
    assert len({tuple(split["test"]) for split in found}) == 3
    _, _, (later,) = read(columns, split="random", seed=2)
    assert np.array_equal(later["test"], found[1]["test"])
    _, _, found = read(columns, split="random", folds=5)
    tested = np.concatenate([split["test"] for split in found])
    assert sorted(tested) == list(range(30))
    _, _, five_times = read(columns, split="random", folds=5, replicates=5)
    assert len(five_times) == 25
    for number, split in enumerate(found):
        assert np.array_equal(split["test"], five_times[number]["test"])
    for start in range(0, 25, 5):
        tested = [split["test"] for split in five_times[start : start + 5]]
        assert sorted(np.concatenate(tested)) == list(range(30))
    assert len({tuple(split["test"]) for split in five_times}) == 25
    # Alcohols share one scaffold: none.
    with pytest.raises(DatasetError, match="split valid .* so give --split random"):
        read(columns)
    with pytest.raises(DatasetError, match="1 group cannot make 3 folds; give"):
        read(columns, folds=3)


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
        names = [[table.smiles[row] for row in split["test"]] for split in splits]
        tested.append([*names, [table.smiles[row] for row in splits[0]["train"]]])
    assert tested[0] == tested[1] == tested[2]
    (later,) = splits_of(table, dataclasses.replace(asked, seed=2, folds=0))
    assert [table.smiles[row] for row in later["test"]] != tested[0][0]


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


def test_the_split_of_a_folder_is_kept(write, tmp_path):
    """Its models were trained on it."""
    asked = settings(write(TABLE, ["smiles", "y"]), replicates=2)
    table = read_table(asked)
    splits = splits_of(table, asked)
    for _ in range(2):
        write_molecules(tmp_path, table, splits)
    with pytest.raises(DatasetError, match="replicate1/split.json is another split"):
        write_molecules(tmp_path, table, splits[::-1])


def test_rows_go_with_the_only_target_that_they_had_a_label_of(read):
    labels = {"y": [*range(6), "", 7, ""], "z": [""] * 6 + [1.0, "", 2.0]}
    parts = {"part": [*PARTS, "train", "test", "valid"]}
    found, asked, splits = read(labels | parts, target_columns=("y", "z"))
    assert splits[0]["train"].tolist() == [0, 1, 6]
    (split,) = labelled_splits(found.without(["z"], "x"), splits, asked)
    rows = {name: numbers.tolist() for name, numbers in split.items()}
    assert rows == {"train": [0, 1], "valid": [2, 3], "test": [4, 5, 7]}
    with pytest.raises(DatasetError, match="no label in split test"):
        labelled_splits(found.without(["y"], "x"), splits, asked)


def test_the_file_for_fairseq(write, tmp_path):
    """The column of the SMILES is the asked one of two, and cells keep their ends."""
    rows = [[*row, "x", row[0][::-1]] for row in ROWS]
    rows[2][1] = "old\rmac"
    invalid = ["C1CC", "open", "1", "train", "0", "y", "CC1C"]
    path = write([*rows, invalid], [*HEADER, "split", "smiles"])
    asked = settings(
        path,
        smiles_column=HEADER[0],
        target_columns=("value",),
        skip_invalid=True,
        split="column:part",
    )
    table = read_table(asked)
    splits = splits_of(table, asked)
    write_molecules(tmp_path, table, splits * 2)
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
        found = json.loads((tmp_path / f"replicate{run}/split.json").read_text())
        assert found == {name: rows.tolist() for name, rows in splits[0].items()}
    names = cells_of(tmp_path / "molecules.csv", "name", "split")
    assert names == [row[1:6:4] for row in rows]
    assert cells_of(tmp_path / "invalid.csv", "row", "smiles") == [["7", "C1CC"]]


def test_a_column_of_folds_is_a_cross_validation(read):
    labels = {"y": [*range(12)], "part": ["0", "1.0", "2", "10"] * 3}
    _, _, splits = read(labels, target_columns=("y",), replicates=2)
    assert len(splits) == 8
    for number, split in enumerate(splits[:4]):
        assert sorted(split["test"]) == [number, number + 4, number + 8]
        assert sorted(split["valid"]) == sorted((number + 1) % 4 + np.array([0, 4, 8]))
        assert len(split["train"]) == 6
    for words in (["0", "1"] * 6, ["0", "1", "2", "train"] * 3):
        with pytest.raises(DatasetError, match="folds.*, expected three or more"):
            read(labels | {"part": words}, target_columns=("y",))


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
    with pytest.raises(DatasetError, match="--groups none: expected one of .*series"):
        read_table(settings(path, target_columns=("y",), groups="none"))


def test_groups_that_a_column_parts(write):
    rows = [[f"{'C' * k}O", k, k % 2, PARTS[k % 6]] for k in range(1, 13)]
    path = write(rows, ["smiles", "y", "series", "part"])
    asked = settings(path, target_columns=("y",), groups="series", split="column:part")
    with pytest.raises(
        DatasetError, match="--groups series: rows of '.' are in several"
    ):
        make_splits(read_table(asked), asked)


def test_stereoisomers_on_both_sides_get_a_line(write):
    rows = [[f"C[C@{'@' * k}H](N)C(=O)O", k, "test" if k else "train"] for k in (0, 1)]
    rows += [[f"{'C' * k}O", k, "train"] for k in range(2, 9)]
    asked = settings(
        write(rows, ["smiles", "y", "part"]), target_columns=("y",), split="column:part"
    )
    table = read_table(asked)
    (line,) = [
        x for x in warnings_of(table, splits_of(table, asked), asked) if "ster" in x
    ]
    assert line.startswith(
        "1 of 1 rows of test differ from molecules of train or valid"
    )
