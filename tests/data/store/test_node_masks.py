"""Splits of the nodes of one graph: PyG's train_mask, val_mask and test_mask."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from graphormer_plugin.data import DatasetError, DatasetSource
from graphormer_plugin.data.batches.collator import GraphCollator
from graphormer_plugin.data.batches.fields import BatchSpec
from graphormer_plugin.data.store import GraphStore, describe
from graphormer_plugin.data.store.sharded_store import ShardedStore
from graphormer_plugin.data.store.translate import translated_labels
from graphormer_plugin.pyg import GraphLoss, build_model, graph_loader
from graphormer_plugin.tasks._dataset import dataset_of_split
from support.stores import store_of

MASKS = {"train": "train_mask", "valid": "val_mask", "test": "test_mask"}
NODES = 40


def graph(seed=0, nodes=NODES, values=False):
    """Three in eight nodes train, two are valid, two test, one in no mask; some of each
    have no label."""
    rng = np.random.default_rng(seed)
    ends = torch.from_numpy(rng.integers(0, nodes, (2, 3 * nodes)))
    y = torch.from_numpy(rng.integers(-1, 4, nodes))
    if values:
        y = torch.where(y < 0, torch.nan, y.double() + torch.arange(nodes))
    part = torch.arange(nodes) % 8
    part = torch.tensor([0, 0, 0, 1, 1, 2, 2, 3])[part]
    masks = {name: part == number for number, name in enumerate(MASKS.values())}
    x = torch.from_numpy(rng.integers(0, 5, (nodes, 3)))
    return Data(x=x, edge_index=torch.cat([ends, ends.flip(0)], 1), y=y, **masks)


def prepared(graphs, kind="multiclass", split="", **more):
    """The store of graphs whose nodes have labels."""
    source = DatasetSource(graphs=graphs, level="node", kind=kind, **more)
    return store_of(source, split=split)


def labels_of(store, split):
    spec = BatchSpec(frozenset({"x"}))
    kinds = {"level": store.targets.level, "num_bond_types": 1, "spec": spec}
    collator = GraphCollator(store.columns, store.target, **kinds)
    dataset = dataset_of_split(store, split, collator, name="masked")
    return dataset.collater(list(range(len(dataset))))["target"].squeeze(-1)


def test_one_graph_is_stored_once():
    data = graph()
    store = prepared([data])
    assert len(store) == 1 and len(store.columns["x"]) == NODES
    splits = {name: ids.tolist() for name, ids in store.splits.items()}
    assert splits == dict.fromkeys(MASKS, [0])
    for split, mask in MASKS.items():
        expected = torch.where(data[mask], data.y, -1)
        assert torch.equal(labels_of(store, split), expected[None])
    text = "1 train / 1 valid / 1 test graphs, labels of 15 / 10 / 10 nodes, target y"
    assert text in describe(store)
    assert GraphStore.open(store.path, verify=True).targets == store.targets


def test_several_graphs():
    """Some without nodes in a split."""
    graphs = [graph(0), graph(1, 2), graph(2, 9), *(graph(n, 20) for n in range(300))]
    store = prepared(graphs)
    assert store.splits["valid"].tolist() == [0, *range(2, 303)]
    assert store.splits["train"].tolist() == list(range(303))
    labels = labels_of(store, "valid")
    rows = sorted(row[row >= 0].tolist() for row in labels)
    expected = [torch.where(g.val_mask, g.y, -1) for g in graphs if g.num_nodes > 2]
    assert rows == sorted(row[row >= 0].tolist() for row in expected)


def test_several_targets_of_several_graphs_in_two_stores():
    """Statistics and labels are those of the masks, as of one store."""
    graphs = [graph(seed, values=True) for seed in range(4)]
    for data in graphs:
        data.y = torch.stack([data.y, 100 - data.y.flip(0)], 1)
    whole = prepared(graphs, kind="regression")
    parts = [prepared(graphs[i : i + 2], kind="regression") for i in (0, 2)]
    both = ShardedStore(parts)
    train = torch.cat([data.y[data.train_mask] for data in graphs]).numpy()
    assert whole.targets.mean == pytest.approx(np.nanmean(train, 0))
    assert both.targets.mean == pytest.approx(whole.targets.mean)
    assert both.targets.std == pytest.approx(whole.targets.std)
    model = build_model("gt_sbm", graphs, level="node", kind="regression")
    assert model.targets.mean == whole.targets.mean
    labels = translated_labels(both, both.targets, "both", "train")
    assert labels == pytest.approx(train, nan_ok=True)
    for data, labels in zip(graphs, labels_of(whole, "valid"), strict=True):
        expected = data.y.where(data.val_mask[:, None], torch.nan)
        torch.testing.assert_close(labels, expected, equal_nan=True)


def test_other_labels_are_not_learned():
    """Loss and gradients are those of a graph without the labels of other splits."""
    torch.manual_seed(0)
    data, alone = graph(), graph()
    alone.y = torch.where(alone.train_mask, alone.y, -1)
    sizes = {"encoder_layers": 2, "dropout": 0.0}
    model = build_model("gt_sbm", [data], level="node", node_encodings="none", **sizes)
    gradients = []
    for loader in (
        graph_loader([data], model, split="train"),
        graph_loader([alone], model),
        graph_loader([data], model),
    ):
        ((batch, target),) = loader
        model.zero_grad()
        GraphLoss(model.targets)(model(batch), target).backward()
        gradients.append(torch.cat([w.grad.flatten() for w in model.parameters()]))
    assert torch.equal(gradients[0], gradients[1])
    assert not torch.allclose(gradients[0], gradients[2])


def test_a_split_without_labels(caplog):
    graphs = [graph(n) for n in range(3)]
    graphs[2].y = torch.full_like(graphs[2].y, -1)
    store = prepared(graphs, splits={"train": [0], "valid": [1], "test": [2]})
    labels_of(store, "valid")
    assert "has no labels" not in caplog.text
    labels_of(store, "test")
    assert "split 'test' of masked has no labels: its metrics are" in caplog.text


def test_splits_of_graphs_come_first():
    graphs = [graph(n) for n in range(4)]
    rows = {"train": [0, 1], "valid": [2], "test": [3]}
    for store in (prepared(graphs, splits=rows), prepared(graphs, split="random")):
        assert "node_split" not in store.columns
        assert (labels_of(store, "valid") >= 0).sum() > NODES / 2


@pytest.mark.parametrize(
    "change, message",
    [
        ({"val_mask": torch.ones(NODES, 10).bool()}, r"val_mask has shape \[40, 10\]"),
        ({"test_mask": torch.arange(5)}, r"test_mask has shape \[5\] and dtype int64"),
        ({"val_mask": graph().train_mask}, "node 0 of val_mask is in another mask"),
        ({"train_mask": None}, "train_mask has no values, but graph 0 has 1 column"),
        ({"y": graph().y.double()}, r"classes \[40\] of nodes, -1 for no label"),
    ],
)
def test_wrong_masks(change, message):
    wrong = graph()
    for name, value in change.items():
        wrong[name] = value
    with pytest.raises(DatasetError, match=message):
        prepared([graph(), wrong])


def test_a_single_graph_without_masks():
    alone = graph()
    del alone.train_mask
    with pytest.raises(DatasetError, match="no splits; .* and no --split"):
        prepared([alone])


def test_loader_without_masks():
    data = graph()
    model = build_model("gt_sbm", [data], level="node", encoder_layers=1)
    with pytest.raises(ValueError, match="split 'val', expected"):
        graph_loader([data], model, split="val")
    del data.train_mask
    with pytest.raises(ValueError, match="the graphs have no train_mask"):
        graph_loader([data], model, split="valid")
