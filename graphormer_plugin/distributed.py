"""Several processes: loading a checkpoint together, and collecting what each logged."""

import collections
from typing import Any

import torch
from fairseq.distributed import utils
from fairseq.models import distributed_fairseq_model
from fairseq.utils import move_to_cpu
from omegaconf import DictConfig, ListConfig
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode
from torch import distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from graphormer_plugin.processes import several_processes

# Beside tensors, what a checkpoint consists of that fairseq's first process reads and
# sends to the others. Reading them runs no code.
CHECKPOINT_CLASSES = [
    utils._TensorPlaceholder,
    DictConfig,
    ListConfig,
    ContainerMetadata,
    Metadata,
    AnyNode,
    Any,
    collections.defaultdict,
    dict,
    list,
    int,
]


def allow_broadcast() -> None:
    """Allow the classes that torch's safe loader meets in a broadcast checkpoint.

    fairseq is older than that loader: without this, resuming or fine-tuning on two or
    more processes ends with an error unless ``--load-checkpoint-on-all-dp-ranks`` is
    given.
    """
    torch.serialization.add_safe_globals(CHECKPOINT_CLASSES)


def allow_gather() -> None:
    """Replace the function with which fairseq collects the logs of all processes.

    fairseq-validate collects the logs of all batches of a split. fairseq's function
    needs CUDA and fails above 16 KB (``--all-gather-list-size``), a few dozen batches.
    """
    utils.all_gather_list = gather_list


def allow_ddp_on_cpu() -> None:
    """Let ``--ddp-backend pytorch_ddp``, fairseq's default, train on CPUs.

    fairseq always names a GPU, which torch refuses for a model on the CPU.
    """
    distributed_fairseq_model.DistributedDataParallel = data_parallel


def data_parallel(
    module: nn.Module, *, device_ids: Any, output_device: Any, **options: Any
) -> DistributedDataParallel:
    """torch's `DistributedDataParallel`, whose devices are for GPUs only."""
    if next(module.parameters()).device.type == "cpu":
        device_ids = output_device = None
    return DistributedDataParallel(
        module, device_ids=device_ids, output_device=output_device, **options
    )


def gather_list(data: Any, group: Any = None, max_size: int = 0) -> list[Any]:
    """``data`` of every process of a group, on the CPU, in the order of their ranks.

    Every process must call it at the same point.

    Args:
        data: anything that can be pickled.
        group: all processes, if None.
        max_size: fairseq's argument, ignored: the size is not limited.
    """
    parts: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(parts, move_to_cpu(data), group=group)
    return parts


def is_first_process() -> bool:
    """Whether this process is the one that writes files."""
    return not several_processes() or dist.get_rank() == 0
