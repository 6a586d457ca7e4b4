"""Flat and padded nodes."""

import torch

from graphormer_plugin.modules import NodeLayout, scatter_sum
from support.toy_graphs import collate, random_graph

FIELDS = frozenset({"x", "node_mask", "edge_index", "edge_bond", "node_graph"})


def test_flat_nodes_are_numbered_as_edges_number_them(rng):
    graphs = [random_graph(rng, n, 0.4) for n in (5, 1, 7, 3)]
    batch = collate(graphs, FIELDS)
    layout = NodeLayout(batch["node_mask"], batch["node_graph"])
    flat = layout.flatten(batch["x"])
    assert torch.equal(flat, batch["x"][batch["node_mask"]])
    assert torch.equal(layout.pad(flat), batch["x"])  # its padding is 0, too
    assert layout.ptr.tolist() == [0, 5, 6, 13]
    # the ends of an edge, found through the layout, are those of its graph
    source, target = batch["edge_index"]
    assert torch.equal(batch["node_graph"][source], batch["node_graph"][target])
    first_edge = 0
    for graph in graphs:
        edges = slice(first_edge, first_edge + len(graph["src"]))
        assert layout.local_index[source[edges]].tolist() == graph["src"].tolist()
        assert layout.local_index[target[edges]].tolist() == graph["dst"].tolist()
        first_edge = edges.stop
    assert first_edge == len(source)


def test_gradients_come_back_to_their_nodes():
    mask = torch.tensor([[True, True], [True, False]])
    layout = NodeLayout(mask, torch.tensor([0, 0, 1]))
    x = torch.ones(2, 2, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.arange(12.0).view(2, 2, 3)
    (layout.pad(layout.flatten(x)) * weight).sum().backward()
    assert torch.equal(x.grad, weight.double() * mask.unsqueeze(-1))


def test_scatter_sum():
    values = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], requires_grad=True)
    out = scatter_sum(values, torch.tensor([2, 0, 2]), 4)
    assert out.tolist() == [[3, 4], [0, 0], [6, 8], [0, 0]]
    out[2, 0].backward()
    assert values.grad.tolist() == [[1, 0], [0, 0], [1, 0]]
    assert scatter_sum(torch.ones(0, 2), torch.zeros(0, dtype=torch.long), 1).any() == 0


def test_sums_of_halves_are_wide():
    values = torch.full((4096,), 2**-8, dtype=torch.float16)  # halves: 8 at most
    out = scatter_sum(values, torch.zeros(4096, dtype=torch.long), 1)
    assert out.dtype == torch.float32 and out.item() == 16
    double = scatter_sum(values.double(), torch.zeros(4096, dtype=torch.long), 1)
    assert double.dtype == torch.float64
