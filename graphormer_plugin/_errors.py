"""Turn a user's mistake into one line instead of a traceback."""

import contextlib
import logging
import sys

logger = logging.getLogger(__name__)

USAGE_EXIT_CODE = 2  # what argparse uses for a wrong command line


@contextlib.contextmanager
def one_line_errors():
    """Exit with code 2 and one line on stderr where the input is wrong.

    fairseq's commands have no place for such an error of their own: whatever a task
    raises reaches the user as a traceback through fairseq. The line is the message
    of the exception; the traceback is still there with ``LOGLEVEL=DEBUG``.

    Catches ``ValueError`` (with it ``StoreError``), ``OSError`` and ``ImportError``
    only. Anything else is a defect and keeps its traceback.

    Raises:
        SystemExit: with code 2.
    """
    try:
        yield
    except (ValueError, OSError, ImportError) as error:
        logger.debug("details of the error below", exc_info=True)
        message = " ".join(str(error).split()) or type(error).__name__
        print(f"graphormer_plugin: error: {message}", file=sys.stderr, flush=True)
        raise SystemExit(USAGE_EXIT_CODE) from error
