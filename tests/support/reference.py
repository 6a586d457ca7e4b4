"""What the functions of cython_ext must return, in slow plain loops: the tests' oracle.

Written from their documentation and independent of their code; it repeats the codes.
"""

import itertools

import networkx
import numpy as np
import torch

FAR, UNREACHABLE = 254, 255
VIRTUAL, SELF, NO_PATH, BEYOND = range(4)  # relations
BONDS = {"bond", "path_bond", "relation_index", "relations", "edge_bond"}
EDGES = BONDS | {"dist", "in_degree", "out_degree", "edge_index"}


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


def paths_of(pred, length, values=None):
    """Every pair's path, by following its predecessors; ValueError if it is lost."""
    n = len(pred)
    out = np.full((n, n, length), -1 if values is None else 0)
    for i, j in itertools.product(range(n), repeat=2):
        if i != j and pred[i, j] < 0:
            continue
        path = [j]
        while path[0] != i:
            before = int(pred[i, path[0]])
            if before < 0 or len(path) > n:
                raise ValueError(
                    f"pred[{i}] followed back from node {j} does not arrive at node "
                    f"{i}, expected a path, or -1 for none"
                )
            path.insert(0, before)
        entries = path
        if values is not None:
            entries = [values[u, v] for u, v in zip(path, path[1:])]
        out[i, j, : len(entries)] = entries[:length]
    return out


def floyd_warshall(weights):
    """Distances and predecessors, with ties as documented, in the textbook's loop."""
    n = len(weights)
    # each pair's length, number of edges, predecessor
    best = [
        [
            (float(weights[i, j]), 1, i if weights[i, j] < np.inf else -1)
            for j in range(n)
        ]
        for i in range(n)
    ]
    for i in range(n):
        best[i][i] = (0.0, 0, -1)
    for via, i, j in itertools.product(range(n), repeat=3):
        (first, before, _), (second, after, last) = best[i][via], best[via][j]
        if j != via and first + second < np.inf:
            best[i][j] = min(best[i][j], (first + second, before + after, last))
        if (i, j) == (n - 1, n - 1):
            for node in range(n):
                if best[node][node][0] < 0:
                    raise ValueError(
                        f"weights has a negative cycle through node {node}, expected "
                        "none"
                    )
    dist = [[length for length, _, _ in row] for row in best]
    pred = [[last for _, _, last in row] for row in best]
    return np.array(dist).reshape(n, n), np.array(pred, dtype=int).reshape(n, n)


def chordless_cycles(n, edges, max_size):
    """Nodes of every cycle without chords, each sorted."""
    graph = networkx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from((u, v) for u, v, *_ in edges if u != v)
    found = networkx.chordless_cycles(graph, length_bound=max_size)
    return sorted(sorted(cycle) for cycle in found)


def columns_of(graphs, x_dtype=np.uint8, node_dtype=np.uint16, bond_dtype=np.uint8):
    """Flat columns of graphs given as (n, list of (source, target, bond)).

    A set of nodes that stands for a ring: those of a bond of even type, and the last.
    """
    edges = [sorted(edges) for _, edges in graphs]
    flat = np.array([edge for part in edges for edge in part]).reshape(-1, 3)
    sizes = [n for n, _ in graphs]
    total = sum(sizes)
    rings = [
        [sorted({u, v, n - 1}) for u, v, bond in part if bond % 2 == 0]
        for n, part in zip(sizes, edges)
    ]
    flat_rings = [nodes for part in rings for nodes in part]
    return {
        "ring_offset": np.cumsum([0, *map(len, rings)]),
        "ring_start": np.cumsum([0, *map(len, flat_rings)]),
        "ring_node": np.array(sum(flat_rings, []), dtype=node_dtype),
        "node_offset": np.cumsum([0, *sizes]),
        "edge_offset": np.cumsum([0, *map(len, edges)]),
        "x": (np.arange(total * 3) % 251).reshape(total, 3).astype(x_dtype),
        "lap_pe": np.linspace(-1, 1, total * 2, dtype=np.float32).reshape(total, 2),
        "pos": np.linspace(0, 9, total * 3, dtype=np.float32).reshape(total, 3),
        "wl_role": np.arange(total, dtype=np.int32) - 3,
        "edge_src": flat[:, 0].astype(node_dtype),
        "edge_dst": flat[:, 1].astype(node_dtype),
        "edge_bond": flat[:, 2].astype(bond_dtype),
        "edge_attr": np.linspace(-2, 2, flat.size, dtype=np.float32).reshape(-1, 3),
    }


