"""Turn a user's mistake into a single line instead of a traceback through fairseq."""

import contextlib
import logging
import os
import sys

from graphormer_plugin.data.errors import error_line, is_out_of_memory

logger = logging.getLogger(__name__)

USAGE_EXIT_CODE = 2  # what argparse uses for a wrong command line


@contextlib.contextmanager
def one_line_errors():
    """Exit with code 2 and a single line on stderr if the input is wrong.

    Catches ``ValueError`` (which includes ``StoreError``), ``OSError``, ``ImportError``
    and errors about full memory; ``LOGLEVEL=DEBUG`` also logs the traceback. Any other
    exception is a defect and keeps its traceback.
    """
    try:
        yield
    except (ValueError, OSError, ImportError, MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not is_out_of_memory(error):
            raise
        # Importing fairseq sets the root logger to DEBUG, and not every command sets it back.
        if os.environ.get("LOGLEVEL", "").upper() == "DEBUG":
            logger.debug("details of the error below", exc_info=True)
        message = error_line(error, sys.argv[1:])
        text = str(error).strip()
        if text.startswith("Caught "):  # a data worker's, with its traceback
            message = " ".join(text.splitlines()[-1].partition(": ")[2].split())
        print(f"graphormer_plugin: error: {message}", file=sys.stderr, flush=True)
        raise SystemExit(USAGE_EXIT_CODE) from error
