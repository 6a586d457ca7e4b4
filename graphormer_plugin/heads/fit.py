"""Gaussian processes on features of molecules: kernels, solutions and calibration."""

import logging
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem
from scipy.linalg import cho_solve
from sklearn.linear_model import LogisticRegression

from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.heads import marginal_likelihood
from graphormer_plugin.heads.bounds import pseudo_labels, size_beyond
from graphormer_plugin.heads.calibration import KNOTS, spread_curves
from graphormer_plugin.heads.domain import Domain
from graphormer_plugin.heads.fixed_kernels import (
    balanced,
    first_stage,
    fixed_kernel,
    has_fixed_kernel,
    with_scores,
)
from graphormer_plugin.heads.head import SCORES, Head, curve_factors
from graphormer_plugin.heads.kernels import (
    KERNELS,
    Floats,
    Reference,
    as_mol,
    weighted_sum,
)
from graphormer_plugin.heads.marginal_likelihood import Hyperparameters
from graphormer_plugin.heads.solver import Solver, between, sample

logger = logging.getLogger(__name__)

BLOCKS = ("vectors", "fingerprint", "descriptors")  # and extra, where it is given
HYPER_ROWS = 1000  # molecules that the hyper-parameters of a target are fitted to
OWN = 16  # more targets share the kernel of a sample of targets and molecules
SHARED_TARGETS, SHARED_ROWS = 6, 500
MAX_ROWS = 10_000  # molecules; the solution takes the cube of a target's labels


