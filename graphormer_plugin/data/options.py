"""Which data to use: the flags of every command, and the options made from them."""

# No `from __future__ import annotations`: fairseq reads the types of a config's fields.

import dataclasses
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.files import home_path
from graphormer_plugin.data.schema import TARGET_KINDS
from graphormer_plugin.data.shards import Shard

# Options of tables, which other datasets and prepared stores refuse. A store records the
# later ones only where they are given, so that older stores stay valid.
LATER_TABLE_OPTIONS = (
    *("class_names", "weight_column", "largest_fragment"),
    *("extra_columns", "descriptors", "missing_labels"),
)
TABLE_OPTIONS = (
    *("split", "smiles_column", "target_columns", "target_kind", "target_unit"),
    *LATER_TABLE_OPTIONS,
)
LISTS = ("target_columns", "missing_labels", "class_names", "extra_columns")
# Memory grows with the square of the atoms. Our choice: all benchmarks are below it.
MAX_ATOMS = 1000


@dataclass
class DatasetConfig:
    """Flags that say which data to use, of the tasks and of ``graphormer-preprocess``.

    The names are Graphormer v2's where it has one.
    """

    dataset_name: Optional[str] = field(
        default=None,
        metadata={
            "help": "name of a registered dataset, e.g. nci, or path of a .csv, "
            ".tsv, .sdf (also with .gz) or .parquet file, of a prepared store or of a "
            "folder of stores; or several of these, separated by commas"
        },
    )
    dataset_source: Optional[str] = field(
        default=None,
        metadata={
            "help": "where the dataset comes from, e.g. rdkit or csv "
            "(default: the source that knows the name)"
        },
    )
    data_root: Optional[str] = field(
        default=None,
        metadata={
            "help": "folder of downloads and prepared stores (default: environment "
            "variable GRAPHORMER_DATA_ROOT or ~/.cache/graphormer_plugin)"
        },
    )
    user_data_dir: Optional[str] = field(
        default=None,
        metadata={
            "help": "folder with Python files that register datasets or substructures"
        },
    )
    smiles_column: Optional[str] = field(
        default=None,
        metadata={
            "help": "table: column of the SMILES strings (default: the one called smiles)"
        },
    )
    target_columns: Optional[str] = field(
        default=None,
        metadata={
            "help": "table: target columns, comma-separated; a pattern such as 'NR-*' "
            "stands for the columns that it fits, all for those of numbers (default: "
            "the only column that is left, unless it is called id or the like); an empty "
            "cell is a missing target"
        },
    )
    missing_labels: Optional[str] = field(
        default=None,
        metadata={
            "help": "table: further cells of targets that are missing, comma-separated, "
            "in any case, or numbers; * stands for any text, as in 'ND,>*,<*'"
        },
    )
    target_kind: str = field(
        default="regression",
        metadata={
            "help": f"table: {', '.join(TARGET_KINDS[:-1])} or {TARGET_KINDS[-1]}"
        },
    )
    class_names: Optional[str] = field(
        default=None,
        metadata={
            "help": "table: words that name the classes, comma-separated, class 0 first, "
            "e.g. inactive,active (default: by their meaning for two words, such as yes "
            "and no; alphabetical for more)"
        },
    )
    weight_column: Optional[str] = field(
        default=None,
        metadata={
            "help": "table: column with the weight of each row in the loss, >= 0 "
            "(default: equal weights)"
        },
    )
    largest_fragment: bool = field(
        default=False,
        metadata={
            "help": "table: keep the largest organic fragment of each molecule, without "
            "salts and solvents; predictions with the checkpoint do the same"
        },
    )
    extra_columns: Optional[str] = field(
        default=None,
        metadata={
            "help": "table: columns of numbers, comma-separated, that the output layer "
            "reads beside the graph, such as pH,temperature; predictions need them too"
        },
    )
    descriptors: bool = field(
        default=False,
        metadata={
            "help": "table: the output layer reads RDKit's descriptors beside the graph"
        },
    )
    target_unit: Optional[str] = field(
        default=None,
        metadata={"help": "table: unit of the targets, for messages, e.g. eV"},
    )
    split: Optional[str] = field(
        default=None,
        metadata={
            "help": "table: random (80/10/10 by --seed), scaffold (Bemis-Murcko), or "
            "column:NAME, a column with train, valid and test (default: "
            "column:split if there is one, else random)"
        },
    )
    skip_invalid: bool = field(
        default=False,
        metadata={
            "help": "leave out molecules that RDKit cannot parse; otherwise "
            "preparation stops and says how many and where"
        },
    )
    max_atoms: int = field(
        default=MAX_ATOMS,
        metadata={
            "help": "atoms of the largest molecule that is read from SMILES, >= 1 "
            f"(default: {MAX_ATOMS}); a larger one counts as one that cannot be parsed"
        },
    )
    prepare_workers: Optional[int] = field(
        default=None,
        metadata={
            "help": "processes that prepare a dataset on first use, >= 1 (default: one "
            "per core)"
        },
    )


