"""Fit a head on the frozen vectors of a checkpoint, in seconds and without updates."""

import logging
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve, eigh, solve_triangular
from sklearn.linear_model import LogisticRegression

from graphormer_plugin.data.datasets.smiles import mol_of_any_smiles
from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.finetune import marginal_likelihood
from graphormer_plugin.finetune.marginal_likelihood import JITTER, Hyperparameters
from graphormer_plugin.inference.array_file import weights_digest
from graphormer_plugin.inference.checkpoint import read_checkpoint
from graphormer_plugin.inference.domain import Domain, domain_file, save_domain
from graphormer_plugin.inference.head import QUERY_ROWS, Head
from graphormer_plugin.inference.kernels import (
    KERNELS,
    Floats,
    Reference,
    raw_features,
    weighted_sum,
)
from graphormer_plugin.inference.loading import load
from graphormer_plugin.inference.molecules import smiles_of
from graphormer_plugin.inference.predictor import Predictor

logger = logging.getLogger(__name__)

BLOCKS = ("vectors", "fingerprint", "descriptors")
HYPER_ROWS = 1000  # molecules that the hyper-parameters of a target are fitted to
OWN = 16  # more targets share the kernel of a sample of targets and molecules
SHARED_TARGETS, SHARED_ROWS = 6, 500
MAX_ROWS = 10_000  # molecules; the solution takes the cube of a target's labels
SPREAD_ROWS = 1500  # with more labels, a sample of that size gives the variance
LEFT_OUT = 500  # of them, to calibrate with where not all are left out in turn
SPREAD_NUMBERS = 16_000_000  # of all targets' factors, 128 MB


def fit_head(
    checkpoint: str | os.PathLike[str],
    smiles: Sequence[str],
    targets: ArrayLike,
    *,
    classes: bool = False,
    blocks: Sequence[str] = BLOCKS,
    seed: int = 1,
    names: Sequence[str] | None = None,
    unit: str = "",
    layers: int = 1,
    batch_size: int = 128,
    predictor: Predictor | None = None,
) -> Head:
    """Fit a Gaussian process per target.

    Its kernel is a sum over blocks of features. Weights, lengths and noise maximise the
    marginal likelihood of at most `HYPER_ROWS` molecules; the solution uses all, at most
    `MAX_ROWS`. Classes are fitted as numbers, and a logistic function of the
    leave-one-out predictions gives the probability (Platt scaling); these also give the
    scale of the spread. All numbers here are our choice.

    Args:
        checkpoint: its weights stay as they are.
        smiles: training molecules.
        targets: [n, T], NaN for a missing label; for classes 0 and 1.
        classes: whether the targets are classes.
        blocks: of `KERNELS`.
        seed: of the samples of rows and targets.
        names: of the targets; by default target_0, target_1, ...
        unit: of the targets.
        layers: last layers whose vectors are concatenated.
        batch_size: molecules per batch.
        predictor: the checkpoint's model, if it is loaded already.

    Raises:
        ValueError: RDKit refuses a molecule, there is no such block, or a target has
            fewer than 2 different labels.
    """
    labels = np.asarray(targets, np.float64)
    if labels.ndim == 1:
        labels = labels[:, None]
    names = list(names or (f"target_{at}" for at in range(labels.shape[1])))
    schema = TargetSchema(names, unit, "binary" if classes else "regression")
    if len(labels) != len(smiles):
        raise ValueError(f"{len(labels)} rows of labels for {len(smiles)} molecules")
    _check(labels, names, classes, blocks)
    kept = _sample(
        np.flatnonzero(~np.isnan(labels).all(1)), MAX_ROWS, np.random.default_rng(seed)
    )
    if len(kept) == MAX_ROWS < len(labels):
        logger.warning(
            "the head is fitted to a sample of %s of %s molecules",
            f"{MAX_ROWS:,}",
            f"{len(labels):,}",
        )
    smiles, labels = [smiles[row] for row in kept], labels[kept]
    predictor = predictor or load(checkpoint, head=None)
    vectors = predictor.embed(smiles, layers, batch_size=batch_size)
    smiles = smiles_of(smiles, predictor.featuriser)
    raw = {
        block: raw_features(block, vectors, smiles)
        for block in sorted({*blocks, "vectors"})
    }
    digest = weights_digest(read_checkpoint(checkpoint).weights)
    return fit_on_features(
        raw, smiles, labels, schema, digest, blocks=blocks, seed=seed, layers=layers
    )


