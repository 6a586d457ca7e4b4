"""What all losses on graphs share: masking, dtypes, units and logging."""

from collections.abc import Sequence
from typing import Any

import torch
from fairseq.criterions import FairseqCriterion
from fairseq.logging import metrics
from torch import Tensor

from graphormer_plugin.data.features import TargetSchema


class GraphCriterion(FairseqCriterion):
    """A loss per entry of ``[B, C]``, summed over the entries that are not missing.

    fairseq divides the gradient by the sample size, here the number of values that
    are present in the whole update, on all processes. A subclass computes the loss of
    each entry and adds its metrics:

    - `entry_loss`: output and target ``[B, C]`` to loss ``[B, C]``;
    - `batch_metrics`: values of one batch that can be summed, e.g. a total and a count;
    - `log_metrics`: what is printed, from the sums.

    Args:
        task: has ``targets``, the `TargetSchema` of the dataset or of the checkpoint.
    """

    def __init__(self, task) -> None:
        super().__init__(task)
        self.targets: TargetSchema = task.targets

    def entry_loss(self, output: Tensor, target: Tensor) -> Tensor:
        """Loss ``[B, C]`` of every entry; missing targets come in as 0."""
        raise NotImplementedError

    def batch_metrics(
        self, output: Tensor, target: Tensor, present: Tensor
    ) -> dict[str, Tensor]:
        """Sums of this batch, float64 tensors that add up over batches and processes.

        Args:
            output: what the model returned, float32 ``[B, C]``.
            target: in its own unit, float64 ``[B, C]``, 0 where missing.
            present: bool ``[B, C]``, False where the target is missing.
        """
        raise NotImplementedError

    def log_metrics(self, sums: dict[str, Tensor]) -> None:
        """Log metrics from the sums of `batch_metrics`."""
        raise NotImplementedError

    def model_target(self, target: Tensor) -> Tensor:
        """Target as the model is trained on it."""
        return target

    def forward(
        self, model, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, Tensor, dict[str, Any]]:
        """Loss of a sample.

        Args:
            model: called with ``sample["net_input"]``, returns ``[B, C]``.
            sample: see `GraphCollator`.
            reduce: fairseq's argument; the loss is always a sum.

        Returns:
            The summed loss, the number of present targets, and what is logged. With
            no target present the loss is 0 and still has a graph, so that every
            process has a gradient to reduce.

        Raises:
            ValueError: the model's output does not have the shape of the target.
        """
        # bfloat16 and float16 outputs: the loss and its sum are float32.
        output = model(**sample["net_input"]).float()
        target = sample["target"]
        if output.shape != target.shape:
            raise ValueError(
                f"model output has shape {list(output.shape)}, "
                f"target has shape {list(target.shape)}"
            )
        present = ~torch.isnan(target)
        target = torch.where(present, target, torch.zeros_like(target))
        entries = self.entry_loss(output, self.model_target(target).to(output.dtype))
        # `where`, not a product: 0 times an infinite loss would be NaN.
        loss = torch.where(present, entries, torch.zeros_like(entries)).sum()
        sample_size = present.sum()
        logging_output = {
            "loss": loss.detach().double(),
            "sample_size": sample_size.double(),
            "ntokens": sample["ntokens"],
            "nsentences": sample["nsamples"],
        }
        with torch.no_grad():
            logging_output.update(self.batch_metrics(output.detach(), target, present))
        return loss, sample_size, logging_output

    @classmethod
    def reduce_metrics(cls, logging_outputs: Sequence[dict[str, Any]]) -> None:
        """Log the loss per present target, in standardised units."""
        total = sum(float(log["loss"]) for log in logging_outputs)
        count = sum(float(log["sample_size"]) for log in logging_outputs)
        metrics.log_scalar("loss", total / max(count, 1.0), count, priority=10, round=6)

    def report(self, logging_outputs: Sequence[dict[str, Any]]) -> None:
        """Log the metrics of this criterion; called by the task.

        fairseq's `reduce_metrics` is a class method and does not know the targets.
        """
        fixed = {"loss", "sample_size", "ntokens", "nsentences"}
        names = [name for name in logging_outputs[0] if name not in fixed]
        self.log_metrics(
            {name: sum(log[name] for log in logging_outputs) for name in names}
        )

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Everything logged is a sum, in float64, so fairseq may add up processes."""
        return True