def fit_on_features(
    raw: dict[str, NDArray],
    molecules: Sequence[str | Chem.Mol],
    labels: Floats,
    schema: TargetSchema,
    digest: str = "",
    *,
    blocks: Sequence[str] = BLOCKS,
    seed: int = 1,
    layers: int = 1,
    weights: Floats | None = None,
    extra_columns: Sequence[str] = (),
    bounds: NDArray[np.int8] | None = None,
) -> Head:
    """Fit a Gaussian process per target, or per class of a multiclass target.

    Its kernel is a sum over blocks of features. Weights, lengths and noise maximise the
    marginal likelihood of at most `HYPER_ROWS` molecules; the solution uses all, at
    most `MAX_ROWS`. Classes are fitted as numbers, and a logistic function of the
    predictions without the molecule's own label gives the probability (Platt scaling);
    these predictions also calibrate the spread, by curves over the predicted value and
    over the spread. A label of weight w has 1 / w of the noise's variance. A label that is
    a bound gets a pseudo-label with a noise of its own, see `pseudo_labels`.

    Two classes with a rare class, and several targets of two classes, have fixed
    weights, lengths and noise, since the marginal likelihood of a few labels of a class
    misleads; both classes weigh the same. Several targets are fitted twice, unless some
    labels are bounds: the predictions of the first process for all targets, leaving out
    the molecule's own label, are a further block of the kernel of the second. All numbers
    here are our choice.

    Args:
        raw: features of n molecules by block, see `raw_features`; always ``vectors``.
        molecules: their SMILES or RDKit molecules.
        labels: [n, T], NaN for a missing label.
        schema: description of the targets.
        digest: `weights_digest` of the checkpoint.
        blocks: keys of `KERNELS`, each with its features in ``raw``.
        seed: seed of the samples of rows and targets.
        layers: last layers whose vectors ``raw`` has, see `Predictor.embed`.
        weights: weights of the labels [n, T], >= 0; only their ratios count.
        extra_columns: names of the features of the block ``extra``.
        bounds: 1 for a label of a regression that its value is above, -1 below, 0 for an
            exact label [n, T]; None: all are exact.

    Raises:
        ValueError: there is no such block, ``bounds`` do not fit, or a target has wrong
            labels or too few, see `unfit_targets`.
    """
    blocks = list(blocks)
    if weights is not None:
        labels = np.where(weights > 0, labels, np.nan)
    if bounds is None:
        bounds = np.zeros(labels.shape, np.int8)
    check(blocks, labels, schema, bounds)
    if schema.kind == "multiclass":
        bounds = np.tile(bounds, schema.num_classes)
        classes = np.arange(schema.num_classes)
        labels = np.where(np.isnan(labels), np.nan, labels == classes)
        weights = None if weights is None else np.tile(weights, len(classes))
    mols = [as_mol(molecule) for molecule in molecules]
    labelled = None if schema.kind == "multiclass" else ~np.isnan(labels)
    domain = Domain.of(raw["vectors"], mols, labelled)
    rng = np.random.default_rng(seed)
    rows_of = [np.flatnonzero(~np.isnan(y)) for y in labels.T]
    trust = _relative_weights(weights, rows_of)
    exact = np.where(bounds == 0, labels, np.nan)
    offset, scale = _moments(exact, rows_of, trust)
    standard = (labels - offset) / scale
    references = {name: Reference(name, raw[name]) for name in {*blocks, "vectors"}}
    precision, first = trust, None  # precision: of the noise, by label
    fixed = schema.kind == "binary" and has_fixed_kernel(labels)
    if fixed:
        precision = balanced(labels, rows_of, trust)
        kernels = [fixed_kernel(references, raw, blocks, rng)] * len(rows_of)
    else:
        fitted = standard, rows_of, trust, bounds, rng
        kernels = _hyperparameters(references, raw, blocks, *fitted)
    if schema.kind != "multiclass" and len(rows_of) > 1 and not bounds.any():
        solver = Solver(references, raw, blocks, kernels, 1)
        first, scores = first_stage(solver, kernels, standard, rows_of, precision)
        blocks, raw = [*blocks, SCORES], {**raw, SCORES: scores}
        references[SCORES] = Reference(SCORES, scores)
        if fixed:
            kernels = [with_scores(kernels[0])] * len(rows_of)
        else:
            kernels = _hyperparameters(references, raw, blocks, *fitted)
    keys = [
        (kernels.index(kernel), rows.tobytes(), weight.tobytes(), at * bool(sign.any()))
        for at, (kernel, rows, weight, sign) in enumerate(
            zip(kernels, rows_of, precision, bounds.T, strict=True)
        )
    ]
    solver = Solver(references, raw, blocks, kernels, len(set(keys)))
    dual = np.zeros(labels.shape)
    spread_of_target = np.zeros(len(keys), np.int64)
    curves, ones = np.ones((2, 2, len(keys), KNOTS)), np.ones(len(keys))
    numbers = {
        "offset": offset,
        "scale": scale,
        "noise": np.array([kernel.noise for kernel in kernels]),
        "spread_scale": ones.copy(),
        "slope": ones.copy(),
        "intercept": 0 * ones,
    }
    for target in sorted(range(len(keys)), key=keys.__getitem__):  # equal keys together
        rows, kernel = rows_of[target], kernels[target]
        ratio, y = 1 / precision[target], standard[rows, target]
        measured, sign = y, bounds[rows, target]
        if sign.any():
            matrix = solver.matrix_of(kernel)[np.ix_(rows, rows)]
            y, noise = pseudo_labels(matrix, y, kernel.noise * ratio, sign)
            ratio = noise / kernel.noise
        solution = solver(rows, kernel, ratio, rng)
        dual[rows, target] = alpha = cho_solve(solution.factor, y)
        spread_of_target[target] = solution.spread
        # Prediction for a molecule from all others, and its variance 1 / diagonal,
        # without solving again.
        at, diagonal = solution.held_out
        held_out = y[at] - alpha[at] / diagonal
        if schema.kind != "regression":
            positive = labels[rows[at], target] > 0.5
            line = platt(held_out, positive, trust[target][at])
            numbers["slope"][target], numbers["intercept"][target] = line
        else:
            errors, std = y[at] - held_out, 1 / np.sqrt(diagonal)
            # As of a label of weight 1, which a prediction stands for.
            usual = np.sqrt(std**2 + kernel.noise * (1 - ratio[at]))
            errors *= usual / std
            if sign.any():
                beyond = size_beyond(held_out, usual, measured[at], sign[at])
                errors = np.where(sign[at] == 0, errors, beyond)
            curves[:, :, target] = spread_curves(held_out, usual, errors)
            calibrated = usual * curve_factors(*curves[:, :, target], held_out, usual)
            square = np.mean((errors / calibrated) ** 2)
            numbers["spread_scale"][target] = np.sqrt(square)
    return Head(
        schema,
        digest,
        layers,
        blocks,
        {name: raw[name] for name in blocks if name != "vectors"},
        domain,
        np.stack([kernel.weights for kernel in kernels]),
        np.stack([kernel.lengths for kernel in kernels]),
        numbers,
        dual,
        solver.spread_rows,
        solver.spread_factor,
        spread_of_target,
        *curves,
        list(extra_columns),
        first,
    )


