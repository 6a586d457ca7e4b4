"""Refuse an incomplete command line of ``fairseq-train`` and ``fairseq-validate`` in one
line.

fairseq has defaults for text (the task translation, the loss cross_entropy), or ends in a
traceback, where a flag is missing; its parser prints a page of usage with every message.
"""

import argparse
import ast
import difflib
import functools
import logging
import math
import os
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, NoReturn

import numpy as np
import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.optim import OPTIMIZER_REGISTRY, build_optimizer
from fairseq.optim.lr_scheduler import LR_SCHEDULER_REGISTRY, build_lr_scheduler

from graphormer_plugin.inference.checkpoint import checkpoint_path
from graphormer_plugin.tasks._errors import one_line_errors

logger = logging.getLogger(__name__)

# What has to be given, and what for: flags, one is enough, and advice.
TASK = (("--task",), "--task, e.g. graph_prediction")
BATCHES = (("--batch-size", "--max-sentences", "--max-tokens"), "--batch-size")
TRAINING = (
    TASK,
    (("--arch", "-a"), "--arch, e.g. grpe_small"),
    (("--criterion",), "--criterion, e.g. l1_loss"),
    (("--optimizer",), "--optimizer, e.g. adam"),
    BATCHES,
)
VALIDATION = (TASK, (("--path",), "--path, a checkpoint"), BATCHES)
# What a value of --lr-scheduler needs beside it.
SCHEDULES = {
    "cosine": (("--max-update", "--lr-period-updates"), "--max-update"),
    "polynomial_decay": (("--total-num-update",), "--total-num-update"),
    "tri_stage": (
        ("--phase-ratio", "--warmup-steps", "--hold-steps", "--decay-steps"),
        "--phase-ratio",
    ),
    "triangular": (("--max-lr",), "--max-lr"),
}
# Options that fairseq divides by, or loops until.
COUNTS = (
    *("log_interval", "save_interval", "validate_interval"),
    *("update_freq", "distributed_world_size"),
    *("batch_size", "max_tokens"),
)
# Numbers that fairseq's parser takes as text, since the default is that of another option.
INHERITED = ("max_tokens_valid", "batch_size_valid")
# What Hydra, which fairseq gives texts in quotes, reads as something else.
MISREAD = re.compile(r"\$\{(?!\w+\.\w+\})|\\('|\Z)|\A\?\?\?\Z")
# Python that fairseq evaluates.
DICTS = {"optimizer_overrides": "{'lr': 1e-4}", "model_overrides": "{'dropout': 0.1}"}
# Pairs that fairseq evaluates: what both numbers are below, and what is expected.
BETAS = (1, "two numbers from 0 to below 1, e.g. '(0.9, 0.98)'")
PAIRS = dict.fromkeys(("adam_betas", "adamax_betas", "lamb_betas"), BETAS)
PAIRS["adafactor_eps"] = (math.inf, "two numbers from 0 on, e.g. '(1e-30, 1e-3)'")
# The number of a value of --lr-scheduler that has to be above 0.
ABOVE_ZERO = {"inverse_sqrt": "warmup_updates", "polynomial_decay": "total_num_update"}
# What fairseq refuses beside --finetune-from-model.
RESETS = ("reset_optimizer", "reset_lr_scheduler", "reset_meters", "reset_dataloader")

# What argparse says of a word that is not among the choices, which 3.11 quotes.
CHOICES = re.compile(r"(invalid choice: '.*') \(choose from '?(.*?)'?\)$")
MOST_CHOICES = 20  # of more, fairseq's hundreds of names, the nearest are shown

fairseq_parse = options.parse_args_and_arch


def replace_fairseq_parser() -> None:
    """Check the arguments of fairseq's commands before fairseq does."""
    options.parse_args_and_arch = parse


@functools.wraps(fairseq_parse)
def parse(
    parser: argparse.ArgumentParser,
    input_args: Sequence[str] | None = None,
    *more: Any,
    **options: Any,
) -> Any:
    """fairseq's function; what a program gives as ``input_args`` is not checked.

    Raises:
        SystemExit: an argument is missing or wrong.
    """
    if input_args is None:
        parser.error = wrong
        if not {"-h", "--help"} & {*sys.argv}:
            with one_line_errors():
                check(parser, sys.argv[1:])
    arguments = fairseq_parse(parser, input_args, *more, **options)
    if input_args is None:
        parsed = arguments[0] if isinstance(arguments, tuple) else arguments
        with one_line_errors():
            check_texts(vars(parsed))
            check_values(parsed)
            check_rates(parsed)
            if is_training(parser):
                check_device(parsed)
                check_optimizer(parsed)
            check_paths(parsed)
    return arguments


