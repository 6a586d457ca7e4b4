"""Attention and its gradient: the formula in float64, dropout, NaN, wrong arguments."""

import numpy as np
import pytest

import cython_ext._team
from cython_ext import Relations, relative_attention, relative_attention_gradient
from graphormer_plugin.modules.layers.graph_random import kept_pairs
from support.attention import arguments, expected

# Heads: a full vector, less, more, one. T = 1: graphs of one node; 70: blocks of rows. Heads
# of 33 channels and 40 relations are wider than two vectors.
SIZES = [(3, 9, 8, 10, 6), (2, 5, 3, 4, 2), (2, 7, 12, 3, 5), (1, 1, 1, 1, 1)]
SIZES += [(1, 70, 2, 33, 40)]
FLOAT32 = {"rtol": 1e-5, "atol": 1e-5}


def assert_close(found, wanted, **tolerance):
    for one, other in zip(found, wanted, strict=True):
        if other is None:
            assert one is None
        else:
            assert one.dtype == np.float32
            np.testing.assert_allclose(one, other, **(tolerance or FLOAT32))


@pytest.mark.parametrize("key_from_row", [False, True])
@pytest.mark.parametrize("terms", ["relations", "bias", "relations and bias"])
@pytest.mark.parametrize("sizes", SIZES)
def test_equal_to_the_formula(sizes, terms, key_from_row):
    parts = arguments(*sizes, terms=terms)
    B, T, H, d, _ = sizes
    grad = np.random.default_rng(1).normal(size=(B, T, H * d)).astype(np.float32)
    for p in (0, 0.4):
        kept = kept_pairs(7, (B, H, T, T), p) / (1 - p)
        options = {"key_from_row": key_from_row}
        wanted = expected(*parts, None, kept, **options)
        changes = expected(*parts, grad, kept, **options)
        options |= {"dropout": p, "seed": 7}
        assert_close([relative_attention(*parts, **options)], [wanted])
        found = relative_attention_gradient(grad, *parts, **options)
        assert_close(found, changes)


def test_a_bias_for_all_rows():
    qkv, _, bias = arguments(2, 40, 3, 4, 2, terms="bias")
    row = bias[:, :, :1].copy()
    bias[:] = row
    results = []
    for each in (row, bias):
        out = relative_attention(qkv, None, each)
        results.append([out, *relative_attention_gradient(out, qkv, None, each)])
    assert_close(results[0][:2], results[1][:2], rtol=0, atol=0)
    assert results[0][3] is None and results[1][3] is not None


@pytest.mark.parametrize("team", [True, False])
def test_threads_change_nothing(team, monkeypatch):
    """70 graphs: parts of two and three. Without OpenMP it is one thread."""
    if not team:
        monkeypatch.setattr(cython_ext._team, "gomp_parallel", lambda: 0)
    parts = arguments(70, 5, 12, 2, 3)
    grad = np.ones((70, 5, 24), np.float32)
    results = []
    for threads in (1, 2, 3, 99):
        options = {"dropout": 0.2, "seed": 3, "num_threads": threads}
        found = relative_attention_gradient(grad, *parts, **options)
        results.append([relative_attention(*parts, **options), *found])
    for result in results[1:]:
        for one, other in zip(result, results[0]):
            assert np.array_equal(one, other)


def test_share_of_dropped_weights():
    """p, independent of the neighbours, heads, graphs and of another seed."""
    B, T, H, p = 40, 30, 8, 0.25
    qkv = np.zeros((B, T, 3 * H * T), np.float32)  # all weights are 1 / T
    qkv.reshape(B, T, 3, H, T)[:, :, 2] = np.eye(T)[:, None]  # and become the result
    bias = np.zeros((B, H, T, T), np.float32)
    masks = []
    for seed in (0, 1):
        out = relative_attention(qkv, attn_bias=bias, dropout=p, seed=seed)
        masks.append((out == 0).reshape(B, T, H, T).transpose(0, 2, 1, 3))
    dropped = masks[0]
    pairs = {
        "itself": (dropped, dropped, p),
        "column": (dropped[..., 1:], dropped[..., :-1], p**2),
        "row": (dropped[..., 1:, :], dropped[..., :-1, :], p**2),
        "head": (dropped[:, 1:], dropped[:, :-1], p**2),
        "graph": (dropped[1:], dropped[:-1], p**2),
        "seed": (masks[1], dropped, p**2),
    }
    for name, (one, other, share) in pairs.items():
        error = (one & other).mean() - share
        assert abs(error) < 5 * (share * (1 - share) / one.size) ** 0.5, name


@pytest.mark.parametrize("factor", [100, 1e6])
def test_large_scores(factor):
    """No overflow, and exp of what is far below the largest score is 0."""
    qkv, relations, _ = arguments(2, 4, 8, 2, 3, terms="relations")
    qkv = np.float32(factor) * qkv
    wanted = expected(qkv, relations, None)
    found = relative_attention(qkv, relations)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("pairs", [1, 2, 4], ids=lambda count: f"{count} of 4")