def size_of(columns, graph):
    return int(columns["node_offset"][graph + 1] - columns["node_offset"][graph])


def edges_of(columns, graph, num_bond_types=None):
    """Stored edges (source, target, bond) of a graph; all of bond 1 without types.

    Raises:
        ValueError: With the message that the first unusable edge must have.
    """
    n = size_of(columns, graph)
    rows = slice(*columns["edge_offset"][graph : graph + 2])
    ends = [columns[name][rows].tolist() for name in ("edge_src", "edge_dst")]
    bonds = [1] * len(ends[0])
    if num_bond_types is not None:
        bonds = columns["edge_bond"][rows].tolist()
    edges = list(zip(*ends, bonds))
    for place, (u, v, bond) in enumerate(edges):
        for name, node in (("edge_src", u), ("edge_dst", v)):
            if not 0 <= node < n:
                raise ValueError(
                    f"{name} of graph {graph} holds {node}, expected a node in [0, {n})"
                )
        if num_bond_types is not None and not 1 <= bond <= num_bond_types:
            raise ValueError(
                f"edge_bond of graph {graph} holds {bond}, expected a type in "
                f"[1, {num_bond_types}]"
            )
        if place and edges[place] < edges[place - 1]:
            raise ValueError(
                f"edge {place} of graph {graph} is out of order, expected edges sorted "
                "by source, target and bond type"
            )
    return edges


def rings_of(columns, graph):
    """Sets of nodes that a graph stores; ValueError for a node outside."""
    n = size_of(columns, graph)
    rings = []
    for ring in range(*columns["ring_offset"][graph : graph + 2]):
        rows = slice(*columns["ring_start"][ring : ring + 2])
        rings.append(columns["ring_node"][rows].tolist())
        for node in rings[-1]:
            if not 0 <= node < n:
                raise ValueError(
                    f"ring_node of graph {graph} holds {node}, expected a node in "
                    f"[0, {n})"
                )
    return rings


