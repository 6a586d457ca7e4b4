"""The functions of fairseq that this package replaces or reads, in the fairseq installed."""

import inspect
import json
import subprocess
import sys

import pytest
from fairseq import checkpoint_utils, options
from fairseq.distributed import utils
from fairseq.file_io import PathManager
from fairseq.models import distributed_fairseq_model
from fairseq.optim import AMPOptimizer
from fairseq.optim.lr_scheduler import LR_SCHEDULER_REGISTRY
from fairseq.trainer import Trainer

# A process without this package, in which nothing is replaced.
PROGRAM = """
import inspect, json
from fairseq import checkpoint_utils, options
from fairseq.distributed import utils
from fairseq.file_io import PathManager
from fairseq.models.distributed_fairseq_model import DistributedDataParallel
from fairseq.optim import AMPOptimizer
from fairseq.optim.lr_scheduler import LR_SCHEDULER_REGISTRY
from fairseq.trainer import Trainer
from fairseq_cli.train import should_stop_early
functions = [
    options.parse_args_and_arch, checkpoint_utils.load_checkpoint_to_cpu,
    checkpoint_utils.torch_persistent_save, checkpoint_utils._upgrade_state_dict,
    checkpoint_utils.verify_checkpoint_directory,
    PathManager.copy, utils.all_gather_list, utils.call_main, utils.distributed_main,
    utils._TensorPlaceholder, AMPOptimizer.step,
    Trainer.train_step, Trainer.valid_step, should_stop_early,
    LR_SCHEDULER_REGISTRY["reduce_lr_on_plateau"].step, DistributedDataParallel.forward,
]
print(json.dumps({f.__name__: [*inspect.signature(f).parameters] for f in functions}))
"""
PARAMETERS = {
    "parse_args_and_arch": "parser input_args parse_known suppress_defaults modify_parser",
    "load_checkpoint_to_cpu": "path arg_overrides load_on_all_ranks",
    "torch_persistent_save": "obj filename async_write",
    "_upgrade_state_dict": "state",
    "verify_checkpoint_directory": "save_dir",
    "copy": "src_path dst_path overwrite",
    "all_gather_list": "data group max_size",
    "call_main": "cfg main kwargs",
    "distributed_main": "i main cfg kwargs",
    "_TensorPlaceholder": "index",
    "train_step": "self samples raise_oom",
    "valid_step": "self sample raise_oom",
    "should_stop_early": "cfg valid_loss",
    "step": "self epoch val_loss",
    "forward": "self inputs kwargs",
}


@pytest.mark.slow  # starts a process, which imports fairseq and not this package
def test_fairseq_has_what_is_replaced():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM], capture_output=True, check=True
    )
    found = json.loads(done.stdout)
    assert {
        name: " ".join(parameters) for name, parameters in found.items()
    } == PARAMETERS


def test_everything_is_replaced():
    for replaced in (
        options.parse_args_and_arch,
        checkpoint_utils.load_checkpoint_to_cpu,
        checkpoint_utils.torch_persistent_save,
        checkpoint_utils.verify_checkpoint_directory,
        PathManager.copy,
        utils.all_gather_list,
        utils.call_main,
        distributed_fairseq_model.DistributedDataParallel,
        AMPOptimizer.step,
        Trainer.train_step,
        Trainer.valid_step,
        LR_SCHEDULER_REGISTRY["reduce_lr_on_plateau"],
    ):
        module = inspect.getmodule(getattr(replaced, "__code__", replaced))
        assert module.__name__.startswith("graphormer_plugin.compat."), replaced
