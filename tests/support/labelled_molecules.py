"""A table of labelled molecules, as `graphormer-train` gets one."""

import contextlib
import csv
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.workbench.experiment import split_tables
from graphormer_plugin.workbench.experiment.experiment import Experiment
from graphormer_plugin.workbench.experiment.labelled_molecules import (
    LabelledMolecules,
    SplitLabels,
)
from graphormer_plugin.workbench.experiment.settings import Settings
from graphormer_plugin.workbench.experiment.starts import Start

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


def molecules_of(labels, smiles=None, names=None, unit="", kind="regression", **more):
    """Labelled molecules from labels [n, T]; ``more`` are attributes."""
    labels = np.asarray(labels, float)
    count, number = labels.shape
    classes = int(np.nanmax(labels)) + 1 if kind == "multiclass" else 0
    names = names or [f"y{at}" for at in range(number)][: 1 if classes else number]
    targets = TargetSchema.of(names, unit, kind, num_classes=classes)
    return LabelledMolecules(
        sources=smiles or [f"{'C' * (at + 1)}O" for at in range(count)],
        labels=labels,
        **{"targets": targets, "bounds": np.zeros(labels.shape)}
        | {"extra": np.empty((count, 0)), **more},
    )


@contextlib.contextmanager
def undrawn():
    """Files of figures have no picture, which takes most of the time of a report."""
    draw = Figure.savefig

    def save(figure, file, **options):
        if options.get("format") == "png":
            file.write(b"\x89PNG")
        else:
            draw(figure, file, **options)  # those of graphormer-explain

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", save)
        yield


def experiment_of(table, splits, folder="out", **options):
    """An experiment of labelled molecules, which starts from a tiny model."""
    start = Start(
        {"finetune_from_model": "/a b/start.pt"}, Path("s.pt"), "grpe_tiny", 12
    )
    asked = Settings("a.csv", str(folder), **options)
    labels = [SplitLabels(table, split) for split in splits]
    return Experiment(asked, table, labels, start)


def write_table(path, rows=ROWS, header=HEADER):
    """The table as CSV, and where it lies."""
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return str(path)


def settings(path, **options):
    """Settings of an experiment with this table."""
    return Settings(path, "out", **options)


def splits_of(table, asked):
    """The splits of an experiment, of molecules with labels."""
    splits = split_tables.make_splits(table, asked)
    return split_tables.labelled_splits(table, splits, asked)
