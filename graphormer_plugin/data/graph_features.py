"""Numbers of each graph that join the output layer: columns of a table, descriptors."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from rdkit import Chem
from tqdm import tqdm

from graphormer_plugin.data.descriptors import BLOCK, COMPUTED, rdkit_descriptors
from graphormer_plugin.data.featurise import captured_rdkit_log, num_workers
from graphormer_plugin.data.labels import as_float32
from graphormer_plugin.data.options import DatasetOptions
from graphormer_plugin.data.parts import SavedParts
from graphormer_plugin.data.registry import DatasetSource
from graphormer_plugin.data.smiles import OGB_MOLS
from graphormer_plugin.workers import in_workers

logger = logging.getLogger(__name__)

NAME = "descriptors"  # of the files of their parts
PREFIX = "rdkit:"  # of the name of a descriptor
PART_ROWS = 16 * BLOCK  # of a part that is kept on disk: some seconds of work
# One core describes about a thousand molecules while workers start.
MIN_ROWS_FOR_WORKERS = 4096


def graph_features(
    source: DatasetSource,
    options: DatasetOptions,
    kept: np.ndarray,
    rows: int,
    parts: SavedParts | None = None,
) -> dict[str, Any]:
    """Names and values of the numbers that join the output layer, for the kept rows.

    Args:
        source: Has names and values, or SMILES for descriptors.
        options: Say whether there are descriptors.
        kept: Rows that became graphs.
        rows: Number of all rows.
        parts: Keep finished descriptors for a preparation that continues after a kill;
            descriptors need them.

    Raises:
        ValueError: The values are not [rows, K].
        MemoryError: A worker died.
    """
    names, values = list(source.graph_features), given_values(source, rows)[kept]
    if options.descriptors:
        names += feature_names()
        parse = OGB_MOLS[options.featuriser]
        texts = [source.smiles[row] for row in kept]
        described = _descriptors(texts, parse, options, source.label, parts)
        values = np.concatenate([as_float32(values), described], 1)
    return {"graph_features": names, "graph_values": values}


def given_values(source: DatasetSource, rows: int) -> np.ndarray:
    """Float64 [rows, K] of the features that a source names.

    Raises:
        ValueError: The values have another shape.
    """
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


def _descriptors(
    smiles: Sequence[str],
    parse: Callable[[str], Chem.Mol],
    options: DatasetOptions,
    label: str,
    parts: SavedParts,
) -> np.ndarray:
    """`rdkit_descriptors` in float32 [n, descriptors], by workers and in parts."""
    values = np.empty((len(smiles), len(feature_names())), np.float32)
    done = 0
    for part in parts.load(NAME):
        values[done : done + PART_ROWS] = part["values"]
        done += PART_ROWS
    if done:
        logger.info("continuing after descriptors of %s molecules", f"{done:,}")
    calls = (
        (smiles[start : start + BLOCK], parse)
        for start in range(done, len(smiles), BLOCK)
    )
    count = num_workers(options.workers, len(smiles) - done, MIN_ROWS_FOR_WORKERS)
    with tqdm(
        total=len(smiles),
        initial=done,
        desc=f"{label}: descriptors",
        unit="mol",
        disable=not options.progress,
    ) as bar:
        for block in in_workers(count, _describe, calls):
            values[done : done + len(block)] = block
            done += len(block)
            if done % PART_ROWS == 0:
                part = {"values": values[done - PART_ROWS : done]}
                parts.save(NAME, done // PART_ROWS - 1, part)
            bar.update(len(block))
    return values


def _describe(smiles: Sequence[str], parse: Callable[[str], Chem.Mol]) -> np.ndarray:
    """`rdkit_descriptors` in float32, without RDKit's messages."""
    with captured_rdkit_log():
        return as_float32(rdkit_descriptors(smiles, parse))


def feature_names() -> list[str]:
    """Names of the columns of `rdkit_descriptors` as features of graphs."""
    return [PREFIX + name for name in COMPUTED]


def with_descriptors(
    names: Sequence[str], given: np.ndarray, descriptors: Callable[[], np.ndarray]
) -> np.ndarray:
    """Features of graphs: numbers that are given, and descriptors.

    Args:
        names: Of all K features; given features come first.
        given: Float [n, columns].
        descriptors: Gives `rdkit_descriptors` of the n molecules.

    Returns:
        Float64 [n, K], NaN where missing.

    Raises:
        ValueError: RDKit refuses a molecule, or this version lacks a descriptor.
    """
    wanted = [name for name in names if name.startswith(PREFIX)]
    if not wanted:
        return given
    known = feature_names()
    if {*wanted} - {*known}:
        lacking = min({*wanted} - {*known}).removeprefix(PREFIX)
        raise ValueError(f"this version of RDKit has no descriptor {lacking}")
    columns = [known.index(name) for name in wanted]
    return np.concatenate([given, descriptors()[:, columns]], 1)
