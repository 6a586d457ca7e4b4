"""Graphs of PyG to batches and models, without a store."""

import copy
import types

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData, InMemoryDataset
from torch_geometric.loader import DataLoader

from graphormer_plugin import hub, models
from graphormer_plugin.criterions.binary_logloss import BinaryLogLoss
from graphormer_plugin.criterions.l1_loss import L1Loss
from graphormer_plugin.criterions.mse_loss import MSELoss
from graphormer_plugin.criterions.multiclass_cross_entropy import MulticlassCrossEntropy
from graphormer_plugin.data.batches.collator import GraphCollator
from graphormer_plugin.data.batches.fields.field_cache import load_or_compute
from graphormer_plugin.data.columns import Level
from graphormer_plugin.data.graphs.pyg_graphs import chunks_of_graphs
from graphormer_plugin.data.graphs.smiles import PLAIN
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.inference.checkpoint import write_file
from graphormer_plugin.published import checkpoint_of
from graphormer_plugin.published._shared import Imported, molecule_schema
from graphormer_plugin.pyg import BatchesBySize, GraphLoss, build_model, graph_loader
from support.stores import write

TINY = {"encoder_layers": 2, "encoder_embed_dim": 16, "encoder_ffn_embed_dim": 16}
HEADS = {"encoder_attention_heads": 4, "attention_dropout": 0.0}
MODELS = {
    "grpe_small": {**TINY, **HEADS, "dropout": 0.0},
    "graphormer_slim": {**TINY, **HEADS, "dropout": 0.0},
    "cgt_zinc": {**TINY, **HEADS, "node_encoding_dim": 4},
    "gt_zinc": {**TINY, **HEADS, "encoder_embed_dim": 64},
    "pna": {"encoder_layers": 2},
}


def trees(level="graph", kind="regression"):
    """Twelve random trees with symmetric categories of edges, as `Data`. Numbers of nodes and
    of graphs have two columns, with missing ones."""
    rng = np.random.default_rng(0)
    graphs = []
    for _ in range(12):
        n = int(rng.integers(2, 9))
        ends = np.array([(v, rng.integers(v)) for v in range(1, n)]).T
        edge_index = np.concatenate([ends, ends[::-1]], 1)
        attr = np.tile(rng.integers(0, (3, 2), (n - 1, 2)), (2, 1))
        x = rng.integers(0, (7, 3), (n, 2))
        y = np.array([[n, 10.0 + x[:, 0].sum()]])
        if kind == "multiclass":
            y = rng.integers(-1, 3, n) if level == "node" else rng.integers(3, size=1)
        elif level == "node":
            y = np.stack([x[:, 0], x[:, 1] + 5.0], 1)
            y = y % 2 if kind == "binary" else y
            y[rng.random(y.shape) < 0.3] = np.nan
        elif kind == "binary":
            y = y % 2
        arrays = {"x": x, "edge_index": edge_index, "edge_attr": attr, "y": y}
        graphs.append(Data(**{k: torch.from_numpy(v) for k, v in arrays.items()}))
    return graphs


def made(arch, graphs, **options):
    torch.manual_seed(1)
    return build_model(arch, graphs, **MODELS[arch], **options)


@pytest.mark.parametrize(
    "level, kind",
    [
        ("graph", "regression"),
        ("graph", "binary"),
        ("graph", "multiclass"),
        ("node", "multiclass"),
        ("node", "regression"),
        ("node", "binary"),
    ],
)
@pytest.mark.parametrize("arch", MODELS)
def test_equals_a_store(arch, level, kind, tmp_path):
    graphs = trees(level, kind)
    classes = kind == "multiclass"
    of_classes = classes and level == "node"
    y = graphs[3].y
    graphs[3].y = torch.full(
        y.shape,
        -1 if of_classes else torch.nan,
        dtype=y.dtype if of_classes else torch.double,
    )
    chunks = chunks_of_graphs(
        graphs, level=Level(level), values=not classes, progress=False
    )
    names = ["y"] if classes else ["y0", "y1"]
    splits = {"train": list(range(12)), "valid": [], "test": []}
    more = {"splits": splits, "target_names": names, "unit": "", "kind": kind}
    more["level"] = level
    store = write(tmp_path / "s", *chunks, **more)
    model = made(arch, graphs, level=level, kind=kind)
    assert model.schema == store.schema
    assert model.targets == store.targets
    columns = store.columns | load_or_compute(store, model.batch_spec)
    kinds = {"level": store.targets.level, "spec": model.batch_spec}
    kinds["num_bond_types"] = store.schema.num_bond_types
    collator = GraphCollator(columns, store.target, **kinds)
    sample = collator(np.arange(12))
    ((batch, target),) = graph_loader(graphs, model, batch_size=12)
    shape = [12] if level == "graph" else [12, batch["x"].shape[1]]
    assert [*target.shape] == shape + [len(names)] * (not of_classes)
    expected = sample["target"].nan_to_num(9).reshape(target.shape)
    assert torch.equal(target.nan_to_num(9), expected)
    model.eval()
    output = model(batch)
    assert torch.equal(output, model(**sample["net_input"]))
    task = types.SimpleNamespace(targets=store.targets)
    criterions = {"multiclass": [MulticlassCrossEntropy], "binary": [BinaryLogLoss]}
    for criterion in criterions.get(kind, [L1Loss, MSELoss]):
        loss = GraphLoss(model.targets, getattr(criterion, "loss", "l1"))
        total, size, _ = criterion(task)(model, sample)
        assert loss(output, target).item() == pytest.approx((total / size).item())


