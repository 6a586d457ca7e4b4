"""Import fairseq and this package in about half of the time.

fairseq imports all of its tasks and losses. A task for speech and a loss for text import
scikit-learn and `scipy.stats`, which takes a third of the time. They get functions that
import the real modules when they are called.
"""

import contextlib
import importlib
import logging
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from graphormer_plugin.components import paused_collector

DEFERRED = ("sklearn", "sklearn.metrics", "scipy.stats")


class _Deferred(ModuleType):
    """A module whose functions import the real module when they are called."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def _call(*args: Any, **kwargs: Any) -> Any:
            real = importlib.import_module(self.__name__)
            return getattr(real, name)(*args, **kwargs)

        return _call


@contextlib.contextmanager
def deferred_modules() -> Iterator[None]:
    """Modules of `DEFERRED` that nothing has imported yet are `_Deferred`."""
    names = [name for name in DEFERRED if name not in sys.modules]
    for name in names:
        sys.modules[name] = module = _Deferred(name)
        package, _, last = name.rpartition(".")
        if package in names:
            setattr(sys.modules[package], last, module)
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]


@contextlib.contextmanager
def quick_imports() -> Iterator[None]:
    """Import fairseq quickly, then run its body; neither changes what the program logs,
    though fairseq's tasks give the root logger a level and a handler."""
    root = logging.getLogger()
    level = root.level
    handlers = [*root.handlers]
    try:
        with paused_collector():
            with deferred_modules():
                import fairseq  # noqa: F401
            yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers
