"""GRIT: the released code's layers, outputs, gradients and running statistics."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.models import build_model
from graphormer_plugin.modules import plain_attention
from graphormer_plugin.modules.encoders.grit import (
    GRITEncoderConfig,
    GRITLayer,
    PairStateAttention,
    signed_root,
)
from graphormer_plugin.modules.layers.sparse import NodeLayout
from support.architectures import OGB, ZINC, num_weights, tiny_model
from support.golden import golden_of, golden_state

LAYER = {
    "attention.Q": "attention.query",
    "attention.K": "attention.key",
    "attention.V": "attention.value",
    "attention.E": "attention.pair",
    "O_h": "out_proj",
    "O_e": "pair_proj",
    "batch_norm1_h": "attention_norm",
    "batch_norm1_e": "pair_norm",
    "batch_norm2_h": "ffn_norm",
    "FFN_h_layer1": "fc1",
    "FFN_h_layer2": "fc2",
}
ENCODERS = {
    "encoder.node_encoder.encoder": "encoder.node_encoder.embedding",
    "encoder.edge_encoder.encoder": "encoder.bonds.embedding",
    "rrwp_abs_encoder.fc": "encoder.node_walks",
    "rrwp_rel_encoder.fc": "encoder.pair_walks",
}
SETTINGS = {"grit_zinc": {"head_style": "mlp", "walk_steps": 21, "readout": "sum"}}
SETTINGS["grit_peptides_func"] = {
    "head_style": "linear",
    "walk_steps": 17,
    "readout": "mean",
}


def translated(weights):
    """Released names and shapes -> ours; without the last layer's update of pairs."""
    new, tables = {}, {}
    for name, weight in weights.items():
        weight = weight.double()
        module, _, kind = name.rpartition(".")
        if kind == "num_batches_tracked" or module == "rrwp_rel_encoder":
            continue  # the padding of pairs, which is zero
        if "_embedding_list." in module:  # OGB's tables of the columns
            encoder, _, column = module.rpartition(".")
            kind = "node_encoder" if "node" in encoder or "atom" in encoder else "bonds"
            tables.setdefault(kind, {})[int(column)] = weight
        elif module in ENCODERS:
            new[f"{ENCODERS[module]}.{kind}"] = weight
        elif module.startswith("post_mp"):
            new[f"post_mp/{module}.{kind}"] = weight
        else:
            _, number, rest = name.split(".", 2)
            layer = f"encoder.layers.{number}"
            if number == "2" and rest.startswith(("O_e", "batch_norm1_e")):
                continue
            if rest == "attention.Aw":
                new[f"{layer}.attention.score"] = weight.squeeze(-1).T
            elif rest == "attention.VeRow":
                new[f"{layer}.attention.pair_value"] = weight.permute(1, 0, 2)
            elif rest == "deg_coef":
                new[f"{layer}.degree_scale"] = weight[0].T
            else:
                part, _, kind = rest.rpartition(".")
                new[f"{layer}.{LAYER[part]}.{kind}"] = weight
    for kind, parts in tables.items():
        table = torch.cat([parts[column] for column in sorted(parts)])
        new[f"encoder.{kind}.embedding.weight"] = table
    heads = sorted(name for name in new if name.startswith("post_mp/"))
    modules = list(dict.fromkeys(name.rpartition(".")[0] for name in heads))
    for position, module in enumerate(modules):
        last = position == len(modules) - 1
        ours = "head.projection" if last else f"head.hidden.{2 * position}"
        if len(modules) == 1:
            ours = "head"
        for kind in ("weight", "bias"):
            new[f"{ours}.{kind}"] = new.pop(f"{module}.{kind}")
    return new


@pytest.fixture(params=SETTINGS)
def golden(request):
    """A golden file, its model in float64, and its batch."""
    name = request.param
    archive = golden_of(request, name)
    schema = FeatureSchema(1, [21], [4]) if name == "grit_zinc" else OGB
    model = build_model(
        "grit",
        schema,
        TargetSchema.of(["a", "b"]),
        encoder_layers=3,
        encoder_embed_dim=32,
        encoder_attention_heads=4,
        attention_dropout=0.0,
        **SETTINGS[name],
    ).double()
    model.load_state_dict(translated(golden_state(archive)))
    return archive, model.eval(), batch_of(archive, schema)


