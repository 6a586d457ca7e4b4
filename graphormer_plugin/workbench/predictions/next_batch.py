"""``graphormer-next``: the molecules of a table to measure next."""

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from graphormer_plugin.data.errors import counted
from graphormer_plugin.data.files import write_csv
from graphormer_plugin.data.scales import Scale
from graphormer_plugin.data.tables.rows import whole_columns
from graphormer_plugin.data.tables.table import Row
from graphormer_plugin.data.targets import Kind
from graphormer_plugin.estimators.domain import FITTED, MoleculeDescription, is_fitted
from graphormer_plugin.estimators.gp import GPEstimator, Joint
from graphormer_plugin.estimators.kernels import Floats, Reference
from graphormer_plugin.estimators.prediction import Estimate, expit
from graphormer_plugin.inference.member import HeadVectors
from graphormer_plugin.inference.molecules import Molecules
from graphormer_plugin.inference.prediction_columns import (
    OutputColumn,
    free_names,
    number_column,
)
from graphormer_plugin.workbench.predictions import batch_choice
from graphormer_plugin.workbench.predictions.answers import Answer, OfMolecules
from graphormer_plugin.workbench.predictions.run import Asked, Started, started
from graphormer_plugin.workbench.predictions.table_run import TableRun

SURVIVORS = 2000  # candidates of the joint distribution; our choice
LEARN = "learn"
LOWEST = "lowest"
FAILED = "failed"  # rows without a prediction
Kept = dict[bytes, tuple[float, Row]]  # bound and row by molecule and numbers beside it


class Wish(NamedTuple):
    """What is asked for: ``size`` molecules with the highest or `LOWEST` values, or from whose
    values the model would `LEARN` most; their cost is a column (empty: all cost the same).
    """

    size: int
    goal: str
    cost: str = ""

    @property
    def sign(self) -> float:
        """Factor of the values, after which high ones are wanted."""
        return -1.0 if self.goal == LOWEST else 1.0


@dataclass(frozen=True)
class OfCandidates(OfMolecules):
    """Prediction and standard deviation of a target on the scale that models learn: ``values``
    are these two numbers. ValueError without Gaussian processes of one output."""

    target: str | None = None
    width = 2

    def __post_init__(self) -> None:
        for member in self.predictor.members:
            if not isinstance(member.head, GPEstimator):
                raise ValueError(
                    f"{member.name} is {member.head or 'a network without head'}: only "
                    "Gaussian processes predict molecules together; train with "
                    "graphormer-train --model head"
                )
        targets = self.predictor.targets
        if self.target not in (None, *targets.names):
            raise ValueError(
                f"--target {self.target}: expected one of {', '.join(targets.names)}"
            )
        if targets.kinds[self.index] is Kind.MULTICLASS:
            raise ValueError(
                f"--target {targets.names[self.index]} has several classes, expected a "
                "number or two classes; train a model of one class against the others"
            )

    @property
    def index(self) -> int:
        """The target's number."""
        return self.predictor.targets.names.index(self.target) if self.target else 0

    @property
    def output(self) -> int:
        """Its output."""
        return self.predictor.targets.first_outputs[self.index]

    def __call__(self, molecules: Molecules, batch_size: int, extra: Floats) -> Answer:
        """See `OfMolecules`."""
        learned = self.predictor.learned(molecules, batch_size, extra)
        pair = np.stack([x[:, self.output] for x in learned[:2]], 1)
        return Answer(Estimate(pair, None, learned.in_domain), [])

    def columns(self, answer: Answer) -> list[OutputColumn]:
        """None: the few molecules of the batch are predicted again."""
        return []

    def best(self, sign: float) -> float:
        """Highest prediction, times ``sign``, for a molecule with a label; mean of members."""
        best = []
        for member in self.predictor.members:
            labelled = member.head.dual[:, self.output] != 0
            known = {
                name: x[labelled] for name, x in member.head.known_features.items()
            }
            values = member.head.predict_features(known).values[:, self.output]
            best.append((sign * values).max())
        return float(np.mean(best))

    def joints(
        self, molecules: Molecules, batch_size: int, extra: Floats
    ) -> list[Joint]:
        """`GPEstimator.joint` of each member, with the calibration of the folder."""
        vectors: HeadVectors = {}
        joints = []
        for member in self.predictor.members:
            features = member.features(molecules, batch_size, extra, vectors)
            joint = member.head.joint(features, self.output)
            if (scale := self.predictor.scale) is not None:
                std = np.sqrt(joint.covariance.diagonal() + joint.noise)
                ratio = scale(std[:, None])[:, self.output] / std
                joint = Joint(
                    joint.mean,
                    np.outer(ratio, ratio) * joint.covariance,
                    ratio**2 * joint.noise,
                )
            joints.append(joint)
        return joints


