"""Real features of edges in every architecture that reads bonds.

The twin is the same architecture on bond types, one for each edge of the batch, whose
vectors are the linear map of that edge's features.
"""

import dataclasses

import numpy as np
import pytest
import torch

from graphormer_plugin.data.batches.collator import GraphCollator
from graphormer_plugin.data.batches.fields.field_cache import compute_columns
from graphormer_plugin.data.graphs.chunk import GraphChunk
from graphormer_plugin.data.graphs.graph_columns import columns_of_chunk
from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.models import build_model
from graphormer_plugin.modules.encoders.grpe import RelationEncoding
from graphormer_plugin.modules.encodings.bond_encoder import EdgeEncoder, FeatureMap
from graphormer_plugin.modules.encodings.vocabulary import model_row_labels
from support.architectures import TINY, has_option, options_of

C = 3
SIZES = [7, 1, 4, 5]  # the second has no edges
ROWS = """
grpe_tiny
grpe_tiny no_virtual_node pair_encodings=random_walks
grpe_tiny independent_encodings key_from_row
grpe_tiny no_edge_attention
graphormer_slim
graphormer_slim edge_type=single_hop node_encodings=random_walks:3
graphormer_slim edge_type=node
cgt_zinc node_encoding_dim=4
cgt_zinc_rings node_encoding_dim=4
cgt_zinc_rings node_encoding_dim=4 rings=additive
gt_zinc
gcn edge_features
gat edge_features
gine
gatedgcn
pna towers=4
tokengt_base
gps_zinc node_encoding_dim=4
gps_zinc node_encoding_dim=4 local_part=gatedgcn attention=bias
gps_zinc node_encoding_dim=4 local_part=pna attention=relations
"""
WORDS = [line.partition(" ") for line in ROWS.strip().splitlines()]
CASES = [(arch, options_of(text)) for arch, _, text in WORDS]
NAMES = [f"{arch}-{number}" for number, (arch, _) in enumerate(CASES)]


def make_chunk():
    """Directed edges without twins, with a self-loop; features are real."""
    rng = np.random.default_rng(0)
    edges, x = [], []
    for n in SIZES:
        adjacency = rng.random((n, n)) < 0.4
        np.fill_diagonal(adjacency, False)
        adjacency[0, 0] = n > 4
        if n == 1:
            adjacency[:] = False
        edges.append(np.stack(np.nonzero(adjacency)))
        x.append(rng.integers(0, 5, (n, 1)))
    edge_index = np.concatenate(edges, 1)
    return GraphChunk(
        num_nodes=np.array(SIZES),
        num_edges=np.array([part.shape[1] for part in edges]),
        x=np.concatenate(x),
        edge_index=edge_index,
        edge_attr=rng.normal(size=(edge_index.shape[1], C)).astype(np.float32),
    )


CHUNK = make_chunk()
EDGES = CHUNK.edge_index.shape[1]
REAL = FeatureSchema(1, [5], num_edge_features=C)
TYPES = FeatureSchema(1, [5], [EDGES])


def make_batch(model, schema, ids=(0, 1, 2, 3)):
    """The path of prediction, from a chunk to tensors."""
    attr = CHUNK.edge_attr
    if schema is TYPES:
        attr = np.arange(EDGES)[:, None]
    columns = columns_of_chunk(dataclasses.replace(CHUNK, edge_attr=attr), schema)
    columns |= compute_columns(columns, model.batch_spec)
    kinds = {"num_bond_types": schema.num_bond_types, "spec": model.batch_spec}
    collate = GraphCollator(columns, np.zeros((len(SIZES), 1)), **kinds)
    return collate(np.array(ids))["net_input"]["batch"]


def tiny(arch, schema, **options):
    sizes = {name: size for name, size in TINY.items() if has_option(arch, name)}
    options = {"dropout": 0.0, **sizes, **options}
    for name in ("attention_dropout", "channel_dropout", "node_dropout"):
        if has_option(arch, name):
            options.setdefault(name, 0.0)
    if has_option(arch, "float32_softmax"):
        options |= {"float32_softmax": False, "activation_fn": "gelu"}
    torch.manual_seed(0)
    return build_model(arch, schema, TargetSchema.of(["y"]), **options).double()


