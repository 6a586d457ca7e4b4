"""Gaussian processes of several targets: kernels, solutions and calibration."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve
from sklearn.linear_model import LogisticRegression

from graphormer_plugin.data.targets import Kind, TargetSchema
from graphormer_plugin.estimators.gp import SCORES, FirstStage, interpolated_factors
from graphormer_plugin.estimators.kernels import Floats, Reference, weighted_sum
from graphormer_plugin.workbench.fitting import marginal_likelihood
from graphormer_plugin.workbench.fitting.bounds import (
    located,
    pseudo_labels,
    size_beyond,
)
from graphormer_plugin.workbench.fitting.calibration import KNOTS, fitted_factors
from graphormer_plugin.workbench.fitting.fixed_kernels import (
    balanced,
    first_stage,
    fixed_kernel,
    has_fixed_kernel,
    with_scores,
)
from graphormer_plugin.workbench.fitting.marginal_likelihood import Hyperparameters
from graphormer_plugin.workbench.fitting.replicates import Measurements
from graphormer_plugin.workbench.fitting.solver import Solver, between, sample

HYPER_ROWS = 1000  # molecules that the hyper-parameters of a target are fitted to
# More targets than MAX_OWN_KERNELS share the kernel of a sample of targets and molecules.
MAX_OWN_KERNELS = 16
SHARED_TARGETS = 6
SHARED_ROWS = 500


class GaussianProcesses:
    """The processes of a head, fitted to labels and features of n molecules.

    A target is here a column of labels: a class of a multiclass target has its own.

    Args:
        measured: its labels of classes are 0 and 1, or between where rows differ.

    Attributes:
        rows_of: molecules with a label, of each target.
        trust: weights of these labels; those of single measurements have mean 1.
        precision: the same; balanced for fixed kernels. 1 / precision multiplies the noise.
        differing: variance of these labels, which are means, by how measurements differ.
        standard: labels minus ``offset``, over ``scale``; ``bounds`` are over it too.
        located: see there [n, T].
        kernels: kernel of each target, see `choose_kernels`.
    """

    def __init__(
        self,
        schema: TargetSchema,
        raw: dict[str, NDArray],
        blocks: list[str],
        measured: Measurements,
        rng: np.random.Generator,
    ) -> None:
        self.kinds = np.array(schema.kinds)[schema.target_of_output]
        self.is_number = schema.is_number_of_output
        self.is_single = len(schema.targets) == 1
        self.raw = raw
        self.blocks = blocks
        self.labels = measured.labels
        self.rng = rng
        self.measured = measured
        self.references = {
            name: Reference(name, raw[name]) for name in {*blocks, "vectors"}
        }
        self.rows_of = [np.flatnonzero(~np.isnan(y)) for y in self.labels.T]
        self.trust = _relative_weights(measured, self.rows_of)
        self.precision = self.trust
        self.located = located(self.labels, measured.bounds)
        known = np.where(self.located, self.labels, np.nan)
        self.offset, self.scale = _moments(known, self.rows_of, self.trust)
        self.bounds = measured.bounds / self.scale
        self.standard = (self.labels - self.offset) / self.scale
        self.spread = measured.spread / self.scale**2
        self.shares = measured.shares
        self.differing = self.spread / np.maximum(measured.counts - 1, 1) / self.shares
        self.kernels: list[Hyperparameters] = []

    def choose_kernels(self) -> FirstStage | None:
        """Set ``kernels``. With several targets and no bounds, this fits the first stage,
        which it returns, and adds its scores to the blocks."""
        fixed = np.flatnonzero(self.kinds == Kind.BINARY)
        if not len(fixed) or not has_fixed_kernel(self.labels[:, fixed]):
            fixed = fixed[:0]
        kernel = None
        if len(fixed):
            self.precision = balanced(self.labels, self.rows_of, self.trust, fixed)
            kernel = fixed_kernel(self.references, self.raw, self.blocks, self.rng)
        self.kernels = self._kernels(fixed, kernel)
        if self.is_single or self.bounds.any():
            return None
        solver = self._solver(1)
        targets = range(len(self.rows_of))
        ratios = [self._normal_labels(target, solver)[1] for target in targets]
        first, scores = first_stage(
            solver, self.kernels, self.standard, self.rows_of, ratios
        )
        self.blocks = [*self.blocks, SCORES]
        self.raw = {**self.raw, SCORES: scores}
        self.references[SCORES] = Reference(SCORES, scores)
        self.kernels = self._kernels(fixed, with_scores(kernel) if kernel else None)
        return first

    def _kernels(
        self, fixed: NDArray[np.int64], kernel: Hyperparameters | None
    ) -> list[Hyperparameters]:
        """Hyper-parameters of each target: a kernel for those that are ``fixed``. All others
        have their own, or the same beyond `MAX_OWN_KERNELS` of them."""
        kernels = dict.fromkeys(fixed.tolist(), kernel)
        free = [target for target in range(len(self.rows_of)) if target not in kernels]
        if len(free) <= MAX_OWN_KERNELS:
            kernels |= {at: self._fitted_kernel([at], HYPER_ROWS) for at in free}
        else:
            columns = self.standard.T
            varied = [at for at in free if np.ptp(columns[at][self.rows_of[at]]) > 0]
            most = min(SHARED_TARGETS, len(varied))
            chosen = self.rng.choice(varied, most, replace=False).tolist()
            kernels |= dict.fromkeys(free, self._fitted_kernel(chosen, SHARED_ROWS))
        return [kernels[target] for target in range(len(kernels))]

    def _fitted_kernel(self, targets: Sequence[int], most: int) -> Hyperparameters:
        """Hyper-parameters of targets that share them, by at most ``most`` molecules. The
        labels that are `located` give them first, and then the pseudo-labels of others too.

        A label that forms of a molecule repeat counts once: it would be
        taken as proof that labels have no noise. Different labels all count.
        """
        blocks = self.blocks
        rows = self._sample(targets, most)
        compared = [
            between(self.references[name], self.raw[name], rows) for name in blocks
        ]
        labels = []
        bounds = []
        for target in targets:
            present = self._one_of_each(rows, target)
            chosen = rows[present]
            exact = self.located[chosen, target]
            if not exact.any():
                continue
            trust = self.trust[target][np.isin(self.rows_of[target], chosen)]
            share = self.shares[chosen, target]
            ratio = share / trust
            y = self.standard[chosen, target]
            bound = self.bounds[chosen, target]
            # The variance of a uniform distribution stands for that of an interval.
            interval = np.where(exact, bound, 0) ** 2 / 3
            differing = self.differing[chosen, target] * share + interval
            labels.append((present, y, ratio, differing))
            bounds.append(np.where(exact, 0, bound))
        known = [
            tuple(part[bound == 0] for part in label)
            for label, bound in zip(labels, bounds, strict=True)
        ]
        found = marginal_likelihood.fit(blocks, compared, known)
        if not any(bound.any() for bound in bounds):
            return found
        matrix = weighted_sum(blocks, compared, found.weights, found.lengths)
        for at, ((present, y, ratio, differing), bound) in enumerate(
            zip(labels, bounds)
        ):
            own = matrix[np.ix_(present, present)]
            noise = found.noise * ratio + differing
            y, noise = pseudo_labels(own, y, noise, bound)
            # Keep this noise fixed: uninformative bounds would drive it to its minimum.
            fixed = np.where(bound == 0, differing, noise)
            labels[at] = present, y, ratio * (bound == 0), fixed
        return marginal_likelihood.fit(blocks, compared, labels)

    def _sample(self, targets: Sequence[int], most: int) -> NDArray[np.int64]:
        """At most ``most`` molecules with a label; half of them have located labels, or all
        molecules with located labels are among them."""
        labelled = np.unique(np.concatenate([self.rows_of[at] for at in targets]))
        certain = np.flatnonzero(self.located[:, targets].any(1))
        rows = sample(labelled, most, self.rng)
        if np.isin(rows, certain).sum() >= min(len(certain), most // 2):
            return rows
        rows = sample(certain, most // 2, self.rng)
        uncertain = np.setdiff1d(labelled, certain)
        return np.union1d(rows, sample(uncertain, most - len(rows), self.rng))

    def _one_of_each(self, rows: NDArray[np.int64], target: int) -> NDArray[np.int64]:
        """Indices in ``rows`` of each label of a molecule under a condition, located labels before
        others."""
        at = np.flatnonzero(np.isin(rows, self.rows_of[target]))
        at = at[np.argsort(~self.located[rows[at], target], kind="stable")]
        conditions = self.measured.conditions[rows[at]]
        labels = self.standard[rows[at], target].astype(np.float32)
        pairs = np.stack([conditions, labels], 1)
        return np.sort(at[np.unique(pairs, axis=0, return_index=True)[1]])

    def _solver(self, solutions: int) -> Solver:
        return Solver(
            self.references,
            self.raw,
            self.blocks,
            self.kernels,
            solutions,
            self.measured.molecules,
        )

    def solve(self) -> dict[str, Any]:
        """Solve for each target, and calibrate its predictions: attributes of `GPEstimator`."""
        kernels = self.kernels
        count = len(self.kernels)
        keys = self._keys()
        solver = self._solver(len(set(keys)))
        dual = np.zeros(self.labels.shape)
        spread_of_target = np.zeros(count, np.int64)
        curves = np.ones((2, 2, count, KNOTS))
        ones = np.ones(count)
        numbers = {
            "offset": self.offset,
            "scale": self.scale,
            "noise": np.array([kernel.noise for kernel in kernels]),
            "spread_scale": ones.copy(),
            "slope": ones.copy(),
            "intercept": 0 * ones,
            "logit_std": 0 * ones,
        }
        # Targets with equal keys follow each other.
        for target in sorted(range(count), key=keys.__getitem__):
            rows = self.rows_of[target]
            y, ratio = self._normal_labels(target, solver)
            solution = solver(rows, kernels[target], ratio, self.rng)
            dual[rows, target] = alpha = cho_solve(solution.factor, y)
            spread_of_target[target] = solution.spread
            # Prediction for a molecule from all other molecules.
            at, covariance = solution.held_out
            chosen = rows[at]
            errors = covariance @ alpha[at]
            held_out = y[at] - errors
            variance = covariance.diagonal()
            trust = self.trust[target][at]
            noise = kernels[target].noise
            if not self.is_number[target]:
                label = self.labels[chosen, target]
                line = platt(held_out, label, trust)
                numbers["slope"][target], numbers["intercept"][target] = line
                if line[0] == 0:  # the standard error of a share
                    share = (label.sum() + 1) / (len(label) + 2)
                    squares = len(label) * share * (1 - share)
                    numbers["logit_std"][target] = 1 / np.sqrt(squares)
                continue
            # Calibrate for a label of weight 1, which a prediction stands for. Errors are
            # those of single measurements.
            share = self.shares[chosen, target]
            single = self.measured.counts[chosen, target] * share / trust
            usual = np.sqrt(variance + noise * (1 - ratio[at]))
            std = np.sqrt(variance + noise * (single - ratio[at]))
            errors = np.sqrt(errors**2 + self.spread[chosen, target]) * (usual / std)
            bound = self.bounds[chosen, target]
            if bound.any():
                label = self.standard[chosen, target]
                beyond = size_beyond(held_out, usual, label, bound)
                errors = np.where(bound == 0, errors, beyond)
            curves[:, :, target] = fitted_factors(held_out, usual, errors, share)
            calibrated = usual * interpolated_factors(
                *curves[:, :, target], held_out, usual
            )
            square = np.average((errors / calibrated) ** 2, weights=share)
            numbers["spread_scale"][target] = np.sqrt(square)
        return {
            "weights": np.stack([kernel.weights for kernel in kernels]),
            "lengths": np.stack([kernel.lengths for kernel in kernels]),
            "numbers": numbers,
            "dual": dual,
            "spread_rows": solver.spread_rows,
            "spread_factor": solver.spread_factor,
            "spread_of_target": spread_of_target,
            "spread_knots": curves[0],
            "spread_factors": curves[1],
        }

    def _keys(self) -> list[tuple[Any, ...]]:
        """Equal for targets that share a solution: without bounds, of equal kernels, rows
        and weights."""
        columns = zip(self.kernels, self.rows_of, self.precision, self.bounds.T)
        return [
            (
                self.kernels.index(kernel),
                rows.tobytes(),
                weight.tobytes() + self.differing[rows, at].tobytes(),
                at * bound.any(),
            )
            for at, (kernel, rows, weight, bound) in enumerate(columns)
        ]

    def _normal_labels(self, target: int, solver: Solver) -> tuple[Floats, Floats]:
        """Standardised labels of a target, pseudo-labels in place of bounds; and the
        variance of the noise of each over the kernel's."""
        rows = self.rows_of[target]
        kernel = self.kernels[target]
        y = self.standard[rows, target]
        ratio = 1 / self.precision[target]
        ratio = ratio + self.differing[rows, target] / kernel.noise
        bound = self.bounds[rows, target]
        if not bound.any():
            return y, ratio
        matrix = solver.matrix_of(kernel)[np.ix_(rows, rows)]
        y, noise = pseudo_labels(matrix, y, kernel.noise * ratio, bound)
        return y, noise / kernel.noise


