"""Convolutions and layers of the baselines next to their formulas, node by node."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.modules.encoders.message_passing import (
    CONVOLUTIONS,
    MessagePassingEncoder,
    MessagePassingEncoderConfig,
)
from graphormer_plugin.modules.layers.edge_statistics import scatter_max

SCHEMA = FeatureSchema(2, [7, 3], [3, 2])
OPTIONS = {
    "gin": {"hidden_dim": 6},
    "gine": {"hidden_dim": 6},
    "gat": {"num_heads": 4},
    "gat_bonds": {"num_heads": 4},
    "pna": {"edge_dim": 5, "num_towers": 4, "mean_log_degree": 0.8},
    "pna_simple": {"mean_log_degree": 0.8},
    "mpnn": {"edge_dim": 5, "num_towers": 4},
}
CASES = [(conv, OPTIONS.get(conv, {})) for conv in CONVOLUTIONS]
CASES += [
    ("pna", {**OPTIONS["pna"], "edge_dim": 0}),
    ("pna", {**OPTIONS["pna"], "aggregators": ["std", "sum", "min"]}),
]
NAMES = [f"{conv}-{number}" for number, (conv, _) in enumerate(CASES)]
SIZES = [5, 1, 4]  # sizes of the graphs; the second has no edges
EDGES = [(0, 1), (1, 0), (0, 2), (2, 0), (3, 2), (1, 2), (1, 2), (6, 7), (7, 6), (8, 9)]


def make_encoder(conv, options, **more):
    torch.manual_seed(0)
    config = MessagePassingEncoderConfig(3, 8, **more)
    encoder = MessagePassingEncoder(conv, SCHEMA, config, **options).double()
    for parameter in encoder.parameters():  # none is as it started, e.g. zero
        parameter.data.add_(0.2 * torch.randn_like(parameter))
    return encoder


def make_batch():
    """Flat fields, and the padded ones of the encoder. Node 4 has no edges, nodes 3 and
    8 none that arrive, and nodes 1 and 2 two in parallel."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.integers(0, SCHEMA.node_dims, (sum(SIZES), 2)))
    graph = torch.repeat_interleave(torch.arange(3), torch.tensor(SIZES))
    mask = torch.arange(max(SIZES)) < torch.tensor(SIZES).unsqueeze(1)
    padded = torch.zeros(*mask.shape, 2, dtype=torch.long)
    padded[mask] = x
    bond = torch.from_numpy(rng.integers(1, SCHEMA.num_bond_types + 1, len(EDGES)))
    return {
        "x": padded,
        "node_mask": mask,
        "node_graph": graph,
        "edge_index": torch.tensor(EDGES).T.contiguous(),
        "edge_bond": bond.to(torch.uint8),
    }


def bond_vectors(bonds, types):
    """Sum of the vectors of the columns."""
    columns = torch.from_numpy(SCHEMA.bond_columns())[types.long()].long()
    return sum(
        bonds.embedding.weight[columns[:, column] + sum(SCHEMA.bond_dims[:column])]
        for column in range(columns.shape[1])
    )


def batch_norm(norm, x):
    mean, variance = x.mean(0), x.var(0, unbiased=False)
    return (x - mean) / (variance + 1e-5).sqrt() * norm.weight + norm.bias


def stack(function, count):
    return torch.stack([function(i) for i in range(count)])


def total(terms, like):
    return sum(terms, torch.zeros_like(like))


