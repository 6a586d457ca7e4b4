"""Import every module of a package, so that its components register themselves."""

import importlib
import pkgutil
from types import ModuleType


def import_modules(package: ModuleType) -> None:
    """Imports every module of a package whose name does not start with ``_``."""
    for module in pkgutil.iter_modules(package.__path__):
        if not module.name.startswith("_"):
            importlib.import_module(f"{package.__name__}.{module.name}")
