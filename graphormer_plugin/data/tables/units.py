"""Units of concentrations, which a column beside a target may name, and their conversion."""

import re

import numpy as np

from graphormer_plugin.data.tables.cells import ParsedColumn

MOLAR = re.compile(r"([fpnuµμm]?)(?:M|mol/[lL])")  # both letters for micro are in use
EXPONENTS = {"": 0, "m": -3, "u": -6, "µ": -6, "μ": -6, "n": -9, "p": -12, "f": -15}


def molar_exponent(unit: str) -> int | None:
    """Decadic exponent of a unit in mol/l; None for other units.

    >>> molar_exponent("uM"), molar_exponent("nmol/L"), molar_exponent("nm")
    (-6, -9, None)
    """
    match = MOLAR.fullmatch(unit.strip("\"' "))
    return EXPONENTS[match[1]] if match else None


def unit_factors(column: ParsedColumn, unit: str) -> np.ndarray:
    """Factors [rows] that convert numbers with the units in a column into a unit of
    `molar_exponent`; NaN where a cell has no such unit."""
    factors = np.full(len(column.values), np.nan)
    for word, rows in column.words.items():
        exponent = molar_exponent(word)
        if exponent is not None:
            factors[rows] = 10.0 ** (exponent - molar_exponent(unit))
    return factors
