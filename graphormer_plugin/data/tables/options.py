"""Which data to use: the flags of every command, and the options made from them."""

# No `from __future__ import annotations`: fairseq reads the types of a config's fields.

import csv
import dataclasses
import io
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, get_args

from graphormer_plugin.choices import at_least, option
from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.files import home_path
from graphormer_plugin.data.graphs.conformers import LENGTH_UNITS
from graphormer_plugin.data.graphs.featurisers import AtomsFeaturiser
from graphormer_plugin.data.graphs.smiles import POSITIONS, OGBFeaturiser
from graphormer_plugin.data.row_ranges import Shard
from graphormer_plugin.data.tables.formats import ATOMS, ending
from graphormer_plugin.data.targets import Kind

# Memory grows with the square of the atoms. Our choice: all benchmarks are below it.
MAX_ATOMS = 1000
ROWS = "rows:"  # in --split
CLASS_WEIGHTS = (
    "weights of the classes in the loss, 0 first, comma-separated, e.g. 1,5; or balanced: "
    "in inverse proportion to the labels of each class in the training split (default: "
    "equal weights)"
)


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """How a table of molecules is read; the help of each field says what it means.

    Marks of a field: ``flag``, whether it is a flag of `DatasetConfig` (default: yes);
    ``everywhere``, whether it is for all datasets, not only for tables; ``metavar``;
    ``choices``, where NAME and FILE stand for any text; ``words``, choices that argparse
    checks; ``least``, the smallest number. A default of ``()`` is a list of names.

    The flags of all commands, and of fairseq, are made from these fields.
    """

    smiles_column: str = option(
        "",
        "column of the SMILES strings (default: the column called smiles, or the only "
        "one with smiles in its name)",
    )
    target_columns: Sequence[str] = option(
        (),
        "target columns, comma-separated; a pattern such as 'NR-*' stands for the "
        "columns that it fits, all for the columns of numbers, '\"a,b\",c' for a name with a "
        "comma (default: the only column that is left, unless it is called id or the like); "
        "an empty cell is a missing target",
    )
    split: str = option(
        "",
        "random (80/10/10 by --seed), scaffold (80/10/10 of the labels by --seed, no "
        "Bemis-Murcko scaffold in two splits), time:NAME, a column of dates or numbers, the "
        "latest of which are test, or column:NAME, a column with train, valid "
        "and test (default: column:split if there is one, else random); or rows:FILE, row "
        "numbers from 0 by split in JSON: all such splits share a store, and a target "
        "without a label in train has none",
        choices=("random", "scaffold", "time:NAME", "column:NAME", "rows:FILE"),
    )
    seed: int = option(1, "seed of a drawn split", flag=False, everywhere=True, least=0)
    target_kind: str = option(
        "regression",
        f"{', '.join([*Kind][:-1])} or {[*Kind][-1]}",
        choices=[*Kind],
    )
    target_unit: str = option(
        "",
        "unit of the targets, for messages, e.g. eV; M, mM, uM, nM and the like also convert "
        "labels by a column of their units, such as Standard Units",
    )
    class_names: Sequence[str] = option(
        (),
        "words that name the classes, comma-separated, class 0 first, e.g. "
        "inactive,active (default: by their meaning for two words, such as yes and no; "
        "alphabetical for more)",
    )
    weight_column: str = option(
        "",
        "column with the weight of each row in the loss, >= 0 (default: equal weights)",
    )
    largest_fragment: bool = option(
        False,
        "keep the largest organic fragment of each molecule, without salts and "
        "solvents; predictions with the checkpoint do the same",
    )
    ignore_stereo: bool = option(
        False,
        "leave out marks of stereocentres and double bonds; predictions with the checkpoint "
        "do the same",
    )
    canonical_smiles: bool = option(
        False,
        "read each molecule from its canonical SMILES, so that its spelling does not "
        "matter; predictions with the checkpoint do the same",
    )
    positions: str = option(
        "none",
        "positions of atoms: file, of .sdf, .xyz and ASE's .db, with the atoms as written; "
        "rdkit, a conformer of each SMILES (ETKDG); or none",
        choices=POSITIONS,
    )
    forces_column: str = option(
        "",
        "forces on atoms in a file with --positions file; =-NAME reads the negative of an "
        "array, such as a gradient (default: the array with forces in its name whose other "
        "words are those of the energies)",
    )
    length_unit: str = option(
        "",
        "unit of positions in a file, of which forces are per unit (default: angstrom, and "
        "a line where this is doubtful)",
        choices=tuple(LENGTH_UNITS),
    )
    extra_columns: Sequence[str] = option(
        (),
        "columns of numbers, comma-separated, that the model reads beside the "
        "graph, such as pH,temperature; predictions need them too",
    )
    descriptors: bool = option(
        False, "the output layer reads RDKit's descriptors beside the graph"
    )
    missing_labels: Sequence[str] = option(
        (),
        "further cells of targets that are missing, comma-separated, in any case, or "
        "numbers; * stands for any text, as in 'ND,>*,<*'",
    )
    censored: bool = option(
        False,
        "cells of targets such as >100, <0.1 or 3.1-4.2 are bounds (as are columns value_low and "
        "value_high), which losses and heads count where a prediction lies on the wrong side, "
        "and metrics not at all",
    )
    skip_invalid: bool = option(
        False,
        "leave out molecules that RDKit cannot parse; otherwise preparation stops and "
        "says how many and where",
        everywhere=True,
    )
    max_atoms: int = option(
        MAX_ATOMS,
        "atoms of the largest molecule that is read from SMILES, >= 1 (default: "
        f"{MAX_ATOMS}); a larger one counts as one that cannot be parsed",
        everywhere=True,
        least=1,
    )

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            raw = getattr(self, field.name)
            marks = field.metadata
            value = raw
            are_names = isinstance(field.default, tuple)
            if are_names and isinstance(value, str):
                value = names_of(value)
            if field.default in ("", ()):
                value = value or field.default
            if are_names:
                value = tuple(value or ())
            object.__setattr__(self, field.name, value)
            expected = ""
            words = value if are_names else [value]
            text = "".join(map(str, words))
            if marks and not is_unicode(text):
                expected = "text in UTF-8"
            elif raw and not value:
                expected = "names, separated by commas"
            elif value == field.default:
                continue
            elif "choices" in marks and not all(
                _is_choice(word, marks["choices"]) for word in words
            ):
                expected = "|".join(marks["choices"])
            elif "least" in marks and value < marks["least"]:
                expected = at_least(marks["least"])
            if expected:
                raise DatasetError(f"{flag_of(field.name)} {raw}: expected {expected}")

    @property
    def featuriser(self) -> OGBFeaturiser | AtomsFeaturiser:
        """The reader of the molecules."""
        if self.positions == "file" and ending(self.path) in ATOMS:
            return AtomsFeaturiser()
        how = (self.canonical_smiles, self.largest_fragment)
        return OGBFeaturiser(*how, self.positions, self.ignore_stereo)

    @property
    def path(self) -> Path:
        """The file or folder that the options name."""
        raise NotImplementedError

    @property
    def split_file(self) -> Path | None:
        """The file of ``--split rows:FILE``; None for other splits."""
        names_file = self.split.startswith(ROWS)
        return home_path(self.split.removeprefix(ROWS)) if names_file else None