def batch_of(
    columns,
    graph_ids,
    fields,
    *,
    num_bond_types,
    max_dist=None,
    max_hop=0,
    path_length=0,
):
    """What `build_batch` must return; ValueError with its message for a bad graph."""
    fields = set(fields)
    B, N = len(graph_ids), max((size_of(columns, g) for g in graph_ids), default=0)
    graphs = [[] for _ in graph_ids]
    if fields & EDGES:
        types = num_bond_types if fields & BONDS else None
        graphs = [edges_of(columns, graph, types) for graph in graph_ids]
    out = {
        "node_mask": np.zeros((B, N), bool),
        "in_degree": np.zeros((B, N), int),
        "out_degree": np.zeros((B, N), int),
        "dist": np.full((B, N, N), UNREACHABLE),
        "bond": np.zeros((B, N, N), int),
        "path_bond": np.zeros((B, N, N, path_length), int),
        "ring": np.zeros((B, N, N), int),
    }
    relation = np.full((B, N, N), VIRTUAL)
    for name in fields & {"x", "lap_pe", "pos", "wl_role"}:
        shape = columns[name].shape[1:]
        out[name] = np.zeros((B, N, *shape), columns[name].dtype)
    edge_index, edge_bond, node_graph = [], [], []
    for b, (graph, edges) in enumerate(zip(graph_ids, graphs)):
        n = size_of(columns, graph)
        for name in fields & {"x", "lap_pe", "pos", "wl_role"}:
            rows = slice(*columns["node_offset"][graph : graph + 2])
            out[name][b, :n] = columns[name][rows]
        out["node_mask"][b, :n] = True
        for nodes in rings_of(columns, graph) if "ring" in fields else []:
            for u, v in itertools.product(nodes, repeat=2):
                out["ring"][b, u, v] = 1
        lowest = {}  # bond of each pair with an edge
        for u, v, bond in edges:
            edge_index.append((len(node_graph) + u, len(node_graph) + v))
            edge_bond.append(bond)
            lowest[u, v] = min(bond, lowest.get((u, v), bond))
        node_graph += [b] * n
        for u, v in lowest:
            out["out_degree"][b, u] += 1
            out["in_degree"][b, v] += 1
            if u != v:
                out["bond"][b, u, v] = lowest[u, v]
        neighbours = neighbour_sets(n, lowest)
        for i in range(n):
            hops, pred = hops_and_predecessors(n, neighbours, i)
            for j in range(n):
                if j not in hops:
                    relation[b, i, j] = NO_PATH
                    continue
                h = hops[j]
                far = max_dist is not None and h > max_dist
                out["dist"][b, i, j] = FAR if far else h
                if h == 0:
                    relation[b, i, j] = SELF
                elif h == 1:
                    relation[b, i, j] = max_hop + 2 + lowest[i, j]
                else:
                    relation[b, i, j] = h + 2 if h <= max_hop else BEYOND
                node = j
                for step in range(h, 0, -1):
                    if step <= path_length:
                        out["path_bond"][b, i, j, step - 1] = lowest[pred[node], node]
                    node = pred[node]
    out["relations"] = np.unique([VIRTUAL, *relation.flat])
    out["relation_index"] = np.searchsorted(out["relations"], relation)
    out["edge_index"] = np.array(edge_index, dtype=int).reshape(-1, 2).T
    out["edge_bond"] = np.array(edge_bond, dtype=int)
    out["node_graph"] = np.array(node_graph, dtype=int)
    if "edge_attr" in fields:
        ends = [columns["edge_offset"][graph : graph + 2] for graph in graph_ids]
        rows = [columns["edge_attr"][slice(*pair)] for pair in ends]
        out["edge_attr"] = np.concatenate(rows or [columns["edge_attr"][:0]])
    if fields & {"relation_index", "relations"}:
        fields |= {"relation_index", "relations"}
    return {name: out[name] for name in fields}


def channel_attention(grad, base, v, features, att, val=None, keep=None):
    """Result and gradients of base, v, att and val, by autograd in float64."""
    base, v, features, att, val, keep = (
        None if array is None else torch.tensor(array, dtype=torch.float64)
        for array in (base, v, features, att, val, keep)
    )
    inputs = [base, v, att] + [val] * (val is not None)
    for tensor in inputs:
        tensor.requires_grad_()
    wide = features.permute(0, 2, 3, 1).unsqueeze(-1)

    def pair_vectors(table):
        return (wide * table).masked_fill(wide == 0, 0).sum(3)

    scores = base.permute(0, 2, 3, 1).repeat_interleave(v.shape[2] // base.shape[1], 3)
    weights = torch.softmax(scores + pair_vectors(att), 2)
    if keep is not None:
        weights = weights * keep.unsqueeze(3)
    messages = v.unsqueeze(1)
    if val is not None:
        messages = messages + pair_vectors(val)
    out = (weights * messages).sum(2)
    gradients = torch.autograd.grad(out, inputs, torch.from_numpy(grad).double())
    results = [part.detach().numpy() for part in (out, *gradients)]
    return results if val is not None else [*results, None]


def random_graph(rng, max_nodes, density, num_bond_types, directed=True):
    """A graph with self-loops and parallel edges; about ``density * n`` edges."""
    n = int(rng.integers(0, max_nodes + 1))
    ends = rng.integers(0, max(n, 1), (int(n * density * rng.random()), 2)).tolist()
    bonds = rng.integers(1, num_bond_types + 1, len(ends)).tolist()
    edges = [(u, v, bond) for (u, v), bond in zip(ends, bonds)]
    if not directed:
        edges += [(v, u, bond) for u, v, bond in edges]
    return n, edges