def choose_batch(asked: Asked, wish: Wish) -> None:
    """Write the molecules of a table that are to be measured next, best first.

    The whole table is predicted, in parts that outlive a kill, and the `SURVIVORS` are predicted
    together. Copies count once. Molecules that a model was fitted to are left out, unless
    it reads numbers beside them.
    """
    table = asked.table
    lines = asked.lines
    (output,) = asked.outputs
    costs = np.ones(table.count())
    if wish.cost:
        column = whole_columns(table, [table.require(wish.cost)])[wish.cost]
        costs = np.array(column.values)
        wrong = ~((costs > 0) & (costs < np.inf))
        if wrong.any():
            where = f"row {wrong.argmax()}, column {wish.cost!r}"
            raise table.error(f"{where}: expected a cost in every row, above 0")
    answers = functools.partial(OfCandidates, target=asked.options.target)
    with started(asked, answers) as begun:
        if begun is None:
            return
        run = begun.run
        best = run.answers.best(wish.sign)
        outside: Counter[str] = Counter()
        rows = survivors(begun, wish, best, costs, outside)
        if wish.size > len(rows):
            raise ValueError(
                f"--size {wish.size}: {table.path} has {counted(len(rows), 'molecule')} to "
                "choose from; copies, rows without prediction, and molecules that the model "
                "was fitted to, do not count"
            )
        written, text = batch(run, rows, wish, best, costs)
        summary = f"{output}: {wish.size} of {counted(len(costs), 'row')}; {text}"
        if not run.extra and (fitted := outside.pop(FITTED, 0)):
            summary += (
                f"; {counted(fitted, 'row', 'are')} left out, as the model knows them"
            )
        if failed := outside.pop(FAILED, 0):
            summary += f"; {counted(failed, 'row')} without prediction"
        begun.parts.join(0, 0, lambda _: write_csv(output, written), summary)
        lines.result(summary)
        for line in run.lines_about(outside, len(costs)):
            lines.warning(line)


def survivors(
    begun: Started, wish: Wish, best: float, costs: Floats, outside: Counter[str]
) -> list[Row]:
    """The `SURVIVORS` different molecules of the highest bounds, highest first.

    The bound is the expected improvement by cost: what a molecule can add to the expected
    maximum of any batch. To learn, a random sample stands for the table.

    Args:
        outside: gets the sum of `PredictedRows.outside`, and the number of rows `FAILED`.
    """
    run = begun.run
    table = begun.run.table
    index = table.places[run.options.smiles_column]
    rng = np.random.default_rng(1)
    kept: Kept = {}
    least = -np.inf
    first = 0
    for part in begun:
        outside += part.outside + Counter({FAILED: part.failed})
        mean, std = part.values.T
        above = wish.sign * mean - best
        z = above / np.maximum(std, np.finfo(float).tiny)
        bound = above * norm.cdf(z) + std * norm.pdf(z)
        bound /= costs[first : first + len(bound)]
        if wish.goal == LEARN:
            bound = rng.random(len(bound)) + 0 * bound  # NaN without prediction
        rows = [
            Row(first + at, 0, cells[index].strip(), cells[: len(table.header)])
            for at, cells in enumerate(part.cells)
            if bound[at] > least
        ]
        if rows:
            molecules, beside = _read(run, rows)
            description = MoleculeDescription.of(molecules.descriptor_mols)
            known = is_fitted(run.predictor.domains, description) & (not run.extra)
            keys = np.column_stack([description.identity.view(float), beside])
            for row, key, is_known in zip(rows, keys, known, strict=True):
                pair = float(bound[row.number - first]), row
                if not is_known and pair[0] > kept.get(key.tobytes(), (-1, None))[0]:
                    kept[key.tobytes()] = pair
        if len(kept) > 2 * SURVIVORS:
            kept = _best(kept)
            least = min(own for own, _ in kept.values())
        first += len(bound)
    return [row for _, row in _best(kept).values()]


