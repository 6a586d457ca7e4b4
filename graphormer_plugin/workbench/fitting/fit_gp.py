"""Fit a head: Gaussian processes on the frozen vectors of a checkpoint and on features of
molecules, in seconds and without updates."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from graphormer_plugin.data.errors import listed
from graphormer_plugin.data.files import PathName
from graphormer_plugin.data.graphs.smiles import identity_of
from graphormer_plugin.data.tables.labels import checked_bounds
from graphormer_plugin.data.targets import Kind, TargetSchema
from graphormer_plugin.estimators import MAX_ROWS
from graphormer_plugin.estimators.array_file import weights_digest
from graphormer_plugin.estimators.domain import (
    NO_EXTRA,
    Domain,
    MoleculeDescription,
    domain_file,
    save_domain,
)
from graphormer_plugin.estimators.gp import SCORES, GPEstimator
from graphormer_plugin.estimators.kernels import KERNELS, Floats, as_mol
from graphormer_plugin.inference.checkpoint import read_checkpoint
from graphormer_plugin.inference.extra_columns import extra_values
from graphormer_plugin.inference.loading import load
from graphormer_plugin.inference.molecules import smiles_of
from graphormer_plugin.workbench.fitting.bounds import located
from graphormer_plugin.workbench.fitting.gaussian_processes import GaussianProcesses
from graphormer_plugin.workbench.fitting.marginal_likelihood import (
    LENGTH,
    NOISE,
    WEIGHT,
)
from graphormer_plugin.workbench.fitting.replicates import merge_replicates
from graphormer_plugin.workbench.fitting.solver import sample

logger = logging.getLogger(__name__)

ROUNDING = 1 + 1e-6  # of a number that is at a limit
BLOCKS = ("vectors", "fingerprint", "descriptors")  # and extra, where it is given


def fit_on_features(
    raw: dict[str, NDArray],
    description: MoleculeDescription,
    labels: Floats,
    schema: TargetSchema,
    digest: str = "",
    *,
    blocks: Sequence[str] = BLOCKS,
    seed: int = 1,
    layers: int = 1,
    weights: Floats | None = None,
    extra_columns: Sequence[str] = (),
    bounds: Floats | None = None,
) -> GPEstimator:
    """Fit a Gaussian process per target, or per class of a multiclass target.

    Its kernel is a sum over blocks of features. Weights, lengths and noise maximise the
    marginal likelihood of at most `HYPER_ROWS` molecules; the solution uses all, at
    most `MAX_ROWS`. Classes are fitted as numbers, and a logistic function of the
    predictions without the molecule's own label gives the probability (Platt scaling);
    these predictions also calibrate the spread, by curves over the predicted value and
    over the spread. A label of weight w has 1 / w of the noise's variance. A label that is
    a bound gets a pseudo-label with a noise of its own, see `pseudo_labels`.

    Rows of a molecule with equal features are one molecule of the head, see `merge_replicates`;
    its stereoisomers, tautomers, salts and ions are left out of predictions with it.

    Two classes with a rare class, and several targets of two classes, have fixed
    weights, lengths and noise, since the marginal likelihood of a few labels of a class
    misleads; both classes weigh the same. Several targets are fitted twice, unless some
    labels are bounds: the predictions of the first process for all targets, leaving out
    the molecule's own label, are a further block of the kernel of the second. All numbers
    here are our choice.

    Args:
        raw: features of n molecules by block, see `molecule_features`; always ``vectors``.
        description: of the molecules, with `parent`.
        labels: [n, T], NaN for a missing label.
        digest: `weights_digest` of the checkpoint.
        blocks: keys of `KERNELS`, each with its features in ``raw``.
        layers: last layers whose vectors ``raw`` has, see `Predictor.embed`.
        weights: weights of the labels [n, T], >= 0; only their ratios count.
        extra_columns: names of the features of the block ``extra``.
        bounds: of the labels of numbers [n, T], see `label_ends`; None: all are exact.

    Raises:
        ValueError: there is no such block, ``bounds`` do not fit, or a target has wrong
            labels or too few, see `unfit_targets`.
    """
    blocks = list(blocks)
    if weights is None:
        weights = np.ones(labels.shape)
    labels = np.where(weights > 0, labels, np.nan)
    if bounds is None:
        bounds = np.zeros(labels.shape)
    check(blocks, labels, schema, bounds)
    labels = schema.output_labels(labels)
    bounds = bounds[:, schema.target_of_output]
    weights = weights[:, schema.target_of_output]
    raw = {name: raw[name] for name in {*blocks, "vectors"}}
    measured = merge_replicates(raw, description.parent, labels, weights, bounds)
    raw = {name: values[measured.rows] for name, values in raw.items()}
    description = description[measured.rows]
    labelled = ~np.isnan(measured.labels)
    domain = Domain.of(
        raw["vectors"], description, labelled, raw.get("extra", NO_EXTRA)
    )
    rng = np.random.default_rng(seed)
    processes = GaussianProcesses(schema, raw, blocks, measured, rng)
    first = processes.choose_kernels()
    return GPEstimator(
        schema,
        digest,
        layers,
        processes.blocks,
        {name: processes.raw[name] for name in processes.blocks if name != "vectors"},
        domain,
        extra_columns=list(extra_columns),
        first=first,
        **processes.solve(),
    )


def limit_warnings(head: GPEstimator) -> list[str]:
    """Lines about targets whose noise or length ended at a limit of the search."""
    noise = head.numbers["noise"]
    counts = head.weights > 2 * WEIGHT[0]  # else the block is switched off
    short = ((head.lengths <= LENGTH[0] * ROUNDING) & counts).any(1)
    names = np.array(head.targets.names)[head.targets.target_of_output]
    cases = {
        "no noise is found in {}, beyond differences between rows of one molecule: its "
        "labels may be computed, or repeated": noise <= NOISE[0] * ROUNDING,
        "only noise is found in {}: the features do not explain its labels": (
            noise >= NOISE[1] / ROUNDING
        ),
        "each molecule resembles only itself for {}: the features hardly explain its "
        "labels": short,
    }
    return [
        text.format(listed(dict.fromkeys(names[is_case])))
        for text, is_case in cases.items()
        if is_case.any()
    ]


def training_sample(labels: Floats, seed: int, weights: Floats) -> NDArray[np.int64]:
    """Molecules with a label of a weight above 0, at most `MAX_ROWS`, that a head is
    fitted to."""
    counts = ~np.isnan(labels) & (weights > 0)
    rows = np.flatnonzero(counts.any(1))
    sampled = sample(rows, MAX_ROWS, np.random.default_rng(seed))
    if len(sampled) < len(rows):
        logger.warning(
            "the head is fitted to a sample of %s of %s molecules",
            f"{MAX_ROWS:,}",
            f"{len(labels):,}",
        )
    return sampled


def check(
    blocks: Sequence[str], labels: Floats, schema: TargetSchema, bounds: NDArray
) -> None:
    """Raise ValueError for blocks, or labels or ``bounds`` [n, T], that a head cannot be
    fitted to."""
    expected = [block for block in KERNELS if block != SCORES]
    if not blocks or not {*blocks} <= {*expected}:
        raise ValueError(
            f"blocks {list(blocks)}, expected some of {', '.join(expected)}"
        )
    names = schema.names
    if labels.ndim != 2 or labels.shape[1] != len(names):
        raise ValueError(
            f"labels have shape {list(labels.shape)}, expected [n, {len(names)}]"
        )
    if checked_bounds(bounds, labels)[:, ~schema.is_number].any():
        raise ValueError("bounds must be 0 for classes")
    schema.check(labels)
    known = np.where(located(labels, bounds), labels, np.nan)
    for target in unfit_targets(known, schema.kinds):
        advice = "; leave it out" if len(names) > 1 else ""
        raise ValueError(
            f"target {names[target]} has fewer than 2 different labels{advice}"
        )


def unfit_targets(labels: Floats, kinds: Sequence[Kind]) -> list[int]:
    """Targets with fewer than two different labels [n, T], too few for a head.

    One class is enough for a binary target beside another that has both: its probability
    is the same for all molecules.
    """
    different = [len(np.unique(column[~np.isnan(column)])) for column in labels.T]
    least = dict.fromkeys(Kind, 2)
    least[Kind.BINARY] -= max(different, default=0) > 1
    pairs = zip(different, kinds, strict=True)
    return [target for target, (count, kind) in enumerate(pairs) if count < least[kind]]


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
    shape = labels.shape
    weights = np.ones(shape) if weights is None else _weights_of_labels(weights, shape)
    reach = np.zeros(shape) if bounds is None else np.c_[np.asarray(bounds)]
    extra = extra or {}
    columns = extra_values([*extra], extra, len(smiles))
    blocks = [*blocks, "extra"] if extra else list(blocks)
    check(blocks, labels, schema, reach)
    sampled = training_sample(labels, seed, weights)
    smiles = [smiles[row] for row in sampled]
    labels = labels[sampled]
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
        weights=weights[sampled],
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
    extra: NDArray = NO_EXTRA,
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
    description = MoleculeDescription.of(molecules.descriptor_mols)
    domain = Domain.of(vectors, description, labelled, extra)
    if len(rows) < len(texts):
        mols = map(as_mol, smiles_of(texts, predictor.featuriser))
        domain.molecules = np.unique(np.array([*map(identity_of, mols)], np.uint64))
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