def platt(
    values: Floats, positive: NDArray[np.bool_], weights: Floats | None = None
) -> tuple[float, float]:
    """Slope and intercept of the logit of a probability, by maximum likelihood.

    Args:
        values: predictions [n] of molecules that the model was not fitted to.
        positive: whether their class is 1 [n].
        weights: weights of the molecules [n]; None: equal.

    Returns:
        Slope >= 0 and intercept. The slope is 0, and the probability the share of class
        1, where the predictions are not better than chance. With a single class, that
        share counts another molecule of each class.
    """
    share = np.average(positive, weights=weights)
    if positive.all() or not positive.any():
        share = (positive.sum() + 1) / (len(positive) + 2)
    else:
        model = LogisticRegression(C=1e3).fit(values[:, None], positive, weights)
        if model.coef_[0, 0] > 0:  # better than chance
            return float(model.coef_[0, 0]), float(model.intercept_[0])
    return 0.0, float(np.log(share / (1 - share)))


def training_sample(
    labels: Floats, seed: int, weights: Floats | None = None
) -> NDArray[np.int64]:
    """Molecules with a label of a weight above 0, at most `MAX_ROWS`, that a head is
    fitted to."""
    counts = ~np.isnan(labels) & (True if weights is None else weights > 0)
    rows = np.flatnonzero(counts.any(1))
    kept = sample(rows, MAX_ROWS, np.random.default_rng(seed))
    if len(kept) < len(rows):
        logger.warning(
            "the head is fitted to a sample of %s of %s molecules",
            f"{MAX_ROWS:,}",
            f"{len(labels):,}",
        )
    return kept


def _relative_weights(
    weights: Floats | None, rows_of: list[NDArray[np.int64]]
) -> list[Floats]:
    """Weights of the labels of each target, with mean 1."""
    if weights is None:
        return [np.ones(len(rows)) for rows in rows_of]
    columns = [column[rows] for column, rows in zip(weights.T, rows_of, strict=True)]
    return [column / column.mean() for column in columns]


def _moments(
    labels: Floats, rows_of: list[NDArray[np.int64]], trust: list[Floats]
) -> tuple[Floats, Floats]:
    """Weighted mean and standard deviation of each target [T], of labels that are not NaN;
    1 if it is constant."""
    offset, scale = np.zeros(len(rows_of)), np.ones(len(rows_of))
    for target, (rows, weight) in enumerate(zip(rows_of, trust, strict=True)):
        exact = ~np.isnan(labels[rows, target])
        y, weight = labels[rows[exact], target], weight[exact]
        offset[target] = np.average(y, weights=weight)
        spread = np.sqrt(np.average((y - offset[target]) ** 2, weights=weight))
        scale[target] = spread if spread > 0 else 1.0
    return offset, scale


def check(
    blocks: Sequence[str], labels: Floats, schema: TargetSchema, bounds: NDArray
) -> None:
    """Raise ValueError for blocks, or labels or ``bounds`` [n, T], that a head cannot be
    fitted to."""
    known = [block for block in KERNELS if block != SCORES]
    if not blocks or not {*blocks} <= {*known}:
        raise ValueError(f"blocks {list(blocks)}, expected some of {', '.join(known)}")
    names = schema.names
    if labels.ndim != 2 or labels.shape[1] != len(names):
        raise ValueError(
            f"labels have shape {list(labels.shape)}, expected [n, {len(names)}]"
        )
    if (
        bounds.shape != labels.shape
        or not np.isin(bounds, (-1, 0, 1)).all()
        or (bounds.any() and schema.kind != "regression")
    ):
        raise ValueError(
            f"bounds must be -1, 0 or 1 in the labels' shape {list(labels.shape)}, and 0 "
            "for classes"
        )
    classes = {"binary": 2, "multiclass": schema.num_classes}.get(schema.kind)
    for name, column in zip(names, labels.T, strict=True):
        present = column[~np.isnan(column)]
        fits = np.isin(present, range(classes)) if classes else np.isfinite(present)
        if not fits.all():
            expected = f"0 to {classes - 1}" if classes else "finite numbers"
            raise ValueError(f"target {name} has a label other than {expected}")
    for target in unfit_targets(np.where(bounds == 0, labels, np.nan), schema.kind):
        advice = "; leave it out" if len(names) > 1 else ""
        raise ValueError(
            f"target {names[target]} has fewer than 2 different labels{advice}"
        )


