"""Cells of tables: missing cells, numbers, and columns of cells."""

import array
import contextlib
import functools
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphormer_plugin.data.errors import counted, listed
from graphormer_plugin.data.tables.labels import label_ends, labels_between
from graphormer_plugin.data.targets import beyond_float32

MISSING = frozenset({"", "nan", "na", "n/a", "#n/a", "<na>", "null", "none"})
MINUS = "\u2212"  # written by programs that typeset texts
COMMA = re.compile(rf"[+{MINUS}-]?\d*,\d+(e[+{MINUS}-]?\d+)?", re.IGNORECASE)  # 1,5
THOUSANDS = re.compile(rf"[+{MINUS}-]?[1-9]\d{{0,2}},\d{{3}}")  # 1,234, perhaps 1234
# 1.234, perhaps 1234; 1.234.567 and 1.234,5
POINTS = re.compile(rf"[+{MINUS}-]?[1-9]\d{{0,2}}(\.\d{{3}})+(,\d+)?")
DATES = ("ISO8601", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y")
NUMBER = rf"[+{MINUS}-]?[.,]?\d[\d.,eE+{MINUS}-]*"
BOUND = re.compile(rf"\s*([<>≤≥])=?\s*({NUMBER})\s*")  # >100 or <= 0.1
TO = "…"  # between the ends of two columns, either of which may be missing
# Without zeros in front: 03-2024 is a date.
END = rf"([+{MINUS}-]?(?!0\d)(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][+{MINUS}-]?\d+)?)"
INTERVAL = re.compile(rf"\s*{END}\s*[…–—{MINUS}-]\s*{END}\s*")  # 3.1-4.2 or -1.5--0.5
DATE = re.compile(r"\s*(?=.*\b0\d)\d+(?:(?:[/–-]\d+){1,2}|(?:\.\d+){2})\s*")
# 93 %, 5 nM, 12mg/mL, 5-10 nM: after a number, a sign, a usual unit, or a blank and a word.
UNIT = r"\s*[%‰°µμ]\S*|[fpnum]?M|[kmunp]?(?:g|mol|[lL]|eV)(?:/\S+)?|\s+[^\W\d]\S*"
_NUMBER = rf"[+{MINUS}-]?\.?\d[\d.,]*(?:[eE][+-]?\d+)?"
WITH_UNIT = re.compile(
    rf"\s*[<>≤≥~]?=?\s*(?:{_NUMBER}(?:{UNIT})?\s*[…–—-]\s*)?{_NUMBER}({UNIT})\s*"
)
MOST_UNITS = 3  # units in the cells of a column; our choice
FEWEST_NUMBERS = 0.1  # share of numbers in a column beside few words; our choice
SIGNS = {">": math.inf, "≥": math.inf, "<": -math.inf, "≤": -math.inf}
INDEX = r"|index|unnamed: \d+|__index_level_0__"  # names of an index, most of pandas


def matches(cell: str, patterns: Sequence[str]) -> bool:
    """Whether a cell is one of some words, in any case, where ``*`` stands for any text; or
    has the number of such a word, because pandas writes -999 as -999.0."""
    words, numbers = _any_of(tuple(patterns))
    text = cell.strip().lower()
    return bool(words.fullmatch(text) or numbers and _value(text) in numbers)


@functools.cache
def _any_of(patterns: tuple[str, ...]) -> tuple[re.Pattern[str], frozenset[Any]]:
    """Pattern that any of the words fits, and the numbers among the words."""
    words = (re.escape(pattern.lower()).replace(r"\*", ".*") for pattern in patterns)
    numbers = frozenset(map(_value, patterns)) - {None, math.nan}
    return re.compile("|".join(words), re.DOTALL), numbers


def _value(cell: str) -> float | None:
    """Number of a cell, also beyond float32; `math.nan` if there is no value, None for a
    word."""
    text = cell.strip().lower().replace(MINUS, "-")
    if text in MISSING:
        return math.nan
    try:
        number = float(text)
    except ValueError:
        return None
    # Python reads 1_000, which is a mistake in a table; -nan does not mark a missing cell.
    return None if "_" in text or number != number else number


def is_number(cell: str) -> bool:
    """Whether a cell is empty or a number; true also for numbers beyond float32, which are
    errors in a column of numbers."""
    return _value(cell) is not None


def number_in(cell: str) -> float:
    """Number of a cell, NaN if it is one of `MISSING`; ValueError for a word, and for a number
    too large or too small for float32."""
    number = _value(cell)
    if number is None or beyond_float32(number):
        fits = "" if number is None else " that fits float32"
        raise ValueError(f"{shown(cell.strip())} is not a number{fits}")
    return number


def looks_numeric(cell: str) -> bool:
    """Whether somebody may mean a number: 1,5 or 1,000.5 or 1_000."""
    return is_number(re.sub("[,_]", "", cell)) or is_number(point(cell))


def point(cell: str) -> str:
    """A cell with a decimal point in place of a decimal comma."""
    return cell.replace(",", ".") if COMMA.fullmatch(cell.strip()) else cell


def read_dates(texts: Sequence[str]) -> np.ndarray:
    """Seconds since 1970 of dates in one format, the best of `DATES`; NaN for other texts.
    ValueError if day and month may be exchanged in all of them."""
    import pandas

    cells = pandas.Series(texts)
    read = [pandas.to_datetime(cells, "coerce", format=f, utc=True) for f in DATES]
    best = max(read, key=lambda dates: dates.notna().sum())
    *_, day_first, month_first = read
    if best is day_first and month_first.notna().all() and any(best != month_first):
        text = f"day and month of dates such as {texts[0]} may be exchanged"
        raise ValueError(f"{text}; write them as 2024-03-31")
    seconds = (best - pandas.Timestamp(0, tz="UTC")) / pandas.Timedelta(1, "s")
    return seconds.to_numpy(np.float64)


def is_bound(cell: str) -> bool:
    """Whether a cell is read as a bound, such as >100 or 3.1-4.2, where these are asked for."""
    return bool(BOUND.fullmatch(cell) or INTERVAL.fullmatch(cell))


def _ends(cell: str) -> Sequence[str]:
    """Texts of the ends of an interval, or a cell alone."""
    match = INTERVAL.fullmatch(cell)
    return match.groups() if match else cell.split(TO)


def shown(text: str, limit: int = 80) -> str:
    """A cell in a message."""
    return repr(text) if len(text) <= limit else f"{text[:limit]!r}..."


def is_index(name: str) -> bool:
    """Whether a column has the name of an index."""
    return re.fullmatch(INDEX, name.lower()) is not None


class ParsedColumn:
    """Cells of a column, as numbers.

    Attributes:
        values: number of each cell, NaN for words and for missing cells.
        words: rows of cells that are not numbers, by text.
        missing: texts of cells that the user's patterns call missing.
        classes: names of classes that would otherwise mean a missing cell, such as none.
        bounds: see `label_ends`, of cells such as >100, <0.1 and 3.1-4.2 if ``censored``.
        has_commas: whether cells such as 1,5 are numbers, see `read_commas`.
        pointed: first cell such as 1.234, if all with a point are like this; else empty.
    """

    has_commas = False
    pointed: str | None = None

    def __init__(
        self,
        name: str,
        patterns: Sequence[str] = (),
        classes: Sequence[str] = (),
        censored: bool = False,
    ) -> None:
        self.name = name
        self.patterns = patterns
        self.censored = censored
        self.classes = {word for word in classes if word.lower() in MISSING}
        self.values = array.array("d")
        self.bounds = array.array("d")
        self.words: dict[str, list[int]] = {}
        self.missing: set[str] = set()

    def add(self, cell: str) -> None:
        """Read the next cell."""
        value = math.nan
        bound = 0.0
        if "." in cell and self.pointed != "":
            points = [end.strip("<>≤≥= ") for end in _ends(cell) if "." in end]
            fit = all(map(POINTS.fullmatch, points))
            self.pointed = (self.pointed or points[0]) if fit else ""
        if self.patterns:
            ends = cell.split(TO)
            gone = {end for end in ends if matches(end, self.patterns)}
            self.missing |= gone
            cell = TO.join("" if end in gone else end for end in ends)
        if cell.strip() in self.classes:
            self.words.setdefault(cell.strip(), []).append(len(self.values))
        else:
            try:
                value, bound = self.label(cell)
            except ValueError:
                self.words.setdefault(cell.strip(), []).append(len(self.values))
        self.values.append(value)
        self.bounds.append(bound)

    def read_commas(self, decimal: bool) -> str:
        """Read words such as 1,5 as numbers and return a line about it. If other cells have
        a decimal point, or if all such words may be thousands (1,234) and commas are not
        known to be ``decimal``, nothing changes and the line is empty."""
        labels = {}
        self.has_commas = True
        for word in self.words:
            with contextlib.suppress(ValueError):
                labels |= {word: self.label(word)} if "," in word else {}
        ends = re.findall(END, " ".join(labels))
        sure = decimal or not all(map(THOUSANDS.fullmatch, ends))
        numbers = np.ravel(label_ends(np.array(self.values), np.array(self.bounds)))
        if not labels or not sure or (numbers[np.isfinite(numbers)] % 1 > 0).any():
            self.has_commas = False
            return ""
        for word, label in labels.items():
            for row in self.words.pop(word):
                self.values[row], self.bounds[row] = label
        first = next(iter(labels))
        return f"column {self.name!r}: {first} is read as {first.replace(',', '.')}"

    @property
    def thousands(self) -> str:
        """A cell such as 1.234 that is 1234 if points are not known to be decimal; empty if
        they are, because of other cells."""
        cell = self.pointed or ""
        decimal = any(number >= 1000 for number in self.values)
        return "" if decimal or not is_number(cell) else cell

    def label(self, cell: str) -> tuple[float, float]:
        """Number of a cell, or the middle of an interval, and its bound, see `label_ends`;
        ValueError for a word."""
        if not self.censored:
            return self.number(cell), 0.0
        if match := BOUND.fullmatch(cell):
            return self.number(match[2]), SIGNS[match[1]]
        ends = _ends(cell)
        low, high = map(self.number, ends if len(ends) > 1 else 2 * ends)
        if low > high:
            raise ValueError(cell)
        label, half = labels_between(low, high)
        return float(label), float(half)

    def number(self, cell: str) -> float:
        """`number_in` a cell, read as the cells of this column are."""
        return number_in(point(cell) if self.has_commas else cell)

    @property
    def has_numbers(self) -> bool:
        """Whether a cell is a number, or meant as a number."""
        words = self.words.keys() - self.classes
        is_meant = any(map(looks_numeric, words)) or bool(self.units)
        return is_meant or not np.isnan(self.values).all()

    @property
    def units(self) -> list[str]:
        """Units in the cells, if all cells that are not numbers are numbers with one of a few
        units; else empty."""
        units = set[str]()
        for word in self.words:
            match = WITH_UNIT.fullmatch(word)
            if match is None:
                return []
            units.add(match[1].strip())
        few = len(units) <= MOST_UNITS and 2 * len(units) < len(self.words)
        return sorted(units) if few else []

    @property
    def is_nearly_numeric(self) -> bool:
        """Whether the cells are numbers except for a few words, perhaps in many cells: numbers
        with units, bounds, and thousands with commas count as numbers."""
        count = int(np.count_nonzero(~np.isnan(self.values)))
        total = count
        odd = 0
        for word, rows in self.words.items():
            total += len(rows)
            if is_number(word.replace(",", "")) or is_bound(word):
                count += len(rows)
            else:
                odd += 1
        mixed = count > odd and count >= FEWEST_NUMBERS * total
        return bool(self.units) or mixed

    def first_word(self) -> tuple[int, str] | None:
        """The first row whose cell is a word, and the word; None if there are only numbers."""
        rows = {rows[0]: word for word, rows in self.words.items()}
        return min(rows.items(), default=None)

    @property
    def is_numeric(self) -> bool:
        """Whether no cell is a word."""
        return self.classes.isdisjoint(self.words) and all(map(is_number, self.words))

    def advice(self) -> str:
        """Number of cells that are words, and what to do about them; empty if there are
        none."""
        counts = [(len(rows), w) for w, rows in self.words.items() if not is_number(w)]
        if not counts:
            return ""
        most = sorted(counts, key=lambda count: count[0], reverse=True)
        words = listed((shown(word, 20) for _, word in most), 4)
        total = counted(sum(count for count, _ in counts), "such cell")
        advice = (
            "correct them, or name missing ones with --missing-labels, such as 'ND,>*'"
        )
        if any(map(is_bound, self.words)):
            advice += "; --censored takes bounds such as >100 or 3.1-4.2, low end first"
        if any(looks_numeric(word) for _, word in most[:4]):
            advice = "write numbers as 1234.5, without commas"
        if any(POINTS.fullmatch(word) for _, word in most[:4]):
            advice = "write numbers as 1234.5, without points between thousands"
        if any(map(DATE.fullmatch, self.words)):
            advice = (
                "dates are no labels; write intervals without zeros in front, as 5-10"
            )
        if units := self.units:
            advice = f"write the numbers without {listed(units)}"
            if "%" not in units:
                advice += ", and name their unit with --target-unit"
            if not np.isnan(self.values).all():
                units = [*units, "none"]
            if len(units) > 1:
                advice = f"units differ ({listed(units)}): convert all numbers to one"
        if most[0][1].startswith("["):
            advice = "a target is one number per molecule, not a list"
        return f" ({total}: {words}); {advice}"

    def counts(self, rows: np.ndarray) -> Counter[str]:
        """How often each word occurs in rows, bool [rows], and each number if all are whole
        and some are not 0 or 1; words and numbers that do not occur are left out."""
        counter = Counter(
            {w: int(rows[places].sum()) for w, places in self.words.items()}
        )
        numbers = np.array(self.values)[rows]
        numbers = numbers[~np.isnan(numbers)]
        if (numbers % 1 == 0).all() and not np.isin(numbers, (0, 1)).all():
            counter.update(f"{number:.0f}" for number in numbers)
        return +counter

    def signs(self) -> np.ndarray:
        """Bounds [rows] that the words of a column such as Standard Relation say: inf for '>',
        -inf for '<', else 0."""
        signs = np.zeros(len(self.values))
        for word, rows in self.words.items():
            signs[rows] = SIGNS.get(word.strip("\"' ")[:1], 0)
        return signs

    def numbers_rows(self, starts: Sequence[int] = (0,)) -> bool:
        """Whether the numbers only count the rows: the column has the name of an index, or
        most cells have 0, 1, 2, ... or 1, 2, 3, ... and the others are empty, perhaps anew in
        each of several tables that start at ``starts``."""
        values = np.array(self.values)
        count = np.arange(len(values))
        anew = count - np.array(starts)[np.searchsorted(starts, count, "right") - 1]
        has_number = ~np.isnan(values)
        return is_index(self.name) or (
            2 * has_number.sum() > len(values)
            and not self.words
            and any(
                np.array_equal(values[has_number], rows[has_number] + n)
                for rows in (count, anew)
                for n in (0, 1)
            )
        )
