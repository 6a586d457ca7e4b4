"""A kernel machine on frozen vectors of a checkpoint, as a file of arrays beside it.

For each output (a target, or a class of a multiclass target) the prediction is
``offset + scale * k(x, X) @ dual``. X are the training molecules, and k is the sum of
weight x kernel over blocks of features: the checkpoint's vectors, Morgan counts, RDKit's
descriptors (see `kernels`), and for several targets the scores that a first stage of such
machines gives to all of them. A Gaussian process gives a variance too, and a target of
classes a probability.

The file ``head.npz`` holds arrays only, and reading it runs no code. It names the weights
that its vectors come from; a head beside another checkpoint is refused.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphormer_plugin.data.files import PathName
from graphormer_plugin.data.graphs.descriptors import COMPUTED, MORGAN_BITS
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.estimators.array_file import reading, write_arrays
from graphormer_plugin.estimators.domain import Domain, nearest_of
from graphormer_plugin.estimators.kernels import Floats, Reference, kernel, weighted_sum
from graphormer_plugin.estimators.prediction import NODES, SHARES, Prediction, expit
from graphormer_plugin.estimators.trees import TREES, TreesEstimator

HEAD_FILE = "head.npz"
SCORES = "scores"
VERSION = 1
QUERY_ROWS = 512  # molecules whose kernels are in memory at a time
# Attributes of `GPEstimator`.
_ARRAYS = (
    "weights",
    "lengths",
    "dual",
    "spread_of_target",
    "spread_knots",
    "spread_factors",
)
_NUMBERS = (
    "offset",
    "scale",
    "noise",
    "spread_scale",
    "slope",
    "intercept",
    "logit_std",
)


@dataclass
class FirstStage:
    """Kernel machines whose values for all targets are the features of the block ``scores``.

    Attributes:
        lengths: [T, B] length of its kernel.
        dual: [n, T], 0 for a molecule without label.
    """

    weights: Floats
    lengths: Floats
    dual: Floats


class Joint(NamedTuple):
    """Normal distribution of an output of q molecules: a number in the unit that models learn,
    or the logit of a probability. It is calibrated as `Prediction.std`.

    Attributes:
        mean: [q].
        covariance: [q, q], without the noise of a measurement.
        noise: variance of that noise [q].
    """

    mean: Floats
    covariance: Floats
    noise: Floats


@dataclass
class GPEstimator:
    """Kernel machines, one per output: a target, or a class of a multiclass target.

    Attributes:
        layers: last layers whose vectors are concatenated, see `Predictor.embed`.
        blocks: B keys of `KERNELS` that the kernel sums over.
        raw: features of the n training molecules by block, see `molecule_features`, but for
            their vectors.
        lengths: [T, B] length of its kernel.
        numbers: per target [T]: ``offset`` and ``scale`` of its labels; ``noise``, the
            variance of the noise over scale^2; ``spread_scale``, the calibration of the
            spread; ``slope`` and ``intercept`` of the probability's logit, and
            ``logit_std``, the standard deviation of an intercept without slope.
        dual: [n, T], 0 for a molecule without label.
        spread_rows: training molecules that a variance is computed with [m].
        spread_factor: W [m, m], an upper triangle: the variance is
            k(x, x) - |k(x, X_m) W|^2.
        spread_of_target: [T], index into the two lists.
        spread_knots: [2, T, K] predicted values, and standard deviations before calibration,
            of standardised labels.
        spread_factors: [2, T, K] factors there, beside ``spread_scale``; see `fitted_factors`.
        extra_columns: names of the features of the block ``extra``.
        first: makes the features of the block ``scores``, if there is such a block.
    """

    targets: TargetSchema
    checkpoint: str
    layers: int
    blocks: list[str]
    raw: dict[str, NDArray]
    domain: Domain
    weights: Floats
    lengths: Floats
    numbers: dict[str, Floats]
    dual: Floats
    spread_rows: list[NDArray[np.int64]]
    spread_factor: list[Floats]
    spread_of_target: NDArray[np.int64]
    spread_knots: Floats
    spread_factors: Floats
    extra_columns: list[str] = field(default_factory=list)
    first: FirstStage | None = None
    references: dict[str, Reference] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.references = {name: Reference(name, raw) for name, raw in self.raw.items()}
        self.references["vectors"] = self.domain.reference

    def __len__(self) -> int:
        """Number of training molecules."""
        return len(self.dual)

    def __str__(self) -> str:
        return (
            f"Gaussian process on {' + '.join(self.blocks)} of {len(self):,} molecules"
        )

    @property
    def known_features(self) -> dict[str, NDArray]:
        """Features of the training molecules by block."""
        return {**self.raw, "vectors": self.domain.vectors}

    @property
    def typical_extra(self) -> Floats:
        """Means of `extra_columns` over the training molecules."""
        return np.nanmean(self.raw["extra"], 0)

    @property
    def vector_width(self) -> int:
        """Length of the vectors that it reads."""
        return self.domain.vectors.shape[1]

    @property
    def molecule_blocks(self) -> list[str]:
        """Blocks whose features come from molecules: fingerprint, descriptors."""
        return [name for name in self.read_blocks if name not in ("vectors", "extra")]

    @property
    def read_blocks(self) -> list[str]:
        """`blocks` without the scores, which the first stage computes."""
        return [block for block in self.blocks if block != SCORES]

    def predict_features(self, raw: Mapping[str, NDArray]) -> Prediction:
        """Predict from features of q molecules by block, see `molecule_features`; always with
        ``vectors``, [q, D] of the checkpoint from its last `layers`."""
        prediction = self._prediction(self.pieces(raw))
        if "extra" in self.blocks:
            beyond = self.domain.is_beyond(raw["extra"]).any(1)
            prediction.in_domain[beyond] = 0
        return prediction

    def _prediction(self, compared: Iterable[Mapping[str, Floats]]) -> Prediction:
        """Prediction from `pieces` of the molecules."""
        parts = zip(*map(self._latent, compared), strict=True)
        mean, variance, in_domain = map(np.concatenate, parts)
        values = np.empty_like(mean)
        std = np.empty_like(mean)
        is_number = self.targets.is_number_of_output
        for outputs, predict in (
            (np.flatnonzero(is_number), self._measured),
            (np.flatnonzero(~is_number), self._probabilities),
        ):
            latent = (x.take(outputs, 1) for x in (mean, variance))
            if len(outputs):
                values[:, outputs], std[:, outputs] = predict(outputs, *latent)
        for outputs in self.targets.outputs:
            if outputs.stop - outputs.start > 1:  # one class against all others
                total = values[:, outputs].sum(1, keepdims=True)
                values[:, outputs] /= total
                std[:, outputs] /= total
        return Prediction(values, std, in_domain)

    def _probabilities(
        self, outputs: NDArray[np.int64], mean: Floats, variance: Floats
    ) -> tuple[Floats, Floats]:
        """Probabilities of some outputs and their spread, from `_latent`."""
        slope, intercept, logit_std = (
            self.numbers[name][outputs] for name in ("slope", "intercept", "logit_std")
        )
        logits = slope * mean + intercept
        spread = np.sqrt(slope**2 * variance + logit_std**2)
        samples = expit(logits[..., None] + spread[..., None] * NODES)
        centred = samples - (samples @ SHARES)[..., None]
        return expit(logits), np.sqrt(centred**2 @ SHARES)

    def _measured(
        self, outputs: NDArray[np.int64], mean: Floats, variance: Floats
    ) -> tuple[Floats, Floats]:
        """Numbers of some outputs and their spread, from `_latent`."""
        numbers = {name: values[outputs] for name, values in self.numbers.items()}
        std = np.sqrt(variance + numbers["noise"])
        curves = (
            array[:, outputs].swapaxes(0, 1)
            for array in (self.spread_knots, self.spread_factors)
        )
        factors = [
            interpolated_factors(points, factors, *column)
            for *column, points, factors in zip(mean.T, std.T, *curves, strict=True)
        ]
        std = std * numbers["spread_scale"] * np.stack(factors, 1)
        values = numbers["offset"] + numbers["scale"] * mean
        return values, numbers["scale"] * std

    def joint(self, raw: Mapping[str, NDArray], output: int) -> Joint:
        """Predict q molecules together: the covariance is k(Z, Z) - k(Z, X) (k(X, X) + N)^-1
        k(X, Z), Eq. 2.24 of Rasmussen & Williams 2006, on the scale of `predict_features`.
        """
        own = self.weights[output], self.lengths[output]
        spread = self.spread_of_target[output]
        rows = self.spread_rows[spread]
        factor = self.spread_factor[spread]
        parts = []
        for of_block in self.pieces(raw):
            compared, scores = self.with_scores(of_block)
            similar = weighted_sum(self.blocks, compared, *own)
            mean = similar @ self.dual[:, output]
            parts.append((mean, similar[:, rows] @ factor, scores))
        mean, projected, scores = map(np.concatenate, zip(*parts, strict=True))
        raw = {**raw, SCORES: scores}
        among = [self.references[name].compare_among(raw[name]) for name in self.blocks]
        covariance = weighted_sum(self.blocks, among, *own) - projected @ projected.T
        noise = self.numbers["noise"][output]
        if self.targets.is_number_of_output[output]:
            variance = np.maximum(covariance.diagonal(), 0)
            values, std = self._measured(
                np.array([output]), mean[:, None], variance[:, None]
            )
            slope = std / np.sqrt(variance + noise)[:, None]
            return Joint(
                values[:, 0], slope * slope.T * covariance, slope[:, 0] ** 2 * noise
            )
        slope, intercept, logit_std = (
            self.numbers[name][output] for name in ("slope", "intercept", "logit_std")
        )
        covariance = slope**2 * covariance + logit_std**2
        return Joint(
            slope * mean + intercept, covariance, np.full(len(mean), slope**2 * noise)
        )

    def addends(self, raw: Mapping[str, NDArray], output: int) -> tuple[float, Floats]:
        """A constant, and a number of each block and training molecule [B, n], whose sum is the
        prediction for a single molecule, as `Joint.mean`."""
        compared, _ = self.with_scores(next(self.pieces(raw)))
        names = ("intercept", "slope")
        if self.targets.is_number_of_output[output]:
            names = ("offset", "scale")
        constant, scale = (self.numbers[name][output] for name in names)
        kernels = zip(self.blocks, compared, self.weights[output], self.lengths[output])
        similar = [
            weight * kernel(block, matrix, length)[0][0]
            for block, matrix, weight, length in kernels
        ]
        return constant, scale * np.stack(similar) * self.dual[:, output]

    def pieces(self, raw: Mapping[str, NDArray]) -> Iterator[dict[str, Floats]]:
        """`Reference.compare` with the training molecules [q, n] by block, for some
        molecules at a time."""
        for start in range(0, max(len(raw["vectors"]), 1), QUERY_ROWS):
            part = slice(start, start + QUERY_ROWS)
            yield {
                block: self.references[block].compare(raw[block][part])
                for block in {*self.read_blocks, "vectors"}
            }

    def _latent(self, of_block: Mapping[str, Floats]) -> tuple[Floats, Floats, Floats]:
        """Mean and variance of the standardised latent values [q, T], and the score of
        the domain, from one of `pieces`."""
        compared, _ = self.with_scores(of_block)
        squares = of_block["vectors"]
        mean = np.zeros((len(squares), self.targets.num_outputs))
        variance = np.zeros_like(mean)
        for weights, lengths, members in kernels_of_outputs(self.weights, self.lengths):
            similar = weighted_sum(self.blocks, compared, weights, lengths)
            mean[:, members] = similar @ self.dual[:, members]
            for spread in np.unique(self.spread_of_target[members]):
                projected = (
                    similar[:, self.spread_rows[spread]] @ self.spread_factor[spread]
                )
                left = weights.sum() - (projected**2).sum(1)
                chosen = members[self.spread_of_target[members] == spread]
                variance[:, chosen] = np.maximum(left, 0)[:, None]
        nearest = nearest_of(squares, self.domain.labelled)
        return mean, variance, self.domain.similarity_quantile(np.sqrt(nearest))

    def with_scores(
        self, of_block: Mapping[str, Floats]
    ) -> tuple[list[Floats], Floats]:
        """Blocks of one of `pieces`, in the order of `blocks`, and the values of the first
        stage [q, T], which one of them compares; [q, 0] without."""
        compared = [of_block[block] for block in self.read_blocks]
        first = self.first
        if first is None:
            return compared, np.empty((len(of_block["vectors"]), 0))
        values = np.empty((len(of_block["vectors"]), first.dual.shape[1]))
        for *own, members in kernels_of_outputs(first.weights, first.lengths):
            similar = weighted_sum(self.read_blocks, compared, *own)
            values[:, members] = similar @ first.dual[:, members]
        scores = self.references[SCORES].compare(values)
        compared.insert(self.blocks.index(SCORES), scores)
        return compared, values

    def save(self, path: PathName) -> None:
        """Write the file; a file of that name is replaced."""
        meta, arrays = self.domain.contents()
        meta |= {
            "version": VERSION,
            "checkpoint": self.checkpoint,
            "layers": self.layers,
            "blocks": self.blocks,
            "targets": self.targets.to_dict(),
            "extra_columns": self.extra_columns,
        }
        arrays |= self.raw | self.numbers
        arrays |= {name: getattr(self, name) for name in _ARRAYS}
        for index, (rows, factor) in enumerate(
            zip(self.spread_rows, self.spread_factor)
        ):
            triangle = factor[np.triu_indices(len(rows))]
            arrays |= {
                f"spread_rows_{index}": rows,
                f"spread_factor_{index}": triangle,
            }
        if self.first is not None:
            arrays |= {f"first_{name}": part for name, part in vars(self.first).items()}
        if "fingerprint" in arrays:  # most counts are 0
            counts = arrays.pop("fingerprint").reshape(-1)
            arrays["bits_at"] = np.flatnonzero(counts)
            arrays["bits_count"] = counts[arrays["bits_at"]]
        write_arrays(path, meta, arrays)


def read_estimator(
    path: PathName, checkpoint: str | None = None
) -> "GPEstimator | TreesEstimator":
    """Read a head, or trees; for ``checkpoint`` and errors see `reading`."""
    with reading(path, "head", VERSION, checkpoint) as contents:
        meta, arrays = contents
        is_trees = meta.get("model") == TREES
        head = (
            TreesEstimator.from_contents(meta, arrays)
            if is_trees
            else _gp_of(meta, arrays)
        )
        # Arrays that do not fit each other fail here, with the name of the file.
        head.predict_features({name: x[:1] for name, x in head.known_features.items()})
        return head


def _gp_of(meta: dict[str, Any], arrays: dict[str, NDArray]) -> GPEstimator:
    blocks = meta["blocks"]
    domain = Domain.from_contents(meta, arrays)
    targets = TargetSchema.of(**meta["targets"])
    width = arrays["descriptors"].shape[1] if "descriptors" in blocks else len(COMPUTED)
    if width != len(COMPUTED):
        raise ValueError(
            f"{width} descriptors, expected {len(COMPUTED)}: another version of RDKit "
            "wrote it; fit the head again"
        )
    # numpy would broadcast arrays of other targets or molecules, or not notice them.
    rows = len(domain.vectors)
    outputs = targets.num_outputs
    shapes = dict.fromkeys(_NUMBERS, (outputs,))
    shapes |= dict.fromkeys(("weights", "lengths"), (outputs, len(blocks)))
    shapes |= {"dual": (rows, outputs), "spread_of_target": (outputs,)}
    shapes |= {"labelled": (rows, outputs), "extra": (rows, len(meta["extra_columns"]))}
    for name in shapes.keys() & arrays.keys():
        if arrays[name].shape != shapes[name]:
            raise ValueError(f"{name} {arrays[name].shape}, expected {shapes[name]}")
    stored = [name for name in blocks if name not in ("vectors", "fingerprint")]
    raw = {name: arrays[name] for name in stored}
    if "fingerprint" in blocks:
        counts = np.zeros((len(domain.vectors), MORGAN_BITS), np.uint8)
        counts.reshape(-1)[arrays["bits_at"]] = arrays["bits_count"]
        raw["fingerprint"] = counts
    first = None
    if SCORES in blocks:
        first = FirstStage(
            *(arrays[f"first_{part.name}"] for part in fields(FirstStage))
        )
    spread_rows = []
    spread_factor = []
    for index in range(int(arrays["spread_of_target"].max()) + 1):
        spread_rows.append(rows := arrays[f"spread_rows_{index}"])
        spread_factor.append(np.zeros((len(rows), len(rows))))
        triangle = np.triu_indices(len(rows))
        spread_factor[-1][triangle] = arrays[f"spread_factor_{index}"]
    return GPEstimator(
        targets,
        meta["checkpoint"],
        meta["layers"],
        blocks,
        raw,
        domain,
        numbers={name: arrays[name] for name in _NUMBERS},
        spread_rows=spread_rows,
        spread_factor=spread_factor,
        extra_columns=meta["extra_columns"],
        first=first,
        **{name: arrays[name] for name in _ARRAYS},
    )


def interpolated_factors(
    points: Floats, factors: Floats, values: Floats, std: Floats
) -> Floats:
    """Factors of standard deviations [q] by curves [2, K] over the predicted value and the
    standard deviation, see `fitted_factors`."""
    return np.interp(values, points[0], factors[0]) * np.interp(
        std, points[1], factors[1]
    )


def kernels_of_outputs(
    weights: Floats, lengths: Floats
) -> Iterator[tuple[Floats, Floats, NDArray[np.int64]]]:
    """Weights and lengths [B] of each different kernel, and the targets that have it."""
    kernels = np.concatenate([weights, lengths], 1)
    _, group_of_target = np.unique(kernels, axis=0, return_inverse=True)
    for group in range(group_of_target.max() + 1):
        members = np.flatnonzero(group_of_target.reshape(-1) == group)
        yield weights[members[0]], lengths[members[0]], members
