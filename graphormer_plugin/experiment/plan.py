"""What the steps of an experiment share: its data, models, folders and trainings."""

import fnmatch
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from graphormer_plugin.compat.command_line import check_texts
from graphormer_plugin.criterions.class_weights import class_weights
from graphormer_plugin.data.checks import listed
from graphormer_plugin.data.errors import DatasetError, counted
from graphormer_plugin.experiment.results import read_arrays, save_arrays
from graphormer_plugin.experiment.scores import Metric
from graphormer_plugin.experiment.settings import (
    AUTO,
    AUTO_MODELS,
    AUTO_TRAINED,
    FINETUNE,
    HEAD,
    MANY_MOLECULES,
    SCRATCH,
    Settings,
    Training,
)
from graphormer_plugin.experiment.splits import FITTED, scored_labels, trained_labels
from graphormer_plugin.experiment.table import Split, Table
from graphormer_plugin.experiment.training import (
    Start,
    column_pattern,
    run_training,
    selecting_metric,
    text_options,
    training_line,
)
from graphormer_plugin.finetune.fit_head import MAX_ROWS, unfit_targets
from graphormer_plugin.inference.kernels import raw_features
from graphormer_plugin.inference.loading import usable_device
from graphormer_plugin.inference.molecules import smiles_of

FEW_TESTED = 10  # molecules: below, a metric of test says little (our choice)
HEAD_STEPS = 5  # of the progress bar; an epoch is one
TITLES = {HEAD: "head", FINETUNE: "fine-tuned", SCRATCH: "from scratch"}
TOGETHER = " + "  # between the titles of models that predict together


def fitted_rows(split: Split) -> np.ndarray:
    """Molecules that models without early stopping are fitted to."""
    return np.concatenate([split[name] for name in FITTED])


