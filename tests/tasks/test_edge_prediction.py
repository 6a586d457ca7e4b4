"""Labels of edges and of pairs of nodes: stores, models, negatives and links. Trainings on
labels of edges are in test_nodes_and_edges.py."""

import random

import numpy as np
import pytest
import torch
from fairseq.logging import metrics
from fairseq_cli import train as fairseq_train
from fairseq_cli import validate as fairseq_validate
from torch_geometric.data import Data
from torch_geometric.transforms import RandomLinkSplit
from torch_geometric.utils import to_undirected

from graphormer_plugin import hub
from graphormer_plugin.criterions.metrics import LINK_METRICS
from graphormer_plugin.data import DATASETS, DatasetSource
from graphormer_plugin.data.batches.fields import BatchSpec
from graphormer_plugin.pyg import GraphLoss, build_model, graph_loader
from graphormer_plugin.tasks.edge_prediction import (
    EdgePredictionConfig,
    EdgePredictionTask,
)
from support import tables
from support.stores import store_of
from support.training import TINY, USER_DIR, logged, run, train_several


@pytest.fixture(autouse=True)
def forget():
    yield
    DATASETS.pop("links", None)


def triangle(level="edge", **changes):
    """Three edges in an order that no store has; at link level two links."""
    values = {
        "x": torch.arange(3)[:, None],
        "edge_index": torch.tensor([[2, 0, 1], [0, 1, 2]]),
        "y": torch.tensor([20.0, 1.0, 12.0]),
    }
    return Data(**values | changes)


def test_store_has_edges_in_the_order_of_the_source():
    lone = triangle(
        x=torch.zeros(1, 1, dtype=torch.long),
        edge_index=torch.zeros(2, 0, dtype=torch.long),
        y=torch.zeros(0),
    )
    graphs = [triangle(), lone, triangle(y=torch.tensor([5.0, torch.nan, 6.0]))] * 4
    splits = {"train": [0, 1, 2], "valid": [3, 4, 5], "test": [6]}
    source = DatasetSource(graphs, splits=splits, kind="regression", level="edge")
    store = store_of(source)
    labels = store.labels(np.array([2, 1, 0])).T
    np.testing.assert_array_equal(labels, [[5, np.nan, 6, 20, 1, 12]])
    ends = store.edge_label_index(np.array([1, 0]))
    assert ends.dtype == np.int64 and ends.tolist() == [[2, 0], [0, 1], [1, 2]]
    assert store.label_counts[:3].tolist() == [3, 0, 3]
    train = [20, 1, 12, 5, 6]
    assert store.targets.mean == pytest.approx([np.mean(train)])
    assert store.targets.std == pytest.approx([np.std(train)])


def test_batches_and_models_of_pyg():
    """Labels and outputs have the order of the edges of `Data`, and equal predictions."""
    torch.manual_seed(0)
    graphs = [triangle(), triangle(y=torch.tensor([5.0, torch.nan, 6.0]))]
    model = build_model("gt_zinc", graphs, level="edge", kind="regression").eval()
    ((batch, target),) = graph_loader(graphs, model, batch_size=2)
    assert batch["edge_label_index"].tolist() == [[[2, 0], [0, 1], [1, 2]]] * 2
    values = [[20, 1, 12], [5, np.nan, 6]]
    assert target.tolist() == pytest.approx(np.array(values), nan_ok=True)
    assert model(batch).shape == (2, 3, 1)
    pairs = torch.tensor([[0, 0], [1, 2]])
    labels = torch.tensor([1.0, 0.0])
    linked = [triangle(edge_label_index=pairs, edge_label=labels)] * 2
    learner = build_model("gt_zinc", linked, level="link")
    loss_of = GraphLoss(learner.targets)
    optimiser = torch.optim.Adam(learner.parameters(), lr=3e-3)
    losses = []
    for _ in range(20):
        ((batch, target),) = graph_loader(linked, learner, batch_size=2)
        assert batch["edge_label_index"].tolist() == [pairs.T.tolist()] * 2
        optimiser.zero_grad()
        losses.append(loss_of(learner(batch), target))
        losses[-1].backward()
        optimiser.step()
    assert losses[-1] < 0.5 * losses[0]
    unlabelled = [triangle(y=None)] * 2
    ((_, target),) = graph_loader(unlabelled, model, batch_size=2)
    assert target.shape == (2, 3) and target.isnan().all()


LINKS = """
import random

import torch
from torch_geometric.data import Data
from torch_geometric.transforms import RandomLinkSplit

from graphormer_plugin.data import DatasetSource, register_dataset


@register_dataset("links")
def links():
    \"\"\"Graphs of two communities, whose links are split by PyG.\"\"\"
    split = RandomLinkSplit(0.2, 0.2, is_undirected=True, add_negative_train_samples=False)
    parts = ([], [], [])
    random.seed(0)  # of PyG's pairs without a link
    with torch.random.fork_rng():  # models start from the same weights the first time
        torch.manual_seed(0)
        for size in range(16, 28):
            side = torch.randint(2, (size,))
            same = side[:, None] == side
            edges = torch.triu(torch.rand(size, size) < same * 0.5, 1).nonzero().T
            edges = torch.cat([edges, edges.flip(0)], 1)
            x = (2 * torch.arange(size) + side)[:, None]
            for part, graph in zip(parts, split(Data(x=x, edge_index=edges))):
                part.append(graph)
    graphs = sum(parts, [])
    rows = torch.arange(36).view(3, 12).tolist()
    splits = dict(zip(("train", "valid", "test"), rows))
    return DatasetSource(graphs=graphs, splits=splits, target_names=["link"], level="link")
"""


