"""What limits the error of a model: repeats that differ, and activity cliffs."""

import numpy as np
import pandas as pd

from graphormer_plugin.estimators.kernels import Reference
from graphormer_plugin.workbench.experiment.split_labels import SplitLabels

FEWEST = 5  # molecules with repeats, or test molecules on cliffs, that a line tells of
SIMILAR = 0.9  # Tanimoto similarity on a cliff, as in MoleculeACE
MOST_PAIRS = 3 * 10**7  # of a test molecule and another, that are compared


def limit_lines(
    split: SplitLabels, tested: pd.DataFrame, fingerprints: np.ndarray
) -> list[str]:
    """Lines about targets of numbers.

    Args:
        split: what is learned; labels of a cliff are more than its standard deviation apart
            (our choice; in MoleculeACE, where that is about 1.2 decades, more than one).
        tested: `predicted_labels` in the unit of the table.
        fingerprints: Morgan counts of all molecules [n, bits].
    """
    table = split.table
    kept = table.without_copies(np.arange(len(table)))
    conditions = pd.Series([(table.keys[row], bytes(table.extra[row])) for row in kept])
    lines = []
    for target in np.flatnonzero(table.targets.is_number).tolist():
        name = table.in_unit.targets.names[target]
        part = tested[tested.target == target]
        squares = (part.value - part.label) ** 2
        labels = pd.Series(table.in_unit.exact_labels[kept, target])
        repeats = labels.groupby(conditions).agg(["count", "var"]).query("count > 1")
        if len(repeats) >= FEWEST:
            freedom = repeats["count"] - 1
            noise = np.average(repeats["var"], weights=freedom) ** 0.5
            error = noise / (2 * freedom.sum()) ** 0.5  # of a normal deviation
            lines.append(
                f"repeats of {name} differ by {noise:.3g} ± {error:.2g} ({len(repeats):,} "
                "molecules), about the rmse of a perfect model; that of this one is "
                f"{squares.mean() ** 0.5:.3g}"
            )
        if len(part) * len(table) > MOST_PAIRS:
            continue
        learned = table.exact_labels[:, target]
        rows = part.row.to_numpy()
        near = Reference("fingerprint", fingerprints).compare(fingerprints[rows])
        is_far = np.abs(learned[rows, None] - learned) > split.deviation[target]
        on_cliff = ((near >= SIMILAR) & is_far).any(1)
        if on_cliff.sum() >= FEWEST:
            lines.append(
                f"{on_cliff.sum():,} of {len(part):,} test labels of {name} are on activity "
                f"cliffs: a very similar molecule has a label far from theirs; the rmse there "
                f"is {squares[on_cliff].mean() ** 0.5:.3g}"
            )
    return lines
