"""Targets: what the labels of a column are, and what a model gives for them."""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np

from graphormer_plugin.data.columns import (
    DISPLACEMENT,
    FORCES,
    Level,
    is_missing,
    learned_level,
    offsets_of,
)
from graphormer_plugin.data.errors import listed
from graphormer_plugin.data.scales import Scale

_FLOAT32 = np.finfo(np.float32)
LARGEST = float(_FLOAT32.max)
SMALLEST = float(_FLOAT32.tiny)  # with all its digits


def beyond_float32(values: Any) -> Any:
    """Whether a number, or each of an array, is too large for float32, or loses digits in it
    because it is small; neither 0 nor NaN is."""
    size = abs(values)
    return (size > LARGEST) | (size < SMALLEST) & (size > 0)


TARGET_SCALES = ("standardise", "none")  # of regression targets in training


class Kind(StrEnum):
    """What a label is.

    Attributes:
        loss: criterion that learns it, where none is chosen.
        metrics: metrics of a report; the first chooses epochs and models.
        predicted: what a prediction is; empty for a label.
    """

    REGRESSION = (
        "regression",
        "mse_loss",
        "rmse mae r2 spearman",
    )  # a number, with a unit
    BINARY = (  # 0 or 1
        "binary",
        "binary_logloss",
        "roc_auc ap accuracy balanced_accuracy mcc f1 bedroc enrichment",
        "probability",
    )
    MULTICLASS = (  # 0, 1, 2, ...
        "multiclass",
        "multiclass_cross_entropy",
        "accuracy balanced_accuracy log_loss",
        "class",
    )

    loss: str
    metrics: tuple[str, ...]
    predicted: str
    __repr__ = str.__repr__  # messages show the word

    def __new__(cls, word: str, loss: str, metrics: str, predicted: str = "") -> "Kind":
        """A kind and its attributes, by the word that files have."""
        kind = str.__new__(cls, word)
        kind._value_ = word
        kind.loss = loss
        kind.metrics = tuple(metrics.split())
        kind.predicted = predicted
        return kind

    @property
    def main_metric(self) -> str:
        """The first of the metrics."""
        return self.metrics[0]

    @property
    def is_number(self) -> bool:
        """Whether it is a measured number, not the number of a class."""
        return self is Kind.REGRESSION

    @property
    def has_one_output(self) -> bool:
        """Whether a model gives one number for it, and its labels are floats."""
        return self is not Kind.MULTICLASS


DEFAULT_KINDS = {
    Level.GRAPH: Kind.REGRESSION,
    Level.NODE: Kind.MULTICLASS,
    Level.EDGE: Kind.MULTICLASS,
    Level.LINK: Kind.BINARY,
}


