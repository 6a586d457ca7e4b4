"""Every field of a batch: shape, dtype, meaning and padding value.

``B`` graphs, ``N`` nodes after padding (the largest graph of the batch), ``E`` edges
of the whole batch, ``F`` node columns, ``L`` path length, ``k`` eigenvectors, ``R``
relations that occur in the batch, ``C`` targets.

A model states the fields it needs in a :class:`BatchSpec`; the collator builds those
and no others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from cython_ext import (
    FAR,
    MAX_HOPS,
    RELATION_FAR,
    RELATION_SELF,
    RELATION_UNREACHABLE,
    RELATION_VIRTUAL,
    UNREACHABLE,
)

# Codes of ``dist``; distances from 0 to 253 hops are themselves. FAR: connected, but
# farther than max_dist. UNREACHABLE: no path, and every padded pair.
#
# Codes of ``relation_code``; `num_relations` says how they go on. RELATION_VIRTUAL:
# pairs with the virtual node, and every padded pair. RELATION_FAR: more than max_hop.
__all__ = [
    "BatchSpec",
    "FAR",
    "FIELDS",
    "Field",
    "RELATION_FAR",
    "RELATION_SELF",
    "RELATION_UNREACHABLE",
    "RELATION_VIRTUAL",
    "UNREACHABLE",
    "num_relations",
]


@dataclass(frozen=True)
class Field:
    """One entry of a batch.

    Attributes:
        shape: In the letters above.
        dtype: NumPy names; alternatives are separated by ``|``.
        padding: Value of entries that belong to no node, None if there are none.
        meaning: One line.
    """

    shape: str
    dtype: str
    padding: Optional[str]
    meaning: str


FIELDS: dict[str, Field] = {
    # The columns as prepared; models that embed them add their own offsets.
    "x": Field("[B, N, F]", "int16|int32|float64", "0", "node features"),
    # Padding is False, so a sum over N counts nodes.
    "node_mask": Field("[B, N]", "bool", "False", "True where a node is real"),
    # Distinct neighbours: parallel edges count once, a self-loop counts once.
    "in_degree": Field("[B, N]", "int16", "0", "distinct nodes with an edge to it"),
    "out_degree": Field("[B, N]", "int16", "0", "distinct nodes it has an edge to"),
    # [i, j] follows the direction of the edges from i to j; 0 on the diagonal.
    "dist": Field("[B, N, N]", "uint8", "UNREACHABLE", "hops from i to j, or a code"),
    # The lowest type among parallel edges; self-loops are no pairs.
    "bond": Field("[B, N, N]", "uint8|uint16", "0", "type of edge i -> j, 0 = none"),
    # Ties between shortest paths: the lowest-numbered predecessor.
    "path_bond": Field(
        "[B, N, N, L]", "uint8|uint16", "0", "types of the first L steps from i to j"
    ),
    # Distance and bond of a pair in one index, small enough for look-up tables.
    "relation": Field("[B, N, N]", "uint8|uint16", "0", "position in relation_code"),
    # Sorted; code 0 is always first, so that padded pairs are position 0.
    "relation_code": Field("[R]", "int64", None, "joint codes that occur in the batch"),
    # Symmetric; on the diagonal 1 where a node is in any. See rings.py.
    "ring": Field("[B, N, N]", "uint8", "0", "1: the two are in a ring together"),
    # Eigenvectors of the graph Laplacian, computed once at preparation.
    "lap_pe": Field("[B, N, k]", "float32", "0", "Laplacian eigenvectors"),
    # Weisfeiler-Lehman colour, numbered alike in all graphs (weisfeiler_lehman.py).
    "wl_role": Field("[B, N]", "int32", "0", "WL colour"),
    # Angstrom for molecules; whatever a user's data set holds otherwise. The kernel makes
    # float32, which fairseq's --fp16 would halve: the collator widens them, and x too.
    "pos": Field("[B, N, 3]", "float64", "0", "coordinates"),
    # The batch as PyTorch Geometric has it: nodes of all graphs, one after another.
    "edge_index": Field("[2, E]", "int64", None, "source and target of each edge"),
    "edge_bond": Field("[E]", "uint8|uint16", None, "bond type of each edge, from 1"),
    "node_graph": Field("[sum N]", "int64", None, "position in the batch of its graph"),
}


@dataclass(frozen=True)
class BatchSpec:
    """What a model needs of a batch.

    Attributes:
        fields: Names out of `FIELDS`.
        max_hop: Distance cap of ``relation``, in hops, 1 to 253.
        max_dist: Distances above it become FAR in ``dist``; None keeps them all.
        path_length: ``L`` of ``path_bond``.
        lap_pe_dim: ``k`` of ``lap_pe``.
        max_ring_size: Most nodes of a ``ring``, 3 or more.
        substructures: What counts as a ``ring``, a name registered in rings.py.

    Raises:
        ValueError: A field is unknown, or one that is asked for lacks its parameter.
    """

    fields: frozenset[str]
    max_hop: Optional[int] = None
    max_dist: Optional[int] = None
    path_length: int = 0
    lap_pe_dim: int = 0
    max_ring_size: int = 0
    substructures: str = "rings"

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", frozenset(self.fields))
        unknown = sorted(self.fields - FIELDS.keys())
        if unknown:
            raise ValueError(
                f"unknown batch field {unknown[0]!r}, expected one of {sorted(FIELDS)}"
            )
        if self.fields & {"relation", "relation_code"}:
            if self.max_hop is None or not 1 <= self.max_hop <= MAX_HOPS:
                raise ValueError(
                    f"relation needs max_hop in 1..{MAX_HOPS}, got {self.max_hop}"
                )
        if self.max_dist is not None and not 1 <= self.max_dist < FAR:
            raise ValueError(f"max_dist must be in 1..{FAR - 1}, got {self.max_dist}")
        if "path_bond" in self.fields and self.path_length < 1:
            raise ValueError(
                f"path_bond needs path_length >= 1, got {self.path_length}"
            )
        if "lap_pe" in self.fields and self.lap_pe_dim < 1:
            raise ValueError(f"lap_pe needs lap_pe_dim >= 1, got {self.lap_pe_dim}")
        if "ring" in self.fields and self.max_ring_size < 3:
            raise ValueError(f"ring needs max_ring_size >= 3, got {self.max_ring_size}")


def num_relations(max_hop: int, num_bond_types: int) -> int:
    """Number of joint codes: 0..3 as above, hops 2..max_hop, then the bond types.

    Hop ``h`` has code ``h + 2``; an edge of bond type ``b`` (from 1) has code
    ``max_hop + 2 + b``.
    """
    return max_hop + 3 + num_bond_types
