"""One suite for every registered architecture, present and future."""

import numpy as np
import pytest
import torch
from fairseq.models import (
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
)

import graphormer_plugin  # noqa: F401  (registers)
from cython_ext import build_batch
from graphormer_plugin.data.derived import derived_columns
from graphormer_plugin.data.features import FeatureSchema, TargetSchema
from graphormer_plugin.models import build_model

# A model is an architecture, too, with its default sizes. Where they are those of a preset
# it need not be tested; the models of gnn.py are presets themselves.
ARCHITECTURES = sorted(
    arch
    for arch, model in ARCH_MODEL_REGISTRY.items()
    if model.__module__.startswith("graphormer_plugin.")
    and (
        arch not in set(ARCH_MODEL_NAME_REGISTRY.values())
        or model.__module__.endswith(".gnn")
    )
)
SCHEMA = FeatureSchema(2, [7, 3], [3, 2])
TARGETS = TargetSchema(["a", "b"])
TINY = {
    "encoder_layers": 2,
    "encoder_embed_dim": 16,
    "encoder_ffn_embed_dim": 16,
    "encoder_attention_heads": 4,
}


def has_option(arch, name):
    return hasattr(MODEL_DATACLASS_REGISTRY[ARCH_MODEL_NAME_REGISTRY[arch]], name)


SMALLEST = [
    arch
    for arch in ARCHITECTURES
    if arch.endswith(("_tiny", "_slim", "_zinc")) or "_" not in arch
]
NODES_ONLY = [
    pytest.param((arch, {"no_virtual_node": True}), id=f"{arch} without virtual node")
    for arch in SMALLEST
    if has_option(arch, "no_virtual_node")
]


def tiny_model(arch, targets=TARGETS, **options):
    """An architecture at a width that its other widths fit into."""
    sizes = {**TINY, "rwse_dim": 4, "towers": 4}
    sizes = {name: size for name, size in sizes.items() if has_option(arch, name)}
    if has_option(arch, "wl_rows"):
        sizes["encoder_embed_dim"] = 64  # ReLU at D / 4 in its head: some units die
    return build_model(arch, SCHEMA, targets, **{**sizes, **options})


def make_columns(num_graphs=6, permute=False):
    """Random trees with symmetric bonds (one shortest path a pair), one a single node.

    The same graphs on every call; `permute` numbers the nodes of each differently.
    """
    rng = np.random.default_rng(0)
    graphs, first = [], 0
    for number in range(num_graphs):
        n = 1 if number == 1 else int(rng.integers(3, 9))
        tree = [(v, int(rng.integers(0, v))) for v in range(1, n)]
        bond = rng.integers(1, SCHEMA.num_bond_types + 1, len(tree))
        src, dst = np.array(tree, dtype=np.int64).reshape(-1, 2).T
        x = rng.integers(0, SCHEMA.node_dims, (n, 2))
        order = np.arange(n)
        if permute:
            order = np.random.default_rng(number).permutation(n)
        rank = np.argsort(order)
        src, dst = np.r_[rank[src], rank[dst]], np.r_[rank[dst], rank[src]]
        edges = np.lexsort((dst, src))
        bonds = np.r_[bond, bond][edges]
        graphs.append((x[order], src[edges], dst[edges], bonds, first + order))
        first += n
    x, src, dst, bond, original = zip(*graphs)
    return {
        "node_offset": np.cumsum([0, *map(len, x)]),
        "edge_offset": np.cumsum([0, *map(len, src)]),
        "x": np.concatenate(x).astype(np.uint8),
        "edge_src": np.concatenate(src).astype(np.uint8),
        "edge_dst": np.concatenate(dst).astype(np.uint8),
        "edge_bond": np.concatenate(bond).astype(np.uint8),
        "original": np.concatenate(original),  # number of each node without permute
    }


def make_batch(model, ids, **options):
    spec = model.batch_spec
    columns = make_columns(**options)
    columns |= derived_columns(columns, spec)
    if "lap_pe" in columns:  # their signs and bases depend on the numbering
        plain = derived_columns(make_columns(**{**options, "permute": False}), spec)
        columns["lap_pe"] = plain["lap_pe"][columns["original"]]
    arrays = build_batch(
        columns,
        np.asarray(ids),
        spec.fields,
        num_bond_types=SCHEMA.num_bond_types,
        max_hop=spec.max_hop,
        max_dist=spec.max_dist,
        path_length=spec.path_length,
    )
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


@pytest.fixture(
    params=[*(pytest.param((arch, {}), id=arch) for arch in ARCHITECTURES), *NODES_ONLY]
)
def model(request):
    arch, options = request.param
    torch.manual_seed(0)
    return tiny_model(arch, **options)


def test_there_are_architectures():
    expected = {"grpe_tiny", "grpe_small", "grpe_standard", "grpe_large"}
    assert expected <= set(ARCHITECTURES)
    nodes_only = {case.values[0][0] for case in NODES_ONLY}
    assert {"grpe_tiny", "graphormer_slim"} <= nodes_only


def test_every_parameter_gets_a_finite_gradient(model):
    out = model(make_batch(model, range(6)))
    assert out.shape == (6, 2) and out.dtype == torch.float32
    out.square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, f"{name} takes no part"
        assert parameter.grad.isfinite().all(), name


@torch.no_grad()
def test_state_dict_round_trip(model):
    batch = make_batch(model, range(6))
    out = model.eval()(batch)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    for parameter in model.parameters():
        parameter.add_(1)
    assert not torch.equal(model(batch), out)
    model.load_state_dict(state)
    assert torch.equal(model(batch), out)


@torch.no_grad()
def test_batch_mates_padding_and_numbering_do_not_matter(model):
    model.double().eval()
    together = model(make_batch(model, range(6)))
    alone = torch.cat([model(make_batch(model, [i])) for i in range(6)])
    renumbered = model(make_batch(model, range(6), permute=True))
    assert (together - alone).abs().max() < 1e-12
    assert (together - renumbered).abs().max() < 1e-12


def test_overfits_eight_graphs(model):
    batch = make_batch(model, range(8), num_graphs=8)
    target = torch.randn(8, 2, generator=torch.Generator().manual_seed(0))
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    model.eval()  # no dropout: this is about capacity and gradients
    for _ in range(400):
        optimiser.zero_grad()
        loss = (model(batch) - target).square().mean()
        loss.backward()
        optimiser.step()
        if loss < 1e-3:
            break
    assert loss < 1e-3


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="unknown architecture 'gpre_small'"):
        build_model("gpre_small", SCHEMA, TARGETS)
    with pytest.raises(ValueError, match="has no option 'layers'"):
        build_model("grpe_small", SCHEMA, TARGETS, layers=3)
