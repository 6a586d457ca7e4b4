"""Base classes of all losses on graphs: masking, dtypes, units and logging."""

import logging
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from fairseq.criterions import FairseqCriterion
from fairseq.logging import metrics
from torch import Tensor

from graphormer_plugin.criterions.class_weights import weight_table
from graphormer_plugin.criterions.evaluation import Evaluation, Reported, Sums
from graphormer_plugin.criterions.log import log_accuracy, log_macro_f1, log_mean_error
from graphormer_plugin.criterions.losses import (
    label_losses,
    present_labels,
)
from graphormer_plugin.criterions.metrics import metric_names
from graphormer_plugin.data.errors import listed
from graphormer_plugin.data.targets import Kind, TargetSchema, VectorTarget

logger = logging.getLogger(__name__)

DIVERGED = 1000  # times the loss of the first update, or times 1 if that is smaller


class GraphCriterion(FairseqCriterion):
    """A loss per label, summed over the labels that are not missing.

    fairseq divides the gradient by the sample size: the number (or summed weight, see
    `weights`) of the labels that are present in the whole update, on all processes. A
    subclass computes the loss of each label (`entry_loss`), values of a batch that can be
    summed (`batch_metrics`), and the metrics of the log from these sums (`log_metrics`).

    A criterion whose metrics need the whole split at once (ROC-AUC) sets `keeps_outputs`.
    Each logging output of an evaluation then holds outputs and targets of its batch under
    ``outputs``, and the task collects them over batches and processes.

    Args:
        task: has ``targets``, the `TargetSchema` of the dataset or of the checkpoint.
        class_weights: see `CLASS_WEIGHTS`.
    """

    name: ClassVar[str]
    target_kinds: ClassVar[tuple[Kind, ...]]
    node_vector: ClassVar[VectorTarget | None] = None
    logged: ClassVar[
        tuple[str, ...]
    ] = ()  # metrics of an evaluation, beside its base's
    keeps_outputs = False
    loss: ClassVar[str] = "l1"  # of numbers, a key of `VALUE_LOSSES`

    def __init__(self, task, class_weights: str | None = None) -> None:
        super().__init__(task)
        self.targets: TargetSchema = task.targets
        self.first_loss: float | None = None
        if self.targets.kind not in self.target_kinds:
            raise ValueError(
                f"{self.name} needs {' or '.join(self.target_kinds)} targets, received "
                f"{self.targets.kind} targets {listed(self.targets.names, 5)}"
            )
        vector = self.targets.node_vector
        if vector != self.node_vector:
            use = vector or self.node_vector
            raise ValueError(
                f"--criterion {self.name} learns {self.node_vector or 'no vectors'}, the task "
                f"{vector or 'none'}; use --task {use.task} with --criterion {use.criterion}"
            )
        self.class_weights: Tensor | None = None  # [C, classes]
        if class_weights:
            self.class_weights = weight_table(class_weights, task)

    def labels(self, target: Tensor) -> tuple[Tensor, Tensor]:
        """Labels and mask of `present_labels`, of a sample's target ``[B, C]`` or, of nodes,
        ``[B, N, C]``."""
        return present_labels(target)

    def output_shape(self, labels: Tensor) -> list[int]:
        """Shape that the model's output must have for these labels."""
        return list(labels.shape)

    def entry_loss(self, output: Tensor, labels: Tensor) -> Tensor:
        """Loss of every label, in the shape of ``labels``, which are 0 where missing; see
        `label_losses`."""
        return label_losses(output, labels, self.targets, self.loss)

    def weights(self, labels: Tensor, present: Tensor) -> Tensor | None:
        """Weight of every label, in its shape; None for equal weights."""
        return None

    def batch_metrics(self, output: Tensor, labels: Tensor, present: Tensor) -> Sums:
        """Sums over this batch, float64; fairseq adds them up over batches and processes.

        The output is float32 at least. The labels are in their own unit, 0 where
        ``present`` is False.
        """
        raise NotImplementedError

    def log_metrics(self, sums: Sums, evaluation: Evaluation | None) -> None:
        """Log metrics from the sums of `batch_metrics` and, in an evaluation that
        `keeps_outputs`, from the outputs and targets of all graphs."""
        raise NotImplementedError

    def known_metrics(self) -> list[str]:
        """Names for ``--best-checkpoint-metric``: the loss and the metrics that
        `log_metrics` logs in an evaluation."""
        bases = reversed(type(self).__mro__)
        return ["loss", *(n for base in bases for n in vars(base).get("logged", ()))]

    def forward(self, model, sample: dict[str, Any], reduce: bool = True) -> Reported:
        """Summed loss of a sample (see `GraphCollator`), the number or weight of its present
        labels, and the logging output."""
        return self.output_loss(model(**sample["net_input"]), sample)

    def output_loss(self, output: Tensor, sample: dict[str, Any]) -> Reported:
        """`forward` for the output of the model.

        The loss of a sample without labels is 0 and has an autograd graph, because every
        process needs a gradient to reduce.
        """
        # The loss and its sum are float32 at least, even for bfloat16 and float16 outputs.
        half = output.dtype == torch.float16
        output = output.to(torch.promote_types(output.dtype, torch.float32))
        target = sample["target"]
        offset: Tensor | float = 0.0
        if self.targets.atom_energies:  # subtracted in float64
            offset = self.targets.atoms_output(sample["net_input"]["batch"])
            target = target - self.targets.std[0] * offset
        labels, present = self.labels(target)
        if list(output.shape) != self.output_shape(labels):
            raise ValueError(
                f"model output has shape {list(output.shape)}, "
                f"the target needs {self.output_shape(labels)}"
            )
        exact = present
        if "bound" in sample:
            bound = sample["bound"]
            exact = present & (bound == 0)
            present = present if self.training else exact
            off = self.targets.restore(output.detach().double()) - labels
            low, high = (
                bound.abs().where(bound != x, 0) for x in (math.inf, -math.inf)
            )
            labels = labels + off.clamp(-low, high)
        entries = self.entry_loss(output, labels)
        weights = self._label_weights(labels, present, entries, sample)
        sample_size = present.sum()
        if weights is not None:
            weights = weights.where(present, 0)
            entries = entries * weights
            sample_size = weights.sum()
        # `where`, not a product: 0 times an infinite loss would be NaN.
        entries = entries.where(present, 0)
        loss = entries.sum()
        # fairseq leaves out such float16 batches, until its loss scale is too small.
        if self.training and not half and loss.device.type == "cpu":
            _check_finite(loss, entries, sample)
        logging_output = {
            "loss": loss.detach().double(),
            "sample_size": sample_size.double(),
            "ntokens": sample["ntokens"],
            "nsentences": sample["nsamples"],
        }
        with torch.no_grad():
            output = output.detach()
            logging_output.update(self.batch_metrics(output, labels, exact))
            if self.keeps_outputs and not self.training:
                logging_output["outputs"] = (output + offset, sample["target"])
        return loss, sample_size, logging_output

    def _label_weights(
        self,
        labels: Tensor,
        present: Tensor,
        entries: Tensor,
        sample: dict[str, Any],
    ) -> Tensor | None:
        """Weights of classes times those of the rows of the table, in the shape of the losses;
        None without either."""
        if self.class_weights is not None:  # not a buffer, which would become half
            self.class_weights = self.class_weights.to(labels.device)
        weights = self.weights(labels, present)
        if weights is not None and weights.shape != labels.shape:
            raise ValueError(
                f"weights of classes have shape {list(weights.shape)}, the labels "
                f"{list(labels.shape)}"
            )
        if "weight" in sample:
            rows = sample["weight"].to(entries.dtype)
            rows = rows.view(-1, *[1] * (entries.dim() - 1)).expand_as(entries)
            weights = rows if weights is None else weights * rows
        return weights

    @staticmethod
    def reduce_metrics(logging_outputs: Sequence[dict[str, Any]]) -> None:
        """Log the loss per present label, of targets at the scale of training."""
        metrics.log_scalar("loss", *_mean_loss(logging_outputs), priority=10, round=6)

    def report(
        self,
        logging_outputs: Sequence[dict[str, Any]],
        evaluation: Evaluation | None = None,
    ) -> None:
        """Log the metrics of this criterion. The task calls it, because fairseq's
        `reduce_metrics` is a class method and does not know the targets."""
        if self.training:
            self.check_loss(logging_outputs)
        fixed = {"loss", "sample_size", "ntokens", "nsentences"}
        names = [name for name in logging_outputs[0] if name not in fixed]
        sums = {name: sum(log[name] for log in logging_outputs) for name in names}
        self.log_metrics(sums, evaluation)

    def check_loss(self, logging_outputs: Sequence[dict[str, Any]]) -> None:
        """Warn once if the loss is `DIVERGED` times the loss of the first update."""
        loss, _ = _mean_loss(logging_outputs)
        if not math.isfinite(loss):
            raise FloatingPointError(f"the loss is {loss}")
        if self.first_loss is None:
            self.first_loss = max(loss, 1)
        elif loss > DIVERGED * self.first_loss:
            self.first_loss = math.inf  # no other warning
            logger.warning(
                "the training diverges: the loss is %.3g, over %s times the loss of the "
                "first update; a smaller --lr, more --warmup-updates or --clip-norm may help",
                loss,
                f"{DIVERGED:,}",
            )

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """True: all logged values are float64 sums, which fairseq may add up."""
        return True


