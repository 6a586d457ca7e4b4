"""Arguments of the batch kernel, and the codes in which it reports a wrong graph.

``_batch.fill(job, seen)`` fills all outputs. It returns ``None``, or ``(position, code, value)``
of the first graph with unusable edges.
"""

from dataclasses import dataclass, field

import numpy as np

# Codes of faults of a graph; in brackets the meaning of `value`.
BAD_SOURCE = 1  # edge_src outside the graph (the number found)
BAD_TARGET = 2  # edge_dst outside the graph (the number found)
BAD_BOND = 3  # bond type outside 1..num_bond_types (the type found)
BAD_ORDER = 4  # edges not sorted by source, target, bond (position of the edge)
BAD_DEGREE = 5  # a node with more than MAX_DEGREE neighbours (their number)
BAD_HOPS = 6  # a path longer than `hop_limit` (hops from the first such source)

MAX_DEGREE = np.iinfo(np.int16).max
NO_HOP_LIMIT = np.iinfo(np.int32).max


@dataclass(slots=True)
class BatchJob:
    """Inputs and preallocated outputs of one batch of ``B`` graphs.

    Attributes:
        width: ``N``, the padded number of nodes. As a number of hops it also means
            "unreachable", since no path has more than ``N - 1``.
        node_start: first row of each graph in the node columns, int64 ``[B]``.
        node_count: nodes of each graph, int64 ``[B]``.
        edge_start: first row of each graph in the edge columns, int64 ``[B]``.
        edge_count: edges of each graph, int64 ``[B]``.
        node_base: nodes of the batch before each graph, int64 ``[B]``. None, like
            ``edge_base``, if no flat edges are asked for.
        edge_base: edges of the batch before each graph, int64 ``[B]``.
        edge_src: stored column, or None if no field needs edges.
        edge_dst: stored column, or None if no field needs edges.
        edge_bond: stored column, or None if no field needs bond types.
        num_bond_types: largest bond type.
        hop_limit: longest path that ``dist`` may hold.
        dist_of_hop: entry of ``dist`` for each number of hops, uint16 ``[N + 1]``.
        relation_of_hop: relation for each number of hops, uint16 ``[N + 1]``.
        bond_base: relation of a direct edge less its bond type.
        out: array per field. ``relation_index`` receives relations; their positions
            replace them once it is known which relations occur in the batch.
        node_columns: pairs of stored column ``[sum N, F]`` and output ``[B, N, F]``.
    """

    width: int
    node_start: np.ndarray
    node_count: np.ndarray
    edge_start: np.ndarray
    edge_count: np.ndarray
    node_base: np.ndarray | None = None
    edge_base: np.ndarray | None = None
    edge_src: np.ndarray | None = None
    edge_dst: np.ndarray | None = None
    edge_bond: np.ndarray | None = None
    num_bond_types: int = 0
    hop_limit: int = NO_HOP_LIMIT
    dist_of_hop: np.ndarray | None = None
    relation_of_hop: np.ndarray | None = None
    bond_base: int = 0
    out: dict[str, np.ndarray] = field(default_factory=dict)
    node_columns: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
