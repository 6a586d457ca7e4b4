"""Rings and other substructures: sets of nodes that CGT and CSA bind to each other.

Definition 3.1 of Menegaux et al. 2023 (hal-04105101): two nodes are bound if there is a
substructure of a chosen kind that holds both; a node is bound to itself if a substructure
holds it. The kind `rings` is the paper's: chordless cycles of at most r nodes, found
in any graph by `cython_ext.chordless_cycles`. It finds more than RDKit's ring information,
which is a smallest set of rings that generates all others. For norbornane RDKit lists the
two five-membered rings; here the six-membered ring around the bridge is found too. A cycle
around fused rings (ten atoms in decalin) has the shared bond as a chord and does not count.

Another kind is a function in a folder that ``--user-data-dir`` names:

    @register_substructures("stars")
    def stars(num_nodes, edge_index, max_size):
        for node in range(num_nodes):
            others = edge_index[1][edge_index[0] == node]
            if 3 <= len(others) < max_size:
                yield [node, *others]
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from cython_ext import chordless_cycles
from graphormer_plugin.choices import UnknownNameError
from graphormer_plugin.data.columns import Columns
from graphormer_plugin.data.errors import user_code_errors
from graphormer_plugin.data.graphs.graph_columns import edges_of_graph
from graphormer_plugin.data.sources.registry import code_hash, is_made_again

RINGS = "rings"
_GRAPHS_AT_ONCE = 1 << 14

# Number of nodes, edges int64 [2, E] and largest size -> sets of nodes.
Finder = Callable[[int, np.ndarray, int], Iterable[Iterable[int]]]


class Substructures(NamedTuple):
    """A registered kind: the function that finds the sets, and a hash of its code."""

    find: Finder | None
    code: str


SUBSTRUCTURES: dict[str, Substructures] = {RINGS: Substructures(None, "")}


def register_substructures(name: str) -> Callable[[Finder], Finder]:
    """Decorator: makes a function available as ``--substructures NAME``.

    The function gets the number of nodes, the edges (int64 ``[2, E]``) and
    ``--max-ring-size``, and returns sets of nodes; see the module's text. The sets are kept
    beside the store, and computed again after a change of the function's file or folder.
    """
    if not name or not name.replace("_", "").replace("-", "").isalnum():
        raise ValueError(f"substructures {name!r}: expected letters, digits, _ and -")

    def _register(find: Finder) -> Finder:
        earlier = SUBSTRUCTURES.get(name)
        if earlier and not (earlier.find and is_made_again(earlier.find, find)):
            raise ValueError(f"substructures {name!r} are registered already")
        SUBSTRUCTURES[name] = Substructures(find, code_hash(find))
        return find

    return _register


def substructures(name: str) -> Substructures:
    """A registered kind of substructures."""
    if name not in SUBSTRUCTURES:
        raise UnknownNameError("substructures", name, SUBSTRUCTURES)
    return SUBSTRUCTURES[name]


def substructure_sets(
    columns: Columns, name: str, max_size: int, progress: str | None = None
) -> Columns:
    """Columns behind the batch field ``ring``, from sets of at most ``max_size`` nodes:
    ``ring_offset`` int64 [G + 1], the sets of each graph; ``ring_start`` int64 [S + 1], the
    rows of each set; ``ring_node``, the nodes, numbered within their graph, in the smallest
    of uint8, uint16 and int32. ``progress`` is the label of a progress bar, if it is shown.
    """
    find = substructures(name).find
    num_graphs = len(columns["node_offset"]) - 1
    largest = int(np.diff(columns["node_offset"]).max(initial=0))
    dtype = np.uint8 if largest <= 256 else np.uint16 if largest <= 65536 else np.int32
    counts = [np.zeros(1, np.int64)]
    sizes = [np.zeros(1, np.int64)]
    nodes = []
    with tqdm(
        total=num_graphs, unit="graph", desc=progress, disable=not progress
    ) as bar:
        for first in range(0, num_graphs, _GRAPHS_AT_ONCE):
            last = min(first + _GRAPHS_AT_ONCE, num_graphs)
            if find is None:
                count, size, node = chordless_cycles(
                    columns, max_size, first=first, last=last
                )
            else:
                count, size, node = _found_by(
                    find, columns, max_size, range(first, last)
                )
            counts.append(count)
            sizes.append(size)
            nodes.append(node.astype(dtype))
            bar.update(last - first)
    return {
        "ring_offset": np.concatenate(counts).cumsum(),
        "ring_start": np.concatenate(sizes).cumsum(),
        "ring_node": np.concatenate([*nodes, np.zeros(0, dtype)]),
    }


def _found_by(
    find: Finder, columns: Columns, max_size: int, graphs: range
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The arrays of `chordless_cycles`, from a user's function."""
    counts = []
    sets = [np.zeros(0, np.int32)]
    for graph in graphs:
        size = int(np.diff(columns["node_offset"][graph : graph + 2])[0])
        edges = edges_of_graph(columns, graph)
        with user_code_errors("the function of the substructures"):
            of_graph = [
                sorted(set(map(int, nodes))) for nodes in find(size, edges, max_size)
            ]
            for nodes in of_graph:
                if nodes and not 0 <= nodes[0] <= nodes[-1] < size:
                    raise ValueError(
                        f"substructure {nodes} of graph {graph}, which has {size} nodes"
                    )
        counts.append(len(of_graph))
        sets += [np.array(nodes, np.int32) for nodes in of_graph]
    sizes = [len(nodes) for nodes in sets[1:]]
    return np.array(counts), np.array(sizes, np.int64), np.concatenate(sets)
