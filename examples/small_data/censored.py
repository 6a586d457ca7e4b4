"""Labels that are bounds: the error of a head that keeps, drops or believes them.

    python examples/small_data/censored.py DATA

Reads ``lipophilicity.csv`` and two endpoints of ``biogen_polaris.csv.gz`` (their training
molecules) in the folder. In each of five folds, the highest 30 % of the labels
of the other molecules become bounds at that quantile; the test labels stay as they are.
Prints the tables of the page: RMSE of all test molecules and of those above the bound, mean
over the folds ± its standard error, and the difference to the head that keeps the bounds.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import sem
from sets import SETS, molecules
from tables import table

from graphormer_plugin import hub
from graphormer_plugin.cli import CommandParser, command
from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.heads.fit import BLOCKS, fit_on_features
from graphormer_plugin.heads.kernels import raw_features

FOLDS, CUT = 5, 0.7
NAMES = ["lipophilicity", "HLM_CLint", "solubility"]
LINES = (
    "bounds kept",
    "bounds dropped",
    "bounds taken as values",
    "labels without bounds",
)


def labelled(folder: Path, name: str) -> tuple[list[str], np.ndarray]:
    """SMILES and labels [n] of a set, or of an endpoint of Biogen's."""
    if name in SETS:
        found, _ = molecules(folder, name)
        return found.smiles.tolist(), found.t0.to_numpy()
    found = pd.read_csv(folder / "biogen_polaris.csv.gz")
    found = found.query("split == 'train' and endpoint == @name")
    return found.smiles.tolist(), found.y.to_numpy()


def errors(
    raw: dict[str, np.ndarray], smiles: np.ndarray, y: np.ndarray, test: np.ndarray
) -> np.ndarray:
    """RMSE over the molecules of a fold, and over those above the bound, [`LINES`, 2]."""
    of_train = {block: x[~test] for block, x in raw.items()}
    of_test = {block: x[test] for block, x in raw.items()}
    limit = np.quantile(y[~test], CUT)
    is_bound = y[~test] > limit
    cut = np.minimum(y[~test], limit)
    found = []
    for labels, bounds in (
        (cut, is_bound.astype(np.int8)[:, None]),
        (np.where(is_bound, np.nan, cut), None),
        (cut, None),
        (y[~test], None),
    ):
        head = fit_on_features(
            of_train, smiles[~test], labels[:, None], TargetSchema(["y"]), bounds=bounds
        )
        error = head.predict_features(of_test).values[:, 0] - y[test]
        above = y[test] > limit
        found.append([np.sqrt(np.mean(part**2)) for part in (error, error[above])])
    return np.array(found)


@command
def main(arguments: Sequence[str] | None = None) -> None:
    parser = CommandParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--start", default="grpe_minimol")
    parser.add_argument("--sets", nargs="+", default=NAMES)
    args = parser.parse_args(arguments)
    predictor = hub.load(args.start, head=None, domain=False)
    for name in args.sets:
        smiles, y = labelled(args.data, name)
        read = predictor.read(smiles)
        vectors = predictor.embed(read)
        raw = {block: raw_features(block, vectors, read.described) for block in BLOCKS}
        fold = np.random.default_rng(1).permutation(len(y)) % FOLDS
        of_folds = []
        for k in range(FOLDS):
            of_folds.append(errors(raw, np.array(smiles), y, fold == k))
            print(name, k + 1, of_folds[-1].tolist(), file=sys.stderr, flush=True)
        found = np.stack(of_folds)  # [folds, lines, 2]
        rows = []
        for line, values in zip(LINES, found.swapaxes(0, 1), strict=True):
            gain = values[:, 0] - found[:, 0, 0]
            texts = [f"{x.mean():.3f} ± {sem(x):.3f}" for x in (*values.T, gain)]
            rows.append([line, *texts[:2], texts[2] if gain.any() else ""])
        print(table([name, "all, RMSE", "above the bound", "worse by"], rows), "\n")


if __name__ == "__main__":
    sys.exit(main())
