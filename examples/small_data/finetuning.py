"""How to fine-tune a start: settings of the training, compared with each other, a head and
a random forest; and weights of their mean.

    python examples/small_data/finetuning.py runs/finetuning --moleculeace SETS \\
        --biogen biogen_polaris.csv.gz

Folds of the training rows of some sets of `benchmarks.py`; the test rows have no part in
it. The default is the training of ``graphormer-train --model finetune``, with batches of
molecules of any size and SMILES as they are given; each other setting differs from it in
one respect. A tenth of the other folds, drawn by the fold's number, chooses the epoch. The
folder gets results.tsv and the predictions of each fold; a line that is there is not
measured again, so the same command goes on where it was stopped. The output is a table of
all lines, and a table of means of head, fine-tuned start and forest, with fixed weights
and with weights that the other folds of a set give.
"""

import argparse
import itertools
import math
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import contenders
import numpy as np
import pandas as pd
import torch
from benchmarks import read_sets
from measure import commit, read_rows
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression, RidgeCV
from tables import table as text_table
from torch import nn
from tsv import append

from graphormer_plugin import hub
from graphormer_plugin.cli import CommandParser, command
from graphormer_plugin.data.files import atomic_write
from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.experiment.plan import CLIP_NORM
from graphormer_plugin.experiment.settings import FINETUNE, TRAININGS
from graphormer_plugin.finetune.published import load_pretrained
from graphormer_plugin.finetune.transfer import translate
from graphormer_plugin.inference.graphs import ModelGraphs
from graphormer_plugin.models import ARCHITECTURES, GraphModel, model_of_options
from graphormer_plugin.models._layerwise import layers_of_weights
from graphormer_plugin.pyg import GraphLoss

START = "grpe_minimol"
FOLDS = 5
COLUMNS = "set fold setting rmse seconds commit".split()
SETS = ("CHEMBL2835_Ki", "CHEMBL237_EC50", "CHEMBL287_Ki", "HLM_CLint")
DEFAULT = TRAININGS[FINETUNE]


@dataclass(frozen=True)
class Setting:
    """Of a training; see `Training`.

    Attributes:
        lr: peak of the learning rate, in the output layer.
        decay: factor of the rate from each layer to the layer below it.
        backbone: factor of the rate of all layers below the output layer.
        frozen: share of the first layers that are never trained.
        thaw: share of the epochs in which the output layer alone is trained.
        warmup: share of the updates in which the rate rises.
        loss: `mse` or `l1`.
        epochs: at most; the rate falls to 0 until then.
        batch_size: molecules.
    """

    lr: float = DEFAULT.lr
    decay: float = DEFAULT.lr_decay
    backbone: float = 1.0
    frozen: float = 0.0
    thaw: float = 0.0
    warmup: float = 0.05
    loss: str = "mse"
    epochs: int = DEFAULT.epochs
    batch_size: int = DEFAULT.batch_size


THE_DEFAULT = "the default"
SETTINGS = {
    THE_DEFAULT: Setting(),
    "absolute error": Setting(loss="l1"),
    "one rate for all layers": Setting(decay=1),
    "a tenth of the rate below the output layer": Setting(decay=1, backbone=0.1),
    "rate 3e-4": Setting(lr=3e-4),
    "factor 0.7 from layer to layer": Setting(decay=0.7),
    "half of the layers frozen": Setting(frozen=0.5),
    "output layer alone for a quarter of the epochs": Setting(thaw=0.25),
    "warm-up in a fifth of the updates": Setting(warmup=0.2),
}


HEAD, FOREST = "head on the frozen start", "random forest"
OTHERS = {HEAD: contenders.head, FOREST: contenders.forest}
MIXED = (HEAD, THE_DEFAULT, FOREST)
FIXED = {
    "head and fine-tuned start, equal weights": (1 / 2, 1 / 2, 0),
    "head and fine-tuned start, 2 : 1": (2 / 3, 1 / 3, 0),
    "head and fine-tuned start, 3 : 1": (3 / 4, 1 / 4, 0),
    "head, fine-tuned start and forest, equal weights": (1 / 3, 1 / 3, 1 / 3),
    "head alone": (1, 0, 0),
}


@dataclass
class Fold:
    """Numbers of the molecules of train, valid and test."""

    train: NDArray[np.int64]
    valid: NDArray[np.int64]
    test: NDArray[np.int64]


def fold_of(count: int, number: int) -> Fold:
    """A fold, by its number from 0, of ``count`` molecules."""
    order = np.random.default_rng(1).permutation(count) % FOLDS
    others = np.flatnonzero(order != number)
    others = np.random.default_rng(number).permutation(others)
    tenth = len(others) // 10
    return Fold(others[tenth:], others[:tenth], np.flatnonzero(order == number))


