"""The functions of fairseq that this package replaces or reads, in the fairseq installed."""

import inspect
import json
import subprocess
import sys

import pytest

IMPORTS = """
import inspect, json, sys
import fairseq.utils
from fairseq import checkpoint_utils, options
from fairseq.distributed import utils
from fairseq.file_io import PathManager
from fairseq.models import distributed_fairseq_model
from fairseq.optim import AMPOptimizer, FP16Optimizer
from fairseq.optim.lr_scheduler import LR_SCHEDULER_REGISTRY
from fairseq.trainer import Trainer
from fairseq_cli.train import should_stop_early
"""
# Prints the parameters in a process without this package, in which nothing is replaced.
PROGRAM = f"""{IMPORTS}
found = {{name: [*inspect.signature(eval(name)).parameters] for name in sys.argv[1:]}}
print(json.dumps(found))
"""
REPLACED = {
    "options.parse_args_and_arch": "parser input_args parse_known suppress_defaults "
    "modify_parser",
    "checkpoint_utils.load_checkpoint_to_cpu": "path arg_overrides load_on_all_ranks",
    "checkpoint_utils.torch_persistent_save": "obj filename async_write",
    "checkpoint_utils.verify_checkpoint_directory": "save_dir",
    "PathManager.copy": "src_path dst_path overwrite",
    "utils.all_gather_list": "data group max_size",
    "utils.call_main": "cfg main kwargs",
    "AMPOptimizer.step": "self",
    "fairseq.utils.multi_tensor_total_norm": "grads chunk_size",
    "FP16Optimizer.zero_grad": "self",
    "FP16Optimizer._sync_fp16_grads_to_fp32": "self",
    "FP16Optimizer._sync_fp32_params_to_fp16": "self",
    "Trainer.train_step": "self samples raise_oom",
    "Trainer.valid_step": "self sample raise_oom",
    "LR_SCHEDULER_REGISTRY['reduce_lr_on_plateau'].step": "self epoch val_loss",
    "distributed_fairseq_model.DistributedDataParallel.forward": "self inputs kwargs",
}
READ = {
    "checkpoint_utils._upgrade_state_dict": "state",
    "utils.distributed_main": "i main cfg kwargs",
    "utils._TensorPlaceholder": "index",
    "should_stop_early": "cfg valid_loss",
}


@pytest.mark.slow  # starts a process, which imports fairseq and not this package
def test_fairseq_has_what_is_replaced():
    expected = REPLACED | READ
    words = [sys.executable, "-W", "ignore", "-c", PROGRAM, *expected]
    found = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    assert {name: " ".join(found[name]) for name in found} == expected


@pytest.mark.parametrize("name", REPLACED)
def test_everything_is_replaced(name):
    scope = {}
    exec(IMPORTS, scope)
    replaced = eval(name.removesuffix(".forward"), scope)
    module = inspect.getmodule(getattr(replaced, "__code__", replaced))
    assert module.__name__.startswith("graphormer_plugin.compat.")
