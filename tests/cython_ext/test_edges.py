"""Attention along edges: the formula in float64, threads, wrong arguments."""

import numpy as np
import pytest
import torch

import cython_ext._team
from cython_ext import edge_attention, edge_attention_gradient
from graphormer_plugin.modules.attention.edge import edge_messages


def arguments(nodes, edges, H, d, kinds=0, factor=True, keep=True, spread=1.0):
    """Scores beyond 5 where ``spread`` is large, nodes without edges, edges that repeat."""
    rng = np.random.default_rng(0)

    def normal(*shape):
        return rng.normal(size=shape).astype(np.float32)

    index = rng.integers(0, max(nodes - 1, 1), (2, edges))
    kind = rng.integers(0, kinds, edges) if kinds else None
    kept = ((rng.random((edges, H)) < 0.7) * 1.4).astype(np.float32)
    factor = normal(kinds or edges, H * d) if factor else None
    qkv = normal(nodes, 3 * H * d)
    qkv[:, : H * d] *= spread
    return qkv, factor, index, kind, kept if keep else None


def formula(grads, options, *arrays):
    """Results and gradients of autograd in float64."""
    tensors = [None if array is None else torch.from_numpy(array) for array in arrays]
    qkv, factor, *others = tensors
    inputs = [one.double().requires_grad_() for one in (qkv, factor) if one is not None]
    factor = None if factor is None else inputs[1]
    out = edge_messages(inputs[0], factor, *others, **options)
    out = [one for one in out if one is not None]
    grads = [torch.from_numpy(grad).double() for grad in grads if grad is not None]
    return [*out, *torch.autograd.grad(out, inputs, grads)]


def found(*arrays, channels, **options):
    out = edge_attention(*arrays, channels=channels, **options)
    rng = np.random.default_rng(1)
    grads = tuple(
        None if one is None else rng.normal(size=one.shape).astype(np.float32)
        for one in out
    )
    results = [*out, *edge_attention_gradient(grads, *arrays, **options)]
    return grads, [one for one in results if one is not None]


# Heads of one and three vectors, and parts of vectors; one node; no edge; more and fewer nodes
# than parts of a batch.
SHAPES = [(40, 150, 8, 8), (9, 30, 3, 24), (7, 20, 8, 10), (5, 12, 3, 4), (1, 3, 1, 16)]


@pytest.mark.parametrize("shape", [*SHAPES, (3, 0, 2, 8)])
@pytest.mark.parametrize(
    "way, channels, epsilon, spread",
    [
        ({}, True, 1e-6, 1.0),
        ({"kinds": 4}, False, 0.5, 4.0),
        ({"factor": False, "keep": False}, False, 0.0, 1.0),
        ({"kinds": 1}, True, 0.0, 4.0),
    ],
)
def test_equal_to_the_formula(shape, way, channels, epsilon, spread):
    arrays = arguments(*shape, **way, spread=spread)
    options = {"heads": shape[2], "epsilon": epsilon, "channels": channels}
    grads, ours = found(*arrays, **options)
    for one, other in zip(ours, formula(grads, options, *arrays), strict=True):
        assert one.dtype == np.float32
        scale = max(1.0, float(other.detach().abs().max())) if other.numel() else 1.0
        np.testing.assert_allclose(one, other.detach(), rtol=2e-5, atol=1e-5 * scale)


@pytest.mark.parametrize("team", [True, False])
@pytest.mark.parametrize("kinds", [0, 3])
def test_threads_change_nothing(kinds, team, monkeypatch):
    if not team:
        monkeypatch.setattr(cython_ext._team, "gomp_parallel", lambda: 0)
    arrays, options = arguments(90, 400, 4, 10, kinds), {"heads": 4, "channels": True}
    first, *others = (
        found(*arrays, **options, num_threads=number)[1] for number in (1, 2, 99)
    )
    for other in others:
        assert all(np.array_equal(*pair) for pair in zip(first, other, strict=True))


def test_not_finite():
    """NaN of a head of a node stays in that head of it and of its neighbours."""
    qkv, *others = arguments(6, 0, 3, 4)
    index = np.array([[0, 1, 2], [1, 2, 3]])
    qkv[1, 12 + 4 : 12 + 8] = np.nan  # the key of head 1
    factor = np.ones((3, 12), np.float32)
    out, _ = edge_attention(qkv, factor, index, heads=3)
    assert np.isnan(out[2, 4:8]).all() and np.isnan(out).sum() == 4


@pytest.mark.parametrize(
    "position, change, message",
    [
        (0, lambda qkv: qkv[:, :10].copy(), "width 10, expected a multiple of 3 x 2"),
        (1, lambda factor: factor[:1], r"factor has .* shape \[1, 16\]"),
        (2, lambda index: index.astype(np.int32), "index has dtype int32"),
        (2, lambda index: index + 5, r"index has a number outside 0\.\.4"),
        (3, lambda kind: kind - 3, r"kind has a number outside 0\.\.2"),
        (4, lambda keep: keep[1:], "keep has"),
    ],
)
def test_wrong_arguments(position, change, message):
    arrays = list(arguments(5, 9, 2, 8, 3 if position == 3 else 0))
    arrays[position] = change(arrays[position])
    with pytest.raises(ValueError, match=message):
        edge_attention(*arrays, heads=2)