def _check_finite(loss: Tensor, entries: Tensor, sample: dict[str, Any]) -> None:
    """FloatingPointError if the loss of a sample, the sum of entries [B, ...], is not
    finite."""
    if not torch.isfinite(loss):
        finite = torch.isfinite(entries).reshape(len(entries), -1).all(1)
        wrong = sample["id"][~finite].tolist()
        raise FloatingPointError(
            f"the loss is {loss.item()} (graphs {listed(wrong, 5)})"
        )


def _mean_loss(logging_outputs: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """Loss per present label, and the number or weight of these."""
    total, count = (
        sum(float(log[name]) for log in logging_outputs)
        for name in ("loss", "sample_size")
    )
    return total / count if count > 0 else 0.0, count


class RegressionCriterion(GraphCriterion):
    """A loss on values at the scale of training, with errors in each target's unit.

    A label that is a bound has no loss if the output lies beyond it or in its interval, as in
    chemprop's bounded losses. No metric counts it.

    ``loss`` is the mean over the targets, standardised (dimensionless) or raw
    (``--target-scale none``). ``mae`` and ``rmse`` are over the whole split in the target's
    unit, e.g. eV: the mean of ``mae_<target>``, each over the rows that have that target.
    ``nrmse`` of several standardised targets is the mean of ``rmse_<target>`` divided by the
    target's standard deviation in training. Labels of nodes are ``[B, N, C]``, NaN where
    missing or padding.
    """

    target_kinds = (Kind.REGRESSION,)

    def batch_metrics(self, output: Tensor, labels: Tensor, present: Tensor) -> Sums:
        """``abs_error``, ``squared_error``, ``count`` per target, float64 ``[C]``."""
        error = self.targets.restore(output.double()) - labels
        error = error.where(present, 0)
        return {
            "abs_error": error.abs().flatten(0, -2).sum(dim=0),
            "squared_error": error.square().flatten(0, -2).sum(dim=0),
            "count": present.flatten(0, -2).sum(dim=0).double(),
        }

    def log_metrics(self, sums: Sums, evaluation: Evaluation | None) -> None:
        """See `GraphCriterion`."""
        names = self.targets.names
        count = sums["count"]
        log_mean_error("mae", names, sums["abs_error"], count)
        log_mean_error("rmse", names, sums["squared_error"], count, root=True)
        if self.compares_targets:
            squares = sums["squared_error"]
            squares = squares / squares.new_tensor(self.targets.std).square()
            log_mean_error("nrmse", (), squares, count, root=True)

    @property
    def compares_targets(self) -> bool:
        """Whether ``nrmse`` is logged."""
        return len(self.targets.names) > 1 and bool(self.targets.std)

    def known_metrics(self) -> list[str]:
        """See `GraphCriterion`."""
        names = metric_names(self.targets.names) if len(self.targets.names) > 1 else []
        errors = [
            error + end
            for error in ("mae", "rmse")
            for end in ("", *(f"_{name}" for name in names))
        ]
        errors += ["nrmse"] * self.compares_targets
        return super().known_metrics() + errors


class ClassCriterion(GraphCriterion):
    """A loss on classes, one label per graph or per node.

    Graph labels are a float64 column ``[B, 1]`` with NaN where missing, node labels
    int64 ``[B, N, 1]`` with -1 where missing or padding. ``accuracy`` is the fraction of
    labels that are predicted, over the whole split; see `log_macro_f1` for ``macro_f1``.
    """

    target_kinds = (Kind.MULTICLASS,)
    logged = ("accuracy", "macro_f1")

    def labels(self, target: Tensor) -> tuple[Tensor, Tensor]:
        """Labels int64 ``[B]`` or ``[B, N]``, and a mask."""
        labels, present = present_labels(target.squeeze(-1))
        return labels.long(), present

    def output_shape(self, labels: Tensor) -> list[int]:
        """A logit per class for every label."""
        return [*labels.shape, self.targets.num_classes]

    def batch_metrics(self, output: Tensor, labels: Tensor, present: Tensor) -> Sums:
        """Labels, predictions and hits of each class, float64 ``[classes]``."""
        predicted = output.argmax(dim=-1)
        return {
            "labelled": self.per_class(labels, present),
            "hits": self.per_class(labels, present & (predicted == labels)),
            "predicted": self.per_class(predicted, present),
        }

    def per_class(self, classes: Tensor, mask: Tensor) -> Tensor:
        """How often each class occurs where a mask is True, float64 ``[classes]``."""
        counts = classes.new_zeros(self.targets.num_classes, dtype=torch.float64)
        return counts.index_add_(0, classes.flatten(), mask.flatten().double())

    def log_metrics(self, sums: Sums, evaluation: Evaluation | None) -> None:
        """See `GraphCriterion`."""
        log_accuracy(sums["hits"].sum().view(1), sums["labelled"].sum().view(1))
        log_macro_f1(sums["hits"], sums["labelled"], sums["predicted"])
