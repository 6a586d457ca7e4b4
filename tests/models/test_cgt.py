"""CGT's layers, rings and head."""

import pytest
import torch

from graphormer_plugin import hub
from graphormer_plugin.data.graphs.smiles import OGBFeaturiser
from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.models import build_model
from support.architectures import GRAPHS, OGB, ZINC, make_batch, tiny_model

PATTERN, CLUSTER = FeatureSchema(1, [3], []), FeatureSchema(1, [7], [])


def node_classes(number):
    return TargetSchema.of(
        ["class"], kind="multiclass", level="node", num_classes=number
    )


@torch.no_grad()
@pytest.mark.parametrize("readout", ["sum", "mean"])
def test_head_is_a_network_per_node(readout):
    """Halved twice (but 8 at least), added up, and the last bias once a graph."""
    model = tiny_model("cgt_small").eval()
    model.readout = readout
    batch = make_batch(model, range(6))
    out, nodes = model(batch), model.encoder(batch)
    for number, mask in enumerate(batch["node_mask"]):
        per_node = [model.head.hidden(node) for node in nodes[number, mask]]
        pooled = getattr(torch, readout)(torch.stack(per_node), 0)
        assert torch.allclose(out[number], model.head.projection(pooled), atol=1e-6)
    head = build_model("cgt_small", OGB, GRAPHS).head
    widths = [layer.out_features for layer in head.hidden[::2]]
    assert widths == [128, 64] and head.projection.out_features == 1
    before = build_model("cgt_small", OGB, GRAPHS, head_layers=3).head
    assert [layer.out_features for layer in before.hidden[::2]] == [128, 64, 32]


@torch.no_grad()
def test_head_of_nodes_has_unit_vectors():
    x = torch.randn(5, 3, 64)
    head = build_model("cgt_pattern", PATTERN, node_classes(2)).head
    hidden = head.hidden(x)
    assert torch.allclose(hidden.norm(dim=-1), torch.ones(5, 3))
    options = {"no_head_unit_norm": True}
    plain = build_model("cgt_pattern", PATTERN, node_classes(2), **options).head
    plain.load_state_dict({n: 3 * w for n, w in plain.state_dict().items()})
    norms = plain.hidden(x).norm(dim=-1)
    assert not torch.allclose(norms, torch.ones(5, 3))
    widths = [layer.out_features for layer in head.hidden[::3]]
    assert widths == [64, 64]


@pytest.mark.parametrize("arch", ["cgt_zinc", "cgt_cluster", "cgt_deep"])
def test_inner_network(arch):
    """Twice as wide; `gt.dropout` of the released cluster-CSA.yaml acts twice."""
    layer = build_model(arch, CLUSTER, node_classes(6)).encoder.layers[0]
    assert layer.fc1.out_features == 2 * layer.fc2.out_features
    assert layer.act_dropout.p == layer.dropout.p == (0.1 if "cluster" in arch else 0)


def test_sets_of_a_user_are_named_to_the_batch():
    model = build_model("cgt_zinc", ZINC, GRAPHS, rings="additive", substructures="s")
    assert model.batch_spec.substructures == "s"


@torch.no_grad()
def test_predictions_know_rings():
    """`hub` finds the rings of molecules, as the task does for a store."""
    torch.manual_seed(0)
    model = build_model("cgt_zinc_rings", OGB, GRAPHS, encoder_layers=2)
    predictor = hub.Predictor([hub.Member(model, OGB, GRAPHS, OGBFeaturiser())])
    seen = []
    model.register_forward_pre_hook(lambda _, args: seen.append(args[0]["ring"]))
    smiles = ["CCO", "C1CC2CCC1C2", "C" * 5 + "C1CC1"]
    together = predictor.predict(smiles)
    assert seen[0].sum((1, 2)).tolist() == [0, 49, 9]
    for one, expected in zip(smiles, together):
        assert abs(predictor.predict([one]) - expected).max() < 1e-5
    model.encoder.pairs.bonds[1].embedding.weight += 1
    changed = abs(predictor.predict(smiles) - together)[:, 0] > 1e-4
    assert changed.tolist() == [False, True, True]
