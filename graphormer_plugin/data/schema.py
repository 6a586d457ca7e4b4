"""Index spaces: what the columns of nodes, edges and targets mean.

Node columns keep their own ranges. Bond columns become a single bond type per edge,
so that a pair of nodes carries one small integer.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphormer_plugin.data.columns import Level, is_missing, learned_level

# The joint type of all bond columns is a mixed-radix number up to this many values,
# so that it fits a byte together with 0 = no bond.
MAX_RADIX_TYPES = 254
MAX_BOND_TYPES = 65535  # uint16 with 0 = no bond
MAX_SCALED = 5.0  # largest standardised feature, in absolute value; our choice

_FLOAT32 = np.finfo(np.float32)
LARGEST, SMALLEST = float(_FLOAT32.max), float(_FLOAT32.tiny)  # with all its digits

LOG = "log10 "  # begins the name of a target that is the decadic logarithm of a value

TARGET_KINDS = ("regression", "binary", "multiclass")
# Kind of labels whose kind is not said.
DEFAULT_KINDS = dict(zip(Level, ("regression", "multiclass", "multiclass", "binary")))
TARGET_SCALES = ("standardise", "none")  # of regression targets in training


def beyond_float32(values: Any) -> Any:
    """Whether a number, or each of an array, is too large for float32, or loses digits in it
    because it is small; neither 0 nor NaN is."""
    size = abs(values)
    return (size > LARGEST) | (size < SMALLEST) & (size > 0)


@dataclass(frozen=True)
class FeatureSchema:
    """Columns of nodes and edges.

    Bond types are numbered from 1. If all ranges are known and their product is at most
    254 (OGB's bonds: 5 x 6 x 2 = 60), the type is the mixed-radix number of the
    columns, first column most significant: it depends on no data set, and a checkpoint
    meets no unknown type. Otherwise the combinations that occur at preparation are
    numbered in lexicographic order, and a last type, UNKNOWN, takes all others.
    Without edge features every edge has type 1.

    Attributes:
        num_node_features: columns of ``x``.
        node_dims: number of values of each column, from 0; None for float features.
        bond_dims: number of values of each bond column; empty without edge features.
        bond_table: combinations [types, columns] where the product is too large,
            else None.
        num_edge_features: real numbers per edge. Such edges have type 1 and no bond
            columns.
        graph_features: names of K real numbers per graph, columns of a table or RDKit's
            descriptors (`descriptors.PREFIX`).
        graph_mean: their means over the training split [K].
        graph_std: their population standard deviations; 1 for a constant feature.

    Example:
        >>> schema = FeatureSchema(2, [119, 5], [5, 6, 2])
        >>> schema.num_bond_types
        60
        >>> schema.bond_types(np.array([[0, 0, 0], [3, 0, 1], [4, 5, 1]]))
        array([ 1, 38, 60])
    """

    num_node_features: int
    node_dims: list[int] | None = None
    bond_dims: list[int] = field(default_factory=list)
    bond_table: list[list[int]] | None = None
    num_edge_features: int = 0
    graph_features: list[str] = field(default_factory=list)
    graph_mean: list[float] = field(default_factory=list)
    graph_std: list[float] = field(default_factory=list)

    @property
    def num_bond_types(self) -> int:
        """Types are 1..num_bond_types; 0 is no bond."""
        if self.bond_table is not None:
            return len(self.bond_table) + 1  # and UNKNOWN
        return math.prod(self.bond_dims)

    @property
    def categorical(self) -> bool:
        """Whether node columns are integers that models embed."""
        return self.node_dims is not None

    def bond_types(self, edge_attr: Any) -> np.ndarray:
        """Types int64 [E], 1..num_bond_types, of bond columns [E, columns]. ValueError for a
        wrong number of columns and, without a table, for a value outside its range."""
        edge_attr = np.asarray(edge_attr)
        if not self.bond_dims:
            return np.ones(len(edge_attr), dtype=np.int64)
        if edge_attr.ndim != 2 or edge_attr.shape[1] != len(self.bond_dims):
            raise ValueError(
                f"edge_attr has shape {list(edge_attr.shape)}, expected "
                f"[E, {len(self.bond_dims)}]"
            )
        edge_attr = edge_attr.astype(np.int64)
        if self.bond_table is not None:
            type_of_row = {tuple(row): i + 1 for i, row in enumerate(self.bond_table)}
            rows, inverse = np.unique(edge_attr, axis=0, return_inverse=True)
            types = [
                type_of_row.get(tuple(row), self.num_bond_types)
                for row in rows.tolist()
            ]
            return np.array(types, dtype=np.int64)[inverse.reshape(-1)]
        outside = (edge_attr < 0) | (edge_attr >= self.bond_dims)
        if outside.any():
            row, column = np.argwhere(outside)[0]
            raise ValueError(
                f"edge_attr column {column} is {edge_attr[row, column]}, expected "
                f"0..{self.bond_dims[column] - 1}"
            )
        return np.ravel_multi_index(tuple(edge_attr.T), self.bond_dims) + 1

    def bond_columns(self) -> np.ndarray:
        """Bond columns of each type, int64 [num_bond_types + 1, columns]; -1 in row 0 (no
        bond) and in the row of UNKNOWN."""
        table = np.full((self.num_bond_types + 1, len(self.bond_dims)), -1, np.int64)
        if self.bond_table is not None:
            table[1:-1] = np.array(self.bond_table, dtype=np.int64).reshape(
                -1, len(self.bond_dims)
            )
        elif self.bond_dims:
            table[1:] = np.indices(self.bond_dims).reshape(len(self.bond_dims), -1).T
        return table

    def unscaled(self) -> "FeatureSchema":
        """This schema with the graph features as they are."""
        count = len(self.graph_features)
        return dataclasses.replace(
            self, graph_mean=[0.0] * count, graph_std=[1.0] * count
        )

    def scale_graph_features(self, values: Any) -> np.ndarray:
        """Standardised numbers of graphs, cut at +-`MAX_SCALED`, 0 where missing."""
        scaled = (np.asarray(values, np.float64) - self.graph_mean) / self.graph_std
        return np.clip(np.nan_to_num(scaled), -MAX_SCALED, MAX_SCALED)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; the later fields only if they are not empty."""
        first = ("num_node_features", "node_dims", "bond_dims", "bond_table")
        return {name: v for name, v in vars(self).items() if v or name in first}


@dataclass(frozen=True)
class TargetSchema:
    """Names, kind, unit and scale of the labels.

    Attributes:
        names: names of the columns of the labels [rows of their level, C].
        unit: unit of what was measured for a regression, for example ``eV``; empty for
            classes. `units` has the unit of each target.
        kind: ``regression``, ``binary`` (0/1, a column per task) or ``multiclass``.
        level: what has a label.
        num_classes: number of classes of a multiclass target, else 0.
        mean: mean per column of the training split's present labels (regression); empty
            where models are trained on the targets as they are.
        std: population standard deviation of these labels; 1 for a constant column.
        class_names: names of the classes 0, 1, ... of each target; empty where the data
            have numbers. All empty: an empty list.
        vector: what the three numbers of each node are that are learned beside targets of
            graphs, one of `VECTORS`; empty without.
        atom_energies: energy of an atom of each type (first node column), which models do
            not learn; empty without.
    """

    names: list[str]
    unit: str = ""
    kind: str = "regression"
    level: Level = Level.GRAPH
    num_classes: int = 0
    mean: list[float] = field(default_factory=list)
    std: list[float] = field(default_factory=list)
    class_names: list[list[str]] = field(default_factory=list)
    vector: str = ""
    atom_energies: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.kind not in TARGET_KINDS:
            expected = "|".join(TARGET_KINDS)
            raise ValueError(f"targets are {self.kind!r}, expected {expected}")
        level = learned_level(self.level)  # JSON has a word
        object.__setattr__(self, "level", level)
        if self.class_names and len(self.class_names) != len(self.names):
            text = f"class names {self.class_names}, expected a list for each of"
            raise ValueError(f"{text} {self.names}")

    @property
    def num_outputs(self) -> int:
        """Numbers that a model predicts per graph or node."""
        return self.num_classes if self.kind == "multiclass" else len(self.names)

    @property
    def units(self) -> list[str]:
        """Unit of each target: ``log10(unit)`` of a decadic logarithm, see `LOG`, unless
        the unit says that already."""
        logs = self.unit and not self.unit.startswith("log")
        log_unit = f"log10({self.unit})" if logs else self.unit
        return [log_unit if name.startswith(LOG) else self.unit for name in self.names]

    @property
    def units_text(self) -> str:
        """The different `units`, for people."""
        return ", ".join(dict.fromkeys(self.units))

    def classes_of(self, target: int) -> list[str]:
        """Names of the classes of a target; empty without names."""
        return self.class_names[target] if self.class_names else []

    @property
    def expected(self) -> str:
        """Describe a right label, for messages."""
        if self.kind == "regression":
            return "a number that fits float32"
        if self.kind == "binary":
            return "0 or 1"
        last = f"..{self.num_classes - 1}" if self.num_classes else ", 1, 2, ..."
        return f"a class number 0{last}"

    def first_wrong(self, labels: np.ndarray) -> tuple[int, int] | None:
        """Row and column of the first label that is not `expected`; None if all are. Labels
        [n, C] are floats or integers; for the missing ones see `is_missing`.
        Without ``num_classes``, a class may be any number."""
        if self.kind == "regression":
            invalid = beyond_float32(labels)
        else:
            count = 2 if self.kind == "binary" else self.num_classes or math.inf
            invalid = (labels != np.floor(labels)) | (labels < 0) | (labels >= count)
            invalid &= ~is_missing(labels)
        places = np.argwhere(invalid)
        return (int(places[0, 0]), int(places[0, 1])) if len(places) else None

    def check(self, labels: np.ndarray) -> None:
        """ValueError if a label is not as `expected`."""
        if (place := self.first_wrong(labels)) is not None:
            raise ValueError(
                f"label {place[0]} of {self.names[place[1]]} is {labels[place]:g}, "
                f"expected {self.expected}"
            )

    def with_classes(self, names: Sequence[Sequence[str]]) -> "TargetSchema":
        """These targets with names of classes, a list per target."""
        most = max(map(len, names))
        if most < self.num_classes:
            raise ValueError(f"{most} names for {self.num_classes} classes: {names}")
        return dataclasses.replace(
            self,
            class_names=[list(classes) for classes in names],
            num_classes=most if self.kind == "multiclass" else 0,
        )

    def raw(self) -> "TargetSchema":
        """These targets as they are: `standardise` and `restore` change nothing."""
        return dataclasses.replace(self, mean=[], std=[])

    def standardise(self, values: Any) -> Any:
        """(values - mean) / std per column of an array or tensor [..., C], or the values
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
        """Plain JSON values; the later ones only if they are not empty."""
        rare = ("class_names", "vector", "atom_energies")
        values = {n: v for n, v in vars(self).items() if v or n not in rare}
        return values | {"level": str(self.level)}


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
    means, stds = [], []
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