@dataclass(frozen=True)
class Target:
    """A target.

    Attributes:
        unit: unit of what was measured, for example ``eV``; empty for classes.
        num_classes: number of classes of a multiclass target; 0: not known, or another kind.
        classes: names of the classes 0, 1, ...; empty where the data have numbers.
        mean: mean of the present labels of the training split (regression).
        deviation: their population standard deviation, 1 for a constant column; 0 where
            models are trained on the labels as they are.
        cut_off: probability above which class 1 of two is predicted.
    """

    name: str
    unit: str = ""
    kind: Kind = Kind.REGRESSION
    num_classes: int = 0
    classes: Sequence[str] = ()
    mean: float = 0.0
    deviation: float = 0.0
    cut_off: float = 0.5

    @property
    def num_outputs(self) -> int:
        """Numbers that a model predicts for it."""
        return 1 if self.kind.has_one_output else self.num_classes

    @property
    def label_unit(self) -> str:
        """Unit of the labels: ``log10(unit)`` of a logarithm, unless the unit says that."""
        if (
            Scale.of(self.name) is Scale.LOG
            and self.unit
            and not self.unit.startswith("log")
        ):
            return f"log10({self.unit})"
        return self.unit

    @property
    def class_labels(self) -> Sequence[str]:
        """Names of the classes, else their numbers; empty for numbers."""
        count = {Kind.REGRESSION: 0, Kind.BINARY: 2, Kind.MULTICLASS: self.num_classes}
        return self.classes or [str(index) for index in range(count[self.kind])]

    @property
    def expected(self) -> str:
        """Describe a right label, for messages."""
        last = f"..{self.num_classes - 1}" if self.num_classes else ", 1, 2, ..."
        texts = {
            Kind.REGRESSION: "a number that fits float32",
            Kind.BINARY: "0 or 1",
            Kind.MULTICLASS: f"a class number 0{last}",
        }
        return texts[self.kind]

    @property
    def meaning(self) -> str:
        """Unit, or number of classes, for people."""
        texts = {
            Kind.REGRESSION: self.label_unit,
            Kind.BINARY: "0 or 1",
            Kind.MULTICLASS: f"{self.num_classes} classes",
        }
        return texts[self.kind]

    def are_wrong(self, labels: np.ndarray) -> np.ndarray:
        """Which labels [n] are not `expected`; no missing label is, see `is_missing`."""
        if self.kind.is_number:
            return beyond_float32(labels)
        most = 2 if self.kind.has_one_output else self.num_classes or math.inf
        wrong = (labels != np.floor(labels)) | (labels < 0) | (labels >= most)
        return wrong & ~is_missing(labels)

    def output_labels(self, labels: np.ndarray) -> np.ndarray:
        """Labels [n] of each output, [n, num_outputs]: of more than two classes 1 where a row
        is of the class, else 0. NaN stays NaN."""
        column = labels[:, None]
        if self.kind.has_one_output:
            return column
        return np.where(np.isnan(column), np.nan, column == np.arange(self.num_classes))

    @property
    def output_names(self) -> list[str]:
        """Name of each output."""
        if self.kind.has_one_output:
            return [self.name]
        return [f"{self.name} {label}" for label in self.class_labels]

    def likeliest(self, values: np.ndarray) -> np.ndarray:
        """Class of the highest probability [...], by the predictions [..., num_outputs]."""
        if self.kind.has_one_output:
            return (values[..., 0] > self.cut_off).astype(int)
        return values.argmax(-1)

    def shown(self, values: np.ndarray) -> np.ndarray:
        """Number, probability of class 1, or likeliest of several classes [n], by the
        predictions [n, num_outputs]."""
        return values[:, 0] if self.kind.has_one_output else self.likeliest(values)

    def errors(self, values: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Sizes of the errors [n] of predictions [n, num_outputs], NaN without label; of
        several classes 1 - the probability of the measured class."""
        if self.kind.has_one_output:
            return np.abs(values[:, 0] - labels)
        classes = np.nan_to_num(labels).astype(int)[:, None]
        found = np.take_along_axis(values, classes, 1)[:, 0]
        return np.where(np.isnan(labels), np.nan, 1 - found)

    def word(self, label: float) -> str:
        """A label as text: the name or number of its class, or its number in full."""
        if self.kind.is_number:
            return repr(label)
        return self.classes[int(label)] if self.classes else str(int(label))


@dataclass(frozen=True)
class VectorTarget(Target):
    """A target of nodes that is learned beside targets of graphs: three numbers of each node.

    Its name is its column.

    Attributes:
        task: ``--task`` that learns it.
        criterion: ``--criterion`` that learns it.
        is_slope: whether it is minus the slope of a graph's target by the positions, and no
            output of a model.
        advice: how a table has it, for messages.
    """

    task: str = ""
    criterion: str = ""
    is_slope: bool = False
    advice: str = ""

    def __str__(self) -> str:
        return self.name

    @property
    def num_outputs(self) -> int:
        """See `Target`."""
        return 3

    @property
    def axes(self) -> "TargetSchema":
        """Its numbers as targets of nodes."""
        names = [f"{self.name}_{axis}" for axis in "xyz"]
        return TargetSchema.of(names, self.unit, level=Level.NODE)


VECTORS = {
    vector.name: vector
    for vector in (
        VectorTarget(DISPLACEMENT, "angstrom", task="is2re", criterion="mae_deltapos"),
        VectorTarget(
            FORCES,
            task="energy_forces",
            criterion="energy_forces",
            is_slope=True,
            advice="name them with --forces-column, or ",
        ),
    )
}


@dataclass(frozen=True)
class TargetSchema:
    """The targets of a table or a model.

    Attributes:
        targets: what each column of the labels [rows of their level, T] is.
        level: what has a label.
        node_vector: one of `VECTORS` that is learned beside targets of graphs; None without.
        atom_energies: energy of an atom of each type (first node column), which models do
            not learn; empty without.
    """

    targets: Sequence[Target]
    level: Level = Level.GRAPH
    node_vector: VectorTarget | None = None
    atom_energies: list[float] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        unit: str | Sequence[str] = "",
        kind: str | Sequence[str] = Kind.REGRESSION,
        level: str = Level.GRAPH,
        num_classes: int | Sequence[int] = 0,
        mean: Sequence[float] = (),
        std: Sequence[float] = (),
        class_names: Sequence[Sequence[str]] = (),
        node_vector: str = "",
        **rest: Any,
    ) -> "TargetSchema":
        """Targets by columns, as files have them; a single ``unit``, ``kind`` or
        ``num_classes`` is that of all. ValueError for lists that do not fit the names, and
        for a kind or a level that does not exist."""
        units, kinds, counts = (
            [value] * len(names) if isinstance(value, str | int) else value
            for value in (unit, kind, num_classes)
        )
        classes = [*map(tuple, class_names)] or [()] * len(names)
        rows = zip(names, units, map(target_kind, kinds), counts, classes, strict=True)
        vector = VECTORS[node_vector] if node_vector else None
        targets = [Target(*row) for row in rows]
        targets = cls(targets, learned_level(level), vector, **rest)
        return targets.scaled(mean, std) if mean else targets

    @property
    def kind(self) -> Kind:
        """Kind of all targets; ValueError if they have several."""
        kinds = {*self.kinds}
        if len(kinds) > 1:
            raise ValueError(
                f"targets of several kinds, {self.kinds_text}: a network learns targets of "
                "one kind; train them apart, or with graphormer-train --model head or trees"
            )
        return kinds.pop() if kinds else Kind.REGRESSION

    @property
    def kinds(self) -> list[Kind]:
        """Kind of each target."""
        return [target.kind for target in self.targets]

    @property
    def is_one_number(self) -> bool:
        """Whether there is a single target, which is a number."""
        return self.kinds == [Kind.REGRESSION]

    def are(self, kind: Kind) -> list[bool]:
        """Whether each target is of a kind."""
        return [own is kind for own in self.kinds]

    @property
    def kinds_text(self) -> str:
        """The different kinds, for people."""
        return " and ".join(dict.fromkeys(self.kinds))

    @property
    def names(self) -> list[str]:
        """Names of the targets."""
        return [target.name for target in self.targets]

    @property
    def num_outputs(self) -> int:
        """Numbers that a model predicts per graph or node."""
        return sum(target.num_outputs for target in self.targets)

    @property
    def has_vector_outputs(self) -> bool:
        """Whether a model predicts three further numbers per node."""
        return self.node_vector is not None and not self.node_vector.is_slope

    @cached_property
    def outputs(self) -> list[slice]:
        """Outputs of each target."""
        ends = offsets_of(target.num_outputs for target in self.targets).tolist()
        return [slice(*ends) for ends in zip(ends, ends[1:])]

    @property
    def first_outputs(self) -> list[int]:
        """First output of each target, the only one unless it has several classes."""
        return [outputs.start for outputs in self.outputs]

    @cached_property
    def target_of_output(self) -> np.ndarray:
        """Index of the target of each output [C]."""
        counts = [target.num_outputs for target in self.targets]
        return np.repeat(np.arange(len(counts)), counts)

    @cached_property
    def is_number_of_output(self) -> np.ndarray:
        """`is_number` of each output [C]."""
        return self.is_number[self.target_of_output]

    @cached_property
    def is_number(self) -> np.ndarray:
        """Whether each target is a number, bool [T]."""
        return np.array([target.kind.is_number for target in self.targets], bool)

    @property
    def num_classes(self) -> int:
        """Classes of the multiclass target with most of them, else 0."""
        return max((target.num_classes for target in self.targets), default=0)

    @property
    def class_names(self) -> list[list[str]]:
        """Names of the classes of each target; empty if none has names."""
        names = [list(target.classes) for target in self.targets]
        return names if any(names) else []

    @property
    def units(self) -> list[str]:
        """`Target.label_unit` of each target."""
        return [target.label_unit for target in self.targets]

    @property
    def meaning(self) -> str:
        """The different `Target.meaning`, for people."""
        texts = dict.fromkeys(target.meaning for target in self.targets)
        return ", ".join(filter(None, texts)) or "no unit"

    @property
    def unit(self) -> str:
        """The different units of what was measured, for people."""
        return ", ".join(dict.fromkeys(t.unit for t in self.targets if t.unit))

    @cached_property
    def mean(self) -> list[float]:
        """Mean of each target; empty where models are trained on the labels as they are."""
        is_scaled = any(target.deviation for target in self.targets)
        return [target.mean for target in self.targets] if is_scaled else []

    @cached_property
    def std(self) -> list[float]:
        """Standard deviation of each target; empty like `mean`, 1 for classes."""
        return [target.deviation or 1.0 for target in self.targets] if self.mean else []

    def output_labels(self, labels: np.ndarray) -> np.ndarray:
        """Labels [n, T] of each output [n, C], see `Target.output_labels`."""
        columns = zip(self.targets, labels.T, strict=True)
        parts = [target.output_labels(column) for target, column in columns]
        return np.concatenate(parts, 1) if parts else labels

    def first_wrong(self, labels: np.ndarray) -> tuple[int, int] | None:
        """Row and column of the first label [n, T], a float or an integer, that is not
        `Target.expected`; None if all are."""
        wrong = np.zeros(labels.shape, bool)
        for column, target in enumerate(self.targets):
            wrong[:, column] = target.are_wrong(labels[:, column])
        places = np.argwhere(wrong)
        return (int(places[0, 0]), int(places[0, 1])) if len(places) else None

    def check(self, labels: np.ndarray) -> None:
        """ValueError if a label is not as expected."""
        if (place := self.first_wrong(labels)) is not None:
            target = self.targets[place[1]]
            raise ValueError(
                f"label {place[0]} of {target.name} is {labels[place]:g}, "
                f"expected {target.expected}"
            )

    def check_for_network(self) -> None:
        """ValueError for several targets of classes: a network predicts one."""
        if not self.kind.has_one_output and len(self.names) > 1:
            raise ValueError(
                f"{len(self.names)} targets of classes ({listed(self.names, 3)}), but a "
                "model has one: train a model for each; labels in one-hot columns need "
                "argmax(1), and columns of 0 and 1 may be binary targets"
            )

    def changed(self, **columns: Iterable[Any]) -> "TargetSchema":
        """These targets with other values of their attributes, a value for each."""
        rows = zip(*columns.values(), strict=True)
        pairs = zip(self.targets, rows, strict=True)
        targets = [
            dataclasses.replace(target, **dict(zip(columns, row)))
            for target, row in pairs
        ]
        return dataclasses.replace(self, targets=targets)

    def with_classes(self, names: Sequence[Sequence[str]]) -> "TargetSchema":
        """These targets with names of classes, a list per target."""
        if len(names) != len(self.targets):
            raise ValueError(
                f"class names {names}, expected a list for each of {self.names}"
            )
        counts = []
        for target, classes in zip(self.targets, names):
            if classes and len(classes) < target.num_classes:
                text = f"{len(classes)} names for {target.num_classes} classes"
                raise ValueError(f"{text}: {[*classes]}")
            number = len(classes) or target.num_classes
            counts.append(0 if target.kind.has_one_output else number)
        return self.changed(classes=map(tuple, names), num_classes=counts)

    def with_num_classes(self, labels: np.ndarray) -> "TargetSchema":
        """These targets with the number of classes of each multiclass target: where it is
        not known, the largest label [n, T] + 1."""
        missing = is_missing(labels)
        largest = np.max(labels, 0, initial=0, where=~missing).astype(int).tolist()
        return self.changed(
            num_classes=(
                0 if target.kind.has_one_output else target.num_classes or most + 1
                for target, most in zip(self.targets, largest, strict=True)
            )
        )

    def scaled(self, mean: Sequence[float], std: Sequence[float]) -> "TargetSchema":
        """These targets with the mean and the standard deviation of each; classes have none."""
        pair = (np.where(self.is_number, x, 0.0).tolist() for x in (mean, std))
        return self.changed(**dict(zip(("mean", "deviation"), pair)))

    def select(self, indices: Sequence[int]) -> "TargetSchema":
        """Some of these targets."""
        return dataclasses.replace(self, targets=[self.targets[i] for i in indices])

    def in_unit(self, scales: Sequence[Scale]) -> "TargetSchema":
        """What was measured, where models learn these targets on ``scales``."""
        pairs = [*zip(self.targets, scales, strict=True)]
        return self.changed(
            name=(target.name.removeprefix(scale) for target, scale in pairs),
            deviation=(0.0 if scale else target.deviation for target, scale in pairs),
        )

    def raw(self) -> "TargetSchema":
        """These targets as they are: `standardise` and `restore` change nothing."""
        zeros = [0.0] * len(self.targets)
        return self.scaled(zeros, zeros)

    def standardise(self, values: Any) -> Any:
        """(values - mean) / std per column of an array or tensor [..., T], or the values
        themselves without a mean (classes, and `raw` targets). NaN stays NaN."""
        if not self.mean:
            return values
        return (values - _like(values, self.mean)) / _like(values, self.std)

    def restore(self, values: Any) -> Any:
        """Inverse of `standardise`: from standardised values to the target's unit."""
        if not self.mean:
            return values
        return values * _like(values, self.std) + _like(values, self.mean)

    def atoms_output(self, batch: dict[str, Any]) -> Any:
        """`atom_energies` of the atoms of each graph of a batch, float64 [B, 1] at the scale
        of training, which the output of a model lacks; 0 without."""
        if not self.atom_energies:
            return 0.0
        energies = _like(batch["x"].double(), self.atom_energies) / self.std[0]
        atoms = energies[batch["x"][..., 0].long()]
        return atoms.where(batch["node_mask"], 0).sum(1, keepdim=True)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values by the arguments of `of`; a value that all targets share stands
        once, and the later ones stand only if they are not empty."""
        shared: dict[str, list[Any]] = {
            "unit": [target.unit for target in self.targets],
            "kind": [*map(str, self.kinds)],
            "num_classes": [target.num_classes for target in self.targets],
        }
        values = {"names": self.names, "level": str(self.level)}
        values |= {name: v[0] if len({*v}) == 1 else v for name, v in shared.items()}
        values |= {"mean": self.mean, "std": self.std}
        rare = {
            "class_names": self.class_names,
            "node_vector": str(self.node_vector or ""),
            "atom_energies": self.atom_energies,
        }
        return values | {name: value for name, value in rare.items() if value}


def target_kind(word: str) -> Kind:
    """The kind that a word names; ValueError for another word."""
    if word not in [*Kind]:
        raise ValueError(f"targets are {word!r}, expected {'|'.join(Kind)}")
    return Kind(word)


def mean_of_defined(values: Sequence[float]) -> float:
    """Mean of the values that are not NaN; NaN if all are."""
    defined = [value for value in values if not math.isnan(value)]
    return math.fsum(defined) / len(defined) if defined else math.nan


def target_statistics(
    target: np.ndarray, graph_ids: Sequence[int] | np.ndarray
) -> tuple[list[float], list[float]]:
    """Mean and population standard deviation per column over the present labels of graphs, or
    nodes, of the training split.

    A column without labels has mean 0 and deviation 1. The deviation is also 1 if labels
    differ by rounding noise only.
    """
    return pooled_statistics(
        target.shape[1], lambda column: [target[graph_ids, column]]
    )


def pooled_statistics(
    width: int, labels: Callable[[int], Iterable[np.ndarray]]
) -> tuple[list[float], list[float]]:
    """`target_statistics` of ``width`` columns, whose training ``labels`` come in parts."""
    means = []
    stds = []
    for column in range(width):
        count = total = squares = 0.0
        eps = 0.0  # resolution of the type in which the labels are kept
        for values in labels(column):
            if np.asarray(values).dtype.kind == "f":
                eps = max(eps, np.finfo(np.asarray(values).dtype).eps)
            values = _present(values)
            count = count + len(values)
            total = total + values.sum()
        mean = float(total / count) if count else 0.0
        for values in map(_present, labels(column)):
            squares += ((values - mean) ** 2).sum()
        std = float(np.sqrt(squares / count)) if count else 0.0
        noise = eps * abs(mean)
        means.append(mean)
        stds.append(std if std > noise else 1.0)
    return means, stds


def _present(values: np.ndarray) -> np.ndarray:
    """Labels that are not missing, as float64."""
    values = np.asarray(values, np.float64)
    return values[~np.isnan(values)]


@functools.lru_cache(maxsize=64)
def _tensor(numbers: tuple[float, ...], dtype: Any, device: Any) -> Any:
    """Kept, because a copy to a GPU waits for all that is computed there."""
    import torch

    with torch.inference_mode(False):  # it may be used in training later
        return torch.tensor(numbers, dtype=dtype, device=device)


def _like(values: Any, numbers: list[float]) -> Any:
    """Numbers as an array or tensor of the kind, dtype and device of ``values``."""
    if hasattr(values, "new_tensor"):
        return _tensor(tuple(numbers), values.dtype, values.device)
    return np.asarray(numbers, dtype=np.result_type(np.asarray(values), np.float32))
