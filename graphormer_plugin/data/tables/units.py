"""Units of concentrations, which a column beside a target may name, and their conversion."""

import re

import numpy as np

from graphormer_plugin.data.tables.cells import ParsedColumn

# Both letters for micro are in use.
MOLAR = re.compile(r"([fpnuµμm]?)(?:M|mol/[lL])|(?i:(milli|micro|nano|pico|)molar)")
EXPONENTS = {"": 0, "m": -3, "u": -6, "µ": -6, "μ": -6, "n": -9, "p": -12, "f": -15}
EXPONENTS |= {"milli": -3, "micro": -6, "nano": -9, "pico": -12}


def molar_exponent(unit: str) -> int | None:
    """Decadic exponent of a unit in mol/l; None for other units.

    Example:
        >>> molar_exponent("uM"), molar_exponent("NMOL/L"), molar_exponent("nm")
        (-6, -9, None)
    """
    unit = unit.strip("\"' ")
    if unit.isupper():  # NM, in tables whose words are all in capitals
        unit = unit[:-1].lower() + unit[-1]
    match = MOLAR.fullmatch(unit)
    return EXPONENTS[(match[1] or match[2] or "").lower()] if match else None


def unit_factors(column: ParsedColumn, unit: str) -> np.ndarray:
    """Factors [rows] that convert numbers with the units in a column into a unit of
    `molar_exponent`; NaN where a cell has no such unit."""
    factors = np.full(len(column.values), np.nan)
    for word, rows in column.words.items():
        exponent = molar_exponent(word)
        if exponent is not None:
            factors[rows] = 10.0 ** (exponent - molar_exponent(unit))
    return factors
