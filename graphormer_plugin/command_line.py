"""Refuse an incomplete command line of ``fairseq-train`` and ``fairseq-validate`` in one
line.

fairseq has defaults for text (the task translation, the loss cross_entropy), or ends in a
traceback, where a flag is missing; its parser prints a page of usage with every message.
"""

import argparse
import functools
import logging
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from fairseq import options

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
    return fairseq_parse(parser, input_args, *more, **options)


def wrong(message: str) -> NoReturn:
    """What a parser does with a wrong argument."""
    with one_line_errors():
        raise ValueError(f"{message}; --help lists the flags")


def check(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> None:
    """Check that a command has what it needs.

    Args:
        parser: of ``fairseq-train`` or ``fairseq-validate``; others are not checked.
        arguments: of the command line.

    Raises:
        ValueError: the message names all flags that are missing.
    """
    flags = {argument.partition("=")[0] for argument in arguments}
    known = parser._option_string_actions
    trains = "--arch" in known
    if not (trains or "--path" in known):
        return
    needed = TRAINING if trains else VALIDATION
    missing = [advice for names, advice in needed if not flags & {*names}]
    if missing:
        raise ValueError(
            f"the command lacks {'; '.join(missing)} (python -m graphormer_plugin lists "
            "tasks, architectures and losses)"
        )
    if trains and "--lr" not in flags:
        logger.warning("no --lr: fairseq's default is 0.25, far too large for Adam")
