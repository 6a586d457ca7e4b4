"""Words as class labels, and salts. Orders that nobody knows are in tests/test_refusals.py."""

import numpy as np
import pytest

from graphormer_plugin.data import TargetSchema
from graphormer_plugin.data.store.translate import translate_target
from graphormer_plugin.data.tables.class_names import check_numbers, class_order
from graphormer_plugin.data.targets import Kind

WORDS = ["inactive", "active", "", "active", "inactive"] * 4
BINARY = {"target_kind": "binary"}


@pytest.mark.parametrize(
    "words, kind, asked, expected",
    [
        (["active", "inactive"], "binary", [], ["inactive", "active"]),
        (["Yes", "No"], "binary", [], ["No", "Yes"]),
        (["non-toxic", "toxic"], "binary", [], ["non-toxic", "toxic"]),
        (["not blocked", "blocked"], "binary", [], ["not blocked", "blocked"]),
        (["low", "high"], "binary", ["low", "high"], ["low", "high"]),
        (["high"], "binary", ["low", "high"], ["low", "high"]),
        (["low", "mid", "high"], "multiclass", [], ["high", "low", "mid"]),
        (["low", "high"], "multiclass", ["low", "mid", "high"], ["low", "mid", "high"]),
        (["low", "Low"], "multiclass", ["low", "Low"], ["low", "Low"]),
    ],
)
def test_order(words, kind, asked, expected):
    assert class_order(words, Kind(kind), asked) == expected


def test_numbers():
    """A class or two may have no label here; a code for missing labels is no class."""
    for labels in ([], [np.nan], [1], [0, 1, np.nan, 3], [3, 4, 5], [9]):
        check_numbers(np.array(labels, float))
    for labels in ([0, 4], [0, 1, 6], [4, 5, 6]):
        with pytest.raises(ValueError, match=f"class {labels[-1]}, but only "):
            check_numbers(np.array(labels, float))


def test_words_of_a_binary_target(prepared):
    rows = [f"{'C' * n},{word},{n % 2}" for n, word in enumerate(WORDS, 1)]
    store = prepared("smiles,hit,other", rows, target_columns="hit,other", **BINARY)
    assert store.targets.class_names == [["inactive", "active"], []]
    assert store.targets.mean == []
    labels = {"inactive": 0.0, "active": 1.0}
    expected = [labels.get(word, np.nan) for word in WORDS]
    np.testing.assert_array_equal(store.target[:, 0], expected)
    assert TargetSchema.of(**store.targets.to_dict()) == store.targets


def test_words_of_several_classes(prepared):
    words = ["low", "high", "mid", "low"] * 5
    rows = [f"{'C' * n},{word}" for n, word in enumerate(words, 1)]
    store = prepared("smiles,y", rows, target_kind="multiclass")
    assert store.targets.class_names == [["high", "low", "mid"]]
    assert store.targets.num_classes == 3
    assert store.target[:4, 0].tolist() == [1, 0, 2, 1]
    # A checkpoint with another order gets the labels in its own.
    other = TargetSchema.of(["y"], "", "multiclass", num_classes=3)
    other = other.with_classes([["low", "mid", "high"]])
    assert translate_target(store, other, "data")[:4, 0].tolist() == [0, 2, 1, 0]
    fewer = TargetSchema.of(["y"], "", "multiclass").with_classes([["low", "high"]])
    with pytest.raises(ValueError, match="class 'mid' of y; the checkpoint predicts"):
        translate_target(store, fewer, "data")


@pytest.mark.parametrize("names", ["none,weak", "weak,none,nan"])
def test_a_name_is_no_missing_cell(prepared, names):
    words = ["none", "weak", ""] * 5
    rows = [f"{'C' * n},{word}" for n, word in enumerate(words, 1)]
    changes = {"target_kind": "multiclass", "class_names": names}
    found = prepared("smiles,y", rows, **changes).target[:3, 0]
    order = names.split(",")
    expected = [order.index("none"), order.index("weak"), np.nan]
    np.testing.assert_array_equal(found, expected)


def test_numbers_have_the_schema_they_had():
    assert "class_names" not in TargetSchema.of(["y"]).to_dict()


def test_largest_fragment(prepared):
    acids = [f"{'C' * n}C(=O)[O-]" for n in range(1, 11)]
    rows = [f"[Na+].O.{s},1" for s in acids]
    salts = prepared("smiles,y", rows, largest_fragment=True)
    plain = prepared("smiles,y", [f"{s},1" for s in acids])
    assert salts.featuriser == "ogb_largest_fragment" and plain.featuriser == "ogb"
    for name in ("x", "edge_src", "edge_dst", "edge_bond", "node_offset"):
        np.testing.assert_array_equal(salts.columns[name], plain.columns[name])
