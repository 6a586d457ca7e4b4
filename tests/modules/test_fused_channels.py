"""CGT's attention in Triton against the formula in float64; interpreted without a GPU."""

import logging
import os
import subprocess
import sys

import pytest
import torch

from graphormer_plugin.models import build_model
from graphormer_plugin.modules import PairVectors, chromatic_attention, filter_messages
from graphormer_plugin.modules.attn_bias import FORBIDDEN
from graphormer_plugin.modules.compiled_attention import plain_attention
from support.architectures import SCHEMA, TARGETS, make_batch

DEVICE = "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"


@pytest.fixture
def fused(monkeypatch):
    """The kernels. Parts of a batch have several graphs."""
    if DEVICE == "cuda" and not torch.cuda.is_available():
        pytest.skip(
            "interpreted only with TRITON_INTERPRET=1, set before Triton's import"
        )
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
        ((2, 1, 1, 1, 5), None),
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


def test_rows_in_which_everything_is_forbidden(fused):
    """Are finite, and change no other row."""
    tensors = problem((2, 5, 2, 8, 5), None, True, False)
    before = results(tensors, torch.float32, "fused")
    tensors[2][0, 3, :, :3] = torch.tensor([0.0, 0, 1])
    after = results(tensors, torch.float32, "fused")
    assert all(x.isfinite().all() for x in after)
    others = torch.arange(5) != 3
    torch.testing.assert_close(after[0][0, others], before[0][0, others])


def test_under_autocast(fused):
    """Scores and dropped pairs stay float32 where values are halves."""
    base, v, features, att, val, keep = problem((2, 5, 2, 8, 5), None, True, True)
    pairs = PairVectors(features, att, val, "fused")
    out = filter_messages(base, v.half(), keep, pairs)
    assert out.dtype == torch.float16
    expected = filter_messages(base, v, keep, pairs._replace(memory="plain"))
    torch.testing.assert_close(out.float(), expected, rtol=0.02, atol=0.02)


def test_a_model(fused, monkeypatch):
    """Has the losses and gradients of the plain formula in each layer."""
    calls, run = [], fused.fused_channels
    monkeypatch.setattr(
        fused, "fused_channels", lambda *x: (calls.append(1), run(*x))[1]
    )
    found = []
    for memory in ("plain", "fused"):
        torch.manual_seed(0)
        sizes = {"encoder_layers": 2, "encoder_embed_dim": 16, "node_encoding_dim": 4}
        model = build_model(
            "cgt_zinc", SCHEMA, TARGETS, attention_memory=memory, **sizes
        )
        batch = make_batch(model, range(6))
        batch = {name: x.to(DEVICE) for name, x in batch.items()}
        out = model.to(DEVICE).eval()(batch)
        out.sum().backward()
        found.append([out, *(p.grad for p in model.parameters())])
    assert len(calls) == 2
    for one, other in zip(*found):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"dtype": torch.float64}, "it does not compute in torch.float64"),
        ({"sizes": (1, 4, 1, 129, 5)}, "a head has 129 channels, expected at most 128"),
        (
            {"sizes": (1, 4, 2, 8, 33)},
            "a pair has 33 features, expected at most 32 in ",
        ),
        ({"learned": True}, "its pair features have weights"),
    ],
)
def test_where_the_kernel_does_not_fit(change, reason, fused, monkeypatch, caplog):
    """A line says so, once, and the attention is lean."""
    monkeypatch.setattr(fused, "fused_channels", pytest.fail)
    chromatic_attention._warn_once.cache_clear()
    caplog.set_level(logging.WARNING)
    options = {"dtype": torch.float32, "sizes": (1, 4, 2, 8, 5), "learned": False}
    options |= change
    base, v, *maps, _ = problem(options["sizes"], None, True, False)
    base, v, features, att, val = (x.to(options["dtype"]) for x in (base, v, *maps))
    pairs = PairVectors(features.requires_grad_(options["learned"]), att, val, "fused")
    for _ in range(2):
        out = filter_messages(base, v, None, pairs)
    torch.testing.assert_close(
        out, filter_messages(base, v, None, pairs._replace(memory="plain"))
    )
    with plain_attention():
        filter_messages(base, v, None, pairs)
    (line,) = caplog.messages
    assert line.startswith(f"--attention-memory fused: {reason}")
    assert line.endswith("; lean instead")


# In a process of its own, which does not interpret.
COMPILE = """
import subprocess
from pathlib import Path
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from graphormer_plugin.modules import fused_channels as fused

tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
for kernel in fused._forward, fused._backward:
    for kind, features, heads, channels, shared in (
        ("bf16", 64, 1, 128, False),
        ("bf16", 64, 4, 16, False),
        ("bf16", 32, 64, 1, True),
        ("fp32", 32, 1, 64, False),
        ("fp32", 32, 64, 1, True),
    ):
        values = {"HAS_VAL": True, "HAS_KEEP": True, "SHARED": shared}
        values |= {"TILE": fused.SENDERS, "FEATURES": features}
        values |= {"HEADS": heads, "CHANNELS": channels}
        types = dict.fromkeys(kernel.arg_names, f"*{kind}")
        results = ("out", "logs", "of_base", "of_v", "of_att", "of_val")
        types |= dict.fromkeys(results, "*fp32") | dict.fromkeys("BNHFD", "i32")
        types |= dict.fromkeys(values, "constexpr")
        source = ASTSource(kernel, {name: types[name] for name in kernel.arg_names}, values)
        found = compile(source, GPUTarget("cuda", 90, 32), {"num_warps": fused.WARPS})
        assert ("mma" in found.asm["ptx"]) == (kind == "bf16")
        Path("kernel.cubin").write_bytes(found.asm["cubin"])
        usage = subprocess.check_output([tool, "-res-usage", "kernel.cubin"], text=True)
        (stack,) = [word for word in usage.split() if word.startswith("STACK:")]
        assert int(stack[6:]) <= 32, (kernel, values, usage)
"""


def test_compiles_for_an_h100(fused, tmp_path, monkeypatch):
    """Without one: with products of matrices in halves, and sums in registers."""
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    subprocess.run([sys.executable, "-c", COMPILE], check=True, cwd=tmp_path)
