"""What was tried on the way to the defaults of heads and of graphormer-train.

    python examples/small_data/trials.py runs/small_data --data DATA

The folder gets the splits, the features and trials.tsv. A line that is there is not
measured again, so the same command goes on where it was stopped. Commands with other
`--trials` may run beside it. Figures are of test, or of valid where it says so, which
selects the epoch of a training.
"""

import argparse
import contextlib
import csv
import functools
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import contenders
import numpy as np
import pandas as pd
from measure import commit, mean_score
from numpy.typing import NDArray
from scipy.stats import rankdata
from sets import SETS, write_splits
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from graphormer_plugin import hub
from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.experiment.results import RESULTS_FILE
from graphormer_plugin.finetune import classes, fit_head
from graphormer_plugin.inference.head import Head
from graphormer_plugin.inference.kernels import weighted_sum

COLUMNS = "trial setting set split part metric value commit".split()
START = "grpe_small_descriptors"
SPLITS = 5  # of each set
SMALL = ("esol", "freesolv", "lipophilicity", "bbbp")
NO_MORE = 1e-9  # smallest share of a kernel's variance that counts


@dataclass
class Case:
    """A split of a set.

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
    fixed: dict[float, NDArray] = field(default_factory=dict)

    @functools.cached_property
    def table(self) -> pd.DataFrame:
        return pd.read_csv(self.path)

    @property
    def kind(self) -> str:
        return SETS[self.name].kind

    @property
    def metric(self) -> str:
        return "rmse" if self.kind == "regression" else "roc_auc"

    @functools.cached_property
    def labels(self) -> NDArray[np.float64]:
        """[n, T], NaN where missing."""
        return self.table[contenders.targets_of(self.table)].to_numpy(float)

    @functools.cached_property
    def raw(self) -> dict[str, NDArray]:
        """Features of all molecules by block; vectors of the start."""
        smiles = self.table.smiles.tolist()
        features = contenders.features(self.table, self.arguments)
        return {"vectors": hub.load(START).embed(smiles), **features}

    @property
    def arguments(self) -> argparse.Namespace:
        """Of `contenders`."""
        output = self.folder / f"{self.path.stem}.csv"
        return argparse.Namespace(table=self.path, output=output, seed=self.split)

    def rows(self, *parts: str) -> NDArray[np.bool_]:
        return self.table.split.isin(parts).to_numpy()

    def score(self, predicted: NDArray, part: str = "test") -> dict[str, float]:
        """Value by part.

        Args:
            predicted: [n of the part, T].
            part: valid or test.
        """
        return {part: mean_score(self.labels[self.rows(part)], predicted, self.kind)[0]}

    def head(
        self,
        blocks: Sequence[str] = fit_head.BLOCKS,
        vectors: NDArray | None = None,
        targets: Sequence[int] | None = None,
        learn: Sequence[str] = ("train", "valid"),
    ) -> Head:
        """A head that has learned from parts of the table."""
        raw = self.raw if vectors is None else {**self.raw, "vectors": vectors}
        labels = self.labels if targets is None else self.labels[:, targets]
        rows = self.rows(*learn)
        return fit_head.fit_on_features(
            {block: values[rows] for block, values in raw.items()},
            self.table.smiles[rows].tolist(),
            labels[rows],
            TargetSchema([f"t{at}" for at in range(labels.shape[1])], kind=self.kind),
            blocks=blocks,
            seed=self.split,
        )

    def predict(
        self, head: Head, part: str = "test", vectors: NDArray | None = None
    ) -> NDArray[np.float64]:
        """[n of the part, T]."""
        raw = self.raw if vectors is None else {**self.raw, "vectors": vectors}
        rows = self.rows(part)
        features = {block: values[rows] for block, values in raw.items()}
        return head.predict_features(features).values

    @functools.cached_property
    def default(self) -> NDArray[np.float64]:
        """What a head with its defaults predicts for test."""
        return self.predict(self.head())

    @functools.cached_property
    def forest(self) -> NDArray[np.float64]:
        """Predictions of `contenders.forest` for test."""
        return contenders.forest(self.table, self.kind, self.arguments)

    @functools.cached_property
    def ensemble(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Predictions for test of the head [n, T] and of the five trainings [5, n, T] of
        ``--ensemble 5``."""
        smiles = self.table.smiles[self.rows("test")].tolist()
        with trained(self, "--model", "auto", "--ensemble", 5) as folder:
            members = hub.load(folder).members
        (head,) = [one.predict(smiles) for one in members if one.head is not None]
        rest = [one.predict(smiles) for one in members if one.head is None]
        return head, np.stack(rest)


Setting = Callable[[Case], Mapping[str, float]]


def of_blocks(*blocks: str) -> Setting:
    """A head whose kernel is over some blocks."""
    return lambda case: case.score(case.predict(case.head(blocks)))


