"""The splits of an experiment: made, checked, and written for fairseq-train."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.files import read_text, write_csv, write_text
from graphormer_plugin.data.graphs.clusters import clusters_of
from graphormer_plugin.data.graphs.sources import text_of
from graphormer_plugin.data.splits import (
    RATIOS,
    SPLITS,
    Split,
    folds,
    joined_groups,
    molecule_order,
    random_split,
    scaffold_split,
    splits_of_folds,
    time_split,
)
from graphormer_plugin.inference.model_folder import (
    MOLECULES_FILE,
    SMILES_COLUMN,
    SPLIT_FILE,
)
from graphormer_plugin.workbench.experiment.labelled_molecules import (
    FIT_SPLITS,
    LabelledMolecules,
    SplitLabels,
)
from graphormer_plugin.workbench.experiment.settings import Settings

INVALID_FILE = "invalid.csv"
_FIRST = RATIOS[0] / RATIOS[1] / (RATIOS[0] / RATIOS[1] + 1)
_FIXED_TEST = _FIRST, 1 - _FIRST, 0.0  # without rounding, their sum is 1
FEWEST_VALID = 0.5  # of the share of valid, which groups may leave it (our choice)


def make_splits(table: LabelledMolecules, settings: Settings) -> list[Split]:
    """Split the molecules once for each run of the experiment. Molecules without a label are
    split, too (see `labelled_splits`). Rows are drawn in the `molecule_order`, unless a
    column gives the split."""
    seeds = range(settings.seed, settings.seed + settings.runs)
    order = molecule_order(table.keys, table.labels)
    fixed = dict[str, np.ndarray]()
    if table.given_split is not None:
        fixed = dict(table.given_split)
        train = fixed.pop("train")
        order = order[np.isin(order, train)]
    keys = [table.keys[row] for row in order]
    parents = [table.parents[row] for row in order]
    groups: Sequence[Any] | None = None
    if table.split == "scaffold":
        groups = [table.scaffolds[row] for row in order]
    elif table.split == "cluster":
        smiles = [table.smiles[row] for row in order]
        groups = clusters_of(smiles, settings.featuriser.for_smiles().mol)
    elif fixed:
        # No molecule is in train and in the valid that is drawn from it.
        groups = parents
    times = table.times
    if table.groups:
        check_groups(table, settings)
        named = [table.groups[row] for row in order]
        groups = named if groups is None else joined_groups(groups, named)
        if times is not None:  # a group is as late as its last row
            latest = pd.Series(times).groupby(pd.Series(table.groups))
            times = latest.transform("max").to_numpy()
    # Rows of a molecule are drawn together.
    unit = np.arange(len(order))
    if groups is None and times is None:
        unit, _ = pd.factorize(np.array(parents, np.uint64))
    count = len({*unit.tolist()})
    if "valid" in fixed:
        return [{"train": train, **fixed} for _ in seeds]
    if table.folds:
        members = [order[np.isin(order, fold)] for fold in table.folds]
        return splits_of_folds(members) * settings.replicates
    if settings.folds:
        return [
            _rows_of(split, order, unit)
            for seed in seeds[: settings.replicates]
            for split in folds(count, settings.folds, seed, groups)
        ]
    splits = []
    labels = table.labels[order]
    shares = _FIXED_TEST if fixed else settings.ratios or RATIOS
    for seed in seeds:
        if times is not None:
            split = time_split(times[order], labels, shares)
        elif groups is not None:
            split = scaffold_split(groups, shares, seed, labels, keys)
            if not (fixed or table.groups):
                _fill_valid(split, parents, shares, seed)
        else:
            split = random_split(count, seed, shares)
        splits.append({**_rows_of(split, order, unit), **fixed})
    return splits


def _fill_valid(
    split: Split, parents: Sequence[int], shares: Sequence[float], seed: int
) -> None:
    """Divide train and valid anew, by molecule, if groups leave too few in valid."""
    if len(split["valid"]) >= FEWEST_VALID * shares[1] * len(parents):
        return
    rows = np.sort(np.concatenate([split["train"], split["valid"]]))
    ratio = shares[0] / (shares[0] + shares[1])
    units = [parents[row] for row in rows]
    part = scaffold_split(units, (ratio, 1 - ratio, 0.0), seed)
    split |= {name: rows[part[name]] for name in FIT_SPLITS}


def _rows_of(split: Split, order: np.ndarray, unit: np.ndarray) -> Split:
    """A split of units as one of rows, by the number of each row's unit."""
    return {name: order[np.isin(unit, part)] for name, part in split.items()}


def check_groups(table: LabelledMolecules, settings: Settings) -> None:
    """Raise DatasetError if a given split or given folds part a group."""
    parts = dict(enumerate(table.folds)) or table.given_split or {}
    pairs = dict.fromkeys(
        (table.groups[row], name) for name, rows in parts.items() for row in rows
    )
    groups = [group for group, _ in pairs]
    if parted := [group for group in groups if groups.count(group) > 1]:
        raise DatasetError(
            f"--groups {settings.groups}: rows of {parted[0]!r} are in several parts of "
            f"--split {table.split}; leave out one of both options"
        )


def labelled_splits(
    table: LabelledMolecules, splits: Sequence[Split], settings: Settings
) -> list[SplitLabels]:
    """The molecules with a label of each split."""
    is_labelled = ~np.isnan(table.labels).all(1)
    result = []
    for split in splits:
        rows = {name: part[is_labelled[part]] for name, part in split.items()}
        result.append(SplitLabels(table, rows))
    some = "" if table.weights is None else " with a weight above 0"
    for split, name in itertools.product(result, SPLITS):
        if not np.isnan(split.scored(name)).all():
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
        lack = "no exact label" if table.bounds.any() else "no label"
        if name == "train":
            lack += f"{some} {where}"
        else:
            lack += f" {where} for a target with labels{some} in train"
        raise DatasetError(f"{settings.table}: {lack}; {advice}")
    return result


def split_file(run: int) -> str:
    """File with the split of a run, from 0, in the folder of the experiment."""
    return f"replicate{run + 1}/{SPLIT_FILE}"


def write_molecules(
    folder: Path, table: LabelledMolecules, splits: Sequence[Split]
) -> None:
    """Write the table that fairseq-train reads, SMILES, targets and other columns, and
    beside the models of each run the rows of its split."""
    header = [SMILES_COLUMN, *table.targets.names]
    extra = {name: cells for name, cells in table.others.items() if name not in header}
    header += extra
    labels = map(table.label_cells, range(len(table)))
    cells = zip(map(text_of, table.sources), labels, *extra.values(), strict=True)
    rows = ([text, *label, *rest] for text, label, *rest in cells)
    write_csv(folder / MOLECULES_FILE, [header, *rows])
    for run, split in enumerate(splits):
        numbers = {name: split[name].tolist() for name in SPLITS}
        path = folder / split_file(run)
        text = json.dumps(numbers) + "\n"
        if not path.exists():
            write_text(path, text)
        elif read_text(path) != text:
            raise DatasetError(
                f"{path} is another split than this version draws, or damaged; name a new "
                "folder with --out"
            )
    if table.failures:
        rows = [("row", "smiles", "reason"), *table.failures]
        write_csv(folder / INVALID_FILE, rows)
