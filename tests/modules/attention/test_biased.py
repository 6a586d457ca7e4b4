"""The attention of a GPU on a CPU, where torch has it too."""

import pytest
import torch
from torch.nn import functional as F

from graphormer_plugin.modules.attention import biased as biased_attention
from graphormer_plugin.modules.attention.biased import BiasedAttention, fused_attention

B, H, T = 2, 3, 7


@pytest.mark.parametrize(
    "width, dtype, seen",
    [
        (10, torch.float16, 16),
        (10, torch.bfloat16, 16),
        (10, torch.float32, 12),
        (8, torch.float16, 8),
        (3, torch.float64, 4),
    ],
)
def test_narrow_heads_are_filled_up(width, dtype, seen, monkeypatch):
    """To what fused kernels take; results and gradients are those of the plain formula."""
    torch.manual_seed(0)
    widths = []

    def recorded(q, *arguments, **options):
        widths.append(q.shape[-1])
        return F.scaled_dot_product_attention(q, *arguments, **options)

    monkeypatch.setattr(biased_attention, "scaled_dot_product_attention", recorded)
    heads = torch.randn(3, B, H, T, width).to(dtype).requires_grad_()
    bias = torch.randn(B, H, T, T).to(dtype)
    q, k, v = heads
    plain = BiasedAttention(H * width, H).weights(q, k, bias).view(bias.shape) @ v
    out = fused_attention(heads, bias, 0.0)
    gradients = [
        torch.autograd.grad(one.square().sum(), heads)[0] for one in (out, plain)
    ]
    assert widths == [seen] and out.dtype == dtype
    tolerance = 8 * torch.finfo(dtype).eps
    for ours, wanted in ((out, plain), gradients):
        assert (ours - wanted).abs().max() <= tolerance * wanted.abs().max()
