"""Node heads: every architecture, with or without a virtual node."""

import numpy as np
import pytest
import torch
from torch import nn

from graphormer_plugin.data.batches.fields import BatchSpec
from graphormer_plugin.data.columns import Level
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.models import GraphModel
from graphormer_plugin.modules import Encoder
from support.architectures import NODES_ONLY, SMALLEST, make_batch, tiny_model

NODES = TargetSchema.of(["class"], kind="multiclass", level="node", num_classes=3)


@pytest.mark.parametrize(
    "case", [*(pytest.param((arch, {}), id=arch) for arch in SMALLEST), *NODES_ONLY]
)
def test_every_node_has_an_output_of_its_own(case):
    arch, options = case
    torch.manual_seed(0)
    model = tiny_model(arch, NODES, **options).double().eval()
    out = model(make_batch(model, range(6)))
    mask = make_batch(model, range(6))["node_mask"]
    assert out.shape == (*mask.shape, 3)
    # no batch mate, no padding
    for number in range(6):
        alone = model(make_batch(model, [number]))[0]
        nodes = int(mask[number].sum())
        assert alone.shape == (nodes, 3)
        assert (out[number, :nodes] - alone).abs().max() < 1e-12
    # other numbers, same nodes
    renumbered = model(make_batch(model, range(6), permute=True))
    for number in range(6):
        nodes = int(mask[number].sum())
        order = np.random.default_rng(number).permutation(nodes)
        assert (out[number, order] - renumbered[number, :nodes]).abs().max() < 1e-12


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
    nodes = GraphModel(Plain(), head, level=Level.NODE)
    assert nodes(batch)[..., 0].tolist() == [[1, 2, 9], [4, 9, 9]]
    assert nodes.batch_spec == BatchSpec(frozenset({"x"}))
    # graphs: the mean over real nodes
    graphs = GraphModel(Plain(), head)
    assert graphs(batch).tolist() == [[1.5, 1.5], [4.0, 4.0]]
    assert graphs.batch_spec.fields == {"x", "node_mask"}
    sums = GraphModel(Plain(), head, readout="sum")
    assert sums(batch).tolist() == [[3.0, 3.0], [4.0, 4.0]]
