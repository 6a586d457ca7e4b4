"""Trials of settings, from which the defaults of heads and of graphormer-train come.

    python examples/small_data/trials.py runs/small_data --data DATA

The folder gets the splits, the features and trials.tsv. A line that is there is not
measured again, so the same command goes on where it was stopped. Commands with other
`--trials` may run beside it. Figures are of test, or of valid where it says so, which
selects the epoch of a training.
"""

import argparse
import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import contenders
import numpy as np
import pandas as pd
import spreads
from measure import append, commit, mean_score, read_rows
from numpy.typing import NDArray
from scipy.stats import rankdata
from sets import SETS, SPLITS, write_splits
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from graphormer_plugin import hub
from graphormer_plugin.cli import CommandParser, command
from graphormer_plugin.experiment.scores import MAIN
from graphormer_plugin.experiment.settings import FINETUNE, HEAD
from graphormer_plugin.experiment.steps import PREDICTIONS
from graphormer_plugin.heads import fixed_kernels as classes
from graphormer_plugin.heads import gaussian_processes
from graphormer_plugin.heads.fit import BLOCKS
from graphormer_plugin.heads.head import Head
from graphormer_plugin.heads.kernels import Floats, weighted_sum
from graphormer_plugin.heads.prediction import Prediction
from graphormer_plugin.inference.checkpoint import DEFAULT_START

COLUMNS = "trial setting set split part metric value commit".split()
START = "grpe_small_descriptors"
SMALL = ("esol", "freesolv", "lipophilicity", "bbbp")
ROUNDING = 1e-9  # of the largest eigenvalue; a smaller one counts as 0


@dataclass
class Case:
    """A split of a set, with what several settings need.

    Attributes:
        name: key of `SETS`.
        split: number of the split, also the seed of all models.
        path: its table.
        folder: for what a trial writes.
        fixed: results of `fixed_kernel` by noise.
    """

    name: str
    split: int
    path: Path
    folder: Path
    fixed: dict[float, Floats] = field(default_factory=dict)

    @functools.cached_property
    def table(self) -> pd.DataFrame:
        return pd.read_csv(self.path)

    @property
    def kind(self) -> str:
        return SETS[self.name].kind

    @property
    def targets(self) -> list[str]:
        return contenders.targets_of(self.table)

    @property
    def arguments(self) -> argparse.Namespace:
        """Of `contenders`."""
        return argparse.Namespace(
            table=self.path, start=START, seed=self.split, seconds=0.0
        )

    @functools.cached_property
    def raw(self) -> dict[str, NDArray]:
        """Features of all molecules by block; vectors of the start."""
        return contenders.all_features(self.table, self.arguments)

    def rows(self, *parts: str) -> NDArray[np.bool_]:
        return self.table.split.isin(parts).to_numpy()

    def labels(self, *parts: str) -> Floats:
        """[n of the parts, T], NaN where missing."""
        return self.table.loc[self.rows(*parts), self.targets].to_numpy(float)

    def score(self, part: str, predicted: Floats) -> tuple[str, str]:
        """Metric and value of predictions [n of the part, T]."""
        value, _ = mean_score(self.labels(part), predicted, self.kind)
        return MAIN[self.kind].name, f"{value:.6f}"

    def head(
        self,
        blocks: Sequence[str] = BLOCKS,
        raw: Mapping[str, NDArray] | None = None,
        targets: Sequence[str] | None = None,
        learn: Sequence[str] = ("train", "valid"),
    ) -> Head:
        """A head with the seed of the split, fitted to the molecules of some parts; ``raw``
        are features of all molecules by block, by default those of the case."""
        return contenders.fitted_head(
            self.table[["smiles", *(targets or self.targets)]],
            self.kind,
            raw or self.raw,
            self.rows(*learn),
            blocks=blocks,
            seed=self.split,
        )

    def predict(
        self, head: Head, part: str = "test", raw: Mapping[str, NDArray] | None = None
    ) -> Floats:
        """[n of the part, T]."""
        return self.estimate(head, part, raw).values

    def estimate(
        self, head: Head, part: str = "test", raw: Mapping[str, NDArray] | None = None
    ) -> Prediction:
        """Values and spread [n of the part, T]."""
        features = contenders.rows_of(raw or self.raw, self.rows(part))
        return head.predict_features(features)

    @functools.cached_property
    def default_head(self) -> Head:
        return self.head()

    @functools.cached_property
    def default(self) -> Floats:
        """Predictions for test of a head with its defaults."""
        return self.predict(self.default_head)

    @functools.cached_property
    def forest(self) -> Floats:
        """Predictions of `contenders.forest` for test."""
        return contenders.forest(self.table, self.kind, self.arguments)

    def trained(self, *words: str | int) -> dict[str, list[Floats]]:
        """Predictions [all n, T] of each model of graphormer-train, whether it chooses
        the model or not; by the kind of model."""
        with tempfile.TemporaryDirectory(dir=self.folder) as parent:
            folder = Path(parent, "model")
            command = contenders.train_command(
                self.path, self.targets, self.kind, folder, self.split, *words
            )
            if subprocess.run([*command, "--start", START, "--quiet"]).returncode:
                raise SystemExit(2)  # it has said why
            models = {HEAD: [], FINETUNE: []}
            for kind, found in models.items():
                for file in folder.glob(f"replicate1/{kind}*/{PREDICTIONS}"):
                    found.append(np.load(file)["values"])
        return models

    @functools.cached_property
    def ensemble(self) -> Floats:
        """Predictions for test of the head and of the trainings of ``--ensemble 5``,
        [6, n, T]."""
        found = self.trained("--model", "auto", "--ensemble", 5)
        (head,) = found[HEAD]
        return np.stack([head, *found[FINETUNE]])[:, self.rows("test")]


