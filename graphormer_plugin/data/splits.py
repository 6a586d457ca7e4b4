"""Splits of a dataset: random, by scaffold, and from rows of a source to graphs."""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphormer_plugin.data.errors import DatasetError

logger = logging.getLogger(__name__)


def random_split(rows: int, seed: int) -> dict[str, np.ndarray]:
    """A tenth (at least one row) for valid and for test each, the rest for train.

    Args:
        rows: At least 3.
        seed: 0 or more. Equal seeds give equal splits, on every platform.

    Raises:
        DatasetError: There are fewer than 3 rows, or the seed is negative.
    """
    if rows < 3:
        plural = "" if rows == 1 else "s"
        raise DatasetError(
            f"{rows} row{plural} cannot be split into train, valid and test"
        )
    if seed < 0:
        raise DatasetError(f"seed {seed} for a random split, expected 0 or more")
    order = np.random.Generator(np.random.PCG64(seed)).permutation(rows)
    part = max(1, rows // 10)
    return {
        "train": np.sort(order[2 * part :]),
        "valid": np.sort(order[:part]),
        "test": np.sort(order[part : 2 * part]),
    }


def scaffold_split(scaffolds: Sequence[str]) -> dict[str, np.ndarray]:
    """Split by Bemis-Murcko scaffold: 80 / 10 / 10 %, no scaffold in two splits.

    MoleculeNet's and OGB's rule, which reproduces the official ogbg-molhiv split:
    groups of equal scaffold, sorted by size and then by first molecule, both
    descending, fill train up to 80 %, then valid up to 90 %; the rest is test.

    Args:
        scaffolds: One per molecule.

    Returns:
        Molecule numbers by split, ascending.
    """
    groups: dict[str, list[int]] = defaultdict(list)
    for number, scaffold in enumerate(scaffolds):
        groups[scaffold].append(number)
    order = sorted(groups.values(), key=lambda g: (len(g), g[0]), reverse=True)
    splits: dict[str, list[int]] = {"train": [], "valid": [], "test": []}
    for group in order:
        if len(splits["train"]) + len(group) <= 0.8 * len(scaffolds):
            splits["train"] += group
        elif len(splits["train"] + splits["valid"] + group) <= 0.9 * len(scaffolds):
            splits["valid"] += group
        else:
            splits["test"] += group
    return {name: np.sort(np.array(g, np.int64)) for name, g in splits.items()}


def consecutive_splits(counts: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Splits of graphs that come one split after another.

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
    """Splits of a store from those of its source.

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
    shared = np.intersect1d(result.get("train", []), result.get("valid", []))
    if len(shared):
        logger.warning(
            "%s: %d graphs are both in train and in valid", label, len(shared)
        )
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
        if wrong.size:
            raise ValueError(
                f"split {name} names {of} {wrong[0]}, expected 0..{count - 1}"
            )
        if len(np.unique(numbers)) != len(numbers):
            raise ValueError(f"split {name} names a {of} twice")
        checked[name] = numbers
    return checked