def save_training_domain(
    checkpoint: str | os.PathLike[str],
    smiles: Sequence[str],
    *,
    seed: int = 1,
    predictor: Predictor | None = None,
) -> Path:
    """Write beside a checkpoint without head which molecules it was trained on, so that
    predictions say how like them a molecule is (see `Domain`).

    Args:
        checkpoint: the file.
        smiles: training molecules; of more than `MAX_ROWS` a sample.
        seed: of the sample.
        predictor: the checkpoint's model, if it is loaded already.

    Returns:
        Path of the file.
    """
    rows = _sample(np.arange(len(smiles)), MAX_ROWS, np.random.default_rng(seed))
    smiles = [smiles[row] for row in rows]
    predictor = predictor or load(checkpoint, head=None)
    smiles = smiles_of(smiles, predictor.featuriser)
    mols = [mol_of_any_smiles(text) for text in smiles]
    path = domain_file(checkpoint)
    digest = weights_digest(read_checkpoint(checkpoint).weights)
    save_domain(Domain.of(predictor.embed(smiles), mols), path, digest)
    return path


def fit_on_features(
    raw: dict[str, NDArray],
    smiles: Sequence[str],
    labels: Floats,
    schema: TargetSchema,
    digest: str = "",
    *,
    blocks: Sequence[str] = BLOCKS,
    seed: int = 1,
    layers: int = 1,
) -> Head:
    """`fit_head` with features that were computed before.

    Args:
        raw: features by block, see `raw_features`; always ``vectors``.
        smiles: training molecules.
        labels: [n, T].
        schema: of the targets.
        digest: `weights_digest` of the checkpoint.
    """
    blocks = list(blocks)
    rng = np.random.default_rng(seed)
    rows_of = [np.flatnonzero(~np.isnan(y)) for y in labels.T]
    offset = np.array([y[rows].mean() for y, rows in zip(labels.T, rows_of)])
    scale = np.array([y[rows].std() for y, rows in zip(labels.T, rows_of)])
    standard = (labels - offset) / scale
    references = {name: Reference(name, raw[name]) for name in {*blocks, "vectors"}}
    found = _hyperparameters(references, raw, blocks, standard, rows_of, rng)
    keys = [(id(one), rows.tobytes()) for one, rows in zip(found, rows_of)]
    solver = _Solver(references, raw, blocks, found, len(set(keys)))
    count = len(rows_of)
    dual = np.zeros(labels.shape)
    numbers = {
        "offset": offset,
        "scale": scale,
        "noise": np.array([one.noise for one in found]),
        "spread_scale": np.ones(count),
        "slope": np.ones(count),
        "intercept": np.zeros(count),
    }
    spread_of_target = np.zeros(count, np.int64)
    for target in sorted(range(count), key=keys.__getitem__):  # equal ones together
        rows = rows_of[target]
        solution = solver(rows, found[target], rng)
        y = standard[rows, target]
        dual[rows, target] = alpha = cho_solve(solution.factor, y)
        spread_of_target[target] = solution.spread
        # What the process predicts for a molecule from all others, and its variance
        # 1 / diagonal, without solving again.
        at, diagonal = solution.left_out
        left_out = y[at] - alpha[at] / diagonal
        if schema.kind == "binary":
            positive = labels[rows[at], target] > 0.5
            numbers["slope"][target], numbers["intercept"][target] = platt(
                left_out, positive
            )
        else:
            scores = (y[at] - left_out) * np.sqrt(diagonal)
            numbers["spread_scale"][target] = np.sqrt(np.mean(scores**2))
    mols = [mol_of_any_smiles(text) for text in smiles]
    return Head(
        schema,
        digest,
        layers,
        blocks,
        {name: raw[name] for name in blocks if name != "vectors"},
        Domain.of(raw["vectors"], mols),
        np.stack([one.weights for one in found]),
        np.stack([one.lengths for one in found]),
        numbers,
        dual,
        solver.spread_rows,
        solver.spread_factor,
        spread_of_target,
    )


