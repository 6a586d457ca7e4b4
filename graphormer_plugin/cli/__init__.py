"""Shared parts of the commands: parsers, lines of output, and errors as one line."""

import argparse
import contextlib
import functools
import io
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TextIO

from graphormer_plugin.choices import at_least
from graphormer_plugin.components import import_nothing_from_current_folder
from graphormer_plugin.data.errors import error_line, is_out_of_memory

EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130
RDKIT_WARNINGS = "rdApp.warning"  # such as "not removing hydrogen atom"

Command = Callable[[Sequence[str] | None], int | None]


class CommandParser(argparse.ArgumentParser):
    """Parser that answers a wrong argument in one line, without a page of usage, and has
    the ``--debug`` of `command`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for kind in (int, float):  # argparse's message is "invalid int value"
            self.register("type", kind, number(kind))
        text = "show the traceback of an error"
        self.add_argument("--debug", action="store_true", help=text)

    def error(self, message: str) -> NoReturn:
        """Exit with a line."""
        is_rest = message.startswith("unrecognized arguments: ") and " -" not in message
        if is_rest and any(action.metavar == "A,B,..." for action in self._actions):
            message += " (commas join the names of a list: a,b)"
        self.exit(EXIT_BAD_INPUT, f"error: {message}; --help lists the options\n")


def not_empty(text: str) -> str:
    """Type of an argument that names a file: an empty name would be the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("it is empty, expected a name")
    return text


def number(
    kind: type[float], least: float = -math.inf, most: float = math.inf
) -> Callable[[str], float]:
    """Type of an argument that is a number from ``least`` to ``most``, a whole one for int."""

    def _number(text: str) -> float:
        with contextlib.suppress(ValueError):
            if least <= kind(text) <= most:
                return kind(text)
        words = "a whole number" if kind is int else "a number"
        bound = f", {at_least(least)}" if least > -math.inf else ""
        bound += f", {most:g} or less" if most < math.inf else ""
        raise argparse.ArgumentTypeError(f"{text}, expected {words}{bound}")

    return _number


def check_name(output: Path, suffixes: Sequence[str]) -> None:
    """Raise ValueError unless a file can have that name."""
    if output.suffix.lower() not in suffixes:
        ends = ", ".join(suffixes)
        raise ValueError(f"{output}: expected a name that ends in {ends}")
    if not output.parent.is_dir():
        raise ValueError(f"{output}: there is no folder {output.parent}")


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that read molecules for a model."""
    add = parser.add_argument
    add(
        "--smiles-column",
        default="",
        help="column of SMILES (default: the column called smiles, or the only column "
        "with smiles in its name)",
    )
    add(
        "--max-atoms",
        type=number(int, 1),
        help="atoms of the largest molecule; a larger molecule gets a reason instead of a "
        "prediction (default: limit of the training)",
    )
    add(
        "--user-data-dir",
        help="folder with modules that register the model's architecture, pair encodings "
        "or substructures",
    )


def prediction_parser(
    prog: str, description: str, **files: dict[str, Any]
) -> CommandParser:
    """Parser of a command that predicts a table: options of the arguments ``models``, ``input``
    and ``output``, and what all these commands have."""
    text = f"{description} The same command goes on after a kill."
    result = CommandParser(prog=prog, description=text)
    for name, options in files.items():
        result.add_argument(name, type=not_empty, **options)
    add_reading_options(result)
    add = result.add_argument_group("speed").add_argument
    add(
        "--batch-size",
        type=number(int, 1),
        default=128,
        help="molecules per batch; a batch of large molecules has fewer (default: 128)",
    )
    add("--device", help="cpu, cuda or cuda:1 (default: a GPU if there is one)")
    add(
        "--workers",
        type=int,
        help="processes that read SMILES, and on a CPU predict, too (default: one per "
        "core for many rows, else none)",
    )
    add("--quiet", action="store_true", help="no progress bar")
    add(
        "--dtype",
        choices=("bf16",),
        help="bf16: multiply matrices in bfloat16, in about 0.6 of the time for wide models "
        "on processors that have it; predictions change by some percent of their spread",
    )
    return result


def print_line(text: str) -> None:
    """Write a line to standard output.

    Results are files, so an output that cannot be written (a pipe that ``head`` has
    closed, a full disk) does not end a command: a warning says so once, and all further
    lines are lost.
    """
    try:
        print(text, flush=True)
    except OSError as error:
        discard_stream(sys.stdout)
        print_warning(
            f"standard output cannot be written, its lines are lost: {error.strerror}"
        )


def print_warning(text: str) -> None:
    """Write a warning to standard error."""
    print_error(f"warning: {text}")


def print_error(text: str) -> None:
    """Write a line to standard error, if it can be written."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        discard_stream(sys.stderr)


def discard_stream(stream: TextIO) -> None:
    """Discard a broken standard stream and its buffer, so that Python does not fail at
    exit."""
    with open(os.devnull, "w", encoding="utf-8") as devnull:
        os.dup2(devnull.fileno(), stream.fileno())


def command(function: Command) -> Command:
    """Decorator of a command's ``main(argv=None)``, which then returns the exit code, 0.

    The message of any exception goes to standard error, and the exit code is 2; for Ctrl-C
    it is 130. With ``--debug`` among the arguments, the exception is not caught.
    """

    @functools.wraps(function)
    def _main(argv: Sequence[str] | None = None) -> int:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # it may lack a character
                stream.reconfigure(errors="backslashreplace")
        if argv is None:  # not in another program
            import_nothing_from_current_folder()
        arguments = sys.argv[1:] if argv is None else list(argv)
        if "--debug" in arguments:
            return function(arguments) or 0
        try:
            return function(arguments) or 0
        except Exception as error:
            text = error_line(error, arguments)
            is_expected = isinstance(error, (ValueError, OSError, MemoryError))
            if not is_expected and not is_out_of_memory(error):
                text = f"{type(error).__name__}: {text}; --debug shows where"
            print_error(f"error: {text}")
            return EXIT_BAD_INPUT
        except KeyboardInterrupt:
            print_error("interrupted")
            return EXIT_INTERRUPTED

    return _main
