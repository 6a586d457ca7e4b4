"""Predictions of edges and pairs of nodes: every architecture."""

import numpy as np
import pytest
import torch

from graphormer_plugin.data.targets import TargetSchema
from support.architectures import NODES_ONLY, SMALLEST, make_batch, tiny_model

EDGES = TargetSchema.of(["class"], kind="multiclass", level="edge", num_classes=3)
PAIRS = TargetSchema.of(["link"], kind="binary", level="link")


def all_pairs(sizes, orders=None):
    """Ends of all pairs of the nodes of each graph, [B, P, 2], with zeros at padding."""
    most = max(sizes)
    ends = np.zeros((len(sizes), most**2, 2), dtype=np.int64)
    for number, size in enumerate(sizes):
        rank = np.arange(size) if orders is None else np.argsort(orders[number])
        pairs = np.indices((size, size)).reshape(2, -1)
        ends[number, : size**2] = rank[pairs].T
    return torch.from_numpy(ends)


@torch.no_grad()
@pytest.mark.parametrize(
    "case", [*(pytest.param((arch, {}), id=arch) for arch in SMALLEST), *NODES_ONLY]
)
def test_a_pair_has_an_output_of_its_own(case):
    arch, options = case
    torch.manual_seed(0)
    model = tiny_model(arch, EDGES, **options).double().eval()
    batch = make_batch(model, range(6))
    sizes = batch["node_mask"].sum(1).tolist()
    out = model(batch | {"edge_label_index": all_pairs(sizes)})
    assert out.shape == (6, max(sizes) ** 2, 3)
    for number, size in enumerate(sizes):
        # no batch mate, no padding
        alone = make_batch(model, [number]) | {"edge_label_index": all_pairs([size])}
        assert (out[number, : size**2] - model(alone)[0]).abs().max() < 1e-12
        # both directions
        table = out[number, : size**2].view(size, size, 3)
        assert (table - table.transpose(0, 1)).abs().max() < 1e-12
        if size > 2:  # pairs differ
            assert table.flatten(0, 1).std(0).min() > 1e-6
    # other numbers, same pairs
    orders = [np.random.default_rng(n).permutation(s) for n, s in enumerate(sizes)]
    renumbered = make_batch(model, range(6), permute=True)
    again = model(renumbered | {"edge_label_index": all_pairs(sizes, orders)})
    for number, size in enumerate(sizes):
        difference = out[number, : size**2] - again[number, : size**2]
        assert difference.abs().max() < 1e-12


def test_a_linear_head_is_a_weighted_dot_product():
    torch.manual_seed(0)
    model = tiny_model("grpe_tiny", PAIRS).double().eval()
    nodes = torch.randn(1, 4, model.embed_dim, dtype=torch.double)
    out = model.links(nodes, all_pairs([4])).view(4, 4)
    vectors = model.project(nodes[0])
    expected = (vectors * model.head.weight) @ vectors.T + model.head.bias
    assert (out - expected).abs().max() < 1e-12