def platt(values: Floats, positive: NDArray[np.bool_]) -> tuple[float, float]:
    """Slope (>= 0) and intercept of the logit of a probability, by maximum likelihood."""
    if positive.all() or not positive.any():
        share = (positive.sum() + 1) / (len(positive) + 2)
        return 0.0, float(np.log(share / (1 - share)))
    model = LogisticRegression(C=1e3).fit(values[:, None], positive)
    if model.coef_[0, 0] <= 0:  # no better than chance
        share = positive.mean()
        return 0.0, float(np.log(share / (1 - share)))
    return float(model.coef_[0, 0]), float(model.intercept_[0])


def _check(
    labels: Floats, names: list[str], classes: bool, blocks: Sequence[str]
) -> None:
    if labels.ndim != 2 or labels.shape[1] != len(names):
        raise ValueError(
            f"labels have shape {list(labels.shape)}, expected [n, {len(names)}]"
        )
    wrong = [block for block in blocks if block not in KERNELS]
    if wrong or not blocks:
        raise ValueError(
            f"blocks {list(blocks)}, expected some of {', '.join(KERNELS)}"
        )
    for name, column in zip(names, labels.T, strict=True):
        present = column[~np.isnan(column)]
        if not np.isfinite(present).all():
            raise ValueError(f"target {name} has a label that is not finite")
        if classes and not np.isin(present, (0, 1)).all():
            raise ValueError(f"target {name} has a label other than 0 and 1")
        if len(np.unique(present)) < 2:
            raise ValueError(f"target {name} has fewer than 2 different labels")


def _sample(rows: NDArray[np.int64], most: int, rng: np.random.Generator) -> NDArray:
    """At most ``most`` of the rows, in their order."""
    if len(rows) <= most:
        return rows
    return np.sort(rng.choice(rows, most, replace=False))


def _hyperparameters(
    references: dict[str, Reference],
    raw: dict[str, NDArray],
    blocks: list[str],
    standard: Floats,
    rows_of: list[NDArray[np.int64]],
    rng: np.random.Generator,
) -> list[Hyperparameters]:
    """Of each target; beyond `OWN` targets, one for all."""
    has_length = [KERNELS[block] != "tanimoto" for block in blocks]

    def fit(targets: Sequence[int], most: int) -> Hyperparameters:
        labelled = np.unique(np.concatenate([rows_of[target] for target in targets]))
        rows = _sample(labelled, most, rng)
        compared = [_between(references[name], raw[name], rows) for name in blocks]
        labels = []
        for target in targets:
            present = np.flatnonzero(np.isin(rows, rows_of[target]))
            labels.append((present, standard[rows[present], target]))
        return marginal_likelihood.fit(blocks, compared, labels, has_length)

    count = len(rows_of)
    if count <= OWN:
        return [fit([target], HYPER_ROWS) for target in range(count)]
    chosen = rng.choice(count, SHARED_TARGETS, replace=False).tolist()
    return [fit(chosen, SHARED_ROWS)] * count


def _between(reference: Reference, raw: NDArray, rows: NDArray[np.int64]) -> Floats:
    """`Reference.compare` between some training molecules."""
    return reference.compare(raw[rows])[:, rows]


class _Solution(NamedTuple):
    """Of the linear system of one target.

    Attributes:
        factor: Cholesky factor of its matrix, as SciPy has it.
        spread: number of the factor of its variance.
        left_out: places among its rows, and the diagonal of the inverse there.
    """

    factor: tuple[Floats, bool]
    spread: int
    left_out: tuple[NDArray[np.int64], Floats]


