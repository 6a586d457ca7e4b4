"""Options of an experiment and their defaults; all numbers are our choice."""

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphormer_plugin.choices import check_least, option
from graphormer_plugin.data.errors import DatasetError, named_damage
from graphormer_plugin.data.files import home_path, read_text, write_text
from graphormer_plugin.data.splits import LEAST_FOLDS, Ratios
from graphormer_plugin.data.tables.formats import ATOMS, ending
from graphormer_plugin.data.tables.options import (
    CLASS_WEIGHTS,
    TableOptions,
    flag_of,
    is_unicode,
)
from graphormer_plugin.data.targets import Kind
from graphormer_plugin.estimators import MAX_ROWS

HEAD = "head"
TREES = "trees"
FINETUNE = "finetune"
SCRATCH = "scratch"
AUTO = "auto"
NONE = "none"  # of --log-targets, which takes AUTO, too
NORMAL = "normal"
CONFORMAL = "conformal"
MODELS = (AUTO, HEAD, TREES, FINETUNE, SCRATCH)
FITTED = (HEAD, TREES)  # models that graphormer-train fits itself
TRAINING_OPTIONS = ("epochs", "patience", "lr", "batch_size")
MOST_SEED = 2**31 - 1  # NumPy takes 2**32 - 1; members and replicates add to it
SETTINGS_FILE = "settings.json"
# Settings that are tables of a part of the split.
PART_FILES = {"valid": "valid_file", "test": "test_file"}
TABLES = ("table", *PART_FILES.values())  # settings that are paths of tables
# Files, by the names of their digests among the settings.
FILES = {"sha256": "the table", "start_sha256": "the pre-trained model"}
FILES |= {f"{part}_sha256": flag_of(name) for part, name in PART_FILES.items()}


@dataclass(frozen=True)
class Training:
    """Options of one training, as flags of fairseq-train.

    Attributes:
        epochs: largest number; the learning rate falls to 0 until then.
        patience: epochs without a better validation metric before it stops.
        frozen: share of the layers that are not trained, with the embeddings; 0 trains
            all.
        lr_decay: factor of the learning rate from each layer to the one below it.
    """

    lr: float
    epochs: int
    patience: int
    batch_size: int = 32
    frozen: float = 0.0
    lr_decay: float = 1.0
    dropout: float | None = None


TRAININGS = {
    FINETUNE: Training(lr=1e-3, epochs=40, patience=10, lr_decay=0.9),
    SCRATCH: Training(lr=1e-3, epochs=100, patience=20),
}


@dataclass(frozen=True)
class Places:
    """Where an experiment reads and writes."""

    table: str
    folder: str


