"""Figures of an experiment: parity, errors, ROC and learning curves."""

import io
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.metrics import ConfusionMatrixDisplay, roc_curve

from graphormer_plugin.data.targets import Kind, TargetSchema
from graphormer_plugin.estimators.prediction import IN_DOMAIN, QUANTILE
from graphormer_plugin.workbench.experiment.experiment import Experiment
from graphormer_plugin.workbench.experiment.training import (
    LOG_FILE,
    Curves,
    read_curves,
)
from graphormer_plugin.workbench.figure_style import figure_style
from graphormer_plugin.workbench.fitting.calibration import (
    MOST_TARGETS,
    calibration_figure,
    panels,
)
from graphormer_plugin.workbench.predictions.scores import (
    main_metrics,
    score,
    spread_text,
)


@figure_style()
def figures(
    experiment: Experiment, tested: pd.DataFrame, worst: pd.DataFrame
) -> dict[str, tuple[str, bytes]]:
    """Title and PNG file of each figure of `predicted_labels`, by the name of its file; those
    that are the ``worst`` are numbered."""
    tested = tested.assign(mark=pd.Series(range(1, len(worst) + 1), worst.index))
    table = experiment.table
    folder = experiment.folder
    curves = {
        member.save_dir: read_curves(folder / member.save_dir / LOG_FILE)
        for member in experiment.trainings()
    }
    main = main_metrics(table.targets)
    drawn = {
        name: (title, panel_figure(table.targets, tested, draw, kind))
        for kind in main
        for name, (title, draw) in PANELS[kind].items()
    } | {
        "confusion": ("Confusion of classes", confusion_figure(table.targets, tested)),
        "calibration": ("Calibration", spread_figure(table.targets, tested)),
        "curves": ("Learning curves", curves_figure(curves, [*main.values()][0])),
    }
    pictures = {}
    for name, (title, figure) in drawn.items():
        if figure is not None:
            buffer = io.BytesIO()
            figure.savefig(buffer, dpi=120, format="png")
            pictures[name] = title, buffer.getvalue()
    return pictures


def panel_figure(
    targets: TargetSchema,
    tested: pd.DataFrame,
    draw: Callable[[Axes, Sequence[pd.DataFrame], str], bool],
    kind: Kind,
) -> Figure | None:
    """Test molecules of all replicates, a panel for each of the first targets of a kind that
    have a metric; None if ``draw``, of `PANELS`, has nothing to show in any."""
    metric = kind.main_metric
    plots = []
    for target, of_kind in enumerate(targets.targets):
        if of_kind.kind is not kind:
            continue
        of_target = tested[tested.target == target]
        runs = [of_run for _, of_run in of_target.groupby("run")]
        values = [score(metric, x.value.to_numpy(), x.label.to_numpy()) for x in runs]
        plots.append((of_kind.name, of_kind.label_unit, runs, values))
    plots.sort(key=lambda plot: bool(np.isnan(plot[3]).all()))  # keeps their order
    plots = plots[:MOST_TARGETS]
    figure, axes = panels(len(plots))
    drawn = False
    for (name, unit, runs, values), axis in zip(plots, axes, strict=True):
        axis.set_title(f"{name}: {metric} {spread_text(values, metric)}", fontsize=9)
        drawn |= draw(axis, runs, unit and f" ({unit})")
    return figure if drawn else None


def confusion_figure(targets: TargetSchema, tested: pd.DataFrame) -> Figure | None:
    """Number of molecules of each class that are predicted as each class, a panel for each
    of the first targets of more than two classes; None without such a target."""
    several = [
        (index, target)
        for index, target in enumerate(targets.targets)
        if not target.kind.has_one_output
    ][:MOST_TARGETS]
    if not several:
        return None
    figure, axes = panels(len(several))
    for (index, target), axis in zip(several, axes, strict=True):
        part = tested[tested.target == index]
        names = target.class_labels
        shown = {"labels": range(len(names)), "display_labels": names, "cmap": "Blues"}
        shown |= {"colorbar": False, "xticks_rotation": 45}
        if len(part):
            pair = part.label.astype(int), part.value.astype(int)
            ConfusionMatrixDisplay.from_predictions(*pair, ax=axis, **shown)
        axis.set(xlabel="predicted", ylabel="measured", title=target.name)
    return figure


