"""Splits of a dataset: random, by scaffold or time, and from rows of a source to graphs."""

import itertools
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphormer_plugin.data.errors import DatasetError, counted

logger = logging.getLogger(__name__)

Ratios = tuple[float, float, float]  # shares of train, valid and test; their sum is 1
RATIOS: Ratios = (0.8, 0.1, 0.1)
Split = dict[str, np.ndarray]  # rows, or graphs, of each part
SPLITS = ("train", "valid", "test")
FOLD = "fold"  # and its number, of a column of folds


def random_split(rows: int, seed: int, ratios: Ratios = RATIOS) -> Split:
    """Random rows for valid and test, at least a row for each, the rest for train. Equal seeds
    give equal splits, on every platform."""
    if rows < 3:
        raise DatasetError(
            f"{counted(rows, 'row')} cannot be split into train, valid and test"
        )
    order = _permutation(rows, seed)
    valid, test = (max(1, int(ratio * rows)) for ratio in ratios[1:])
    return {
        "train": np.sort(order[valid + test :]),
        "valid": np.sort(order[:valid]),
        "test": np.sort(order[valid : valid + test]),
    }


def _permutation(count: int, seed: int) -> np.ndarray:
    return np.random.Generator(np.random.PCG64(seed)).permutation(count)


def rowwise_split(first: int, rows: int, seed: int, ratios: Ratios = RATIOS) -> Split:
    """Random split of some rows of a table, each row on its own.

    A row's split depends on its number and the seed, not on the number of rows, so that
    shards can be split without each other. The shares are `ratios` up to chance. Row 0 of
    the result is row ``first`` of the table.
    """
    draws = np.random.Generator(np.random.PCG64(seed).advance(first)).random(rows)
    part = np.searchsorted(np.cumsum(ratios[:2]), draws, side="right")
    return {name: np.flatnonzero(part == number) for number, name in enumerate(SPLITS)}


def molecule_order(molecules: Sequence[int] | None, labels: np.ndarray) -> np.ndarray:
    """Rows with a label, by `molecule_key` and then by labels [rows, T]: a split that is drawn
    from this order does not depend on the order of the rows."""
    rows = np.flatnonzero(~np.isnan(labels).all(1))
    keys = np.zeros(len(labels)) if molecules is None else np.array(molecules, "u8")
    return rows[np.lexsort((*labels[rows].T, keys[rows]))]


def scaffold_split(
    scaffolds: Sequence[str],
    ratios: Ratios = RATIOS,
    seed: int | None = None,
    labels: np.ndarray | None = None,
    molecules: Sequence[int] | None = None,
) -> Split:
    """Split by Bemis-Murcko scaffold, or by other groups: no group is in two splits.

    Groups of equal scaffold, in their order, fill train up to its share of the labels,
    then valid up to its own; the rest is test. Several targets count by their mean,
    weighted by the share of each target's labels that the group has.

    Without a seed, the groups are sorted by size and then by first molecule, both
    descending. This rule of MoleculeNet and OGB reproduces the official ogbg-molhiv split.
    Among scaffolds that occur once, the last molecules of the table are then train and the
    first are test.

    A seed draws the order of the groups at random. Groups that are larger than half of the
    smaller of valid and test come first, because a large group that comes late would make a
    large test set (our choice). A group that is larger than train may be is train alone. If
    there are few groups, valid and test have one each.

    Molecules of a split are ascending; with ``labels`` [molecules, T] they have the
    `molecule_order`, which leaves out molecules without a label.
    """
    numbers = np.arange(len(scaffolds))
    is_labelled = np.ones((len(scaffolds), 1), bool)
    if labels is not None:
        numbers = molecule_order(molecules, labels)
        is_labelled = ~np.isnan(labels[numbers])
    groups = _scaffold_groups([scaffolds[number] for number in numbers])
    if seed is not None:
        groups = [groups[number] for number in _permutation(len(groups), seed)]
        large = min(filter(None, ratios[1:])) * len(numbers) / 2
        groups.sort(key=lambda group: len(group) <= large)  # keeps the order otherwise
    total = np.maximum(is_labelled.sum(0), 1)
    up_to_train = ratios[0] * total
    up_to_valid = (ratios[0] + ratios[1]) * total
    largest = is_labelled[max(groups, key=len, default=[])].sum(0)
    if seed is not None and (largest / total**2) @ (largest - up_to_train) > 0:
        # It is train alone; valid and test share the others.
        groups.sort(key=len, reverse=True)
        rest = ratios[1] / (ratios[1] + ratios[2])
        up_to_train = largest
        up_to_valid = largest + rest * (total - largest)
    splits = _filled(groups, is_labelled, up_to_train, up_to_valid)
    for name, ratio in zip(("valid", "test"), ratios[1:]) if seed is not None else ():
        most = max(splits.values(), key=len)
        if ratio and not splits[name] and len(most) > 1:
            splits[name] = [most.pop(most.index(min(most, key=len)))]
    rows = {name: [*itertools.chain(*parts)] for name, parts in splits.items()}
    return {
        name: numbers[np.sort(np.array(order, np.int64))]
        for name, order in rows.items()
    }


