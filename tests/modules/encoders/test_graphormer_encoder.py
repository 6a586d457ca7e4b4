"""Graphormer against a loop over the equations of Ying et al. 2021, and its invariances."""

import math

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cython_ext.codes import FAR
from graphormer_plugin.modules.attention.biased import BiasedAttention
from graphormer_plugin.modules.attention.compiled import plain_attention
from graphormer_plugin.modules.encodings import attn_bias as attn_bias_module
from graphormer_plugin.modules.encodings.node_encodings import (
    Degrees,
    LaplacianEncoding,
)
from graphormer_plugin.modules.layers.embedding_sum import (
    _counted_row_sums,
    _row_sums,
    embedding_sum,
)
from support.graphormer import (
    ABLATIONS,
    BOND_DIMS,
    BOND_TYPES,
    DIM,
    HEADS,
    STEPS,
    batch_of,
    make_encoder,
)
from support.toy_graphs import (
    NODE_DIMS,
    collate,
    hops,
    random_graph,
    shortest_path,
    undirected_graph,
)


@pytest.fixture(params=[False, True], ids=["undirected", "directed"])
def graphs(request):
    rng = np.random.default_rng(1)
    options = {"num_bond_types": BOND_TYPES, "directed": request.param}
    return [random_graph(rng, n, 0.2, **options) for n in (7, 1, 9, 4)]


def bond_vector(bonds, bond):
    """Mean of the column embeddings of a joint type (1..6)."""
    first, second = divmod(bond - 1, BOND_DIMS[1])
    return (bonds.embedding.weight[first] + bonds.embedding.weight[3 + second]) / 2


def twin_input(encoder, graph):
    """Eq. 5 and the other encodings of nodes, node by node."""
    n = len(graph["x"])
    edges = list(zip(graph["src"], graph["dst"], graph["bond"]))
    table = encoder.node_encoder.embedding.weight
    walk = np.zeros((n, n))
    for u, v, _ in edges:
        walk[u, v] = 1
    walk /= np.maximum(walk.sum(1, keepdims=True), 1)
    rows = []
    for i in range(n):
        row = table[graph["x"][i, 0]] + table[NODE_DIMS[0] + graph["x"][i, 1]]
        in_degree = sum(v == i for _, v, _ in edges)
        out_degree = sum(u == i for u, _, _ in edges)
        for term in encoder.node_encoder.encodings:
            projection = term.projection
            if isinstance(term.encoding, Degrees):
                degrees = min(in_degree, 4), min(out_degree, 5)
                for table_of_end, degree in zip(projection.tables, degrees):
                    row = row + table_of_end.weight[degree]
            elif isinstance(term.encoding, LaplacianEncoding):
                row = row + projection(torch.from_numpy(graph["lap_pe"][i, :2]))
            else:
                powers = [np.linalg.matrix_power(walk, k)[i, i] for k in (1, 2, 3)]
                norm = term.encoding.norm  # at its start, in evaluation
                scale = (1 + 1e-5) ** -0.5
                normal = norm.weight * scale * torch.tensor(powers) + norm.bias
                row = row + projection(normal)
        if encoder.incident is not None:
            for u, _, bond in edges:
                if u == i:
                    row = row + bond_vector(encoder.incident.bonds, bond)
        for term in encoder.attn_bias.further:
            total = sum(twin_kernels(term, graph, i, j) for j in range(n))
            row = row + term.nodes(0.3 * total)
        rows.append(row)
    if encoder.virtual_node is not None:
        rows.insert(0, encoder.virtual_node.embedding.weight[0])
    return encoder.embed_norm(torch.stack(rows))


def twin_kernels(term, graph, i, j):
    """Gaussians of the distance of two atoms with the factor and shift of their pair."""
    typed = term.encoding.kernels
    kind = typed.num_atoms * graph["x"][i, 0] + graph["x"][j, 0]
    far = np.linalg.norm(np.subtract(*graph["pos"][[i, j]].astype(float)))
    far = typed.factor[kind] * far + typed.shift[kind]
    width = typed.kernels.width.abs() + 1e-5
    basis = torch.exp(-(((far - typed.kernels.centre) / width) ** 2) / 2)
    return basis / ((2 * 3.14159) ** 0.5 * width)


