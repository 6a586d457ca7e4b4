"""Chromatic attention against the published numbers, in chunks and in halves; Eq. 5-7 are in
`test_cgt_encoder.py`."""

import json

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from cython_ext.attention import HAS_ATTENTION
from graphormer_plugin.modules import ChromaticAttention, PairVectors, filter_messages
from graphormer_plugin.modules.attention import chromatic as chromatic_attention
from graphormer_plugin.modules.encodings.attn_bias import FORBIDDEN
from support.golden import load_golden

B, N, D, H, F = 3, 7, 8, 2, 6


@pytest.fixture(params=["plain", "lean", "lean, a row at a time"])
def lean(request, monkeypatch):
    if "row" in request.param:
        monkeypatch.setitem(chromatic_attention.CHUNK, "cpu", 1)
    return request.param != "plain"


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def random_pairs(lean=False, att_dim=D, values=True, dtype=torch.float64):
    """One-hot of some relations, the last one forbidden, and numbers."""
    relation = torch.randint(0, 4, (B, N, N))
    relation[:, :, 0] = 0  # every row has a sender
    features = torch.nn.functional.one_hot(relation, 4).to(dtype)
    features = torch.cat([features, torch.randn(B, N, N, F - 4, dtype=dtype)], -1)
    att = torch.randn(F, att_dim, dtype=dtype)
    att[3] = FORBIDDEN
    val = torch.randn(F, D, dtype=dtype) if values else None
    features = features.permute(0, 3, 1, 2).contiguous()  # as `PairEncoder` lays them
    return PairVectors(features.permute(0, 2, 3, 1), att, val, lean)


@torch.no_grad()
@pytest.mark.parametrize("sharing", ["per_layer", "shared"])
def test_equals_the_published_layer(sharing, lean):
    golden = load_golden(f"csa_attention_{sharing}_edge")
    config = json.loads(str(golden.pop("config")))
    archive = {name: torch.from_numpy(array) for name, array in golden.items()}
    mask = archive["node_mask"]
    padding = ~mask.unsqueeze(1).unsqueeze(-1).expand(-1, mask.shape[1], -1, -1)
    names = ("e_att", "e_value") if sharing == "shared" else ("e",)
    edges = [archive[name] for name in names]
    features = torch.cat([*edges, padding.double()], -1)
    if sharing == "shared":
        eye, zero = torch.eye(config["D"]).double(), torch.zeros(config["D"]).double()
        zeros = torch.zeros_like(eye)
        att = torch.cat([eye, zeros, FORBIDDEN + zero.unsqueeze(0)])
        val = torch.cat([zeros, eye, zero.unsqueeze(0)])
    else:
        att, val = (archive[f"state/{e}.weight"].T for e in ("E_att", "E_value"))
        zero = torch.zeros_like(att[:1])
        att, val = torch.cat([att, zero + FORBIDDEN]), torch.cat([val, zero])
    sizes = config["D"], config["H"]
    attention = ChromaticAttention(*sizes, output_projection="none").double()
    qkv = torch.cat([archive[f"state/{name}.weight"] for name in "QKV"])
    attention.qkv_proj.weight.copy_(qkv)
    out = attention(archive["h"], PairVectors(features, att, val, lean))
    assert (out * mask.unsqueeze(-1) - archive["output"]).abs().max() < 1e-9


def test_a_low_rank_is_a_quarter_of_the_width():
    first, last = ChromaticAttention(16, 2, output_projection="low_rank").out_proj
    assert torch.linalg.matrix_rank(last.weight @ first.weight) == 4


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize("base_shape", [(B, N, N, H), (B, 1, N, D)])
@pytest.mark.parametrize("kept", [True, False])
def test_gradients_of_the_lean_path(values, base_shape, kept, lean):
    """Against finite differences; also where a pair encoding has weights."""
    pairs = random_pairs(lean, values=values)
    base = torch.randn(base_shape, dtype=torch.float64, requires_grad=True)
    v = torch.randn(B, N, D, dtype=torch.float64, requires_grad=True)
    keep = torch.rand(B, N, N, dtype=torch.float64) if kept else None
    learned = [pairs.features[..., 4:].clone(), pairs.att[:3].clone()]
    if values:
        learned.append(pairs.val)
    learned = [tensor.requires_grad_() for tensor in learned]

    def function(base, v, features, att, val=None):
        features = torch.cat([pairs.features[..., :4], features], -1)
        att = torch.cat([att, pairs.att[3:]])
        vectors = PairVectors(features, att, val, pairs.lean)
        return filter_messages(base, v, keep, vectors)

    assert torch.autograd.gradcheck(function, (base, v, *learned), fast_mode=True)


