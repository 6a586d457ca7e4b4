"""Fit a head, Gaussian processes on features of molecules, after a check of its labels."""

import logging
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from graphormer_plugin.data.errors import listed
from graphormer_plugin.data.tables.labels import checked_bounds
from graphormer_plugin.data.targets import Kind, TargetSchema
from graphormer_plugin.estimators import MAX_ROWS
from graphormer_plugin.estimators.domain import Domain
from graphormer_plugin.estimators.gp import SCORES, GPEstimator
from graphormer_plugin.estimators.kernels import KERNELS, Floats
from graphormer_plugin.estimators.molecule_description import MoleculeDescription
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
    if weights is not None:
        labels = np.where(weights > 0, labels, np.nan)
    if bounds is None:
        bounds = np.zeros(labels.shape)
    check(blocks, labels, schema, bounds)
    labels = schema.output_labels(labels)
    bounds = bounds[:, schema.target_of_output]
    weights = None if weights is None else weights[:, schema.target_of_output]
    raw = {name: raw[name] for name in {*blocks, "vectors"}}
    measured = merge_replicates(raw, description.parent, labels, weights, bounds)
    raw = {name: values[measured.rows] for name, values in raw.items()}
    description = description[measured.rows]
    labelled = ~np.isnan(measured.labels)
    domain = Domain.of(raw["vectors"], description, labelled, raw.get("extra"))
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


def training_sample(
    labels: Floats, seed: int, weights: Floats | None = None
) -> NDArray[np.int64]:
    """Molecules with a label of a weight above 0, at most `MAX_ROWS`, that a head is
    fitted to."""
    counts = ~np.isnan(labels) & (True if weights is None else weights > 0)
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
