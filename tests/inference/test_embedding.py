"""Vectors out of the layers of every architecture."""

import pytest
import torch
from torch import nn

from graphormer_plugin.inference import VECTOR_PARTS
from graphormer_plugin.inference.embedding import joined_vectors, layer_vectors, widths
from graphormer_plugin.models.cgt import CGTModel
from graphormer_plugin.modules import LayersHead, read_out
from support.architectures import NODES_ONLY, SMALLEST, make_batch, tiny_model


@pytest.fixture(
    params=[*((arch, {}) for arch in SMALLEST), *NODES_ONLY], ids=lambda param: param[0]
)
def model(request):
    arch, options = request.param
    torch.manual_seed(1)
    # Three, so that the last two are not all.
    return tiny_model(arch, **{"encoder_layers": 3, **options}).double().eval()


@torch.no_grad()
def test_the_last_layer_is_what_the_head_reads(model):
    batch = make_batch(model, range(4))
    vectors = layer_vectors(model, batch)
    if isinstance(model, CGTModel):  # reads graphs out of its hidden layer
        nodes = model.head.hidden(layer_vectors(model, batch, nodes=True))
        hidden = read_out(nodes, batch["node_mask"], model.readout)
        torch.testing.assert_close(model.head.projection(hidden), model(batch))
    elif isinstance(model.head, LayersHead):  # reads all layers, the last one last
        nodes = model.encoder.all_layers(batch)
        hidden = read_out(nodes, batch["node_mask"], model.readout)
        torch.testing.assert_close(hidden[:, -model.embed_dim :], vectors)
        torch.testing.assert_close(model.head(hidden), model(batch))
    else:
        torch.testing.assert_close(model.head(vectors), model(batch))


@torch.no_grad()
def test_parts_stand_side_by_side(model):
    batch = make_batch(model, range(4))
    outputs, mask = model(batch), batch["node_mask"]
    graph = layer_vectors(model, batch)
    nodes = read_out(layer_vectors(model, batch, nodes=True), mask, "mean")
    joined = joined_vectors(model, batch, VECTOR_PARTS)
    torch.testing.assert_close(joined, torch.cat([graph, nodes, outputs], -1))
    assert joined.shape[1] == sum(widths(model, outputs.shape[1], VECTOR_PARTS))
    some = joined_vectors(model, batch, ["outputs", "graph"])
    torch.testing.assert_close(some, torch.cat([outputs, graph], -1))


@torch.no_grad()
def test_layers_stand_side_by_side(model):
    """The first columns are those of the same model without its last layer."""
    batch = make_batch(model, range(4))
    width, count = model.embed_dim, len(model.encoder.layers)
    assert count == 3
    both = layer_vectors(model, batch, layers=2)
    nodes = layer_vectors(model, batch, layers=2, nodes=True)
    last = layer_vectors(model, batch)
    assert both.shape == (len(last), 2 * width)
    torch.testing.assert_close(both[:, width:], last)
    with pytest.raises(ValueError, match=f"{count + 1} layers, expected 1 to {count}"):
        layer_vectors(model, batch, layers=count + 1)
    model.encoder.layers = model.encoder.layers[:-1]
    if hasattr(model.encoder, "final_norm"):
        model.encoder.final_norm = nn.Identity()
    torch.testing.assert_close(both[:, :width], layer_vectors(model, batch))
    assert not torch.allclose(both[:, :width], last)
    mask = batch["node_mask"]
    shorter = layer_vectors(model, batch, nodes=True)
    assert nodes.shape == (*mask.shape, 2 * width)
    torch.testing.assert_close(nodes[..., :width][mask], shorter[mask])
    if not model.virtual_node:
        torch.testing.assert_close(both, read_out(nodes, mask, model.readout))


@torch.no_grad()
def test_grpe_fingerprint_equals_a_loop_over_the_layers(model):
    """Each of the last layers as the end of a shorter encoder without final norm."""
    batch = make_batch(model, range(4))
    if not model.virtual_node:
        with pytest.raises(ValueError, match="vectors of the virtual node, which the"):
            layer_vectors(model, batch, layers=2, fingerprint=True)
        return
    with pytest.raises(ValueError, match="of molecules, not of atoms"):
        layer_vectors(model, batch, nodes=True, fingerprint=True)
    found = [layer_vectors(model, batch, n, fingerprint=True) for n in (1, 2, 3)]
    layers, expected = model.encoder.layers, []
    model.encoder.final_norm = nn.Identity()
    for count in (3, 2, 1):
        model.encoder.layers = layers[:count]
        vectors = model.encoder(batch)[:, 0]
        norms = torch.stack([sum(v * v for v in row) ** 0.5 for row in vectors])
        expected.insert(0, vectors / norms[:, None])
        torch.testing.assert_close(found[3 - count], torch.cat(expected, 1))


@torch.no_grad()
def test_layers_that_run_several_times_count_in_their_last_run():
    model = tiny_model("graphormer3d_small", encoder_layers=3, blocks=2)
    batch = make_batch(model.double().eval(), range(4))
    runs = []
    model.encoder.layers[1].register_forward_hook(lambda *call: runs.append(call[2]))
    both = layer_vectors(model, batch, layers=2)
    assert len(runs) == 2
    expected = [model.graphs(x, batch["node_mask"]) for x in runs]
    torch.testing.assert_close(both[:, : model.embed_dim], expected[1])
    assert not torch.allclose(expected[0], expected[1])
