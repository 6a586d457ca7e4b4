"""TokenGT: the released code's outputs, its tokens, and identifiers."""

import json

import numpy as np
import pytest
import torch

from graphormer_plugin.data.batches.fields.laplacian import laplacian_eigenvectors
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.models import build_model
from graphormer_plugin.modules.encoders.tokengt import (
    DEEPEST_DROP,
    LaplacianIdentifiers,
    RandomIdentifiers,
    StochasticDepth,
)
from graphormer_plugin.published._shared import columns_of
from support.architectures import OGB, make_batch, num_weights, tiny_model
from support.golden import golden_of, golden_state, load_golden

NAMES = {
    "null_token": "null",
    "order_encoder": "types",
    "lap_encoder": "identify",
    "orf_encoder": "identify",
    "graph_token": "virtual_node.embedding",
}
HEAD = {
    "lm_head_transform_weight": "transform",
    "layer_norm": "norm",
    "embed_out": "projection",
}
UNUSED = ("masked_lm_pooler", "graph_encoder.final_layer_norm")  # by the released code


def released(archive):
    """The model of a golden file in float64, with its weights."""
    config = json.loads(str(archive["config"]))
    names = "encoder_embed_dim encoder_layers encoder_attention_heads".split()
    names += (
        "encoder_ffn_embed_dim prenorm lap_node_id lap_node_id_k orf_node_id".split()
    )
    names += "orf_node_id_dim type_id num_atoms num_edges stochastic_depth".split()
    options = {name: config[name] for name in names}
    model = build_model("tokengt", OGB, TargetSchema.of(["y"]), **options).double()
    new = {}
    for name, weight in golden_state(archive).items():
        name, weight = name.removeprefix("encoder."), weight.double()
        if name.startswith(UNUSED):
            continue
        if name == "lm_output_learned_bias":
            new["head.bias"] = weight
            continue
        module, _, kind = name.rpartition(".")
        if module in HEAD:
            new[f"head.{HEAD[module]}.{kind}"] = weight
            continue
        module = module.removeprefix("graph_encoder.").removeprefix("graph_feature.")
        columns = {"atom_encoder": 9, "edge_encoder": 3}
        if module in columns:
            ours = {"atom_encoder": "node_encoder", "edge_encoder": "edge_encoder"}
            table = columns_of(weight, 2, columns[module])
            new[f"encoder.{ours[module]}.embedding.weight"] = table
            continue
        module = module.replace("self_attn_layer_norm", "attention_norm")
        module = module.replace("final_layer_norm", "ffn_norm")
        module = module.replace("feedforward.", "").replace("self_attn.", "attention.")
        module = NAMES.get(module, module).replace("emb_layer_norm", "embed_norm")
        new[f"encoder.{module}.{kind}"] = weight
    for name in [name for name in new if ".q_proj." in name]:
        parts = [new.pop(name.replace("q_proj", f"{part}_proj")) for part in "qkv"]
        new[name.replace("q_proj", "qkv_proj")] = torch.cat(parts)
    model.load_state_dict(new)
    return model.eval()


def golden_batch(archive):
    """Its graphs as a batch; its columns are shifted by 1 + 512 c and by 1."""
    sizes = torch.from_numpy(archive["input/node_num"])
    edges = torch.from_numpy(archive["input/edge_num"])
    graph = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
    mask = torch.arange(int(sizes.max())) < sizes[:, None]
    first = 2 + 512 * torch.arange(9)
    x = torch.zeros(*mask.shape, 9, dtype=torch.long)
    x[mask] = torch.from_numpy(archive["input/node_data"]).long() - first
    offset = torch.repeat_interleave(sizes.cumsum(0) - sizes, edges)
    index = torch.from_numpy(archive["input/edge_index"]).long()
    if index.max() < sizes.max():  # numbers within a graph
        index = index + offset
    values = torch.from_numpy(archive["input/edge_data"]).long()
    values = values - first[:3]
    types = torch.as_tensor(np.asarray(OGB.bond_columns()))
    bond = (types[None] == values[:, None]).all(-1).long().argmax(1)
    return {
        "x": x,
        "node_mask": mask,
        "node_graph": graph,
        "edge_index": index,
        "edge_bond": bond,
    }


