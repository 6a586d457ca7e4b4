"""Numbers of each graph that join the output layer: columns of a table, descriptors."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from rdkit import Chem

from graphormer_plugin.data.descriptors import COMPUTED, rdkit_descriptors
from graphormer_plugin.data.labels import as_float32
from graphormer_plugin.data.registry import DatasetSource

PREFIX = "rdkit:"  # of the name of a descriptor


def graph_features(
    source: DatasetSource,
    kept: np.ndarray | slice,
    rows: int,
    described: Sequence[np.ndarray] = (),
) -> dict[str, Any]:
    """Names and values of the numbers that join the output layer. The ``kept`` of the ``rows``
    are graphs; ``described`` has their `describe_smiles`, part by part."""
    names, values = list(source.graph_features), given_values(source, rows)[kept]
    if described:
        names += feature_names()
        values = np.concatenate([as_float32(values), np.concatenate(described)], 1)
    return {"graph_features": names, "graph_values": values}


def given_values(source: DatasetSource, rows: int) -> np.ndarray:
    """Float64 [rows, K] of the features that a source names."""
    names = list(source.graph_features)
    if not names:
        return np.empty((rows, 0))
    values = np.asarray(source.graph_values, np.float64)
    if values.shape != (rows, len(names)):
        raise ValueError(
            f"graph_values have shape {list(values.shape)}, expected "
            f"[{rows}, {len(names)}] for the features {names}"
        )
    return values


def describe_smiles(
    parse: Callable[[str], Chem.Mol], smiles: Sequence[str]
) -> np.ndarray:
    """`rdkit_descriptors` in float32."""
    return as_float32(rdkit_descriptors(smiles, parse))


def feature_names() -> list[str]:
    """Names of the columns of `rdkit_descriptors` as features of graphs."""
    return [PREFIX + name for name in COMPUTED]


def with_descriptors(
    names: Sequence[str], given: np.ndarray, descriptors: Callable[[], np.ndarray]
) -> np.ndarray:
    """Features of graphs, float64 [n, K], NaN where missing: ``given`` numbers [n, columns],
    and of the `rdkit_descriptors` those whose names follow."""
    wanted = [name for name in names if name.startswith(PREFIX)]
    if not wanted:
        return given
    known = feature_names()
    if {*wanted} - {*known}:
        lacking = min({*wanted} - {*known}).removeprefix(PREFIX)
        raise ValueError(f"this version of RDKit has no descriptor {lacking}")
    columns = [known.index(name) for name in wanted]
    return np.concatenate([given, descriptors()[:, columns]], 1)
