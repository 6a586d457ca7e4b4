"""What a model answers for molecules, by its level: predictions, and arrays of their parts."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphormer_plugin.data.columns import LINK_LEVELS, Level
from graphormer_plugin.estimators.prediction import Estimate
from graphormer_plugin.inference.molecules import Molecules
from graphormer_plugin.inference.prediction_columns import (
    OutputColumn,
    array_column,
    prediction_columns,
)
from graphormer_plugin.inference.predictor import Predictor


class Answer(NamedTuple):
    """What is predicted for n molecules.

    Attributes:
        of_parts: array of the atoms, edges or pairs of each molecule; empty without.
    """

    prediction: Estimate
    of_parts: list[NDArray]

    @property
    def is_finite(self) -> NDArray[np.bool_]:
        """Whether all numbers of a molecule are finite [n]."""
        parts = [np.c_[part] for part in self.prediction if part is not None]
        finite = np.isfinite(np.concatenate(parts, 1)).all(1)
        for index, of_one in enumerate(self.of_parts):
            finite[index] &= np.isfinite(of_one).all()
        return finite

    def select(self, mask: NDArray[np.bool_]) -> "Answer":
        """The answer for some of the molecules."""
        chosen = (None if part is None else part[mask] for part in self.prediction)
        return Answer(Estimate(*chosen), [*itertools.compress(self.of_parts, mask)])


@dataclass(frozen=True)
class OfMolecules:
    """Answers of a model of molecules."""

    predictor: Predictor

    @property
    def width(self) -> int:
        """Numbers of an answer's ``prediction.values`` for a molecule."""
        return self.predictor.targets.num_outputs

    def __call__(self, molecules: Molecules, batch_size: int, extra: NDArray) -> Answer:
        """Predict molecules, at the numbers of further columns [n, columns]."""
        return Answer(self.predictor.together(molecules, batch_size, extra=extra), [])

    def columns(self, answer: Answer) -> list[OutputColumn]:
        """New columns of a table."""
        predictor = self.predictor
        parts = answer.prediction
        return prediction_columns(
            predictor.targets, *parts, interval=predictor.interval
        )

    @property
    def empty(self) -> Answer:
        """The answer for no molecule."""
        predictor = self.predictor
        none = np.empty((0, predictor.targets.num_outputs))
        domains = predictor.domains
        per_target = any(domain.labelled is not None for domain in domains)
        likeness = none if per_target else none[:, 0]
        std = none if predictor.has_spread else None
        ends = [none] * 2 if predictor.interval else []
        result = Estimate(none, std, likeness if domains else None, *ends)
        if predictor.each:
            result = result._replace(members=np.tile(none, len(predictor.members)))
        return Answer(result, [])

    def taken(self, names: Iterable[str]) -> list[str]:
        """Names that new columns cannot have, those of a table."""
        return [*names]


class WithForces(OfMolecules):
    """Answers of a model of energies and forces."""

    def __call__(self, molecules: Molecules, batch_size: int, extra: NDArray) -> Answer:
        """See `OfMolecules`; one pass of the model gives both."""
        predicted, forces = self.predictor.estimate_with_forces(molecules, batch_size)
        return Answer(Estimate(*predicted), forces)

    def columns(self, answer: Answer) -> list[OutputColumn]:
        """See `OfMolecules`."""
        name = self.predictor.targets.node_vector.name
        return [*super().columns(answer), array_column(name, answer.of_parts)]

    def taken(self, names: Iterable[str]) -> list[str]:
        """See `OfMolecules`: energies and forces are renamed together, as labels are a pair."""
        targets = self.predictor.targets
        pair = (*targets.names, targets.node_vector.name)
        return [*names, *(pair if {*pair} & {*names} else ())]


class OfParts(OfMolecules):
    """Answers of a model of nodes, edges or pairs; molecules have zeros."""

    def __call__(self, molecules: Molecules, batch_size: int, extra: NDArray) -> Answer:
        """See `OfMolecules`."""
        options = {"batch_size": batch_size, "extra": extra}
        zeros = np.zeros((len(molecules), self.predictor.targets.num_outputs))
        parts = self.predictor.predicted_parts(molecules, **options)
        return Answer(Estimate(zeros), parts)

    def columns(self, answer: Answer) -> list[OutputColumn]:
        """See `OfMolecules`."""
        level = self.predictor.targets.level
        atoms = 2 if level in LINK_LEVELS else 0
        return [array_column(f"{level}s", answer.of_parts, atoms)]


def answers_of(predictor: Predictor) -> OfMolecules:
    """The answers of a predictor."""
    if predictor.targets.level is not Level.GRAPH:
        return OfParts(predictor)
    vector = predictor.targets.node_vector
    has_forces = vector is not None and vector.is_slope
    return WithForces(predictor) if has_forces else OfMolecules(predictor)
