"""Every registered architecture at a tiny size, batches for it, and vocabularies of
benchmarks."""

from dataclasses import fields

import numpy as np
import pytest
import torch
import yaml
from torch.overrides import TorchFunctionMode

from cython_ext import build_batch
from graphormer_plugin import models
from graphormer_plugin.data.batches.collator import registered_field
from graphormer_plugin.data.batches.fields import FIELDS
from graphormer_plugin.data.batches.fields.field_cache import compute_columns
from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.models import build_model
from graphormer_plugin.modules.encoders.message_passing import CONVOLUTIONS

# A model is an architecture, too, with its default sizes. Where they are those of a preset
# it need not be tested; the models of gnn.py are presets themselves.
ARCHITECTURES = sorted(
    name
    for name, arch in models.ARCHITECTURES.items()
    if arch.model.__module__.startswith("graphormer_plugin.")
    and (name != arch.family or arch.model.__module__.endswith(".gnn"))
)
SCHEMA = FeatureSchema(2, [7, 3], [3, 2])
TARGETS = TargetSchema.of(["a", "b"])
OGB = FeatureSchema(9, [119, 5, 12, 12, 10, 6, 6, 2, 2], [5, 6, 2])
ZINC = FeatureSchema(1, [28], [4])
GRAPHS = TargetSchema.of(["y"])
TINY = {
    "encoder_layers": 2,
    "encoder_embed_dim": 16,
    "encoder_ffn_embed_dim": 16,
    "encoder_attention_heads": 4,
}


def has_option(arch, name):
    return hasattr(models.ARCHITECTURES[arch].config, name)


SMALLEST = [
    arch
    for arch in ARCHITECTURES
    if arch.endswith(("_tiny", "_slim", "_zinc", "tokengt_small")) or "_" not in arch
]
NODES_ONLY = [
    pytest.param((arch, {"no_virtual_node": True}), id=f"{arch} without virtual node")
    for arch in SMALLEST
    if has_option(arch, "no_virtual_node")
]
# Options with code of their own, beside those of the presets.
OPTIONS = [
    *((arch, "virtual_node") for arch in SMALLEST),
    *((arch, "edge_features") for arch in SMALLEST),
    *((arch, "pair_encodings=random_walks") for arch in SMALLEST),
    ("grpe_tiny", "node_encodings=degrees,heat_kernel node_encoding_dim=3"),
    ("gat", "node_encodings=signnet,wl"),
    ("graphormer_slim", "pre_layernorm"),
    *(
        ("graphormer_paper_slim", option)
        for option in (
            "node_relation=none node_encodings=laplacian edge_type=single_hop",
            "node_relation=none edge_type=none node_encodings=degrees:512:0",
            "edge_type=node node_encodings=random_walks:3",
            "edge_type=aggregation no_virtual_node",
            "spatial_pos_max=2 pair_encodings=gaussians",
        )
    ),
    ("grpe_tiny", "key_from_row virtual_is_self independent_encodings"),
    ("cgt_zinc", "attention_memory=lean rings=additive"),
    ("cgt_zinc", "attention=mono own_edge_encoding"),
    ("cgt_zinc", "attention=additive neighbours_only"),
    ("cgt_zinc", "relative_encoding=both output_projection=low_rank"),
    ("gt_zinc", "no_edge_features node_encodings=degrees:37:0"),
    ("gt_zinc", "no_edge_features norm=layer"),
    ("gt_zinc", "full_graph"),
    ("gt_zinc", "full_graph no_pair_features node_encodings=none"),
    ("gps_zinc", "attention=bias pair_encodings=gaussians norm=layer"),
    ("gps_zinc", "attention=relations node_encodings=none"),
    ("gps_zinc", "attention=edges edge_sets=hamiltonian_expander:3 virtual_nodes=2"),
    ("gps_zinc", "attention=edges local_part=gcn"),
    *(
        ("gps_zinc", f"local_part={conv}" + " no_edge_features" * (bonds == "none"))
        for conv, (_, bonds, *_) in CONVOLUTIONS.items()
    ),
]


