"""Cells of tables: missing ones, numbers, and how a message shows one."""

import functools
import math
import re
from collections.abc import Sequence

import numpy as np

MISSING = frozenset({"", "nan", "na", "n/a", "null", "none"})
LARGEST = float(np.finfo(np.float32).max)  # number of a cell


def is_missing(cell: str, patterns: Sequence[str] = ()) -> bool:
    """Whether a cell says that there is no value.

    Args:
        cell: An empty one does, and the words of `MISSING` in any case.
        patterns: Further words and numbers that do; see `matches`.
    """
    return cell.strip().lower() in MISSING or matches(cell, patterns)


def matches(cell: str, patterns: Sequence[str]) -> bool:
    """Whether a cell is one of some words, in any case, where ``*`` stands for any text, or
    has the number of one: pandas writes -999 as -999.0."""
    if not patterns:
        return False
    words, numbers = _any_of(tuple(patterns))
    text = cell.strip().lower()
    return bool(words.fullmatch(text) or numbers and _number(text) in numbers)


@functools.cache
def _any_of(patterns: tuple[str, ...]) -> tuple[re.Pattern[str], frozenset[float]]:
    """Pattern of any of them, and those that are numbers."""
    words = (re.escape(pattern.lower()).replace(r"\*", ".*") for pattern in patterns)
    numbers = (_number(pattern) for pattern in patterns)
    found = frozenset(number for number in numbers if number is not None)
    return re.compile("|".join(words), re.DOTALL), found


def _number(text: str) -> float | None:
    """What a text says, None if it says no number."""
    try:
        return _float(text)
    except ValueError:
        return None


def number_in(cell: str) -> float:
    """Number of a cell, NaN for an empty one.

    Raises:
        ValueError: It is not a number, or not one that fits float32.
    """
    try:
        number = _float(cell)
    except ValueError:
        raise ValueError(f"{shown(cell.strip())} is not a number") from None
    if number is None:
        return math.nan
    if not abs(number) <= LARGEST:
        raise ValueError(f"{shown(cell.strip())} is not a number that fits float32")
    return number


def is_number(cell: str) -> bool:
    """Whether a cell is empty or a number, also one that does not fit float32: its column
    is one of numbers, and the cell an error to name."""
    try:
        _float(cell)
    except ValueError:
        return False
    return True


def _float(cell: str) -> float | None:
    """What a cell says, None if it is empty; ValueError where it is no number."""
    text = cell.strip()
    if is_missing(text):
        return None
    if "_" in text:  # Python's 1_000, and nobody's number in a table
        raise ValueError(text)
    return float(text)


def shown(text: str, limit: int = 80) -> str:
    """A cell in a message."""
    return repr(text) if len(text) <= limit else f"{text[:limit]!r}..."
