"""The targets of an experiment: their logarithms, and those that no model can learn."""

import dataclasses
from collections.abc import Mapping
from itertools import compress

import numpy as np
from scipy.stats import skew

from graphormer_plugin.data.errors import DatasetError, counted, listed
from graphormer_plugin.data.targets import LOG, Kind, TargetSchema
from graphormer_plugin.workbench.experiment.labelled_molecules import LabelledMolecules
from graphormer_plugin.workbench.experiment.settings import Settings
from graphormer_plugin.workbench.fitting.fit import unfit_targets

FEWEST_NUMBERS = 20  # least labels of a column of registry numbers
AUTO_LOGS = "auto"  # --log-targets
FEW = 0.1  # share of labels without a logarithm that may be mistakes; our choice
DECADES, SKEWED = 2, 1.0  # least of labels whose logarithm is advised; our choice


def learned_targets(table: LabelledMolecules, settings: Settings) -> LabelledMolecules:
    """The table with the targets that models learn, and warnings about them."""
    return without_unlearnable(with_logarithms(table, settings), settings)


def with_logarithms(table: LabelledMolecules, settings: Settings) -> LabelledMolecules:
    """The table with the logarithms of ``--log-targets``, or a warning that advises them."""
    names, chosen, warned = table.targets.names, settings.log_targets, [*table.warned]
    is_number = table.targets.is_number
    numbers = [*compress(names, is_number)]
    if not numbers:
        if chosen:
            raise DatasetError("--log-targets is for targets that are numbers")
        return table
    labels_of = dict(zip(numbers, table.labels.T[is_number]))
    advised = [name for name, y in labels_of.items() if spans_decades(y)]
    if [*chosen] == [AUTO_LOGS] and AUTO_LOGS not in names:
        chosen = advised
        warned += without_logarithm(labels_of)
    elif advised and not chosen:
        warned.append(
            f"labels of {listed(advised)} are positive and span more than two decades; "
            "--log-targets auto learns their logarithms"
        )
    taken = {*names, *settings.extra_columns, settings.weight_column}
    for name in chosen:
        if name not in labels_of:
            raise DatasetError(
                f"--log-targets {name}: no such target, expected {AUTO_LOGS} or some of "
                f"{listed(numbers, 12)}"
            )
        if count := int((labels_of[name] <= 0).sum()):
            raise DatasetError(
                f"--log-targets {name}: {counted(count, 'label')} of 0 or less without a "
                "logarithm; correct them, or leave out the target"
            )
        if LOG + name in taken:
            raise DatasetError(
                f"--log-targets {name}: another column is called {LOG + name!r}, which is "
                "the name of its logarithm; rename that column, or leave it out"
            )
    logs = [index for index, name in enumerate(names) if name in chosen]
    labels = table.labels.copy()
    labels[:, logs] = np.log10(labels[:, logs])
    names = [LOG * (index in logs) + name for index, name in enumerate(names)]
    targets = table.targets.changed(name=names)
    return dataclasses.replace(
        table, labels=labels, targets=targets, logs=logs, warned=warned
    )


def without_logarithm(labels_of: Mapping[str, np.ndarray]) -> list[str]:
    """Lines about targets whose labels [n] span decades, except a few of 0 or less."""
    lines = []
    for name, y in labels_of.items():
        refused = y[y <= 0]
        if 0 < len(refused) <= FEW * len(y) and spans_decades(y[y > 0]):
            lines.append(
                f"{name} is not learned as a logarithm: {counted(len(refused), 'label')} of 0 "
                f"or less, such as {refused[0]:g}; correct them, or give "
                f"--missing-labels={refused[0]:g}"
            )
    return lines


def spans_decades(labels: np.ndarray) -> bool:
    """Whether labels [n] are positive, skewed and of more than two decades, so that their
    logarithm is the better target."""
    y = labels[~np.isnan(labels)]
    if len(y) < 2 or y.min() <= 0 or y.max() < 10**DECADES * y.min():
        return False
    return bool(skew(y) > SKEWED and abs(skew(np.log(y))) < skew(y))


def without_unlearnable(
    table: LabelledMolecules, settings: Settings
) -> LabelledMolecules:
    """The table without targets whose labels are all equal, or registry numbers."""
    names = table.targets.names
    numbers = [Kind.REGRESSION] * len(names)  # no model learns a single class
    equal = [names[index] for index in unfit_targets(table.exact_labels, numbers)]
    if len(equal) == len(names):
        raise DatasetError(
            f"{settings.table}: all labels of {listed(names)} are equal, there is "
            "nothing to learn"
        )
    table = table.without(equal, "all labels are equal, or missing")
    return table.without(
        registry_numbers(table.labels, table.targets),
        "different whole numbers in a row, as registry numbers are; train it alone if "
        "it is measured",
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
