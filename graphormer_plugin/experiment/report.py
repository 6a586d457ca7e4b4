"""report.html: one file with table, figures, warnings and settings."""

import base64
import html
import shlex
from collections.abc import Mapping, Sequence

import numpy as np

from graphormer_plugin.experiment.labelled_table import Split, Table
from graphormer_plugin.experiment.plan import TITLES, Experiment
from graphormer_plugin.experiment.results import Run, TestMetrics, metric_tables
from graphormer_plugin.experiment.settings import HEAD, Settings
from graphormer_plugin.experiment.split_tables import SPLITS
from graphormer_plugin.versions import versions

STYLE = """
body { font: 16px/1.5 sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0 }
td, th { padding: .2rem .8rem; text-align: left; border-bottom: 1px solid #ddd }
img { max-width: 100% } .warning { color: #a40 } code { background: #f4f4f4 }
"""


def report(
    experiment: Experiment,
    runs: Sequence[Run],
    rows: TestMetrics,
    warnings: Sequence[str],
    pictures: Mapping[str, bytes],
) -> str:
    """The page, without references to other files.

    Args:
        experiment: Its settings, molecules and options of trainings.
        runs: Its splits with the predictions.
        rows: Test metrics, see `metrics_of_test`.
        warnings: About the data.
        pictures: PNG files by title.
    """
    settings, table = experiment.settings, experiment.table
    kind = table.targets.kind
    unit = f", {table.targets.unit}" if table.targets.unit else ""
    title = f"{settings.table}: {', '.join(table.targets.names)}"
    lines = [
        f"<h1>{text(title)}</h1>",
        f"<p>{molecules_text(table)}, {text(kind)}{text(unit)}. Split: "
        f"{text(split_text(settings, experiment.splits))}.</p>",
        *(f'<p class="warning">Warning: {text(one)}.</p>' for one in warnings),
    ]
    for heading, (header, *cells) in metric_tables(table, rows).items():
        lines += [f"<h2>{heading}</h2>", "<table>", row("th", header)]
        lines += [row("td", [getattr(x, "text", x) for x in line]) for line in cells]
        lines.append("</table>")
    if len(runs) > 1:
        lines.append(
            f"<p>Mean ± standard deviation over {len(runs)} "
            f"{'folds' if settings.folds else 'replicates'}.</p>"
        )
    lines += [
        f"<p>{settings.run_name(number).capitalize()}: {text(run.reason)}.</p>"
        for number, run in enumerate(runs, 1)
    ]
    for name, picture in pictures.items():
        data = base64.b64encode(picture).decode()
        lines.append(f"<h2>{text(name)}</h2>")
        lines.append(f'<img alt="{text(name)}" src="data:image/png;base64,{data}">')
    options = {
        TITLES[model]: ", ".join(
            f"{name} {value:g}"
            for name, value in vars(experiment.options(model)).items()
            if value is not None  # the model's own
        )
        for model in experiment.models
        if model != HEAD
    }
    given = {**given_settings(settings), **options, **versions()}
    if experiment.start is not None:
        given["start"] = f"{experiment.start.name}, sha256 {experiment.start.sha256}"
    lines += [
        "<h2>Predict other molecules</h2>",
        f"<p><code>graphormer-predict {text(shlex.quote(settings.folder))} new.csv "
        "predictions.csv</code></p>",
        "<h2>Settings</h2><table>",
        *(row("td", pair) for pair in given.items()),
        "</table>",
    ]
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{text(title)}'
        f"</title><style>{STYLE}</style>\n" + "\n".join(lines) + "\n</html>\n"
    )


def molecules_text(table: Table) -> str:
    """How many molecules there are, and how many of them have a label if not all."""
    labelled = int((~np.isnan(table.labels)).any(1).sum())
    some = "" if labelled == len(table) else f" ({labelled:,} with a label)"
    return f"{len(table):,} molecules{some}"


def split_text(settings: Settings, splits: Sequence[Split]) -> str:
    """How the molecules were split, and the sizes of the first split."""
    sizes = ", ".join(f"{len(splits[0][name]):,} {name}" for name in SPLITS)
    many = ""
    if settings.folds:
        times = f"{settings.replicates} times " if settings.replicates > 1 else ""
        many = f" in {times}{settings.folds} folds, the first"
    elif settings.replicates > 1:
        many = f", {settings.replicates} replicates, the first"
    return f"{settings.split}{many}: {sizes}"


def given_settings(settings: Settings) -> dict[str, str]:
    """The settings as a user writes them, but for those that are left to the program."""
    given = {name: x for name, x in vars(settings).items() if x not in (None, "", ())}
    return {
        name: ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
        for name, value in given.items()
    }


def text(value: object) -> str:
    """A value as text of a page."""
    return html.escape(str(value))


def row(tag: str, values: Sequence[object]) -> str:
    """A row of a table, with cells of a tag."""
    return "<tr>" + "".join(f"<{tag}>{text(v)}</{tag}>" for v in values) + "</tr>"
