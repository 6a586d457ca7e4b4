"""Relaxations of adsorbates on surfaces (OC20's IS2RE): a folder of LMDB files.

``<folder>/<split>/data.lmdb`` has a pickle under each number from 0, written as text: a
dictionary, or PyG's `Data` as in OC20's own files, of ``pos``, ``cell``,
``atomic_numbers``, ``tags``, and where known ``pos_relaxed`` and ``y_relaxed``. A system whose
tags are all 0 counts as a surface, with tags of 1 (our choice).

Images of periodic cells are made at preparation (`graph_of_system`), so that sizes of batches
are true. An image takes 27 bytes of the store.
"""

import contextlib
import importlib.util
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from graphormer_plugin.data.benchmarks.official import BenchmarkFiles
from graphormer_plugin.data.benchmarks.pickles import load_pickle
from graphormer_plugin.data.errors import DatasetError, named_damage
from graphormer_plugin.data.graphs.conformers import (
    LENGTH_UNITS,
    NUM_ELEMENTS,
    check_size,
    doubt_of_unit,
    likely_units,
    nearest_distance,
)
from graphormer_plugin.data.graphs.periodic import (
    NODE_DIMS,
    PeriodicSystem,
    graph_of_system,
)
from graphormer_plugin.data.graphs.pyg_graphs import as_array
from graphormer_plugin.data.sources.registry import (
    RECOGNISERS,
    DatasetSource,
    RegisteredDataset,
)
from graphormer_plugin.data.splits import consecutive_splits
from graphormer_plugin.data.tables.options import DatasetOptions

_SOURCES = ("lmdb", "lmdb:every-cell")


def lmdb_dataset(folder: Path) -> RegisteredDataset | None:
    """The dataset of a folder with LMDB files; None without such files.

    ``--dataset-source lmdb:every-cell`` makes images for any cell, see `graph_of_system`.
    """
    paths = sorted(folder.glob("*/data.lmdb"), key=lambda path: path.parent.name)
    if not paths:
        return None
    folder = folder.absolute()
    names = tuple(f"{path.parent.name}/data.lmdb" for path in paths)
    files = BenchmarkFiles(str(folder), str(folder), names, url="")

    def _load(options: DatasetOptions) -> DatasetSource:
        if options.source not in ("", *_SOURCES):
            expected = "|".join(_SOURCES)
            raise DatasetError(
                f"--dataset-source {options.source}: expected {expected}"
            )
        counts = {}
        for path in paths:
            with _opened(path) as entries:
                counts[path.parent.name] = len(_keys(entries))
        splits = dict(consecutive_splits(counts))
        validation = [name for name in splits if name.startswith("val")]
        if validation:
            splits.setdefault("valid", splits[validation[0]])
        graphs = _graphs(paths, options)
        return DatasetSource(
            graphs=graphs,
            splits=splits,
            target_names=["energy"],
            unit="eV",
            kind="regression",
            node_dims=NODE_DIMS,
            label=folder.name,
        )

    return RegisteredDataset(
        str(folder),
        _load,
        "lmdb",
        options=("source", "length_unit"),
        content=files.content,
        sources=("lmdb",),
    )


RECOGNISERS.append(lmdb_dataset)


def _graphs(
    paths: Sequence[Path], options: DatasetOptions
) -> Iterator[SimpleNamespace]:
    """Graphs of LMDB files, one file after another; see `graph_of_system`."""
    every_cell = options.source == _SOURCES[1]
    for path in paths:
        with _opened(path) as entries:
            for key in _keys(entries):
                wrong = f"{path}: entry {key.decode()} cannot be read"
                with named_damage(wrong, DatasetError, keep=(MemoryError,)):
                    entry = load_pickle(entries.get(key))
                    system = system_of_entry(entry, options.length_unit)
                    check_size(len(system.pos), options.max_atoms)
                    graph = graph_of_system(system, every_cell)
                yield graph


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A transaction of lmdb that reads a file."""
    if importlib.util.find_spec("lmdb") is None:
        raise DatasetError(
            f"{path}: .lmdb needs lmdb: pip install 'graphormer-plugin[lmdb]'"
        )
    import lmdb

    with named_damage(f"{path}: is no whole LMDB file", DatasetError):
        environment = lmdb.open(str(path), subdir=False, readonly=True, lock=False)
        pages = environment.info()["last_pgno"] + 1
        if path.stat().st_size < pages * environment.stat()["psize"]:
            raise EOFError("the file is cut off")  # reading on would kill the process
    with environment, environment.begin() as entries:
        yield entries


def _keys(entries: Any) -> list[bytes]:
    """Numbers of the entries, as text, in their order. OC20's files also have ``length``."""
    keys = entries.cursor().iternext(keys=True, values=False)
    return sorted(filter(bytes.isdigit, keys), key=int)


def system_of_entry(entry: Any, length_unit: str = "") -> PeriodicSystem:
    """The system of an entry, see the module's text, its lengths in angstrom; any error if it
    does not fit, or if angstrom is doubtful where no unit is given."""
    length = LENGTH_UNITS.get(length_unit, 1.0)
    values = entry if isinstance(entry, Mapping) else vars(entry)
    if "_store" in values:  # of PyG 2
        values = vars(values["_store"])["_mapping"]
    given = {}
    for name in ("pos", "cell", "atomic_numbers", "tags", "pos_relaxed", "y_relaxed"):
        value = values.get(name)
        if value is None and not name.endswith("relaxed"):
            raise ValueError(f"it has no {name}")
        if isinstance(value, (list, tuple)):  # which may have one list many times
            raise ValueError(f"{name} is a list, expected an array")
        if value is not None:
            given[name] = as_array(value)
    pos = length * given["pos"].astype(np.float64).reshape(-1, 3)
    numbers = given["atomic_numbers"].astype(np.int64).reshape(len(pos))
    odd = (numbers < 1) | (numbers >= NUM_ELEMENTS)
    if odd.any():
        number = numbers[odd][0]
        raise ValueError(f"atomic number {number}, expected 1..{NUM_ELEMENTS - 1}")
    doubt = doubt_of_unit(likely_units([nearest_distance(numbers, pos)]))
    if doubt and not length_unit:
        raise ValueError(doubt)
    tags = given["tags"].astype(np.int64)
    relaxed = np.full_like(pos, np.nan)
    if "pos_relaxed" in given:
        relaxed = length * given["pos_relaxed"].astype(np.float64).reshape(pos.shape)
    return PeriodicSystem(
        pos,
        length * given["cell"].astype(np.float64).reshape(3, 3),
        numbers,
        (tags if tags.any() else np.ones_like(tags)).reshape(len(pos)),
        relaxed,
        float(given.get("y_relaxed", math.nan)),
    )
