"""Fixtures shared by all tests."""

import gc
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

# Fixtures that train a model, run the commands of a page or recipe, or read the files of a
# whole benchmark.
LONG = set("""benchmark_data checkpoint clone drop_in dry flags quick shared_data smoke
    three_epochs train""".split())

# Imports and tests in memory are for good: the collector need not look through them. This
# saves a third of the time to start, and a fifth of that of the tests.
gc.disable()

# A thread per process, before torch is imported: more are slower for small tensors, and a
# fork of a process with a team of them hangs.
os.environ.setdefault("OMP_NUM_THREADS", "1")


# Before a conftest.py of a folder imports them.
pytest.register_assert_rewrite("support")


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    """Fixtures of trainings and recipes, but not in the process that hands tests to others: its
    import of torch would delay all of them."""
    if config.getoption("dist", "no") == "no":
        # PyG, when it is imported; pytest's own filters begin later.
        warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated")
        for module in ("support.recipes", "support.training"):
            config.pluginmanager.import_plugin(module)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """`make test-quick` leaves out what takes long, see CONTRIBUTING.md."""
    for item in items:
        if LONG & set(getattr(item, "fixturenames", ())):
            item.add_marker("long")
        # xdist 3.8 writes groups where pytest 9.2 reads no names of tests any more.
        if config.getoption("loadgroup", False) and {"_id", "_nodeid"} <= {*dir(item)}:
            item._id = type(item._id).parse(item._nodeid)


def pytest_runtest_setup() -> None:
    """A command of fairseq in this process has set it for its own processes."""
    os.environ.pop("PYTHONSAFEPATH", None)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder with real benchmark data; tests that need it skip where it is absent.

    It is ``data`` in $GRAPHORMER_SHARED, else in a folder ``shared`` beside the
    repository or further up.
    """
    root = Path(__file__).resolve().parent.parent
    folders = [parent / "shared" / "data" for parent in root.parents]
    if "GRAPHORMER_SHARED" in os.environ:
        folders = [Path(os.environ["GRAPHORMER_SHARED"]) / "data"]
    for folder in folders:
        if folder.is_dir():
            return folder
    pytest.skip(f"put benchmark data into {folders[0]}, or set GRAPHORMER_SHARED")


@pytest.fixture(autouse=True)
def no_handler_outlives_its_test() -> Iterator[None]:
    """Commands log to the standard error of their process: here pytest's capture of
    one test, which is closed when the next one logs. The level is theirs, too."""
    root = logging.getLogger()
    before = root.handlers[:]
    yield
    root.setLevel(logging.WARNING)
    for handler in root.handlers[:]:
        if handler not in before:
            root.removeHandler(handler)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240501)


@pytest.fixture(scope="session")
def ogb():
    """The package ogb with its evaluators."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "outdated", None)  # it would call a server
        import ogb
        import ogb.graphproppred
        import ogb.lsc
    return ogb