def options_of(text):
    """Options as a person might write them: `rings=additive max_ring_size=5 full_graph`."""
    pairs = (word.partition("=") for word in text.split())
    return {key: yaml.safe_load(text) if equal else True for key, equal, text in pairs}


VARIANTS = [
    pytest.param((arch, options_of(text)), id=f"{arch} {text}")
    for arch, text in OPTIONS
    if all(has_option(arch, name) for name in options_of(text))
]


def rates_of(arch):
    """Names of the options that make a training random."""
    names = (field.name for field in fields(models.ARCHITECTURES[arch].config))
    return [name for name in names if name.endswith(("dropout", "noise"))]


def tiny_model(arch, targets=TARGETS, **options):
    """An architecture at a width that its other widths fit into."""
    beside = models.ARCHITECTURES[arch].options()["node_encoding_dim"]
    sizes = {**TINY, "node_encoding_dim": min(4, beside), "towers": 4}
    sizes = {name: size for name, size in sizes.items() if has_option(arch, name)}
    wide = any(has_option(arch, n) for n in ("full_graph", "head_layers", "local_part"))
    if wide or arch in ("gat", "graphsage"):
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
        "pos": np.random.default_rng(1)
        .normal(size=(first, 3))
        .astype(np.float32)[np.concatenate(original)],
        "original": np.concatenate(original),  # number of each node without permute
    }


def make_batch(model, ids, **options):
    spec = model.batch_spec
    columns = make_columns(**options)
    columns |= compute_columns(columns, spec)
    if "lap_pe" in columns:  # their signs and bases depend on the numbering
        plain = compute_columns(make_columns(**{**options, "permute": False}), spec)
        columns["lap_pe"] = plain["lap_pe"][columns["original"]]
    return batch_of(columns, ids, spec, SCHEMA)


def exact_batch(model, ids, **options):
    """A batch with positions in float64, as the collator makes them."""
    batch = make_batch(model, ids, **options)
    return batch | {"pos": batch["pos"].double()}


@torch.no_grad()
def check_distances_alone(model, step):
    """Translations, rotations, other numbers of the atoms and batch mates change nothing; a
    step of one atom does."""
    batch = exact_batch(model, range(6))
    expected = model(batch)
    rotation, _ = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64))
    mask = batch["node_mask"].unsqueeze(-1)
    moved = (batch["pos"] @ rotation + torch.tensor([5.0, -2, 1])) * mask
    found = model(batch | {"pos": moved})
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    found = model(exact_batch(model, range(6), permute=True))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    for graph in range(6):
        alone = model(exact_batch(model, [graph]))
        torch.testing.assert_close(alone[0], expected[graph], rtol=0, atol=1e-10)
    moved[0, 0, 0] += step
    assert (model(batch | {"pos": moved})[0] - expected[0]).abs().max() > 1e-6


def batch_of(columns, ids, spec, schema):
    """Tensors that a model reads, of stored and cached columns."""
    ids = np.asarray(ids)
    own = {name: FIELDS[name].column for name in spec.fields if FIELDS[name].column}
    arrays = build_batch(
        columns,
        ids,
        spec.fields - {"edge_label_index"} - own.keys(),
        num_bond_types=schema.num_bond_types,
        max_hop=spec.max_hop,
        max_dist=spec.max_dist,
        path_length=spec.path_length,
    )
    arrays |= {n: registered_field(columns, column, ids) for n, column in own.items()}
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


class Uninitialised(TorchFunctionMode):
    """Models that only count their weights draw no random numbers for them."""

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        if function in (torch.Tensor.normal_, torch.Tensor.uniform_):
            return arguments[0]
        return function(*arguments, **(keywords or {}))


def num_weights(arch, schema, targets, **options):
    with Uninitialised():
        model = build_model(arch, schema, targets, **options)
    return sum(parameter.numel() for parameter in model.parameters())
