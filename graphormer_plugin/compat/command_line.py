"""Check the command line of ``fairseq-train`` and ``fairseq-validate``, before fairseq reads
the data.

Without a flag fairseq takes defaults for text (the task translation, the loss cross_entropy)
or ends in a traceback; its parser prints a page of usage with every message.
"""

import argparse
import ast
import dataclasses
import difflib
import functools
import logging
import os
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, NoReturn

import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.optim import OPTIMIZER_REGISTRY, build_optimizer
from fairseq.optim.lr_scheduler import LR_SCHEDULER_REGISTRY, build_lr_scheduler

from graphormer_plugin.compat.one_line_errors import one_line_errors
from graphormer_plugin.components import import_nothing_from_current_folder
from graphormer_plugin.data.options import flag_of
from graphormer_plugin.inference.checkpoint import checkpoint_path

logger = logging.getLogger(__name__)

# Flags that have to be given, one of each tuple, and an example.
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
# Lowest values. fairseq divides by an interval after the first update or epoch; below the others
# it trains nothing, or away from the minimum, without a word.
LOWEST = {"lr": 0, "update_freq": 1, "distributed_world_size": 1}
LOWEST |= dict.fromkeys(("log_interval", "save_interval", "validate_interval"), 1)
# Options that fairseq evaluates as Python, and their types. Here they are literals, and no code
# of a command line runs.
EVALUATED: dict[str, type] = {"optimizer_overrides": dict, "model_overrides": dict}
EVALUATED |= {f"{name}_betas": tuple for name in ("adam", "adamax", "lamb")}
EVALUATED["adafactor_eps"] = tuple
RESETS = ("reset_optimizer", "reset_lr_scheduler", "reset_meters", "reset_dataloader")
# Texts that Hydra, which gets them from fairseq in quotes, changes.
MISREAD = re.compile(r"\$\{(?!\w+\.\w+\})|\\('|\Z)|\A\?\?\?\Z")

# argparse's message about a word that is not among the choices, which Python 3.11 quotes.
CHOICES = re.compile(r"(invalid choice: '.*') \(choose from '?(.*?)'?\)$")
MOST_CHOICES = 20  # in a message; of fairseq's hundreds it names the nearest

_fairseq_parse = options.parse_args_and_arch


@functools.wraps(_fairseq_parse)
def parse(
    parser: argparse.ArgumentParser,
    input_args: Sequence[str] | None = None,
    *arguments: Any,
    **options: Any,
) -> Any:
    """fairseq's `parse_args_and_arch`; a program's own ``input_args`` are not checked.

    Raises:
        SystemExit: an argument is missing or wrong.
    """
    if input_args is not None:
        return _fairseq_parse(parser, input_args, *arguments, **options)
    import_nothing_from_current_folder()
    parser.error = wrong_argument
    with one_line_errors():
        if not {"-h", "--help"} & {*sys.argv}:
            check_flags(parser, sys.argv[1:])
        result = _fairseq_parse(parser, input_args, *arguments, **options)
        parsed = result[0] if isinstance(result, tuple) else result
        check_texts(vars(parsed))
        check_values(parsed)
        # fairseq trains with bfloat16 anywhere, but takes --bf16 for --tpu, too.
        if getattr(parsed, "bf16", False) and find_spec("torch_xla") is None:
            parsed.tpu = "--tpu" in sys.argv
        if hasattr(parsed, "arch"):
            check_optimizer(parsed)
        check_paths(parsed)
    return result


def wrong_argument(message: str) -> NoReturn:
    """Replaces `ArgumentParser.error`, which prints the usage and exits.

    Raises:
        ValueError: always; of many choices, the message has the nearest to the word.
    """
    match = CHOICES.search(message)
    choices = re.split("'?, '?", match[2]) if match else []
    if len(choices) > MOST_CHOICES:
        word = match[1].split("'", 1)[1][:-1]
        nearest = difflib.get_close_matches(word, choices, cutoff=0.5)
        near = f"; is it {', '.join(nearest)}?" if nearest else ""
        message = (
            f"{message[: match.end(1)]}{near} (python -m graphormer_plugin lists tasks, "
            "architectures and losses)"
        )
    raise ValueError(f"{message}; --help lists the flags")