def _best(kept: Kept) -> Kept:
    """The `SURVIVORS` of the highest bounds, highest first."""
    order = sorted(kept.items(), key=lambda item: -item[1][0])
    return dict(order[:SURVIVORS])


def _read(run: TableRun, rows: Sequence[Row]) -> tuple[Molecules, Floats]:
    """Molecules of rows, and the numbers beside them [rows, columns]."""
    molecules, _ = run.read([row.source for row in rows])
    return molecules, run.numbers_beside(rows, {})


def batch(
    run: TableRun, rows: Sequence[Row], wish: Wish, best: float, costs: Floats
) -> tuple[list[list[str]], str]:
    """Header and rows of the batch, chosen among the survivors, and a text about it; ``best``
    as of `OfCandidates.best`."""
    answers = run.answers
    predictor = run.predictor
    target = predictor.targets.targets[answers.index]
    molecules, beside = _read(run, rows)
    joints = answers.joints(molecules, run.batch_size, beside)
    own = costs[[row.number for row in rows]]
    columns = {"rank": np.arange(1, wish.size + 1)}
    if wish.goal == LEARN:
        mean, covariance, noise = (np.mean(x, 0) for x in zip(*joints))
        slope = np.ones(len(rows))
        if not target.kind.is_number:
            slope = expit(mean) * expit(-mean)
        covariance *= np.outer(slope, slope)
        choice = batch_choice.most_informative(
            covariance, noise * slope**2, wish.size, own
        )
        left = columns["variance_left"] = choice.reached
        text = f"measured, they leave {left[-1]:.0%} of the variance of {len(rows):,}"
    else:
        draws = batch_choice.joint_draws(joints, np.random.default_rng(1))
        draws = wish.sign * (draws if target.kind.is_number else expit(draws))
        choice = batch_choice.highest(draws, best, wish.size, own)
        columns["probability_better"] = (draws > best).mean(0)[choice.rows]
        scale = [*predictor.scales, *[Scale.IDENTITY] * (answers.index + 1)][
            answers.index
        ]
        so_far, reached = map(
            scale.inverse, (wish.sign * best, wish.sign * choice.reached)
        )
        columns["expected_best"] = reached
        text = f"best so far {so_far:.4g}, expected best of the batch {reached[-1]:.4g}"
        text = f"{target.name}: {text} {target.label_unit}".rstrip()
    if wish.cost:
        text += f"; {wish.cost} {own[choice.rows].sum():.6g}"
    rows = [rows[row] for row in choice.rows]
    molecules, beside = _read(run, rows)
    if len(rows) > 1:
        counts = molecules.features("fingerprint")
        similar = Reference("fingerprint", counts).compare(counts)
        np.fill_diagonal(similar, -1)
        columns |= {"nearest": similar.argmax(1) + 1, "similarity": similar.max(1)}
    of_all = OfMolecules(predictor)
    new = of_all.columns(of_all(molecules, run.batch_size, beside))
    new += [number_column(name, x) for name, x in columns.items()]
    names = free_names([column.name for column in new], run.table.taken)
    texts = zip(*(column.texts for column in new))
    written = [[*row.cells, *more] for row, more in zip(rows, texts, strict=True)]
    return [[*run.table.header, *names], *written], text
