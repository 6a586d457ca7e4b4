"""Heads."""

import pytest
import torch

from graphormer_plugin.modules import MLPHead


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


def test_head_without_a_hidden_layer_is_linear():
    head = MLPHead([4, 2])
    assert torch.equal(head(torch.eye(4)), head.projection(torch.eye(4)))
    assert MLPHead.halving(20, 2, 1).hidden[2].out_features == 8
    with pytest.raises(ValueError, match=r"widths \[4\]"):
        MLPHead([4])
