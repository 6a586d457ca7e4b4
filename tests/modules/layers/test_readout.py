"""Heads."""

import pytest
import torch

from graphormer_plugin.modules import MLPHead, read_out
from graphormer_plugin.modules.layers.readout import TransformHead, UnitNorm


def test_mlp_head():
    head = MLPHead.halving(64, 3, 6)
    widths = [(m.in_features, m.out_features) for m in head.hidden[::2]]
    assert widths == [(64, 32), (32, 16), (16, 8)]
    assert (head.projection.in_features, head.projection.out_features) == (8, 6)
    x = torch.randn(2, 3, 64)
    out = x
    for layer in head.hidden[::2]:
        out = (out @ layer.weight.T + layer.bias).clamp(min=0)
    out = out @ head.projection.weight.T + head.projection.bias
    assert torch.allclose(head(x), out)


def test_under_autocast_a_head_returns_what_its_linear_map_does():
    """An overflow of halves is skipped by fairseq, one of float32 is an error."""
    with torch.autocast("cpu", torch.bfloat16):
        assert TransformHead(4, 2)(torch.randn(3, 4)).dtype == torch.bfloat16


def test_unit_norm_of_zeros_in_half_precision():
    """Where all ReLUs of a row are inactive, as of a padded node."""
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0]], dtype=torch.float16, requires_grad=True)
    out = UnitNorm()(x)
    out.sum().backward()
    assert out.dtype == torch.float16
    assert out.tolist() == [pytest.approx([0.6, 0.8], 1e-3), [0, 0]]
    assert x.grad[0].isfinite().all()


def test_head_without_a_hidden_layer_is_linear():
    head = MLPHead([4, 2])
    assert torch.equal(head(torch.eye(4)), head.projection(torch.eye(4)))
    assert MLPHead.halving(20, 2, 1).hidden[2].out_features == 8
    with pytest.raises(ValueError, match=r"widths \[4\]"):
        MLPHead([4])


@pytest.mark.parametrize(
    "kind, expected",
    [
        ("mean", [[1.5, -1.5], [4.0, -4.0], [0, 0]]),
        ("sum", [[3.0, -3.0], [4.0, -4.0], [0, 0]]),
        ("max", [[2.0, -1.0], [4.0, -4.0], [0, 0]]),
    ],
)
def test_read_out_of_real_nodes(kind, expected):
    nan = float("nan")
    x = torch.tensor([[[1.0], [2.0], [9.0]], [[4.0], [9.0], [nan]], [[nan]] * 3])
    x = torch.cat([x, -x], -1).requires_grad_()
    mask = torch.tensor([[True, True, False], [True, False, False], [False] * 3])
    out = read_out(x, mask, kind)
    assert out.tolist() == expected
    out.sum().backward()
    assert not x.grad[~mask].any() and x.grad[0, :2].any()


def test_read_out_of_halves():
    x = torch.full((1, 4096, 1), 2**-8, dtype=torch.float16)  # the sum of halves: 8
    mask = torch.ones(1, 4096, dtype=torch.bool)
    assert read_out(x, mask, "sum").item() == 16
    assert read_out(x, mask).dtype == torch.float16
