"""Do endpoints help each other? A head of all six of Biogen's ADME set, and one of each.

    python examples/small_data/endpoints.py DATA/biogen_polaris.csv.gz

Five folds of the molecules of the training rows; the test rows have no part in it. The
output is the table of the page.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent))

from tables import table

from graphormer_plugin import hub
from graphormer_plugin.cli import CommandParser, command
from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.heads.fit import BLOCKS, fit_on_features
from graphormer_plugin.heads.kernels import raw_features

FOLDS = 5


def predicted(
    raw: dict[str, NDArray],
    smiles: NDArray,
    labels: NDArray,
    test: NDArray,
    names: Sequence[str],
) -> NDArray:
    """Predictions [n of test, T] of a head of some targets, fitted to the other rows."""
    kept = ~test & ~np.isnan(labels).all(1)
    train = {block: features[kept] for block, features in raw.items()}
    head = fit_on_features(train, list(smiles[kept]), labels[kept], TargetSchema(names))
    return head.predict_features({b: x[test] for b, x in raw.items()}).values


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
    errors = np.zeros((2, FOLDS, len(names)))
    for number in range(FOLDS):
        test = fold == number
        alone = [
            predicted(raw, smiles, labels[:, [at]], test, [name])
            for at, name in enumerate(names)
        ]
        together = predicted(raw, smiles, labels, test, names)
        for row, values in enumerate((np.hstack(alone), together)):
            squares = np.nanmean((values - labels[test]) ** 2, axis=0)
            errors[row, number] = np.sqrt(squares)
        print(number, errors[:, number].round(4).tolist(), file=sys.stderr, flush=True)
    gain = errors[0] - errors[1]
    spread = gain.std(0, ddof=1) / np.sqrt(FOLDS)
    lines = [
        ["a head of each endpoint, RMSE", *(f"{x:.3f}" for x in errors[0].mean(0))],
        ["a head of all six, RMSE", *(f"{x:.3f}" for x in errors[1].mean(0))],
        ["gain", *(f"{x:+.3f} ± {s:.3f}" for x, s in zip(gain.mean(0), spread))],
    ]
    print(table(["", *names], lines))


if __name__ == "__main__":
    sys.exit(main())