def link_arguments(folder, save_dir, *more):
    (folder / "links.py").write_text(LINKS)
    words = f"""--user-dir {USER_DIR} --task edge_prediction --dataset-name links
        --user-data-dir {folder} --data-root {folder}/root --criterion link_logloss
        {TINY} --dropout 0 --attention-dropout 0 --optimizer adam --lr 2e-2 --adam-eps 1e-4
        --max-epoch 6 --required-batch-size-multiple 1 --num-workers 0 --cpu
        --best-checkpoint-metric mrr --no-epoch-checkpoints --log-format json
        --no-progress-bar --save-dir {save_dir} --prepare-workers 1"""
    return [*words.split(), *more]


LINK_NAMES = [*LINK_METRICS, "accuracy", "ap", "roc_auc"]


@pytest.mark.long
@pytest.mark.usefixtures("fresh_fairseq")
def test_links_on_one_and_two_processes(tmp_path, monkeypatch):
    """Negatives, losses and metrics do not depend on processes, nor metrics on batches."""
    one = link_arguments(tmp_path, tmp_path / "one", "--batch-size", "4")
    log = run(fairseq_train.cli_main, one, monkeypatch)
    losses = [epoch["train_loss"] for epoch in logged(log, "train")]
    valid = logged(log, "valid")
    assert losses[-1] < 0.92 * losses[0]
    assert valid[-1]["valid_roc_auc"] > 0.7
    two = link_arguments(tmp_path, tmp_path / "two", "--batch-size", "2")
    logs = train_several({"two": two}, 2, tmp_path / "runs.json")
    for tag, expected in (("train", logged(log, "train")), ("valid", valid)):
        names = ["loss", *LINK_NAMES] if tag == "valid" else ["loss"]
        for here, there in zip(logged(logs["two"], tag), expected, strict=True):
            for name in names:
                value = pytest.approx(there[f"{tag}_{name}"], rel=1e-4, abs=2e-6)
                assert here[f"{tag}_{name}"] == value, (tag, name)
    shared = f"""--user-dir {USER_DIR} --task edge_prediction --cpu --log-format json
        --path {tmp_path}/one/checkpoint_best.pt --user-data-dir {tmp_path} --num-workers 0
        --data-root {tmp_path}/root --valid-subset test --results-path {tmp_path}"""
    tests = []
    for size in (1, 8):
        words = [*shared.split(), "--batch-size", str(size)]
        log = run(fairseq_validate.cli_main, words, monkeypatch)
        tests += logged(log, "test")
    for name in ("loss", *LINK_NAMES):
        assert tests[0][f"test_{name}"] == pytest.approx(tests[1][f"test_{name}"], 1e-5)
    # The file has the pairs of the data and no drawn ones, and so have predictions.
    graphs = DATASETS["links"].function().graphs[24:]
    rows = tables.rows(tmp_path / "predictions_test.csv")
    assert list(rows[0]) == ["row", "source", "target", "link", "link_target"]
    written = [float(row["link"]) for row in rows]
    for number, graph in enumerate(graphs, 24):
        part = [row for row in rows if row["row"] == str(number)]
        labels = torch.tensor([float(row["link_target"]) for row in part])
        assert labels.tolist() == graph.edge_label.tolist()
        pairs = torch.tensor([[int(row["source"]), int(row["target"])] for row in part])
        assert torch.equal(pairs, graph.edge_label_index.T)
    predictor = hub.load(tmp_path / "one/checkpoint_best.pt")
    predicted = np.concatenate(predictor.predict(graphs))
    np.testing.assert_allclose(predicted[:, 0], written, atol=1e-5)
    # Without given pairs, those of all nodes are predicted.
    bare = Data(x=graphs[0].x, edge_index=graphs[0].edge_index)
    (every,) = predictor.predict([bare])
    table = np.zeros((bare.num_nodes, bare.num_nodes))
    table[np.triu_indices(bare.num_nodes, 1)] = every[:, 0]
    ends = graphs[0].edge_label_index.numpy()
    np.testing.assert_allclose(
        (table + table.T)[tuple(ends)], written[: ends.shape[1]], atol=1e-5
    )