def batch_of(archive, schema):
    graph = torch.from_numpy(archive["batch"]).long()
    sizes = graph.bincount()
    mask = torch.arange(int(sizes.max())) < sizes[:, None]
    values = torch.from_numpy(archive["x"]).long()
    x = torch.zeros(*mask.shape, values.shape[1], dtype=torch.long)
    x[mask] = values
    source, target = torch.from_numpy(archive["edge_index"]).long()
    local = torch.arange(len(graph)) - (sizes.cumsum(0) - sizes)[graph]
    types = torch.as_tensor(np.asarray(schema.bond_columns()))
    columns = torch.from_numpy(archive["edge_attr"]).long().view(len(source), -1)
    number = (types[None] == columns[:, None]).all(-1).long().argmax(1)
    bond = torch.zeros(*mask.shape, mask.shape[1], dtype=torch.long)
    bond[graph[source], local[source], local[target]] = number
    return {"x": x, "node_mask": mask, "node_graph": graph, "bond": bond}


def same(found, expected, atol=1e-11):
    expected = torch.as_tensor(expected).to(found.dtype)
    torch.testing.assert_close(found, expected, rtol=0, atol=atol)


def test_equals_the_published_implementation(golden):
    archive, model, batch = golden
    mask = batch["node_mask"]
    walks = model.encoder.walks(batch["bond"]).diagonal(dim1=1, dim2=2).mT[mask]
    same(walks, archive["rrwp"])
    layers = []
    for layer in model.encoder.layers:
        layer.register_forward_hook(lambda _, inputs, out: layers.append((inputs, out)))
    output = model(batch)
    same(output, archive["output"])
    (first, after), *_, (_, last) = layers
    same(first[0], archive["x_after_encoders"])
    same(after[0], archive["x_after_layer_1"])
    same(last[0], archive["x_after_layers"])
    # Theirs are sorted by graph and sender, ours by receiver.
    sender, receiver = first[2]
    theirs = torch.from_numpy(archive["pair_index"]).long()
    place = {pair: row for row, pair in enumerate(zip(*first[2].tolist(), strict=True))}
    assert len(place) == theirs.shape[1] and len(sender) == len(receiver)
    rows = archive["pair_rows"].tolist()
    ours = [place[tuple(theirs[:, row].tolist())] for row in rows]
    same(first[1][ours], archive["pair_after_encoders"], 1e-6)  # kept as float32
    same(after[1][ours], archive["pair_after_layer_1"], 1e-5)

    (output * torch.from_numpy(archive["weight"])).sum().backward()
    gradients = golden_state(archive, "grad/")
    weights = dict(model.named_parameters())
    compared = 0
    for name, expected in translated(gradients).items():
        scale = expected.abs().max().clamp(min=1e-3)
        same(weights[name].grad / scale, expected / scale, 1e-5)
        compared += 1
    assert compared > 30


def test_a_training_step_equals_the_published_one(golden):
    """BatchNorm by the batch, over true pairs, and its running statistics. The file has these
    to 1/256, so that a step of 0.1 may differ by a tenth of half of it."""
    archive, model, batch = golden
    same(model.train()(batch), archive["output_training"])
    norms = {"1_h": "attention_norm", "1_e": "pair_norm", "2_h": "ffn_norm"}
    layer = model.encoder.layers[0]
    for theirs, ours in norms.items():
        for kind in ("running_mean", "running_var"):
            key = f"after_training_step/layers.0.batch_norm{theirs}.{kind}"
            same(getattr(getattr(layer, ours), kind), archive[key], 0.1 / 512)


def test_number_of_weights():
    """The released networks also update pairs in the last layer, where nothing reads them, and
    have ZINC's 21 types of atoms."""
    zinc = FeatureSchema(1, [21], ZINC.bond_dims)
    unused = 64 * 64 + 3 * 64
    assert num_weights("grit_zinc", zinc, TargetSchema.of(["y"])) + unused == 473_473
    targets = TargetSchema.of([f"t{number}" for number in range(10)])
    unused = 96 * 96 + 3 * 96
    assert num_weights("grit_peptides_func", OGB, targets) + unused == 443_434
    unused = 256 * 256 + 3 * 256 - 2 * 16 * 256  # its config lacks the walks
    targets = TargetSchema.of(["y"])
    assert num_weights("grit_pcqm4mv2", OGB, targets) + unused == 11_824_129