def naive(kind, module, x, vectors, state, sizes, options, last, residual):
    """What a convolution gives, and the new state of the edges."""
    arrive = {i: [] for i in range(len(x))}  # (source, number of the edge)
    leave = [0] * len(x)
    for number, (j, i) in enumerate(EDGES):
        arrive[i].append((j, number))
        leave[j] += 1
    if kind == "gcn":
        linear = module.conv.lin_l

        def node(i):
            return total([x[j] for j, _ in arrive[i]], x[0]) / max(len(arrive[i]), 1)

        return linear(stack(node, len(x))), state
    if kind == "gcn_symmetric":
        h = module.conv.lin(x)
        others = {i: [j for j, _ in arrive[i] if j != i] for i in arrive}

        def node(i):
            roots = {j: (len(others[j]) + 1) ** 0.5 for j in others}
            terms = [h[j] / roots[j] for j in (i, *others[i])]
            return total(terms, h[0]) / roots[i] + module.conv.bias

        return stack(node, len(x)), state
    if kind == "gcn_bonds":
        h = module.linear(x)

        def node(i):
            d_i = leave[i] + 1
            terms = [
                (h[j] + vectors[e]).relu() / (d_i * (leave[j] + 1)) ** 0.5
                for j, e in arrive[i]
            ]
            return total(terms, h[0]) + (h[i] + module.root).relu() / d_i

        return stack(node, len(x)), state
    if kind in ("gin", "gine"):
        conv = module.conv

        def node(i):
            terms = [
                x[j] if kind == "gin" else (x[j] + vectors[e]).relu()
                for j, e in arrive[i]
            ]
            return (1 + conv.eps) * x[i] + total(terms, x[0])

        first, norm, _, second = conv.nn
        return second(batch_norm(norm, first(stack(node, len(x)))).relu()), state
    if kind in ("gat", "gat_bonds"):
        conv = module.conv
        heads = 1 if last else options["num_heads"]
        h = (x @ conv.lin.weight.T).view(len(x), heads, -1)
        source, target = (h * conv.att_src).sum(-1), (h * conv.att_dst).sum(-1)

        def node(i):
            if not arrive[i]:
                return torch.zeros_like(x[0])
            scores = []
            for j, e in arrive[i]:
                score = source[j] + target[i]
                if kind == "gat_bonds":
                    edge = (vectors[e] @ conv.lin_edge.weight.T).view(heads, -1)
                    score = score + (edge * conv.att_edge[0]).sum(-1)
                scores.append(F.leaky_relu(score, 0.2))
            weights = torch.stack(scores).softmax(0).unsqueeze(-1)
            messages = torch.stack([h[j] for j, _ in arrive[i]])
            return (weights * messages).sum(0).flatten()

        return stack(node, len(x)), state
    if kind == "graphsage":
        conv = module.conv
        h = conv.lin(x).relu()

        def node(i):
            largest = torch.zeros_like(h[0])
            if arrive[i]:
                largest = torch.stack([h[j] for j, _ in arrive[i]]).amax(0)
            out = conv.lin_l(largest) + conv.lin_r(x[i])
            return out / out.norm()

        return stack(node, len(x)), state
    if kind == "gatedgcn":

        def edge(e):
            source, target = EDGES[e]
            ends = module.source(x[source]) + module.target(x[target])
            return module.edge(state[e]) + ends

        raw = stack(edge, len(EDGES))
        gate = 1 / (1 + (-raw).exp())

        def node(i):
            messages = [gate[e] * module.neighbour(x[j]) for j, e in arrive[i]]
            above = total(messages, x[0])
            below = total([gate[e] for _, e in arrive[i]], x[0]) + 1e-6
            return module.own(x[i]) + above / below

        if not last:
            new = batch_norm(module.norm, raw).relu()
            state = state + new if residual else new
        return stack(node, len(x)), state
    assert kind in ("pna", "pna_simple", "mpnn")
    simple = kind == "pna_simple"
    towers = 1 if simple else module.num_towers
    width = x.shape[1] // towers
    aggregators = options.get("aggregators", ["mean", "max", "min", "std"])
    aggregators = ["sum"] if kind == "mpnn" else aggregators

    def tower(t):
        h = x[:, t * width : (t + 1) * width]

        def node(i):
            found = [torch.zeros(width).double()] * len(aggregators)
            if arrive[i]:
                messages = []
                for j, e in arrive[i]:
                    if simple:
                        messages.append(h[j])
                        continue
                    message = h[j] @ module.source[t] + h[i] @ module.target[t]
                    if options["edge_dim"]:
                        message = message + vectors[e] @ module.edge[t]
                    messages.append(message + module.bias[t])
                messages = torch.stack(messages)
                values = {
                    "mean": messages.mean(0),
                    "max": messages.amax(0),
                    "min": messages.amin(0),
                    "std": (messages.var(0, unbiased=False) + 1e-5).sqrt(),
                    "sum": messages.sum(0),
                }
                found = [values[name] for name in aggregators]
            found = torch.cat(found)
            log = math.log(max(len(arrive[i]), 1) + 1) / module.mean_log_degree.item()
            scales = {"identity": 1, "amplification": log, "attenuation": 1 / log}
            scaled = [found * scales[name] for name in module.scalers]
            if simple:
                return module.post(torch.cat(scaled))
            out = torch.cat([h[i], *scaled]) @ module.post[t] + module.post_bias[t]
            return out / sizes[i] ** 0.5

        return stack(node, len(x))

    parts = [tower(t) for t in range(towers)]
    if simple:
        return parts[0], state
    out = batch_norm(module.norm, torch.cat(parts, 1))
    return F.leaky_relu(module.mix(out), 0.01), state


