"""The experiment that all steps share: its data, models and lines of fairseq-train."""

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tqdm import tqdm

import graphormer_plugin
from graphormer_plugin.criterions.class_weights import class_weights
from graphormer_plugin.criterions.metrics import RISING
from graphormer_plugin.data.descriptors import COMPUTED, MORGAN_BITS
from graphormer_plugin.data.errors import DatasetError, counted, listed, named_damage
from graphormer_plugin.data.files import atomic_write, read_arrays
from graphormer_plugin.experiment.labelled_molecules import (
    FIT_SPLITS,
    LabelledMolecules,
    Split,
)
from graphormer_plugin.experiment.settings import (
    AUTO,
    CONFORMAL,
    FINETUNE,
    HEAD,
    SCRATCH,
    Settings,
    Training,
)
from graphormer_plugin.experiment.split_tables import MOLECULES_FILE, split_file
from graphormer_plugin.experiment.starts import Start
from graphormer_plugin.experiment.training import BEST, run_training, table_flags
from graphormer_plugin.heads import MAX_ROWS
from graphormer_plugin.heads.calibration import least_scores
from graphormer_plugin.heads.domain import domain_file
from graphormer_plugin.heads.fit import unfit_targets
from graphormer_plugin.heads.head import HEAD_FILE
from graphormer_plugin.inference.loading import usable_device
from graphormer_plugin.inference.molecules import Molecules, read
from graphormer_plugin.inference.scores import is_defined, main_metric
from graphormer_plugin.models import ARCHITECTURES

FEW_TESTED = 10  # with fewer molecules, a metric of test says little (our choice)
CLIP_NORM = 5
HEAD_STEPS = 5  # steps of the progress bar; an epoch is a step
TITLES = {HEAD: "head", FINETUNE: "fine-tuned", SCRATCH: "from scratch"}
LOSSES = {
    "regression": "mse_loss",
    "binary": "binary_logloss",
    "multiclass": "multiclass_cross_entropy",
}


class ModelRun(NamedTuple):
    """A model of an experiment.

    Attributes:
        run: Number of its split, from 0.
    """

    run: int
    model: str
    number: int = 0

    @property
    def save_dir(self) -> str:
        """Its folder, in the folder of the experiment."""
        return f"replicate{self.run + 1}/{self.model}{self.number + 1}"

    @property
    def files(self) -> list[str]:
        """Files in the folder that predictions with the model need."""
        beside = HEAD_FILE if self.model == HEAD else domain_file(BEST).name
        return [f"{self.save_dir}/{name}" for name in (BEST, beside)]


def fitted_rows(split: Split) -> np.ndarray:
    """Molecules that models without early stopping are fitted to."""
    return np.concatenate([split[name] for name in FIT_SPLITS])


def unfit_for_head(table: LabelledMolecules, splits: Sequence[Split]) -> list[str]:
    """Names of the targets with too few different labels in train of a split for a head."""
    labels, kind = map(table.trained_labels, splits), table.targets.kind
    unfit = {target for of_split in labels for target in unfit_targets(of_split, kind)}
    return [table.targets.names[target] for target in sorted(unfit)]


