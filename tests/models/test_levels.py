"""Outputs of nodes, edges and pairs of nodes: every architecture, with or without a virtual
node."""

import numpy as np
import pytest
import torch
from torch import nn

from graphormer_plugin.data.batches.fields import BatchSpec
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.models import GraphModel
from graphormer_plugin.modules import Encoder
from support.architectures import NODES_ONLY, SMALLEST, make_batch, tiny_model


def all_pairs(sizes):
    """Ends of all pairs of the nodes of each graph, [B, P, 2], with zeros at padding."""
    ends = np.zeros((len(sizes), max(sizes) ** 2, 2), dtype=np.int64)
    for number, size in enumerate(sizes):
        ends[number, : size**2] = np.indices((size, size)).reshape(2, -1).T
    return torch.from_numpy(ends)


@torch.no_grad()
@pytest.mark.parametrize("level", ["node", "edge"])
@pytest.mark.parametrize(
    "case", [*(pytest.param((arch, {}), id=arch) for arch in SMALLEST), *NODES_ONLY]
)
def test_every_part_has_an_output_of_its_own(case, level):
    arch, options = case
    torch.manual_seed(0)
    targets = TargetSchema.of(["y"], kind="multiclass", level=level, num_classes=3)
    model = tiny_model(arch, targets, **options).double().eval()

    def outputs(rows, permute=False):
        """Of each graph, [n, 3] or [n, n, 3]."""
        batch = make_batch(model, rows, permute=permute)
        sizes = batch["node_mask"].sum(1).tolist()
        out = model(batch | {"edge_label_index": all_pairs(sizes)})
        shape = batch["node_mask"].shape[1:] if level == "node" else [max(sizes) ** 2]
        assert out.shape == (len(sizes), *shape, 3)
        if level == "node":
            return [part[:size] for part, size in zip(out, sizes)]
        return [part[: n**2].view(n, n, 3) for part, n in zip(out, sizes)]

    pairs = zip(outputs(range(6)), outputs(range(6), permute=True))
    for number, (out, renumbered) in enumerate(pairs):
        # no batch mate, no padding
        assert (out - outputs([number])[0]).abs().max() < 1e-12
        # other numbers, same nodes
        order = np.random.default_rng(number).permutation(len(out))
        moved = out[order] if level == "node" else out[order][:, order]
        assert (moved - renumbered).abs().max() < 1e-12
        if level == "edge":
            assert (out - out.transpose(0, 1)).abs().max() < 1e-12
            if len(out) > 2:  # pairs differ
                assert out.flatten(0, 1).std(0).min() > 1e-6


def test_a_linear_head_is_a_weighted_dot_product():
    torch.manual_seed(0)
    targets = TargetSchema.of(["link"], kind="binary", level="link")
    model = tiny_model("grpe_tiny", targets).double().eval()
    nodes = torch.randn(1, 4, model.embed_dim, dtype=torch.double)
    out = model.links(nodes, all_pairs([4])).view(4, 4)
    vectors = model.project(nodes[0])
    expected = (vectors * model.head.weight) @ vectors.T + model.head.bias
    assert (out - expected).abs().max() < 1e-12


@pytest.mark.parametrize("case", NODES_ONLY)
@torch.no_grad()
def test_without_a_virtual_node_a_graph_is_the_mean_of_its_nodes(case):
    arch, options = case
    torch.manual_seed(0)
    model = tiny_model(arch, **options).double().eval()
    assert not any("virtual" in name for name, _ in model.named_parameters())
    batch = make_batch(model, range(6))
    sizes, states = batch["node_mask"].sum(1), model.encoder(batch)
    assert states.shape[1] == sizes.max()
    for out, rows, size in zip(model(batch), states, sizes):
        assert (out - model.head(rows[:size].mean(0))).abs().max() < 1e-12


class Plain(Encoder):
    """An encoder without a virtual node: the first column, twice."""

    required_fields = frozenset({"x"})

    def forward(self, batch, perturb=None):
        return batch["x"][..., :1].float().expand(-1, -1, 2)


def test_without_a_virtual_node():
    batch = {
        "x": torch.tensor([[[1], [2], [9]], [[4], [9], [9]]]),
        "node_mask": torch.tensor([[True, True, False], [True, False, False]]),
    }
    head = nn.Identity()
    nodes = GraphModel(Plain(), head, level="node")
    assert nodes(batch)[..., 0].tolist() == [[1, 2, 9], [4, 9, 9]]
    assert nodes.batch_spec == BatchSpec(frozenset({"x"}))
    # graphs: the mean over real nodes
    graphs = GraphModel(Plain(), head)
    assert graphs(batch).tolist() == [[1.5, 1.5], [4.0, 4.0]]
    assert graphs.batch_spec.fields == {"x", "node_mask"}
    sums = GraphModel(Plain(), head, readout="sum")
    assert sums(batch).tolist() == [[3.0, 3.0], [4.0, 4.0]]