def wrong(message: str) -> NoReturn:
    """What a parser does with a wrong argument."""
    found = CHOICES.search(message)
    choices = re.split("'?, '?", found[2]) if found else []
    if found and len(choices) > MOST_CHOICES:
        word = found[1].split("'", 1)[1][:-1]
        nearest = difflib.get_close_matches(word, choices, cutoff=0.5)
        near = f"; is it {', '.join(nearest)}?" if nearest else ""
        message = (
            f"{message[: found.end(1)]}{near} (python -m graphormer_plugin lists tasks, "
            "architectures and losses)"
        )
    with one_line_errors():
        raise ValueError(f"{message}; --help lists the flags")


def is_training(parser: argparse.ArgumentParser) -> bool:
    """Whether it is that of ``fairseq-train``."""
    return "--arch" in parser._option_string_actions


def check(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> None:
    """Check that a command has what it needs.

    Args:
        parser: of ``fairseq-train`` or ``fairseq-validate``; others are not checked.
        arguments: of the command line.

    Raises:
        ValueError: the message names all flags that are missing.
    """
    flags = {argument.partition("=")[0] for argument in arguments}
    trains = is_training(parser)
    if not (trains or "--path" in parser._option_string_actions):
        return
    needed = TRAINING if trains else VALIDATION
    words = [word for argument in arguments for word in argument.split("=", 1)]
    if trains and "--lr-scheduler" in words[:-1]:
        schedule = words[-words[::-1].index("--lr-scheduler")]
        if schedule in SCHEDULES:
            needed += (SCHEDULES[schedule],)
        if schedule == "tri_stage" and "--phase-ratio" in flags:  # a share of these
            needed += ((("--max-update",), "--max-update"),)
    missing = [advice for names, advice in needed if not flags & {*names}]
    if missing:
        raise ValueError(
            f"the command lacks {'; '.join(missing)} (python -m graphormer_plugin lists "
            "tasks, architectures and losses)"
        )
    if trains and "--lr" not in flags:
        logger.warning("no --lr: fairseq's default is 0.25, far too large for Adam")


def check_texts(texts: Mapping[str, Any]) -> None:
    """Check that fairseq reads texts, such as names of files and columns, as they are,
    but for ``${checkpoint.save_dir}`` and the like, which it replaces.

    Args:
        texts: values of options by their names; others than texts are not checked.

    Raises:
        ValueError: the message names the flag and the text.
    """
    for name, text in texts.items():
        if isinstance(text, str) and MISREAD.search(text):
            expected = "no ${, no ??? alone and no backslash at the end or before a ', "
            raise wrong_value(
                name, text, expected + "which fairseq misreads; rename it"
            )


def check_values(arguments: argparse.Namespace) -> None:
    """Check values that fairseq evaluates as Python, or counts with.

    Args:
        arguments: of a command of fairseq.

    Raises:
        ValueError: the message names the flag, its value and what is expected.
    """
    for name in COUNTS:
        value = getattr(arguments, name, None)
        if value is not None and (value == [] or np.min(value) < 1):
            raise wrong_value(name, value, "1 or more")
    for name in INHERITED:
        value = literal(str(getattr(arguments, name, None)))
        if value is not None and not (isinstance(value, int) and value >= 1):
            raise wrong_value(name, value, "a whole number, 1 or more")
    for name, (end, expected) in PAIRS.items():
        text = getattr(arguments, name, None)
        if isinstance(text, str) and not is_pair(literal(text), end):
            raise wrong_value(name, text, expected)
    for name, example in DICTS.items():
        overrides = getattr(arguments, name, None)
        if isinstance(overrides, str) and not isinstance(literal(overrides), dict):
            raise wrong_value(name, overrides, f"a dict, e.g. {example}")


def check_rates(arguments: argparse.Namespace) -> None:
    """Check the learning rate and its schedule.

    Args:
        arguments: of a command of fairseq.

    Raises:
        ValueError: fairseq would train away from the minimum, or fail after it has read
            the data.
    """
    given = vars(arguments).get
    rates = given("lr")
    if rates is not None and not (rates and min(rates) >= 0):
        raise wrong_value("lr", rates, "numbers from 0 on")
    if name := ABOVE_ZERO.get(given("lr_scheduler")):
        value = literal(str(given(name)))
        if not (isinstance(value, int | float) and value > 0):
            raise wrong_value(name, value, "a number above 0")
    plateau = given("lr_scheduler") == "reduce_lr_on_plateau"
    if plateau and not given("lr_shrink") < 1:
        raise wrong_value("lr_shrink", given("lr_shrink"), "a number below 1")


def check_device(arguments: argparse.Namespace) -> None:
    """Check that this machine has what the type of the weights needs in training.

    Args:
        arguments: of ``fairseq-train``, which sets ``tpu`` for ``--bf16``.

    Raises:
        ValueError: fairseq would fail after it has read the data.
    """
    given = vars(arguments).get
    if given("tpu") and find_spec("torch_xla") is None:
        raise ValueError(
            "--tpu, --bf16: fairseq needs torch_xla, which is not installed"
        )
    separate = given("fp16_no_flatten_grads") or given("memory_efficient_fp16")
    gpu = torch.cuda.is_available() and not given("cpu")
    if given("fp16") and not (separate or gpu):
        raise ValueError(
            "--fp16: training without a GPU also needs --fp16-no-flatten-grads"
        )
    if given("amp") and not gpu:
        logger.warning("--amp has no effect without a GPU")


def is_known(component: type) -> bool:
    """Whether fairseq or this plugin has it, and not another ``--user-dir``."""
    return component.__module__.split(".")[0] in ("fairseq", "graphormer_plugin")


def check_optimizer(arguments: argparse.Namespace) -> None:
    """Make the optimizer and its schedule, for weights that do not train.

    Those of another ``--user-dir`` may need weights of a shape that is not known here, so
    they are left to the training.

    Args:
        arguments: of ``fairseq-train``.

    Raises:
        ValueError: fairseq would fail over its settings after it has read the data.
    """
    if not is_known(OPTIMIZER_REGISTRY[arguments.optimizer]):
        return
    config = convert_namespace_to_omegaconf(arguments)
    weights = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
    what = f"--optimizer {arguments.optimizer}"
    try:
        optimizer = build_optimizer(config.optimizer, weights)
        half = arguments.memory_efficient_fp16 or arguments.memory_efficient_bf16
        if half and not optimizer.supports_memory_efficient_fp16:
            raise ValueError("it has no --memory-efficient-fp16; adam has")
        if not is_known(LR_SCHEDULER_REGISTRY[arguments.lr_scheduler]):
            return
        what = f"--lr-scheduler {arguments.lr_scheduler}"
        schedule = build_lr_scheduler(config.lr_scheduler, optimizer)
        schedule.step_begin_epoch(1)
        schedule.step_update(0)
    except Exception as error:
        # An assertion without a message says in its line what it expects.
        reason = str(error) or traceback.extract_tb(error.__traceback__)[-1].line
        raise ValueError(f"{what}: fairseq cannot make it: {reason}") from error


def literal(text: str) -> Any:
    """The value of a Python literal; the text itself where it is none."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError):  # of unhashable keys the last
        return text


def is_pair(value: Any, end: float) -> bool:
    """Whether a value is two numbers from 0 to below `end`."""
    try:
        return all(0 <= number < end for _, number in zip("12", value, strict=True))
    except (TypeError, ValueError):
        return False


def wrong_value(name: str, value: Any, expected: str) -> ValueError:
    flag = "--" + name.replace("_", "-")
    text = value
    if isinstance(value, list):
        text = ",".join(map(str, value)) or "[]"
    return ValueError(f"{flag} {text}: expected {expected}")


def check_paths(arguments: argparse.Namespace) -> None:
    """Check the files and folders that fairseq uses before it asks the task.

    Args:
        arguments: of a command of fairseq. The name of a model of the package becomes the
            path of its file.

    Raises:
        OSError: there is no such checkpoint.
        ValueError: a folder cannot be made, or a flag fits no checkpoint.
    """
    given = vars(arguments).get  # fairseq-validate reads them once without defaults
    if path := given("finetune_from_model"):
        for name in RESETS:
            if given(name):
                flag = "--" + name.replace("_", "-")
                raise ValueError(
                    f"{flag}: --finetune-from-model implies it; leave it out"
                )
        arguments.finetune_from_model = os.fspath(checkpoint_path(path))
    make_folder("--log-file", os.path.dirname(given("log_file") or ""))
    make_folder("--tensorboard-logdir", given("tensorboard_logdir"))
    suffix = given("checkpoint_suffix")
    if hasattr(arguments, "arch"):
        make_folder("--save-dir", "" if arguments.no_save else arguments.save_dir)
        path = arguments.restore_file
        # Without a file fairseq trains from scratch, as meant with its default only.
        if path != "checkpoint_last.pt" and not (suffix or os.path.exists(path)):
            raise FileNotFoundError(f"--restore-file {path}: no such file")
    elif path := given("path"):
        arguments.path = os.fspath(checkpoint_path(path))
        if not (suffix or os.path.exists(arguments.path)):
            raise FileNotFoundError(f"--path {path}: no such file")


def make_folder(flag: str, folder: str | None) -> None:
    """Make a folder that a flag names, if it names one."""
    try:
        if folder:
            os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{flag} {folder}: {error.strerror}") from None
