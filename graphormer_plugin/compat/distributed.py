"""Several processes: safe classes of checkpoints, their start and DDP on CPUs, gathered logs."""

import collections
import os
import tempfile
from collections.abc import Callable
from typing import Any

import torch
from fairseq.distributed import utils
from fairseq.utils import move_to_cpu
from omegaconf import DictConfig, ListConfig
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode
from torch import multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

from graphormer_plugin.processes import gather_objects

_fairseq_call_main = utils.call_main

# Classes, beside tensors, in a checkpoint that fairseq's first process reads and sends to the
# others. Reading them runs no code.
CHECKPOINT_CLASSES = [
    *(utils._TensorPlaceholder, DictConfig, ListConfig, ContainerMetadata, Metadata),
    *(AnyNode, Any, collections.defaultdict, dict, list, int),
]


def call_main(cfg: DictConfig, main: Callable[..., None], **options: Any) -> None:
    """fairseq's `call_main`, which counts GPUs, also for several processes on CPUs.

    The processes of torchrun train together without ``--distributed-world-size``. A process
    that ends with a code, after a line of its own, gives that code to the command.
    """
    group = cfg.distributed_training
    tpu = cfg.common.tpu
    named = group.distributed_init_method is not None
    launched = {"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"} <= {*os.environ}
    if launched and not named and not tpu:
        group.distributed_world_size = int(os.environ["WORLD_SIZE"])
    try:
        gpus = torch.cuda.is_available() and not cfg.common.cpu
        if gpus or tpu or group.distributed_world_size == 1:
            _fairseq_call_main(cfg, main, **options)
            return
        if group.distributed_backend == "nccl":  # fairseq's default
            group.distributed_backend = "gloo"
        if launched and not named:
            group.distributed_init_method = "env://"
            group.distributed_rank = int(os.environ["RANK"])
            group.distributed_no_spawn = True
        if group.distributed_no_spawn or "SLURM_STEP_NODELIST" in os.environ:
            _fairseq_call_main(cfg, main, **options)
            return
        number = group.distributed_world_size
        threads = str(max(1, torch.get_num_threads() // number))
        os.environ.setdefault("OMP_NUM_THREADS", threads)
        with tempfile.TemporaryDirectory() as folder:
            group.distributed_init_method = f"file://{folder}/processes"
            group.distributed_rank = None  # fairseq gives each process its own
            arguments = (main, cfg, options)
            multiprocessing.spawn(utils.distributed_main, arguments, nprocs=number)
    except multiprocessing.ProcessExitedException as error:
        if error.exit_code < 0:  # killed, without a line
            raise
        raise SystemExit(error.exit_code) from None


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
    """fairseq's `all_gather_list` by `gather_objects`, on the CPU and of any size."""
    return gather_objects(move_to_cpu(data), group)
