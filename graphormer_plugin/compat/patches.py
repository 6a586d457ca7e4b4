"""List of all that this package replaces in fairseq, and adds to torch's safe classes.

`tests/compat/test_patches.py` says which functions have gone, or have other arguments, in
another version of fairseq.
"""

import torch
from fairseq import checkpoint_utils, options, utils
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from fairseq.models import distributed_fairseq_model
from fairseq.optim import AMPOptimizer, FP16Optimizer
from fairseq.optim.lr_scheduler import LR_SCHEDULER_REGISTRY
from fairseq.trainer import Trainer

from graphormer_plugin.compat import all_weights
from graphormer_plugin.compat.amp import unscale_once
from graphormer_plugin.compat.architectures import register_with_fairseq
from graphormer_plugin.compat.checkpoint_files import (
    check_folder,
    copy,
    load_checkpoint,
    save_checkpoint,
)
from graphormer_plugin.compat.command_line import parse
from graphormer_plugin.compat.distributed import (
    CHECKPOINT_CLASSES,
    call_main,
    data_parallel,
    gather_logs,
)
from graphormer_plugin.compat.training_errors import guarded
from graphormer_plugin.compat.training_state import ReduceLROnPlateau
from graphormer_plugin.models import for_each_architecture


def apply() -> None:
    """Put this package's functions and classes in the place of fairseq's."""
    for_each_architecture(register_with_fairseq)
    # The command line of fairseq-train and fairseq-validate is checked first.
    options.parse_args_and_arch = parse
    # fairseq reads checkpoints without comparing checksums, with the safe loader only where
    # no environment variable switches it off, and believes the paths in a file. It copies
    # into the file of the last checkpoint, which a kill or a full disk then cuts off.
    checkpoint_utils.load_checkpoint_to_cpu = load_checkpoint
    checkpoint_utils.torch_persistent_save = save_checkpoint
    PathManager.copy = staticmethod(copy)
    # fairseq empties and removes the file `dummy` of the folder, or the target of a link.
    checkpoint_utils.verify_checkpoint_directory = check_folder
    # fairseq is older than torch's safe loader: without these classes, resuming or
    # fine-tuning on two or more processes ends with an error unless
    # --load-checkpoint-on-all-dp-ranks is given.
    torch.serialization.add_safe_globals(CHECKPOINT_CLASSES)
    # fairseq-validate collects the logs of all batches of a split. fairseq's function needs
    # CUDA and fails above 16 KB (--all-gather-list-size), a few dozen batches.
    distributed_utils.all_gather_list = gather_logs
    # fairseq counts GPUs to start processes, and to tell torchrun's apart.
    distributed_utils.call_main = call_main
    # --ddp-backend pytorch_ddp, fairseq's default, names a GPU for a model on the CPU.
    distributed_fairseq_model.DistributedDataParallel = data_parallel
    # A loss that is not finite, and memory that runs out, end in one line.
    Trainer.train_step = guarded(Trainer.train_step)
    Trainer.valid_step = guarded(Trainer.valid_step)
    # fairseq divides the gradients of --amp by the scale of the loss twice.
    AMPOptimizer.step = unscale_once
    # Gradients and weights are copied, emptied and clipped all at once.
    utils.multi_tensor_l2norm_available = True
    utils.multi_tensor_total_norm = all_weights.total_norm
    FP16Optimizer.zero_grad = all_weights.zero_grad
    FP16Optimizer._sync_fp16_grads_to_fp32 = all_weights.copy_gradients
    FP16Optimizer._sync_fp32_params_to_fp16 = all_weights.copy_weights
    # fairseq's schedule forgets how long it has waited.
    LR_SCHEDULER_REGISTRY["reduce_lr_on_plateau"] = ReduceLROnPlateau
