"""Columns of graphs that are given as lists of edges."""

import numpy as np


def columns_of(*graphs):
    """Columns of (number of nodes, directed edges) each."""
    edges = [sorted(set(pairs)) for _, pairs in graphs]
    flat = [pair for pairs in edges for pair in pairs]
    flat = np.array(flat, dtype=int).reshape(-1, 2)
    dtype = np.uint8 if max(n for n, _ in graphs) <= 256 else np.int32
    return {
        "node_offset": np.cumsum([0, *(n for n, _ in graphs)]),
        "edge_offset": np.cumsum([0, *map(len, edges)]),
        "edge_src": flat[:, 0].astype(dtype),
        "edge_dst": flat[:, 1].astype(dtype),
    }


def both(edges):
    return [*edges, *((v, u) for u, v in edges)]


def random_graph(rng, n, density=0.3):
    upper = np.argwhere(np.triu(rng.random((n, n)) < density, 1))
    return n, both([tuple(pair) for pair in upper.tolist()])