def vectors_of(module, features):
    """Names of tables of the twin's module, and what the map makes of each edge."""
    features = torch.from_numpy(features).double()
    if isinstance(module, EdgeEncoder):
        yield "embedding.weight", module.projection(features)
    if isinstance(module, RelationEncoding):
        for kind in ("attention", "value"):
            weight = getattr(module, f"feature_{kind}")
            table = getattr(module, f"edge_{kind}")
            if weight is not None:
                rows = table.weight[:1] + features @ weight.weight.T
                yield f"edge_{kind}.weight", rows
    if hasattr(module, "no_bonds") and module.edges is not None:  # CGT's
        for number, bonds in enumerate(module.bonds):
            rows = bonds.embedding.weight + features @ module.edges.weight.T
            yield f"bonds.{number}.embedding.weight", rows


def make_pair(arch, options):
    """A model with real features and its twin, with equal weights otherwise."""
    model, twin = tiny(arch, REAL, **options), tiny(arch, TYPES, **options)
    with torch.no_grad():
        for parameter in model.parameters():  # none is as it started, e.g. zero
            parameter.add_(0.1 * torch.randn_like(parameter))
    state = model.state_dict()
    tables = {}
    for prefix, module in model.named_modules():
        for name, rows in vectors_of(module, CHUNK.edge_attr):
            tables[f"{prefix}.{name}"] = rows
    new = {}
    for name, value in twin.state_dict().items():
        rows = tables.get(name)
        if rows is None:
            new[name] = state[name]
        elif name in state:  # GRPE's table has three rows more
            new[name] = torch.cat([rows, state[name][1:]])
        else:  # Graphormer's tables have 512 rows
            new[name] = torch.cat([rows, value[len(rows) :]])
    assert tables
    twin.load_state_dict(new)
    return model, twin


@pytest.mark.parametrize("arch, options", CASES, ids=NAMES)
def test_equals_a_table_with_a_vector_per_edge(arch, options):
    model, twin = (model.eval() for model in make_pair(arch, options))
    out, wanted = model(make_batch(model, REAL)), twin(make_batch(twin, TYPES))
    assert out.dtype == torch.float64
    assert (out - wanted).abs().max() < 1e-10 * wanted.abs().max().clamp(min=1)
    # the features matter
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, (EdgeEncoder, FeatureMap)):
                for parameter in module.parameters():
                    parameter.zero_()
    assert (model(make_batch(model, REAL)) - out).abs().max() > 1e-6


@pytest.mark.parametrize("arch, options", CASES, ids=NAMES)
def test_gradients_reach_the_map(arch, options):
    model, _ = make_pair(arch, options)
    model(make_batch(model, REAL)).square().sum().backward()
    maps = [m for m in model.modules() if isinstance(m, (EdgeEncoder, FeatureMap))]
    assert maps
    grads = [p.grad for module in maps for p in module.parameters()]
    assert all(grad.isfinite().all() for grad in grads)
    assert grads[0].abs().max() > 0  # nobody reads the last layer's nodes in GRPE
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name


@torch.no_grad()
@pytest.mark.parametrize(
    "arch", ["grpe_tiny", "graphormer_slim", "cgt_zinc", "gt_zinc", "gatedgcn"]
)
def test_features_that_are_infinite_in_half_precision(arch):
    """Above 65,504, next to one that is small."""
    model, _ = make_pair(arch, {"node_encoding_dim": 4} if arch == "cgt_zinc" else {})
    batch = make_batch(model.eval(), REAL)
    factor = torch.tensor([2.0**16, 1.0, 1.0])
    batch["edge_attr"] = batch["edge_attr"] * factor
    assert batch["edge_attr"].abs().max() > torch.finfo(torch.float16).max
    for module in model.modules():
        if isinstance(module, EdgeEncoder):
            module.projection.weight.div_(factor)
        elif isinstance(module, FeatureMap):
            module.weight.div_(factor)
    wanted = model(batch)
    out = model.half()(batch)
    assert out.dtype == torch.float16
    assert (out - wanted).abs().max() < 0.02 * wanted.abs().max().clamp(min=1)


def test_pairs_of_a_full_graph_have_no_features():
    model = tiny("gt_zinc", REAL, full_graph=True)
    assert not model.encoder.layers[0].edges
    assert not {"edge_attr", "edge_bond"} & model.batch_spec.fields


def test_columns_of_features_are_labelled():
    """For fine-tuning on edges with other features."""
    for arch in ("grpe_tiny", "graphormer_slim", "cgt_zinc", "gt_zinc", "gine"):
        more = {"node_encoding_dim": 4} if arch == "cgt_zinc" else {}
        model = tiny(arch, REAL, **more)
        labels = model_row_labels(model, REAL, model.state_dict())
        found = [rows for rows in labels.values() if rows.dim == 1]
        assert found and all(len(rows.labels) == C for rows in found), arch
