"""Stores with wrong content and right checksums, and stores of newer versions."""

import numpy as np
import pytest

from graphormer_plugin.data import StoreError, describe
from graphormer_plugin.data.errors import NewerStoreError
from graphormer_plugin.data.store import FORMAT_VERSION, GraphStore
from graphormer_plugin.data.store.build import get_store
from graphormer_plugin.data.store.writer import StoreWriter
from support.stores import DAMAGES, column, entry, manifest, random_chunk, write


@pytest.mark.parametrize("name", DAMAGES)
def test_wrong_content_is_one_line(name, tmp_path, rng):
    path = tmp_path / "s"
    write(path, random_chunk(rng), bond_dims=[5, 6, 2])
    DAMAGES[name](path)
    with pytest.raises(StoreError) as caught:
        describe(GraphStore.open(path))
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_wrong_weights_are_found(tmp_path, rng):
    path = tmp_path / "s"
    write(path, random_chunk(rng), weights=np.ones(6))
    column("weight", entry(0, -1))(path)
    with pytest.raises(StoreError, match="weight 0 is -1.0, expected"):
        GraphStore.open(path)


def test_a_newer_store_is_refused_and_stays(rings):
    path = get_store(rings()).path
    manifest(lambda m: m.update(version=FORMAT_VERSION + 1))(path)
    before = {file: file.read_bytes() for file in path.iterdir()}
    for options in ({}, {"rebuild": True}):
        with pytest.raises(NewerStoreError, match=f"{path}: .* newer version"):
            get_store(rings(**options))
    with pytest.raises(NewerStoreError, match="newer version"):
        with StoreWriter(path):
            pass
    assert before == {file: file.read_bytes() for file in path.iterdir()}
    assert rings.builds() == 1
    assert not list(path.parent.glob(".tmp-*"))