def platt(values: Floats, labels: Floats, weights: Floats) -> tuple[float, float]:
    """Slope and intercept of the logit of a probability, by maximum likelihood.

    Args:
        values: predictions [n] of molecules that the model was not fitted to.
        labels: 0 or 1; between for a molecule that has both.

    Returns:
        slope >= 0 and intercept. The slope is 0, and the probability the share of class
        1, where the predictions are not better than chance. With a single class, that
        share counts another molecule of each class.
    """
    share = np.average(labels, weights=weights)
    if share in (0, 1):
        share = (labels.sum() + 1) / (len(labels) + 2)
    else:
        both = np.tile(values, 2)[:, None]
        of_one = np.repeat([1, 0], len(labels))
        mixed = np.concatenate([weights * labels, weights * (1 - labels)])
        model = LogisticRegression(C=1e3).fit(both, of_one, mixed)
        if model.coef_[0, 0] > 0:  # better than chance
            return float(model.coef_[0, 0]), float(model.intercept_[0])
    return 0.0, float(np.log(share / (1 - share)))


def _relative_weights(
    measured: Measurements, rows_of: list[NDArray[np.int64]]
) -> list[Floats]:
    """Weights of the labels of each target, with mean 1 for a single measurement."""
    weights = []
    counts = measured.counts * measured.shares
    for rows, weight, count in zip(rows_of, measured.weights.T, counts.T):
        weights.append(weight[rows] * (count[rows].sum() / weight[rows].sum()))
    return weights


def _moments(
    labels: Floats, rows_of: list[NDArray[np.int64]], trust: list[Floats]
) -> tuple[Floats, Floats]:
    """Weighted mean and standard deviation of each target [T], of labels that are not NaN;
    1 if it is constant."""
    offset = np.zeros(len(rows_of))
    scale = np.ones(len(rows_of))
    for target, (rows, weight) in enumerate(zip(rows_of, trust, strict=True)):
        exact = ~np.isnan(labels[rows, target])
        y = labels[rows[exact], target]
        weight = weight[exact]
        offset[target] = np.average(y, weights=weight)
        spread = np.sqrt(np.average((y - offset[target]) ** 2, weights=weight))
        scale[target] = spread if spread > 0 else 1.0
    return offset, scale