@pytest.mark.parametrize("name", ["lap", "orf", "orf_narrow", "ablated"])
def test_equals_the_published_implementation(name, request):
    """With the identifiers of the golden file: tokens, states of the graph token, outputs, and
    gradients of a weight of each kind."""
    archive = golden_of(request, f"tokengt_{name}")
    model, batch = released(archive), golden_batch(archive)
    if model.encoder.identifiers is not None:
        mask = batch["node_mask"]
        given = torch.from_numpy(archive["node_identifiers"])
        identifiers = torch.zeros(*mask.shape, given.shape[1], dtype=torch.float64)
        identifiers[mask] = given.double()
        model.encoder.identifiers.forward = lambda batch: identifiers
    with torch.no_grad():
        tokens, mask = model.encoder.tokens(batch, None)
    for row, n in enumerate(
        archive["input/node_num"].tolist()
    ):  # null comes second there
        theirs = torch.tensor([0, n + 1, *range(1, n + 1)])
        tokens[row, : n + 2] = tokens[row, theirs]
    first = torch.from_numpy(archive["tokens_first_12"])
    real = mask[:, :12].unsqueeze(-1)
    torch.testing.assert_close(tokens[:, :12] * real, first * real, rtol=0, atol=1e-12)
    assert np.array_equal((~mask).numpy(), archive["padding_mask"])

    states = []
    for layer in model.encoder.layers:
        layer.register_forward_hook(lambda _, inputs, out: states.append((inputs, out)))
    output = model(batch)
    expected = torch.from_numpy(archive["output"])
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-12)
    graph_token = torch.stack([states[0][0][0][:, 0], *(x[:, 0] for _, x in states)])
    expected = torch.from_numpy(archive["graph_token_states"])
    torch.testing.assert_close(graph_token, expected, rtol=0, atol=1e-12)

    weight = torch.from_numpy(archive["grad_weight"]).view(output.shape)
    (output * weight).sum().backward()
    encoder, ours = model.encoder, model.encoder.layers[0]
    gradients = {
        "layers.0.feedforward.fc1.weight": ours.fc1.weight,
        "layers.0.self_attn.out_proj.weight": ours.attention.out_proj.weight,
        "layers.0.final_layer_norm.bias": ours.ffn_norm.bias,
        "graph_feature.null_token.weight": encoder.null.weight,
    }
    if encoder.identifiers is not None:
        kind = "lap" if name == "lap" else "orf"
        gradients[f"graph_feature.{kind}_encoder.weight"] = encoder.identify.weight
        gradients["graph_feature.order_encoder.weight"] = encoder.types.weight
    for theirs, weight in gradients.items():
        expected = torch.from_numpy(archive[f"grad/encoder.graph_encoder.{theirs}"])
        torch.testing.assert_close(
            weight.grad, expected.to(weight.dtype), rtol=1e-6, atol=1e-10
        )


def test_number_of_weights():
    """The released networks have unused weights besides: a pooler and a LayerNorm."""
    unused = 768 * 768 + 768 + 2 * 768
    targets = TargetSchema.of(["y"])
    for options, number in (
        ({"lap_node_id": True}, 48_492_289),
        ({"orf_node_id": True}, 48_566_017),
    ):
        assert num_weights("tokengt_base", OGB, targets, **options) + unused == number


def test_laplacian_identifiers_are_the_released_ones():
    """Up to signs, where eigenvalues are simple; the trivial one comes first."""
    archive = load_golden("tokengt_lap")
    batch, expected = golden_batch(archive), archive["input/lap_eigvec"]
    compared = 0
    for row, n in enumerate(archive["input/node_num"].tolist()):
        nodes = batch["node_graph"] == row
        first = int(np.flatnonzero(nodes)[0])
        inside = nodes[batch["edge_index"][0]]
        source, target = (batch["edge_index"][:, inside] - first).numpy()
        columns = {
            "node_offset": np.array([0, n]),
            "edge_offset": np.array([0, len(source)]),
            "edge_src": source,
            "edge_dst": target,
        }
        degree = np.bincount(source, minlength=n)
        if not degree.all():
            continue
        found = (
            LaplacianIdentifiers(16, False, 0.2)
            .eval()(
                {
                    "lap_pe": torch.from_numpy(laplacian_eigenvectors(columns, 15))[
                        None
                    ],
                    "out_degree": torch.from_numpy(degree)[None],
                    "node_mask": torch.ones(1, n, dtype=torch.bool),
                }
            )[0]
            .numpy()
        )
        theirs = expected[first : first + n, :16]
        width = min(16, n, theirs.shape[1])
        overlap = np.abs((found[:, :width] * theirs[:, :width]).sum(0))
        assert overlap[0] > 1 - 1e-5
        compared += int((overlap > 1 - 1e-5).sum())
    assert compared > 40


