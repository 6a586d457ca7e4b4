"""Training in several processes: safe classes of checkpoints, DDP on CPUs, gathered logs."""

import collections
from typing import Any

from fairseq.distributed import utils
from fairseq.utils import move_to_cpu
from omegaconf import DictConfig, ListConfig
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from graphormer_plugin.processes import gather_objects

# Classes, beside tensors, in a checkpoint that fairseq's first process reads and sends to the
# others. Reading them runs no code.
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


def data_parallel(
    module: nn.Module, *, device_ids: Any, output_device: Any, **options: Any
) -> DistributedDataParallel:
    """torch's `DistributedDataParallel`, whose devices are for GPUs only."""
    if next(module.parameters()).device.type == "cpu":
        device_ids = output_device = None
    return DistributedDataParallel(
        module, device_ids=device_ids, output_device=output_device, **options
    )


def gather_logs(data: Any, group: Any = None, max_size: int = 0) -> list[Any]:
    """fairseq's `all_gather_list`, on the CPU.

    Args:
        data: See `gather_objects`; tensors go to the CPU.
        group: See `gather_objects`.
        max_size: Ignored: the size is not limited.
    """
    return gather_objects(move_to_cpu(data), group)
