"""Attention with relations: equal to the operations of torch, wrong arguments."""

import numpy as np
import pytest
import torch

from cython_ext import relative_attention
from graphormer_plugin.modules.relative_attention import (
    RelationTables,
    RelativeAttention,
)


def arguments(B, T, H, d, R, seed=0, allowed=None):
    """Graphs of 1 to T nodes (or ``allowed``), as relations forbid the padding."""
    rng = np.random.default_rng(seed)
    qkv = rng.normal(size=(B, T, 3 * H * d)).astype(np.float32)
    tables = rng.normal(size=(3, H, R + 1, d)).astype(np.float32)
    relation = rng.integers(0, R, (B, T, T))
    for graph, n in zip(relation, rng.integers(1, T + 1, B)):
        graph[:, n if allowed is None else allowed :] = R
    return qkv, *tables, relation


def expected(qkv, query, key, value, relation, key_from_row=False):
    """One pair after another, float64."""
    H, R, d = query.shape[0], query.shape[1] - 1, query.shape[2]
    B, T, _ = qkv.shape
    q, k, v = qkv.astype(float).reshape(B, T, 3, H, d).transpose(2, 0, 3, 1, 4)
    out = np.zeros((B, T, H, d))
    for b, h, i in np.ndindex(B, H, T):
        to = [(j, r) for j, r in enumerate(relation[b, i]) if r < R]
        if not to:
            continue
        scores = [
            q[b, h, i] @ (k[b, h, j] + query[h, r])
            + k[b, h, i if key_from_row else j] @ key[h, r]
            for j, r in to
        ]
        weights = np.exp((np.array(scores) - max(scores)) / d**0.5)
        weights /= weights.sum()
        for weight, (j, r) in zip(weights, to):
            out[b, i, h] += weight * (v[b, h, j] + value[h, r])
    return out.reshape(B, T, H * d)


@pytest.mark.parametrize("key_from_row", [False, True])
@pytest.mark.parametrize(
    "sizes", [(3, 9, 8, 10, 6), (2, 5, 3, 4, 2), (2, 7, 12, 3, 5), (1, 1, 1, 1, 1)]
)
def test_equal_to_the_formula(sizes, key_from_row):
    parts = arguments(*sizes)
    found = relative_attention(*parts, key_from_row=key_from_row)
    assert found.dtype == np.float32
    np.testing.assert_allclose(
        found, expected(*parts, key_from_row), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("key_from_row", [False, True])
def test_equal_to_the_layer(key_from_row):
    """A prediction takes the compiled function, a training step does not."""
    B, T, H, d, R = 4, 11, 8, 10, 7
    *_, relation = arguments(B, T, H, d, R)
    torch.manual_seed(0)
    layer = RelativeAttention(H * d, H, key_from_row=key_from_row)
    tables = RelationTables(*torch.randn(3, H, R + 1, d))
    x, relation = torch.randn(B, T, H * d), torch.from_numpy(relation)
    trained = layer(x, tables, relation)
    assert trained.grad_fn is not None
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            torch.testing.assert_close(layer(x, tables, relation), trained)
            wide = layer.double()(x.double(), RelationTables(*tables), relation)
        torch.testing.assert_close(wide.float(), trained)
        layer.float()


def test_threads():
    qkv, *tables, relation = arguments(50, 5, 8, 2, 3)
    alone = relative_attention(qkv, *tables, relation)
    for threads in (2, 3, 99):
        together = relative_attention(qkv, *tables, relation, num_threads=threads)
        assert np.array_equal(alone, together)
    relation[40, 0, 0] = 4
    with pytest.raises(ValueError, match="graph 40 "):
        relative_attention(qkv, *tables, relation, num_threads=3)


def test_large_scores():
    """No overflow, and exp of what is far below the largest score is 0."""
    qkv, *tables, relation = arguments(1, 4, 8, 2, 3)
    found = relative_attention(100 * qkv, *tables, relation)
    wanted = expected(100 * qkv, *tables, relation)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


def test_all_forbidden():
    parts = arguments(2, 3, 8, 2, 3, allowed=0)
    assert not relative_attention(*parts).any()


def test_nan_stays():
    qkv, *tables, relation = arguments(2, 4, 8, 2, 3, allowed=4)
    qkv[1, 2, 0] = np.nan  # a query of head 0
    found = relative_attention(qkv, *tables, relation)
    assert np.isnan(found[1, 2, :2]).all() and np.isnan(found).sum() == 2


def test_empty():
    qkv, *tables, relation = arguments(2, 3, 8, 2, 3)
    assert relative_attention(qkv[:0], *tables, relation[:0]).shape == (0, 3, 16)


def test_wrong_arguments():
    qkv, *tables, relation = arguments(2, 3, 8, 2, 3)
    with pytest.raises(ValueError, match="qkv has dtype float64, expected float32"):
        relative_attention(qkv.astype(float), *tables, relation)
    with pytest.raises(ValueError, match=r"qkv has shape \[2, 3, 47\], expected"):
        short = np.ascontiguousarray(qkv[..., 1:])
        relative_attention(short, *tables, relation)
    with pytest.raises(ValueError, match="relation_index has shape"):
        relative_attention(qkv, *tables, relation[:1])
    for wrong in (4, -1):
        relation[1, 2, 2] = wrong
        with pytest.raises(ValueError, match="graph 1 .* outside 0..3"):
            relative_attention(qkv, *tables, relation)