class _Solver:
    """Solves for one target after another; consecutive ones with equal kernel and rows
    share their solution.

    Args:
        references: features of the training molecules by block.
        raw: the same, as `Reference.compare` takes them.
        blocks: of the kernel.
        kernels: of all targets.
        solutions: number of different ones.

    Attributes:
        spread_rows: see `Head`.
        spread_factor: see `Head`.
    """

    def __init__(
        self,
        references: dict[str, Reference],
        raw: dict[str, NDArray],
        blocks: list[str],
        kernels: Sequence[Hyperparameters],
        solutions: int,
    ) -> None:
        self.references = references
        self.raw = raw
        self.blocks = blocks
        self.most = min(SPREAD_ROWS, math.isqrt(SPREAD_NUMBERS // solutions))
        self.spread_rows: list[NDArray[np.int64]] = []
        self.spread_factor: list[Floats] = []
        self.compared: list[list[Floats]] | None = None
        if len({id(one) for one in kernels}) > 1:  # the dearer part, for all of them
            self.compared = list(self._compare())
        self.matrix: tuple[Hyperparameters, Floats] | None = None
        self.solved: tuple[Hyperparameters, bytes, _Solution] | None = None

    def __call__(
        self,
        rows: NDArray[np.int64],
        one: Hyperparameters,
        rng: np.random.Generator,
    ) -> _Solution:
        key = rows.tobytes()
        if self.solved and self.solved[0] is one and self.solved[1] == key:
            return self.solved[2]
        self.solved = None  # a factor is large
        matrix = self._matrix(one)[np.ix_(rows, rows)]
        at = _sample(np.arange(len(rows)), self.most, rng)
        exact = len(at) == len(rows)
        spread = None if exact else _spread_of_sample(matrix, at, one.noise)
        matrix[np.diag_indices(len(rows))] += one.noise + JITTER
        factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        left = at if exact else at[:: -(-len(at) // LEFT_OUT)]
        columns = np.zeros((len(rows), len(left)))
        columns[left, np.arange(len(left))] = 1
        inverse = solve_triangular(
            factor[0], columns, lower=True, overwrite_b=True, check_finite=False
        )
        self.spread_rows.append(rows[at])
        self.spread_factor.append(inverse.T.copy() if spread is None else spread)
        solution = _Solution(
            factor, len(self.spread_rows) - 1, (left, (inverse**2).sum(0))
        )
        self.solved = (one, key, solution)
        return solution

    def _compare(self) -> Iterator[list[Floats]]:
        """What the kernels are functions of, for some rows at a time."""
        for start in range(0, len(self.raw["vectors"]), QUERY_ROWS):
            part = slice(start, start + QUERY_ROWS)
            yield [
                self.references[name].compare(self.raw[name][part])
                for name in self.blocks
            ]

    def _matrix(self, one: Hyperparameters) -> Floats:
        """Kernel between all training molecules [n, n]."""
        if self.matrix is None or self.matrix[0] is not one:
            self.matrix = None
            count, start = len(self.raw["vectors"]), 0
            matrix = np.empty((count, count))
            for compared in self.compared or self._compare():
                part = weighted_sum(self.blocks, compared, one.weights, one.lengths)
                matrix[start : start + len(part)] = part
                start += len(part)
            self.matrix = (one, matrix)
        return self.matrix[1]


def _spread_of_sample(matrix: Floats, at: NDArray[np.int64], noise: float) -> Floats:
    """W [m, r] of `Head`, with a sample of molecules as inducing points.

    The variance is k(x, x) - k(x, Z) A k(Z, x) with A = inverse(K) - inverse(K + Kzn Knz
    / noise), K between the inducing points Z, and W W^T = A. It is that of the Gaussian
    process itself where Z are all training molecules.

    Args:
        matrix: kernel between all molecules of the target [n, n].
        at: inducing points [m].
        noise: variance.
    """
    own = matrix[np.ix_(at, at)] + 1e-6 * np.eye(len(at))
    lower = np.linalg.cholesky(own)
    projected = solve_triangular(lower, matrix[at], lower=True) / np.sqrt(noise)
    values, vectors = eigh(projected @ projected.T, overwrite_a=True)
    kept = values > 1e-8
    values, vectors = values[kept], vectors[:, kept]
    shrunk = vectors * np.sqrt(values / (1 + values))
    return solve_triangular(lower, shrunk, lower=True, trans="T")