def check_flags(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> None:
    """Check that a command has the flags without which fairseq would read text.

    Args:
        parser: of ``fairseq-train`` or ``fairseq-validate``; others are not checked.
        arguments: of the command line.

    Raises:
        ValueError: the message names all flags that are missing.
    """
    known = parser._option_string_actions
    trains = "--arch" in known
    needed = TRAINING if trains else VALIDATION if "--path" in known else ()
    flags = {argument.partition("=")[0] for argument in arguments}
    missing = [example for names, example in needed if not flags & {*names}]
    if missing:
        raise ValueError(
            f"the command lacks {'; '.join(missing)} (python -m graphormer_plugin lists "
            "tasks, architectures and losses)"
        )
    if trains and "--lr" not in flags:
        logger.warning("no --lr: fairseq's default is 0.25, far too large for Adam")


def check_texts(texts: Mapping[str, Any]) -> None:
    """Check that fairseq reads texts, such as names of files and columns, as they are.

    Args:
        texts: values of options by their names, of which the strings are checked; fairseq
            may replace ``${checkpoint.save_dir}`` and the like.

    Raises:
        ValueError: the message names the flag and the text.
    """
    for name, text in texts.items():
        if isinstance(text, str) and MISREAD.search(text):
            expected = "no ${, no ??? alone and no backslash at the end or before a ', "
            raise _wrong_value(
                name, text, expected + "which fairseq misreads; rename it"
            )


def check_values(arguments: argparse.Namespace) -> None:
    """Check the lowest values, and that no text is a program for fairseq to run.

    Raises:
        ValueError: the message names the flag and its value.
    """
    given = vars(arguments)
    for name, low in LOWEST.items():
        value = given.get(name)
        values = value if isinstance(value, list) else [value]
        if value is not None and min(values, default=low) < low:
            raise _wrong_value(name, value, f"{low} or more")
    for name, kind in EVALUATED.items():
        try:
            if isinstance(given.get(name), str):  # a default may be a tuple
                kind(ast.literal_eval(given[name]))
        except (ValueError, SyntaxError, TypeError):
            example = "(0.9, 0.98)" if kind is tuple else "{'lr': 1e-4}"
            raise _wrong_value(name, given[name], f"Python such as {example}") from None


def check_optimizer(arguments: argparse.Namespace) -> None:
    """Make the optimizer and its schedule for two weights, and do a step.

    Components of another ``--user-dir`` may need weights of another shape, so they are left
    to the training.

    Raises:
        ValueError: fairseq would fail after it has read the data; the message has the
            options that differ from fairseq's defaults.
    """
    failed, component = "fairseq cannot read the options", None
    # fairseq logs all options as an error before it raises the exception.
    logging.getLogger(convert_namespace_to_omegaconf.__module__).setLevel("CRITICAL")
    try:
        config = convert_namespace_to_omegaconf(arguments)
        failed = f"--optimizer {arguments.optimizer}: fairseq cannot make it"
        component = OPTIMIZER_REGISTRY[arguments.optimizer]
        if not _is_known(component):
            return
        weights = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
        optimizer = build_optimizer(config.optimizer, weights)
        half = arguments.memory_efficient_fp16 or arguments.memory_efficient_bf16
        if half and not optimizer.supports_memory_efficient_fp16:
            raise ValueError("it has no --memory-efficient-fp16; adam has")
        sum(weights).backward()
        optimizer.step()
        failed = f"--lr-scheduler {arguments.lr_scheduler}: fairseq cannot make it"
        component = LR_SCHEDULER_REGISTRY[arguments.lr_scheduler]
        if not _is_known(component):
            return
        schedule = build_lr_scheduler(config.lr_scheduler, optimizer)
        schedule.step_begin_epoch(1)
        schedule.step_update(0)
    except Exception as error:
        # The line of an assertion without a message has the expectation.
        reason = str(error) or traceback.extract_tb(error.__traceback__)[-1].line
        reason = re.sub(
            r"override \w+\.(\w+)=", lambda match: _flag(match[1], ""), reason
        )
        given = _changed_options(component, arguments)
        raise ValueError(f"{failed}{given}: {reason}") from error


def _is_known(component: type) -> bool:
    """Whether a component is fairseq's or this plugin's, not of another ``--user-dir``."""
    return component.__module__.split(".")[0] in ("fairseq", "graphormer_plugin")


def _changed_options(component: type | None, arguments: argparse.Namespace) -> str:
    """Options of a component of fairseq that differ from its defaults, for a message."""
    config = getattr(component, "__dataclass", None)
    fields = dataclasses.fields(config) if config else ()
    given = {field.name: getattr(arguments, field.name, None) for field in fields}
    defaults = {field.name: field.default for field in fields}
    changed = [
        _flag(name, value)
        for name, value in given.items()
        if value not in (None, defaults[name]) and value is not False
    ]
    return f" with {' '.join(changed)}" if changed else ""


def _flag(name: str, value: Any) -> str:
    """An option and its value as on the command line."""
    text = ",".join(map(str, value)) if isinstance(value, list) else value
    return f"{flag_of(name)} {text}"


def _wrong_value(name: str, value: Any, expected: str) -> ValueError:
    return ValueError(f"{_flag(name, value)}: expected {expected}")


def check_paths(arguments: argparse.Namespace) -> None:
    """Make the folders that fairseq writes to, and check the files that it reads.

    Args:
        arguments: the name of a model of the package becomes the path of its file.

    Raises:
        OSError: there is no such checkpoint, or a folder cannot be made.
        ValueError: a flag does not fit ``--finetune-from-model``.
    """
    given = vars(arguments).get  # fairseq-validate reads them once without defaults
    if path := given("finetune_from_model"):
        if any(map(given, RESETS)):
            raise ValueError("--finetune-from-model implies --reset-...; leave it out")
        arguments.finetune_from_model = os.fspath(checkpoint_path(path))
    folders = [os.path.dirname(given("log_file") or ""), given("tensorboard_logdir")]
    flag, path = "--path", given("path")
    if hasattr(arguments, "arch"):
        folders += [] if arguments.no_save else [arguments.save_dir]
        flag, path = "--restore-file", arguments.restore_file
        # Without a file fairseq trains from scratch, as meant with its default only.
        path = None if path == "checkpoint_last.pt" else path
    elif path:
        path = arguments.path = os.fspath(checkpoint_path(path))
    if path is not None and not (given("checkpoint_suffix") or os.path.exists(path)):
        raise FileNotFoundError(f"{flag} {path}: no such file")
    for folder in filter(None, folders):
        os.makedirs(folder, exist_ok=True)
