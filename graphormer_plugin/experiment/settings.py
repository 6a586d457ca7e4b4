"""What a user asks of an experiment, and the defaults; all numbers are our choice."""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphormer_plugin.criterions.class_weights import HELP as CLASS_WEIGHTS
from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.files import atomic_write
from graphormer_plugin.data.options import TableOptions, option
from graphormer_plugin.data.schema import TARGET_KINDS
from graphormer_plugin.data.splits import RATIOS, Ratios

HEAD, FINETUNE, SCRATCH, AUTO = "head", "finetune", "scratch", "auto"
MODELS = (AUTO, HEAD, FINETUNE, SCRATCH)
# What auto makes with a start, and what it makes for many molecules or with options of a
# training, where the head or the mean of both is chosen in each run, by validation. Which is
# better for how many molecules is measured in examples/small_data.
AUTO_MODELS = (HEAD,)
AUTO_TRAINED = (HEAD, FINETUNE)
MANY_MOLECULES = 2000  # of a training split
TRAINING_OPTIONS = ("epochs", "patience", "lr", "batch_size")
MOST_SEED = 2**31 - 1  # NumPy takes 2**32 - 1; members and replicates add to it
SETTINGS_FILE = "settings.json"
# What a digest in it is of.
FILES = {"sha256": "the table", "start_sha256": "the pre-trained model"}


