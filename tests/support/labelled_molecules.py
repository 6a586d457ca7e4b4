"""A table of labelled molecules, as `graphormer-train` gets one."""

import csv
from types import SimpleNamespace

from graphormer_plugin.experiment import split_tables
from graphormer_plugin.experiment.labelled_table import Table
from graphormer_plugin.experiment.settings import Settings

ROWS = [
    ["CCO", "ethanol", "-0.31", "train", "0"],
    ["C1CC1CC", "ring", "1.5", "train", "1"],
    ["OCC", "ethanol again", "2.25", "test", "1"],
    ["c1ccccc1C", "toluene", "0.125", "train", ""],
    ["CCN", "amine", "", "valid", "0"],
    ["CCCl", "chloride", "1e-3", "valid", "1"],
    ["CCCCC", "pentane", "7", "test", "0"],
]
HEADER = ["Smiles", "name", "value", "part", "active"]
PARTS = ["train", "train", "valid", "valid", "test", "test"]


class FewLabels(SimpleNamespace):
    """Some attributes of a table of an experiment, whose labels are exact and weigh the
    same."""

    weights = bounds = None
    exact_labels, unlearned = Table.exact_labels, Table.unlearned
    trained_labels, scored_labels = Table.trained_labels, Table.scored_labels


def write_table(path, rows=ROWS, header=HEADER):
    """The table as CSV, and where it lies."""
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return str(path)


def settings(path, **options):
    """Of an experiment with this table."""
    return Settings(path, "out", **options)


def splits_of(table, asked):
    """The splits of an experiment, of molecules with labels."""
    splits = split_tables.make_splits(table, asked)
    return split_tables.labelled_splits(table, splits, asked)