@pytest.mark.parametrize("kind", ["orf", "rand"])
@pytest.mark.parametrize("n", [1, 3, 8, 13])
def test_random_identifiers(n, kind):
    """Orthonormal in graphs that are no larger than the width, else, or if uniform, of length 1;
    the same in any batch, always the same in evaluation, drawn by the seed in training.
    """
    options = {f"{kind}_node_id": True, f"{kind}_node_id_dim": 8}
    identifiers = tiny_model("tokengt_base", **options).encoder.identifiers
    mask = torch.zeros(2, 14, dtype=torch.bool)
    mask[0, :n], mask[1] = True, True
    found = identifiers.eval()({"node_mask": mask})
    seeds = torch.tensor([5, 5])
    assert torch.equal(found, identifiers({"node_mask": mask, "seed": seeds}))
    alone = identifiers({"node_mask": mask[:1, :n]})
    torch.testing.assert_close(alone[0], found[0, :n])
    assert not found[0, n:].any()
    gram = found[0, :n] @ found[0, :n].T
    torch.testing.assert_close(gram.diagonal(), torch.ones(n))
    assert kind == "orf" or (found >= 0).all()
    if n <= 8 and kind == "orf":
        torch.testing.assert_close(gram, torch.eye(n), atol=1e-5, rtol=0)
    identifiers.train()
    first, again = (
        identifiers({"node_mask": mask, "seed": seeds + shift}) for shift in (0, 1)
    )
    assert torch.equal(first, identifiers({"node_mask": mask, "seed": seeds}))
    assert n == 1 or not torch.allclose(first, again)


def test_random_matrices_have_no_preferred_direction():
    """The mean of many is 0, and every entry has the mean square 1 / n."""
    identifiers = RandomIdentifiers(4, orthogonal=True).train()
    mask = torch.ones(4000, 4, dtype=torch.bool)
    found = identifiers({"node_mask": mask, "seed": torch.arange(4000)})
    assert (found.square().mean(0) - 0.25).abs().max() < 0.02


def test_signs_and_dropout_of_eigenvectors_only_in_training():
    identifiers = LaplacianIdentifiers(3, True, 0.5)
    batch = {
        "lap_pe": torch.ones(1, 40, 2),
        "out_degree": torch.ones(1, 40),
        "node_mask": torch.ones(1, 40, dtype=torch.bool),
    }
    plain = identifiers.eval()(batch)
    assert (plain > 0).all()
    signs = set()
    for seed in range(20):
        found = identifiers.train()(batch | {"seed": torch.tensor([seed])})
        assert (found == 0).any()
        signs.add(tuple(found.sum(1).sign()[0].tolist()))
        assert (found * found.sum(1, keepdim=True) >= 0).all()
    assert len(signs) == 8


def test_stochastic_depth():
    """Whole graphs are left out, at rates that rise with the layer; the mean stays."""
    model = tiny_model("tokengt_small", stochastic_depth=True)
    rates = [layer.dropout[1].rate for layer in model.encoder.layers]
    assert rates == [DEEPEST_DROP / 2, DEEPEST_DROP]
    torch.manual_seed(0)
    depth = StochasticDepth(0.25)
    found = depth(torch.ones(4000, 2, 3))
    assert found.unique().tolist() == pytest.approx([0, 1 / 0.75])
    assert (found.flatten(1).std(1) == 0).all()
    assert found.mean() == pytest.approx(1, abs=0.03)
    assert torch.equal(depth.eval()(found), found)


def test_tokens_are_dropped_out_before_the_first_layer():
    model = tiny_model("tokengt_base", dropout=0.5).train()
    seen = []
    model.encoder.layers[0].register_forward_pre_hook(lambda _, args: seen.append(args))
    model(make_batch(model, [0]))
    assert 0.4 < (seen[0][0] == 0).float().mean() < 0.6


def test_identifiers_tell_edges_from_non_edges():
    """Without identifiers a graph is a bag of atoms and bonds."""
    for options, differs in (({"lap_node_id": True}, True), ({}, False)):
        model = tiny_model("tokengt_base", **options).double().eval()
        batch = make_batch(model, [0, 2])
        found = model(batch)
        moved = batch["edge_index"].clone()
        graph = batch["node_graph"][moved[0]]
        first = graph == graph[0]
        moved[:, first] = moved[:, first].flip(0)  # (u, v) becomes (v, u) ...
        moved[1, first] = moved[0, first]  # ... and then a loop
        other = model(batch | {"edge_index": moved})
        assert bool((found[0] - other[0]).abs().max() > 1e-6) == differs