_FIELDS = dataclasses.fields(TableOptions)
# Options that only tables read; prepared stores and other datasets refuse them.
TABLE_OPTIONS = tuple(one.name for one in _FIELDS if not one.metadata.get("everywhere"))
# Options that decide what is in a table's store.
DECISIVE = tuple(one.name for one in _FIELDS if one.name != "skip_invalid")


def _flag_field(field: dataclasses.Field) -> tuple[str, Any, Any]:
    """Name, type and field of `DatasetConfig` for a field of `TableOptions`."""
    text = field.default in ("", ())
    prefix = "" if field.metadata.get("everywhere") else "table: "
    help = prefix + field.metadata["help"]
    flag = option(None if text else field.default, help)
    return (
        field.name,
        Optional[str] if text else type(field.default),
        flag,
    )


@dataclass
class _SourceFlags:
    dataset_name: Optional[str] = option(
        None,
        "name of a registered dataset, e.g. nci, or path of a .csv, .tsv, .sdf (also with "
        ".gz), .xlsx or .parquet file, of a prepared store or of a folder of stores; or "
        "several of these, separated by commas",
        required=True,  # on the command line of graphormer-preprocess
    )
    dataset_source: Optional[str] = option(
        None,
        "where the dataset comes from, e.g. rdkit or csv (default: the source that knows "
        "the name)",
    )
    data_root: Optional[str] = option(
        None,
        "folder of downloads and prepared stores (default: environment variable "
        "GRAPHORMER_DATA_ROOT or ~/.cache/graphormer_plugin)",
    )
    user_data_dir: Optional[str] = option(
        None, "folder with Python files that register datasets or substructures"
    )


_TableFlags: Any = dataclasses.make_dataclass(
    "_TableFlags",
    [_flag_field(one) for one in _FIELDS if one.metadata.get("flag", True)],
    bases=(_SourceFlags,),
)


