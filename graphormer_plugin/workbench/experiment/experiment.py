"""The experiment that all steps share: its data, models and lines of fairseq-train."""

import contextlib
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from tqdm import tqdm

from graphormer_plugin.criterions.class_weights import class_weights
from graphormer_plugin.data.errors import DatasetError, counted, listed, named_damage
from graphormer_plugin.data.files import atomic_write, read_arrays
from graphormer_plugin.data.graphs.descriptors import COMPUTED, MORGAN_BITS
from graphormer_plugin.data.graphs.smiles import mol_of_any_smiles
from graphormer_plugin.data.graphs.start_molecules import (
    ENDING,
    has_seen,
    read_seen,
    seen_beside,
)
from graphormer_plugin.data.targets import Kind
from graphormer_plugin.estimators import MAX_ROWS
from graphormer_plugin.estimators.domain import MoleculeDescription, domain_file
from graphormer_plugin.estimators.gp import HEAD_FILE
from graphormer_plugin.inference.loading import usable_device
from graphormer_plugin.inference.model_folder import START
from graphormer_plugin.inference.molecules import Molecules, read
from graphormer_plugin.workbench.experiment.labelled_molecules import (
    FEW_TESTED,
    LabelledMolecules,
    SplitLabels,
)
from graphormer_plugin.workbench.experiment.settings import (
    AUTO,
    CONFORMAL,
    FINETUNE,
    FITTED,
    HEAD,
    SCRATCH,
    TREES,
    Settings,
    Training,
)
from graphormer_plugin.workbench.experiment.starts import Start
from graphormer_plugin.workbench.fitting.calibration import least_scores
from graphormer_plugin.workbench.fitting.fit_gp import unfit_targets
from graphormer_plugin.workbench.predictions.scores import is_defined, main_metrics

BEST = "checkpoint_best.pt"
LAST = "checkpoint_last.pt"
FITTED_STEPS = 5  # steps of the progress bar; an epoch is a step
TITLES = {
    HEAD: "head",
    TREES: "boosted trees",
    FINETUNE: "fine-tuned",
    SCRATCH: "from scratch",
}


class ModelRun(NamedTuple):
    """A model of an experiment.

    Attributes:
        run: index of its split, from 0.
    """

    run: int
    model: str
    ensemble_index: int = 0

    @property
    def save_dir(self) -> str:
        """Its folder, in the folder of the experiment."""
        return f"replicate{self.run + 1}/{self.model}{self.ensemble_index + 1}"

    @property
    def files(self) -> list[str]:
        """Files in the folder that predictions with the model need."""
        beside = HEAD_FILE if self.model in FITTED else domain_file(BEST).name
        return [f"{self.save_dir}/{name}" for name in (BEST, beside)]


def unfit_for_head(splits: Sequence[SplitLabels]) -> list[str]:
    """Names of the targets with too few different labels in train of a split for a head."""
    targets = splits[0].table.targets
    unfit = set[int]()
    for split in splits:
        unfit.update(unfit_targets(split.trained, targets.kinds))
    return [targets.names[target] for target in sorted(unfit)]