@dataclass(frozen=True, kw_only=True)
class Settings(TableOptions, Places):
    """An experiment as a user describes it; the help of each field says what it means.

    The fields are the flags of ``graphormer-train``, in groups.

    Raises:
        DatasetError: a value is out of range, or two contradict each other.
    """

    target_columns: Sequence[str] = option(
        (),
        "columns to predict, also patterns such as 'NR-*', or all (default: the only "
        "other column, or the only one of numbers or opposite words, unless it is called id or "
        "the like); "
        "an empty cell is a missing label",
    )
    split: str = option(
        "",
        "scaffold (Bemis-Murcko), cluster or random, by --seed; time:NAME, a column of "
        "dates or numbers; or column:NAME, a column with train, test and perhaps valid, or with "
        "the number of a fold "
        "(default: the column called split if there is one and none of --folds, --ratios "
        "and --test-file is given, else scaffold)",
        choices=("scaffold", "cluster", "random", "time:NAME", "column:NAME"),
        group="split",
    )
    test_file: str = option(
        "", "table of test; TABLE then has train and valid", metavar="F", group="split"
    )
    valid_file: str = option(
        "", "table of valid, beside --test-file", metavar="F", group="split"
    )
    seed: int = option(
        1, "seed of splits and models (default: 1)", least=0, group="split"
    )
    canonical_smiles: bool = option(True, "", flag=False)
    target_kind: Sequence[str] = option(
        (),
        "what the targets are: regression, binary or multiclass, for all or for each of "
        "--target-columns (default, for each: binary if all labels are 0 or 1 or one of "
        "two words, multiclass if --class-names has more than two)",
        choices=[*Kind],
    )
    log_targets: Sequence[str] = option(
        (AUTO,),
        "targets that are learned as decadic logarithms; auto: the training labels choose "
        "this, a logit of shares, or the labels as they are (default); none: all as they "
        "are. Predictions and metrics have the unit of the table",
    )
    class_weights: str = option("", CLASS_WEIGHTS, metavar="A,B,...")
    descriptors: bool = option(
        False,
        "RDKit's descriptors join the output layer of trainings; heads and trees "
        "always read them",
    )
    interval: str = option(
        NORMAL,
        "conformal: columns with the ends of intervals, or with sets of classes, that hold "
        "--coverage of the labels whatever their distribution, from the errors on valid, "
        "which heads are then not fitted to; normal: the spread alone (default)",
        words=(NORMAL, CONFORMAL),
        group="model",
    )
    coverage: float = option(
        0.9,
        "share of labels in conformal intervals (default: 0.9)",
        metavar="SHARE",
        group="model",
    )
    ratios: Ratios | None = option(
        None,
        "shares of train, valid and test (default: 80,10,10); not with --folds",
        metavar="A,B,C",
        group="split",
    )
    groups: str = option(
        "",
        "column of groups, such as series or targets: rows of a group are on one side of "
        "each split",
        metavar="NAME",
        group="split",
    )
    fold_column: bool | None = option(None, "", flag=False)
    folds: int = option(
        0, f"cross-validation, K >= {LEAST_FOLDS}", metavar="K", group="split"
    )
    replicates: int = option(
        1,
        "repeat with K splits and seeds, --folds too; the split of a column is repeated "
        "with K seeds (default: 1)",
        metavar="K",
        least=1,
        group="split",
    )
    model: str = option(
        AUTO,
        "head: a Gaussian process on the frozen vectors of --start; trees: boosted trees "
        "on fingerprints and descriptors; finetune: train the weights of --start; scratch: "
        "start from random weights; auto: finetune with an option of a training such as "
        f"--epochs, trees for several targets above {MAX_ROWS:,} labels, else the better "
        "of head and trees on valid (default)",
        words=MODELS,
        group="model",
    )
    start: str = option(
        "",
        "pre-trained checkpoint, or name of a published one",
        metavar="NAME_OR_FILE",
        group="model",
    )
    arch: str = option(
        "grpe_small",
        "architecture of --model scratch (default: grpe_small)",
        group="model",
    )
    ensemble: int = option(
        1,
        "models per split, whose mean counts (default: 1)",
        metavar="K",
        least=1,
        group="model",
    )
    epochs: int | None = option(
        None, "most epochs of a training", least=1, group="model"
    )
    patience: int | None = option(
        None, "epochs without improvement before it stops", least=1, group="model"
    )
    lr: float | None = option(None, "peak of the learning rate", group="model")
    batch_size: int | None = option(
        None, "molecules per update", least=1, group="model"
    )
    trials: int = option(
        0,
        "search learning rate, dropout and depth of freezing in N trainings on the first "
        "split, with Optuna; test molecules of other splits take part in it",
        metavar="N",
        least=0,
        group="model",
    )
    trees: int = option(
        300,
        "boosted trees of each of five members for a target (default: 300)",
        least=1,
        group="model",
    )
    device: str = option(
        "", "default: a GPU if any", words=("cpu", "cuda"), group="model"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "canonical_smiles", self.positions != "file")
        for path in (self.table, self.folder):
            if not is_unicode(path):
                raise DatasetError(f"{path}: expected a name in UTF-8")
        flags = ", ".join(self.training_flags)
        of_column = self.split.startswith("column:")
        conditions = [
            (
                self.forces_column or ending(self.path) in ATOMS,
                f"{self.table}: fairseq-train learns atoms without bonds, and forces; this "
                "command makes fingerprints, scaffolds and pictures of molecules",
            ),
            (
                self.positions == "file"
                and (self.largest_fragment or self.ignore_stereo),
                "--positions file reads atoms as written; leave out --largest-fragment and "
                "--ignore-stereo",
            ),
            (
                self.seed > MOST_SEED,
                f"--seed {self.seed}: expected {MOST_SEED} or less",
            ),
            (
                flags and self.model in FITTED,
                f"{flags}: no effect with --model {self.model}, which trains no weights",
            ),
            (
                self.folds and self.ratios,
                "--folds and --ratios exclude each other: valid and test are a fold each",
            ),
            (
                self.lr is not None and not 0 < self.lr < math.inf,
                f"--lr {self.lr}: expected a number above 0, not inf",
            ),
            (
                not 0 < self.coverage < 1,
                f"--coverage {self.coverage}: expected a number above 0, below 1",
            ),
            (
                self.coverage != type(self).coverage and self.interval == NORMAL,
                "--coverage only works with --interval conformal",
            ),
            (
                self.interval == CONFORMAL and self.runs > 1,
                "--interval conformal needs a single split; drop --folds or --replicates",
            ),
            (
                of_column and (self.ratios or self.folds and not self.fold_column),
                f"--split {self.split} is one split; drop --folds and --ratios",
            ),
            (
                self.split.startswith("time:") and self.folds,
                f"--split {self.split} is one split; drop --folds",
            ),
            (
                self.valid_file and not self.test_file,
                "--valid-file needs --test-file",
            ),
            (
                self.split and self.valid_file,
                "--valid-file and --test-file are the split; drop --split",
            ),
            (
                self.test_file and (self.folds or self.ratios or of_column),
                "--test-file is part of the split; drop --folds, --ratios and column:NAME",
            ),
        ]
        check_least("--folds", self.folds or None, LEAST_FOLDS)
        for is_wrong, text in conditions:
            if is_wrong:
                raise DatasetError(text)

    @property
    def path(self) -> Path:
        """See `TableOptions`."""
        return home_path(self.table)

    @property
    def part_files(self) -> dict[str, str]:
        """Tables of parts of the split, beside the table of the others, by part."""
        files = {part: getattr(self, name) for part, name in PART_FILES.items()}
        return {part: file for part, file in files.items() if file}

    @property
    def tables(self) -> dict[str, Path]:
        """Files of molecules by part of the split; without further files, the table is all."""
        files = {"train": self.table, **self.part_files}
        return {part: home_path(file) for part, file in files.items()}

    @property
    def training_flags(self) -> list[str]:
        """Given options that only a training has."""
        names = (*TRAINING_OPTIONS, "ensemble", "trials", "descriptors")
        return [flag_of(n) for n in names if getattr(self, n) != getattr(Settings, n)]

    @property
    def runs(self) -> int:
        """Number of splits; each has its models."""
        return (self.folds or 1) * self.replicates

    def run_name(self, number: int) -> str:
        """Name of the run with a number from 1."""
        return f"{'fold' if self.folds else 'replicate'} {number}"

    def training(self, model: str) -> Training:
        """Options of a training: the user's, else the defaults of the model."""
        options = {name: getattr(self, name) for name in TRAINING_OPTIONS}
        options = {name: value for name, value in options.items() if value is not None}
        return dataclasses.replace(TRAININGS[model], **options)


