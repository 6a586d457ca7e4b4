"""Warnings about probable mistakes in the data of an experiment."""

import dataclasses

import numpy as np
import pytest

from graphormer_plugin.workbench.experiment import data_warnings
from graphormer_plugin.workbench.experiment.data_warnings import experiment_warnings
from graphormer_plugin.workbench.experiment.labelled_molecules import (
    SplitLabels,
    read_table,
)
from support.labelled_molecules import PARTS, settings, splits_of

BOTH, ONE, NONE = [0, 1, 0, 1, 0, 1], [0, 1, 0, 1, 1, 1], [0, 1, 0, 1, "", ""]
NUMBERS = [0.5, 1, 2, 3, 4, 5]
WEIGHTS = {"weight_column": "y1", "target_columns": ("y0", "y2")}
CLASSES = {"target_kind": "multiclass"}


@pytest.mark.parametrize(
    "columns, asked, text",
    [
        ([ONE], {}, "y0 lacks a class in test, where roc_auc has no value"),
        ([BOTH, ONE, NONE, ONE, ONE], {}, "y1, y2, y3 and 1 more lack a class in test"),
        ([BOTH, ONE, NONE, ONE, ONE], {}, "the mean is over 1 of 5 targets"),
        (
            [NUMBERS, [2, 1, 3, 4, "", ""]],
            {},
            "y1 lacks labels in test, where rmse has",
        ),
        (
            [BOTH, ["", "", *BOTH[2:]]],
            {},
            "no label of y1 in train: nothing is learned",
        ),
        (
            [NUMBERS, [0, 1, 0, 1, 1, 1], [5, "", 7, 8, 9, 10]],
            WEIGHTS,
            "no label of y2 in train has a weight above 0: nothing is learned about it",
        ),
        (
            [NUMBERS, [7] * 6],
            {},
            "y1 is left out: all labels are equal, missing or bounds",
        ),
        ([[0, 1, 3, 0, 1, 3]], CLASSES, "no molecule has class 2"),
    ],
)
def test_a_line_names_the_targets(read, columns, asked, text):
    named = {f"y{number}": column for number, column in enumerate(columns)}
    asked = {"target_columns": tuple(named), **asked}
    table, asked, splits = read({"part": PARTS, **named}, **asked)
    (line,) = experiment_warnings(table, splits, asked)
    assert text in line


def test_valid_is_drawn_from_train(read):
    """Of a column without valid, by molecule and seed."""
    parts = ["train"] * 20 + ["test"] * 5
    table, asked, splits = read({"y": range(25), "part": parts}, replicates=3)
    for split in splits:
        assert split.rows["test"].tolist() == [*range(20, 25)]
        assert sorted(split.fitted) == [*range(20)] and len(split.rows["valid"]) == 3
    assert len({tuple(split.rows["valid"]) for split in splits}) == 3
    drawn, *others = experiment_warnings(table, splits, asked)
    assert drawn == "3 molecules of train are valid, drawn at random by --seed"
    assert not any("replicates have the split" in text for text in others)


def test_few_scaffolds_leave_some_molecules_to_valid(write):
    """Benzenes, chains and a naphthalene: 33 / 1 / 30 by whole scaffolds."""
    tails = [f"{'C' * k}O" for k in range(1, 33)]
    smiles = [*(f"c1ccccc1{tail}" for tail in tails), *tails[:30], "c1ccc2ccccc2c1"]
    asked = settings(write([[text, len(text)] for text in smiles], ["smiles", "y"]))
    table = read_table(asked)
    (split,) = splits_of(table, asked)
    assert {part: len(rows) for part, rows in split.rows.items()} == {
        "train": 29,
        "valid": 4,
        "test": 30,
    }
    scaffolds = np.array(table.scaffolds)
    assert not np.isin(scaffolds[split.rows["test"]], scaffolds[split.fitted]).any()
    (text,) = experiment_warnings(table, [split], asked)
    assert "46% of the molecules are train, 6% valid, 48% test" in text


def test_radicals_are_counted(write):
    """As of SMARTS; carbon monoxide, nitroxides and CH3 are none."""
    smiles = ["[#6]-[#6]-[#8]", "[C][C]", "[C-]#[O+]", "CN(C)[O]", "[CH3]", "C=O"]
    asked = settings(
        write([[text, k] for k, text in enumerate(smiles)], ["smiles", "y"])
    )
    assert "2 rows have carbon without" in "".join(read_table(asked).warned)


def test_salts_are_counted(write):
    rows = [[f"{'C' * at}O" + ".Cl" * (at % 3 > 0), at] for at in range(1, 61)]
    asked = settings(write(rows, ["smiles", "y"]))
    assert experiment_warnings(read_table(asked), [], asked) == [
        "40 molecules of several fragments, such as 'CO.Cl'; --largest-fragment "
        "leaves out salts and solvents"
    ]
    asked = dataclasses.replace(asked, largest_fragment=True)
    assert experiment_warnings(read_table(asked), [], asked) == []