def twin_bias(encoder, graph):
    """b + c of Eq. 7, pair by pair, [T, T, H]."""
    n, first, module = len(graph["x"]), num_virtual(encoder), encoder.attn_bias
    dist = hops(graph)
    bond = {(u, v): b for u, v, b in zip(graph["src"], graph["dst"], graph["bond"])}
    bias = torch.zeros(n + first, n + first, HEADS, dtype=torch.float64)
    if first and module.spatial is not None:
        bias[0] = bias[:, 0] = module.virtual.weight[0]
    for i in range(n):
        for j in range(n):
            value = torch.zeros(HEADS, dtype=torch.float64)
            connected = np.isfinite(dist[i, j])
            if module.spatial is not None:
                rows = module.spatial.embedding.weight
                row = min(int(dist[i, j]) + 1, len(rows) - 1) if connected else 0
                value = value + rows[row]
            if isinstance(module.edges, attn_bias_module.PathEncoding):
                if connected and i != j:
                    path = shortest_path(graph, dist, i, j)[: STEPS + 1]
                    for step, edge in enumerate(zip(path, path[1:])):
                        vector = bond_vector(module.edges.bonds, bond[edge])
                        weight = module.edges.weight[step]
                        value = value + vector @ weight / (len(path) - 1)
            elif module.edges is not None and (i, j) in bond:
                value = value + bond_vector(module.edges.bonds, bond[i, j])
            for term in module.further:
                hidden = term.encoding.linear(twin_kernels(term, graph, i, j))
                gelu = hidden * (1 + torch.erf(hidden / 2**0.5)) / 2
                value = value + term.projection.weight @ gelu
            limit = encoder_limit(encoder)
            if limit is not None and (dist[i, j] if connected else 510) >= limit:
                value = torch.full((HEADS,), -math.inf, dtype=torch.float64)
            bias[i + first, j + first] = value
    return bias


def num_virtual(encoder):
    return int(encoder.virtual_node is not None)


def encoder_limit(encoder):
    """`spatial_pos_max` of the test encoder that has one."""
    return 2 if encoder.attn_bias.limited else None


def twin(encoder, graph):
    """Eq. 6-9, row by row and head by head."""
    n, first, width = len(graph["x"]), num_virtual(encoder), DIM // HEADS
    x, bias = twin_input(encoder, graph), twin_bias(encoder, graph)
    bond = {(u, v): b for u, v, b in zip(graph["src"], graph["dst"], graph["bond"])}

    def attend(layer, x):
        q, k, v = layer.attention.qkv_proj(x).chunk(3, dim=-1)
        z = torch.zeros_like(x)
        for i in range(n + first):
            messages = v.clone()
            for j in range(first, n + first):
                pair = i - first, j - first
                if encoder.bond_messages is not None and pair in bond:
                    messages[j] += bond_vector(encoder.bond_messages, bond[pair])
            for h in range(HEADS):
                part = slice(h * width, (h + 1) * width)
                scores = k[:, part] @ q[i, part] / math.sqrt(width) + bias[i, :, h]
                z[i, part] = torch.softmax(scores, 0) @ messages[:, part]
        return layer.attention.out_proj(z)

    for layer in encoder.layers:
        if layer.pre_layernorm:
            x = x + attend(layer, layer.attention_norm(x))
            x = x + layer.fc2(layer.activation(layer.fc1(layer.ffn_norm(x))))
        else:
            x = layer.attention_norm(x + attend(layer, x))
            x = layer.ffn_norm(x + layer.fc2(layer.activation(layer.fc1(x))))
    return encoder.final_norm(x)


@pytest.mark.parametrize("options", ABLATIONS.values(), ids=ABLATIONS)
@torch.no_grad()
def test_equals_the_equations(graphs, options):
    encoder = make_encoder(**options).eval()
    out = encoder(batch_of(encoder, graphs))
    for states, graph in zip(out, graphs):
        n = len(graph["x"]) + num_virtual(encoder)
        assert (states[:n] - twin(encoder, graph)).abs().max() < 1e-10
        assert not states[n:].any()


@pytest.mark.parametrize("columns", [5, 8])
def test_the_bias_of_fused_kernels_is_aligned(columns):
    bias = torch.randn(2, 3, columns, columns)
    aligned = BiasedAttention.aligned(bias)
    assert aligned.equal(bias) and {step % 8 for step in aligned.stride()[:-1]} == {0}
    with torch.autocast("cpu", torch.bfloat16):
        assert BiasedAttention.aligned(bias).dtype == torch.bfloat16


@torch.no_grad()
def test_float32_parts_change_nothing_in_float32_and_float64(graphs):
    for option in ({"float32_softmax": True}, {"activation_fn": "gelu_float32"}):
        plain, option = make_encoder().eval(), make_encoder(**option).eval()
        batch = batch_of(plain, graphs)
        assert torch.equal(plain(batch), option(batch))  # float64
        assert torch.equal(plain.float()(batch), option.float()(batch))