def test_workers_and_in_memory_dataset(tmp_path):
    dataset = InMemoryDataset(tmp_path)
    dataset.data, dataset.slices = dataset.collate(trees())
    model = made("gt_zinc", dataset)
    plain = list(graph_loader(dataset, model, batch_size=5))
    workers = list(graph_loader(dataset, model, batch_size=5, num_workers=2))
    assert [len(target) for _, target in plain] == [5, 5, 2]
    for (batch, target), (other, its_target) in zip(plain, workers, strict=True):
        assert torch.equal(target, its_target)
        assert batch.keys() == other.keys() == set(model.batch_spec.fields)
        assert all(torch.equal(batch[name], other[name]) for name in batch)


def test_batches_of_about_equal_size():
    """Every graph once, in another order in each pass, with less padding."""
    sizes = np.random.default_rng(0).lognormal(3, 0.7, 500).astype(int) + 1

    def padded(batches):
        return sum(len(batch) * sizes[batch].max() ** 2 for batch in batches)

    batches = BatchesBySize(sizes, 16, shuffle=True)
    passes = [list(batches) for _ in range(2)]
    for one in passes:
        assert sorted(np.concatenate(one)) == list(range(500))
        assert max(map(len, one)) == 16
    assert passes[0] != passes[1]
    assert passes == [list(one) for one in [BatchesBySize(sizes, 16, shuffle=True)] * 2]
    unsorted = np.random.default_rng(0).permutation(500)
    assert padded(passes[0]) < 0.5 * padded(np.array_split(unsorted, len(batches)))
    limited = BatchesBySize(sizes, None, max_pairs=20_000)
    assert all(padded([batch]) <= 20_000 or len(batch) == 1 for batch in limited)
    with pytest.raises(ValueError, match="need a batch_size or max_pairs"):
        BatchesBySize(sizes, None)
    graphs = trees()
    model = made("gt_zinc", graphs)
    loader = graph_loader(graphs, model, by_size=True, batch_size=5)
    widths = [batch["node_mask"].shape[1] for batch, _ in loader]
    assert len(loader) == 3 and widths == sorted(widths)


@pytest.mark.parametrize("dtype", [torch.float, torch.bfloat16])
def test_couplings_of_plus_and_minus_one(dtype):
    """Floats are real features of edges; the model's columns decide for a single graph."""
    graphs = trees()
    for graph in graphs:
        signs = 1 - 2 * (torch.arange(graph.edge_index.shape[1])[:, None] % 2)
        graph.edge_attr = signs.to(dtype)
    model = made("gt_zinc", graphs)
    assert model.schema.num_edge_features == 1
    for graph in graphs:
        graph.edge_attr = graph.edge_attr.long()
    ((batch, _),) = graph_loader(graphs, model, batch_size=12)
    assert set(batch["edge_attr"].flatten().tolist()) == {-1.0, 1.0}
    with pytest.raises(ValueError, match="edge_attr has category -1"):
        made("gt_zinc", graphs)
    assert made("gt_zinc", graphs, edge_kind="real").schema == model.schema


@pytest.mark.parametrize("level", ["graph", "node"])
def test_without_labels(level):
    graphs = trees(level)
    model = made("grpe_small", graphs, level=level, kind="regression")
    for graph in graphs:
        del graph.y
    ((batch, target),) = graph_loader(graphs, model, batch_size=12)
    loss = GraphLoss(model.targets)(model(batch), target)
    loss.backward()
    assert loss == 0 and target.isnan().all()


def test_all_graphs_are_looked_at(caplog):
    """Not only the first: for labels, weights of edges, and names that nothing reads."""
    graphs = trees()
    model = made("grpe_small", graphs)
    graphs[2].extra = torch.zeros(3)
    graph_loader(graphs, model)
    assert "attributes that nothing reads: extra;" in caplog.text
    del graphs[0].y
    with pytest.raises(ValueError, match="graph 0: Data has no y"):
        graph_loader(graphs, model)
    for graph in (graphs := trees()):
        del graph.edge_attr
    graphs[1].edge_weight = torch.ones(graphs[1].num_edges)
    with pytest.raises(ValueError, match="graph 1: edge_weight is not read; give it"):
        build_model("grpe_small", graphs)


