"""fairseq's logs of metrics over a whole split, not means of batch means.

Sums and counts use fairseq's own ``SumMeter``, because fairseq restores the meters of
an interrupted epoch by class name from its own module. Ranking metrics need all outputs
at once and have their own meter, `OutputsMeter`. No checkpoint holds it, because
fairseq never resumes an evaluation.

fairseq keeps a meter whose name starts with an underscore, but does not print it. It
computes the values of its aggregators after every update, although it prints only some
of them: only `whole_split` gets a metric that is expensive or has a value per target.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from fairseq.logging import metrics
from fairseq.logging.meters import Meter, MetersDict
from numpy.typing import NDArray
from torch import Tensor

from graphormer_plugin.criterions.evaluation import Evaluation
from graphormer_plugin.criterions.metrics import RANKING_METRICS, TIE, metric_names
from graphormer_plugin.data.targets import mean_of_defined


def whole_split() -> list[MetersDict]:
    """The aggregator of the epoch or of the evaluated split, in a list, which may be empty.

    fairseq's commands open this outermost aggregator for a split and read it at the end. The
    trainer opens others inside it, for every batch and for the updates since the last line
    of the log. The aggregator called default is always active.
    """
    # By name: a resumed run has another object of that name in `metrics.get_meters`.
    active = metrics._active_aggregators.items()
    return [aggregator for name, aggregator in active if name != "default"][:1]


def on_cpu(logs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Logging outputs with their tensors on the CPU, as float64; waits once for a GPU, not
    for each tensor."""
    tensors = [x for log in logs for x in log.values() if isinstance(x, Tensor)]
    if not tensors:
        return [*map(dict, logs)]
    flat = torch.cat([tensor.detach().double().flatten() for tensor in tensors]).cpu()
    parts = iter(flat.split([tensor.numel() for tensor in tensors]))
    return [
        {
            name: next(parts).view_as(x) if isinstance(x, Tensor) else x
            for name, x in log.items()
        }
        for log in logs
    ]


def log_sums(
    prefix: str,
    sums: Mapping[str, Tensor],
    derived: Mapping[str, Callable[..., float]],
    at_the_end: Mapping[str, Callable[..., float]] | None = None,
) -> None:
    """Log metrics that are functions of sums over everything seen so far.

    The functions take the sums of the tensors in ``sums``, whose shapes stay the same, as
    keyword arguments. Only `whole_split` gets the metrics in ``at_the_end``. The names of
    the kept sums begin with ``prefix``."""
    zeros = {}
    for name, value in sums.items():
        value = value.detach().double().cpu()
        zeros[name] = torch.zeros_like(value)
        metrics.log_scalar_sum(f"_{prefix}_{name}", value)

    def _state(meters: MetersDict) -> dict[str, Tensor]:
        # A reset meter holds the number 0 until the next update.
        return {
            name: zero + meters[f"_{prefix}_{name}"].sum for name, zero in zeros.items()
        }

    for priority, (name, function) in enumerate(derived.items(), 15):
        metrics.log_derived(
            name, lambda meters, f=function: f(**_state(meters)), priority
        )
    for aggregator in whole_split():
        for priority, (name, function) in enumerate((at_the_end or {}).items(), 16):
            if name not in aggregator:
                meter = MetersDict._DerivedMeter(
                    lambda meters, f=function: f(**_state(meters))
                )
                aggregator.add_meter(name, meter, priority)


def mean_over_columns(hits: Tensor, labelled: Tensor) -> float:
    """Mean over columns of their shares; NaN if no column has a value."""
    return mean_of_defined((hits / labelled).tolist())


def log_mean_error(
    name: str,
    columns: Sequence[str],
    totals: Tensor,
    counts: Tensor,
    root: bool = False,
) -> None:
    """Log an error that is averaged per target over everything seen so far.

    Logs ``name``, the mean over targets of each target's own mean (its square root with
    ``root``), from the summed errors ``totals`` ``[C]`` in the targets' units. Several
    ``columns`` also get ``name_<target>`` at the end of a split, spelt as in
    `metric_names`. A target without any value is NaN and does not count in the mean.
    """

    def _per_target(total: Tensor, count: Tensor) -> list[float]:
        means = total / count  # 0 / 0 is NaN
        return (means.sqrt() if root else means).tolist()

    single = {
        f"{name}_{column}": lambda total, count, index=index: _per_target(
            total[index : index + 1], count[index : index + 1]
        )[0]
        for index, column in enumerate(metric_names(columns))
    }
    log_sums(
        name,
        {"total": totals, "count": counts},
        {name: lambda total, count: mean_of_defined(_per_target(total, count))},
        single if len(columns) > 1 else None,
    )


