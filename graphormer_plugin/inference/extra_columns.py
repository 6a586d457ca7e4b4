"""Numbers that a model reads beside each molecule."""

from collections.abc import Mapping, Sequence

import numpy as np

# By the name of the column, or [q, columns].
Extra = Mapping[str, Sequence[float]] | np.ndarray | None


def extra_values(names: Sequence[str], extra: Extra, count: int) -> np.ndarray:
    """Numbers as an array.

    Args:
        names: of the columns that the model reads.
        extra: what is given; NaN where a number is missing.
        count: molecules.

    Returns:
        float64 [count, columns].

    Raises:
        ValueError: columns are missing, or of another length.
    """
    if isinstance(extra, Mapping):
        lacking = [name for name in names if name not in extra]
        extra = None if lacking else np.array([extra[name] for name in names]).T
    if extra is None and names:
        raise ValueError(
            f"the model reads {', '.join(names)} beside the molecules; give their "
            "numbers as extra"
        )
    if not names:
        return np.empty((count, 0))
    values = np.asarray(extra, np.float64)
    if values.shape != (count, len(names)):
        raise ValueError(
            f"extra has shape {list(values.shape)}, expected [{count}, {len(names)}]"
        )
    return values
