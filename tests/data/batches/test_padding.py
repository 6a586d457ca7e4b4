"""pad_batch: nothing that it adds counts, in any architecture."""

import contextlib

import pytest
import torch

from graphormer_plugin.data.batches.padding import pad_batch
from graphormer_plugin.modules.batch_norm import rows_counted
from support.architectures import (
    ARCHITECTURES,
    NODES_ONLY,
    SMALLEST,
    VARIANTS,
    exact_batch,
    make_batch,
    rates_of,
    tiny_model,
)

FULL_PAIRS = "gt_zinc full_graph"  # BatchNorm of pairs
NOT_CAPTURED = {
    FULL_PAIRS,
    "gps_zinc local_part=gcn_symmetric no_edge_features",
    "graphormer_paper_slim edge_type=aggregation no_virtual_node",
}
CASES = [
    *(pytest.param((arch, {}), id=arch) for arch in ARCHITECTURES),
    *NODES_ONLY,
    *(case for case in VARIANTS if case.id != FULL_PAIRS),
]


def steady_model(arch, **options):
    """Without random numbers that depend on the shapes."""
    torch.manual_seed(0)
    return tiny_model(arch, **{**dict.fromkeys(rates_of(arch), 0.0), **options}).train()


def batch_of_graphs(model, ids):
    make = exact_batch if "pos" in model.batch_spec.fields else make_batch
    return make(model, ids) | {"seed": torch.arange(len(ids)) * 977}


def numbers_of_a_step(model, batch, graphs, masks=()):
    """Outputs, loss, gradients and statistics."""
    model.zero_grad()
    with rows_counted(masks):
        out = model(batch)[:graphs]
    loss = (out.sin() * torch.arange(out.numel()).view_as(out)).sum()
    loss.backward()
    return [
        out.detach(),
        loss.detach(),
        *(weight.grad for weight in model.parameters()),
        *(buffer.clone() for buffer in model.buffers() if buffer.is_floating_point()),
    ]


@pytest.mark.parametrize("case", CASES)
def test_padding_changes_no_loss_gradient_and_statistic(case):
    arch, options = case
    model = steady_model(arch, **options).double()
    start = {name: value.clone() for name, value in model.state_dict().items()}
    batch = batch_of_graphs(model, range(1, 6))
    expected = numbers_of_a_step(model, batch, 5)
    model.load_state_dict(start)
    fields, masks = pad_batch(batch)
    assert fields["node_mask"].shape[1] > batch["node_mask"].shape[1]
    found = numbers_of_a_step(model, fields, 5, masks)
    for ours, wanted in zip(found, expected, strict=True):
        assert (ours - wanted).abs().max() < 1e-12 * wanted.abs().max().clamp(min=1)


def test_batch_norm_of_other_rows_is_an_error():
    (case,) = (case.values[0] for case in VARIANTS if case.id == FULL_PAIRS)
    model = steady_model(case[0], **case[1])
    fields, masks = pad_batch(batch_of_graphs(model, range(6)))
    with rows_counted(masks), pytest.raises(ValueError, match="neither nodes nor"):
        model(fields)


def test_what_a_padded_batch_has():
    model = steady_model("gine")
    batch = batch_of_graphs(model, [0, 1, 2])
    fields, (graphs, nodes, edges) = pad_batch(batch)
    count = len(batch["node_graph"])
    assert graphs.tolist() == [True] * 3 + [False]
    assert int(nodes.sum()) == count and len(nodes) >= count + 2 and len(nodes) % 6 == 0
    assert int(edges.sum()) == batch["edge_index"].shape[1] and len(edges) % 24 == 0
    assert fields["node_mask"].shape == (4, 8)
    assert fields["node_mask"].sum() == batch["node_mask"].sum()
    assert (fields["node_graph"][~nodes] == 3).all()
    assert (fields["edge_index"][:, ~edges].T == torch.tensor([count, count + 1])).all()
    for name, tensor in batch.items():
        assert fields[name].dtype == tensor.dtype
        assert fields[name][tuple(map(slice, tensor.shape))].equal(tensor)


@pytest.mark.parametrize("edges", range(60))
def test_masks_have_different_lengths(edges):
    """BatchNorm tells rows of nodes, edges and graphs apart by their number."""
    for nodes in range(1, 60):
        batch = {
            "node_mask": torch.ones(1, nodes, dtype=torch.bool),
            "node_graph": torch.zeros(nodes, dtype=torch.int64),
            "edge_index": torch.zeros(2, edges, dtype=torch.int64),
        }
        _, masks = pad_batch(batch)
        assert len({len(mask) for mask in masks}) == 3


@pytest.mark.parametrize(
    "case", [*(pytest.param((arch, {}), id=arch) for arch in SMALLEST), *VARIANTS]
)
def test_a_padded_step_reads_no_value_of_a_tensor(case, request, monkeypatch):
    """Shapes that depend on values cannot be captured. The device "meta" has no values."""
    arch, options = case
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *_: False)
    model = steady_model(arch, **options).to("meta")
    batch = batch_of_graphs(model, range(1, 6))
    fields, masks = pad_batch({name: part.to("meta") for name, part in batch.items()})
    refuses = pytest.raises(RuntimeError)
    refused = request.node.callspec.id in NOT_CAPTURED
    with rows_counted(masks), refuses if refused else contextlib.nullcontext():
        model(fields)[:5].sum().backward()