class Precisions(TorchDispatchMode):
    """The types in which softmax and GELU are computed."""

    def __init__(self):
        super().__init__()
        self.types = {"softmax": set(), "gelu": set()}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        for name in self.types:
            if name in str(function):
                self.types[name].add(args[0].dtype)
        return function(*args, **(kwargs or {}))


@torch.no_grad()
@pytest.mark.parametrize(
    "options, part",
    [
        ({"float32_softmax": True}, "softmax"),
        ({"activation_fn": "gelu_float32"}, "gelu"),
    ],
)
def test_float32_parts_are_float32_in_half_precision(graphs, options, part):
    encoder = make_encoder(**options).eval().bfloat16()
    with plain_attention(), Precisions() as precisions:
        out = encoder(batch_of(encoder, graphs))
    types = {"softmax": {torch.bfloat16}, "gelu": {torch.bfloat16}}
    assert out.dtype == torch.bfloat16
    assert precisions.types == types | {part: {torch.float32}}


# Parts


@torch.no_grad()
def test_unreachable_counts_as_510_hops():
    path = undirected_graph(5, [(0, 1), (1, 2), (2, 3)])  # node 4 on its own
    for limit, forbidden in ((510, 8), (511, 0)):
        encoder = make_encoder(spatial_pos_max=limit)
        bias = encoder.attn_bias(batch_of(encoder, [path]))[0, 0]
        assert (bias < -1000).sum() == forbidden


def test_a_path_of_300_nodes_is_far():
    n = 300
    dist = np.abs(np.arange(n)[:, None] - np.arange(n)).clip(max=FAR)
    batch = {
        "dist": torch.from_numpy(dist[None].astype(np.uint8)),
        "node_mask": torch.ones(1, n, dtype=torch.bool),
    }
    bias = make_encoder(edge_type="none").attn_bias(batch)[0, :, 1, 1:]
    rows = make_encoder(edge_type="none").attn_bias.spatial.embedding.weight
    assert torch.equal(bias[:, 253], rows[254]) and torch.equal(bias[:, 254], rows[511])
    assert torch.equal(bias[:, 299], rows[511])


def test_embedding_sum_and_its_gradient():
    torch.manual_seed(0)
    table = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    rows = torch.randint(0, 5, (2, 4, 6))
    out = embedding_sum(table, rows)
    assert torch.allclose(out, table[rows].sum(2))
    assert torch.autograd.gradcheck(lambda t: embedding_sum(t, rows), (table,))


def test_both_backward_passes_of_an_embedding_sum():
    torch.manual_seed(0)
    rows = torch.randint(0, 5, (24, 6), dtype=torch.int32)
    grad = torch.randn(24, 3, dtype=torch.float64)
    twin = torch.zeros(5, 3, dtype=torch.float64)
    for looked_up, of_grad in zip(rows, grad):
        for row in looked_up:
            twin[row] += of_grad
    gpu = [_counted_row_sums(rows, grad, 5, most) for most in (1, 35, 2**24)]
    for total in (_row_sums(rows, grad, 5), *gpu):
        assert torch.allclose(total, twin, rtol=0, atol=1e-12)


def test_path_bias_makes_no_tensor_per_step_and_head():
    """Largest tensor of the forward and backward pass at B 16, N 24, L 5, H 32."""
    rng = np.random.default_rng(0)
    big = [random_graph(rng, 24, 0.1, BOND_TYPES) for _ in range(16)]
    sizes = {"encoder_attention_heads": 32, "encoder_embed_dim": 32}
    encoder = make_encoder(**sizes, encoder_layers=1).float()
    batch = collate(big, encoder.required_fields, BOND_TYPES, path_length=STEPS)
    sizes = []

    class Largest(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor):
                sizes.append(out.untyped_storage().nbytes())
            return out

    with Largest():
        encoder.attn_bias(batch).sum().backward()
    pairs, naive = 16 * 25 * 25, 16 * 24 * 24 * STEPS * 32 * 4
    assert max(sizes) <= pairs * 32 * 4 < naive


def test_batches_that_do_not_fit(graphs):
    encoder = make_encoder()
    batch = collate(graphs, encoder.required_fields, BOND_TYPES, path_length=STEPS + 1)
    with pytest.raises(ValueError, match="path_bond has 4 steps, expected 3"):
        encoder(batch)
