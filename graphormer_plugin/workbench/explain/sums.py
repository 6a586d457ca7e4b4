"""The prediction of Gaussian processes as a sum over blocks, training molecules and atoms."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from graphormer_plugin.data.graphs.atom_parts import descriptor_parts, morgan_parts
from graphormer_plugin.estimators.gp import SCORES, GPEstimator, kernels_of_outputs
from graphormer_plugin.estimators.kernels import (
    Floats,
    Reference,
    kernel,
    mean_squared_differences,
)
from graphormer_plugin.inference.member import HeadVectors, Member
from graphormer_plugin.inference.molecules import Molecules
from graphormer_plugin.inference.predictor import Predictor

POINTS, POINT_WEIGHTS = np.polynomial.legendre.leggauss(32)
WIDENED = 0.25  # standard deviations beyond the ends of a secant, our choice


@dataclass
class PredictionSum:
    """Mean over the members of ``m0 + sum_i alpha_i k(x, x_i)``, a number on the scale that
    models learn or the logit of a probability.

    Attributes:
        of_atom: its part by atom [N], see `atom_sums`.
        of_block: its part by block of features.
        of_molecule: its part by training molecule, under the bytes of its Morgan counts
            (without these of its vectors).
    """

    of_atom: Floats
    constant: float = 0.0
    of_block: Counter[str] = field(default_factory=Counter)
    of_molecule: Counter[bytes] = field(default_factory=Counter)

    def __str__(self) -> str:
        blocks = "".join(f" {x:+.4g} {name}" for name, x in self.of_block.items())
        atoms = self.of_atom.sum()
        rest = self.not_of_atom
        text = f"{self.total:.4g} = {self.constant:.4g}{blocks}"
        return f"{text} = {atoms:.4g} of atoms {rest:+.4g} not of an atom"

    @property
    def total(self) -> float:
        """The number itself."""
        return self.constant + sum(self.of_block.values())

    @property
    def not_of_atom(self) -> float:
        """What atoms do not have: the prediction at the training mean, minus what `atom_sums`
        would give the mean's descriptors, and features that are not sums over atoms."""
        return self.total - self.of_atom.sum()


def prediction_sum(
    predictor: Predictor, molecules: Molecules, output: int, extra: np.ndarray
) -> PredictionSum:
    """The sum for an output and a single molecule, at numbers ``extra`` [1, columns]; heads of
    all members are Gaussian processes."""
    mol = molecules.mol(0)
    result = PredictionSum(np.zeros(mol.GetNumAtoms()))
    vectors: HeadVectors = {}
    count = len(predictor.members)
    for member in predictor.members:
        features = member.features(molecules, 1, extra, vectors)
        constant, addends = member.head.addends(features, output)
        known = member.head.known_features
        result.constant += constant / count
        for name, value in zip(member.head.blocks, addends.sum(1) / count):
            result.of_block[name] += value
        rows = known.get("fingerprint", known["vectors"])
        for row, value in zip(rows, addends.sum(0) / count, strict=True):
            result.of_molecule[row.tobytes()] += value
        parts = {
            "fingerprint": morgan_parts(mol),
            "descriptors": descriptor_parts(mol, molecules.descriptors[0]),
            "vectors": _vector_parts(member, molecules, features["vectors"][0]),
        }
        result.of_atom += atom_sums(member.head, features, parts, output) / count
    return result