def twin(encoder, conv, options, batch, virtual=False, linear=False, residual=True):
    """The encoder in training, node by node; padding left out."""
    mask, graph = batch["node_mask"], batch["node_graph"]
    columns = batch["x"][mask]
    table = encoder.node_encoder.embedding.weight
    x = table[columns[:, 0]] + table[columns[:, 1] + SCHEMA.node_dims[0]]
    shared = state = None
    if encoder.bonds is not None:
        shared = state = bond_vectors(encoder.bonds, batch["edge_bond"])
    virtual = encoder.virtual_node.weight.repeat(len(mask), 1) if virtual else None
    sizes = torch.tensor(SIZES).double()[graph]
    found = [x]
    for number, layer in enumerate(encoder.layers):
        last = number == len(encoder.layers) - 1
        if virtual is not None:
            x = torch.stack([x[i] + virtual[graph[i]] for i in range(len(x))])
        own = getattr(layer.convolution, "bonds", None)
        vectors = shared if own is None else bond_vectors(own, batch["edge_bond"])
        out, state = naive(
            conv, layer.convolution, x, vectors, state, sizes, options, last, residual
        )
        if conv == "graphsage":
            out = batch_norm(layer.norm, out if linear and last else out.relu())
        elif conv not in ("pna", "mpnn"):
            out = batch_norm(layer.norm, out)
            if not (linear and last):
                out = F.elu(out) if conv in ("gat", "gat_bonds") else out.relu()
        if virtual is not None and not last:
            steps = layer.virtual_update
            sums = [x[graph == g].sum(0) + virtual[g] for g in range(len(mask))]
            sums = torch.stack(sums)
            update = batch_norm(steps[1], steps[0](sums)).relu()
            update = batch_norm(steps[4], steps[3](update)).relu()
            virtual = virtual + update if residual else update
        x = x + out if residual else out
        found.append(x)
    return found


@pytest.mark.parametrize("virtual_node", [False, True])
@pytest.mark.parametrize(
    "linear, residual", [(False, True), (True, True), (False, False)]
)
@pytest.mark.parametrize("conv, options", CASES, ids=NAMES)
def test_equals_the_formulas(conv, options, linear, residual, virtual_node):
    more = {"virtual_node": virtual_node, "linear_last_layer": linear}
    encoder = make_encoder(conv, options, no_residual=not residual, **more)
    batch = make_batch()
    wanted = twin(encoder, conv, options, batch, virtual_node, linear, residual)
    out = encoder(batch)
    mask = batch["node_mask"]
    assert (out[mask] - wanted[-1]).abs().max() < 1e-10
    assert (out[~mask] == 0).all()
    assert (encoder.all_layers(batch)[mask] - torch.cat(wanted, 1)).abs().max() < 1e-10


@pytest.mark.parametrize("conv, options", CASES, ids=NAMES)
def test_gradients_equal_those_of_the_formulas(conv, options):
    encoder = make_encoder(conv, options)
    batch = make_batch()
    mask = batch["node_mask"]
    weight = torch.randn(int(mask.sum()), 8, dtype=torch.float64)
    names, parameters = zip(*encoder.named_parameters())
    ours = torch.autograd.grad((encoder(batch)[mask] * weight).sum(), parameters)
    loss = (twin(encoder, conv, options, batch)[-1] * weight).sum()
    for name, grad, wanted in zip(names, ours, torch.autograd.grad(loss, parameters)):
        assert (grad - wanted).abs().max() < 1e-9 * (1 + wanted.abs().max()), name


