"""Fit boosted trees: five members, each without a tenth of the molecules."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.special import logit
from sklearn.linear_model import LogisticRegression

from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.estimators import MAX_ROWS
from graphormer_plugin.estimators.domain import Domain, MoleculeDescription
from graphormer_plugin.estimators.kernels import Floats
from graphormer_plugin.estimators.trees import (
    LEAVES,
    SPLIT,
    TreesEstimator,
    domain_vectors,
    feature_table,
)
from graphormer_plugin.workbench.fitting.solver import sample

MEMBERS = 5
FOLDS = 10  # a member is without one of them, half of the molecules are seen by all
# Our choice, after a few fits that were scored on the validation molecules of Peptides-func,
# and in folds of the training molecules of Biogen's HLM clearance.
OPTIONS = {
    "learning_rate": 0.1,
    "num_leaves": LEAVES,
    "min_data_in_leaf": 5,
    "feature_fraction": 0.3,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
}


def fit_trees(
    raw: dict[str, NDArray],
    description: MoleculeDescription,
    labels: Floats,
    schema: TargetSchema,
    digest: str = "",
    *,
    trees: int,
    seed: int = 1,
    weights: Floats | None = None,
    extra_columns: Sequence[str] = (),
) -> TreesEstimator:
    """Fit trees per target, or per class of a multiclass target.

    The errors of the members on the molecules that they have not seen give the noise, and
    the logistic function that makes probabilities of classes (Platt scaling).

    Args:
        raw: features of n molecules by block, see `molecule_features`.
        description: of the molecules.
        labels: [n, T], NaN for a missing label. A bound counts as a label.
        trees: trees of a member for an output.
        weights: weights of the labels [n, T], >= 0; only their ratios count.
        extra_columns: names of the features of the block ``extra``.
    """
    rng = np.random.default_rng(seed)
    table = feature_table(raw, extra_columns)
    if weights is None:
        weights = np.ones(labels.shape)
    labels = schema.output_labels(labels)
    weights = weights[:, schema.target_of_output]
    labels = np.where(weights > 0, labels, np.nan)
    fold = rng.permutation(len(labels)) % FOLDS
    boosting = Boosting(table, schema, trees, seed)
    numbers = [
        boosting.fit(output, *columns, fold)
        for output, columns in enumerate(zip(labels.T, weights.T, strict=True))
    ]
    extra = raw["extra"] if extra_columns else np.empty((len(labels), 0))
    near = sample(np.arange(len(labels)), MAX_ROWS, rng)
    vectors = domain_vectors(raw["descriptors"][near])
    domain = Domain.of(vectors, description[near], ~np.isnan(labels[near]), extra)
    domain.molecules = np.unique(description.identity)
    return TreesEstimator(
        schema,
        digest,
        domain,
        boosting.splits,
        boosting.leaves,
        numbers=dict(zip(("offset", "scale", "noise"), np.array(numbers).T)),
        typical_extra=np.nanmean(extra, 0),
        extra_columns=list(extra_columns),
    )


class Boosting:
    """Trees that grow on the same features: ``splits`` and ``leaves`` of `TreesEstimator`."""

    def __init__(
        self, table: NDArray[np.float32], schema: TargetSchema, trees: int, seed: int
    ) -> None:
        import lightgbm  # not before: it takes a second, and predictions do not need it

        self.lightgbm = lightgbm
        self.table = csr_matrix(table)
        self.is_number = schema.is_number_of_output
        self.trees = trees
        self.options = OPTIONS | {
            "num_threads": 1,  # its threads wait for each other at every node
            "use_missing": False,
            "deterministic": True,
            "force_col_wise": True,
            "verbose": -1,
        }
        self.data = lightgbm.Dataset(
            self.table, params=self.options, free_raw_data=False
        ).construct()
        self.seed = seed
        # All are a leaf of value 0: trees that did not grow.
        shape = MEMBERS, schema.num_outputs, trees
        self.splits = np.zeros((LEAVES - 1, *shape), SPLIT)
        self.leaves = np.zeros((LEAVES, *shape))

    def fit(
        self, output: int, labels: Floats, weights: Floats, fold: NDArray[np.int64]
    ) -> tuple[float, float, float]:
        """Grow the members of an output by labels and weights [n]; member k does not see the
        molecules of fold k.

        Returns:
            offset, scale and noise, see `TreesEstimator`. Without two different labels no tree
            grows; without any, the offset is NaN.
        """
        is_number = self.is_number[output]
        objective = {"objective": "regression" if is_number else "binary"}
        rows = np.flatnonzero(~np.isnan(labels))
        y = labels[rows]
        if len(np.unique(y)) < 2:
            value = y[0] if len(y) else np.nan
            return (value if is_number else logit(value)), 1.0, 0.0
        mean = y.mean() if is_number else 0.0
        std = y.std() if is_number else 1.0
        y = (y - mean) / std
        found = np.full(len(rows), np.nan)

        def _grow(member: int) -> None:
            unseen = fold[rows] == member
            is_learned = ~unseen if len(np.unique(y[~unseen])) > 1 else unseen | True
            part = self.data.subset(rows[is_learned]).construct()
            part.set_label(y[is_learned])
            part.set_weight(weights[rows[is_learned]])
            options = self.options | objective | {"seed": self.seed + member}
            booster = self.lightgbm.train(options, part, self.trees)
            if unseen.any():
                found[unseen] = booster.predict(
                    self.table[rows[unseen]], raw_score=True, num_threads=1
                )
            for index, tree in enumerate(booster.dump_model()["tree_info"]):
                splits: list[tuple[int, float, int]] = []
                leaves: list[float] = []
                _flatten(tree["tree_structure"], splits, leaves)
                self.splits[: len(splits), member, output, index] = splits
                self.leaves[: len(leaves), member, output, index] = leaves

        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            for _ in pool.map(_grow, range(MEMBERS)):  # or its error
                pass
        is_unseen = ~np.isnan(found)
        y = y[is_unseen]
        found = found[is_unseen]
        of_rows = weights[rows[is_unseen]]
        if is_number:
            noise = (
                np.sqrt(np.average((y - found) ** 2, weights=of_rows)) if len(y) else 1
            )
            return mean, std, std * noise
        if len(np.unique(y)) > 1:
            platt = LogisticRegression().fit(found[:, None], y, of_rows)
            if platt.coef_[0, 0] > 0:  # not by chance, with few labels
                return platt.intercept_[0], platt.coef_[0, 0], 0.0
        return 0.0, 1.0, 0.0


def _flatten(
    node: dict[str, Any], splits: list[tuple[int, float, int]], leaves: list[float]
) -> None:
    """Add the splits of LightGBM's node and of those below it, and their leaves from left to
    right."""
    if "leaf_value" in node:
        leaves.append(node["leaf_value"])
        return
    first = len(leaves)
    _flatten(node["left_child"], splits, leaves)
    lost = 2 ** len(leaves) - 2**first
    splits.append((node["split_feature"], _float32(node["threshold"]), lost))
    _flatten(node["right_child"], splits, leaves)


def _float32(threshold: float) -> np.float32:
    """The largest float32 that is not above a threshold: the same float32 are above both."""
    rounded = np.float32(threshold)
    if float(rounded) > threshold:  # else numpy would round the threshold, too
        return np.nextafter(rounded, np.float32(-np.inf))
    return rounded