class Largest(TorchDispatchMode):
    """Counts results of operations that take at least so many bytes."""

    def __init__(self, limit):
        super().__init__()
        self.limit, self.count = limit, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for x in pytree.tree_leaves(out):
            if isinstance(x, torch.Tensor):
                self.count += x.untyped_storage().nbytes() >= self.limit
        return out


@pytest.mark.parametrize("kind", ["chromatic", "additive"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_lean_path_makes_nothing_of_its_size(dtype, kind, monkeypatch):
    """In no direction, a row at a time."""
    monkeypatch.setitem(chromatic_attention.CHUNK, "cpu", 1)
    counts = {}
    for lean in (False, True):
        attention = ChromaticAttention(D, H, kind).to(dtype)
        x = torch.randn(B, N, D, dtype=dtype, requires_grad=True)
        pairs = random_pairs(lean, dtype=dtype)
        with Largest(B * N * N * D * dtype.itemsize) as largest:
            attention(x, pairs).sum().backward()
        counts[lean] = largest.count
    compiled = dtype == torch.float32 and HAS_ATTENTION
    assert counts[True] == 0 and (counts[False] == 0 if compiled else counts[False] > 3)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["chromatic", "mono", "additive"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves(kind, dtype, lean):
    """And rows in which all is forbidden are finite."""
    attention = ChromaticAttention(D, H, kind)
    pairs = random_pairs(lean, H if kind == "mono" else D, dtype=torch.float32)
    pairs.features[0, 1, :, :4] = torch.tensor([0.0, 0, 0, 1])
    x = torch.randn(B, N, D)
    expected = attention(x, pairs)
    halves = (t.to(dtype) for t in pairs[:3])
    out = attention.to(dtype)(x.to(dtype), PairVectors(*halves, lean))
    assert out.dtype == dtype and out.isfinite().all()
    others = torch.ones(B, N, dtype=torch.bool)
    others[0, 1] = False
    assert (out.float() - expected)[others].abs().max() < 0.1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_chunks_in_halves(dtype, monkeypatch):
    """Gradients are those of float64 except for the rounding of halves, like on a GPU."""
    monkeypatch.setattr(chromatic_attention, "_work_type", lambda v: v.dtype)
    pairs = random_pairs(lean=True)
    shapes = (B, N, N, H), (B, N, D)
    tensors = [*(torch.randn(*shape).double() for shape in shapes), *pairs[1:3]]
    keep, found = torch.rand(B, N, N), []
    for kind in (torch.float64, dtype):
        base, v, att, val = inputs = [t.to(kind).requires_grad_() for t in tensors]
        features = pairs.features.to(kind)
        out = filter_messages(base, v, keep, PairVectors(features, att, val, True))
        assert out.dtype == kind
        gradients = torch.autograd.grad(out.square().sum(), inputs)
        found.append([out, *(gradient[..., :3, :] for gradient in gradients)])
    rounding = 20 * torch.finfo(dtype).eps
    for ours, wanted in zip(found[1], found[0], strict=True):
        assert (ours - wanted).abs().max() < rounding * wanted.abs().max()


@torch.no_grad()
@pytest.mark.parametrize("kind", ["chromatic", "mono", "additive"])
def test_three_kinds_of_dropout(kind, lean):
    """What is silenced: what a sender says, what a pair says, or a channel."""
    n, p = 40, 0.25
    # Equal weights, and messages of 1.
    features, att = torch.zeros(1, n, n, 1), torch.zeros(1, H if kind == "mono" else D)
    pairs = PairVectors(features, att, torch.zeros(1, D), lean)

    def one_pass(**rates):
        attention = ChromaticAttention(D, H, kind, "none", **rates)
        attention.qkv_proj.weight.zero_()
        attention.qkv_proj.weight[-D:] = torch.eye(D)
        messages = torch.ones(1, n, D)
        assert torch.allclose(attention.eval()(messages, pairs), messages)
        return attention.train()(messages, pairs)[0], attention

    out, _ = one_pass(node_dropout=p)  # the same senders are missing everywhere
    assert (out - out[0, 0]).abs().max() < 1e-5
    silent = n - out[0, 0] * n * (1 - p)
    assert abs(silent - silent.round()) < 1e-3 and 0 < silent < n

    out, attention = one_pass(dropout=p)  # others for every receiver, all channels
    assert len(out[:, 0].unique()) > 3 and (out - out[:, :1]).abs().max() < 1e-5
    keep = attention.kept(torch.ones(1, n, n))
    assert keep.unique().tolist() == pytest.approx([0, 1 / (1 - p)])
    assert abs((keep == 0).float().mean() - p) < 0.06

    outs = [one_pass(channel_dropout=p)[0] for _ in range(9)]  # all of it or nothing
    assert all((out == out[0]).all() for out in outs)
    factors = torch.stack(outs)[:, 0] * (1 - p)
    assert torch.isclose(factors, factors.round()).all()
    assert abs((factors.round() == 0).float().mean() - p) < 0.2