@dataclass
class Experiment:
    """What the steps of an experiment share.

    Attributes:
        settings: What the user asked for.
        table: Molecules.
        splits: One per run.
        sources: File of molecules of each, and the column of the split there.
        start: Pre-trained weights, or None.
        warn: Takes warnings.
        found: Options of the trainings that a search has found.
        bar: Progress in epochs, and what takes about as long as some.
    """

    settings: Settings
    table: Table
    splits: list[Split]
    sources: list[tuple[str, str]]
    start: Start | None
    warn: Callable[[str], None]
    found: Training | None = None
    bar: Any = field(default=None)

    @property
    def folder(self) -> Path:
        """Where everything is written."""
        return Path(self.settings.folder)

    @property
    def models(self) -> list[str]:
        """Kinds of models to train in each run."""
        if self.settings.model != AUTO:
            return [self.settings.model]
        if self.start is None:
            return [SCRATCH]
        many = max(len(split["train"]) for split in self.splits) >= MANY_MOLECULES
        if many or self.settings.training_flags or not self.heads_fit:
            return list(AUTO_TRAINED)
        return list(AUTO_MODELS)

    def warnings(self) -> list[str]:
        """What its results suffer from, one line each."""
        found = []
        if self.start is None and self.settings.model == AUTO:
            found.append(
                "no pre-trained model ships with this version: training from random "
                "weights; name one with --start"
            )
        fitted = [fitted_rows(split) for split in self.splits]
        most = max(map(len, fitted))
        if HEAD in self.models and most > MAX_ROWS:
            found.append(f"heads are fitted to {MAX_ROWS:,} of {most:,} molecules")
        tested = self.tested()
        if tested < FEW_TESTED:
            advice = ""
            if not self.settings.folds and self.table.given_split is None:
                advice = "; --folds K tests every molecule once"
            found.append(
                f"metrics of test say little, it has {counted(tested, 'molecule')} with "
                f"a label{advice}"
            )
        if self.settings.trials and any(
            np.isin(split["test"], fitted[0]).any() for split in self.splits
        ):
            found.append(
                "--trials searches on the first split, with test molecules of others "
                "among its train and valid: test metrics of those flatter the options"
            )
        return found

    def tested(self) -> int:
        """Number of molecules with a label in test, of one run or more."""
        found = set[int]()
        for split in self.splits:
            labels = scored_labels(self.table, split, "test")
            found.update(split["test"][~np.isnan(labels).all(1)].tolist())
        return len(found)

    def check_heads(self) -> None:
        """Check that heads can be fitted if they are all that is asked for.

        Raises:
            DatasetError: A target has too few different labels.
        """
        targets = self.table.targets
        for number, split in enumerate(self.splits, 1):
            unfit = unfit_targets(trained_labels(self.table, split), targets.kind)
            if unfit and self.settings.model == HEAD:
                raise DatasetError(
                    f"--model head: {listed(targets.names[at] for at in unfit)} has too "
                    f"few different labels in train of {self.settings.run_name(number)}; "
                    "leave it out or give another --model"
                )

    def check_names(self) -> None:
        """Check that fairseq-train can be told the targets, and what else has a name.

        Raises:
            ValueError: fairseq misreads a name; or that of a target has a comma, and its
                pattern fits other columns.
        """
        names = self.table.targets.names
        if self.models == [HEAD]:
            return
        texts = text_options(self.settings, self.table.targets)
        if self.start and FINETUNE in self.models:
            texts["start"] = str(self.start.path)
        check_texts(texts)
        for name in (name for name in names if "," in name):
            header = [*names, *self.table.extra_names]
            fits = fnmatch.filter(header, column_pattern(name))
            if len(fits) > 1:
                raise DatasetError(
                    f"fairseq-train cannot tell apart the columns {listed(fits)}, as a "
                    f"comma separates names: rename {name!r}"
                )

    @cached_property
    def heads_fit(self) -> bool:
        """Whether each target has enough different labels in each training split."""
        kind = self.table.targets.kind
        return not any(
            unfit_targets(trained_labels(self.table, split), kind)
            for split in self.splits
        )

    def options(self, model: str) -> Training:
        """Options of the trainings of a model."""
        return self.found or self.settings.training(model)

    def members(self, model: str) -> int:
        """Number of models of that kind in a run; a head has its spread by itself."""
        return 1 if model == HEAD else self.settings.ensemble

    def save_dir(self, run: int, model: str, member: int) -> str:
        """Folder of a model, in the folder of the experiment."""
        return f"replicate{run + 1}/{model}{member + 1}"

    def line(
        self, run: int, model: str, member: int, trial: Training | None = None
    ) -> list[str]:
        """Arguments of fairseq-train for a model, perhaps with options of a search."""
        molecules, split_column = self.sources[run]
        return training_line(
            self.settings,
            trial or self.options(model),
            self.table.targets,
            start=self.start if model == FINETUNE else None,
            molecules=molecules,
            split_column=split_column,
            train_rows=len(self.splits[run]["train"]),
            metric=self.metric(run),
            seed=self.settings.seed + 100 * run + member,
            save_dir=self.save_dir(run, model, member),
        )

    def metric(self, run: int) -> Metric:
        """Metric that selects the checkpoints of a run."""
        split = self.splits[run]
        labels = scored_labels(self.table, split, "valid")
        return selecting_metric(self.table.targets, labels)

    def everything(self) -> list[tuple[int, str, int]]:
        """Run, model and member of all models, in their order."""
        return [
            (run, model, member)
            for run in range(len(self.splits))
            for model in self.models
            for member in range(self.members(model))
        ]

    def trainings(self) -> list[tuple[int, str, int]]:
        """Those that fairseq trains."""
        return [which for which in self.everything() if which[1] != HEAD]

    def cost(self, model: str) -> int:
        """Steps of the progress bar that a model takes."""
        return HEAD_STEPS if model == HEAD else self.options(model).epochs

    def train(self, words: list[str], epochs: int) -> None:
        """Run a line of fairseq-train and show its progress."""
        done = 0

        def on_epoch(epoch: int) -> None:
            nonlocal done
            self.bar.update(epoch - done)
            done = epoch

        try:
            run_training(self.folder, words, on_epoch)
        finally:
            self.bar.total -= epochs - done  # it stopped early
            self.bar.refresh()

    def label_weights(self, rows: np.ndarray) -> np.ndarray | None:
        """Weights of all labels [n, T]: those of the molecules, times those of the
        classes, which ``balanced`` takes from some rows. None for equal ones."""
        table, asked = self.table, self.settings.class_weights
        if table.weights is None and not asked:
            return None
        found = np.ones(table.labels.shape)
        if table.weights is not None:
            found *= table.weights[:, None]
        if asked:
            weights = class_weights(asked, table.targets, table.labels[rows])
            numbers = np.nan_to_num(table.labels).astype(int)
            found *= np.take_along_axis(weights, numbers.T, 1).T
        return found

    @cached_property
    def molecules(self) -> list[str]:
        """SMILES without what ``--largest-fragment`` leaves out."""
        return smiles_of(self.table.smiles, self.table.featuriser)

    def features(self) -> dict[str, np.ndarray]:
        """Fingerprints and descriptors of all molecules, computed once, and further
        columns; see `raw_features`."""
        path = self.folder / "data/features.npz"
        if not path.exists():
            none = np.empty((len(self.table), 0))
            blocks = ("fingerprint", "descriptors")
            found = {name: raw_features(name, none, self.molecules) for name in blocks}
            save_arrays(path, found)
        columns = {"extra": self.table.extra} if self.table.extra_columns else {}
        return read_arrays(path) | columns

    def smiles(self, rows: np.ndarray) -> list[str]:
        """Some of the molecules."""
        return [self.table.smiles[row] for row in rows]

    @property
    def device(self) -> torch.device:
        """Where models predict."""
        return usable_device(self.settings.device)