@pytest.mark.long
@pytest.mark.usefixtures("fresh_fairseq")
def test_negatives_of_epochs_with_data_workers(tmp_path, monkeypatch):
    """Every epoch has its own, whoever draws them, and so does a resumed training."""

    def losses(name, *more):
        metrics.reset()
        words = link_arguments(tmp_path, tmp_path / name, "--batch-size", "4", *more)
        log = run(fairseq_train.cli_main, [*words, "--lr", "0"], monkeypatch)
        return [
            [epoch[f"{tag}_loss"] for epoch in logged(log, tag)]
            for tag in ("train", "valid")
        ]

    three = ["--max-epoch", "3"]
    train, valid = losses("0", *three, "--num-workers", "0")
    assert len({*train}) == 3 and len({*valid}) == 1  # the weights stay the same
    for workers in ("1", "2"):
        again = losses(workers, *three, "--num-workers", workers)
        assert again == [train, valid]
    losses("parts", "--max-epoch", "1", "--num-workers", "1")
    resumed = losses("parts", *three, "--num-workers", "1")
    assert resumed == [train[1:], valid[1:]]


def split_graph(**more):
    """PyG's train, valid and test of a random graph, without pairs of label 0."""
    pairs = np.random.default_rng(0).integers(0, 30, (2, 120))
    edges = to_undirected(torch.from_numpy(pairs[:, pairs[0] != pairs[1]]))
    graph = Data(x=torch.arange(30)[:, None], edge_index=edges)
    random.seed(0)
    torch.manual_seed(0)
    options = {"is_undirected": True, "neg_sampling_ratio": 0} | more
    return RandomLinkSplit(**options)(graph)


@pytest.mark.parametrize("undirected", [True, False])
def test_links_that_are_edges_the_other_way(undirected, caplog):
    """PyG's default is a directed graph, of which test links stay in train turned round."""
    graphs = split_graph(is_undirected=undirected)
    splits = {"train": [0], "valid": [1], "test": [2]}
    store = store_of(DatasetSource(graphs, splits=splits, level="link"))
    options = {"dataset_name": str(store.path), "seed": 1}
    task = EdgePredictionTask(EdgePredictionConfig(**options))
    assert task.collator.negatives.edges_are_links
    assert ("links are edges the other way" in caplog.text) == (not undirected)


@pytest.mark.parametrize("apart", [0.0, 0.3])
def test_edges_of_one_graph_are_no_negatives(apart):
    graphs = split_graph(disjoint_train_ratio=apart)
    splits = {"train": [0], "valid": [1], "test": [2]}
    store = store_of(DatasetSource(graphs, splits=splits, level="link"))
    options = {"dataset_name": str(store.path), "seed": 1}
    task = EdgePredictionTask(EdgePredictionConfig(**options))
    for split, graph in zip(splits, graphs):
        dataset = task.load_split(split)
        task.collator.spec = BatchSpec(frozenset({"x", "edge_label_index"}))
        sample = dataset.collater([0])
        ends = sample["net_input"]["batch"]["edge_label_index"][0]
        drawn = ends[sample["target"][0, :, 0] == 0].tolist()
        assert len(drawn) == len(graph.edge_label)
        edges = graph.edge_index.T.tolist()
        assert not [pair for pair in drawn if pair in edges]
        if split == "train":
            assert "edges" not in sample
        else:  # `mrr_filtered` leaves them out
            assert sorted(sample["edges"][0].tolist()) == sorted(edges)


def test_negatives_of_a_loader():
    graphs = split_graph()
    model = build_model("gt_zinc", graphs, level="link")

    def passes(**more):
        batches, same = [], []
        for workers, read in enumerate([batches, same]):
            options = {"num_workers": workers, "persistent_workers": workers > 0}
            loader = graph_loader(graphs[:1], model, **options, **more)
            assert len(loader) == 1
            read += [
                b["edge_label_index"].tolist() for _ in range(3) for b, _ in loader
            ]
        assert batches == same
        return len({str(ends) for ends in batches}), len(batches[0][0])

    count = len(graphs[0].edge_label)
    assert passes(shuffle=True) == (3, 2 * count)
    assert passes() == (1, 2 * count)
    assert passes(negatives=0) == (1, count)
    more = {"by_size": True, "shuffle": True, "batch_size": 1}
    assert passes(negatives=2, **more) == (3, 3 * count)
    with pytest.raises(ValueError, match="negatives -1: expected 0 or more"):
        passes(negatives=-1)


def test_options_of_other_labels():
    pairs = {"edge_label_index": torch.tensor([[0], [1]]), "edge_label": torch.ones(1)}
    graphs = [triangle(x=torch.arange(5)[:, None], **pairs)] * 9
    sources = {
        "edge": DatasetSource(graphs, level="edge", kind="regression"),
        "link": DatasetSource(graphs, level="link"),
    }
    for level, source in sources.items():
        store = store_of(source, level)
        options = {"dataset_name": str(store.path), "seed": 1, "negatives": 2}
        task = EdgePredictionTask(EdgePredictionConfig(**options))
        if level == "link":
            sample = task.load_split("train").collater([0])
            assert sample["target"].squeeze().tolist() == [1, 0, 0]
            continue
        with pytest.raises(ValueError, match="--negatives 2: the labels are not 0"):
            task.load_split("train")
    with pytest.raises(ValueError, match="--negatives -1: expected 0 or more"):
        EdgePredictionTask(EdgePredictionConfig(negatives=-1, seed=1))