@dataclass(frozen=True)
class DatasetOptions:
    """What a user says about a dataset, checked.

    The help texts of `DatasetConfig` explain the fields, which have the names of its
    flags without the prefixes ``dataset_`` and ``prepare_``. Empty or None selects the
    default that is named there.

    Attributes:
        seed: Of the random split.
        shard: Part of a table to prepare.
        rebuild: Prepare again even if a valid store exists.
        progress: Show a progress bar.

    Raises:
        DatasetError: The name is missing, or split or kind of target is unknown.
    """

    name: str = "nci"
    source: str = ""
    data_root: str | None = None
    split: str = ""
    seed: int = 1
    smiles_column: str = ""
    target_columns: Sequence[str] = ()
    missing_labels: Sequence[str] = ()
    target_kind: str = "regression"
    target_unit: str = ""
    class_names: Sequence[str] = ()
    weight_column: str = ""
    largest_fragment: bool = False
    extra_columns: Sequence[str] = ()
    descriptors: bool = False
    skip_invalid: bool = False
    max_atoms: int = MAX_ATOMS
    workers: int | None = None
    user_data_dir: str | None = None
    shard: Shard = Shard()
    rebuild: bool = False
    progress: bool = True

    def __post_init__(self) -> None:
        for name in LISTS:
            names = getattr(self, name)
            if isinstance(names, str):
                names = names_of(names, name)
            object.__setattr__(self, name, tuple(names or ()))
        for name in (
            "source",
            "split",
            "smiles_column",
            "target_unit",
            "weight_column",
        ):
            object.__setattr__(self, name, getattr(self, name) or "")
        known = ("", "random", "scaffold")
        if self.split not in known and not re.fullmatch(r"column:.+", self.split):
            raise DatasetError(
                f"unknown split {self.split!r}, expected random|scaffold|column:NAME"
            )
        if self.target_kind not in TARGET_KINDS:
            raise DatasetError(
                f"unknown target kind {self.target_kind!r}, "
                f"expected {'|'.join(TARGET_KINDS)}"
            )
        if self.max_atoms < 1:
            raise DatasetError(f"--max-atoms {self.max_atoms}: expected 1 or more")
        if not self.name:
            raise DatasetError("no dataset name is given")

    @classmethod
    def from_config(cls, config: Any, **more: Any) -> "DatasetOptions":
        """Options of a `DatasetConfig`, or of anything with its fields.

        Args:
            config: For example the configuration of a task.
            **more: Further fields, as ``seed``.
        """
        for flag in dataclasses.fields(DatasetConfig):
            name = flag.name.removeprefix("dataset_").removeprefix("prepare_")
            more[name] = getattr(config, flag.name)
        return cls(**more)


def names_of(text: str, option: str) -> tuple[str, ...]:
    """The names that an option lists, separated by commas; none in an empty text.

    Raises:
        DatasetError: There are commas only.
    """
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    if text and not names:
        flag = option.replace("_", "-")
        raise DatasetError(f"--{flag} {text!r}: expected names, separated by commas")
    return names


def data_root_folder(options: DatasetOptions) -> Path:
    """``data_root``, else $GRAPHORMER_DATA_ROOT, else ~/.cache/graphormer_plugin."""
    root = options.data_root or os.environ.get("GRAPHORMER_DATA_ROOT")
    return home_path(root or "~/.cache/graphormer_plugin")


def help_of(name: str) -> str:
    """Help text of a flag of `DatasetConfig`, for other commands that have it."""
    (flag,) = (one for one in dataclasses.fields(DatasetConfig) if one.name == name)
    return flag.metadata["help"].removeprefix("table: ")
