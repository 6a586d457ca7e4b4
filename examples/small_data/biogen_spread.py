"""How well spreads rank errors: five folds of the training molecules of Biogen's ADME set.

    python examples/small_data/biogen_spread.py biogen_polaris.csv.gz

The file has the columns endpoint, split, smiles and y (a logarithm); its test molecules are
not used. Prints both tables of the page: Spearman's correlation of a spread and the absolute
error, for the head and for other measures; and all metrics of the head's spread. A metric is
the mean over the folds, but for the area, whose folds are put together, because 25 molecules
have a large area by chance.
"""

import sys
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from sklearn.ensemble import RandomForestRegressor
from tables import table

from graphormer_plugin import hub
from graphormer_plugin.cli import CommandParser, command
from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.heads.calibration import SPREAD_SCORES, spread_scores
from graphormer_plugin.heads.fit import BLOCKS, fit_on_features
from graphormer_plugin.heads.head import Head
from graphormer_plugin.heads.kernels import raw_features

FOLDS, TREES = 5, 100


def measures(
    raw: dict[str, np.ndarray], smiles: np.ndarray, y: np.ndarray, test: np.ndarray
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Errors of the head for the molecules of a fold, and measures that may rank them.

    Args:
        raw: Features of n molecules by block.
        smiles: SMILES of the molecules [n].
        y: Labels [n].
        test: Whether a molecule is in the fold, bool [n].
    """
    train = {block: x[~test] for block, x in raw.items()}
    left = {block: x[test] for block, x in raw.items()}
    rest = [*smiles[~test]], y[~test, None], TargetSchema(["y"])

    def fit(*blocks: str) -> Head:
        return fit_on_features(train, *rest, blocks=blocks)

    head = fit(*BLOCKS)
    found = head.predict_features(left)
    head.curve[:] = 1
    variance = head.predict_features(left).std
    members = [fit(block).predict_features(left).values for block in BLOCKS]
    forest = RandomForestRegressor(TREES, max_features=1 / 3, random_state=1)
    x, of_left = (
        np.nan_to_num(
            np.concatenate([part["fingerprint"], part["descriptors"]], 1), posinf=0
        ).clip(-1e6, 1e6)
        for part in (train, left)
    )
    forest.fit(x, y[~test])
    trees = [tree.predict(of_left) for tree in forest.estimators_]
    return y[test] - found.values[:, 0], {
        "spread of the head": found.std[:, 0],
        "before calibration: variance of the Gaussian process": variance[:, 0],
        "1 - `in_domain`": 1 - found.in_domain,
        "three heads, one for each block": np.std(members, 0)[:, 0],
        "trees of a random forest": np.std(trees, 0),
    }


@command
def main(arguments: Sequence[str] | None = None) -> None:
    parser = CommandParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file")
    parser.add_argument("--start", default="grpe_small_descriptors")
    args = parser.parse_args(arguments)
    labels = pd.read_csv(args.file).query("split == 'train'")
    wide = labels.groupby(["smiles", "endpoint"]).y.first().unstack()
    predictor = hub.load(args.start, head=None, domain=False)
    molecules = predictor.read([*wide.index])
    vectors = predictor.embed(molecules)
    raw = {block: raw_features(block, vectors, molecules.described) for block in BLOCKS}
    ranks, scores = defaultdict(list), []
    for endpoint in wide:
        known = wide[endpoint].notna().to_numpy()
        smiles, y = wide.index[known].to_numpy(), wide.loc[known, endpoint].to_numpy()
        of_known = {block: x[known] for block, x in raw.items()}
        fold = np.random.default_rng(1).permutation(len(y)) % FOLDS
        folds = [measures(of_known, smiles, y, fold == k) for k in range(FOLDS)]
        for name in folds[0][1]:
            found = [spearmanr(m[name], np.abs(e)).statistic for e, m in folds]
            ranks[name].append(np.mean(found))
        pairs = [(errors, of["spread of the head"]) for errors, of in folds]
        mean = pd.DataFrame([spread_scores(*pair) for pair in pairs]).mean()
        whole = spread_scores(*map(np.concatenate, zip(*pairs)))
        mean["miscalibration"] = whole["miscalibration"]
        scores.append(mean[[*SPREAD_SCORES]])
        print(endpoint, "measured", file=sys.stderr, flush=True)

    def line(name: str, values: Sequence[float]) -> list[str]:
        return [name, *(f"{value:.3f}" for value in [*values, np.mean(values)])]

    header = ["", *wide, "mean"]
    print(table(header, [line(name, values) for name, values in ranks.items()]))
    print(
        table(header, [line(name, [s[name] for s in scores]) for name in SPREAD_SCORES])
    )


if __name__ == "__main__":
    sys.exit(main())
