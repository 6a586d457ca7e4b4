"""Commands beside fairseq's own."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Optional

EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130

Command = Callable[[Optional[Sequence[str]]], Optional[int]]


def command(function: Command) -> Command:
    """Decorator of a command's ``main(argv=None)``: bad input makes one line.

    ValueError (which all errors of the data layer are) and OSError go to standard error
    and give exit code 2; Ctrl-C gives 130. With ``--debug`` among the arguments the
    exception goes through.
    """

    @functools.wraps(function)
    def main(argv: Optional[Sequence[str]] = None) -> int:
        arguments = sys.argv[1:] if argv is None else list(argv)
        if "--debug" in arguments:
            return function(arguments) or 0
        try:
            return function(arguments) or 0
        except (ValueError, OSError) as error:
            text = " ".join(str(error).split()) or type(error).__name__
            print(f"error: {text}", file=sys.stderr)
            return EXIT_BAD_INPUT
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return EXIT_INTERRUPTED

    return main
