"""Let several processes load a checkpoint."""

import collections
import typing

import torch
from fairseq.distributed import utils
from omegaconf import DictConfig, ListConfig
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode

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
