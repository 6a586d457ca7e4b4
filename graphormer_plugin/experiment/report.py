"""report.html: one file with table, figures, warnings and settings."""

import base64
import html
import io
import shlex
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from graphormer_plugin.experiment.results import Run, test_rows
from graphormer_plugin.experiment.scores import METRICS, spread
from graphormer_plugin.experiment.settings import Settings, Training
from graphormer_plugin.experiment.splits import SPLITS
from graphormer_plugin.experiment.table import Table
from graphormer_plugin.versions import versions

STYLE = """
body { font: 16px/1.5 sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0 }
td, th { padding: .2rem .8rem; text-align: left; border-bottom: 1px solid #ddd }
img { max-width: 100% } .warning { color: #a40 } code { background: #f4f4f4 }
"""


def png_of(figure: Figure) -> bytes:
    """A figure as PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=120, format="png")
    return buffer.getvalue()


def report(
    settings: Settings,
    table: Table,
    runs: Sequence[Run],
    warnings: Sequence[str],
    pictures: Mapping[str, bytes],
    trainings: Mapping[str, Training],
) -> str:
    """The page, without references to other files.

    Args:
        settings: The experiment.
        table: Its molecules.
        runs: Its splits with the predictions.
        warnings: About the data.
        pictures: PNG files by title.
        trainings: Options of the trainings by the name of the model; those that a search
            has found, if there was one.
    """
    kind = table.targets.kind
    names = ", ".join(table.targets.names)
    unit = f", {table.targets.unit}" if table.targets.unit else ""
    title = f"{settings.table}: {names}"
    rows = test_rows(table, runs)
    lines = [
        f"<h1>{text(title)}</h1>",
        f"<p>{molecules_text(table)}, {text(kind)}{text(unit)}. Split: "
        f"{text(split_text(settings, runs))}.</p>",
        *(f'<p class="warning">Warning: {text(one)}.</p>' for one in warnings),
        "<h2>Test molecules</h2>",
        "<table><tr>" + cells("th", ["", *METRICS[kind]]) + "</tr>",
    ]
    for model, values in rows.items():
        row = [model, *(spread(values[metric], metric) for metric in METRICS[kind])]
        lines.append(f"<tr>{cells('td', row)}</tr>")
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
    lines += [
        "<h2>Predict other molecules</h2>",
        f"<p><code>graphormer-predict {text(shlex.quote(settings.folder))} new.csv "
        "predictions.csv</code></p>",
        "<h2>Settings</h2><table>",
        *(
            f"<tr>{cells('td', [name, value])}</tr>"
            for name, value in {
                **given_settings(settings),
                **{model: options_text(one) for model, one in trainings.items()},
                **versions(),
            }.items()
        ),
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


def split_text(settings: Settings, runs: Sequence[Run]) -> str:
    """How the molecules were split, and the sizes of the first split."""
    sizes = ", ".join(f"{len(runs[0].split[name]):,} {name}" for name in SPLITS)
    many = ""
    if settings.folds:
        many = f" in {settings.folds} folds, the first"
    elif settings.replicates > 1:
        many = f", {settings.replicates} replicates, the first"
    return f"{settings.split}{many}: {sizes}"


def given_settings(settings: Settings) -> dict[str, str]:
    """The settings as a user writes them, but for those that are left to the program."""
    found = {}
    for name, value in vars(settings).items():
        if value not in (None, "", ()):
            value = value if isinstance(value, tuple) else (value,)
            found[name] = ", ".join(map(str, value))
    return found


def options_text(training: Training) -> str:
    """The options of a training, but for those that are left to the model."""
    options = vars(training).items()
    return ", ".join(
        f"{name} {value:g}" for name, value in options if value is not None
    )


def text(value: object) -> str:
    """A value as text of a page."""
    return html.escape(str(value))


def cells(tag: str, values: Sequence[object]) -> str:
    """Cells of a row."""
    return "".join(f"<{tag}>{text(value)}</{tag}>" for value in values)
