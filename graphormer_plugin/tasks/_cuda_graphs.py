"""Training passes of a model as CUDA graphs, one for each bucket of shapes. No GPU has run
this module yet."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from omegaconf import DictConfig
from torch import Tensor, nn

from graphormer_plugin.compat.one_line_errors import one_line_errors
from graphormer_plugin.data.batches.padding import pad_batch
from graphormer_plugin.data.columns import OF_ENDS
from graphormer_plugin.data.errors import is_out_of_memory
from graphormer_plugin.models import GraphModel
from graphormer_plugin.modules.batch_norm import are_statistics_kept, rows_counted

MAX_GRAPHS = 12
OCCURRENCES = 3  # of a bucket before its capture; an epoch's last batch stays eager


def check_cuda_graphs(run: DictConfig, plain_passes: bool) -> None:
    """Raise ValueError if ``--cuda-graphs`` does not go with the options of a run, or with
    the passes of its task."""
    common = run.common
    if common.cpu or not torch.cuda.is_available():
        raise ValueError("--cuda-graphs: only a GPU has them; leave it out")
    if common.fp16 or common.amp:
        raise ValueError(
            "--cuda-graphs: expected float32 or --bf16, not --fp16 or --amp"
        )
    if not plain_passes:
        raise ValueError(f"--cuda-graphs: --task {run.task._name} has none")
    if run.distributed_training.distributed_world_size > 1:
        raise ValueError("--cuda-graphs: only a training in one process has them")


class _PaddedModel(nn.Module):
    """A model as a function of tensors: the fields of a padded batch, then its masks."""

    def __init__(
        self, model: GraphModel, forward: Callable[..., Tensor], names: list[str]
    ) -> None:
        super().__init__()
        self.model = model  # whose weights get gradients
        self.eager = forward
        self.names = names

    def forward(self, *tensors: Tensor) -> Tensor:
        """The output for the padded batch."""
        with rows_counted(tensors[len(self.names) :]):
            return self.eager(dict(zip(self.names, tensors)))


class GraphedForward:
    """Takes the place of a model's `forward`: replays a CUDA graph for a training batch whose
    bucket has one, and is eager otherwise.

    The first `MAX_GRAPHS` buckets that occur `OCCURRENCES` times get graphs, which share a
    pool of memory: the backward pass of a batch comes before the next batch.
    """

    def __init__(self, model: GraphModel) -> None:
        if model.encoder.checkpoint_activations:
            raise ValueError(
                "--cuda-graphs: a graph keeps all activations, expected no "
                "--checkpoint-activations"
            )
        self.model = model
        self.eager = model.forward
        self.occurrences: Counter[Any] = Counter()
        self.graphs: dict[Any, nn.Module] = {}
        self.pool = torch.cuda.graph_pool_handle()

    def __call__(self, batch: dict[str, Tensor]) -> Tensor:
        """The output of the model, of the real graphs alone."""
        training = self.model.training and torch.is_grad_enabled()
        if not training or are_statistics_kept():
            return self.eager(batch)
        fields, masks = pad_batch(batch)
        tensors = (*fields.values(), *masks)
        bucket = tuple((tensor.shape, tensor.dtype) for tensor in tensors)
        self.occurrences[bucket] += 1
        if bucket not in self.graphs:
            is_rare = self.occurrences[bucket] < OCCURRENCES
            if is_rare or len(self.graphs) == MAX_GRAPHS:
                return self.eager(batch)
            self.graphs[bucket] = self.capture(list(fields), tensors)
        # Without a gradient to add to, autograd would take the graph's own tensor as the
        # gradient, and the next replay would overwrite it.
        for weight in self.model.parameters():
            if weight.requires_grad and weight.grad is None:
                weight.grad = torch.zeros_like(weight)
        output = self.graphs[bucket](*tensors)[: len(batch["node_mask"])]
        if self.model.level == "graph":
            return output
        rows = batch["ends" if self.model.level in OF_ENDS else "node_mask"]
        return output[:, : rows.shape[1]]

    def capture(self, names: list[str], tensors: tuple[Tensor, ...]) -> nn.Module:
        """The graphs of a bucket, forward and backward."""
        buffers = list(self.model.buffers())
        before = [buffer.clone() for buffer in buffers]
        # Workers' batches are pinned in another thread, which may go on meanwhile.
        context = torch.cuda.graph
        torch.cuda.graph = partial(context, capture_error_mode="thread_local")
        try:
            graphed = torch.cuda.make_graphed_callables(
                _PaddedModel(self.model, self.eager, names),
                tuple(tensor.clone() for tensor in tensors),
                allow_unused_input=True,
                pool=self.pool,
            )
        except (RuntimeError, ValueError) as error:
            if is_out_of_memory(error):
                raise
            with one_line_errors():
                text = "--cuda-graphs: this model cannot be captured; leave it out"
                raise ValueError(f"{text} ({error})") from error
        finally:
            torch.cuda.graph = context
        for buffer, value in zip(buffers, before):  # capturing runs warm-up passes
            buffer.copy_(value)
        return graphed
