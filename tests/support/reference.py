"""The definitions of the batch fields and of shortest paths, as slow plain loops."""

import numpy as np

FAR, UNREACHABLE = 254, 255
KERNELS = ("_batch", "_cycles", "_shortest_path")  # of cython_ext, with a fallback


def hops_and_predecessors(n, neighbours, source):
    """Breadth-first search by sets of nodes; the lowest predecessor by comparison."""
    hops, level = {source: 0}, {source}
    while level:
        level = {v for u in level for v in neighbours[u]} - hops.keys()
        hops.update(dict.fromkeys(level, max(hops.values()) + 1))
    pred = {
        v: min(u for u in hops if v in neighbours[u] and hops[u] + 1 == hops[v])
        for v in hops
        if v != source
    }
    return hops, pred


def neighbour_sets(n, edges):
    return [{int(v) for w, v, *_ in edges if w == u} for u in range(n)]


def sets_of(graph):
    """Sets of nodes that stand for rings: a bond with the last node, if it is even."""
    n, edges = graph
    return [sorted({u, v, n - 1}) for u, v, bond in sorted(edges) if bond % 2 == 0]


def columns_of(graphs, x_dtype=np.uint8, node_dtype=np.uint16, bond_dtype=np.uint8):
    """Flat columns of graphs given as (n, list of (source, target, bond))."""
    edges = [sorted(edges) for _, edges in graphs]
    flat = np.array([edge for part in edges for edge in part]).reshape(-1, 3)
    sizes = [n for n, _ in graphs]
    total = sum(sizes)
    sets = [sets_of(graph) for graph in graphs]
    flat_sets = [nodes for part in sets for nodes in part]
    return {
        "ring_offset": np.cumsum([0, *map(len, sets)]),
        "ring_start": np.cumsum([0, *map(len, flat_sets)]),
        "ring_node": np.array(sum(flat_sets, []), dtype=node_dtype),
        "node_offset": np.cumsum([0, *sizes]),
        "edge_offset": np.cumsum([0, *map(len, edges)]),
        "x": (np.arange(total * 3) % 251).reshape(total, 3).astype(x_dtype),
        "lap_pe": np.linspace(-1, 1, total * 2, dtype=np.float32).reshape(total, 2),
        "pos": np.linspace(0, 9, total * 3, dtype=np.float32).reshape(total, 3),
        "wl_role": np.arange(total, dtype=np.int32) - 3,
        "edge_src": flat[:, 0].astype(node_dtype),
        "edge_dst": flat[:, 1].astype(node_dtype),
        "edge_bond": flat[:, 2].astype(bond_dtype),
    }


def batch_of(graphs, columns, ids, *, max_dist, max_hop, length):
    """All fields, from the text of ``build_batch``; joint codes, not positions."""
    B, N = len(ids), max((graphs[i][0] for i in ids), default=0)
    L, F = length, columns["x"].shape[1]
    out = {
        "x": np.zeros((B, N, F), columns["x"].dtype),
        "lap_pe": np.zeros((B, N, 2), np.float32),
        "pos": np.zeros((B, N, 3), np.float32),
        "wl_role": np.zeros((B, N), np.int32),
        "node_mask": np.zeros((B, N), bool),
        "in_degree": np.zeros((B, N), int),
        "out_degree": np.zeros((B, N), int),
        "dist": np.full((B, N, N), UNREACHABLE),
        "bond": np.zeros((B, N, N), int),
        "path_bond": np.zeros((B, N, N, L), int),
        "relation_index": np.zeros((B, N, N), int),
        "ring": np.zeros((B, N, N), int),
        "node_graph": np.repeat(np.arange(B), [graphs[i][0] for i in ids]),
    }
    edge_index, edge_bond, base = [], [], 0
    for b, graph in enumerate(ids):
        n, edges = graphs[graph]
        rows = slice(*columns["node_offset"][graph : graph + 2])
        for name in ("x", "lap_pe", "pos", "wl_role"):
            out[name][b, :n] = columns[name][rows]
        out["node_mask"][b, :n] = True
        for nodes in sets_of(graphs[graph]):
            for u in nodes:
                for v in nodes:
                    out["ring"][b, u, v] = 1
        lowest = {}
        for u, v, bond in sorted(edges):
            edge_index.append((base + u, base + v))
            edge_bond.append(bond)
            lowest.setdefault((u, v), bond)
        base += n
        for u, v in lowest:
            out["out_degree"][b, u] += 1
            out["in_degree"][b, v] += 1
        neighbours = neighbour_sets(n, lowest)
        for i in range(n):
            hops, pred = hops_and_predecessors(n, neighbours, i)
            for j in range(n):
                if j not in hops:
                    out["relation_index"][b, i, j] = 2
                    continue
                h = hops[j]
                far = max_dist is not None and h > max_dist
                out["dist"][b, i, j] = FAR if far else h
                if h == 1:
                    out["bond"][b, i, j] = lowest[i, j]
                    out["relation_index"][b, i, j] = max_hop + 2 + lowest[i, j]
                else:
                    out["relation_index"][b, i, j] = (
                        1 if h == 0 else min(h, max_hop + 1) + 2
                    )
                    if h > max_hop:
                        out["relation_index"][b, i, j] = 3
                node = j
                for step in range(h, 0, -1):
                    if step <= L:
                        out["path_bond"][b, i, j, step - 1] = lowest[pred[node], node]
                    node = pred[node]
    out["edge_index"] = np.array(edge_index, dtype=int).reshape(-1, 2).T
    out["edge_bond"] = np.array(edge_bond, dtype=int)
    return out


def random_graph(rng, max_nodes, density, num_bond_types, directed=True):
    """A graph with self-loops and parallel edges; about ``density * n`` edges."""
    n = int(rng.integers(0, max_nodes + 1))
    ends = rng.integers(0, max(n, 1), (int(n * density * rng.random()), 2)).tolist()
    bonds = rng.integers(1, num_bond_types + 1, len(ends)).tolist()
    edges = [(u, v, bond) for (u, v), bond in zip(ends, bonds)]
    if not directed:
        edges += [(v, u, bond) for u, v, bond in edges]
    return n, edges
