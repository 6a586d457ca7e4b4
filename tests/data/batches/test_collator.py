"""Samples as fairseq gets them."""

import numpy as np
import pytest
import torch

from graphormer_plugin.data.batches.collator import GraphCollator
from graphormer_plugin.data.batches.fields import BatchSpec
from graphormer_plugin.data.columns import Level

# A path of 3 nodes, one node without edges, a pair of nodes.
COLUMNS = {
    "node_offset": np.array([0, 3, 4, 6]),
    "edge_offset": np.array([0, 4, 4, 6]),
    "x": np.array([[5], [6], [7], [8], [1], [2]], dtype=np.uint8),
    "edge_src": np.array([0, 1, 1, 2, 0, 1], dtype=np.uint8),
    "edge_dst": np.array([1, 0, 2, 1, 1, 0], dtype=np.uint8),
    "edge_bond": np.array([1, 1, 2, 2, 3, 3], dtype=np.uint8),
}
TARGET = np.array([[70000.0, np.nan], [1.5, 2.0], [2049.0, 4.0]], dtype=np.float32)
for array in (*COLUMNS.values(), TARGET):
    array.flags.writeable = False  # as memory maps are


def collator(fields="x node_mask bond", columns=None, target=TARGET, **options):
    more = {name: options.pop(name) for name in {"max_nodes", "level"} & options.keys()}
    spec = BatchSpec(frozenset(fields.split()), max_hop=3, **options)
    columns = COLUMNS | (columns or {})
    return GraphCollator(columns, target, num_bond_types=3, spec=spec, **more)


def test_sample():
    sample = collator()(np.array([2, 0]))
    assert sample["id"].tolist() == [2, 0]
    assert sample["nsamples"] == 2
    assert sample["ntokens"] == 5
    batch = sample["net_input"]["batch"]
    assert set(batch) == {"x", "node_mask", "bond"}
    assert batch["x"].squeeze(-1).tolist() == [[1, 2, 0], [5, 6, 7]]
    assert batch["node_mask"].tolist() == [[True, True, False], [True, True, True]]
    assert batch["bond"].tolist() == [
        [[0, 3, 0], [3, 0, 0], [0, 0, 0]],
        [[0, 1, 0], [1, 0, 2], [0, 2, 0]],
    ]


def test_target_survives_fp16_and_keeps_missing_values():
    target = collator()(np.array([0, 1, 2]))["target"]
    assert target.dtype == torch.float64  # fairseq's --fp16 halves float32 only
    expected = torch.tensor([[70000.0, np.nan], [1.5, 2.0], [2049.0, 4.0]]).double()
    torch.testing.assert_close(target, expected, equal_nan=True)


def test_values_of_nodes():
    """NaN at padding, and where a value is missing."""
    values = np.array([1.5, np.nan, 70000, 2, -1, 4], dtype=np.float32)
    build = collator("x", target=values[:, None], level=Level.NODE)
    target = build(np.array([2, 0]))["target"]
    assert target.dtype == torch.float64
    nan = float("nan")
    expected = torch.tensor([[[-1], [4], [nan]], [[1.5], [nan], [70000]]]).double()
    torch.testing.assert_close(target, expected, equal_nan=True)


def test_numbers_of_edges():
    """In the batch, from 1, in the order of edge_attr."""
    attr = np.arange(12, dtype=np.float32).reshape(6, 2)
    fields, more = "bond path_bond edge_attr edge_index edge_bond", {"edge_attr": attr}
    build = collator(fields, more, number_edges=True, path_length=2)
    batch = build(np.array([2, 0]))["net_input"]["batch"]
    assert batch["edge_attr"].tolist() == attr[[4, 5, 0, 1, 2, 3]].tolist()
    assert batch["edge_attr"].dtype == torch.float64
    bond = batch["bond"].tolist()
    assert bond[0] == [[0, 1, 0], [2, 0, 0], [0, 0, 0]]
    assert bond[1] == [[0, 3, 0], [4, 0, 5], [0, 6, 0]]
    assert batch["path_bond"][1, 0, 2].tolist() == [3, 5]
    assert batch["path_bond"][1, 2, 0].tolist() == [6, 4]
    assert batch["path_bond"][0, 1, 2].tolist() == [0, 0]


@pytest.mark.parametrize("name", ["pos", "x"])
def test_positions_and_features_survive_fp16(name):
    values = np.linspace(0, 99999.9, 18, dtype=np.float32).reshape(6, 3)
    found = collator(name, {name: values})(np.array([0]))["net_input"]["batch"][name]
    assert found.dtype == torch.float64
    assert np.array_equal(found[0], values[:3])


def test_only_what_the_model_needs_is_built():
    spec = BatchSpec(frozenset({"x", "relation_index", "relations"}), max_hop=2)
    shared = collator()
    shared.spec = spec
    batch = shared(np.array([0]))["net_input"]["batch"]
    assert set(batch) == {"x", "relation_index", "relations"}
    assert batch["relation_index"].dtype == torch.uint8


def test_filler_of_uneven_shards_is_an_empty_sample():
    assert collator()(np.array([], dtype=np.int64)) == {}


def test_errors_name_the_graph():
    with pytest.raises(ValueError, match="graph 0.*3 nodes"):
        collator(max_nodes=2)(np.array([1, 0]))


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_same_batches_from_forked_workers(workers):
    build = collator()
    loader = torch.utils.data.DataLoader(
        range(3),
        batch_sampler=[[0, 1], [2], [2, 1, 0]],
        collate_fn=lambda graph_ids: build(np.array(graph_ids)),
        num_workers=workers,
    )
    samples = list(loader)
    assert [s["id"].tolist() for s in samples] == [[0, 1], [2], [2, 1, 0]]
    expected = build(np.array([2, 1, 0]))["net_input"]["batch"]
    found = samples[2]["net_input"]["batch"]
    assert expected and found.keys() == expected.keys()
    for name, tensor in found.items():
        assert torch.equal(tensor, expected[name])


def test_classes_of_nodes():
    labels = np.array([1, 0, 2, 1, -1, 2], dtype=np.int8)
    build = collator("node_mask", target=labels[:, None], level=Level.NODE)
    sample = build(np.array([2, 0, 1]))
    assert sample["target"].dtype == torch.int64
    assert sample["target"].shape == (3, 3, 1)
    assert sample["target"][..., 0].tolist() == [[-1, 2, -1], [1, 0, 2], [1, -1, -1]]
    assert sample["ntokens"] == 6
