"""Warnings about probable mistakes in data: duplicates, contradictions, classes as numbers."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from graphormer_plugin.data.errors import counted, listed
from graphormer_plugin.data.graphs.smiles import is_molecule
from graphormer_plugin.data.splits import Split
from graphormer_plugin.data.tables.cells import is_index
from graphormer_plugin.data.tables.table import NAMES
from graphormer_plugin.data.targets import Kind, TargetSchema

LABEL_TOLERANCE = 1e-6  # relative difference of two labels that are equal as float32
OUTLIER_DEVIATIONS = 10  # robust, of a label that is probably a mistake; our choice
MOSTLY_POSITIVE = 0.9  # share of labels that decides on their logarithms; our choice
FEWEST_LABELS = 20  # labels that tell where others lie; our choice
FEWEST_OF_THREE = 30  # labels 0, 1 and 2 that may be classes; our choice
TRAIN = "train"


def warnings_about(
    targets: TargetSchema,
    target: np.ndarray,
    splits: Split,
    molecules: Sequence[int],
    extra: np.ndarray | None = None,
    learned: Sequence[str] = (TRAIN,),
    drawn: bool = True,
    unread: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> list[str]:
    """All warnings about a table of molecules, a line each.

    Args:
        target: float [G, C], NaN = missing.
        molecules: `molecule_key` of each molecule [G].
        extra: float [G, K], numbers that models read beside the molecule, NaN = missing.
        learned: splits that models are fitted to, in order.
        drawn: whether ``--split scaffold`` is possible.
        unread: cells [G] of the columns that no option reads, by name.
    """
    target = np.asarray(target, dtype=np.float64)
    _, groups = np.unique(np.asarray(molecules, np.uint64), return_inverse=True)
    equal = groups
    if extra is not None:  # by the hash of their bytes, in which NaN equals NaN
        numbers = np.fromiter(map(hash, map(bytes, extra)), np.int64)
        pairs = np.stack([groups, numbers], 1)
        equal = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
    contradictions = _contradicting_labels(targets, target, equal, unread)
    duplicates = len(np.unique(equal)) == len(np.unique(groups)) and not contradictions
    warnings = [
        _classes_as_regression(targets, target),
        contradictions,
        _shared_molecules(splits, groups, duplicates, learned, drawn),
    ]
    return [text for text in warnings if text]


def _classes_as_regression(targets: TargetSchema, target: np.ndarray) -> str:
    """Warning about regression targets whose labels are two whole numbers, such as 0 and
    1, -1 and 1 or 1 and 2, or often 0, 1 and 2; else empty."""
    names_of: dict[tuple[int, ...], list[str]] = {}
    for one, values in zip(targets.targets, target.T, strict=True):
        if not one.kind.is_number:
            continue
        values = values[~np.isnan(values)]
        numbers = np.unique(values)
        repeated = len(numbers) == 2 <= len(values) / 2  # two rows always differ
        three = np.array_equal(numbers, [0, 1, 2]) and len(values) >= FEWEST_OF_THREE
        if three or repeated and (numbers == numbers.round()).all():
            key = tuple(map(int, numbers.tolist()))
            names_of.setdefault(key, []).append(f"{one.name} ({len(values):,} labels)")
    texts = []
    for numbers, names in sorted(names_of.items()):
        changes = [
            f"{new} in place of {old}" for new, old in enumerate(numbers) if new != old
        ]
        write = f"write {' and '.join(changes)} and give" if changes else "give"
        *first, last = numbers
        kind = Kind.BINARY if len(numbers) == 2 else Kind.MULTICLASS
        texts.append(
            f"{listed(names)} has only the labels {listed(first)} and {last} and is "
            f"learned as a number; for classes {write} --target-kind {kind}"
        )
    return "; ".join(texts)


def _contradicting_labels(
    targets: TargetSchema,
    target: np.ndarray,
    groups: np.ndarray,
    unread: Mapping[str, Sequence[str]],
) -> str:
    """Warning about molecules with several rows that differ in a label; else empty.
    ``groups`` [G] has the number of each row's molecule, from 0."""
    order = np.argsort(groups)
    _, starts, rows = np.unique(groups[order], return_index=True, return_counts=True)
    low, high = (f.reduceat(target[order], starts) for f in (np.fmin, np.fmax))
    gap = high - low  # [molecules, C], NaN without labels
    differing = gap > LABEL_TOLERANCE * np.fmax(np.abs(low), np.abs(high))
    differs = differing.any(1)
    if not differs.any():
        return ""
    molecules = int(differs.sum())
    rows = int(rows[differs].sum())
    details = f"{rows:,} rows"
    are_numbers = differing.any(0) & targets.is_number
    if are_numbers.any():
        gap = np.where(are_numbers, np.nan_to_num(gap), 0)
        column = gap.max(0).argmax()
        details += f"; {targets.names[column]} differs by up to {gap.max():.4g} "
        details = f"{details}{targets.units[column]}".rstrip()
    concerned = np.flatnonzero(differs[groups])
    columns = _deciding_columns(unread, groups, concerned)
    advice = "keep one row of each, or their mean"
    if columns:
        advice = (
            f"such rows differ in {listed(columns)}, which the model does not read: keep "
            "the rows of one value, or give numbers with --extra-columns (a second "
            "molecule per row is not read)"
        )
    return (
        f"{counted(molecules, 'molecule')} with several rows and contradicting "
        f"labels ({details}); {advice}"
    )


