"""Import many modules: all of a package, or those of a large library quickly; and none
from the current folder."""

import contextlib
import fnmatch
import gc
import importlib
import os
import pkgutil
import sys
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any


def import_modules(package: ModuleType) -> None:
    """Import every module of a package whose name does not start with ``_``."""
    for module in pkgutil.iter_modules(package.__path__):
        if not module.name.startswith("_"):
            importlib.import_module(f"{package.__name__}.{module.name}")


def matching(names: Iterable[str], patterns: Iterable[str]) -> list[str]:
    """Sorted names that match one of some patterns of `fnmatch`; all without a pattern.

    >>> matching(["grpe_small", "gt_zinc", "grpe_tiny"], ["grpe_*", "*zinc"])
    ['grpe_small', 'grpe_tiny', 'gt_zinc']
    """
    chosen = [*patterns] or ["*"]
    return sorted(
        name
        for name in names
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in chosen)
    )


def is_same_definition(first: Any, second: Any) -> bool:
    """Whether two classes or functions have one name in one module, as those of a notebook's
    cell that is run again; a function without a name is always another."""
    names = [
        (definition.__module__, getattr(definition, "__qualname__", "<lambda>"))
        for definition in (first, second)
    ]
    return names[0] == names[1] and not names[0][1].endswith("<lambda>")


def import_nothing_from_current_folder() -> None:
    """Keep the current folder out of ``sys.path`` of all processes that it starts.

    ``python -c``, with which multiprocessing starts its servers, has it first there: a file
    such as ``numbers.py`` in a folder from somebody else would run.
    """
    os.environ["PYTHONSAFEPATH"] = "1"


@contextlib.contextmanager
def paused_collector() -> Iterator[None]:
    """Pause the garbage collector during imports; it would rescan the same modules."""
    enabled = gc.isenabled()
    first = "torch" not in sys.modules
    gc.disable()
    try:
        yield
    finally:
        if first:  # there are hardly any objects but modules, which stay for ever
            gc.freeze()
        if enabled:
            gc.enable()