def test_heterogeneous_graphs_and_batches_of_pyg():
    graphs = trees()
    model = made("grpe_small", graphs)
    with pytest.raises(ValueError, match=r"graph 0: HeteroData .* data.to_homogeneous"):
        build_model("grpe_small", [HeteroData()])
    for batch in DataLoader(graphs, batch_size=4):
        ((_, target),) = graph_loader(batch, model, batch_size=4)
        assert torch.equal(target, batch.y)
        with pytest.raises(TypeError, match="graph_loader"):
            model(batch)


def test_parallel_edges_with_real_features():
    """Sparse architectures read each of them; models of pairs cannot."""
    graphs = trees()
    for graph in graphs:
        graph.edge_attr = graph.edge_attr.double()
    twice = copy.copy(graphs[0])
    twice.edge_index = torch.cat([twice.edge_index, twice.edge_index], 1)
    twice.edge_attr = torch.cat([twice.edge_attr, twice.edge_attr + 1])
    order = torch.arange(twice.num_edges).flip(0)
    flipped = copy.copy(twice)
    flipped.edge_index = twice.edge_index[:, order]
    flipped.edge_attr = twice.edge_attr[order]
    for arch in ("gt_zinc", "gine", "gatedgcn"):
        torch.manual_seed(1)
        model = build_model(arch, [twice, *graphs], encoder_layers=2).eval()
        ((batch, _),) = graph_loader([twice, flipped, graphs[0]], model, batch_size=3)
        one, other, single = model(batch)
        torch.testing.assert_close(one, other)
        assert (one - single).abs().max() > 1e-4
    for arch in ("grpe_small", "graphormer_slim", "cgt_zinc"):
        model = made(arch, [twice, *graphs])
        with pytest.raises(ValueError, match="graph 1: two edges from node .* gt_zinc"):
            graph_loader([graphs[0], twice], model)


def test_model_of_a_checkpoint(tmp_path):
    smiles = ["CCO", "CC(=O)Oc1ccccc1C(=O)O"]
    graphs = [ogb_data(text) for text in smiles]
    arch, schema, targets = (
        "graphormer_slim",
        molecule_schema({}),
        TargetSchema.of(["y"]),
    )
    weights = models.build_model(arch, schema, targets, **MODELS[arch]).state_dict()
    imported = Imported(arch, MODELS[arch], schema, 1, weights)
    path = tmp_path / "checkpoint.pt"
    write_file(checkpoint_of(imported, targets, "microsoft-graphormer"), path)
    predictor = hub.load(path)
    ((batch, _),) = graph_loader(graphs, predictor.model, batch_size=2)
    values = predictor.model.targets.restore(predictor.model(batch).detach())
    np.testing.assert_allclose(values, predictor.predict(smiles), rtol=1e-5)


def ogb_data(smiles):
    graph = PLAIN.read_row(smiles)
    names = "x", "edge_index", "edge_attr"
    return Data(**{name: torch.from_numpy(getattr(graph, name)) for name in names})


@pytest.mark.parametrize(
    "change, message",
    [
        ({"x": torch.full((4, 2), 9)}, "node 0 has 9 in column 0, expected 0..6"),
        ({"y": torch.zeros(1, 3)}, "y has 3 numbers per graph, the model has .* y0"),
        ({"y": torch.full((1, 2), torch.inf)}, "numbers that fit float32"),
    ],
)
def test_graphs_that_do_not_fit(change, message):
    model = made("grpe_small", trees())
    edges = torch.zeros(2, 0, dtype=torch.long)
    fits = {"x": torch.zeros(4, 2, dtype=torch.long), "y": torch.zeros(1, 2)}
    with pytest.raises(ValueError, match=message):
        graph_loader([Data(edge_index=edges, **{**fits, **change})], model)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="no graphs"):
        build_model("grpe_small", [])
    with pytest.raises(ValueError, match="label 0 of y0 is 3, expected 0 or 1"):
        build_model("grpe_small", trees("node"), level="node", kind="binary")
    with pytest.raises(ValueError, match="unknown level 'atom', expected graph.node"):
        build_model("grpe_small", trees(), level="atom")


@pytest.mark.slow
def test_lightning(tmp_path):
    lightning = pytest.importorskip("lightning", reason="pip install '.[integrations]'")
    graphs = trees()

    class Network(lightning.LightningModule):
        def __init__(self, model):
            super().__init__()
            self.model, self.loss_of = model, GraphLoss(model.targets)
            self.losses = []

        def training_step(self, pair, _):
            batch, target = pair
            loss = self.loss_of(self.model(batch), target)
            self.losses.append(loss.item())
            return loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=3e-3)

    network = Network(made("grpe_small", graphs))
    trainer = lightning.Trainer(
        max_epochs=20,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        default_root_dir=tmp_path,
    )
    loader = graph_loader(graphs, network.model, batch_size=6, shuffle=True)
    trainer.fit(network, loader)
    assert len(network.losses) == 40
    assert sum(network.losses[-10:]) < 0.7 * sum(network.losses[:10])