def log_accuracy(hits: Tensor, labelled: Tensor) -> None:
    """Log the share of right predictions, ``hits`` among ``labelled`` of each target [C]:
    the mean over targets that have any label."""
    sums = {"hits": hits, "labelled": labelled}
    log_sums("accuracy", sums, {"accuracy": mean_over_columns})


def log_macro_f1(hits: Tensor, labelled: Tensor, predicted: Tensor) -> None:
    """Log the mean F1 of the classes that are labelled or predicted, from counts of each class,
    as scikit-learn's macro average and LRGB's metric of PascalVOC-SP."""
    sums = {"hits": 2 * hits, "labelled": labelled + predicted}
    log_sums("f1", sums, {"macro_f1": mean_over_columns})


def log_weighted_accuracy(
    hits: Tensor, labelled: Tensor, batch_total: Tensor, batches: Tensor
) -> None:
    """Log the accuracy of PATTERN and CLUSTER: the mean over classes of their recall.

    ``weighted_accuracy`` takes the whole split at once. ``weighted_accuracy_batch`` is
    the number of the benchmark's own code (Dwivedi et al. 2020, arXiv:2003.00982), the mean
    over batches of their `batch_recall`, whose sum is ``batch_total``. It depends on the
    batch size, and here on the order of evaluation, by the sizes of the graphs.
    """
    sums = {"hits": hits, "labelled": labelled}
    log_sums("recall", sums, {"weighted_accuracy": mean_over_columns})
    sums = {"hits": batch_total.view(1), "labelled": batches.view(1)}
    log_sums("batch_recall", sums, {"weighted_accuracy_batch": mean_over_columns})


def batch_recall(hits: Tensor, labelled: Tensor, predicted: Tensor) -> Tensor:
    """Mean recall over the classes that a batch holds or predicts, a float64 scalar; the
    arguments are counts of each class, float64 ``[classes]``."""
    recall = hits / labelled.clamp(min=1)
    return recall.sum() / ((labelled + predicted) > 0).sum().clamp(min=1)


class OutputsMeter(Meter):
    """Keeps outputs and targets, and computes metrics from them on demand. Its own value is
    the number of graphs."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all outputs; see fairseq's `Meter`."""
        self.evaluation = Evaluation()
        self.cache: dict[str, float] = {}

    def update(self, evaluation: Evaluation) -> None:
        """Add the outputs of an evaluation."""
        self.evaluation.batches += evaluation.batches
        self.cache = {}

    def compute(self, function: Callable[[NDArray, NDArray], float]) -> float:
        """``function(scores [n, C], targets [n, C])`` of all labelled rows, computed once.
        Scores of nodes, edges and links are equal within a `TIE`."""
        if function.__name__ not in self.cache:
            outputs, targets = zip(*self.evaluation.graphs.values())
            scores = np.vstack(outputs)
            if outputs[0].ndim > 1:
                largest = np.abs(scores).max(initial=0) or 1.0
                scores = np.round(scores / (TIE * largest))
            self.cache[function.__name__] = function(scores, np.vstack(targets))
        return self.cache[function.__name__]

    @property
    def smoothed_value(self) -> float:
        """Number of graphs, as fairseq logs the value of every meter."""
        return float(len(self.evaluation.graphs))


def log_ranking(evaluation: Evaluation) -> None:
    """Log ROC-AUC and average precision of all graphs seen so far in this evaluation. Only
    `whole_split` gets them: ranking single batches would cost more than the model, and warn
    of classes that a batch lacks."""
    for aggregator in whole_split():
        if "_outputs" not in aggregator:
            aggregator.add_meter("_outputs", OutputsMeter(), priority=15)
            for priority, (name, function) in enumerate(RANKING_METRICS.items(), 16):
                meter = MetersDict._DerivedMeter(
                    lambda meters, f=function: meters["_outputs"].compute(f)
                )
                aggregator.add_meter(name, meter, priority)
        aggregator["_outputs"].update(evaluation)
