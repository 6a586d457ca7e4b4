"""Splits of a dataset: random, by scaffold, and from rows of a source to graphs."""

import itertools
import logging
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphormer_plugin.data.errors import DatasetError, counted

logger = logging.getLogger(__name__)


Ratios = tuple[float, float, float]

RATIOS: Ratios = (0.8, 0.1, 0.1)  # train, valid, test


def random_split(
    rows: int, seed: int, ratios: Ratios = RATIOS
) -> dict[str, np.ndarray]:
    """Random rows for valid and test, one row at least for each, the rest for train.

    Args:
        rows: At least 3.
        seed: 0 or more. Equal seeds give equal splits, on every platform.
        ratios: Shares of train, valid and test; their sum is 1.

    Raises:
        DatasetError: There are fewer than 3 rows.
    """
    if rows < 3:
        raise DatasetError(
            f"{counted(rows, 'row')} cannot be split into train, valid and test"
        )
    order = np.random.Generator(np.random.PCG64(seed)).permutation(rows)
    valid, test = (max(1, int(ratio * rows)) for ratio in ratios[1:])
    return {
        "train": np.sort(order[valid + test :]),
        "valid": np.sort(order[:valid]),
        "test": np.sort(order[valid : valid + test]),
    }


def random_split_of_rows(
    first: int, rows: int, seed: int, ratios: Ratios = RATIOS
) -> dict[str, np.ndarray]:
    """Random split of some rows of a table, each row on its own.

    A row's split depends on its number and the seed, not on the number of rows, so that
    shards can be split without each other. The shares are `ratios` up to chance.

    Args:
        first: Number of the first row.
        rows: Their number.
        seed: 0 or more.
        ratios: Shares of train, valid and test; their sum is 1.

    Returns:
        Rows from 0, ``first`` being 0.
    """
    draws = np.random.Generator(np.random.PCG64(seed).advance(first)).random(rows)
    part = np.searchsorted(np.cumsum(ratios[:2]), draws, side="right")
    names = ("train", "valid", "test")
    return {name: np.flatnonzero(part == number) for number, name in enumerate(names)}


def scaffold_split(
    scaffolds: Sequence[str], ratios: Ratios = RATIOS, seed: int | None = None
) -> dict[str, np.ndarray]:
    """Split by Bemis-Murcko scaffold, no scaffold in two splits.

    Groups of equal scaffold, in their order, fill train up to its share, then valid
    up to its own; the rest is test.

    Without a seed, the groups are sorted by size and then by first molecule, both
    descending: MoleculeNet's and OGB's rule, which reproduces the official ogbg-molhiv
    split. With a seed, groups with more than half as many molecules as valid or test
    may have come first, and the others after them, both in random order (our choice: a
    large group that comes late would make a large test set).

    Args:
        scaffolds: Of the molecules.
        ratios: Shares of train, valid and test; their sum is 1.
        seed: Of the order; 0 or more. Equal seeds give equal splits.

    Returns:
        Molecule numbers by split, ascending.
    """
    order = _scaffold_groups(scaffolds)
    if seed is not None:
        random = np.random.Generator(np.random.PCG64(seed))
        order = [order[number] for number in random.permutation(len(order))]
        large = min(ratios[1:]) * len(scaffolds) / 2
        order.sort(key=lambda group: len(group) <= large)  # keeps the order otherwise
    up_to_train, up_to_valid = ratios[0], ratios[0] + ratios[1]
    splits: dict[str, list[int]] = {"train": [], "valid": [], "test": []}
    for group in order:
        trained = len(splits["train"])
        seen = trained + len(splits["valid"])
        if trained + len(group) <= up_to_train * len(scaffolds):
            splits["train"] += group
        elif seen + len(group) <= up_to_valid * len(scaffolds):
            splits["valid"] += group
        else:
            splits["test"] += group
    return {name: np.sort(np.array(g, np.int64)) for name, g in splits.items()}


def _scaffold_groups(scaffolds: Sequence[str]) -> list[list[int]]:
    """Molecules of each scaffold, by size and then by first molecule, both descending."""
    groups: dict[str, list[int]] = defaultdict(list)
    for number, scaffold in enumerate(scaffolds):
        groups[scaffold].append(number)
    return sorted(groups.values(), key=lambda g: (len(g), g[0]), reverse=True)


