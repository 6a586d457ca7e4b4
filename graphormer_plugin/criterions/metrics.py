"""Metrics over a whole split, not means of batch means.

Sums and counts travel through fairseq's own ``SumMeter``: fairseq restores the meters
of an interrupted epoch by class name from its own module and knows no meter of ours.
A name that starts with an underscore is kept by fairseq but not printed.
"""

import math

import torch
from fairseq.logging import metrics
from fairseq.logging.meters import MetersDict
from torch import Tensor


def mean_per_column(totals: Tensor, counts: Tensor) -> list[float]:
    """``totals / counts`` ``[C]`` as floats; NaN for a column without a value."""
    return [
        total / count if count > 0 else math.nan
        for total, count in zip(totals.tolist(), counts.tolist(), strict=True)
    ]


def mean_over_columns(totals: Tensor, counts: Tensor) -> float:
    """Mean over the columns that have a value of their own means; NaN if none has."""
    means = [m for m in mean_per_column(totals, counts) if not math.isnan(m)]
    return math.fsum(means) / len(means) if means else math.nan


def log_mean_error(
    name: str, columns: list[str], totals: Tensor, counts: Tensor
) -> None:
    """Log an error that is averaged per target over everything seen so far.

    Logs ``name``, the mean over targets of each target's own mean, and with several
    targets also ``name_<target>`` each. A target that never occurs is left out of the
    mean and is itself NaN.

    Args:
        name: of the metric, e.g. ``mae``.
        columns: names of the targets, ``C`` of them.
        totals: sum of the error of each target, float64 ``[C]``, in its unit.
        counts: number of values in each sum, ``[C]``.
    """
    total_key, count_key = f"_{name}_total", f"_{name}_count"
    metrics.log_scalar_sum(total_key, totals.detach().double().cpu())
    metrics.log_scalar_sum(count_key, counts.detach().double().cpu())

    # A reset meter holds the number 0 until the next update.
    def state(meters: MetersDict) -> tuple[Tensor, Tensor]:
        total, count = meters[total_key].sum, meters[count_key].sum
        zeros = torch.zeros(len(columns), dtype=torch.float64)
        return zeros + total, zeros + count

    metrics.log_derived(name, lambda meters: mean_over_columns(*state(meters)), 15)
    if len(columns) > 1:
        for index, column in enumerate(columns):
            metrics.log_derived(
                f"{name}_{column}",
                lambda meters, index=index: mean_per_column(*state(meters))[index],
                16,
            )
