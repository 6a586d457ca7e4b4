"""The targets of an experiment: their scales, and those that no model can learn."""

import dataclasses
from collections.abc import Sequence
from itertools import compress

import numpy as np

from graphormer_plugin.data.errors import DatasetError, counted, listed
from graphormer_plugin.data.scales import Scale
from graphormer_plugin.data.tables.labels import label_ends, labels_between
from graphormer_plugin.data.targets import Kind, TargetSchema
from graphormer_plugin.workbench.experiment.labelled_molecules import (
    LabelledMolecules,
    SplitLabels,
)
from graphormer_plugin.workbench.experiment.settings import AUTO, NONE, Settings
from graphormer_plugin.workbench.fitting.fit_gp import unfit_targets

FEWEST_NUMBERS = 20  # least labels of a column of registry numbers
# Our choices. Logarithms gain 0.64 nats and more where they are known to be better, and
# 0.11 at most on labels that are logarithms already; a kernel on fingerprints instead of noise
# alone changes no choice on 43 sets.
LEAST_GAIN = 0.3  # of another scale, in nats per label
FEWEST_LABELS = 20  # that choose the scale
FEW = 0.1  # share of labels that are not on a scale and may be mistakes
PILED = 0.05  # share of labels that are equal at either end and may be bounds


def learned_targets(table: LabelledMolecules, settings: Settings) -> LabelledMolecules:
    """The table without targets whose labels are all equal, or registry numbers, and
    warnings about them; for DatasetError see `check_log_targets`."""
    check_log_targets(table, settings)
    names = table.targets.names
    numbers = [Kind.REGRESSION] * len(names)  # no model learns a single class
    equal = [names[index] for index in unfit_targets(table.exact_labels, numbers)]
    if len(equal) == len(names):
        raise DatasetError(
            f"{settings.table}: all labels of {listed(names)} are equal, missing or "
            "bounds; there is nothing to learn"
        )
    table = table.without(equal, "all labels are equal, missing or bounds")
    return table.without(
        registry_numbers(table.labels, table.targets),
        "different whole numbers in a row, as registry numbers are; train it alone if "
        "it is measured",
    )


def named_targets(settings: Settings) -> Sequence[str]:
    """Targets that ``--log-targets`` names; none for one of its words."""
    asked = settings.log_targets
    return () if asked in ((AUTO,), (NONE,)) else asked


def check_log_targets(table: LabelledMolecules, settings: Settings) -> None:
    """Raise DatasetError for names in ``--log-targets`` that have no logarithms."""
    names = table.targets.names
    numbers = [*compress(names, table.targets.is_number)]
    taken = {*names, *settings.extra_columns, settings.weight_column}
    for name in named_targets(settings):
        if name not in numbers:
            raise DatasetError(
                f"--log-targets {name}: no such target that is a number, expected {AUTO}, "
                f"{NONE} or some of {listed(numbers, 12)}"
            )
        if count := int((table.labels[:, names.index(name)] <= 0).sum()):
            raise DatasetError(
                f"--log-targets {name}: {counted(count, 'label')} of 0 or less without a "
                "logarithm; correct them, or leave out the target"
            )
        if Scale.LOG + name in taken:
            raise DatasetError(
                f"--log-targets {name}: another column is called {Scale.LOG + name!r}, which "
                "is the name of its logarithm; rename that column, or leave it out"
            )


def on_scales(
    table: LabelledMolecules, split: SplitLabels, settings: Settings
) -> LabelledMolecules:
    """The table with labels on the scales of ``--log-targets``, which models learn, its
    training molecules choose and `LabelledMolecules.scaled` tells."""
    names = table.targets.names
    lines = []
    named = named_targets(settings)
    scales = [Scale.LOG if name in named else Scale.IDENTITY for name in names]
    taken = {*names, *settings.extra_columns, settings.weight_column}
    for target in np.flatnonzero(table.targets.is_number).tolist():
        name = names[target]
        learned = split.trained[:, target]
        if settings.log_targets == (AUTO,):
            scale, line = chosen_scale(name, learned, table.labels[:, target])
            if not scale or scale + name not in taken:
                scales[target] = scale
                lines.append(line)
        lines.append(piled_labels(name, learned))
    original = dataclasses.replace(table, scaled=[*filter(None, lines)])
    ends = label_ends(table.labels, table.bounds)
    with np.errstate(all="ignore"):  # an end that is not on the scale is open
        scaled = [[s.forward(y) for s, y in zip(scales, end.T)] for end in ends]
    labels, bounds = labels_between(*np.stack(scaled).swapaxes(1, 2))
    names = [scale + name for scale, name in zip(scales, names)]
    return dataclasses.replace(
        table,
        labels=labels,
        bounds=bounds,
        targets=table.targets.changed(name=names),
        scales=scales,
        original=original,
    )


def chosen_scale(
    name: str, learned: np.ndarray, labels: np.ndarray
) -> tuple[Scale, str]:
    """The scale of a target by its exact ``learned`` labels, on which all of its ``labels``
    are, and a line about it if it is another than theirs, or nearly would be."""
    learned = learned[~np.isnan(learned)]
    best = Scale.IDENTITY
    most = 0.0
    for scale in [*Scale][1:]:
        y = learned[scale.has(learned)]
        if len(y) >= max(FEWEST_LABELS, (1 - FEW) * len(learned)) and np.ptp(y) > 0:
            gain = scale.likelihood(y) - Scale.IDENTITY.likelihood(y)
            if gain > most + LEAST_GAIN:
                best = scale
                most = gain
    refused = labels[~best.has(labels)]
    if len(refused):
        return Scale.IDENTITY, (
            f"{name} is not learned as {best + name}: {counted(len(refused), 'label', 'have')} "
            f"no {best.strip()}, such as {refused[0]:g}; correct them, or give "
            f"--missing-labels={refused[0]:g}"
        )
    return best, best and (
        f"{name} is learned as {best + name}, on which each training label is "
        f"{np.exp(most):.3g} times as likely; --log-targets {NONE} learns it as it is"
    )


def piled_labels(name: str, labels: np.ndarray) -> str:
    """A line about labels [n] many of which are the smallest, and many the largest."""
    values, counts = np.unique(labels[~np.isnan(labels)], return_counts=True)
    if len(values) <= FEWEST_LABELS or counts[[0, -1]].min() < PILED * counts.sum():
        return ""
    return (
        f"{counts[0]:,} labels of {name} are {values[0]:g} and {counts[-1]:,} are "
        f"{values[-1]:g}: if these are limits of the measurement, write <{values[0]:g} and "
        f">{values[-1]:g}, and give --censored"
    )


def registry_numbers(labels: np.ndarray, targets: TargetSchema) -> list[str]:
    """Names of the targets whose labels [n, T] are different whole numbers that lie close
    together, such as 1000, 1001, ...; measured values have ties (our choice)."""
    names = []
    for name, column in zip(targets.names, labels.T, strict=True):
        values = np.unique(column[~np.isnan(column)])
        different = len(values) == (~np.isnan(column)).sum() >= FEWEST_NUMBERS
        if different and (values % 1 == 0).all() and np.ptp(values) < 2 * len(values):
            names.append(name)
    return names
