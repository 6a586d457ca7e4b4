"""Weisfeiler-Lehman roles for `--wl-rounds 2`: colours of nodes after two rounds of
colour refinement.

All nodes start with one colour, whatever their features; each round joins the colour of
a node with the multiset of its neighbours' colours. After one round a colour is a degree,
after two it is a degree with the degrees of the neighbours. Neighbours are distinct, a
directed graph counts as undirected, and self-loops do not count, as for the eigenvectors
of `graphormer_plugin.data.batches.fields.laplacian`.

The numbers of the colours do not depend on the dataset: equal neighbourhoods have the same
role in every graph, also in molecules that a trained model meets later. Colours with all
degrees up to `LISTED_DEGREE` are listed by their largest degree: the 70 with degrees up to 4
are 0..69, the 924 with degrees up to 6 are 0..923. Any other colour is a 31-bit hash of the
multiset, from 924; two such colours share a number with probability 5e-10.
"""

import itertools
from functools import cache

import numpy as np
from tqdm import tqdm

from cython_ext.codes import GOLDEN, MIXING
from graphormer_plugin.data.columns import Columns

LISTED_DEGREE = 6
_EDGES_AT_ONCE = 1 << 21


def wl_roles(columns: Columns, progress: str | None = None) -> np.ndarray:
    """Roles of all nodes of a store, int32 [sum N], >= 0, by the convention of this module.
    ``progress`` is the label of a progress bar; None shows none."""
    node_offset = np.asarray(columns["node_offset"])
    edge_offset = np.asarray(columns["edge_offset"])
    out = np.zeros(int(node_offset[-1]), dtype=np.int32)
    graphs = len(node_offset) - 1
    first = 0
    with tqdm(total=graphs, unit="graph", desc=progress, disable=not progress) as bar:
        while first < graphs:
            limit = edge_offset[first] + _EDGES_AT_ONCE
            last = int(np.searchsorted(edge_offset, limit, side="right")) - 1
            last = min(max(last, first + 1), graphs)
            nodes = slice(int(node_offset[first]), int(node_offset[last]))
            edges = slice(int(edge_offset[first]), int(edge_offset[last]))
            of_edge = np.repeat(
                node_offset[first:last] - nodes.start,
                np.diff(edge_offset[first : last + 1]),
            )
            src, dst = (
                columns[name][edges].astype(np.int64) + of_edge
                for name in ("edge_src", "edge_dst")
            )
            out[nodes] = _roles(src, dst, nodes.stop - nodes.start)
            bar.update(last - first)
            first = last
    return out


def _roles(src: np.ndarray, dst: np.ndarray, num_nodes: int) -> np.ndarray:
    """Roles of the nodes 0..num_nodes - 1."""
    links = np.concatenate([src, dst]) * num_nodes + np.concatenate([dst, src])
    node, neighbour = np.divmod(np.unique(links), max(num_nodes, 1))
    is_link = node != neighbour  # not a loop
    node = node[is_link]
    neighbour = neighbour[is_link]
    degree = np.bincount(node, minlength=num_nodes)
    of_neighbour = degree[neighbour]

    # A sum does not depend on the order of the neighbours.
    hashes = np.zeros(num_nodes, dtype=np.uint64)
    np.add.at(hashes, node, _mix(of_neighbour))
    table = _listed()
    listed = len(table)
    roles = (_mix(hashes) % np.uint64(2**31 - listed)).astype(np.int64) + listed

    largest = degree.copy()
    np.maximum.at(largest, node, of_neighbour)
    small = largest <= LISTED_DEGREE
    counts = np.zeros(num_nodes, dtype=np.int64)
    is_small = small[node]
    np.add.at(counts, node[is_small], _BASE ** (of_neighbour[is_small] - 1))
    roles[small] = [table[count] for count in counts[small].tolist()]
    return roles


_BASE = LISTED_DEGREE + 1


@cache
def _listed() -> dict[int, int]:
    """Role by the number whose digits, in base `_BASE`, are how many neighbours have
    degree 1, 2, ..., `LISTED_DEGREE`."""
    degrees = range(1, LISTED_DEGREE + 1)
    colours = [
        neighbours
        for degree in range(LISTED_DEGREE + 1)
        for neighbours in itertools.combinations_with_replacement(degrees, degree)
    ]
    colours.sort(key=lambda colour: (max(len(colour), *colour, 0), colour))
    return {
        sum(_BASE ** (degree - 1) for degree in colour): role
        for role, colour in enumerate(colours)
    }


def _mix(numbers: np.ndarray) -> np.ndarray:
    """splitmix64 of integers, uint64."""
    z = numbers.astype(np.uint64) + np.uint64(GOLDEN)
    for shift, factor in MIXING:
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    return z
