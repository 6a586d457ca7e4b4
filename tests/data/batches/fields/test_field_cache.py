"""Columns beside a store: made once, checked, made anew when they do not fit."""

import errno
import os

import numpy as np
import pytest

from graphormer_plugin.data import BatchSpec, GraphStore, get_store
from graphormer_plugin.data.batches.fields import field_cache
from graphormer_plugin.data.batches.fields.field_cache import (
    compute_columns,
    load_or_compute,
)

LOCKS = {".lock"}  # files that may stay


def eigenvectors(k):
    return BatchSpec(frozenset({"lap_pe"}), lap_pe_dim=k)


@pytest.fixture
def store(rings):
    return get_store(rings())


def test_only_what_is_asked_for(store):
    spec = BatchSpec(frozenset({"x", "dist"}))
    before = sorted(store.path.parent.iterdir())
    assert compute_columns(store.columns, spec) == load_or_compute(store, spec) == {}
    assert sorted(store.path.parent.iterdir()) == before


@pytest.fixture
def calls(monkeypatch):
    """Counts the computations."""
    made = []

    def counted(columns, k, progress):
        made.append(k)
        return compute(columns, k, progress)

    compute = field_cache.laplacian_eigenvectors
    monkeypatch.setattr(field_cache, "laplacian_eigenvectors", counted)
    return made


def test_made_once(store, calls):
    expected = compute_columns(store.columns, eigenvectors(3))
    for _ in range(2):
        found = load_or_compute(store, eigenvectors(3))
        assert found.keys() == {"lap_pe"} and isinstance(found["lap_pe"], np.memmap)
        assert np.array_equal(found["lap_pe"], expected["lap_pe"])
    assert calls == [3, 3]  # in memory, and in the store
    assert load_or_compute(store, eigenvectors(4))["lap_pe"].shape[1] == 4
    assert load_or_compute(store, eigenvectors(3))["lap_pe"].shape[1] == 3
    assert calls == [3, 3, 4]


@pytest.mark.parametrize("function", ["file_lock", "_write"])
@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_read_only_folder(store, calls, monkeypatch, caplog, function, code):
    """What fits is read without a word, what does not is computed in memory, once."""

    def refuse(path, *_):
        raise OSError(code, os.strerror(code), str(path))

    made = (compute_columns(store.columns, eigenvectors(k)) for k in (3, 4))
    expected = [columns["lap_pe"] for columns in made]
    load_or_compute(store, eigenvectors(3))
    before = sorted(store.path.parent.rglob("*"))
    monkeypatch.setattr(field_cache, function, refuse)
    calls.clear()
    found = load_or_compute(store, eigenvectors(3))["lap_pe"]
    assert np.array_equal(found, expected[0]) and not (calls or caplog.messages)
    found = load_or_compute(store, eigenvectors(4))["lap_pe"]
    assert np.array_equal(found, expected[1]) and calls == [4]
    assert caplog.messages == [
        f"cannot keep lap_pe in {store.path.parent} ({os.strerror(code)}): each start "
        "computes it in memory; name another folder with --data-root to keep it"
    ]
    left = {path for path in store.path.parent.rglob("*") if path not in before}
    assert {path.suffix for path in left} <= LOCKS


@pytest.mark.parametrize("function", ["laplacian_eigenvectors", "npy_header"])
def test_no_file_appears_when_it_fails(store, monkeypatch, function):
    """In the computation, or while a column is written."""

    def fail(*_):
        raise OSError("not today")

    before = sorted(store.path.parent.iterdir())
    with monkeypatch.context() as patch:
        patch.setattr(field_cache, function, fail)
        with pytest.raises(OSError, match="today"):
            load_or_compute(store, eigenvectors(2))
    assert {p.suffix for p in store.path.parent.iterdir() if p not in before} <= LOCKS
    expected = compute_columns(store.columns, eigenvectors(2))
    found = load_or_compute(store, eigenvectors(2))
    assert np.array_equal(found["lap_pe"], expected["lap_pe"])


@pytest.mark.parametrize("damage", ["cut", "foreign", "killed"])
def test_what_does_not_fit_is_made_anew(store, calls, damage):
    expected = load_or_compute(store, eigenvectors(2))["lap_pe"].copy()
    folder = store.path.with_name(f"{store.path.name}.lap_pe2")
    path, record = folder / "lap_pe.npy", folder / "record.json"
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-8])
    elif damage == "foreign":
        record.write_text(record.read_text().replace(store.fingerprint, "0" * 64))
    else:  # before the last step
        folder.rename(folder.with_name(f".tmp-{folder.name}"))
    for _ in range(2):
        found = load_or_compute(GraphStore.open(store.path), eigenvectors(2))
        assert np.array_equal(found["lap_pe"], expected)
    assert calls == [2, 2]
    assert not folder.with_name(f".tmp-{folder.name}").exists()