def _filled(
    groups: Sequence[list[int]],
    is_labelled: np.ndarray,
    up_to_train: np.ndarray,
    up_to_valid: np.ndarray,
) -> dict[str, list[list[int]]]:
    """Groups in their order as train, up to its number of labels of each target [T], then as
    valid, up to that of both, and as test."""
    splits: dict[str, list[list[int]]] = {name: [] for name in SPLITS}
    total = np.maximum(is_labelled.sum(0), 1)
    trained = seen = np.zeros(len(total))
    for group in groups:
        count = is_labelled[group].sum(0)
        weight = count / total**2
        name = "test"
        if weight @ (trained + count - up_to_train) <= 0:
            name = "train"
            trained = trained + count
            seen = seen + count
        elif weight @ (seen + count - up_to_valid) <= 0:
            name = "valid"
            seen = seen + count
        splits[name].append(group)
    return splits


def time_split(times: np.ndarray, labels: np.ndarray, ratios: Ratios = RATIOS) -> Split:
    """Split by time: the latest rows with at least the share of test of the labels are
    test, the latest of the others with the share of valid are valid, the oldest train.
    Rows of the same time stay together. Several targets count by their mean. Rows without a
    time [rows] (NaN) or a label [rows, T] are left out.
    """
    rows = np.flatnonzero(~np.isnan(labels).all(1) & ~np.isnan(times))
    is_labelled = ~np.isnan(labels[rows])
    is_labelled = is_labelled[:, is_labelled.any(0)]
    share = (is_labelled / is_labelled.sum(0)).mean(1)
    moments, moment = np.unique(times[rows], return_inverse=True)
    # Share of the labels at each time or later, and 0 after the last.
    later = np.cumsum(np.bincount(moment, share, len(moments) + 1)[::-1])[::-1]
    splits = {}
    end = len(moments)
    for name, ratio in (("test", ratios[2]), ("valid", ratios[1])):
        # Rounding must not move a row.
        enough = np.flatnonzero(later[: end + 1] - later[end] >= ratio - 1e-9)
        begin = enough[-1] if len(enough) else 0
        splits[name] = rows[(begin <= moment) & (moment < end)]
        end = begin
    return {"train": rows[moment < end]} | splits


def _scaffold_groups(scaffolds: Sequence[str]) -> list[list[int]]:
    """Molecules of each scaffold, by size and then by first molecule, both descending."""
    groups: dict[str, list[int]] = defaultdict(list)
    for index, scaffold in enumerate(scaffolds):
        groups[scaffold].append(index)
    return sorted(groups.values(), key=lambda g: (len(g), g[0]), reverse=True)


LEAST_FOLDS = 3  # train, valid and test


