"""Classes that words name, and their order."""

import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from graphormer_plugin.data.errors import counted, listed
from graphormer_plugin.data.targets import Kind

# Words for class 1 of a binary target, and what makes a word the opposite of another.
POSITIVE = frozenset(
    "active positive pos yes true toxic hit binder soluble permeable inhibitor".split()
)
NEGATION = re.compile(r"(in|im|non|not|un|no)[\s_-]*")
NEGATIVE = frozenset("inactive negative neg no false".split())


def class_order(
    words: Collection[str], kind: Kind, class_names: Sequence[str]
) -> list[str]:
    """Words of a column in the order of their classes, 0 first: the order that is asked for;
    else alphabetical for ``multiclass``, and by the meaning of the words for ``binary``.
    """
    names = sorted(words)
    shown = listed(map(repr, names), 5)
    if class_names:
        unknown = sorted({*words} - {*class_names})
        if unknown or kind.has_one_output and len(class_names) != 2:
            defect = f"{unknown[0]!r} is not one of" if unknown else "two classes, not"
            raise ValueError(f"{defect} --class-names {','.join(class_names)}")
        return list(class_names)
    if len({word.casefold() for word in names}) < len(names):
        raise ValueError(
            f"some of {shown} differ in their case only; write each class in one way, or "
            "name all words with --class-names"
        )
    if not kind.has_one_output:
        return names
    orders = [[no, yes] for no in names for yes in names if _is_opposite(no, yes)]
    if len(names) != 2 or not orders:
        raise ValueError(
            f"{counted(len(names), 'word')} ({shown}) of two classes: give --class-names with the "
            "word of class 0 and the word of class 1, such as inactive,active; or give "
            "--target-kind multiclass, or name missing labels with --missing-labels"
        )
    return orders[0]


def are_nearly_opposites(words: Mapping[str, Sequence[int]]) -> bool:
    """Whether most of the words, given with their rows, are a word and its opposite, such as
    active and inactive beside a few other words."""
    counts = {word: len(rows) for word, rows in words.items()}
    common = sorted(counts, key=counts.__getitem__)[
        -4:
    ]  # an other word may be frequent
    half = sum(counts.values()) / 2
    return any(
        _is_opposite(no, yes) and counts[no] + counts[yes] > half
        for no in common
        for yes in common
    )


def check_numbers(labels: np.ndarray) -> None:
    """ValueError unless labels (NaN = missing) number the classes from 0: if more than half of
    the classes have no label, some label is a code for something else."""
    present = np.unique(labels[~np.isnan(labels)])
    if len(present) > 1 and present[-1] >= 2 * len(present):
        raise ValueError(
            f"class {present[-1]:.0f}, but only {len(present)} different labels: number "
            f"the classes from 0 to {len(present) - 1}, or name missing labels with "
            "--missing-labels"
        )


def _is_opposite(no: str, yes: str) -> bool:
    """Whether a word denies another word."""
    no = no.lower()
    yes = yes.lower()
    negated = NEGATION.match(no)
    denied = negated is not None and no[negated.end() :] == yes
    return denied or yes in POSITIVE and no in NEGATIVE
