"""Let several processes load a checkpoint, and evaluate one."""

import collections
import typing

import torch
from fairseq.distributed import utils
from fairseq.utils import move_to_cpu
from omegaconf import DictConfig, ListConfig
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode
from torch import distributed as dist

# What a checkpoint consists of, beside tensors, when fairseq's first process has read
# it and sends it to the others. None of them runs anything when it is read.
CLASSES = [
    utils._TensorPlaceholder,
    DictConfig,
    ListConfig,
    ContainerMetadata,
    Metadata,
    AnyNode,
    typing.Any,
    collections.defaultdict,
    dict,
    list,
    int,
]


def allow_broadcast() -> None:
    """Name the classes that torch's safe loader meets in a broadcast checkpoint.

    fairseq was written before that loader: without this resuming or fine-tuning on two
    processes or more ends with an error, unless ``--load-checkpoint-on-all-dp-ranks``
    is given.
    """
    torch.serialization.add_safe_globals(CLASSES)


def allow_gather() -> None:
    """Give fairseq a function that collects what the processes have logged.

    fairseq-validate collects the logs of all batches of a split with one that needs
    CUDA and ends with an error above 16 KB (``--all-gather-list-size``), which is a
    few dozen batches.
    """
    utils.all_gather_list = gather_list


def gather_list(
    data: typing.Any, group: typing.Any = None, max_size: int = 0
) -> list[typing.Any]:
    """``data`` of every process of a group, on the CPU, in the order of their ranks.

    Every process must call it at the same point.

    Args:
        data: anything that can be pickled.
        group: all processes, if None.
        max_size: fairseq's argument; there is no limit here.
    """
    parts: list[typing.Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(parts, move_to_cpu(data), group=group)
    return parts
