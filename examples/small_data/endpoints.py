"""Do endpoints help each other? A head of each of Biogen's six, a head of all, and a
coregionalised process.

    python examples/small_data/endpoints.py DATA/biogen_polaris.csv.gz

Five folds of the molecules of the training rows; the test rows have no part in it. The
output is the table of the page.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from contenders import rows_of
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from tables import table

from graphormer_plugin import hub
from graphormer_plugin.cli import CommandParser, command
from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.heads.fit import BLOCKS, fit_on_features
from graphormer_plugin.heads.head import Head
from graphormer_plugin.heads.kernels import Reference, raw_features, weighted_sum

FOLDS = 5
# Molecules with labels of two endpoints, for their correlation; our choice.
COMMON = 30
Features = dict[str, NDArray]  # by block


def fitted(
    raw: Features, smiles: NDArray, labels: NDArray, names: Sequence[str]
) -> Head:
    """A head of some targets, fitted to the molecules with a label."""
    kept = ~np.isnan(labels).all(1)
    train = rows_of(raw, kept)
    return fit_on_features(train, list(smiles[kept]), labels[kept], TargetSchema(names))


def coregionalised(
    heads: Sequence[Head], train: Features, labels: NDArray, test: Features
) -> NDArray:
    """Predictions [q, T] of one Gaussian process of all endpoints: the covariance of two
    labels is the kernel of their molecules times the correlation of their endpoints.

    The kernel is the mean of the kernels of a head of each endpoint, whose noise and scale
    of the labels count, too. The correlations are of labels with noise, so they are smaller
    than between the functions behind them.
    """
    offset, scale, noise = (
        np.array([head.numbers[name][0] for head in heads])
        for name in ("offset", "scale", "noise")
    )
    values = (labels - offset) / scale
    related = (
        pd.DataFrame(values).corr(min_periods=COMMON).fillna(0).to_numpy(copy=True)
    )
    np.fill_diagonal(related, 1)
    parts, vectors = np.linalg.eigh(related)
    related = vectors * np.maximum(parts, 0) @ vectors.T  # the nearest covariance
    related /= np.sqrt(np.outer(np.diag(related), np.diag(related)))
    references = [Reference(block, train[block]) for block in BLOCKS]

    def _kernel(raw: Features) -> NDArray:
        compared = [one.compare(raw[one.block]) for one in references]
        kernels = (
            weighted_sum(BLOCKS, compared, head.weights[0], head.lengths[0])
            for head in heads
        )
        return sum(kernels) / len(heads)

    of, target = np.nonzero(~np.isnan(values))
    matrix = _kernel(train)[np.ix_(of, of)] * related[np.ix_(target, target)]
    matrix[np.diag_indices(len(of))] += noise[target]
    dual = cho_solve(cho_factor(matrix, overwrite_a=True), values[of, target])
    similar = _kernel(test)[:, of]
    columns = [(similar * row[target]) @ dual for row in related]
    return offset + scale * np.stack(columns, 1)


@command
def main(arguments: Sequence[str] | None = None) -> None:
    parser = CommandParser(description=__doc__.partition("\n")[0])
    parser.add_argument("table", type=Path, help="endpoint, split, smiles, y")
    parser.add_argument("--start", default="grpe_minimol", help="pre-trained model")
    args = parser.parse_args(arguments)
    rows = pd.read_csv(args.table).query("split == 'train'")
    wide = rows.groupby(["smiles", "endpoint"]).y.first().unstack()
    names, smiles, labels = list(wide), wide.index.to_numpy(), wide.to_numpy()
    start = hub.load(args.start, head=None, domain=False)
    molecules = start.read(list(smiles))
    vectors = start.embed(molecules)
    raw = {b: raw_features(b, vectors, molecules.described) for b in BLOCKS}
    fold = np.random.default_rng(1).permutation(len(labels)) % FOLDS
    errors = np.zeros((3, FOLDS, len(names)))
    for number in range(FOLDS):
        test = fold == number
        learn, left = rows_of(raw, ~test), rows_of(raw, test)
        known, of = labels[~test], smiles[~test]
        heads = [
            fitted(learn, of, known[:, [at]], [name]) for at, name in enumerate(names)
        ]
        alone = np.hstack([head.predict_features(left).values for head in heads])
        together = fitted(learn, of, known, names).predict_features(left).values
        one_process = coregionalised(heads, learn, known, left)
        for row, values in enumerate((alone, together, one_process)):
            squares = np.nanmean((values - labels[test]) ** 2, axis=0)
            errors[row, number] = np.sqrt(squares)
        print(number, errors[:, number].round(4).tolist(), file=sys.stderr, flush=True)
    lines = [["a head of each endpoint, RMSE"]]
    lines[0] += [f"{x:.3f}" for x in errors[0].mean(0)]
    for title, of_title in zip(("a head of all six", "coregionalised"), errors[1:]):
        gain = errors[0] - of_title
        spread = gain.std(0, ddof=1) / np.sqrt(FOLDS)
        lines.append([f"{title}, RMSE", *(f"{x:.3f}" for x in of_title.mean(0))])
        cells = [f"{x:+.3f} ± {s:.3f}" for x, s in zip(gain.mean(0), spread)]
        lines.append([f"{title}, gain", *cells])
    print(table(["", *names], lines))


if __name__ == "__main__":
    sys.exit(main())