# Predictions for test [n, T], or for several parts by their names; for classes any
# increasing function of a probability.
Setting = Callable[[Case], Floats | dict[str, Floats]]


def of_blocks(*blocks: str) -> Setting:
    """A head whose kernel is over some blocks."""
    return lambda case: case.predict(case.head(blocks))


def of_start(name: str, *blocks: str) -> Setting:
    """The same with the vectors of a start of the package, or of a file ``.pt`` that
    `pilot.py` has made in the folder."""

    def run(case: Case) -> Floats:
        start = case.folder / name if name.endswith(".pt") else name
        if isinstance(start, Path) and not start.exists():
            raise ValueError(f"{start} is missing; pilot.py makes it")
        raw = {**case.raw, VECTORS: hub.load(start).embed(case.table.smiles.tolist())}
        return case.predict(case.head(blocks, raw), raw=raw)

    return run


def of_vectors(virtual: int, mean: int) -> Setting:
    """A head on the vectors of another read-out alone.

    Args:
        virtual: last layers whose virtual node counts.
        mean: last layers whose mean of the nodes counts.
    """

    def run(case: Case) -> Floats:
        raw = {"vectors": read_out(case.table.smiles.tolist(), virtual, mean)}
        return case.predict(case.head(["vectors"], raw), raw=raw)

    return run


def read_out(smiles: list[str], virtual: int, mean: int) -> NDArray:
    """Vectors [n, (virtual + mean) x D], see `of_vectors`."""
    model, parts = hub.load(START), []
    if virtual:
        parts.append(model.embed(smiles, virtual))
    if mean:
        nodes = model.embed(smiles, mean, nodes=True)
        parts.append(np.stack([each.mean(0) for each in nodes]))
    return np.hstack(parts)


def kernel_of(case: Case) -> tuple[Floats, Floats, Floats]:
    """The kernel that a head has fitted to its only target: between the molecules of train
    and valid, and from test to these; and the labels of train and valid."""
    head, learn, found = case.default_head, ("train", "valid"), []
    for parts in (learn, ("test",)):
        raw = contenders.rows_of(case.raw, case.rows(*parts))
        compared = [head.references[block].compare(raw[block]) for block in head.blocks]
        weights, lengths = head.weights[0], head.lengths[0]
        found.append(weighted_sum(head.blocks, compared, weights, lengths))
    return *found, case.labels(*learn)[:, 0]


def support_vectors(strength: float) -> Setting:
    def run(case: Case) -> Floats:
        own, other, labels = kernel_of(case)
        model = SVC(C=strength, kernel="precomputed").fit(own, labels)
        return model.decision_function(other)[:, None]

    return run