def of_vectors(virtual: int, mean: int) -> Setting:
    """A head on the vectors of another read-out alone.

    Args:
        virtual: last layers whose virtual node counts.
        mean: last layers whose mean of the nodes counts.
    """

    def run(case: Case) -> dict[str, float]:
        model, smiles = hub.load(START), case.table.smiles.tolist()
        parts = [model.embed(smiles, virtual)] if virtual else []
        if mean:
            nodes = model.embed(smiles, mean, nodes=True)
            parts.append(np.stack([each.mean(0) for each in nodes]))
        vectors = np.hstack(parts)
        head = case.head(["vectors"], vectors)
        return case.score(case.predict(head, vectors=vectors))

    return run


def kernel_of(case: Case) -> tuple[NDArray, NDArray, NDArray]:
    """The kernel that a head has fitted to one target: between the molecules it has
    learned from, and from those of test to them; and the labels of the former."""
    head = case.head()
    found = []
    for rows in (case.rows("train", "valid"), case.rows("test")):
        compared = [head.references[b].compare(case.raw[b][rows]) for b in head.blocks]
        weights, lengths = head.weights[0], head.lengths[0]
        found.append(weighted_sum(head.blocks, compared, weights, lengths))
    return *found, case.labels[case.rows("train", "valid"), 0]


def support_vectors(strength: float) -> Setting:
    def run(case: Case) -> dict[str, float]:
        own, other, labels = kernel_of(case)
        model = SVC(C=strength, kernel="precomputed").fit(own, labels)
        return case.score(model.decision_function(other)[:, None])

    return run


def kernel_logistic(strength: float) -> Setting:
    """Logistic regression on the principal components of the kernel, which are all that
    its minimum depends on."""

    def run(case: Case) -> dict[str, float]:
        own, other, labels = kernel_of(case)
        values, vectors = np.linalg.eigh(own)
        kept = values > NO_MORE * values[-1]
        map_of = vectors[:, kept] / np.sqrt(values[kept])
        model = LogisticRegression(C=strength, max_iter=10_000)
        model.fit(own @ map_of, labels)
        return case.score(model.decision_function(other @ map_of)[:, None])

    return run


def fixed_kernel(noise: float) -> Callable[[Case], NDArray]:
    """Probabilities of heads of one target each, whose kernel is not fitted."""

    def run(case: Case) -> NDArray:
        if noise not in case.fixed:
            found = []
            with (
                mock.patch.object(fit_head, "has_fixed_kernel", lambda labels: True),
                mock.patch.object(classes, "CLASS_NOISE", noise),
            ):
                for target in range(case.labels.shape[1]):
                    found.append(case.predict(case.head(targets=[target])))
            case.fixed[noise] = np.hstack(found)
        return case.fixed[noise]

    return run


def fitted_kernel(case: Case) -> dict[str, float]:
    """Marginal likelihood for each target."""
    with mock.patch.object(fit_head, "has_fixed_kernel", lambda labels: False):
        return case.score(case.predict(case.head()))


def scored(predict: Callable[[Case], NDArray]) -> Setting:
    return lambda case: case.score(predict(case))


def with_forest(predict: Callable[[Case], NDArray]) -> Setting:
    """Mean of the ranks of a model and of the random forest, for each target."""
    return lambda case: case.score(
        rankdata(predict(case), axis=0) + rankdata(case.forest, axis=0)
    )


@contextlib.contextmanager
def trained(case: Case, *words: str | int) -> Iterator[Path]:
    """Folder of graphormer-train on a split, with one tree in the forest beside it."""
    with tempfile.TemporaryDirectory(dir=case.folder) as parent:
        folder = Path(parent, "model")
        command = ["graphormer-train", case.path, "--out", folder, "--start", START]
        command += ["--split", "column:split", "--seed", case.split, "--trees", 1]
        command += ["--target-columns", ",".join(contenders.targets_of(case.table))]
        command += ["--target-kind", case.kind, "--device", "cpu", "--quiet", *words]
        subprocess.run([str(word) for word in command], check=True)
        yield folder


def fine_tuned(*words: str) -> Setting:
    """Best epoch on valid of graphormer-train with further flags."""

    def run(case: Case) -> dict[str, float]:
        with trained(case, "--model", "finetune", *words) as folder:
            results = pd.read_csv(folder / RESULTS_FILE)
        chosen = results[(results.chosen == "yes") & (results.metric == case.metric)]
        values = chosen.set_index("split").value
        return {part: float(values[part]) for part in ("valid", "test")}

    return run


def head_of_train(case: Case) -> dict[str, float]:
    """A head that has not seen the molecules of valid."""
    head = case.head(learn=["train"])
    valid = case.score(case.predict(head, "valid"), "valid")
    return valid | case.score(case.predict(head))


def half(case: Case) -> NDArray:
    """The head counts as much as all trainings."""
    head, trainings = case.ensemble
    return (head + trainings.mean(0)) / 2


def sixth(case: Case) -> NDArray:
    """The head counts as much as each training."""
    head, trainings = case.ensemble
    return np.mean([head, *trainings], 0)


