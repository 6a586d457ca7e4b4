"""Words in place of class numbers: which class is which."""

import re
from collections.abc import Collection, Sequence

import numpy as np

# Words for class 1 of a binary target, and what makes a word the opposite of another.
POSITIVE = frozenset(
    "active positive pos yes true toxic hit binder soluble permeable inhibitor".split()
)
NEGATION = re.compile(r"(in|im|non|not|un|no)[\s_-]*")
NEGATIVE = frozenset("inactive negative neg no false".split())


def class_order(words: Collection[str], kind: str, asked: Sequence[str]) -> list[str]:
    """Words of a column in the order of their classes, 0 first.

    Args:
        words: That occur in the column.
        kind: ``binary`` or ``multiclass``.
        asked: The order that the user gives; empty for the alphabetical one, or for the
            one that the words of a binary target have by their meaning.

    Raises:
        ValueError: A word is not among those asked for, or the words of a binary target
            are not two with a known order, or two words differ in their case only.
    """
    shown = ", ".join(repr(word) for word in sorted(words)[:5])
    if asked:
        unknown = sorted({*words} - {*asked})
        if unknown:
            raise ValueError(
                f"{unknown[0]!r} is not one of --class-names {','.join(asked)}"
            )
        if kind == "binary" and len(asked) != 2:
            raise ValueError(
                f"--class-names {','.join(asked)}: a binary target has two classes"
            )
        return list(asked)
    check_case(words)
    if kind == "multiclass":
        return sorted(words)
    if len(words) > 2:
        raise ValueError(
            f"{len(words)} different words ({shown}{', ...' if len(words) > 5 else ''}), "
            "and a binary target has two; give --target-kind multiclass, or name missing "
            "labels with --missing-labels"
        )
    if len(words) == 2:
        for no, yes in (sorted(words), sorted(words, reverse=True)):
            if _is_opposite(no.lower(), yes.lower()):
                return [no, yes]
    raise ValueError(
        f"which of {shown} is class 1? Give --class-names with the word of class 0 and "
        "that of class 1, such as inactive,active"
    )


def check_numbers(labels: np.ndarray) -> None:
    """Check that classes are numbered from 0, by their labels, NaN where missing.

    Raises:
        ValueError: More than half of the classes up to the largest have no label, so that
            a label is a code for something else.
    """
    present = np.unique(labels[~np.isnan(labels)])
    if len(present) > 1 and present[-1] >= 2 * len(present):
        raise ValueError(
            f"class {present[-1]:.0f}, but only {len(present)} different labels: number "
            f"the classes from 0 to {len(present) - 1}, or name missing labels with "
            "--missing-labels"
        )


def check_case(words: Collection[str]) -> None:
    """Check that no class has two spellings.

    Raises:
        ValueError: Two words differ in their case only.
    """
    seen: dict[str, str] = {}
    for word in sorted(words):
        other = seen.setdefault(word.casefold(), word)
        if other != word:
            raise ValueError(
                f"{other!r} and {word!r} differ in their case only; write each class in "
                "one way, or name all words with --class-names"
            )


def _is_opposite(no: str, yes: str) -> bool:
    """Whether one word says no to the other."""
    negated = NEGATION.match(no)
    if negated and no[negated.end() :] == yes:
        return True
    return yes in POSITIVE and no in NEGATIVE