def _deciding_columns(
    unread: Mapping[str, Sequence[str]], groups: np.ndarray, rows: np.ndarray
) -> list[str]:
    """Columns in which rows of one molecule differ, except columns that only name the
    rows."""
    names = []
    for name, cells in unread.items():
        values = {*cells} - {""}
        if len(values) == len(cells) or name.lower() in NAMES or is_index(name):
            continue
        if len({(groups[row], cells[row]) for row in rows}) == len({*groups[rows]}):
            continue
        some = [text for text in sorted(values)[:20] if text]
        are_molecules = len(max(some, key=len)) > 2 and all(map(is_molecule, some))
        names.append(f"{name!r}{' (molecules)' * are_molecules}")
    return names


def strange_label(values: np.ndarray) -> tuple[int, str] | None:
    """First row of a label that lies far from all others, and a line about it, or None: it is
    a mistake, or a code for a missing label. If nearly all others are positive, a positive
    label is compared by logarithms."""
    labels = values[~np.isnan(values)]
    for label in np.unique(labels)[[0, -1]] if len(labels) else ():
        rest = labels[labels != label]
        if len(rest) < FEWEST_LABELS:
            continue
        y = rest
        x = label
        if x > 0 and (positive := rest > 0).mean() > MOSTLY_POSITIVE:
            y = np.log(rest[positive])
            x = np.log(label)
        deviation = 1.4826 * np.median(np.abs(y - np.median(y)))  # for normal labels
        if 0 < OUTLIER_DEVIATIONS * deviation < np.abs(y - x).min():
            rows = np.flatnonzero(values == label)
            many = f" ({len(rows):,} rows)" if len(rows) > 1 else ""
            return int(rows[0]), (
                f"label {label:.15g}{many} lies more than {OUTLIER_DEVIATIONS} robust "
                f"deviations from all others; if it is a mistake or means that there is no "
                f"label, give --missing-labels={label:.15g}"
            )
    return None


def _shared_molecules(
    splits: Split,
    groups: np.ndarray,
    duplicates: bool,
    learned: Sequence[str],
    drawn: bool,
) -> str:
    """Warning about molecules of a split that models were fitted to before; else empty.
    ``duplicates`` says whether rows of a molecule are equal, also in their labels."""
    shared = []
    for name, rows in splits.items():
        before = learned[: learned.index(name)] if name in learned else learned
        earlier = [other for other in before if other in splits]
        seen = np.zeros(int(groups.max(initial=-1)) + 1, dtype=bool)
        for other in earlier:
            seen[groups[splits[other]]] = True
        if count := int(seen[groups[rows]].sum()):
            shared.append(
                f"{count:,} of {counted(len(rows), 'row')} of {name} "
                f"{'is a molecule' if count == 1 else 'are molecules'} that "
                f"{' or '.join(earlier)} has too"
            )
    if not shared:
        return ""
    text = f"{' and '.join(shared)}, so that metrics look better than they are"
    advice = []
    if duplicates:
        advice.append("drop the duplicates")
    if drawn:
        advice.append("give --split scaffold")
    return f"{text}; {', or '.join(advice)}" if advice else text
