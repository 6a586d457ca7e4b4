"""Baselines: next to PyG used directly, their sizes, options, and what the trainer does."""

import numpy as np
import pytest
import torch
from torch import nn

from graphormer_plugin.data.schema import FeatureSchema, TargetSchema
from graphormer_plugin.models import build_model, layers_of_weights
from graphormer_plugin.modules.batch_norm import MaskedBatchNorm
from graphormer_plugin.modules.message_passing import CONVOLUTIONS
from support.architectures import (
    SCHEMA,
    TARGETS,
    TINY,
    make_batch,
    make_columns,
    tiny_model,
)

OGB = FeatureSchema(9, [119, 5, 12, 12, 10, 6, 6, 2, 2], [5, 6, 2])
ZINC = FeatureSchema(1, [28], [4])
GRAPHS = TargetSchema(["y"])
ROWS = np.arange(6)  # one of them a single node
CASES = [(arch, {}) for arch in CONVOLUTIONS] + [("gat", {"edge_features": True})]


def pyg_batch():
    """The graphs of `make_columns` as PyG batches them; bond columns as they are."""
    from torch_geometric.data import Batch, Data

    columns, graphs = make_columns(), []
    table = torch.from_numpy(SCHEMA.bond_columns())
    for row in ROWS:
        nodes = slice(*columns["node_offset"][row : row + 2])
        edges = slice(*columns["edge_offset"][row : row + 2])
        src, dst, bond = (
            torch.from_numpy(columns[f"edge_{name}"][edges]).long()
            for name in ("src", "dst", "bond")
        )
        x = torch.from_numpy(columns["x"][nodes]).long()
        graphs.append(Data(x, torch.stack([src, dst]), table[bond], num_nodes=len(x)))
    return Batch.from_data_list(graphs)


def pyg_layer(arch, options, dim=16):
    """A layer as PyG's documentation makes it."""
    from torch_geometric import nn as pyg

    def network(norm=None):
        return nn.Sequential(
            nn.Linear(dim, dim), nn.BatchNorm1d(dim), nn.ReLU(), nn.Linear(dim, dim)
        )

    return {
        "gcn": lambda: pyg.GCNConv(dim, dim),
        "gin": lambda: pyg.GINConv(network(), train_eps=True),
        "gine": lambda: pyg.GINEConv(network(), train_eps=True),
        "gat": lambda: pyg.GATConv(
            dim, 4, heads=4, bias=False, edge_dim=dim if options else None
        ),
        "gatedgcn": lambda: pyg.ResGatedGraphConv(dim, dim, edge_dim=dim),
        "graphsage": lambda: pyg.SAGEConv(dim, dim, aggr="max", project=True),
        "pna": lambda: pyg.PNAConv(
            dim,
            dim,
            ["mean", "min", "max", "std"],
            ["identity", "amplification", "attenuation"],
            deg=torch.tensor([1, 4, 2]),
            edge_dim=dim,
            towers=4,
            divide_input=True,
        ),
        "mpnn": lambda: pyg.NNConv(dim, dim, nn.Linear(dim, dim * dim), aggr="add"),
    }[arch]()


def norm_of(ours):
    norm = nn.BatchNorm1d(16).double()
    norm.load_state_dict(ours.state_dict(), strict=False)
    return norm


def on_pyg(model, arch, options, data):
    """OGB's baseline written down with PyG, in training; weights are the model's."""
    from torch_geometric.nn import global_add_pool, global_mean_pool

    encoder = model.encoder
    first = torch.tensor([0, SCHEMA.node_dims[0]])
    x = encoder.node_encoder.embedding.weight[data.x + first].sum(1)
    virtual = None
    if encoder.virtual_node is not None:
        virtual = encoder.virtual_node.weight.repeat(data.num_graphs, 1)
    for number, ours in enumerate(encoder.layers):
        conv = pyg_layer(arch, options).double()
        conv.load_state_dict(ours.conv.state_dict(), strict=False)
        arguments = [x, data.edge_index]
        if ours.bonds is not None:
            first = torch.tensor([0, SCHEMA.bond_dims[0]])
            arguments.append(
                ours.bonds.embedding.weight[data.edge_attr + first].mean(1)
            )
        if virtual is not None:
            x = arguments[0] = x + virtual[data.batch]
        out = norm_of(ours.norm)(conv(*arguments))
        if number < len(encoder.layers) - 1:
            out = out.relu()
            if virtual is not None:
                step = global_add_pool(x, data.batch) + virtual
                maps = ours.virtual_update
                step = norm_of(maps[1])(maps[0](step)).relu()
                virtual = virtual + norm_of(maps[4])(maps[3](step)).relu()
        x = x + out
    pool = global_add_pool if model.readout == "sum" else global_mean_pool
    return model.head(pool(x, data.batch))


