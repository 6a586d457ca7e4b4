"""Data in the vocabulary of a checkpoint."""

import logging

import numpy as np
import pytest

from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.store.translate import (
    translate_bonds,
    translate_columns,
    translate_stores,
    translate_target,
)
from graphormer_plugin.data.targets import TargetSchema
from support.stores import make_chunk, write


def test_bond_types_of_tables_are_translated():
    dims = [17, 17]  # 289 combinations need a table
    source = FeatureSchema(1, [2], dims, [[0, 5], [3, 3], [16, 0]])
    target = FeatureSchema(1, [2], dims, [[3, 3], [7, 7], [0, 5]])
    columns = {
        "edge_offset": np.array([0, 4, 5]),
        "edge_src": np.array([0, 0, 0, 1, 0], dtype=np.uint8),
        "edge_dst": np.array([1, 1, 2, 0, 0], dtype=np.uint8),
        "edge_bond": np.array([1, 2, 3, 4, 1], dtype=np.uint8),
    }
    new = translate_bonds(columns, source, target)
    # [0, 5] is 3 there, [3, 3] is 1; [16, 0] and UNKNOWN become UNKNOWN, 4.
    assert new["edge_bond"].tolist() == [1, 3, 4, 4, 3]
    assert new["edge_dst"].tolist() == [1, 1, 2, 0, 0]
    with pytest.raises(ValueError, match=r"bond columns \[17, 17\].*\[5, 6\]"):
        translate_bonds(columns, source, FeatureSchema(1, [2], [5, 6]))


def test_other_nodes_are_refused(tmp_path):
    store = labelled(tmp_path, [[0.5], [7], [1], [2]])
    with pytest.raises(ValueError, match=r"node_dims .*trained on \[9\]"):
        translate_columns(store, FeatureSchema(1, [9]), "d")


def labelled(tmp_path, target, **options):
    """Four graphs of two nodes, which have these labels."""
    ends = np.tile([[0, 1], [1, 0]], (1, 4))
    chunk = make_chunk([2] * 4, [2] * 4, ends, target=np.array(target))
    options |= {"splits": {"train": [0, 1], "valid": [2], "test": [3]}}
    options = {"target_names": ["y"], "unit": "", **options}
    return write(tmp_path / "store", chunk, **options)


BINARY, CLASSES = {"kind": "binary"}, {"kind": "multiclass", "num_classes": 3}
NODES = {**CLASSES, "level": "node"}


@pytest.mark.parametrize(
    "target, kind, schema, message",
    [
        ([[0.5], [7], [1], [2]], "regression", BINARY, "regression, .* bin"),
        ([[0.0], [1], [1], [2]], "multiclass", NODES, "level .* graph, .* on node"),
        ([[0.0], [7], [np.nan], [2]], "multiclass", CLASSES, "label 1 of y .* 0..2"),
        ([[0], [7], [-1], [2]] * 2, "multiclass", NODES, "label 1 of y is 7"),
    ],
)
def test_other_targets_are_refused(tmp_path, target, kind, schema, message):
    level = schema["level"] if len(target) == 8 else "graph"
    store = labelled(tmp_path, target, kind=kind, level=level)
    with pytest.raises(ValueError, match=f"^d.*{message}"):
        translate_target(store, TargetSchema.of(["y"], **schema), "d")


def test_fewer_labels_than_classes(tmp_path):
    store = labelled(tmp_path, [[0.0], [2], [np.nan], [1]], kind="multiclass")
    for classes in (3, 5):
        schema = TargetSchema.of(["y"], kind="multiclass", num_classes=classes)
        found = translate_target(store, schema, "d")
        np.testing.assert_array_equal(found, store.target)


def test_words_of_nodes(tmp_path):
    named = {"kind": "multiclass", "class_names": [["a", "b"]], "level": "node"}
    store = labelled(tmp_path, [[0], [1], [-1], [1]] * 2, **named)
    words = ["c"] * 200 + ["b", "a"]  # more than the integers of the store hold
    schema = TargetSchema.of(["y"], "", "multiclass", "node").with_classes([words])
    expected = [[201], [200], [-1], [200]] * 2
    assert translate_target(store, schema, "d").tolist() == expected
    assert store.target.tolist() == [[0], [1], [-1], [1]] * 2


@pytest.mark.parametrize("unit, warned", [("eV", True), ("meV", False), ("", False)])
def test_another_unit(tmp_path, caplog, unit, warned):
    store = labelled(tmp_path, [[0.0], [7], [1], [2]], unit="meV")
    with caplog.at_level(logging.WARNING):
        translate_stores(store, store.schema, TargetSchema.of(["y"], unit), "d")
    warning = "d has targets in meV; the checkpoint predicts eV"
    assert [warning] * warned == [record.message for record in caplog.records]