def test_copies_are_counted(write):
    """A row with another label, or of another molecule, is not a copy."""
    rows = [[f"{'C' * k}O", k] for k in range(1, 21)]
    rows += [["OC", 1], ["CO", 1], ["CCO", 7], ["CC(O)C", ""], ["CO.Cl", 1]]
    asked = settings(write(rows, ["smiles", "y"]))
    text = "\n".join(experiment_warnings(read_table(asked), [], asked))
    assert "2 rows of 24 are copies, with the molecule and labels of another" in text
    asked = dataclasses.replace(asked, largest_fragment=True)
    table = read_table(asked)
    assert "3 rows of 24 are copies" in "\n".join(experiment_warnings(table, [], asked))
    assert table.without_copies(np.array([24, 21, 0, 22])).tolist() == [24, 22]


def test_stereoisomers_on_both_sides(write):
    rows = [[f"C[C@{'@' * k}H](N)C(=O)O", k, "test" if k else "train"] for k in (0, 1)]
    rows += [[f"{'C' * k}O", k, "train"] for k in range(2, 9)]
    asked = settings(write(rows, ["smiles", "y", "part"]), split="column:part")
    split = {"train": np.arange(2, 9), "valid": np.array([0]), "test": np.array([1])}
    table = read_table(asked)
    splits = [SplitLabels(table, split)]
    text = "\n".join(experiment_warnings(table, splits, asked))
    assert "1 of 1 row of test differs from molecules of train or valid in" in text


def test_tautomers_in_two_splits(write):
    """A pyridone in train and its hydroxypyridine in test are one compound; an isomer with
    the same formula is another, and stereoisomers are told of by another line."""
    ends = ["C", "CC", "CO", "CF", "C#N", "c2ccccc2"]
    rows = [(f"O=C1C=C({end})C=CN1", k, "train") for k, end in enumerate(ends)]
    rows += [("CCCO", 6, "train"), ("C[C@H](F)Cl", 7, "train"), ("CCCl", 8, "valid")]
    rows += [(f"Oc1cc({end})ccn1", k, "test") for k, end in enumerate(ends[:4])]
    rows += [("CC(C)O", 5, "test"), ("C[C@@H](F)Cl", 6, "test")]
    asked = settings(write(rows, ["smiles", "y", "part"]), split="column:part")
    table = read_table(asked)
    lines = experiment_warnings(table, splits_of(table, asked), asked)
    (line,) = [line for line in lines if "tautomer" in line]
    assert line.startswith("4 of 6 rows of test have a tautomer in train or valid, ")


@pytest.mark.parametrize("form", ["{}[NH3+]", "{}N.Cl", "{}N.O"])
def test_forms_of_a_compound_in_two_splits(write, form):
    """The free base is in train; a hydrate of another molecule is in test, too."""
    chains = ["C" * k for k in range(2, 8)]
    rows = [(f"{chain}N", k, "train") for k, chain in enumerate(chains)]
    rows += [("C[C@H](F)Cl", 7, "train"), ("CCCl", 8, "valid"), ("CCF.O", 3, "test")]
    tests = [*map(form.format, chains[:4])]
    rows += [(text, 1, "test") for text in [*tests, "C[C@@H](F)Cl"]]
    asked = settings(write(rows, ["smiles", "y", "part"]), split="column:part")
    table = read_table(asked)
    lines = experiment_warnings(table, splits_of(table, asked), asked)
    (line,) = [line for line in lines if "hydrate" in line]
    assert line.startswith("4 of 6 rows of test are a salt, an ion or a hydrate")
    asked = dataclasses.replace(asked, split="random")
    lines = experiment_warnings(table, splits_of(read_table(asked), asked), asked)
    assert not any("hydrate" in line for line in lines)


@pytest.mark.parametrize("count, found", [(250, True), (150, False)])
def test_few_tautomers_of_large_molecules(write, monkeypatch, count, found):
    """Both forms of a peptide have a thousand, of which a hundred count."""
    monkeypatch.setattr(data_warnings, "FEWEST_TAUTOMERS", count)
    rows = [("CC(=O)" + 12 * "NCC(=O)" + "O", 1, "train")]
    rows += [("CC(O)=NCC(=O)" + 11 * "NCC(=O)" + "O", 2, "valid")]
    rows += [("CC1=CNC(=O)C=C1", 3, "train"), ("Cc1cnc(O)cc1", 4, "test")]
    asked = settings(write(rows, ["smiles", "y", "part"]), split="column:part")
    table = read_table(asked)
    lines = experiment_warnings(table, splits_of(table, asked), asked)
    assert any("1 of 1 row of test has a tautomer" in line for line in lines) == found