def test_not_finite(number, pairs):
    """Weights are NaN for NaN, inf, and scores that are all -inf, like torch's softmax."""
    qkv, _, bias = arguments(2, 4, 8, 2, 3, terms="bias")
    bias[1, 0, 2, :pairs] = number
    wanted = expected(qkv, None, bias)
    assert np.isnan(wanted).any() == (number != -np.inf or pairs == 4)
    found = relative_attention(qkv, None, bias)
    np.testing.assert_allclose(found, wanted, **FLOAT32, equal_nan=True)
    grad = np.ones_like(found)
    changes = expected(qkv, None, bias, grad)
    for one, other in zip(relative_attention_gradient(grad, qkv, None, bias), changes):
        if other is not None:
            np.testing.assert_allclose(one, other, **FLOAT32, equal_nan=True)


def test_all_forbidden():
    """The result is 0 and has no gradient; -inf does not count as forbidden."""
    qkv, relations, bias = arguments(2, 3, 8, 2, 3, allowed=0)
    assert not relative_attention(qkv, relations, bias).any()
    grad = np.ones((2, 3, 16), np.float32)
    for part in relative_attention_gradient(grad, qkv, relations, bias):
        assert not part.any()


@pytest.mark.parametrize("B, T", [(0, 3), (2, 0)])
def test_empty(B, T):
    qkv, relations, bias = arguments(2, 3, 8, 2, 3)
    index = relations.relation_index[:B, :T, :T].copy()
    relations = relations._replace(relation_index=index)
    parts = qkv[:B, :T].copy(), relations, bias[:B, :, :T, :T].copy()
    found = relative_attention(*parts)
    assert found.shape == (B, T, 16)
    of_qkv, of_tables, of_bias = relative_attention_gradient(found, *parts)
    assert of_qkv.shape == (B, T, 48) and of_bias.shape == (B, 8, T, T)
    assert of_tables.shape == (3, 8, 4, 2) and not of_tables.any()


def test_wrong_relations():
    qkv, relations, _ = arguments(40, 3, 8, 2, 3)
    grad = np.ones((40, 3, 16), np.float32)
    for wrong in (4, -1, 2**62, -(2**63)):
        index = relations.relation_index.copy()
        index[39, 0, 0] = index[33, 2, 2] = wrong
        hostile = relations._replace(relation_index=index)
        for threads in (1, 2):
            with pytest.raises(ValueError, match="graph 33 .* outside 0..3"):
                relative_attention(qkv, hostile, num_threads=threads)
            with pytest.raises(ValueError, match="graph 33 .* outside 0..3"):
                relative_attention_gradient(grad, qkv, hostile, num_threads=threads)


def test_wrong_arguments():
    qkv, relations, bias = arguments(2, 3, 8, 2, 3)
    index = relations.relation_index

    def wrong(message, qkv=qkv, bias=bias, grad=None, options=(), **changed):
        changed = relations._replace(**changed) if relations else None
        call = relative_attention if grad is None else relative_attention_gradient
        grad = () if grad is None else (grad,)
        with pytest.raises(ValueError, match=message):
            call(*grad, qkv, changed, bias, **dict(options))

    wrong("qkv has dtype float64, .* float32", qkv=qkv.astype(float))
    wrong("qkv has width 47 .* 48", qkv=qkv[..., 1:].copy())
    wrong("qkv .* C-contiguous", qkv=qkv[..., ::-1])
    wrong("relation_index .* shape", relation_index=index[:1])
    wrong("relation_index has dtype int32", relation_index=index.astype(np.int32))
    wrong("relation_index .* strides", relation_index=index.transpose(0, 2, 1))
    no_rows = dict.fromkeys(Relations._fields[:3], np.zeros((8, 0, 2), np.float32))
    wrong("tables 0 rows", **no_rows)
    wrong("value_table .* shape", value_table=relations.value_table[:, :2].copy())
    wrong("key_table has dtype", key_table=relations.key_table.astype(np.float16))
    wrong(r"attn_bias .* \[1, 8, 3, 3\]", bias=bias[:1])
    wrong(r"attn_bias .* \[2, 7, 3, 3\]", bias=bias[:, 1:].copy())
    wrong(r"grad .* \[2, 3, 48\] .* \[2, 3, 16\]", grad=qkv)
    for rate in (1, -0.1, np.nan):
        wrong("dropout is", options={"dropout": rate})
    for name, value in (("seed", -1), ("seed", 2**64), ("num_threads", 0)):
        wrong(f"{name} is", options={name: value})
    relations = None
    wrong("width 48 .* 5 heads", bias=bias[:, :5].copy())
    wrong("0 heads", bias=None)
    wrong("8 heads", qkv=qkv[:, :, :0].copy())