@dataclass(frozen=True)
class Training:
    """Options of one training, as flags of fairseq-train.

    Attributes:
        lr: Peak of the learning rate.
        epochs: At most; the learning rate falls to 0 until then.
        patience: Epochs without a better validation metric before it stops.
        batch_size: Molecules per update.
        frozen: Share of the layers that are not trained, with the embeddings; 0 trains
            all.
        lr_decay: Factor of the learning rate from each layer to the one below it.
        dropout: Of all kinds; None leaves the model's own.
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


@dataclass(frozen=True)
class Settings(TableOptions, Places):
    """An experiment as a user describes it; the help of each field says what it means.

    The fields are the flags of ``graphormer-train``, in groups.

    Raises:
        DatasetError: A value is out of range, or two contradict each other.
    """

    target_columns: Sequence[str] = option(
        (),
        "columns to predict, also patterns such as 'NR-*', or all (default: the only "
        "other column, or the only one of numbers, unless it is called id or the like); "
        "an empty cell is a missing label",
    )
    split: str = option(
        "",
        "scaffold (Bemis-Murcko), random, or column:NAME, a column with train, valid and "
        "test (default: the column called split if there is one and neither --folds nor "
        "--ratios is given, else scaffold)",
        choices=("scaffold", "random", "column:NAME"),
        group="split",
    )
    seed: int = option(1, "of splits and models (default: 1)", least=0, group="split")
    target_kind: str = option(
        "",
        "what the targets are: regression, binary or multiclass (default: binary if all "
        "labels are 0 or 1 or one of two words, multiclass if --class-names has more "
        "than two)",
        choices=TARGET_KINDS,
    )
    class_weights: str = option("", CLASS_WEIGHTS, metavar="A,B,...")
    descriptors: bool = option(
        False,
        "RDKit's descriptors join the output layer of trainings; heads and the random "
        "forest always read them",
    )
    ratios: Ratios | None = option(
        None,
        "shares of train, valid and test (default: 80,10,10); not with --folds",
        metavar="A,B,C",
        group="split",
    )
    folds: int = option(0, "cross-validation, K >= 3", metavar="K", group="split")
    replicates: int = option(
        1,
        "repeat with K splits and seeds, or if a column has the split with K seeds "
        "(default: 1)",
        metavar="K",
        least=1,
        group="split",
    )
    model: str = option(
        AUTO,
        "head: a Gaussian process on the frozen vectors of --start; finetune: train its "
        "weights; scratch: start from random weights; auto: head, and from "
        f"{MANY_MOLECULES:,} training molecules on, or with options of a training such "
        "as --epochs, the head or its mean with finetune, whichever is better in "
        "validation (default)",
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
        500, "of the random forest (default: 500)", least=1, group="model"
    )
    device: str = option(
        "", "default: a GPU if any", words=("cpu", "cuda"), group="model"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for path in (self.table, self.folder):
            try:
                path.encode()
            except UnicodeEncodeError:  # files of settings and commands have it
                raise DatasetError(
                    f"{path!r} is not a name in UTF-8; rename it"
                ) from None
        if self.seed > MOST_SEED:
            raise DatasetError(f"--seed {self.seed}: expected {MOST_SEED} or less")
        if self.folds and self.folds < 3:
            raise DatasetError(f"--folds {self.folds}: expected 3 or more")
        if self.training_flags and self.model == HEAD:
            raise DatasetError(
                f"{', '.join(self.training_flags)}: of a training, --model head has none"
            )
        if self.folds and self.replicates > 1:
            raise DatasetError("--folds and --replicates cannot be combined")
        if self.folds and self.ratios:
            raise DatasetError(
                "--folds and --ratios cannot be combined: valid and test are a fold each"
            )
        if self.lr is not None and not self.lr > 0:
            raise DatasetError(f"--lr {self.lr}: expected a number above 0")
        named = self.split.startswith("column:")
        if named and (self.folds or self.ratios):
            raise DatasetError(
                f"--split {self.split} is one split: --folds and --ratios do not go "
                "with it"
            )

    @property
    def training_flags(self) -> list[str]:
        """Options that ask for a training."""
        asked = {name: getattr(self, name) is not None for name in TRAINING_OPTIONS}
        asked |= {"ensemble": self.ensemble > 1, "trials": self.trials > 0}
        asked["descriptors"] = self.descriptors
        return ["--" + name.replace("_", "-") for name in asked if asked[name]]

    @property
    def shares(self) -> Ratios:
        """Shares of train, valid and test."""
        return self.ratios or RATIOS

    @property
    def runs(self) -> int:
        """Number of splits; each has its models."""
        return self.folds or self.replicates

    def run_name(self, number: int) -> str:
        """Of the split of a number from 1."""
        return f"{'fold' if self.folds else 'replicate'} {number}"

    def training(self, model: str) -> Training:
        """Options of a training; those that the user gave come first."""
        given = {
            name: getattr(self, name)
            for name in TRAINING_OPTIONS
            if getattr(self, name) is not None
        }
        return dataclasses.replace(TRAININGS[model], **given)


def parse_ratios(text: str) -> Ratios:
    """Shares of train, valid and test from ``80,10,10`` or ``0.8,0.1,0.1``.

    Raises:
        DatasetError: They are not three numbers above 0.
    """
    try:
        numbers = [float(part) for part in text.split(",")]
        total = math.fsum(numbers)
    except (ValueError, OverflowError):
        numbers, total = [], 0.0
    fits = len(numbers) == 3 and all(number > 0 for number in numbers)
    if not (fits and total < math.inf):
        raise DatasetError(
            f"--ratios {text}: expected three numbers above 0, such as 80,10,10"
        )
    train, valid, test = (number / total for number in numbers)
    return train, valid, test


def claim(folder: Path, identity: Mapping[str, Any], write: bool = True) -> None:
    """Make the folder that of one experiment.

    Args:
        folder: Created if missing.
        identity: What the results depend on, as JSON values.
        write: Write it into a folder without; only who holds the lock of the folder may.

    Raises:
        DatasetError: It belongs to another experiment, or holds other files.
    """
    path = folder / SETTINGS_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DatasetError(f"cannot make {folder}: {error.strerror}") from None
    try:
        if path.exists():
            content = path.read_bytes()
        elif any(not file.name.startswith(".") for file in folder.iterdir()):
            raise DatasetError(
                f"{folder} holds other files; name a new folder with --out"
            )
        else:
            if write:
                with atomic_write(path, "w", encoding="utf-8") as file:
                    json.dump(identity, file, indent=1)
            return
    except OSError as error:
        raise DatasetError(f"{folder}: {error.strerror or error}") from None
    try:
        before = json.loads(content)
    except (ValueError, RecursionError):
        before = None
    if not isinstance(before, dict):
        raise DatasetError(f"{path} is damaged; name a new folder with --out")
    # Older versions did not write what they did not know.
    default = {
        field.name: field.default
        for field in dataclasses.fields(Settings)
        if field.default is not dataclasses.MISSING
    }
    for name in {**before, **identity}:
        old, new = (
            json.dumps(found.get(name, default.get(name)))
            for found in (before, identity)
        )
        if old != new:
            what = f"{name} was {old}, now {new}"
            if name in FILES:
                what = f"{FILES[name]} is another file, or has changed"
            raise DatasetError(
                f"{folder} holds another experiment: {what}; name a new folder with --out"
            )