def kernel_logistic(strength: float) -> Setting:
    """Logistic regression on the principal components of the kernel, which are all that
    its minimum depends on."""

    def run(case: Case) -> Floats:
        own, other, labels = kernel_of(case)
        values, vectors = np.linalg.eigh(own)
        kept = values > ROUNDING * values[-1]
        map_of = vectors[:, kept] / np.sqrt(values[kept])
        model = LogisticRegression(C=strength, max_iter=10_000)
        model.fit(own @ map_of, labels)
        return model.decision_function(other @ map_of)[:, None]

    return run


def fixed_kernel(noise: float) -> Callable[[Case], Floats]:
    """A head per target, whose kernel is not fitted."""

    def run(case: Case) -> Floats:
        if noise not in case.fixed:
            with (
                mock.patch.object(
                    gaussian_processes, "has_fixed_kernel", lambda labels: True
                ),
                mock.patch.object(classes, "CLASS_NOISE", noise),
            ):
                heads = [case.head(targets=[target]) for target in case.targets]
            case.fixed[noise] = np.hstack([case.predict(head) for head in heads])
        return case.fixed[noise]

    return run


def fitted_kernel(case: Case) -> Floats:
    """Marginal likelihood for each target."""
    with mock.patch.object(
        gaussian_processes, "has_fixed_kernel", lambda labels: False
    ):
        return case.predict(case.head())


def mean_of_ranks(case: Case) -> Floats:
    """Of a fixed kernel with noise 3 and of the random forest, for each target."""
    both = fixed_kernel(3)(case), case.forest
    return np.mean([rankdata(one, axis=0) for one in both], 0)


def fine_tuned(*words: str) -> Setting:
    """Best epoch on valid of graphormer-train with further flags."""

    def run(case: Case) -> dict[str, Floats]:
        (found,) = case.trained("--model", FINETUNE, *words)[FINETUNE]
        return {part: found[case.rows(part)] for part in ("valid", "test")}

    return run


def head_of_train(case: Case) -> dict[str, Floats]:
    """A head that has not seen the molecules of valid."""
    head = case.head(learn=["train"])
    return {part: case.predict(head, part) for part in ("valid", "test")}


@dataclass(frozen=True)
class Trial:
    """Settings that are compared on some splits of some sets.

    Attributes:
        sets: names of sets.
        splits: number of splits, from the first.
        settings: by name.
        score: metric and value of a setting's predictions for a part.
    """

    sets: Sequence[str]
    splits: int
    settings: Mapping[str, Setting]
    score: Callable[[Case, str, Floats], tuple[str, str]] = Case.score


