"""Many damaged files for every reader; the kernels have theirs in tests/cython_ext.

    python tests/soak/fuzz.py --inputs 100000 --first 0
    FUZZ_EXAMPLES=12500 python -m pytest tests/cython_ext/test_fuzz.py    # twelve tests

`make soak` does both, and kills.py.

A reader may take `MEMORY` more than at the start: what a small file unpacks to fails, too.

An input is a number, the seed of its damage: a failure is reproduced with
``--first NUMBER --inputs 1``.
"""

import argparse
import logging
import resource
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

if __name__ == "__main__":
    root = Path(__file__).resolve().parents[2]
    sys.path[:0] = [str(root), str(root / "tests")]

from support.hostile import READERS

MEMORY = 2**31  # bytes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=100_000, help="for each reader")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--readers", nargs="+", default=list(READERS), choices=READERS)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="each")
    arguments = parser.parse_args()
    logging.disable()  # of each traceback that becomes a line
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    failed = 0
    for name in arguments.readers:
        counts, end = Counter(), time.monotonic() + arguments.seconds
        for seed in range(arguments.first, arguments.first + arguments.inputs):
            try:
                counts[READERS[name](seed)] += 1
            except (Exception, SystemExit):
                counts["failed"] += 1
                if counts["failed"] <= 10:
                    print(
                        f"{name}, input {seed}:\n{traceback.format_exc()}", flush=True
                    )
            if time.monotonic() > end:
                break
        print(f"{name}: {sum(counts.values()):,} inputs, {dict(counts)}", flush=True)
        failed += counts["failed"]
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