@pytest.mark.parametrize("virtual_node", [False, True])
@pytest.mark.parametrize("arch, options", CASES)
@torch.no_grad()
def test_equals_pyg_used_directly(arch, options, virtual_node):
    torch.manual_seed(0)
    model = tiny_model(arch, virtual_node=virtual_node, **options).double()
    for value in model.parameters():  # none is as it started, e.g. zero
        value.add_(0.1 * torch.randn_like(value))
    if arch == "pna":
        degrees = torch.tensor([0.0] + 4 * [1.0] + 2 * [2.0]).double()
        for layer in model.encoder.layers:
            layer.conv.aggr_module.avg_deg_log.fill_(degrees.log1p().mean())
    wanted = on_pyg(model, arch, options, pyg_batch())
    out = model(make_batch(model, ROWS))
    assert (out - wanted).abs().max() < 1e-10 * wanted.abs().max()


@torch.no_grad()
def test_eigenvectors_are_projected_into_the_nodes():
    torch.manual_seed(0)
    model = tiny_model("gcn", lap_pe_dim=3).double().eval()
    batch = make_batch(model, ROWS)
    out = model(batch)
    linear, model.encoder.position = model.encoder.position.projection, None
    vectors = batch["lap_pe"][..., :3].double() @ linear.weight.T + linear.bias
    assert (model(batch, vectors) - out).abs().max() < 1e-12
    assert (model(batch) - out).abs().max() > 1e-6


@torch.no_grad()
@pytest.mark.parametrize("arch", CONVOLUTIONS)
def test_batch_mates_do_not_matter_to_a_virtual_node(arch):
    torch.manual_seed(0)
    model = tiny_model(arch, virtual_node=True)
    nn.init.normal_(model.encoder.virtual_node.weight)
    model.double().eval()
    together = model(make_batch(model, ROWS))
    alone = torch.cat([model(make_batch(model, [row])) for row in ROWS])
    renumbered = model(make_batch(model, ROWS, permute=True))
    assert (together - alone).abs().max() < 1e-12 * together.abs().max()
    assert (together - renumbered).abs().max() < 1e-12 * together.abs().max()
    # it reaches the nodes
    model.encoder.virtual_node.weight.add_(1)
    assert (model(make_batch(model, ROWS)) - together).abs().min() > 1e-6


@pytest.mark.parametrize("virtual_node", [False, True])
@pytest.mark.parametrize("arch", CONVOLUTIONS)
def test_a_single_node_without_edges_trains(arch, virtual_node):
    """Also in halves, and with one row for BatchNorm."""
    for dtype in (torch.float32, torch.float16):
        model = tiny_model(arch, virtual_node=virtual_node).to(dtype)
        for rows in ([1], ROWS):
            batch = make_batch(model, rows)
            assert "dist" not in batch and "bond" not in batch
            out = model(batch)
            assert out.dtype == dtype and out.isfinite().all()
            out.float().square().sum().backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name


@pytest.mark.parametrize(
    "arch, paper, tolerance",
    [  # Table 4 of Ying et al. 2021
        ("gcn", 505_079, 0),
        ("gin", 509_549, 0.02),
        ("graphsage", 505_341, 0),
        ("gat", 531_345, 0),
        ("gatedgcn", 505_011, 0.003),
        ("mpnn", 480_805, 0.04),
        ("pna", 387_155, 0.07),
        ("gine", 509_549, 0.04),  # not in the table: beside gin
    ],
)
def test_size(arch, paper, tolerance):
    vectors = {"lap_pe_dim": 8} if arch == "gatedgcn" else {}  # GatedGCN-PE there
    model = build_model(arch, ZINC, GRAPHS, **vectors)
    assert count(model) == pytest.approx(paper, rel=tolerance, abs=0)
    assert len(model.encoder.layers) == 16


@pytest.mark.parametrize(
    "arch, virtual_node, paper, tolerance",
    [  # Table 1 of Ying et al. 2021; OGB's GCN reads bonds
        ("gcn_pcqm4m", False, 2.0e6, 0.05),
        ("gcn_pcqm4m", True, 4.9e6, 0.02),
        ("gin_pcqm4m", False, 3.8e6, 0.013),
        ("gin_pcqm4m", True, 6.7e6, 0.008),
    ],
)
def test_size_for_pcqm4m(arch, virtual_node, paper, tolerance):
    model = build_model(arch, OGB, GRAPHS, virtual_node=virtual_node)
    assert count(model) == pytest.approx(paper, rel=tolerance)
    assert model.readout == "sum" and not model.encoder.layers[0].residual


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    "arch, option, value, seen",
    [
        ("gatedgcn", "lap_pe_dim", 3, lambda m: m.encoder.position),
        ("gcn", "dropout", 0.3, lambda m: m.encoder.layers[0].dropout.p),
        ("gcn", "norm", "layer", lambda m: type(m.encoder.layers[0].norm)),
        ("gin", "norm", "none", lambda m: type(m.encoder.layers[0].conv.nn[1])),
        ("gcn", "no_residual", True, lambda m: m.encoder.layers[0].residual),
        ("gcn", "readout", "max", lambda m: m.readout),
        ("gcn", "head_style", "linear", lambda m: type(m.head)),
        ("gcn", "node_table_size", 9, lambda m: m.encoder.node_encoder.first_row[1]),
        ("gin", "encoder_ffn_embed_dim", 9, lambda m: m.encoder.layers[0].conv.nn[0]),
        ("gat", "encoder_attention_heads", 2, lambda m: m.encoder.layers[0].conv.heads),
        ("gat", "attention_dropout", 0.3, lambda m: m.encoder.layers[0].conv.dropout),
        ("gat", "edge_features", True, lambda m: sorted(m.batch_spec.fields)),
        ("pna", "towers", 2, lambda m: m.encoder.layers[0].conv.towers),
    ],
)
def test_options_reach_the_model(arch, option, value, seen):
    plain, model = tiny_model(arch), tiny_model(arch, **{option: value})
    assert str(seen(plain)) != str(seen(model))
    assert model(make_batch(model, ROWS)).isfinite().all()