def test_largest_rows():
    torch.manual_seed(0)
    values = torch.randint(0, 3, (20, 2)).double().requires_grad_()  # with ties
    index = torch.randint(0, 5, (20,))
    out = scatter_max(values, index, 6)
    weight = torch.randn_like(out)
    (grad,) = torch.autograd.grad((out * weight).sum(), values)
    assert (out[5] == 0).all()
    for target in range(5):
        rows = values[index == target].detach()
        best = rows.amax(0)
        assert out[target].equal(best)
        hit = (rows == best).double()
        share = hit * weight[target] / hit.sum(0)
        assert (grad[index == target] - share).abs().max() < 1e-12


def spread(weight):
    return weight.mean().item(), weight.std().item(), weight.abs().max().item()


UNIFORM = 120**-0.5  # torch's default for 120 inputs


# Uniform +-bound unless a standard deviation is given. Source: benchmarking-gnns
# (layers/*.py, torch's defaults), DGL (GATConv.reset_parameters), PNA (models/layers.py,
# FCLayer.reset_parameters), OGB (conv.py, mol_encoder.py).
@pytest.mark.parametrize(
    "conv, options, facts",
    [
        ("gcn", {}, {"conv.lin_l.weight": UNIFORM, "conv.lin_l.bias": UNIFORM}),
        (
            *("gin", {"hidden_dim": 100}),
            {"conv.nn.0.weight": UNIFORM, "conv.nn.3.weight": 0.1},
        ),
        (
            *("gat", {"num_heads": 4}),
            {"conv.lin.weight": ("normal", (2 * 2 / 240) ** 0.5)}
            | {
                f"conv.att_{end}": ("normal", (4 / 150) ** 0.5)
                for end in ("src", "dst")
            },
        ),
        (
            *("graphsage", {}),
            {"conv.lin.weight": UNIFORM, "conv.lin_l.bias": 240**-0.5}
            | {f"conv.lin_{end}.weight": 240**-0.5 for end in "lr"},
        ),
        (
            *("gatedgcn", {}),
            dict.fromkeys(
                "own.weight neighbour.weight edge.weight source.weight "
                "target.weight".split(),
                UNIFORM,
            ),
        ),
        (
            *("pna", {"edge_dim": 40, "num_towers": 4}),
            dict.fromkeys(("source", "target", "edge"), (6 / 130) ** 0.5 / 100)
            | {"post": (6 / 420) ** 0.5 / 390, "mix.weight": (6 / 240) ** 0.5 / 120}
            | dict.fromkeys(("bias", "post_bias", "mix.bias"), 0),
        ),
        ("pna_simple", {}, {"post.weight": (6 / 1560) ** 0.5 / 1440, "post.bias": 0}),
        ("gcn_bonds", {}, {"linear.weight": UNIFORM, "root": ("normal", 1)}),
    ],
)
def test_starts(conv, options, facts):
    torch.manual_seed(0)
    config = MessagePassingEncoderConfig(2, 120)
    encoder = MessagePassingEncoder(conv, SCHEMA, config, **options)
    parameters = dict(encoder.layers[0].convolution.named_parameters())
    for name, fact in facts.items():
        mean, deviation, largest = spread(parameters[name])
        if isinstance(fact, tuple):
            wanted, tolerance = fact[1], 4 / parameters[name].numel() ** 0.5
            assert largest > 2 * wanted, name  # not uniform
        else:
            wanted, tolerance = fact / 3**0.5, 3 / parameters[name].numel() ** 0.5
            assert largest <= fact, name
        assert abs(deviation - wanted) <= tolerance * wanted, name
        assert abs(mean) <= tolerance * wanted, name


@pytest.mark.parametrize("xavier", [False, True])
def test_start_of_the_tables(xavier):
    """torch's N(0, 1), or OGB's, for each column by itself."""
    torch.manual_seed(0)
    config = MessagePassingEncoderConfig(2, 400, xavier_embeddings=xavier)
    encoder = MessagePassingEncoder("gine", SCHEMA, config, hidden_dim=8)
    tables = [(encoder.node_encoder, SCHEMA.node_dims)]
    tables += [(encoder.layers[1].convolution.bonds, SCHEMA.bond_dims)]
    for module, dims in tables:
        for part, rows in zip(module.embedding.weight.split(dims), dims):
            bound = (6 / (rows + 400)) ** 0.5
            wanted = bound / 3**0.5 if xavier else 1
            assert part.std().item() == pytest.approx(wanted, rel=0.1)
            assert not xavier or 0.98 * bound < part.abs().max() <= bound