def folds(
    rows: int, count: int, seed: int, scaffolds: Sequence[str] | None = None
) -> list[dict[str, np.ndarray]]:
    """Splits of a cross-validation: each fold is test once, and the next fold valid.

    Args:
        rows: Number of molecules.
        count: Number of folds, 3 or more.
        seed: Of the random order; 0 or more.
        scaffolds: Of the molecules: no scaffold is in two folds. Each group, the largest
            first and groups of a size in random order, joins the smallest fold.

    Raises:
        DatasetError: There are fewer rows or scaffolds than folds.
    """
    groups = [[row] for row in range(rows)]
    if scaffolds is not None:
        groups = _scaffold_groups(scaffolds)
    if len(groups) < count:
        what = counted(len(groups), "row" if scaffolds is None else "scaffold")
        raise DatasetError(f"{what} cannot make {count} folds")
    random = np.random.Generator(np.random.PCG64(seed))
    groups = [groups[number] for number in random.permutation(len(groups))]
    members: list[list[int]] = [[] for _ in range(count)]
    for group in sorted(groups, key=len, reverse=True):
        min(members, key=len).extend(group)
    arrays = [np.sort(np.array(fold, np.int64)) for fold in members]
    splits = []
    for _ in range(count):
        test, valid, *others = arrays
        train = np.sort(np.concatenate(others))
        splits.append({"train": train, "valid": valid, "test": test})
        arrays = [*arrays[1:], arrays[0]]
    return splits


def consecutive_splits(counts: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Splits of graphs that come split by split.

    Args:
        counts: Number of graphs of each split, in their order.
    """
    ends = np.cumsum([0, *counts.values()])
    return {
        name: np.arange(start, end)
        for name, start, end in zip(counts, ends[:-1], ends[1:], strict=True)
    }


def splits_of_graphs(
    splits: Mapping[str, Any], graph_of_row: np.ndarray, label: str
) -> dict[str, np.ndarray]:
    """Splits of a store from the splits of its source; warns of graphs in two of train, valid
    and test.

    Args:
        splits: Rows of the source by name.
        graph_of_row: Graph id of each row, -1 for rows that became no graph.
        label: Name of the dataset, for messages.

    Raises:
        ValueError: A split is not a set of rows of the source.
    """
    result = {}
    for name, rows in checked_splits(splits, len(graph_of_row), "row").items():
        graph_ids = graph_of_row[rows]
        result[name] = graph_ids[graph_ids >= 0]
    for first, second in itertools.combinations(("train", "valid", "test"), 2):
        shared = np.intersect1d(result.get(first, []), result.get(second, []))
        if len(shared):
            many = counted(len(shared), "graph")
            logger.warning("%s: %s and %s share %s", label, first, second, many)
    return result


def require_rows(splits: Mapping[str, np.ndarray], label: str, when: str) -> None:
    """DatasetError if train or valid is empty.

    Args:
        splits: Rows or graph ids by name.
        label: Name of the dataset.
        when: Added to the message.
    """
    for name in ("train", "valid"):
        if len(splits.get(name, ())) == 0:
            raise DatasetError(f"{label}: no rows in split {name} {when}".rstrip())


def checked_splits(
    splits: Mapping[str, Any], count: int, of: str = "graph"
) -> dict[str, np.ndarray]:
    """Splits as int64 arrays.

    Args:
        splits: Graph ids or rows by name.
        count: Number of graphs or rows.
        of: ``graph`` or ``row``, for messages.

    Raises:
        ValueError: A name is not a word, or a split is not a set of 0..count-1.
    """
    checked = {}
    for name, numbers in splits.items():
        if not re.fullmatch(r"\w[\w-]*", name):
            raise ValueError(f"split name {name!r} must be a plain word")
        numbers = np.asarray(numbers).reshape(-1)
        if numbers.size and numbers.dtype.kind not in "iu":
            raise ValueError(
                f"split {name} has dtype {numbers.dtype}, expected {of} numbers"
            )
        numbers = numbers.astype(np.int64)
        wrong = numbers[(numbers < 0) | (numbers >= count)]
        if wrong.size or len(np.unique(numbers)) != len(numbers):
            what = f"names {of} {wrong[0]}" if wrong.size else f"names a {of} twice"
            raise ValueError(f"split {name} {what}, expected 0..{count - 1}")
        checked[name] = numbers
    return checked