def _vector_parts(member: Member, molecules: Molecules, vector: np.ndarray) -> Floats:
    """What each atom adds to the vector [D] that a head reads, less the training mean [N, D]; 0
    where the vector is not the mean over atoms, as at a virtual node."""
    layers = member.head.layers or 1
    (nodes,) = Predictor([member]).embed(molecules, layers, nodes=True)
    repeated = np.tile(nodes, -(-len(vector) // nodes.shape[1]))[:, : len(vector)]
    is_mean = np.isclose(repeated.mean(0), vector, atol=1e-5)
    return is_mean * (repeated - member.head.domain.reference.mean) / len(nodes)


def atom_sums(
    head: GPEstimator,
    raw: Mapping[str, NDArray],
    parts: Mapping[str, Floats],
    output: int,
) -> Floats:
    """Parts of atoms [N] in the sum of `GPEstimator.addends`; the rest is not of an atom.

    A bit b of the fingerprint gets its share of sum_i alpha_i k(x, x_i), in the proportion
    of min(x_b, x_ib), without approximation. In other blocks an atom has what it adds to a
    feature, times the gradient's mean between the training mean and the molecule (Eq. 1 of
    Sundararajan et al. 2017, arXiv:1703.01365), on the straight line of scaled features.

    Args:
        raw: features of a single molecule by block.
        parts: [N, features] by block: of the fingerprint, shares in its bits; else what
            atoms add to a feature, 0 for one that is not a sum over atoms. A block without
            them is not of an atom.
    """

    def _of_kernel(
        blocks: Sequence[str], weights: Floats, lengths: Floats, dual: Floats
    ) -> Floats:
        """Parts in the outputs of one kernel [N, T], whose ``dual`` is [n, T]."""
        total = np.zeros((1, dual.shape[1]))
        for block, weight, length in zip(blocks, weights, lengths, strict=True):
            if block in parts:
                gains = _gains(head.references[block], raw[block][0], length, dual)
                total = total + weight * parts[block] @ gains
        return total

    first = head.first
    if first is not None:
        _, values = head.with_scores(next(head.pieces(raw)))
        scores = np.zeros((len(next(iter(parts.values()))), values.shape[1]))
        for *own, members in kernels_of_outputs(first.weights, first.lengths):
            dual = first.dual[:, members]
            scores[:, members] = _of_kernel(head.read_blocks, *own, dual)
        raw = {**raw, SCORES: values}
        parts = {**parts, SCORES: scores}
    is_number = head.targets.is_number_of_output[output]
    scale = head.numbers["scale" if is_number else "slope"][output]
    own = head.weights[output], head.lengths[output], head.dual[:, [output]]
    return scale * _of_kernel(head.blocks, *own)[:, 0]


def _gains(
    reference: Reference, features: NDArray, length: float, dual: Floats
) -> Floats:
    """What a kernel machine gains by a unit of each feature [F, T], or by a whole bit."""
    if reference.block == "fingerprint":
        bits = np.flatnonzero(features)
        shared = np.minimum(features[bits], reference.raw[:, bits]).astype(np.float64)
        union = features.sum(dtype=np.float64) + reference.total - shared.sum(1)
        gains = np.zeros((len(features), dual.shape[1]))
        gains[bits] = (shared / union[:, None]).T @ dual
        return gains
    known = np.nan_to_num(reference.raw.astype(np.float64))
    ends = np.stack([known.mean(0), features])
    # Ranks of close values may differ much: the slope of a feature is that of a wider secant.
    wide = np.sort(ends, 0) + WIDENED * known.std(0) * [[-1], [1]]
    start, end, low, high = reference.scale(np.concatenate([ends, wide]))
    points = start + (POINTS[:, None] + 1) / 2 * (end - start)
    squares = mean_squared_differences(points, reference.scaled)
    _, by_log_length = kernel(reference.block, squares, length)
    # k depends on squares / length^2 alone.
    slopes = np.divide(by_log_length, squares, out=0 * squares, where=squares > 0)
    slopes *= POINT_WEIGHTS[:, None] / 2 / len(start)
    gradient = reference.scaled.T @ (slopes.sum(0)[:, None] * dual)
    gradient -= points.T @ (slopes @ dual)
    rise = high - low
    run = wide[1] - wide[0]
    slope = np.divide(rise, run, out=0 * rise, where=run > 0)  # run may be NaN
    return slope[:, None] * gradient
