"""The splits of an experiment: made, checked, and written for fairseq-train."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from graphormer_plugin.data.checks import listed, warnings_about
from graphormer_plugin.data.clusters import clusters_of
from graphormer_plugin.data.errors import DatasetError, counted, named_damage
from graphormer_plugin.data.files import read_text, write_text
from graphormer_plugin.data.splits import (
    RATIOS,
    checked_splits,
    folds,
    molecule_order,
    random_split,
    scaffold_split,
    time_split,
)
from graphormer_plugin.data.tables.cells import shown
from graphormer_plugin.data.tables.csv_lines import write_csv
from graphormer_plugin.data.tables.table import SPLIT
from graphormer_plugin.experiment.label_statistics import label_shift
from graphormer_plugin.experiment.labelled_table import FITTED, SPLITS, Split, Table
from graphormer_plugin.experiment.scores import MAIN
from graphormer_plugin.experiment.settings import Settings
from graphormer_plugin.inference.model_folder import (
    MOLECULES_FILE,
    SMILES_COLUMN,
    SPLIT_FILE,
)

INVALID_FILE = "invalid.csv"


def make_splits(table: Table, settings: Settings) -> list[Split]:
    """The splits of the experiment, a split for each of its runs, see `labelled_splits`: in
    the `molecule_order` unless a column gives the split.
    """
    seeds = range(settings.seed, settings.seed + settings.runs)
    order = molecule_order(table.keys, table.labels)
    given, splits = dict[str, np.ndarray](), list[Split]()
    if table.given_split is not None:
        given = dict(table.given_split)
        train = given.pop("train")
        order = order[np.isin(order, train)]
    keys = [table.keys[row] for row in order]
    groups: Sequence[Any] | None = None
    if table.split == "scaffold":
        groups = [table.scaffolds[row] for row in order]
    elif table.split == "cluster":
        smiles = [table.smiles[row] for row in order]
        groups = clusters_of(smiles, settings.largest_fragment)
    elif given:
        groups = keys  # no molecule is in train and in the valid that is drawn from it
    if "valid" in given:
        splits = [{"train": train, **given} for _ in seeds]
    elif settings.folds:
        drawn = [
            split
            for seed in seeds[: settings.replicates]
            for split in folds(len(order), settings.folds, seed, groups)
        ]
        splits = [{name: order[at] for name, at in split.items()} for split in drawn]
    else:
        labels, shares = table.labels[order], settings.shares
        if given:
            ratio = RATIOS[0] / RATIOS[1]
            first = ratio / (ratio + 1)
            shares = first, 1 - first, 0.0  # without rounding, their sum is 1
        for seed in seeds:
            if table.times is not None:
                split = time_split(table.times[order], labels, shares)
            elif groups is not None:
                split = scaffold_split(groups, shares, seed, labels, keys)
            else:
                split = random_split(len(order), seed, shares)
            splits.append({name: order[at] for name, at in split.items()} | given)
    return labelled_splits(table, splits, settings)


def labelled_splits(
    table: Table, splits: Sequence[Split], settings: Settings
) -> list[Split]:
    """The molecules with a label of each split.

    Raises:
        DatasetError: A part of a split has no label that counts.
    """
    known = ~np.isnan(table.labels).all(1)
    splits = [{name: x[known[x]] for name, x in split.items()} for split in splits]
    some = "" if table.weights is None else " with a weight above 0"
    for split, name in itertools.product(splits, SPLITS):
        if not np.isnan(scored_labels(table, split, name)).all():
            continue
        advice = "give another --split or other --ratios"
        if table.split == "scaffold" and len({*table.scaffolds}) == 1:
            advice = "all molecules have one scaffold, so give --split random"
        if table.given_split is not None:
            advice = f"mark labelled rows with the word {name}, or give another --split"
        if settings.test_file:
            advice = "add labels to " + settings.part_files.get(name, settings.table)
            if not settings.valid_file and name != "test" and table.split != "random":
                advice += ", or give --split random"
        where = f"in split {name} of --split {table.split}"
        lack = "no label" if table.bounds is None else "no exact label"
        if name == "train":
            lack += f"{some} {where}"
        else:
            lack += f" {where} for a target with labels{some} in train"
        raise DatasetError(f"{settings.table}: {lack}; {advice}")
    return splits


def warnings_of(table: Table, splits: Sequence[Split], settings: Settings) -> list[str]:
    """Probable mistakes in the data, one line each."""
    used = (settings.weight_column, *settings.extra_columns)
    others = settings.folds or settings.ratios or settings.test_file
    how = " without --folds, --ratios and --test-file" * bool(others)
    lines = table.warned + [
        f"the column {name} is not used; --split column:{name}{how} takes it"
        for name in table.extra_names
        if name.lower() == SPLIT and name not in used
    ]
    given = table.given_split or {}
    draws_valid = bool(given) and "valid" not in given
    if draws_valid:
        of_column = table.split.startswith("column:")
        how = "at random by --seed" if of_column else f"by --split {table.split}"
        many = counted(len(splits[0]["valid"]), "molecule")
        lines.append(f"{many} of train are valid, drawn {how}")
    is_one = table.times is not None or given and not draws_valid
    if is_one and settings.replicates > 1:
        source = "the files" if settings.valid_file else table.split
        lines.append(
            f"all replicates have the split of {source}: they differ in their seeds"
        )
    if unlabelled := int(np.isnan(table.labels).all(1).sum()):
        lines.append(
            f"{counted(unlabelled, 'molecule')} without a label take no part; "
            "graphormer-predict with the folder predicts them"
        )
    salts = [text for text in table.smiles if "." in text.split()[0]]
    if salts and not settings.largest_fragment:
        lines.append(
            f"{counted(len(salts), 'molecule')} of several fragments, such as "
            f"{shown(salts[0])}; --largest-fragment leaves out salts and solvents"
        )
    if table.failures:
        lines.append(
            f"left out {counted(len(table.failures), 'row')} that cannot be parsed, "
            f"listed in {INVALID_FILE}"
        )
    if table.targets.kind == "multiclass" and not any(table.targets.class_names):
        none = {*range(table.targets.num_classes)} - {*table.labels.ravel().tolist()}
        if none:
            lines.append(f"no molecule has class {listed(map(str, sorted(none)))}")
    for number, split in enumerate(splits, 1):
        texts = warnings_about(
            *(table.targets, table.labels, split, table.keys, table.extra, FITTED),
            drawn=not given and table.times is None,
        )
        for text in texts + undefined_metrics(table, split) + label_shift(table, split):
            if number > 1 and text not in lines:
                text = f"{settings.run_name(number)}: {text}"
            lines += [text] if text not in lines else []
    return lines


def scored_labels(table: Table, split: Split, part: str) -> np.ndarray:
    """Labels [n, T] of a part of a split that metrics count, NaN where missing. A target
    without labels in train has none, because no model can learn it."""
    rows = split.get(part, np.array([], np.int64))
    return np.where(unlearned(table, split), np.nan, table.exact_labels[rows])


def unlearned(table: Table, split: Split) -> np.ndarray:
    """Whether a target has no label in train that counts, bool [T]."""
    return np.isnan(trained_labels(table, split)).all(0)


def trained_labels(table: Table, split: Split, bounds: bool = False) -> np.ndarray:
    """Labels [n, T] of train, NaN where missing or of a molecule of weight 0; with or
    without bounds."""
    labels, rows = table.labels if bounds else table.exact_labels, split["train"]
    if table.weights is None:
        return labels[rows]
    return np.where(table.weights[rows, None] > 0, labels[rows], np.nan)


def undefined_metrics(table: Table, split: Split) -> list[str]:
    """Warnings about targets without a main metric in a part of a split."""
    metric, names = MAIN[table.targets.kind], np.array(table.targets.names)
    lines = []
    unknown = unlearned(table, split)
    if unknown.any():
        counts = "" if table.weights is None else " has a weight above 0"
        lines.append(
            f"no label of {listed(names[unknown])} in train{counts}: nothing is learned "
            "about it, and metrics leave it out"
        )
    for part in ("valid", "test"):
        labels = scored_labels(table, split, part)
        defined = np.array([metric.is_defined(column[:, None]) for column in labels.T])
        missing = names[~defined & ~unknown]
        if not len(missing):
            continue
        what = "a class" if metric.name == "roc_auc" else "labels"
        verb = "lacks" if len(missing) == 1 else "lack"
        text = f"{listed(missing)} {verb} {what} in {part}"
        text += f", where {metric.name} has no value"
        if defined.any():
            text += f": the mean is over {defined.sum():,} of {len(names):,} targets"
        lines.append(text)
    return lines


def recorded_splits(
    folder: Path, table: Table, settings: Settings
) -> list[Split] | None:
    """The splits that a folder of the experiment has; None if it has not all, and no
    model. Its models hold to them, also where another version would draw others.

    Raises:
        ValueError: A file is damaged, or missing beside models.
    """
    files = [folder / split_file(run) for run in range(settings.runs)]
    advice = "restore it from a copy, or name a new folder with --out"
    if missing := [file for file in files if not file.exists()]:
        if any(folder.glob("replicate*/*/*")):
            raise DatasetError(
                f"{missing[0]} is missing, the split of models in {folder}; {advice}"
            )
        return None
    found = []
    for file in files:
        with named_damage(f"{file} is damaged; {advice}", DatasetError):
            split = checked_splits(json.loads(read_text(file)), len(table), "row")
            found.append({name: split[name] for name in SPLITS})
    return found


def split_file(run: int) -> str:
    """File with the split of a run, from 0, in the folder of the experiment."""
    return f"replicate{run + 1}/{SPLIT_FILE}"


def write_molecules(folder: Path, table: Table, splits: Sequence[Split]) -> None:
    """Write the table that fairseq-train reads, SMILES, targets and other columns, and
    beside the models of each run the rows of its split."""
    header = [SMILES_COLUMN, *table.targets.names]
    extra = dict(zip(table.extra_names, zip(*table.extras)))
    extra = {name: cells for name, cells in extra.items() if name not in header}
    header += extra
    labels = map(table.label_cells, range(len(table)))
    cells = zip(table.smiles, labels, *extra.values(), strict=True)
    rows = ([smiles, *label, *others] for smiles, label, *others in cells)
    write_csv(folder / MOLECULES_FILE, [header, *rows])
    for run, split in enumerate(splits):
        numbers = {name: split[name].tolist() for name in SPLITS}
        write_text(folder / split_file(run), json.dumps(numbers) + "\n")
    if table.failures:
        rows = [("row", "smiles", "reason"), *table.failures]
        write_csv(folder / INVALID_FILE, rows)