VECTORS, MORGAN, DESCRIPTORS = BLOCKS
FIXED_KERNELS = {
    "fixed kernel, classes of equal weight, noise 0.3": fixed_kernel(0.3),
    "the same, noise 1": fixed_kernel(1),
    "the same, noise 3": fixed_kernel(3),
}
FOREST = {f"random forest, {contenders.TREES} trees": lambda case: case.forest}
TRIALS = {
    "blocks": Trial(
        SMALL,
        SPLITS,
        {
            "Morgan counts": of_blocks(MORGAN),
            "descriptors": of_blocks(DESCRIPTORS),
            "Morgan counts + descriptors": of_blocks(MORGAN, DESCRIPTORS),
            "vectors": of_blocks(VECTORS),
            "vectors + descriptors": of_blocks(VECTORS, DESCRIPTORS),
            "vectors + Morgan counts + descriptors": of_blocks(*BLOCKS),
        },
    ),
    "readouts": Trial(
        ("esol", "freesolv"),
        SPLITS,
        {
            "virtual node, last layer (the vectors)": of_vectors(1, 0),
            "virtual node, last 3 layers": of_vectors(3, 0),
            "mean of nodes, last layer": of_vectors(0, 1),
            "virtual node and mean of nodes, last layer": of_vectors(1, 1),
        },
    ),
    "classifiers": Trial(
        ("bbbp",),
        SPLITS,
        {
            "Gaussian process on the labels with a logistic function (the head)": (
                lambda case: case.default
            ),
            "support vectors, C = 1": support_vectors(1),
            "support vectors, C = 10": support_vectors(10),
            "kernel logistic regression, C = 1": kernel_logistic(1),
            "kernel logistic regression, C = 10": kernel_logistic(10),
            **FIXED_KERNELS,
            **FOREST,
            "mean of the head and the forest": (
                lambda case: (case.default + case.forest) / 2
            ),
        },
    ),
    "assays": Trial(
        ("tox21",),
        2,
        {
            "marginal likelihood of 1,000 molecules for each assay": fitted_kernel,
            **FIXED_KERNELS,
            "the same, and scores of a first stage for all assays (the head)": (
                lambda case: case.default
            ),
            **FOREST,
            "mean of the ranks of noise 3 and the forest": mean_of_ranks,
        },
    ),
    "finetuning": Trial(
        ("freesolv",),
        SPLITS,
        {
            "rate 1e-3 (the default)": fine_tuned(),
            "rate 3e-4": fine_tuned("--lr", "3e-4"),
            "rate 1e-3, `--descriptors`": fine_tuned("--descriptors"),
            "head that has learned from train only": head_of_train,
            "head that has learned from train and valid": lambda case: case.default,
        },
    ),
    "ensemble": Trial(
        ("esol", "bbbp"),
        2,
        {
            "five trainings": lambda case: case.ensemble[1:].mean(0),
            "the head": lambda case: case.ensemble[0],
            "the head as one of six": lambda case: case.ensemble.mean(0),
            "the head as one half": (
                lambda case: (case.ensemble[0] + case.ensemble[1:].mean(0)) / 2
            ),
        },
    ),
    "spreads": Trial(
        ("esol", "freesolv"),
        SPLITS,
        {
            "spread of the head": spreads.of_head,
            "its root mean square for all molecules": spreads.of_constant,
            "linear quantiles of the vectors, moved by valid": spreads.learned(
                spreads.linear, VECTORS
            ),
            "boosted quantiles of the vectors, moved by valid": (
                spreads.learned(spreads.boosted, VECTORS)
            ),
            "boosted quantiles of vectors + descriptors, moved by valid": (
                spreads.learned(spreads.boosted, VECTORS, DESCRIPTORS)
            ),
            "spread of five trainings, calibrated on valid": spreads.of_ensemble,
        },
        spreads.score,
    ),
    "starts": Trial(
        tuple(SETS),
        SPLITS,
        {f"`{name}`": of_start(name, *BLOCKS) for name in (START, DEFAULT_START)},
    ),
    "targets": Trial(  # last: it needs what pilot.py makes
        SMALL,
        SPLITS,
        {
            "vectors alone: descriptors": of_start("pilot/descriptors.pt", VECTORS),
            "vectors alone: descriptors + 256 bits": of_start("pilot/bits.pt", VECTORS),
            "all blocks: descriptors": of_start("pilot/descriptors.pt", *BLOCKS),
            "all blocks: descriptors + 256 bits": of_start("pilot/bits.pt", *BLOCKS),
        },
    ),
}


def run(folder: Path, data: Path, name: str, revision: str) -> None:
    """The figures of a trial that the table lacks."""
    results, trial = folder / "trials.tsv", TRIALS[name]
    done = [[row[column] for column in COLUMNS[:4]] for row in read_rows(results)]
    for set_name in trial.sets:
        paths = write_splits(data, folder / "splits", set_name, SPLITS)
        for split, path in enumerate(paths[: trial.splits], 1):
            case = Case(set_name, split, path, folder)
            for setting, predict in trial.settings.items():
                start = [name, setting, set_name, str(split)]
                if start in done:
                    continue
                found = predict(case)
                found = found if isinstance(found, dict) else {"test": found}
                lines = [
                    [*start, part, *trial.score(case, part, found[part])]
                    for part in found
                ]
                append(results, COLUMNS, [[*line, revision] for line in lines])
                for line in lines:
                    print(*line, flush=True)


@command
def main(arguments: Sequence[str] | None = None) -> None:
    parser = CommandParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("folder", type=Path, help="where splits, features and trials.tsv are written")
    add("--data", type=Path, required=True, help="folder of the sets")
    add("--trials", nargs="+", default=list(TRIALS), choices=TRIALS)
    args = parser.parse_args(arguments)
    revision = commit()  # now: it may be another one when a figure is measured
    os.environ["OMP_NUM_THREADS"] = "1"  # for the trainings that it starts
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in args.trials:
        run(args.folder, args.data, name, revision)


if __name__ == "__main__":
    sys.exit(main())