class Trainer:
    """Fine-tunes a start on molecules, which are read once.

    Args:
        rows: table with smiles and t0.
    """

    def __init__(self, rows: pd.DataFrame) -> None:
        self.start = load_pretrained(START)
        predictor = hub.load(START, head=None, domain=False)
        molecules = predictor.read(rows.smiles.tolist())
        self.graphs = ModelGraphs(predictor.model, self.start.schema, molecules.chunk)
        self.labels = torch.tensor(rows.t0.to_numpy(float)[:, None])

    def model(self, train: NDArray[np.int64]) -> GraphModel:
        """The start with an output layer for the labels, and the dropout of its preset."""
        labels, start = self.labels[train], self.start
        mean, std = labels.mean().item(), labels.std(unbiased=False).item()
        targets = TargetSchema(["t0"], mean=[mean], std=[std])
        preset = ARCHITECTURES[start.options["_name"]].options()
        dropout = {k: x for k, x in preset.items() if k.endswith("dropout")}
        model = model_of_options({**start.options, **dropout}, start.schema, targets)
        weights = translate(start.weights, model, start, start.schema, targets)
        model.load_state_dict(weights)
        return model

    def predict(self, model: GraphModel, numbers: NDArray[np.int64]) -> NDArray:
        """Values [n] of some molecules."""
        model.eval()
        with torch.inference_mode():
            parts = np.array_split(numbers, -(-len(numbers) // 64))
            output = torch.cat([model(self.graphs.batch(part)) for part in parts])
        return model.targets.restore(output.double()).numpy()[:, 0]

    def __call__(self, fold: Fold, setting: Setting, seed: int) -> NDArray:
        """Predictions of test of the epoch with the least RMSE on valid."""
        torch.manual_seed(seed)
        model, order = self.model(fold.train), np.random.default_rng(seed)
        optimiser = torch.optim.Adam(rate_groups(model, setting), lr=0.0)
        loss_of = GraphLoss(model.targets, setting.loss)
        updates = -(-len(fold.train) // setting.batch_size)  # of an epoch
        total, update = setting.epochs * updates, 0
        rising = max(1, int(setting.warmup * total))
        best, stale, tested = math.inf, 0, np.full(len(fold.test), math.nan)
        valid = self.labels[fold.valid, 0].numpy()
        for epoch in range(setting.epochs):
            model.train()
            waits = epoch < setting.thaw * setting.epochs
            for numbers in np.array_split(order.permutation(fold.train), updates):
                update += 1
                rate = min(update / rising, (total - update) / (total - rising))
                for group in optimiser.param_groups:
                    frozen = waits and not group["is_output"]
                    group["lr"] = 0.0 if frozen else setting.lr * rate * group["scale"]
                optimiser.zero_grad()
                output = model(self.graphs.batch(numbers))
                loss_of(output, self.labels[numbers]).backward()
                nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
                optimiser.step()
            if (error := rmse(self.predict(model, fold.valid), valid)) < best:
                best, stale, tested = error, 0, self.predict(model, fold.test)
            elif (stale := stale + 1) >= DEFAULT.patience:
                break
        return tested


def rate_groups(model: GraphModel, setting: Setting) -> list[dict[str, Any]]:
    """Groups of weights by layer, with the factor of their rate."""
    layers, count = layers_of_weights(model), len(model.encoder.layers)
    weights: dict[int, list[nn.Parameter]] = {}
    for name, weight in model.named_parameters():
        weights.setdefault(layers[name], []).append(weight)
    groups = []
    for layer, params in weights.items():
        scale = setting.decay ** (count + 1 - layer)
        if layer <= count:
            scale *= setting.backbone
        if setting.frozen and layer <= round(setting.frozen * count):
            for weight in params:
                weight.requires_grad = False
        groups.append({"params": params, "scale": scale, "is_output": layer > count})
    return groups


def rmse(predicted: NDArray, labels: NDArray) -> float:
    return float(np.sqrt(np.mean((predicted - labels) ** 2)))


def other(name: str, rows: pd.DataFrame, fold: Fold, table: Path, seed: int) -> NDArray:
    """Predictions of test by a model of `OTHERS`, which learns from train and valid; beside
    the path ``table`` the features of a set are kept, see `contenders.features`."""
    split = np.full(len(rows), "train", object)
    split[fold.test] = "test"
    args = argparse.Namespace(table=table, start=START, seed=seed, seconds=0.0)
    split_rows = rows[["smiles", "t0"]].assign(split=split)
    return OTHERS[name](split_rows, "regression", args)[:, 0]


def mixtures(errors: pd.DataFrame, folder: Path, sets: dict[str, pd.DataFrame]) -> str:
    """`comparison` of means of the predictions of `MIXED`, by their weights.

    Learned weights come from the predictions of the other folds of the set: non-negative
    least squares, or a ridge with an intercept whose penalty they choose by
    cross-validation.

    Args:
        errors: of `errors_of`; only folds with all of `MIXED` count.
        folder: of the predictions.
        sets: tables with smiles, split and t0.
    """
    lines = []
    for name, group in errors.dropna(subset=[*MIXED]).groupby("set"):
        labels = train_rows(sets[name]).t0.to_numpy(float)
        tests = [fold_of(len(labels), seed - 1).test for _, seed in group.index]
        x = [
            np.stack([np.load(kept(folder, name, seed, of)) for of in MIXED], 1)
            for _, seed in group.index
        ]
        y = [labels[test] for test in tests]
        for at in range(len(x)):
            found = {title: x[at] @ weights for title, weights in FIXED.items()}
            if rest := [number for number in range(len(x)) if number != at]:
                known, target = (np.concatenate([of[n] for n in rest]) for of in (x, y))
                two = LinearRegression(positive=True, fit_intercept=False)
                three = LinearRegression(positive=True, fit_intercept=False)
                two.fit(known[:, :2], target)
                three.fit(known, target)
                ridge = RidgeCV(np.logspace(-3, 3, 13)).fit(known, target)
                found |= {
                    "head and fine-tuned start, least squares": two.predict(
                        x[at][:, :2]
                    ),
                    "all three, least squares": three.predict(x[at]),
                    "all three, ridge": ridge.predict(x[at]),
                }
            key = {"set": name, "fold": at}
            lines += [
                {**key, "setting": of, "rmse": rmse(values, y[at])}
                for of, values in found.items()
            ]
    results = pd.DataFrame(lines, columns=["set", "fold", "setting", "rmse"])
    return comparison(errors_of(results), [*results.setting.unique()])


def train_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """The training rows of a set."""
    return rows.query("split == 'train'").reset_index(drop=True)


def kept(folder: Path, name: str, seed: int, setting: str) -> Path:
    """File with the predictions of a fold."""
    return folder / f"{name}-{seed}-{setting.replace(' ', '-')}.npy"


def errors_of(results: pd.DataFrame) -> pd.DataFrame:
    """RMSE by set and fold, with a column for each setting."""
    return results.pivot_table(index=["set", "fold"], columns="setting", values="rmse")


def comparison(errors: pd.DataFrame, settings: Sequence[str]) -> str:
    """RMSE of each setting, the mean over the folds of a set, and by how much it is below
    the first, in per cent of it, on the folds of all sets that both have."""
    names, lines = [*dict.fromkeys(errors.index.get_level_values("set"))], []
    first, *_ = settings = [name for name in settings if name in errors]
    for setting in settings:
        means = errors[setting].groupby("set").mean()
        cells = (
            f"{means[name]:.3f}" if means[name] == means[name] else "" for name in names
        )
        line = [setting, *cells, ""]
        if setting != first:
            gain = (100 * (1 - errors[setting] / errors[first])).dropna()
            line[-1] = f"{gain.mean():+.1f} ± {gain.sem():.1f} ({len(gain)})"
        lines.append(line)
    return text_table(["", *names, "better, % (folds)"], lines)


@command
def main(arguments: Sequence[str] | None = None) -> None:
    parser = CommandParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("folder", type=Path, help="of results.tsv")
    add(
        "--moleculeace",
        type=Path,
        required=True,
        help="folder of the CSV files of MoleculeACE",
    )
    add(
        "--biogen",
        type=Path,
        required=True,
        help="table with endpoint, split, smiles, y",
    )
    add("--sets", nargs="+", default=SETS, help=f"default: {' '.join(SETS)}")
    add("--settings", nargs="+", default=[*SETTINGS, *OTHERS], help="default: all")
    add("--folds", type=int, default=FOLDS, help="only the first ones")
    args = parser.parse_args(arguments)
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    args.folder.mkdir(parents=True, exist_ok=True)
    path, sets = args.folder / "results.tsv", read_sets(args.moleculeace, args.biogen)
    for number, name in itertools.product(range(args.folds), args.sets):
        rows = train_rows(sets[name])
        fold, trainer = fold_of(len(rows), number), None
        seed = number + 1
        for setting in args.settings:
            key = (name, str(seed), setting)
            known = ((r["set"], r["fold"], r["setting"]) for r in read_rows(path))
            if key in known:
                continue
            started = time.process_time()
            if setting in OTHERS:
                table = args.folder / f"{name}-{seed}.csv"
                predicted = other(setting, rows, fold, table, seed)
            else:
                trainer = trainer or Trainer(rows)
                predicted = trainer(fold, SETTINGS[setting], seed)
            error = rmse(predicted, rows.t0.to_numpy(float)[fold.test])
            with atomic_write(kept(args.folder, name, seed, setting)) as file:
                np.save(file, predicted)
            seconds = time.process_time() - started
            append(path, COLUMNS, [[*key, f"{error:.6f}", f"{seconds:.0f}", commit()]])
            print(*key, f"{error:.4f}", file=sys.stderr, flush=True)
    errors = errors_of(pd.read_csv(path, sep="\t"))
    print(comparison(errors, [*SETTINGS, *OTHERS]))
    if {*MIXED} <= {*errors}:
        print("\n" + mixtures(errors, args.folder, sets))


if __name__ == "__main__":
    sys.exit(main())