def folds(
    rows: int, count: int, seed: int, scaffolds: Sequence[str] | None = None
) -> list[Split]:
    """Splits of a cross-validation: each fold is test once, and the next fold valid. No
    scaffold, or other group, is in two folds: each group, the largest first and groups of a
    size in random order, joins the smallest fold."""
    groups = [[row] for row in range(rows)]
    what = "row"
    advice = ["add rows"]
    if scaffolds is not None:
        groups = _scaffold_groups(scaffolds)
        what = "group"
        advice = ["give --split random without --groups"]
    if len(groups) < count:
        if len(groups) >= LEAST_FOLDS:
            advice.insert(0, "give fewer --folds")
        raise DatasetError(
            f"{counted(len(groups), what)} cannot make {count} folds; "
            f"{', or '.join(advice)}"
        )
    groups = [groups[number] for number in _permutation(len(groups), seed)]
    members: list[list[int]] = [[] for _ in range(count)]
    for group in sorted(groups, key=len, reverse=True):
        min(members, key=len).extend(group)
    return splits_of_folds([np.sort(np.array(fold, np.int64)) for fold in members])


def splits_of_folds(members: Sequence[np.ndarray]) -> list[Split]:
    """Splits of a cross-validation from the rows of each fold, see `folds`."""
    splits = []
    for first in range(len(members)):
        test, valid, *rest = [*members[first:], *members[:first]]
        train = np.sort(np.concatenate(rest))
        splits.append({"train": train, "valid": valid, "test": test})
    return splits


def joined_groups(*names: Sequence[Any]) -> list[int]:
    """Numbers of the smallest groups of rows in which equal names, of any kind, are
    together."""
    from scipy.sparse import csr_array  # half a second that predictions do not need
    from scipy.sparse.csgraph import connected_components

    count = len(names[0])
    edges = []
    size = len(names[0])
    for column in names:
        texts = np.asarray(column, object).astype(str)
        numbers = np.unique(texts, return_inverse=True)[1]
        edges.append(numbers + size)
        size += len(numbers)
    rows = np.tile(np.arange(count), len(names))
    graph = csr_array((np.ones(len(rows)), (rows, np.concatenate(edges))), (size, size))
    return connected_components(graph, directed=False)[1][:count].tolist()


def consecutive_splits(counts: Mapping[str, int]) -> Split:
    """Splits of graphs that come split by split, from the number of graphs of each."""
    ends = np.cumsum([*counts.values()], dtype=np.int64)
    parts = np.split(np.arange(sum(counts.values())), ends)
    return dict(zip(counts, parts))  # the last part, after the last end, is empty


def splits_of_graphs(
    splits: Mapping[str, Any], graph_of_row: np.ndarray, label: str
) -> Split:
    """Splits of a store from the splits of its source; warns of graphs in two of train, valid
    and test. ``graph_of_row`` has the graph id of each row, -1 for rows without a graph.
    """
    result = {}
    for name, rows in checked_splits(splits, len(graph_of_row), "row").items():
        graph_ids = graph_of_row[rows]
        result[name] = graph_ids[graph_ids >= 0]
    for first, second in itertools.combinations(SPLITS, 2):
        shared = np.intersect1d(result.get(first, []), result.get(second, []))
        if len(shared):
            many = counted(len(shared), "graph")
            logger.warning("%s: %s and %s share %s", label, first, second, many)
    return result


def require_rows(splits: Split, label: str, when: str) -> None:
    """DatasetError if train or valid is empty; ``when`` is added to the message."""
    for name in ("train", "valid"):
        if len(splits.get(name, ())) == 0:
            raise DatasetError(f"{label}: no rows in split {name} {when}".rstrip())


def checked_splits(splits: Mapping[str, Any], count: int, of: str = "graph") -> Split:
    """Splits of ``count`` graphs or rows, as int64 arrays; ValueError for a split that is not a
    set of 0..count-1."""
    checked = {}
    for name, numbers in splits.items():
        numbers = np.asarray(numbers).reshape(-1)
        if numbers.size and numbers.dtype.kind not in "iu":
            raise ValueError(
                f"split {name} has dtype {numbers.dtype}, expected {of} numbers"
            )
        numbers = numbers.astype(np.int64)
        outside = numbers[(numbers < 0) | (numbers >= count)]
        if outside.size or len(np.unique(numbers)) != len(numbers):
            what = f"names {of} {outside[0]}" if outside.size else f"names a {of} twice"
            raise ValueError(f"split {name} {what}, expected 0..{count - 1}")
        checked[name] = numbers
    return checked
