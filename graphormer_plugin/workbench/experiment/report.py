"""report.html: a page for a colleague, one file with tables, figures and structures."""

import base64
import os
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from graphormer_plugin.data.errors import counted
from graphormer_plugin.data.graphs.smiles import mol_of_any_smiles
from graphormer_plugin.data.splits import SPLITS, Split
from graphormer_plugin.data.tables.labels import label_text
from graphormer_plugin.estimators.domain import most_similar
from graphormer_plugin.inference.prediction_columns import describe
from graphormer_plugin.versions import versions
from graphormer_plugin.workbench.experiment.experiment import TITLES, Experiment
from graphormer_plugin.workbench.experiment.labelled_molecules import (
    LabelledMolecules,
)
from graphormer_plugin.workbench.experiment.predictions import Run
from graphormer_plugin.workbench.experiment.results import (
    MOST_ENDPOINTS,
    held_out_metrics,
    metric_tables,
    report_numbers,
)
from graphormer_plugin.workbench.experiment.settings import FITTED, TABLES, Settings
from graphormer_plugin.workbench.explain.drawing import (
    Molecule,
    address,
    molecule_picture,
)
from graphormer_plugin.workbench.predictions.scores import IN_UNIT

TEMPLATE = "report.html.jinja"
# Settings that are paths; a page shows the name of the file.
PATHS = (*TABLES, "folder", "start")
# Numbers of molecules on the page.
WORST = 10
NEIGHBOURS = 3


def report(
    experiment: Experiment,
    runs: Sequence[Run],
    results: pd.DataFrame,
    tested: pd.DataFrame,
    warnings: Sequence[str],
    pictures: Iterable[tuple[str, bytes]],
    worst: pd.DataFrame,
    lines: Sequence[str],
) -> str:
    """The page, without references to other files; ``lines`` stand below its tables."""
    settings = experiment.settings
    table = experiment.table
    by_target = held_out_metrics(results)
    templates = PackageLoader("graphormer_plugin.workbench.experiment", ".")
    pages = Environment(loader=templates, autoescape=True, undefined=StrictUndefined)
    options = {}
    if experiment.model not in FITTED:
        training = vars(experiment.training)
        options[TITLES[experiment.model]] = ", ".join(
            f"{name} {value:g}"
            for name, value in training.items()
            if value is not None  # the model's own
        )
    conditions = {**given_settings(settings), **options, **versions()}
    if experiment.start is not None:
        conditions["start"] = (
            f"{experiment.start.name}, sha256 {experiment.start.sha256}"
        )
    targets = table.targets
    units = dict(zip(targets.names, targets.units))
    return pages.get_template(TEMPLATE).render(
        title=f"{Path(settings.table).name}: {', '.join(table.targets.names)}",
        targets=targets,
        molecules=molecules_text(table),
        scaled=table.scaled,
        split=split_text(settings, experiment.splits[0].rows),
        labels=label_table(table, experiment.splits[0].rows),
        numbers=report_numbers(table, tested, by_target),
        lines=lines,
        warnings=warnings,
        tables=metric_tables(table, by_target),
        in_unit=IN_UNIT,
        units=units,
        many=len(by_target) > MOST_ENDPOINTS,
        repeated="folds" if settings.folds else "replicates",
        runs=len(runs),
        # A PNG file has its width in pixels in its header.
        pictures=[
            (name, base64.b64encode(png).decode(), int.from_bytes(png[16:20]))
            for name, png in pictures
        ],
        structure=structure,
        worst=[card(experiment, runs, molecule) for molecule in worst.itertuples()],
        folder=shlex.quote(Path(os.path.abspath(settings.folder)).name),
        given=conditions,
    )


def card(experiment: Experiment, runs: Sequence[Run], molecule: Any) -> dict[str, Any]:
    """A row of `worst_predicted` as the page shows it, with its neighbours in train."""
    table = experiment.table
    run = runs[molecule.run]
    target = molecule.target
    targets = table.targets
    index = molecule.row, targets.outputs[target]
    values = run.predicted.values[index]
    std = None if run.predicted.std is None else run.predicted.std[index]
    prints = experiment.features["fingerprint"]
    return {
        "smiles": table.smiles[molecule.row],
        "label": shown_label(table, molecule.row, target),
        "target": targets.names[target],
        "unit": targets.units[target] and f" {targets.units[target]}",
        "predicted": describe(targets.targets[target], values, std),
        "in_domain": molecule.in_domain,
        "neighbours": [
            (table.smiles[row], shown_label(table, row, target), likeness)
            for row, likeness in neighbours(table, run, prints, molecule.row, target)
        ],
    }