@dataclass(frozen=True)
class Experiment:
    """The data, models and options of an experiment, which its steps share.

    Attributes:
        warn: takes warnings.
        bar: progress in epochs, and in steps that take about as long as some.
        tuned_training: options of the trainings from a search, or None.
        selected_model: kind of the models, if the validation molecules have selected it.
    """

    settings: Settings
    table: LabelledMolecules
    splits: list[SplitLabels]
    start: Start | None
    warn: Callable[[str], None] = warnings.warn
    bar: tqdm = field(default_factory=lambda: tqdm(disable=True))
    tuned_training: Training | None = None
    selected_model: str = ""
    parsed: Molecules | None = None

    @property
    def in_unit(self) -> "Experiment":
        """The experiment with its labels as metrics and people read them."""
        return replace(
            self,
            table=self.table.in_unit,
            splits=[split.in_unit for split in self.splits],
        )

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
        """Kind of the models: head, trees, finetune or scratch."""
        if self.selected_model or self.settings.model != AUTO:
            return self.selected_model or self.settings.model
        labels = max((~np.isnan(split.trained)).sum(0).max() for split in self.splits)
        if self.settings.training_flags or self.unfit:
            return FINETUNE
        # Above the limit, trees are better on the ten classes of Peptides-func, in a fraction
        # of the time, and a head is better on the one of ogbg-molhiv.
        several = self.table.targets.num_outputs > 1
        return TREES if several and labels > MAX_ROWS else HEAD

    @cached_property
    def unfit(self) -> list[str]:
        """Targets that no head can learn; all or none, see `LabelledMolecules.without`."""
        return unfit_for_head(self.splits)

    def warnings(self) -> list[str]:
        """Limits of the results, one line each."""
        texts = []
        most = max(len(split.fitted) for split in self.splits)
        if self.model == HEAD and most > MAX_ROWS:
            texts.append(f"heads are fitted to {MAX_ROWS:,} of {most:,} molecules")
        tested = set[int]()
        for split in self.splits:
            is_scored = ~np.isnan(split.scored("test")).all(1)
            tested.update(split.rows["test"][is_scored].tolist())
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
            np.isin(split.rows["test"], self.splits[0].fitted).any()
            for split in self.splits
        ):
            texts.append(
                "--trials searches on the first split, with test molecules of others "
                "among its train and valid: test metrics of those flatter the options"
            )
        return texts

    def check(self) -> None:
        """Check that the models can learn the targets."""
        if self.model not in FITTED:
            self.table.targets.check_for_network()
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
            least = least_scores(self.settings.coverage)
            labels = self.splits[0].scored("valid")
            for target, column in zip(
                self.table.targets.targets, labels.T, strict=True
            ):
                counts = {target.name: (~np.isnan(column)).sum()}
                if target.kind is Kind.BINARY:
                    counts = {
                        f"class {word} of {target.name}": (column == label).sum()
                        for label, word in enumerate(target.class_labels)
                    }
                for name, count in counts.items():
                    if count < least:
                        raise DatasetError(
                            f"--interval conformal: {name} has {counted(count, 'label')} "
                            f"in valid, --coverage {self.settings.coverage:g} takes "
                            f"{least} or more; give valid a larger share of the labelled "
                            "rows"
                        )

    @property
    def training(self) -> Training:
        """Options of the trainings."""
        return self.tuned_training or self.settings.training(self.model)

    def metric(self, run: int) -> str:
        """Metric that selects the checkpoints of a run: the loss if valid lacks a class, so
        that the ROC-AUC is undefined."""
        labels = self.splits[run].scored("valid")
        targets = self.table.targets
        metric = main_metrics(targets)[targets.kind]
        return metric if is_defined(metric, labels) else "loss"

    def model_runs(self, model: str = "") -> list[ModelRun]:
        """All models of a kind, by default of the chosen kind, in their order. What a run
        fits knows its own spread."""
        model = model or self.model
        return [
            ModelRun(run, model, index)
            for run in range(len(self.splits))
            for index in range(1 if model in FITTED else self.settings.ensemble)
        ]

    def trainings(self) -> list[ModelRun]:
        """Models that fairseq trains."""
        return [] if self.model in FITTED else self.model_runs()

    def cost(self, model: str) -> int:
        """Steps of the progress bar that a model of a kind takes."""
        return FITTED_STEPS if model in FITTED else self.training.epochs

    @contextlib.contextmanager
    def progress(self, title: str, steps: int) -> Iterator[None]:
        """Show a title in the progress bar; at its end, all its steps are done."""
        self.bar.set_description(title)
        end = self.bar.n + steps
        yield
        self.bar.update(end - self.bar.n)  # a training may stop early

    def label_weights(self, rows: np.ndarray) -> np.ndarray:
        """Weights of all labels [n, T]: the weight of the molecule times that of its class,
        which ``balanced`` takes from some rows."""
        table = self.table
        option = self.settings.class_weights
        weights = np.ones(table.labels.shape)
        if table.weights is not None:
            weights *= table.weights[:, None]
        if option:
            of_class = class_weights(option, table.targets, table.labels[rows])
            numbers = np.nan_to_num(table.labels).astype(int)
            weights *= np.take_along_axis(of_class, numbers.T, 1).T
        return weights

    @cached_property
    def molecules(self) -> Molecules:
        """Graphs, made once for all models; RDKit's molecules are not kept."""
        return self.parsed or read(
            self.table.sources, self.settings.featuriser, keep_parsed=False
        )

    @cached_property
    def start_has_seen(self) -> np.ndarray | None:
        """`has_seen` of the start for each molecule; None where that is not known."""
        path = self.start and seen_beside(self.start.path)
        mols = map(mol_of_any_smiles, self.table.smiles)
        return path and has_seen(read_seen(path), [*mols])

    def keep_seen(self) -> None:
        """Copy what lies beside the start, see `seen_beside`, into the folder."""
        if self.start and (known := seen_beside(self.start.path)):
            shutil.copyfile(known, (self.folder / START).with_suffix(ENDING))

    @cached_property
    def description(self) -> MoleculeDescription:
        """Description of all molecules."""
        return MoleculeDescription.of(self.molecules.descriptor_mols, parents=True)

    @cached_property
    def features(self) -> dict[str, np.ndarray]:
        """Fingerprints and descriptors of all molecules, and further columns; see
        `molecule_features`."""
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
            actual = arrays[name].shape
            expected = tuple(n or size for n, size in zip(shape, actual, strict=True))
            if actual != expected:
                raise ValueError(f"{name} has shape {actual}, expected {expected}")
    return arrays