def test_bonds_lead_from_the_sender_to_the_receiver():
    """The directed bond 0 -> 1 is in the state of this pair alone, and in the degree of 0."""
    model = tiny_model("grit_zinc")
    torch.nn.init.zeros_(model.encoder.pair_walks.weight)
    seen = []
    model.encoder.layers[0].register_forward_pre_hook(lambda _, args: seen.append(args))
    zeros = torch.zeros(1, 2, dtype=torch.long)
    batch = {"x": torch.stack([zeros, zeros], -1), "node_graph": zeros[0]}
    model(batch | {"node_mask": zeros == 0, "bond": torch.tensor([[[0, 1], [0, 0]]])})
    ((_, e, pairs, _, log_degree),) = seen
    assert pairs[:, e.abs().sum(1) > 0].tolist() == [[0], [1]]
    assert log_degree.exp().flatten().tolist() == pytest.approx([2, 1])


def test_starts_and_dropout_are_the_released_ones():
    """Xavier-normal in the shapes there; dropout of o and t, and none behind the feed-forward
    network."""
    torch.manual_seed(0)
    config = GRITEncoderConfig(encoder_embed_dim=512, dropout=0.9)
    layer = GRITLayer(config, last=False)
    for start, fans in (
        (layer.attention.score, 8 + 64),
        (layer.attention.pair_value, 8 * 64 + 64 * 64),
        (layer.degree_scale, 2 + 2 * 512),
    ):
        assert start.std().item() == pytest.approx((2 / fans) ** 0.5, rel=0.1)
    layer.attention_norm = layer.ffn_norm = torch.nn.Identity()
    seen = []
    for part in (layer.out_proj, layer.pair_proj):
        part.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    for part in (layer.out_proj, layer.fc1, layer.fc2):
        torch.nn.init.zeros_(part.weight)
        torch.nn.init.constant_(part.bias, part is layer.fc2)
    one = NodeLayout(torch.tensor([[True]]), torch.tensor([0]))
    x, pairs = torch.zeros(1, 512), torch.zeros(2, 1, dtype=torch.long)
    assert (layer(x, x, pairs, one, torch.zeros(1, 1))[0] == 1).all()
    assert all(0.8 < (vectors == 0).float().mean() < 1 for vectors in seen)


def test_the_root_has_a_finite_gradient_at_zero():
    x = torch.tensor([-4.0, 0, 9], dtype=torch.float64, requires_grad=True)
    root = signed_root(x)
    root.sum().backward()
    assert root.tolist() == [-2, 0, 3]
    assert x.grad.tolist() == pytest.approx([0.25, 0, 1 / 6])


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_compiled_attention_equals_the_formula(dropout):
    """Results, gradients and second derivatives, with the same mask from the same seed."""
    layout = NodeLayout(
        torch.tensor([[True, True, True], [True, True, False]]),
        torch.tensor([0, 0, 0, 1, 1]),
    )
    torch.manual_seed(0)
    attention = PairStateAttention(16, 2, dropout)
    x, e = torch.randn(5, 16), torch.randn(13, 16)
    pairs = layout.all_pairs(loops=True)

    def derivatives():
        torch.manual_seed(1)
        inputs = [x.requires_grad_(), e.requires_grad_()]
        out, t = attention(*inputs, pairs, layout)
        loss = (out * out).sum() + t.sum()
        weights = [*inputs, *attention.parameters()]
        first = torch.autograd.grad(loss, weights, retain_graph=True)
        slope = torch.autograd.grad(loss, x, create_graph=True)[0]
        return [out, t, *first, *torch.autograd.grad(slope.sum(), weights[:4])]

    with plain_attention(False):
        found = derivatives()
    with plain_attention():
        expected = derivatives()
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, rtol=1e-4, atol=1e-4)
