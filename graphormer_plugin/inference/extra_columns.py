"""Numbers that a model reads beside each molecule."""

from collections.abc import Mapping, Sequence

import numpy as np

# By the name of the column, or [q, columns].
Extra = Mapping[str, Sequence[float]] | np.ndarray | None


def extra_values(names: Sequence[str], extra: Extra, count: int) -> np.ndarray:
    """Columns that a model reads as float64 [count, columns], NaN where missing."""
    if not names:
        return np.empty((count, 0))
    if isinstance(extra, Mapping):
        is_complete = all(name in extra for name in names)
        extra = np.array([extra[name] for name in names]).T if is_complete else None
    if extra is None:
        raise ValueError(
            f"the model reads {', '.join(names)} beside the molecules; give their "
            "numbers as extra"
        )
    values = np.asarray(extra, np.float64)
    if values.shape != (count, len(names)):
        raise ValueError(
            f"extra has shape {list(values.shape)}, expected [{count}, {len(names)}]"
        )
    return values