def unfit_targets(labels: Floats, kind: str) -> list[int]:
    """Targets with fewer than two different labels [n, T], too few for a head.

    One class is enough for a binary target beside another that has both: its probability
    is the same for all molecules.
    """
    different = [len(np.unique(column[~np.isnan(column)])) for column in labels.T]
    least = 1 if kind == "binary" and max(different, default=0) > 1 else 2
    return [target for target, count in enumerate(different) if count < least]


def _hyperparameters(
    references: dict[str, Reference],
    raw: dict[str, NDArray],
    blocks: list[str],
    standard: Floats,
    rows_of: list[NDArray[np.int64]],
    trust: list[Floats],
    bounds: NDArray[np.int8],
    rng: np.random.Generator,
) -> list[Hyperparameters]:
    """Hyper-parameters of each target; beyond `OWN` targets, the same for all. Where some
    labels are bounds, the others give them first, and then the pseudo-labels too; half of
    the sampled molecules have exact labels, or all of these are in it."""
    has_length = [KERNELS[block] != "tanimoto" for block in blocks]

    def _fit(targets: Sequence[int], most: int) -> Hyperparameters:
        labelled = np.unique(np.concatenate([rows_of[target] for target in targets]))
        exact_of = (bounds == 0) & ~np.isnan(standard)
        certain = np.flatnonzero(exact_of[:, targets].any(1))
        rows = sample(labelled, most, rng)
        if np.isin(rows, certain).sum() < min(len(certain), most // 2):
            rows = sample(certain, most // 2, rng)
            rest = sample(np.setdiff1d(labelled, certain), most - len(rows), rng)
            rows = np.union1d(rows, rest)
        compared = [between(references[name], raw[name], rows) for name in blocks]
        labels, signs = [], []
        for target in targets:
            present = np.flatnonzero(np.isin(rows, rows_of[target]))
            if not exact_of[rows[present], target].any():
                continue
            ratio = 1 / trust[target][np.isin(rows_of[target], rows)]
            y = standard[rows[present], target]
            labels.append((present, y, ratio, 0 * ratio))
            signs.append(bounds[rows[present], target])
        exact = [
            tuple(part[sign == 0] for part in label)
            for label, sign in zip(labels, signs, strict=True)
        ]
        found = marginal_likelihood.fit(blocks, compared, exact, has_length)
        if not any(sign.any() for sign in signs):
            return found
        matrix = weighted_sum(blocks, compared, found.weights, found.lengths)
        for at, ((present, y, ratio, _), sign) in enumerate(zip(labels, signs)):
            own = matrix[np.ix_(present, present)]
            y, noise = pseudo_labels(own, y, found.noise * ratio, sign)
            # Known: were it searched, bounds that say nothing would pull it to its floor.
            labels[at] = present, y, ratio * (sign == 0), noise * (sign != 0)
        return marginal_likelihood.fit(blocks, compared, labels, has_length)

    count = len(rows_of)
    if count <= OWN:
        return [_fit([target], HYPER_ROWS) for target in range(count)]
    varied = [at for at, rows in enumerate(rows_of) if np.ptp(standard[rows, at]) > 0]
    most = min(SHARED_TARGETS, len(varied))
    chosen = rng.choice(varied, most, replace=False).tolist()
    return [_fit(chosen, SHARED_ROWS)] * count