def parse_ratios(text: str) -> Ratios:
    """Shares of train, valid and test from ``80,10,10`` or ``0.8,0.1,0.1``."""
    try:
        train, valid, test = numbers = [float(part) for part in text.split(",")]
        total = math.fsum(numbers)
    except (ValueError, OverflowError):
        total = 0.0
    if not 0 < total < math.inf or min(numbers) <= 0:
        raise DatasetError(
            f"--ratios {text}: expected three numbers above 0, such as 80,10,10"
        )
    return train / total, valid / total, test / total


def claim(folder: Path, identity: dict[str, Any], write: bool = True) -> None:
    """Make a folder belong to one experiment.

    Args:
        identity: everything that the results depend on, as JSON values.
        write: write it into a new folder, which only the holder of its lock may do.
    """
    path = folder / SETTINGS_FILE
    folder.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        if any(not file.name.startswith(".") for file in folder.iterdir()):
            raise DatasetError(
                f"{folder} holds other files; name a new folder with --out"
            )
        if write:
            write_text(path, json.dumps(identity, indent=1))
        return
    with named_damage(f"{path} is damaged; name a new folder with --out", DatasetError):
        before = dict(json.loads(read_text(path)))
    for name in before | identity:
        old = json.dumps(before.get(name))
        new = json.dumps(identity.get(name))
        if old != new:
            changed = f"{name} was {old}, now {new}"
            if name in FILES:
                changed = f"{FILES[name]} is another file, or has changed"
            raise DatasetError(
                f"{folder} holds another experiment: {changed}; name a new folder with "
                "--out"
            )
