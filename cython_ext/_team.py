"""Threads of the OpenMP team that the process has already."""

import ctypes
from typing import Any

from cython_ext._attention import COMPILED
from cython_ext._checks import checked_integer


def gomp_parallel() -> int:
    """Address of the function that starts a parallel region of GCC's OpenMP; 0: none.

    It is looked up in the running process, where torch has loaded it, and not linked:
    a second OpenMP library would bring threads of its own, and two teams on the same
    cores are ten times slower than a single team.
    """
    try:
        function = ctypes.CDLL(None).GOMP_parallel
    except (AttributeError, OSError, TypeError):  # no such function; Windows
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def team(num_threads: Any, items: int = 2**31) -> dict[str, int]:
    """Arguments of a kernel that takes so many threads, one for each item of work at most.

    Raises:
        NotImplementedError: the compiler had no vector types.
    """
    if not COMPILED:
        raise NotImplementedError("compiled without vector types")
    num_threads = min(checked_integer("num_threads", num_threads, 1), items)
    address = gomp_parallel() if num_threads > 1 else 0
    return {"num_threads": num_threads, "gomp_parallel": address}
