"""Warnings about probable mistakes in data: duplicates, contradictions, classes as numbers."""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from graphormer_plugin.data.errors import counted, listed
from graphormer_plugin.data.schema import TargetSchema

SAME = 1e-6  # relative difference of two labels that are equal as float32
TRAIN = "train"


def warnings_about(
    targets: TargetSchema,
    target: np.ndarray,
    splits: Mapping[str, np.ndarray],
    molecules: Sequence[int],
    extra: np.ndarray | None = None,
    learned: Sequence[str] = (TRAIN,),
    drawn: bool = True,
) -> list[str]:
    """All warnings about a table of molecules, a line each.

    Args:
        targets: Names and kinds of the labels.
        target: Float [G, C], NaN = missing.
        splits: Numbers of the molecules by split name.
        molecules: `molecule_key` of each molecule [G].
        extra: Float [G, K], numbers that models read beside the molecule, NaN = missing.
        learned: Splits that models are fitted to, in their order.
        drawn: Whether the molecules may as well be split by scaffold.
    """
    target = np.asarray(target, dtype=np.float64)
    _, groups = np.unique(np.asarray(molecules, np.uint64), return_inverse=True)
    equal = groups
    if extra is not None:  # by the hash of their bytes, in which NaN equals NaN
        numbers = np.fromiter(map(hash, map(bytes, extra)), np.int64)
        pairs = np.stack([groups, numbers], 1)
        equal = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
    duplicates = len(np.unique(equal)) == len(np.unique(groups))
    warnings = [
        _classes_as_regression(targets, target),
        _contradicting_labels(targets, target, equal),
        _shared_molecules(splits, groups, duplicates, learned, drawn),
    ]
    return [text for text in warnings if text]


def molecule_key(canonical_smiles: str) -> int:
    """Key of a molecule, equal for equal canonical SMILES; below 2**64."""
    digest = hashlib.blake2b(canonical_smiles.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _classes_as_regression(targets: TargetSchema, target: np.ndarray) -> str:
    """Warning about regression targets whose labels are two whole numbers, such as 0 and
    1, -1 and 1 or 1 and 2; else empty."""
    if targets.kind != "regression":
        return ""
    names_of: dict[tuple[int, ...], list[str]] = {}
    for name, values in zip(targets.names, target.T, strict=True):
        values = values[~np.isnan(values)]
        numbers = np.unique(values)
        repeated = len(numbers) == 2 <= len(values) / 2  # two rows always differ
        if repeated and (numbers == numbers.round()).all():
            key = tuple(map(int, numbers.tolist()))
            names_of.setdefault(key, []).append(f"{name} ({len(values):,} labels)")
    texts = []
    for both, names in sorted(names_of.items()):
        changes = [
            f"{new} in place of {old}" for new, old in enumerate(both) if new != old
        ]
        write = f"write {' and '.join(changes)} and give" if changes else "give"
        texts.append(
            f"{listed(names)} has only the labels {both[0]} and {both[1]} and is learned "
            f"as a number; for classes {write} --target-kind binary"
        )
    return "; ".join(texts)


def _contradicting_labels(
    targets: TargetSchema, target: np.ndarray, groups: np.ndarray
) -> str:
    """Warning about molecules with several rows that differ in a label; else empty.
    ``groups`` [G] has the number of each row's molecule, from 0."""
    order = np.argsort(groups)
    _, starts, rows = np.unique(groups[order], return_index=True, return_counts=True)
    low, high = (f.reduceat(target[order], starts) for f in (np.fmin, np.fmax))
    gap = high - low  # [molecules, C], NaN without labels
    differing = gap > SAME * np.fmax(np.abs(low), np.abs(high))
    differs = differing.any(1)
    if not differs.any():
        return ""
    molecules, rows = int(differs.sum()), int(rows[differs].sum())
    details = f"{rows:,} rows"
    if targets.kind == "regression":
        gap = np.where(differing.any(0), np.nan_to_num(gap), 0)
        column = gap.max(0).argmax()
        details += f"; {targets.names[column]} differs by up to {gap.max():.4g} "
        details = f"{details}{targets.units[column]}".rstrip()
    return (
        f"{counted(molecules, 'molecule')} with several rows and contradicting "
        f"labels ({details}); keep one row of each, or their mean"
    )


def _shared_molecules(
    splits: Mapping[str, np.ndarray],
    groups: np.ndarray,
    duplicates: bool,
    learned: Sequence[str],
    drawn: bool,
) -> str:
    """Warning about molecules of a split that models have been fitted to before; else
    empty. ``duplicates`` says whether rows of a molecule are equal for a model."""
    shared = []
    for name, rows in splits.items():
        before = learned[: learned.index(name)] if name in learned else learned
        others = [other for other in before if other in splits]
        seen = np.zeros(int(groups.max(initial=-1)) + 1, dtype=bool)
        for other in others:
            seen[groups[splits[other]]] = True
        if count := int(seen[groups[rows]].sum()):
            shared.append(
                f"{count:,} of {len(rows):,} rows of {name} are molecules that "
                f"{' or '.join(others)} has too"
            )
    if not shared:
        return ""
    text = f"{' and '.join(shared)}, so that metrics look better than they are"
    advice = ["drop the duplicates"] * duplicates + ["give --split scaffold"] * drawn
    return f"{text}; {', or '.join(advice)}" if advice else text
