"""Attention per channel and its gradient: the formula in float64, wrong arguments."""

import numpy as np
import pytest

import cython_ext._team
from cython_ext import channel_attention, channel_attention_gradient
from support.reference import channel_attention as formula

FLOAT32 = {"rtol": 1e-5, "atol": 2e-5}


def arguments(B, N, H, D, F, receivers=None, val=True, keep=True, seed=0):
    """Two thirds of the features are 0."""
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return rng.normal(size=shape).astype(np.float32)

    return (
        normal(B, H, receivers or N, N),
        normal(B, N, D),
        normal(B, F, N, N) * (rng.random((B, F, N, N)) < 1 / 3),
        normal(F, D),
        normal(F, D) if val else None,
        (rng.random((B, N, N)) < 0.7) * np.float32(1.4) if keep else None,
    )


def assert_equal_to_the_formula(arrays, **tolerance):
    grad = np.random.default_rng(1).normal(size=arrays[1].shape).astype(np.float32)
    z, state = channel_attention(*arrays)
    found = [z, *channel_attention_gradient(grad, *arrays, state=state)]
    for one, other in zip(found, formula(grad, *arrays), strict=True):
        if other is None:
            assert one is None
        else:
            assert one.dtype == np.float32
            np.testing.assert_allclose(one, other, **FLOAT32, **tolerance)


# Widths: whole vectors of eight, the rest of one, one channel; heads across vectors; one
# to sixteen vectors. Features: one, more, more than a word of bits. Graphs: one in slices,
# as many as parts of a batch, more.
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("val", [True, False])
@pytest.mark.parametrize(
    "sizes",
    [
        (2, 5, 4, 56, 9),
        (3, 4, 1, 5, 1),
        (2, 3, 12, 12, 7, 1),
        (2, 6, 3, 27, 10),
        (1, 1, 1, 1, 1),
        (1, 37, 2, 80, 3, 1),
        (1, 9, 8, 128, 2),
        (32, 3, 2, 16, 5),
        (70, 2, 5, 40, 4, 1),
        (1, 33, 2, 16, 65),
    ],
)
def test_equal_to_the_formula(sizes, val, keep):
    assert_equal_to_the_formula(arguments(*sizes, val=val, keep=keep))


def test_forbidden_pairs():
    """Scores of -30000: a weight of 0, but equal weights where all pairs have it."""
    base, v, features, att, *rest = arrays = arguments(2, 5, 2, 12, 6)
    att[0] = -30000
    features[:, 0] = 0
    features[0, 0, :, 3:] = features[0, 0, 0, 1:] = features[1, 0, 2] = 1
    # -30000 swallows the digits of what is added
    base[1, :, 2] = features[1, 1:, 2] = 0
    assert_equal_to_the_formula(arrays)
    # What is forbidden sends nothing: receiver 0 reads itself alone.
    out, _ = channel_attention(base, v, features, att)
    np.testing.assert_allclose(out[0, 0], v[0, 0], rtol=1e-6)
    of_base, of_v, _, _ = channel_attention_gradient(v, base, v, features, att)
    assert not of_base[0, :, :, 3:].any() and not of_base[0, :, 0].any()
    assert not of_v[0, 3:].any() and of_v[0, :3].all()


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("pairs", [1, 5])
def test_not_finite(number, pairs):
    """NaN is where torch's softmax has it, in no other channel, receiver or graph."""
    arrays = arguments(2, 5, 2, 12, 6, keep=False)
    arrays[2][:, 0] = 0
    arrays[2][1, 0, 3, :pairs] = 1
    arrays[3][0, 7] = number
    grad = np.ones((2, 5, 12), np.float32)
    z, _ = channel_attention(*arrays)
    found = z, *channel_attention_gradient(grad, *arrays)
    expected = formula(grad, *arrays)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, **FLOAT32, equal_nan=True)
    assert np.isfinite(np.delete(found[0][1], 3, 0)).all()
    assert np.isfinite(found[0][0]).all()


def test_features_that_are_not_finite():
    arrays = arguments(2, 5, 2, 12, 3, keep=False)
    arrays[2][1, 1, 3, 2] = np.nan
    out, _ = channel_attention(*arrays)
    assert np.isnan(out[1, 3]).all() and np.isnan(out).sum() == 12


@pytest.mark.parametrize("team", [True, False])
@pytest.mark.parametrize("receivers", [None, 1])
@pytest.mark.parametrize("B, N", [(1, 40), (9, 7), (50, 3)])
def test_threads_change_nothing(B, N, receivers, team, monkeypatch):
    if not team:
        monkeypatch.setattr(cython_ext._team, "gomp_parallel", lambda: 0)
    arrays = arguments(B, N, 2, 20, 6, receivers)
    results = []
    for threads in (1, 2, 99):
        options = {"num_threads": threads}
        found = channel_attention_gradient(arrays[1], *arrays, **options)
        results.append([*channel_attention(*arrays, **options), *found])
    for result in results[1:]:
        assert all(np.array_equal(*pair) for pair in zip(result, results[0]))


@pytest.mark.parametrize("B, N", [(0, 3), (2, 0)])
def test_empty(B, N):
    arrays = arguments(B, N, 2, 4, 3)
    found, _ = channel_attention(*arrays)
    assert found.shape == (B, N, 4)
    base, v, _, att, val, _ = arrays
    gradients = channel_attention_gradient(found, *arrays)
    for one, array in zip(gradients, (base, v, att, val), strict=True):
        assert one.shape == array.shape and not one.any()


def test_wrong_arguments():
    base, v, features, att, val, keep = arguments(2, 3, 2, 6, 4)
    right = {"base": base, "v": v, "features": features}
    right |= {"att": att, "val": val, "keep": keep}

    def wrong(message, **others):
        with pytest.raises(ValueError, match=message):
            channel_attention(**right | others)
        with pytest.raises(ValueError, match=message):
            channel_attention_gradient(v, **right | others)

    wrong("v has dtype float64, .* float32", v=v.astype(float))
    wrong(r"base .* \[2, 2, 2, 3\] .* \[2, 2, 3, 3\]", base=base[:, :, :2].copy())
    wrong(r"base .* \[1, 2, 3, 3\]", base=base[:1])
    wrong("width 6, .* 4 heads", base=base.repeat(2, 1))
    wrong("width 6, .* 0 heads", base=base[:, :0].copy())
    wrong(r"features .* \[2, 4, 2, 3\]", features=features[:, :, 1:].copy())
    none = {"features": features[:, :0].copy(), "att": att[:0], "val": val[:0]}
    wrong("0 features", **none)
    wrong(r"att .* \[4, 5\] .* \[4, 6\]", att=att[:, 1:].copy())
    wrong(r"att .* \[3, 6\] .* \[4, 6\]", att=att[1:].copy())
    wrong("att .* C-contiguous", att=att[:, ::-1])
    wrong("att has dtype object", att=None)
    wrong(r"val .* \[3, 6\] .* \[4, 6\]", val=val[1:].copy())
    wrong(r"keep .* \[2, 3, 2\]", keep=keep[..., 1:].copy())
    wrong("num_threads is 0", num_threads=0)
    with pytest.raises(ValueError, match=r"grad .* \[2, 2, 6\]"):
        channel_attention_gradient(v[:, :2].copy(), **right)
    with pytest.raises(ValueError, match=r"state .* \[3, 2, 3, 16\]"):
        channel_attention_gradient(v, **right, state=v)
