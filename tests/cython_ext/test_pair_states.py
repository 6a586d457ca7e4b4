"""Attention whose pairs have states: the formula in float64, threads, wrong arguments."""

import numpy as np
import pytest
import torch

import cython_ext._team
from cython_ext import pair_attention, pair_attention_gradient
from graphormer_plugin.modules.encoders.grit import pair_messages
from graphormer_plugin.modules.layers.sparse import NodeLayout


def arguments(sizes, H, d, keep=True, spread=1.0):
    """Scores beyond 5 where ``spread`` is large, joint vectors that are 0."""
    rng = np.random.default_rng(0)
    nodes, pairs = sum(sizes), sum(n * n for n in sizes)

    def normal(*shape):
        return rng.normal(size=shape).astype(np.float32)

    q, k, v = (normal(nodes, H * d) for _ in range(3))
    maps = normal(pairs, 2 * H * d)
    maps[::3, :d] = 0
    kept = ((rng.random((pairs, H)) < 0.7) * 1.4).astype(np.float32)
    score = spread * normal(H, d)
    return np.array(sizes), q, k, v, maps, score, kept if keep else None


def formula(grads, sizes, *arrays):
    """Results and gradients of autograd in float64."""
    sizes = torch.from_numpy(sizes)
    mask = torch.arange(int(sizes.max())) < sizes[:, None]
    layout = NodeLayout(mask, torch.arange(len(sizes)).repeat_interleave(sizes))
    *inputs, keep = (
        None if array is None else torch.from_numpy(array).double() for array in arrays
    )
    inputs = [tensor.requires_grad_() for tensor in inputs]
    pairs = layout.all_pairs(loops=True)
    if keep is None:
        keep = torch.ones(pairs.shape[1], len(inputs[-1]), dtype=torch.float64)
    out = pair_messages(pairs, sizes, *inputs, keep)
    grads = [torch.from_numpy(grad).double() for grad in grads]
    return [*out, *torch.autograd.grad(out, inputs, grads)]


def found(sizes, *arrays, **options):
    out = pair_attention(sizes, *arrays, **options)
    rng = np.random.default_rng(1)
    grads = tuple(rng.normal(size=one.shape).astype(np.float32) for one in out)
    gradients = pair_attention_gradient(grads, out[0], sizes, *arrays, **options)
    return grads, [*out, *gradients]


# Heads of one, three and four vectors; fewer and more heads than a vector has numbers; a
# node alone, a graph without nodes, more graphs than parts of a batch.
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize(
    "sizes, H, d",
    [([5, 1, 7], 8, 8), ([9], 3, 24), ([4, 0, 3], 11, 8), ([2] * 70, 1, 32)],
)
@pytest.mark.parametrize("spread", [0.3, 3.0])
def test_equal_to_the_formula(sizes, H, d, keep, spread):
    arrays = arguments(sizes, H, d, keep, spread)
    grads, ours = found(*arrays)
    for one, other in zip(ours, formula(grads, *arrays), strict=True):
        assert one.dtype == np.float32
        scale = max(1.0, float(other.detach().abs().max()))
        np.testing.assert_allclose(one, other.detach(), rtol=2e-5, atol=1e-5 * scale)


@pytest.mark.parametrize("team", [True, False])
def test_threads_change_nothing(team, monkeypatch):
    if not team:
        monkeypatch.setattr(cython_ext._team, "gomp_parallel", lambda: 0)
    arrays = arguments([3, 9, 4] * 20, 2, 8)
    first, *others = (found(*arrays, num_threads=number)[1] for number in (1, 2, 99))
    for other in others:
        assert all(np.array_equal(*pair) for pair in zip(first, other, strict=True))


def test_not_finite():
    """NaN of a pair is in the rows of its receiver only."""
    arrays = arguments([3, 2], 2, 8, keep=False)
    arrays[4][4] = np.nan  # receiver 1, sender 1
    t, *sums = pair_attention(*arrays)
    assert np.isnan(t[4]).all() and np.isfinite(np.delete(t, 4, 0)).all()
    for one in sums:
        assert np.isnan(one[1]).all() and np.isfinite(np.delete(one, 1, 0)).all()


@pytest.mark.parametrize(
    "position, change, message",
    [
        (0, lambda sizes: sizes.astype(np.int32), "sizes has dtype int32"),
        (0, lambda sizes: -sizes, "below 0"),
        (1, lambda q: q[:4], r"q has .* shape \[4, 16\]"),
        (4, lambda maps: maps[:, :16], r"maps has .* expected .*\[13, 32\]"),
        (5, lambda score: score[:, :4].copy(), "expected a multiple of 8"),
        (6, lambda keep: keep[1:], "keep has"),
    ],
)
def test_wrong_arguments(position, change, message):
    arrays = list(arguments([3, 2], 2, 8))
    arrays[position] = change(arrays[position])
    with pytest.raises(ValueError, match=message):
        pair_attention(*arrays)
