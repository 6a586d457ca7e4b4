"""``graphormer-train``: a model of a table of molecules, compared with references."""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from rdkit import rdBase

from graphormer_plugin.cli import (
    RDKIT_WARNINGS,
    CommandParser,
    command,
    not_empty,
    say,
    warn,
)
from graphormer_plugin.criterions.class_weights import HELP as CLASS_WEIGHTS
from graphormer_plugin.data.options import LISTS, MAX_ATOMS, help_of, names_of
from graphormer_plugin.data.schema import TARGET_KINDS
from graphormer_plugin.data.table_formats import stem
from graphormer_plugin.experiment.run import run_experiment
from graphormer_plugin.experiment.settings import (
    MANY_MOLECULES,
    MODELS,
    Settings,
    parse_ratios,
)


def build_parser() -> argparse.ArgumentParser:
    """Arguments of the command."""
    result = CommandParser(
        prog="graphormer-train",
        description="Train a model on a table of molecules, compare it with the mean and "
        "a random forest, and write everything to a folder. A run that was stopped goes "
        "on when the same command is typed again.",
    )
    add = result.add_argument
    add(
        "table",
        metavar="TABLE",
        type=not_empty,
        help=".csv, .tsv, .sdf (also with .gz) or .parquet",
    )
    add(
        "--out",
        metavar="FOLDER",
        type=not_empty,
        help="where to write (default: the table's name and -model)",
    )
    table = result.add_argument_group("table")
    add = table.add_argument
    add(
        "--smiles-column",
        default="",
        help="column of SMILES (default: the column called smiles, or the only one with "
        "smiles in its name)",
    )
    add(
        "--target-columns",
        metavar="A,B,...",
        default="",
        help="columns to predict, also patterns such as 'NR-*', or all (default: the "
        "only other column, or the only one of numbers, unless it is called id or the "
        "like); an empty cell is a missing label",
    )
    add(
        "--missing-labels",
        metavar="A,B,...",
        default="",
        help=help_of("missing_labels"),
    )
    add(
        "--target-kind",
        choices=TARGET_KINDS,
        default="",
        help="what the targets are (default: binary if all labels are 0 or 1 or one of "
        "two words, multiclass if --class-names has more than two)",
    )
    add("--class-names", metavar="A,B,...", default="", help=help_of("class_names"))
    add("--class-weights", metavar="A,B,...", default="", help=CLASS_WEIGHTS)
    add("--weight-column", metavar="NAME", default="", help=help_of("weight_column"))
    add("--largest-fragment", action="store_true", help=help_of("largest_fragment"))
    add(
        "--extra-columns",
        metavar="A,B,...",
        default="",
        help="columns of numbers that the models read beside the molecule, such as "
        "pH,temperature; predictions need them too",
    )
    add(
        "--descriptors",
        action="store_true",
        help="RDKit's descriptors join the output layer of trainings; heads and the "
        "random forest always read them",
    )
    add("--target-unit", default="", help="unit of the targets, for messages, e.g. eV")
    add(
        "--skip-invalid",
        action="store_true",
        help="leave out molecules that RDKit cannot parse",
    )
    add(
        "--max-atoms",
        type=int,
        default=MAX_ATOMS,
        help="atoms of the largest molecule; a larger one counts as one that cannot be "
        f"parsed (default: {MAX_ATOMS})",
    )
    split = result.add_argument_group("split")
    add = split.add_argument
    add(
        "--split",
        default="",
        help="scaffold (Bemis-Murcko), random, or column:NAME, a column with train, valid "
        "and test (default: the column called split if there is one and neither --folds "
        "nor --ratios is given, else scaffold)",
    )
    add(
        "--ratios",
        default="",
        metavar="A,B,C",
        help="shares of train, valid and test (default: 80,10,10); not with --folds",
    )
    add("--folds", type=int, default=0, metavar="K", help="cross-validation, K >= 3")
    add(
        "--replicates",
        type=int,
        default=1,
        metavar="K",
        help="repeat with K splits and seeds, or if a column has the split with K seeds "
        "(default: 1)",
    )
    add("--seed", type=int, default=1, help="of splits and models (default: 1)")
    model = result.add_argument_group("model")
    add = model.add_argument
    add(
        "--model",
        choices=MODELS,
        default=Settings.model,
        help="head: a Gaussian process on the frozen vectors of --start; finetune: train "
        "its weights; scratch: start from random weights; auto: head, and from "
        f"{MANY_MOLECULES:,} training molecules on, or with options of a training such as "
        "--epochs, the head or its mean with finetune, whichever is better in "
        "validation (default)",
    )
    add(
        "--start",
        default="",
        metavar="NAME_OR_FILE",
        help="pre-trained checkpoint, or name of a published one",
    )
    add(
        "--arch",
        default=Settings.arch,
        help=f"architecture of --model scratch (default: {Settings.arch})",
    )
    add(
        "--ensemble",
        type=int,
        default=1,
        metavar="K",
        help="models per split, whose mean counts (default: 1)",
    )
    add("--epochs", type=int, help="most epochs of a training")
    add("--patience", type=int, help="epochs without improvement before it stops")
    add("--lr", type=float, help="peak of the learning rate")
    add("--batch-size", type=int, help="molecules per update")
    add(
        "--trials",
        type=int,
        default=0,
        metavar="N",
        help="search learning rate, dropout and depth of freezing in N trainings on the "
        "first split, with Optuna; test molecules of other splits take part in it",
    )
    add(
        "--trees",
        type=int,
        default=Settings.trees,
        help=f"of the random forest (default: {Settings.trees})",
    )
    add("--device", choices=("cpu", "cuda"), default="", help="default: a GPU if any")
    add = result.add_argument
    add("--quiet", action="store_true", help="no progress bar")
    return result


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    arguments = build_parser().parse_args(argv)
    logging.basicConfig(level=logging.ERROR, format="%(message)s", force=True)
    rdBase.DisableLog(RDKIT_WARNINGS)
    run_experiment(
        settings_of(arguments),
        say,
        warn,
        progress=not arguments.quiet,
    )
    return 0


def settings_of(arguments: argparse.Namespace) -> Settings:
    """The experiment that the arguments describe.

    Raises:
        DatasetError: A value is out of range, or two contradict each other.
    """
    values = dict(vars(arguments))
    for name in ("quiet", "debug"):
        del values[name]
    out = values.pop("out")
    values["folder"] = out or default_folder(values["table"])
    for name in LISTS:
        values[name] = names_of(values[name], name)
    values["ratios"] = parse_ratios(values["ratios"]) if values["ratios"] else None
    return Settings(**values)


def default_folder(table: str) -> str:
    """Name of the table without its endings, in the current folder."""
    return stem(Path(table)) + "-model"


if __name__ == "__main__":
    sys.exit(main())