@dataclass(frozen=True)
class Trial:
    """Settings that are compared on some splits of some sets.

    Attributes:
        sets: names of sets.
        splits: the first ones of each.
        settings: what is measured, by name.
    """

    sets: Sequence[str]
    splits: int
    settings: Mapping[str, Setting]


VECTORS, MORGAN, DESCRIPTORS = fit_head.BLOCKS
TRIALS = {
    "blocks": Trial(
        SMALL,
        5,
        {
            "Morgan counts": of_blocks(MORGAN),
            "descriptors": of_blocks(DESCRIPTORS),
            "Morgan counts + descriptors": of_blocks(MORGAN, DESCRIPTORS),
            "vectors": of_blocks(VECTORS),
            "vectors + descriptors": of_blocks(VECTORS, DESCRIPTORS),
            "vectors + Morgan counts + descriptors": of_blocks(*fit_head.BLOCKS),
        },
    ),
    "readouts": Trial(
        ("esol", "freesolv"),
        5,
        {
            "virtual node, last layer (the vectors)": of_vectors(1, 0),
            "virtual node, last 3 layers": of_vectors(3, 0),
            "mean of nodes, last layer": of_vectors(0, 1),
            "virtual node and mean of nodes, last layer": of_vectors(1, 1),
        },
    ),
    "classifiers": Trial(
        ("bbbp",),
        5,
        {
            "Gaussian process on the labels with a logistic function (the head)": scored(
                lambda case: case.default
            ),
            "support vectors, C = 1": support_vectors(1),
            "support vectors, C = 10": support_vectors(10),
            "kernel logistic regression, C = 1": kernel_logistic(1),
            "kernel logistic regression, C = 10": kernel_logistic(10),
            "fixed kernel, classes of equal weight, noise 0.3": scored(
                fixed_kernel(0.3)
            ),
            "the same, noise 1": scored(fixed_kernel(1)),
            "the same, noise 3": scored(fixed_kernel(3)),
            "random forest, 500 trees": scored(lambda case: case.forest),
            "mean of the head and the forest": scored(
                lambda case: (case.default + case.forest) / 2
            ),
        },
    ),
    "assays": Trial(
        ("tox21",),
        2,
        {
            "marginal likelihood of 1,000 molecules for each assay": fitted_kernel,
            "fixed kernel, classes of equal weight, noise 0.3": scored(
                fixed_kernel(0.3)
            ),
            "the same, noise 1": scored(fixed_kernel(1)),
            "the same, noise 3": scored(fixed_kernel(3)),
            "the same, and scores of a first stage for all assays (the head)": scored(
                lambda case: case.default
            ),
            "random forest, 500 trees": scored(lambda case: case.forest),
            "mean of the ranks of noise 3 and the forest": with_forest(fixed_kernel(3)),
        },
    ),
    "finetuning": Trial(
        ("freesolv",),
        5,
        {
            "rate 1e-3 (the default)": fine_tuned(),
            "rate 3e-4": fine_tuned("--lr", "3e-4"),
            "rate 1e-3, `--descriptors`": fine_tuned("--descriptors"),
            "head that has learned from train only": head_of_train,
            "head that has learned from train and valid": scored(
                lambda case: case.default
            ),
        },
    ),
    "ensemble": Trial(
        ("esol", "bbbp"),
        2,
        {
            "five trainings": scored(lambda case: case.ensemble[1].mean(0)),
            "the head": scored(lambda case: case.ensemble[0]),
            "the head as one of six": scored(sixth),
            "the head as one half (the default)": scored(half),
        },
    ),
}


def run(folder: Path, data: Path, name: str) -> None:
    """The figures of a trial that the table lacks."""
    results = folder / "trials.tsv"
    done = set()
    if results.exists():
        with open(results, newline="") as file:
            rows = csv.DictReader(file, delimiter="\t")
            done = {(r["trial"], r["setting"], r["set"], int(r["split"])) for r in rows}
    trial = TRIALS[name]
    for set_name in trial.sets:
        paths = write_splits(data, folder / "splits", set_name, SPLITS)
        for split, path in enumerate(paths[: trial.splits], 1):
            case = Case(set_name, split, path, folder)
            for setting, measured in trial.settings.items():
                if (name, setting, set_name, split) in done:
                    continue
                start = [name, setting, set_name, split]
                lines = [
                    [*start, part, case.metric, f"{value:.6f}", commit()]
                    for part, value in measured(case).items()
                ]
                new = not results.exists()
                with open(results, "a", newline="") as file:
                    writer = csv.writer(file, delimiter="\t", lineterminator="\n")
                    writer.writerows([COLUMNS, *lines] if new else lines)
                for line in lines:
                    print(*line[:-1], flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("folder", type=Path, help="where splits, features and trials.tsv are written")
    add("--data", type=Path, required=True, help="folder of the sets")
    add("--trials", nargs="+", default=list(TRIALS), choices=TRIALS)
    args = parser.parse_args(arguments)
    os.environ["OMP_NUM_THREADS"] = "1"  # for the trainings that it starts
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in args.trials:
        run(args.folder, args.data, name)


if __name__ == "__main__":
    main()