def scatter(
    axis: Axes,
    runs: Sequence[pd.DataFrame],
    place: Callable[[pd.DataFrame], tuple[pd.Series, pd.Series]],
) -> np.ndarray:
    """Draw points at places, the worst with rings and numbers; returns all places
    [2, n]."""
    places = [np.stack(place(points)) for points in runs]
    for points, (x, y) in zip(runs, places, strict=True):
        axis.plot(x, y, ".", markersize=4, alpha=0.6)
        for index in np.flatnonzero(points.mark.notna()):
            axis.plot(
                x[index], y[index], "o", markersize=8, mfc="none", mec="0.2", mew=0.8
            )
            axis.annotate(
                f"{points.mark.iloc[index]:.0f}",
                (x[index], y[index]),
                (5, 4),
                textcoords="offset points",
                fontsize=8,
            )
    return np.concatenate([np.empty((2, 0)), *places], axis=1)


def parity(axis: Axes, runs: Sequence[pd.DataFrame], unit: str) -> bool:
    """Predicted against measured values."""
    places = scatter(axis, runs, lambda points: (points.label, points.value))
    ends = [places.min(), places.max()] if places.size else [0, 1]
    axis.plot(ends, ends, color="0.5", linewidth=0.8)
    axis.set(xlabel=f"measured{unit}", ylabel=f"predicted{unit}", aspect="equal")
    return True


def residuals(axis: Axes, runs: Sequence[pd.DataFrame], unit: str) -> bool:
    """Predicted - measured values against the likeness to the training molecules."""
    places = scatter(
        axis, runs, lambda points: (points.in_domain, points.value - points.label)
    )
    axis.axhline(0, color="0.5", linewidth=0.8)
    axis.set(xlabel=IN_DOMAIN, ylabel=f"predicted - measured{unit}")
    return bool(np.isfinite(places).all(0).any())


def errors(axis: Axes, runs: Sequence[pd.DataFrame], unit: str) -> bool:
    """Sizes of errors against predicted standard deviations, with a line below which nine
    of ten should be."""
    places = scatter(axis, runs, lambda x: (x["std"], np.abs(x.value - x.label)))
    if not np.isfinite(places).all(0).any():
        return False
    ends = np.array([0, np.nanmax(places[0])])
    axis.plot(ends, QUANTILE * ends, color="0.5", linewidth=0.8, label="90 % below")
    axis.legend(frameon=False, fontsize=8)
    axis.set(xlabel=f"predicted spread{unit}", ylabel=f"size of the error{unit}")
    return True


def roc(axis: Axes, runs: Sequence[pd.DataFrame], unit: str) -> bool:
    """True against false positive rate."""
    for points in runs:
        if points.label.nunique() == 2:
            false, true, _ = roc_curve(points.label, points.value)
            axis.plot(false, true, linewidth=1)
    axis.plot([0, 1], [0, 1], color="0.5", linewidth=0.8)
    axis.set(xlabel="false positive rate", ylabel="true positive rate", aspect="equal")
    return True


# Title and function of figures with a panel per target, by the name of their file.
PANELS: Mapping[str, Mapping[str, tuple[str, Callable[..., bool]]]] = {
    Kind.REGRESSION: {
        "parity": ("Parity", parity),
        "residuals": ("Residuals against in_domain", residuals),
        "errors": ("Errors against the spread", errors),
    },
    Kind.BINARY: {"roc": ("ROC curves", roc)},
    Kind.MULTICLASS: {},
}


def spread_figure(targets: TargetSchema, tested: pd.DataFrame) -> Figure | None:
    """Calibration of the spreads or probabilities of the test molecules; None for more
    than two classes, or without a spread."""
    shown = [t for t, one in enumerate(targets.targets) if one.kind.has_one_output]
    if not shown:
        return None
    targets = targets.select(shown)
    wide = tested.pivot(index=["run", "row"], columns="target")
    values, std, labels = (
        wide[name].reindex(columns=shown).to_numpy()
        for name in ("value", "std", "label")
    )
    spread = None if np.isnan(std).all() else std
    return calibration_figure(values, spread, labels, targets)


def curves_figure(curves: Mapping[str, Curves], metric: str) -> Figure | None:
    """Learning curves of trainings, by their names: loss in training and validation, and
    the main metric in validation; None without a curve."""
    trainings = [curve for curve in curves.values() if ("loss", "train") in curve]
    if not trainings:
        return None
    lines = [(0, "loss", "train", ":"), (0, "loss", "valid", "-")]
    lines.append((1, metric, "valid", "-"))
    figure, axes = panels(2)
    for index, curve in enumerate(trainings):
        for panel, name, split, style in lines:
            points = curve.get((name, split), {})
            axes[panel].plot(
                [*points],
                [*points.values()],
                style,
                color=f"C{index % 10}",
                linewidth=1,
                label=split if index == 0 else None,
            )
    axes[0].set(xlabel="updates", ylabel="loss")
    axes[0].legend(frameon=False, fontsize=8)
    axes[1].set(xlabel="updates", ylabel=f"valid {metric}")
    return figure
