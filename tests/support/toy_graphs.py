"""Small random graphs and their batches, for tests of modules."""

import numpy as np
import torch

from cython_ext import build_batch

NODE_DIMS = [7, 3]
OPTIONAL_COLUMNS = ("lap_pe", "pos")


def random_graph(rng, n, density, num_bond_types=4, directed=False):
    """Columns of one graph, possibly disconnected; bond types are symmetric unless
    directed."""
    bond = rng.integers(1, num_bond_types + 1, (n, n)) * (rng.random((n, n)) < density)
    if directed:
        np.fill_diagonal(bond, 0)
    else:
        bond = np.triu(bond, 1)
        bond = bond + bond.T
    src, dst = np.nonzero(bond)
    return {
        "x": rng.integers(0, NODE_DIMS, (n, 2)),
        "src": src,
        "dst": dst,
        "bond": bond[src, dst],
        "lap_pe": rng.normal(size=(n, 3)).astype(np.float32),
        "pos": rng.normal(size=(n, 3)).astype(np.float32),
    }


def undirected_graph(n, edges, bond=1):
    """A graph of n equal nodes with these edges, all of one bond type."""
    both = sorted([(u, v) for u, v in edges] + [(v, u) for u, v in edges])
    src, dst = np.array(both, dtype=int).reshape(-1, 2).T
    bonds = np.full(len(src), bond)
    return {"x": np.zeros((n, 2), int), "src": src, "dst": dst, "bond": bonds}


def permute(graph, order):
    """The same graph with node `order[i]` renamed i."""
    rank = np.argsort(order)
    src, dst = rank[graph["src"]], rank[graph["dst"]]
    edges = np.lexsort((dst, src))
    nodes = {name: graph[name][order] for name in ("x", *OPTIONAL_COLUMNS)}
    return {**nodes, "src": src[edges], "dst": dst[edges], "bond": graph["bond"][edges]}


def collate(graphs, fields, num_bond_types=4, **options):
    """Batch of tensors; `options` are those of `cython_ext.build_batch`."""

    def column(name, dtype):
        return np.concatenate([g[name] for g in graphs]).astype(dtype)

    columns = {
        "node_offset": np.cumsum([0] + [len(g["x"]) for g in graphs]),
        "edge_offset": np.cumsum([0] + [len(g["src"]) for g in graphs]),
        "x": column("x", np.int16),
        "edge_src": column("src", np.uint8),
        "edge_dst": column("dst", np.uint8),
        "edge_bond": column("bond", np.uint8),
    }
    for name in OPTIONAL_COLUMNS:
        if name in fields:
            columns[name] = column(name, np.float32)
    ids = np.arange(len(graphs))
    batch = build_batch(columns, ids, fields, num_bond_types=num_bond_types, **options)
    return {name: torch.from_numpy(array) for name, array in batch.items()}


def hops(graph):
    """Distances by relaxation, inf where there is no path."""
    n = len(graph["x"])
    dist = np.full((n, n), np.inf)
    np.fill_diagonal(dist, 0)
    for _ in range(n):
        for u, v in zip(graph["src"], graph["dst"]):
            dist[:, v] = np.minimum(dist[:, v], dist[:, u] + 1)
    return dist


def shortest_path(graph, dist, i, j):
    """Nodes from i to j; ties: the lowest-numbered predecessor."""
    path = [j]
    while path[0] != i:
        before = [
            u
            for u, v in zip(graph["src"], graph["dst"])
            if v == path[0] and dist[i, u] + 1 == dist[i, path[0]]
        ]
        path.insert(0, min(before))
    return path
