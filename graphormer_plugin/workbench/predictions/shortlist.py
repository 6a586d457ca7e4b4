"""A shortlist with a bounded share of false molecules: conformal selection (Jin & Candès,
arXiv:2210.01408)."""

import math
from typing import NamedTuple

import numpy as np

from graphormer_plugin.data.errors import listed
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.estimators.kernels import Floats
from graphormer_plugin.estimators.prediction import ROUNDING
from graphormer_plugin.inference.model_folder import ModelFolder
from graphormer_plugin.inference.prediction_columns import OutputColumn, number_column

P_VALUE = "p_value"
SELECTED = "selected"  # new columns


class Wanted(NamedTuple):
    """What a shortlist has.

    Attributes:
        flag: ``--above`` or ``--below``.
        words: ``TARGET=NUMBER`` or, above, ``TARGET=CLASS``.
        false_share: largest expected share of molecules that are not beyond it.
    """

    flag: str
    words: str
    false_share: float


class Shortlist(NamedTuple):
    """A test of each molecule against n calibration molecules, which the model was not fitted to.

    Attributes:
        output: the output that ranks molecules.
        sign: 1 if high predictions are wanted, else -1.
        failing: ``sign`` * predictions of the calibration molecules that are not, or may not
            be, beyond the threshold, ascending.
        calibrated: n.
        false_share: see `Wanted`.
        failure: what a false molecule is, as ``below 7``.
    """

    output: int
    sign: int
    failing: Floats
    calibrated: int
    false_share: float
    failure: str

    def p_values(self, values: Floats) -> Floats:
        """Conformal p-values [q] by the predictions [q] of `output`: (1 + k) / (n + 1), with the
        k failing calibration molecules that are predicted as well or better; NaN stays NaN.

        These are those of the paper with its clipped score, but that ties count as better:
        the paper draws them at random.
        """
        as_well = len(self.failing) - np.searchsorted(self.failing, self.sign * values)
        return np.where(np.isnan(values), np.nan, (1 + as_well) / (self.calibrated + 1))

    def columns(self, values: Floats) -> tuple[list[OutputColumn], str]:
        """The columns of all molecules, by the predictions [q] of `output`, and a line."""
        p_values = self.p_values(values)
        chosen = selected(p_values, self.false_share)
        words = np.where(np.isnan(p_values), "", np.where(chosen, "yes", "no")).tolist()
        columns = [
            number_column(P_VALUE, p_values),
            OutputColumn(SELECTED, words),
        ]
        count = int((~np.isnan(p_values)).sum())
        text = f"{chosen.sum():,} of {count:,} molecules; on average at most "
        text += f"{100 * self.false_share:g} % of such a list are {self.failure}"
        if chosen.any():
            return columns, text
        n = self.calibrated
        least = int((p_values * (n + 1) < 1 + ROUNDING).sum())
        if not least:
            as_well = f"calibration molecules that are {self.failure}"
            return columns, f"{text}; {as_well} are predicted as well as any of these"
        needed = math.ceil(count / (self.false_share * least) - ROUNDING) - 1
        return columns, (
            f"{text}; {P_VALUE} is 1/{n + 1:,} at least with {n:,} calibration molecules, and "
            f"{least:,} have it: a list of these takes {needed:,} calibration molecules"
        )


def selected(p_values: Floats, false_share: float) -> np.ndarray:
    """Which hypotheses the procedure of Benjamini & Hochberg (1995) rejects, bool [q]; none with
    NaN."""
    from scipy.stats import false_discovery_control  # late: most predictions need none

    chosen = ~np.isnan(p_values)
    if chosen.any():
        adjusted = false_discovery_control(p_values[chosen])
        chosen[chosen] = adjusted <= false_share * (1 + ROUNDING)
    return chosen


def shortlist_of(
    wanted: Wanted, targets: TargetSchema, models: ModelFolder
) -> Shortlist:
    """The shortlist of a model of ``targets``; ValueError where it has none."""
    flag, words, false_share = wanted
    name, _, limit = words.rpartition("=")
    if name not in targets.names:
        names = listed(targets.names)
        raise ValueError(f"{flag} {words}: expected TARGET=VALUE; the targets: {names}")
    if name not in models.calibration:
        raise ValueError(
            f"{flag} {words}: {models.source} has no calibration molecules; name a folder of "
            "graphormer-train --interval conformal"
        )
    predicted, low, high = (np.array(x) for x in models.calibration[name])
    index = targets.names.index(name)
    target = targets.targets[index]
    label = 0
    sign = 1 if flag == "--above" else -1
    if target.kind.is_number:
        try:
            value = float(limit)
        except ValueError:
            raise ValueError(f"{flag} {words}: expected a number after =") from None
        is_hit = low > value if sign > 0 else high < value
        failure = f"{'below' if sign > 0 else 'above'} {limit}"
        ends = np.concatenate([low, high])
        ends = ends[np.isfinite(ends)]
        found = f" (labels {ends.min():g} to {ends.max():g})"
    else:
        if sign < 0 or limit not in target.class_labels:
            classes = "|".join(target.class_labels)
            raise ValueError(f"{flag} {words}: expected --above {name}={classes}")
        label = target.class_labels.index(limit)
        is_hit = low == label
        failure = f"not {limit}"
        found = ""
        if target.kind.has_one_output:  # the probability of class 1
            sign = 1 if label else -1
            label = 0
    count = len(is_hit)
    if not 0 < is_hit.sum() < count:
        raise ValueError(
            f"{flag} {words}: {is_hit.sum()} of {count:,} calibration molecules are{found}; "
            "a shortlist takes some that are, and some that are not"
        )
    least = math.ceil(1 / false_share - ROUNDING) - 1
    if count < least:
        raise ValueError(
            f"--false-share {false_share:g} takes {least:,} or more calibration molecules, "
            f"{models.source} has {count:,}"
        )
    failing = np.sort(sign * predicted[label, ~is_hit])
    output = targets.first_outputs[index] + label
    return Shortlist(output, sign, failing, count, false_share, failure)
