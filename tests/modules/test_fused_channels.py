"""CGT's attention in Triton against the formula in float64; interpreted without a GPU."""

import subprocess
import sys

import pytest
import torch

from graphormer_plugin.modules import PairVectors, chromatic_attention, filter_messages
from graphormer_plugin.modules.attn_bias import FORBIDDEN
from graphormer_plugin.modules.compiled_attention import plain_attention

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture
def fused(monkeypatch):
    """The kernels. Parts of a batch have several graphs."""
    pytest.importorskip("triton", reason="pip install '.[triton]'")
    from graphormer_plugin.modules import fused_channels

    monkeypatch.setattr(fused_channels, "DEVICES", [DEVICE])
    monkeypatch.setattr(fused_channels, "PARTS", 2)
    # The compiled function would come first.
    monkeypatch.setattr(chromatic_attention, "compiled_fits", lambda _: False)
    return fused_channels


def problem(sizes, receivers, with_val, with_keep):
    """Scores, values and pairs whose last relation is forbidden, as padding is."""
    B, N, H, D, F = sizes
    torch.manual_seed(0)
    relation = torch.randint(0, 3, (B, N, N))
    relation[:, :, -1] = 2
    relation[:, :, 0] = 0  # every receiver has a sender
    features = torch.randn(B, N, N, F)
    features[..., :3] = torch.nn.functional.one_hot(relation, 3)
    att, val = torch.randn(2, F, D)
    att[2] = FORBIDDEN
    # Neither scores nor factors are contiguous.
    base = torch.randn(B, receivers or N, H, N).transpose(2, 3)
    keep = (torch.rand(B, N, N).mT < 0.7) * 1.4 if with_keep else None
    tensors = base, torch.randn(B, N, D), features, att, val if with_val else None, keep
    return [None if x is None else x.to(DEVICE) for x in tensors]


def results(tensors, dtype, memory):
    """Output and gradients of base, v and the maps, but for the forbidden relation."""
    tensors = [None if x is None else x.to(dtype) for x in tensors]
    base, v, features, att, val, keep = tensors
    inputs = [x.requires_grad_() for x in (base, v, att, val) if x is not None]
    pairs = PairVectors(features, att, val, memory)
    out = filter_messages(base, v, keep, pairs)
    assert out.dtype == dtype
    of_base, of_v, *of_maps = torch.autograd.grad(out.square().sum(), inputs)
    return [out, of_base, of_v, *(of_map[[0, 1, 3, 4]] for of_map in of_maps)]


@pytest.mark.parametrize("with_keep", [True, False])
@pytest.mark.parametrize("with_val", [True, False])
@pytest.mark.parametrize(
    "sizes, receivers",
    [
        ((2, 5, 2, 16, 6), None),
        ((3, 18, 3, 18, 20), None),  # two tiles; heads of six channels
        ((1, 7, 1, 70, 17), None),  # lanes without channels
        ((2, 17, 24, 24, 5), 1),  # a head for each channel, for all receivers
        ((5, 3, 70, 70, 6), 1),  # two blocks of heads
    ],
)
def test_equal_to_the_formula(sizes, receivers, with_val, with_keep, fused):
    tensors = problem(sizes, receivers, with_val, with_keep)
    expected = results(tensors, torch.float64, "plain")
    for one, other in zip(results(tensors, torch.float32, "fused"), expected):
        scale = other.abs().max().item()
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-5 * scale)


# Triton's interpreter multiplies the bits of bfloat16.
@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16][: 1 + (DEVICE == "cuda")]
)
def test_halves(dtype, fused):
    """Only rounding differs."""
    tensors = problem((2, 9, 2, 16, 6), None, True, True)
    expected = results(tensors, torch.float64, "plain")
    rounding = 20 * torch.finfo(dtype).eps
    for one, other in zip(results(tensors, dtype, "fused"), expected):
        assert (one - other).abs().max() < rounding * other.abs().max()


def test_second_derivatives(fused):
    """Are those of the formula."""
    found = []
    for memory in ("plain", "fused"):
        base, v, features, att, val, keep = problem((1, 4, 2, 8, 5), None, True, False)
        v.requires_grad_()
        out = filter_messages(base, v, keep, PairVectors(features, att, val, memory))
        (first,) = torch.autograd.grad(out.pow(3).sum(), v, create_graph=True)
        found += torch.autograd.grad(first.square().sum(), v)
    torch.testing.assert_close(*found)


def test_where_the_kernel_does_not_fit(fused, monkeypatch):
    """Wide heads, many features, float64, and where operations of torch are asked for."""
    torch.manual_seed(0)

    def refuse(*tensors):
        raise AssertionError("the kernel runs")

    def out(dtype=torch.float32, sizes=(1, 4, 2, 8, 5), memory="fused"):
        base, v, features, att, val, _ = problem(sizes, None, True, False)
        pairs = (x.to(dtype) for x in (features, att, val))
        return filter_messages(
            base.to(dtype), v.to(dtype), None, PairVectors(*pairs, memory)
        )

    monkeypatch.setattr(fused, "fused_channels", refuse)
    with pytest.raises(AssertionError, match="the kernel runs"):
        out()
    for options in (
        {"dtype": torch.float64},
        {"sizes": (1, 4, 1, 129, 5)},
        {"sizes": (1, 4, 2, 8, 65)},
    ):
        torch.testing.assert_close(out(**options), out(**options, memory="plain"))
    with plain_attention():
        out()


# In a process of its own, which does not interpret.
COMPILE = """
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from graphormer_plugin.modules import fused_channels as fused

for kernel in fused._forward, fused._backward:
    values = {"HAS_VAL": True, "HAS_KEEP": True, "SHARED": False, "TILE": fused.SENDERS}
    values |= {"FEATURES": 64, "HEADS": 1, "CHANNELS": 128}
    types = dict.fromkeys(kernel.arg_names, "*bf16")
    types |= dict.fromkeys(("out", "logs", "of_base", "of_v", "of_att", "of_val"), "*fp32")
    types |= dict.fromkeys("BNHFD", "i32") | dict.fromkeys(values, "constexpr")
    types = {name: types[name] for name in kernel.arg_names}
    source = ASTSource(kernel, types, values)
    found = compile(source, GPUTarget("cuda", 90, 32), {"num_warps": fused.WARPS})
    assert "mma" in found.asm["ptx"] and found.metadata.shared < 100_000
"""


def test_compiles_for_an_h100(fused, monkeypatch):
    """Without one: in products of matrices, with room for two programs at a time."""
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    subprocess.run([sys.executable, "-c", COMPILE], check=True)
