"""Style of every figure."""

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from matplotlib import rc_context, rcParamsDefault


@contextlib.contextmanager
def figure_style(more: Mapping[str, Any] | None = None) -> Iterator[None]:
    """matplotlib's defaults in place of a matplotlibrc, which may lie in the current
    folder, and ``more``. A name may have a $."""
    style = {**rcParamsDefault, "text.parse_math": False, **(more or {})}
    with rc_context(style), warnings.catch_warnings():
        # For each letter that the font lacks, with the letter, which may be ESC.
        warnings.filterwarnings("ignore", "Glyph .* missing")
        yield