@dataclass(frozen=True)
class Experiment:
    """The data, models and options of an experiment, which its steps share.

    Attributes:
        warn: Takes warnings.
        bar: Progress in epochs, and in steps that take about as long as some.
        searched: Options of the trainings from a search, or None.
    """

    settings: Settings
    table: LabelledMolecules
    splits: list[Split]
    start: Start | None
    warn: Callable[[str], None] = warnings.warn
    bar: tqdm = field(default_factory=lambda: tqdm(disable=True))
    searched: Training | None = None
    parsed: Molecules | None = None

    @property
    def folder(self) -> Path:
        """Where everything is written."""
        return Path(self.settings.folder)

    @property
    def device(self) -> torch.device:
        """Where models predict."""
        return usable_device(self.settings.device)

    @cached_property
    def model(self) -> str:
        """Kind of the models: head, finetune or scratch."""
        if self.settings.model != AUTO:
            return self.settings.model
        train = [self.table.trained_labels(split) for split in self.splits]
        labels = max((~np.isnan(part)).sum(0).max() for part in train)
        trains = labels > MAX_ROWS or self.settings.training_flags or self.unfit
        return FINETUNE if trains else HEAD

    @cached_property
    def unfit(self) -> list[str]:
        """Targets that no head can learn; all or none, see `LabelledMolecules.without`."""
        return unfit_for_head(self.table, self.splits)

    def warnings(self) -> list[str]:
        """Limits of the results, one line each."""
        texts = []
        fitted = [fitted_rows(split) for split in self.splits]
        most = max(map(len, fitted))
        if self.model == HEAD and most > MAX_ROWS:
            texts.append(f"heads are fitted to {MAX_ROWS:,} of {most:,} molecules")
        tested = set[int]()
        for split in self.splits:
            labels = self.table.scored_labels(split, "test")
            tested.update(split["test"][~np.isnan(labels).all(1)].tolist())
        if len(tested) < FEW_TESTED:
            settings = self.settings
            is_given = settings.folds or self.table.given_split is not None
            is_one = settings.interval == CONFORMAL or settings.split[:5] == "time:"
            advice = "; --folds K tests every molecule once"
            advice = "" if is_given or is_one else advice
            texts.append(
                "metrics of test say little, it has "
                f"{counted(len(tested), 'molecule')} with a label{advice}"
            )
        if self.settings.trials and any(
            np.isin(split["test"], fitted[0]).any() for split in self.splits
        ):
            texts.append(
                "--trials searches on the first split, with test molecules of others "
                "among its train and valid: test metrics of those flatter the options"
            )
        return texts

    def check(self) -> None:
        """Check that the models can learn the targets."""
        if self.unfit and self.settings.model == HEAD:
            raise DatasetError(
                f"--model head: {listed(self.unfit)} has too few different labels in "
                "train; leave it out or give another --model"
            )
        if self.model == HEAD and not self.start.reads_ogb:
            raise DatasetError(
                f"{self.start.path} reads other features than those of OGB, which a head "
                "needs; give another --start, or --model finetune"
            )
        if self.settings.interval == CONFORMAL:
            if self.table.targets.kind != "regression":
                raise DatasetError(
                    "--interval conformal is for targets that are numbers"
                )
            least = least_scores(self.settings.coverage)
            labels = self.table.scored_labels(self.splits[0], "valid")
            counts = (~np.isnan(labels)).sum(0)
            for name, count in zip(self.table.targets.names, counts, strict=True):
                if count < least:
                    raise DatasetError(
                        f"--interval conformal: {name} has {counted(count, 'label')} in "
                        f"valid, --coverage {self.settings.coverage:g} takes {least} or "
                        "more; give valid a larger share of the labelled rows"
                    )

    @property
    def training(self) -> Training:
        """Options of the trainings."""
        return self.searched or self.settings.training(self.model)

    def fairseq_arguments(self, member: ModelRun) -> dict[str, Any]:
        """Options of fairseq-train for a model, in the folder of the experiment."""
        settings, targets = self.settings, self.table.targets
        training, start = self.training, self.start
        updates = -(-len(self.splits[member.run]["train"]) // training.batch_size)
        updates *= training.epochs
        metric = self.metric(member.run)
        options: dict[str, Any] = {
            "user_dir": Path(graphormer_plugin.__file__).resolve().parent,
            "task": "graph_prediction",
            "dataset_name": MOLECULES_FILE,
            "data_root": "data",
            **table_flags(settings, targets, split_file(member.run)),
            "arch": start.arch if start else settings.arch,
        }
        if start:
            options |= start.options
            if training.frozen:
                frozen = round(training.frozen * start.layers)
                options["freeze_encoder_layers"] = frozen
            if training.lr_decay != 1:
                options["layerwise_lr_decay"] = training.lr_decay
        if training.dropout is not None:
            known = ARCHITECTURES[options["arch"]].options()
            for name in ("dropout", "attention_dropout", "act_dropout"):
                if name in known:
                    options[name] = training.dropout
        options |= {
            "criterion": LOSSES[targets.kind],
            "batch_size": training.batch_size,
            "required_batch_size_multiple": 1,  # fairseq would make 24 of 30
            "num_workers": 0,
            "distributed_world_size": 1,
            "seed": settings.seed + 100 * member.run + member.number,
            "optimizer": "adam",
            "clip_norm": CLIP_NORM,
            "lr": training.lr,
            "lr_scheduler": "polynomial_decay",
            "total_num_update": updates,
            "warmup_updates": max(1, updates // 20),
            "max_epoch": training.epochs,
            "patience": training.patience,
            "best_checkpoint_metric": metric,
            "maximize_best_checkpoint_metric": metric in RISING,
            "class_weights": settings.class_weights,
            "no_epoch_checkpoints": True,
            "save_dir": member.save_dir,
            "log_format": "json",
            "cpu": settings.device == "cpu",
        }
        return {name: x for name, x in options.items() if x is not False and x != ""}

    def metric(self, run: int) -> str:
        """Metric that selects the checkpoints of a run: the loss if valid lacks a class, so
        that the ROC-AUC is undefined."""
        labels = self.table.scored_labels(self.splits[run], "valid")
        metric = main_metric(self.table.targets)
        return metric if is_defined(metric, labels) else "loss"

    def model_runs(self) -> list[ModelRun]:
        """All models, in their order. A run has one head, which knows its own spread."""
        return [
            ModelRun(run, self.model, number)
            for run in range(len(self.splits))
            for number in range(1 if self.model == HEAD else self.settings.ensemble)
        ]

    def trainings(self) -> list[ModelRun]:
        """Models that fairseq trains."""
        return [] if self.model == HEAD else self.model_runs()

    @property
    def cost(self) -> int:
        """Steps of the progress bar that a model takes."""
        return HEAD_STEPS if self.model == HEAD else self.training.epochs

    @contextlib.contextmanager
    def progress(self, title: str, steps: int) -> Iterator[None]:
        """Show a title in the progress bar; at its end, all its steps are done."""
        self.bar.set_description(title)
        end = self.bar.n + steps
        yield
        self.bar.update(end - self.bar.n)  # a training may stop early

    def train(self, options: dict[str, Any]) -> None:
        """Run fairseq-train and show its epochs in the progress bar."""
        start, bar = self.bar.n, self.bar
        run_training(
            self.folder, options, lambda epoch: bar.update(start + epoch - bar.n)
        )

    def label_weights(self, rows: np.ndarray) -> np.ndarray | None:
        """Weights of all labels [n, T]: the weight of the molecule times that of its class,
        which ``balanced`` takes from some rows. None for equal weights."""
        table, asked = self.table, self.settings.class_weights
        if table.weights is None and not asked:
            return None
        weights = np.ones(table.labels.shape)
        if table.weights is not None:
            weights *= table.weights[:, None]
        if asked:
            of_class = class_weights(asked, table.targets, table.labels[rows])
            numbers = np.nan_to_num(table.labels).astype(int)
            weights *= np.take_along_axis(of_class, numbers.T, 1).T
        return weights

    @cached_property
    def molecules(self) -> Molecules:
        """Graphs and RDKit's molecules, parsed once for all models."""
        return self.parsed or read(self.table.smiles, self.settings.featuriser.name)

    @cached_property
    def features(self) -> dict[str, np.ndarray]:
        """Fingerprints and descriptors of all molecules, and further columns; see
        `raw_features`."""
        rows = len(self.table.labels)
        shapes = {
            "fingerprint": (rows, MORGAN_BITS),
            "descriptors": (rows, len(COMPUTED)),
        }
        arrays = saved_arrays(
            self.folder / "data/features.npz",
            lambda: {block: self.molecules.features(block) for block in shapes},
            shapes,
        )
        if self.settings.extra_columns:
            arrays["extra"] = self.table.extra
        return arrays


def saved_arrays(
    path: Path,
    compute: Callable[[], Mapping[str, np.ndarray | None]],
    shapes: Mapping[str, tuple[int | None, ...]],
) -> dict[str, np.ndarray]:
    """Arrays of an ``.npz`` file; a missing file is computed and written whole. None is left
    out.

    Args:
        shapes: of the arrays that the file must have, each with a row per molecule; None is
            any length. ValueError names a file with others.
    """
    if not path.exists():
        arrays = {name: x for name, x in compute().items() if x is not None}
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            np.savez(file, **arrays)
    with named_damage(f"{path} is damaged; remove it, and run again"):
        arrays = read_arrays(path)
        for name, shape in shapes.items():
            found = arrays[name].shape
            expected = tuple(n or size for n, size in zip(shape, found, strict=True))
            if found != expected:
                raise ValueError(f"{name} has shape {found}, expected {expected}")
    return arrays
