"""Batch fields that are expensive: computed once per store and kept in a folder beside it.

Each of `CACHED_FIELDS` is a function of the graphs alone. `load_or_compute` keeps its
arrays beside the store, memory-mapped. `compute_columns` computes them in memory, for
graphs without a store. Both compute only the fields of a `BatchSpec`.
"""

import contextlib
import errno
import json
import logging
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cython_ext.columns import RING_COLUMNS
from graphormer_plugin.data.batches.fields import BatchSpec
from graphormer_plugin.data.batches.fields.laplacian import laplacian_eigenvectors
from graphormer_plugin.data.batches.fields.rings import substructure_sets, substructures
from graphormer_plugin.data.batches.fields.weisfeiler_lehman import wl_roles
from graphormer_plugin.data.columns import Columns
from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.files import (
    atomic_write,
    file_lock,
    npy_header,
    read_text,
    write_text,
)
from graphormer_plugin.data.store import GraphStore

logger = logging.getLogger(__name__)

_RECORD = "record.json"


@dataclass(frozen=True)
class CachedField:
    """How the columns of a batch field are computed.

    Attributes:
        key: spec -> name of their folder: the field and every parameter that they
            depend on.
        columns: names of the columns.
        compute: columns of a store, spec, label of a progress bar or None -> arrays by
            column name.
        version: spec -> hash of the code of a user that `compute` calls; after a change the
            columns are computed again.
    """

    key: Callable[[BatchSpec], str]
    columns: tuple[str, ...]
    compute: Callable[[Columns, BatchSpec, str | None], Columns]
    version: Callable[[BatchSpec], str] = lambda spec: ""


CACHED_FIELDS: dict[str, CachedField] = {
    "lap_pe": CachedField(
        key=lambda spec: f"lap_pe{spec.lap_pe_dim}",
        columns=("lap_pe",),
        compute=lambda columns, spec, progress: {
            "lap_pe": laplacian_eigenvectors(columns, spec.lap_pe_dim, progress)
        },
    ),
    "ring": CachedField(
        key=lambda spec: f"{spec.substructures}.{spec.max_ring_size}",
        columns=RING_COLUMNS,
        compute=lambda columns, spec, progress: substructure_sets(
            columns, spec.substructures, spec.max_ring_size, progress
        ),
        version=lambda spec: substructures(spec.substructures).code,
    ),
    "wl_role": CachedField(
        key=lambda spec: "wl_role",
        columns=("wl_role",),
        compute=lambda columns, spec, progress: {
            "wl_role": wl_roles(columns, progress)
        },
    ),
}


def compute_columns(columns: Columns, spec: BatchSpec) -> Columns:
    """Compute in memory the columns that the fields of `spec` need besides `columns`."""
    _check_columns(columns, spec)
    made = {}
    for cached in _cached_fields(spec):
        made |= cached.compute(columns, spec, None)
    return made


def _cached_fields(spec: BatchSpec) -> dict[CachedField, str]:
    """What is computed for a spec, and a field of it each: a field that brings edges has two."""
    return {
        CACHED_FIELDS[name]: name for name in sorted(spec.fields & CACHED_FIELDS.keys())
    }


def load_or_compute(store: GraphStore, spec: BatchSpec) -> Columns:
    """`compute_columns` of a store, computed once and memory-mapped afterwards.

    They lie beside the store in ``<store>.<key>/``, a ``.npy`` per column, with a record of
    what they were made from; with another record they are computed again. If several
    processes ask at once, the first computes and the others wait. Where this user cannot
    write, each process computes them in memory, with a warning.
    """
    _check_columns(store.columns, spec)
    made = {}
    for cached, field in _cached_fields(spec).items():
        folder = store.path.with_name(f"{store.path.name}.{cached.key(spec)}")
        # Fingerprint of the files: graphs do not depend on splits.
        record = {"fingerprint": store.manifest["fingerprint"]}
        record["version"] = cached.version(spec)
        # Without the lock, which needs a folder that can be written, and one at a time.
        on_disk = _kept(folder, cached, record)
        made |= on_disk or _computed(folder, store, field, spec, record)
    return made


def _check_columns(columns: Columns, spec: BatchSpec) -> None:
    """DatasetError for a model of positions without them, and for two edges with the same ends,
    if it needs distinct ones. They are neighbours in the order of the columns."""
    if "pos" in spec.fields and "pos" not in columns:
        raise DatasetError(
            "the model reads positions of atoms, which these graphs do not have; prepare "
            "them with --positions file or rdkit, or give graphs with pos"
        )
    if not spec.distinct_edges:
        return
    source = columns["edge_src"]
    target = columns["edge_dst"]
    offset = columns["edge_offset"]
    twice = (source[1:] == source[:-1]) & (target[1:] == target[:-1])
    first = offset[(offset > 0) & (offset < len(source))]
    twice[first - 1] = False  # edges of two graphs
    if twice.any():
        edge = int(twice.argmax())
        graph = int(np.searchsorted(offset, edge, side="right")) - 1
        raise DatasetError(
            f"graph {graph}: two edges from node {source[edge]} to node {target[edge]}; "
            "this architecture reads real features of distinct edges only, unlike gt_zinc "
            "or gine"
        )


def _computed(
    folder: Path, store: GraphStore, field: str, spec: BatchSpec, record: dict[str, str]
) -> Columns:
    """The columns of a field, kept in a folder if that can be written."""
    cached = CACHED_FIELDS[field]
    label = f"{store.manifest['dataset']}: {field}"
    arrays = None
    try:
        with file_lock(folder):
            if on_disk := _kept(folder, cached, record):
                return on_disk
            arrays = cached.compute(store.columns, spec, label)
            _write(folder, arrays, record)
            return _mapped(folder, cached)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        logger.warning(
            "cannot keep %s in %s (%s): each start computes it in memory; name another "
            "folder with --data-root to keep it",
            field,
            folder.parent,
            error.strerror or error,
        )
    return cached.compute(store.columns, spec, label) if arrays is None else arrays


def _mapped(folder: Path, cached: CachedField) -> Columns:
    return {
        name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        for name in cached.columns
    }


def _kept(folder: Path, cached: CachedField, record: dict[str, str]) -> Columns | None:
    """The columns of a folder; None without them, and with another record."""
    try:
        current = json.loads(read_text(folder / _RECORD)) == record
        return _mapped(folder, cached) if current else None
    except (OSError, ValueError):
        return None


def _write(folder: Path, arrays: Columns, record: dict[str, str]) -> None:
    """Write a folder as a whole; the caller holds the lock."""
    temporary = folder.with_name(f".tmp-{folder.name}")
    for leftover in (temporary, folder):
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(leftover)
    temporary.mkdir()
    try:
        for name, array in arrays.items():
            path = temporary / f"{name}.npy"
            with atomic_write(path) as file:  # np.save does not say that a disk is full
                file.write(npy_header(array.dtype, array.shape))
                file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
        write_text(temporary / _RECORD, json.dumps(record))
        os.replace(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