@torch.no_grad()
def test_without_residual_connections_a_layer_replaces_its_input():
    model = tiny_model("gcn", no_residual=True, virtual_node=True, encoder_layers=1)
    x = torch.randn(3, 16)
    edges = torch.tensor([[0, 1], [1, 0]])
    layer = model.encoder.layers[0].eval()
    out, _ = layer(x, torch.ones(1, 16), edges, None, torch.zeros(3, dtype=torch.long))
    assert torch.allclose(out, layer.norm(layer.conv(x + 1, edges)))


@pytest.mark.parametrize(
    "arch, option, value, message",
    [
        ("gcn", "norm", "group", "unknown norm 'group', expected batch|layer|none"),
        ("gcn", "head_style", "two", "unknown head_style 'two', expected mlp|linear"),
        ("gcn", "readout", "avg", "unknown readout 'avg'"),
        ("gcn", "encoder_layers", 0, "num_layers 0, expected at least 1"),
        ("gcn", "encoder_embed_dim", 0, "embed_dim 0, expected at least 1"),
        ("gin", "encoder_ffn_embed_dim", 0, "hidden_dim 0, expected at least 1"),
        ("gat", "encoder_attention_heads", 3, "num_heads 3 does not divide"),
        ("gat", "attention_dropout", 1.0, "dropout probability 1.0, expected 0 <="),
        ("gat", "attention_dropout", 1.5, "dropout probability 1.5, expected 0 <="),
        ("pna", "towers", 0, "num_towers 0 does not divide embed_dim 16"),
    ],
)
def test_what_is_wrong_is_said(arch, option, value, message):
    with pytest.raises(ValueError) as error:
        tiny_model(arch, **{option: value})
    assert message in str(error.value)


def test_perturbation_reaches_its_nodes():
    """FLAG: real nodes have a gradient, padding has none and does not matter."""
    model = tiny_model("gine", virtual_node=True).double().eval()
    batch = make_batch(model, ROWS)
    mask = batch["node_mask"]
    perturb = torch.zeros(*mask.shape, 16, dtype=torch.float64, requires_grad=True)
    model(batch, perturb).sum().backward()
    assert (perturb.grad.abs().sum(-1) > 0).equal(mask)


def test_frozen_layers_keep_their_statistics():
    model = tiny_model(
        "gin", virtual_node=True, encoder_layers=3, freeze_encoder_layers=1
    )
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model(make_batch(model, ROWS)).sum().backward()
    norms = {
        f"{name}.running_mean"
        for name, module in model.named_modules()
        if isinstance(module, MaskedBatchNorm)
    }
    moved = {name for name in norms if not model.state_dict()[name].equal(before[name])}
    assert moved == {name for name in norms if "layers.0." not in name} != norms
    frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
    assert frozen == {n for n, layer in layers_of_weights(model).items() if layer < 2}
    assert "encoder.virtual_node.weight" in frozen
    assert "encoder.layers.0.virtual_update.0.weight" in frozen


def test_pna_takes_its_degrees_from_the_task_or_the_weights():
    from types import SimpleNamespace

    from graphormer_plugin.models.gnn import PNAConfig, PNAModel

    sizes = {name: TINY[name] for name in ("encoder_layers", "encoder_embed_dim")}
    cfg = PNAConfig(towers=4, **sizes)
    task = SimpleNamespace(schema=SCHEMA, targets=TARGETS, mean_log_degree=lambda: 0.7)
    model = PNAModel.build_model(cfg, task)
    other = tiny_model("pna")
    delta = [m.encoder.layers[1].conv.aggr_module for m in (model, other)]
    assert [module.avg_deg_log.item() for module in delta] == pytest.approx([0.7, 1])
    other.load_state_dict(model.state_dict())
    assert delta[1].avg_deg_log.item() == pytest.approx(0.7)
