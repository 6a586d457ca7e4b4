"""Attention with relations or a bias in operations of torch, and arguments for it."""

import numpy as np
import torch

from cython_ext import Relations


def arguments(B, T, H, d, R, seed=0, allowed=None, terms="relations and bias"):
    """Graphs of 1 to T nodes (or ``allowed``), as relations forbid the padding."""
    rng = np.random.default_rng(seed)
    qkv = rng.normal(size=(B, T, 3 * H * d)).astype(np.float32)
    tables = rng.normal(size=(3, H, R + 1, d)).astype(np.float32)
    index = rng.integers(0, R, (B, T, T))
    for graph, n in zip(index, rng.integers(1, T + 1, B)):
        graph[:, n if allowed is None else allowed :] = R
    bias = rng.normal(size=(B, H, T, T)).astype(np.float32)
    return (
        qkv,
        Relations(*tables, index) if "relations" in terms else None,
        bias if "bias" in terms else None,
    )


def formula(qkv, tables, index, bias, kept, key_from_row=False):
    """The formula in operations of torch, with the weights to keep [B, H, T, T]."""
    B, T, _ = qkv.shape
    H = bias.shape[1] if tables is None else tables[0].shape[0]
    q, k, v = qkv.view(B, T, 3, H, -1).permute(2, 0, 3, 1, 4)  # [B, H, T, d]
    scores, values = q @ k.mT, v.unsqueeze(2)
    if tables is not None:
        query, key, value = (table[:, index].transpose(0, 1) for table in tables)
        scores = scores + torch.einsum("bhid,bhijd->bhij", q, query)
        term = "bhid,bhijd->bhij" if key_from_row else "bhjd,bhijd->bhij"
        scores, values = scores + torch.einsum(term, k, key), values + value
    scores = scores * q.shape[-1] ** -0.5
    if bias is not None:
        scores = scores + bias
    if tables is not None:
        forbidden = (index == len(tables[0][0]) - 1).unsqueeze(1)
        scores = scores.masked_fill(forbidden, -np.inf)
    weights = torch.softmax(scores, -1) * kept
    if tables is not None:
        weights = weights.masked_fill(forbidden, 0)
    values = values.expand(*weights.shape, -1)
    return torch.einsum("bhij,bhijd->bihd", weights, values).flatten(2)


def expected(qkv, relations, bias, grad=None, kept=1.0, key_from_row=False):
    """Result in float64, and with ``grad`` the gradients of qkv, tables and bias."""
    qkv = torch.tensor(qkv, dtype=torch.float64, requires_grad=True)
    tables = index = None
    if relations is not None:
        tables = torch.tensor(np.stack(relations[:3]), dtype=torch.float64)
        tables.requires_grad_()
        index = torch.from_numpy(relations.relation_index)
    if bias is not None:
        bias = torch.tensor(bias, dtype=torch.float64, requires_grad=True)
    out = formula(qkv, tables, index, bias, kept, key_from_row)
    if grad is None:
        return out.detach().numpy()
    out.backward(torch.from_numpy(grad).double())
    return [None if part is None else part.grad.numpy() for part in (qkv, tables, bias)]