@dataclass
class DatasetConfig(_TableFlags):
    """Flags that say which data to use, of the tasks and of ``graphormer-preprocess``.

    The names are Graphormer v2's where it has such a flag. Flags of tables are the fields of
    `TableOptions`.
    """

    prepare_workers: Optional[int] = option(
        None,
        "processes that prepare a dataset on first use, >= 1 (default: one per core)",
    )


@dataclass(frozen=True)
class DatasetOptions(TableOptions):
    """Options of a dataset as a user gives them, checked.

    The help texts of `DatasetConfig` explain the fields, which have the names of its
    flags without the prefixes ``dataset_`` and ``prepare_``. Empty or None selects the
    default that is named there. ``shard`` is the part of a table to prepare, and
    ``rebuild`` prepares again even if a valid store exists.
    """

    name: str = "nci"
    source: str = ""
    data_root: str | None = None
    workers: int | None = None
    user_data_dir: str | None = None
    shard: Shard = Shard()
    rebuild: bool = False
    progress: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.name:
            raise DatasetError("no dataset name is given")
        if self.positions == "file" and (
            self.canonical_smiles or self.largest_fragment or self.ignore_stereo
        ):
            raise DatasetError(
                "--positions file reads atoms as written; leave out --canonical-smiles, "
                "--largest-fragment and --ignore-stereo"
            )
        if self.user_data_dir:  # workers, which do not always start here, have it too
            folder = str(home_path(self.user_data_dir).absolute())
            object.__setattr__(self, "user_data_dir", folder)

    @property
    def path(self) -> Path:
        """The file or folder that the name may be."""
        return home_path(self.name)

    @property
    def root(self) -> Path:
        """``data_root``, else $GRAPHORMER_DATA_ROOT, else ~/.cache/graphormer_plugin."""
        root = self.data_root or os.environ.get("GRAPHORMER_DATA_ROOT")
        return home_path(root or "~/.cache/graphormer_plugin")

    @classmethod
    def from_config(cls, config: Any, **more: Any) -> "DatasetOptions":
        """Options of a `DatasetConfig`, or of anything with its fields, such as the
        configuration of a task; and further fields, such as ``seed``."""
        for flag in dataclasses.fields(DatasetConfig):
            name = flag.name.removeprefix("dataset_").removeprefix("prepare_")
            more[name] = getattr(config, flag.name)
        return cls(**more)


def names_of(text: str) -> tuple[str, ...]:
    """The names that an option lists, separated by commas; a name with a comma is in
    quotation marks, as in a CSV."""
    rows = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True)
    names = (name.strip() for row in rows for name in row)
    return tuple(name for name in names if name)


def list_of_names(names: Sequence[str]) -> str:
    """Inverse of `names_of`."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def table_options(options: TableOptions, **changed: Any) -> dict[str, Any]:
    """Values of the fields of `TableOptions`, some of them changed."""
    return {field.name: getattr(options, field.name) for field in _FIELDS} | changed


def is_unicode(text: str) -> bool:
    """Whether a word of a command line is text: Python reads other bytes as surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def flag_of(name: str) -> str:
    """The flag of an option."""
    return "--" + name.replace("_", "-")


def flag_words(options: Mapping[str, Any]) -> list[str]:
    """Arguments of fairseq-train for options by name; True is a switch. A text such as
    -logKow would be taken for a flag, so it is joined to its flag with =."""
    words = []
    for name, value in options.items():
        flag = flag_of(name)
        text = str(value)
        if value is True:
            words.append(flag)
        else:
            words += [f"{flag}={text}"] if text.startswith("-") else [flag, text]
    return words


def add_flag(parser: Any, field: dataclasses.Field, name: str = "") -> None:
    """Add the flag of a field, of `option` or of `DatasetConfig`, to a parser of argparse;
    ``name`` replaces the field's."""
    arguments: dict[str, Any] = {"action": "store_true"}
    if field.type is not bool:
        kinds = [k for k in (int, float) if k in (field.type, *get_args(field.type))]
        arguments = {
            "type": (*kinds, str)[0],
            "metavar": field.metadata.get("metavar"),
        }
        arguments["required"] = field.metadata.get("required", False)
        arguments["choices"] = field.metadata.get("words")
        arguments["default"] = field.default
        if isinstance(field.default, tuple):
            arguments["default"] = list_of_names(field.default)
            arguments["metavar"] = arguments["metavar"] or "A,B,..."
    flag = flag_of(name or field.name)
    parser.add_argument(flag, dest=field.name, help=field.metadata["help"], **arguments)


def _is_choice(value: str, choices: Sequence[str]) -> bool:
    patterns = (re.sub("NAME|FILE", ".+", re.escape(choice)) for choice in choices)
    return re.fullmatch("|".join(patterns), value, re.DOTALL) is not None
