"""The prediction of Gaussian processes as a sum over blocks, training molecules and atoms."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from graphormer_plugin.data.graphs.atom_parts import descriptor_parts, morgan_parts
from graphormer_plugin.estimators.atom_sums import atom_sums
from graphormer_plugin.estimators.kernels import Floats
from graphormer_plugin.inference.member import HeadVectors, Member
from graphormer_plugin.inference.molecules import Molecules
from graphormer_plugin.inference.predictor import Predictor


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
