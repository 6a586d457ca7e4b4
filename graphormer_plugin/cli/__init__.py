"""Commands beside fairseq's own."""

import argparse
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from graphormer_plugin.data.errors import is_out_of_memory

EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130
RDKIT_WARNINGS = "rdApp.warning"  # such as "not removing hydrogen atom"

Command = Callable[[Sequence[str] | None], int | None]


class CommandParser(argparse.ArgumentParser):
    """Answers a wrong argument in one line, without a page of usage, and has the
    ``--debug`` of `command`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        text = "show the traceback of an error"
        self.add_argument("--debug", action="store_true", help=text)

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_BAD_INPUT, f"error: {message}; --help lists the options\n")


def command(function: Command) -> Command:
    """Decorator of a command's ``main(argv=None)``: bad input gives one line.

    The message of a ValueError (all errors of the data layer are one), of an OSError or of
    memory that runs out goes to standard error, and the exit code is 2; for Ctrl-C it is
    130. With ``--debug`` among the arguments, the exception is not caught.
    """

    @functools.wraps(function)
    def main(argv: Sequence[str] | None = None) -> int:
        arguments = sys.argv[1:] if argv is None else list(argv)
        if "--debug" in arguments:
            return function(arguments) or 0
        try:
            return function(arguments) or 0
        except (ValueError, OSError, MemoryError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and not is_out_of_memory(error):
                raise
            text = " ".join(str(error).split()) or type(error).__name__
            print(f"error: {text}", file=sys.stderr)
            return EXIT_BAD_INPUT
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return EXIT_INTERRUPTED

    return main
