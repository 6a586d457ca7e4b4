"""Fit a head on the frozen vectors of a checkpoint, in seconds and without updates."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from graphormer_plugin.data.files import PathName
from graphormer_plugin.data.graphs.smiles import identity_of
from graphormer_plugin.data.targets import Kind, TargetSchema
from graphormer_plugin.estimators import MAX_ROWS
from graphormer_plugin.estimators.array_file import weights_digest
from graphormer_plugin.estimators.domain import (
    Domain,
    domain_file,
    ranges_of,
    save_domain,
)
from graphormer_plugin.estimators.gp import GPEstimator
from graphormer_plugin.estimators.kernels import Floats, as_mol
from graphormer_plugin.estimators.molecule_description import MoleculeDescription
from graphormer_plugin.inference.checkpoint import read_checkpoint
from graphormer_plugin.inference.extra_columns import extra_values
from graphormer_plugin.inference.loading import load
from graphormer_plugin.inference.molecules import smiles_of
from graphormer_plugin.workbench.fitting.fit import (
    BLOCKS,
    check,
    fit_on_features,
    limit_warnings,
    training_sample,
)
from graphormer_plugin.workbench.fitting.solver import sample

logger = logging.getLogger(__name__)


def fit_gp(
    checkpoint: PathName,
    smiles: Sequence[str],
    targets: ArrayLike,
    *,
    classes: bool = False,
    blocks: Sequence[str] = BLOCKS,
    seed: int = 1,
    names: Sequence[str] | None = None,
    unit: str = "",
    weights: ArrayLike | None = None,
    layers: int | None = None,
    schema: TargetSchema | None = None,
    extra: Mapping[str, ArrayLike] | None = None,
    bounds: ArrayLike | None = None,
) -> GPEstimator:
    """Fit a Gaussian process per target, or per class; see `fit_on_features`.

    Args:
        targets: [n, T], NaN for a missing label; 0 and 1 for ``classes``.
        blocks: keys of `KERNELS`.
        weights: weights of the molecules [n] or of the labels [n, T], >= 0; only their
            ratios count.
        layers: last layers whose vectors are concatenated, see `Predictor.embed`.
        schema: description of the targets, in place of ``classes``, ``names`` and
            ``unit``.
        extra: further numbers of each molecule by name, NaN where missing; predictions
            need them too.
        bounds: how far the value may be from its label, in the shape of ``targets``: inf for
            >100, -inf for <0.1, half the width of an interval around the label, 0 for an
            exact label; None: all are exact.

    Raises:
        ValueError: RDKit refuses a molecule, an argument does not fit the molecules, or a
            target has too few labels, see `unfit_targets`.
    """
    labels = np.c_[np.asarray(targets, np.float64)]
    if schema is None:
        names = list(names or (f"target_{index}" for index in range(labels.shape[1])))
        schema = TargetSchema.of(
            names, unit, Kind.BINARY if classes else Kind.REGRESSION
        )
    if len(labels) != len(smiles):
        raise ValueError(f"{len(labels)} rows of labels for {len(smiles)} molecules")
    weights = None if weights is None else _weights_of_labels(weights, labels.shape)
    reach = np.zeros(labels.shape) if bounds is None else np.c_[np.asarray(bounds)]
    extra = extra or {}
    columns = extra_values([*extra], extra, len(smiles))
    blocks = [*blocks, "extra"] if extra else list(blocks)
    check(blocks, labels, schema, reach)
    sampled = training_sample(labels, seed, weights)
    smiles = [smiles[row] for row in sampled]
    labels = labels[sampled]
    weights = None if weights is None else weights[sampled]
    predictor = load(checkpoint, head=None, domain=False)
    molecules = predictor.read(smiles)
    layers = predictor.member.default_layers() if layers is None else layers
    vectors = np.asarray(predictor.embed(molecules, layers), np.float32)
    raw = {"vectors": vectors, "extra": columns[sampled]}
    raw |= {block: molecules.features(block) for block in {*blocks} - raw.keys()}
    digest = weights_digest(read_checkpoint(checkpoint).weights)
    head = fit_on_features(
        raw,
        MoleculeDescription.of(molecules.descriptor_mols, parents=True),
        labels,
        schema,
        digest,
        blocks=blocks,
        seed=seed,
        layers=layers,
        weights=weights,
        extra_columns=list(extra),
        bounds=reach[sampled],
    )
    for line in limit_warnings(head):
        logger.warning(line)
    return head


def save_training_domain(
    checkpoint: PathName,
    texts: Sequence[str],
    device: torch.device | str = "cpu",
    labelled: NDArray[np.bool_] | None = None,
    extra: NDArray | None = None,
) -> Path:
    """Write the domain of the training molecules beside a checkpoint without head, so that
    predictions say how like them a molecule is (see `Domain`).

    Args:
        texts: training molecules, as the checkpoint reads them; of more than `MAX_ROWS` a sample.
        labelled: which labels [n, T] they have; None: all.
        extra: numbers [n, K] of the model's `extra_columns`.
    """
    rows = sample(np.arange(len(texts)), MAX_ROWS, np.random.default_rng(1))
    predictor = load(checkpoint, head=None, domain=False).to(device)
    molecules = predictor.read([texts[row] for row in rows])
    vectors = predictor.embed(molecules, layers=1)  # predictions have the same
    labelled = None if labelled is None else labelled[rows]
    domain = Domain.of(
        vectors, MoleculeDescription.of(molecules.descriptor_mols), labelled
    )
    if len(rows) < len(texts):
        mols = map(as_mol, smiles_of(texts, predictor.featuriser))
        domain.molecules = np.unique(np.array([*map(identity_of, mols)], np.uint64))
    if extra is not None:
        domain.ranges = ranges_of(extra)
    path = domain_file(checkpoint)
    save_domain(domain, path, weights_digest(read_checkpoint(checkpoint).weights))
    return path


def _weights_of_labels(weights: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Weights of labels [n, T], from weights of molecules [n] or of labels."""
    raw = np.asarray(weights, np.float64)
    values = np.c_[raw]
    if values.shape not in (shape, (shape[0], 1)):
        raise ValueError(
            f"weights have shape {list(raw.shape)}, expected [{shape[0]}] or "
            f"{list(shape)}"
        )
    if not ((values >= 0) & (values < np.inf)).all():
        raise ValueError("weights must be finite numbers >= 0")
    return np.broadcast_to(values, shape)
