"""Fixed kernels and two stages of Gaussian processes: rare classes, several targets."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, lapack

from graphormer_plugin.estimators.gp import FirstStage
from graphormer_plugin.estimators.kernels import KERNELS, Floats, Reference
from graphormer_plugin.workbench.fitting.marginal_likelihood import (
    JITTER,
    Hyperparameters,
    median_root,
)
from graphormer_plugin.workbench.fitting.replicates import left_out_covariance
from graphormer_plugin.workbench.fitting.solver import Solver, between, sample

RARE = 0.2  # a class of a smaller share is rare
CLASS_NOISE = 3.0  # noise of a fixed kernel, for classes that weigh the same
LENGTH = 0.5  # length of a fixed kernel, over the median distance of molecules
# Kernel of the block of scores.
SCORES_WEIGHT = 0.5
SCORES_LENGTH = 2.0
SAMPLE = 500  # molecules whose distances give the lengths


def has_fixed_kernel(labels: Floats) -> bool:
    """Whether labels 0 and 1 [n, T] have a kernel that is not fitted."""
    share = np.nanmean(labels[:, 0])
    return labels.shape[1] > 1 or min(share, 1 - share) < RARE


def balanced(
    labels: Floats,
    rows_of: list[NDArray[np.int64]],
    weights: list[Floats],
    targets: Iterable[int],
) -> list[Floats]:
    """Weights of the labels, those of 0 and 1 of some ``targets`` scaled so that each class
    has half of their sum; as they are for a single class. Labels between are mixtures.
    """
    result = [*weights]
    for target in targets:
        weight = weights[target]
        label = labels[rows_of[target], target]
        of_one = np.average(label, weights=weight)
        share = label * of_one + (1 - label) * (1 - of_one)
        if not (share == 1).all():
            result[target] = weight * 0.5 / share
    return result


def fixed_kernel(
    references: dict[str, Reference],
    raw: dict[str, NDArray],
    blocks: list[str],
    rng: np.random.Generator,
) -> Hyperparameters:
    """Equal weights of all blocks, and lengths by the distances of a sample of molecules
    (our choice; examples/small_data measures it)."""
    rows = sample(np.arange(len(raw["vectors"])), SAMPLE, rng)
    lengths = [
        (
            1.0
            if KERNELS[name] == "tanimoto"
            else LENGTH * median_root(between(references[name], raw[name], rows))
        )
        for name in blocks
    ]
    weights = np.full(len(blocks), 1 / len(blocks))
    return Hyperparameters(weights, np.array(lengths), CLASS_NOISE)


def first_stage(
    solver: Solver,
    kernels: Sequence[Hyperparameters],
    standard: Floats,
    rows_of: list[NDArray[np.int64]],
    ratios: list[Floats],
) -> tuple[FirstStage, Floats]:
    """Fit a process per target, and predict each training molecule from all others.

    Args:
        ratios: variance of the noise of each target's labels over the kernel's.

    Returns:
        the processes, and the predictions [n, T], without the molecule's own labels.
    """
    dual = np.zeros_like(standard)
    scores = np.empty_like(standard)
    for target, (rows, ratio) in enumerate(zip(rows_of, ratios, strict=True)):
        y = standard[rows, target]
        kernel = kernels[target]
        matrix = solver.matrix_of(kernel)
        own = matrix[np.ix_(rows, rows)]
        own[np.diag_indices(len(rows))] += kernel.noise * ratio + JITTER
        factor = cholesky(own, lower=True, overwrite_a=True, check_finite=False)
        dual[rows, target] = alpha = cho_solve((factor, True), y, check_finite=False)
        scores[:, target] = matrix[:, rows] @ alpha
        root, _ = lapack.dtrtri(factor, lower=True, overwrite_c=True)
        molecules = solver.molecules[rows]
        errors = left_out_covariance(root, molecules) @ alpha
        scores[rows, target] = y - errors
        # Stereoisomers without a label are predicted without the labels of the others.
        others = np.isin(solver.molecules, molecules)
        others[rows] = False
        same = molecules[:, None] == solver.molecules[others]
        left_out = root.T @ (root @ (errors[:, None] * same))
        beside = matrix[np.ix_(others, rows)]
        scores[others, target] -= (beside * left_out.T).sum(1)
    weights = np.stack([kernel.weights for kernel in kernels])
    lengths = np.stack([kernel.lengths for kernel in kernels])
    return FirstStage(weights, lengths, dual), scores


def with_scores(kernel: Hyperparameters) -> Hyperparameters:
    """The kernel with the block of scores at its end."""
    return Hyperparameters(
        np.append((1 - SCORES_WEIGHT) * kernel.weights, SCORES_WEIGHT),
        np.append(kernel.lengths, SCORES_LENGTH),
        kernel.noise,
    )