def worst_predicted(tested: pd.DataFrame) -> pd.DataFrame:
    """Rows of `predicted_labels` with the largest errors, the worst first, a molecule once."""
    ordered = tested.sort_values("error", ascending=False, kind="stable")
    return ordered.drop_duplicates("row").head(WORST)


def neighbours(
    table: LabelledMolecules, run: Run, fingerprints: np.ndarray, row: int, target: int
) -> list[tuple[int, float]]:
    """Molecules of train with a label of the target that are most like a molecule, and
    their Tanimoto similarity to it, by the ``fingerprints`` of all molecules [n, bits],
    counts of Morgan's environments."""
    labels = run.labels.learned[:, target]
    rows = run.labels.rows["train"][~np.isnan(labels)]
    nearest = most_similar(fingerprints[row], fingerprints[rows], NEIGHBOURS)
    return [(int(rows[index]), likeness) for index, likeness in nearest]


def structure(smiles: str) -> str:
    """A molecule as RDKit draws it, as an address for a page."""
    panel = Molecule(smiles, mol_of_any_smiles(smiles), None, notes={})
    return address(molecule_picture(panel, "svg", 210), "svg+xml")


def shown_label(table: LabelledMolecules, row: int, target: int) -> str:
    """A label for people, of a number three digits; see `label_text`."""
    label = table.labels[row, target]
    if not table.targets.is_number[target]:
        return table.targets.targets[target].word(label)
    return label_text("{:.3g}".format, label, table.bounds[row, target])


def molecules_text(table: LabelledMolecules) -> str:
    """How many molecules there are, and how many of them have a label if not all."""
    labelled = int((~np.isnan(table.labels)).any(1).sum())
    some = "" if labelled == len(table) else f" ({labelled:,} with a label)"
    return f"{counted(len(table), 'molecule')}{some}"


def label_table(table: LabelledMolecules, split: Split) -> list[list[str]]:
    """A header, and for each target the labels of train, valid and test: their number and
    mean ± standard deviation, or the share of a class in percent. A multiclass target has a
    line for each class."""
    lines = [["labels", *SPLITS]]
    are_numbers = table.targets.is_number_of_output
    for (name, column), is_number in zip(table.label_columns(), are_numbers):
        parts = [column[split[part]] for part in SPLITS]
        present = [part[~np.isnan(part)] for part in parts]
        lines.append([name, *(_summary(part, is_number) for part in present)])
    return lines


def _summary(labels: np.ndarray, is_number: bool) -> str:
    if not len(labels):
        return "0"
    if not is_number:
        return f"{len(labels):,}: {100 * labels.mean():.3g} %"
    return f"{len(labels):,}: {labels.mean():.3g} ± {labels.std():.3g}"


def split_text(settings: Settings, split: Split) -> str:
    """How the molecules were split, and the sizes of the first split."""
    sizes = ", ".join(f"{len(split[name]):,} {name}" for name in SPLITS)
    many = ""
    if settings.folds:
        times = f"{settings.replicates} times " if settings.replicates > 1 else ""
        many = f" in {times}{settings.folds} folds, the first"
    elif settings.replicates > 1:
        many = f", {settings.replicates} replicates, the first"
    words = settings.split
    if settings.part_files:
        files = {part: Path(file).name for part, file in settings.part_files.items()}
        files = {"valid": f"by {words}", **files}
        words = ", ".join(f"{part} {files[part]}" for part in SPLITS[1:])
    return f"{words}{many}: {sizes}"


def given_settings(settings: Settings) -> dict[str, str]:
    """The settings as text, without empty ones."""
    values = {name: x for name, x in vars(settings).items() if x not in (None, "", ())}
    values |= {name: Path(values[name]).name for name in PATHS if name in values}
    return {
        name: ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
        for name, value in values.items()
    }
