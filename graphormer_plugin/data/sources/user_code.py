"""Folders of users: modules in them register datasets and substructures."""

import contextlib
import importlib
import sys
import types
from collections.abc import Iterator
from pathlib import Path

from graphormer_plugin.data.errors import DatasetError, error_place
from graphormer_plugin.data.files import folder_hash, text_sha256
from graphormer_plugin.data.sources.registry import DATASETS, register_dataset


def import_user_data(folder: Path) -> None:
    """Import every public module of a folder, so that its datasets are registered.

    The folder is a package (with or without ``__init__.py``), so its modules may import
    each other relatively. It is imported once, and again after a file has changed. Files
    for Graphormer v2 work: ``from graphormer.data import register_dataset`` gives them
    the decorator of this package.
    """
    folder = folder.resolve()
    files = sorted({*folder.glob("[!_]*.py"), *folder.glob("__init__.py")})
    if not files:
        raise DatasetError(f"user data folder {folder}: no such folder with .py files")
    digest = text_sha256(str(folder))[:8]
    name = f"graphormer_user_data_{digest}"
    code = folder_hash(folder)
    if getattr(sys.modules.get(name), "graphormer_code_hash", None) == code:
        return
    _forget(name)
    package = types.ModuleType(name)
    package.__path__ = [str(folder)]
    package.graphormer_code_hash = code
    sys.modules[name] = package
    # Python takes cached bytecode for current if the file has its size and second.
    cached = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    importlib.invalidate_caches()
    try:
        with _names_of_v2():
            for file in files:
                if file.name != "__init__.py":
                    importlib.import_module(f"{name}.{file.stem}")
                    continue
                package.__file__ = str(file)
                exec(compile(file.read_bytes(), str(file), "exec"), package.__dict__)
    except BaseException as error:
        _forget(name)
        if isinstance(error, DatasetError | KeyboardInterrupt):
            raise
        raise DatasetError(
            f"user data folder {folder}: import failed {error_place(error, str(folder))}"
        ) from error
    finally:
        sys.dont_write_bytecode = cached


@contextlib.contextmanager
def _names_of_v2() -> Iterator[None]:
    """``graphormer.data`` is a module with `register_dataset`, as in Graphormer v2."""
    package, data = (types.ModuleType(f"graphormer{end}") for end in ("", ".data"))
    package.data = data
    data.register_dataset = register_dataset
    names = {"graphormer": package, "graphormer.data": data}
    sys.modules |= names
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]


def _forget(package_name: str) -> None:
    def _inside(module: str) -> bool:
        return module == package_name or module.startswith(f"{package_name}.")

    for module in [module for module in sys.modules if _inside(module)]:
        del sys.modules[module]
    for name in [n for n, d in DATASETS.items() if _inside(d.function.__module__)]:
        del DATASETS[name]
