"""Attention per channel and its gradient: the formula in float64, wrong arguments."""

import numpy as np
import pytest
import torch

import cython_ext.channels
from cython_ext import channel_attention, channel_attention_gradient

FLOAT32 = {"rtol": 1e-5, "atol": 1e-5}


def arguments(B, N, H, D, receivers=None, val=True, keep=True, seed=0):
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return rng.normal(size=shape).astype(np.float32)

    return (
        normal(B, receivers or N, N, H),
        normal(B, N, D),
        normal(B, N, N, D),
        normal(B, N, N, D) if val else None,
        (rng.random((B, N, N)) < 0.7) * np.float32(1.4) if keep else None,
    )


def expected(arrays, grad):
    """Result and gradients of base, v, att and val, in float64."""
    base, v, att, val, keep = (
        None if array is None else torch.from_numpy(array).double().requires_grad_()
        for array in arrays
    )
    repeated = base.repeat_interleave(att.shape[3] // base.shape[3], 3)
    weights = torch.softmax(repeated + att, 2)
    if keep is not None:
        weights = weights * keep.unsqueeze(3)
    messages = v.unsqueeze(1) if val is None else v.unsqueeze(1) + val
    out = (weights * messages).sum(2)
    out.backward(torch.from_numpy(grad).double())
    parts = out.detach(), base.grad, v.grad, att.grad, None if val is None else val.grad
    return [None if part is None else part.numpy() for part in parts]


def assert_equal_to_the_formula(arrays, **tolerance):
    grad = np.random.default_rng(1).normal(size=arrays[1].shape).astype(np.float32)
    found = [channel_attention(*arrays), *channel_attention_gradient(grad, *arrays)]
    for one, other in zip(found, expected(arrays, grad), strict=True):
        if other is None:
            assert one is None
        else:
            assert one.dtype == np.float32
            np.testing.assert_allclose(one, other, **FLOAT32, **tolerance)


# Widths: whole vectors of eight, the rest of one, one channel; heads across vectors.
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("val", [True, False])
@pytest.mark.parametrize(
    "sizes",
    [(2, 5, 4, 56), (3, 4, 1, 5), (2, 3, 12, 12, 1), (2, 6, 3, 27), (1, 1, 1, 1)],
)
def test_equal_to_the_formula(sizes, val, keep):
    assert_equal_to_the_formula(arguments(*sizes, val=val, keep=keep))


def test_forbidden_pairs():
    """Scores of -30000: a weight of 0, but equal weights where all pairs have it."""
    arrays = arguments(2, 5, 2, 12)
    arrays[2][0, :, 3:] = arrays[2][1, 2] = -30000
    arrays[0][1, 2] = 0  # -30000 swallows the digits of what is added
    assert_equal_to_the_formula(arrays)
    grad = np.ones((2, 5, 12), np.float32)
    *_, of_att, of_val = channel_attention_gradient(grad, *arrays)
    assert not of_att[0, :, 3:].any() and not of_val[0, :, 3:].any()


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("pairs", [1, 5])
def test_not_finite(number, pairs):
    """As torch's softmax, and in no other channel, receiver or graph."""
    arrays = arguments(2, 5, 2, 12, keep=False)
    arrays[2][1, 3, :pairs, 7] = number
    assert_equal_to_the_formula(arrays, equal_nan=True)


@pytest.mark.parametrize("team", [True, False])
def test_threads_change_nothing(team, monkeypatch):
    if not team:
        monkeypatch.setattr(cython_ext.channels, "gomp_parallel", lambda: 0)
    arrays = arguments(9, 7, 2, 20)
    results = []
    for threads in (1, 2, 99):
        options = {"num_threads": threads}
        found = channel_attention_gradient(arrays[1], *arrays, **options)
        results.append([channel_attention(*arrays, **options), *found])
    for result in results[1:]:
        assert all(np.array_equal(*pair) for pair in zip(result, results[0]))


@pytest.mark.parametrize("B, N", [(0, 3), (2, 0)])
def test_empty(B, N):
    arrays = arguments(B, N, 2, 4)
    found = channel_attention(*arrays)
    assert found.shape == (B, N, 4)
    for one, array in zip(channel_attention_gradient(found, *arrays), arrays):
        assert one.shape == array.shape


def test_wrong_arguments():
    base, v, att, val, keep = arguments(2, 3, 2, 6)
    grad = v

    def wrong(message, base=base, v=v, att=att, val=val, keep=keep, **options):
        with pytest.raises(ValueError, match=message):
            channel_attention(base, v, att, val, keep, **options)
        with pytest.raises(ValueError, match=message):
            channel_attention_gradient(grad, base, v, att, val, keep, **options)

    wrong("v has dtype float64, expected float32", v=v.astype(float))
    wrong(r"base has shape \[2, 2, 3, 2\], expected", base=base[:, :2].copy())
    wrong(r"base has shape \[1, 3, 3, 2\], expected", base=base[:1])
    wrong("width 6, expected a multiple of 4", base=base.repeat(2, 3))
    wrong("width 6, expected a multiple of 0", base=base[..., :0].copy())
    wrong(r"att has shape \[2, 3, 3, 5\], expected", att=att[..., 1:].copy())
    wrong("att has strides", att=att[..., ::-1])
    wrong("att is a NoneType", att=None)
    wrong(r"val has shape \[2, 3, 2, 6\]", val=val[:, :, 1:].copy())
    wrong(r"keep has shape \[2, 3, 2\]", keep=keep[..., 1:].copy())
    wrong("num_threads is 0", num_threads=0)
    grad = v[:, :2].copy()
    with pytest.raises(ValueError, match=r"grad has shape \[2, 2, 6\]"):
        channel_attention_gradient(grad, base, v, att, val, keep)
