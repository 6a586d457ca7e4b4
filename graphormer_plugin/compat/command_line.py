"""Check the command line of ``fairseq-train`` and ``fairseq-validate``, before fairseq reads
the data.

Without a flag fairseq takes defaults for text (the task translation, the loss cross_entropy)
or ends in a traceback; its parser prints a page of usage with every message.
"""

import argparse
import functools
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, NoReturn

import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.optim import OPTIMIZER_REGISTRY, build_optimizer
from fairseq.optim.lr_scheduler import LR_SCHEDULER_REGISTRY, build_lr_scheduler

from graphormer_plugin.compat.one_line_errors import one_line_errors
from graphormer_plugin.components import import_nothing_from_current_folder
from graphormer_plugin.inference.checkpoint import checkpoint_path

logger = logging.getLogger(__name__)
# Otherwise fairseq-validate prints what hydra does.
logging.getLogger("hydra").setLevel(logging.INFO)

# Flags that have to be given, one of each tuple, and an example.
TASK = (("--task",), "--task, e.g. graph_prediction")
BATCHES = (
    ("--batch-size", "--max-sentences", "--max-tokens", "--max-pairs"),
    "--batch-size",
)
TRAINING = (
    TASK,
    (("--arch", "-a"), "--arch, e.g. grpe_small"),
    (("--criterion",), "--criterion, e.g. l1_loss"),
    (("--optimizer",), "--optimizer, e.g. adam"),
    BATCHES,
)
VALIDATION = (TASK, (("--path",), "--path, a checkpoint"), BATCHES)
NAMES = "python -m graphormer_plugin lists tasks, architectures and losses"
RESETS = ("reset_optimizer", "reset_lr_scheduler", "reset_meters", "reset_dataloader")
NO_LIMIT = 2**31 - 1
LONGEST = 300  # characters of a message; a choice among all of fairseq's has thousands

_fairseq_parse = options.parse_args_and_arch


@functools.wraps(_fairseq_parse)
def parse(
    parser: argparse.ArgumentParser,
    input_args: Sequence[str] | None = None,
    *arguments: Any,
    **options: Any,
) -> Any:
    """fairseq's `parse_args_and_arch`; a program's own ``input_args`` are not checked."""
    if input_args is not None:
        return _fairseq_parse(parser, input_args, *arguments, **options)
    import_nothing_from_current_folder()
    parser.error = wrong_argument
    with one_line_errors():
        if not {"-h", "--help"} & {*sys.argv}:
            require_flags(parser, sys.argv[1:])
        result = _fairseq_parse(parser, input_args, *arguments, **options)
        parsed = result[0] if isinstance(result, tuple) else result
        # fairseq trains with bfloat16 anywhere, but takes --bf16 for --tpu, too.
        if getattr(parsed, "bf16", False) and find_spec("torch_xla") is None:
            parsed.tpu = "--tpu" in sys.argv
        value_of = vars(parsed).get
        if value_of("max_pairs") and not (
            value_of("batch_size") or value_of("max_tokens")
        ):
            parsed.batch_size = NO_LIMIT  # fairseq demands one of the two
        if value_of("store_ema"):
            raise ValueError("--store-ema: nothing reads these weights; leave it out")
        if hasattr(parsed, "arch"):
            check_optimizer(parsed)
        check_paths(parsed)
    return result


def wrong_argument(message: str) -> NoReturn:
    """Replace `ArgumentParser.error`, which prints the usage and exits: a ValueError."""
    if len(message) > LONGEST:
        message = f"{message.partition(' (choose from')[0]} ({NAMES})"
    raise ValueError(f"{message}; --help lists the flags")


def require_flags(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> None:
    """Raise ValueError where a command lacks flags without which fairseq would read text;
    other commands than ``fairseq-train`` and ``fairseq-validate`` need none."""
    flags_of_parser = parser._option_string_actions
    trains = "--arch" in flags_of_parser
    needed = TRAINING if trains else VALIDATION if "--path" in flags_of_parser else ()
    flags = {argument.partition("=")[0] for argument in arguments}
    missing = [example for names, example in needed if not flags & {*names}]
    if missing:
        raise ValueError(f"the command lacks {'; '.join(missing)} ({NAMES})")
    if trains and "--lr" not in flags:
        logger.warning("no --lr: fairseq's default is 0.25, far too large for Adam")


def check_optimizer(arguments: argparse.Namespace) -> None:
    """Make the optimizer and its schedule for two weights, and do a step.

    Components of another ``--user-dir`` may need weights of another shape, so they are left
    to the training. A ValueError says what fairseq would fail at after it has read the data.
    """
    names = f"--optimizer {arguments.optimizer} --lr-scheduler {arguments.lr_scheduler}"
    # fairseq logs all options as an error before it raises the exception.
    logging.getLogger(convert_namespace_to_omegaconf.__module__).setLevel("CRITICAL")
    try:
        config = convert_namespace_to_omegaconf(arguments)
        optimizer = OPTIMIZER_REGISTRY[arguments.optimizer]
        schedule = LR_SCHEDULER_REGISTRY[arguments.lr_scheduler]
        for component in (optimizer, schedule):
            package = component.__module__.partition(".")[0]
            if package not in ("fairseq", "graphormer_plugin"):
                return
        weights = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
        optimizer = build_optimizer(config.optimizer, weights)
        half = arguments.memory_efficient_fp16 or arguments.memory_efficient_bf16
        if half and not optimizer.supports_memory_efficient_fp16:
            raise ValueError("it has no --memory-efficient-fp16; adam has")
        sum(weights).backward()
        optimizer.step()
        schedule = build_lr_scheduler(config.lr_scheduler, optimizer)
        schedule.step_begin_epoch(1)
        schedule.step_update(0)
    except Exception as error:
        # The line of an assertion without a message has the expectation.
        reason = str(error) or traceback.extract_tb(error.__traceback__)[-1].line
        raise ValueError(f"{names}: fairseq refuses the options: {reason}") from error


def check_paths(arguments: argparse.Namespace) -> None:
    """Make the folders that fairseq writes to, and check the files that it reads; the name of
    a model of the package becomes the path of its file."""
    value_of = vars(arguments).get  # fairseq-validate reads them once without defaults
    if path := value_of("finetune_from_model"):
        if any(map(value_of, RESETS)):
            raise ValueError("--finetune-from-model implies --reset-...; leave it out")
        arguments.finetune_from_model = os.fspath(checkpoint_path(path))
    folders = [
        os.path.dirname(value_of("log_file") or ""),
        value_of("tensorboard_logdir"),
    ]
    flag = "--path"
    path = value_of("path")
    if hasattr(arguments, "arch"):
        folders += [] if arguments.no_save else [arguments.save_dir]
        flag = "--restore-file"
        path = arguments.restore_file
        # Without a file fairseq trains from scratch, as meant with its default only.
        path = None if path == "checkpoint_last.pt" else path
    elif path:
        path = arguments.path = os.fspath(checkpoint_path(path))
    if path is not None and not (value_of("checkpoint_suffix") or os.path.exists(path)):
        raise FileNotFoundError(f"{flag} {path}: no such file")
    for folder in filter(None, folders):
        os.makedirs(folder, exist_ok=True)
