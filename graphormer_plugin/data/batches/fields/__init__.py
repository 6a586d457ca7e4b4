"""Every field of a batch: shape, dtype, meaning and padding value.

``B`` graphs, ``N`` nodes after padding (of the largest graph of the batch), ``E`` edges of
the whole batch, ``F`` columns (of nodes in ``x``, of edges in ``edge_attr``), ``L`` path
length, ``k`` eigenvectors, ``R`` relations that occur in the batch, ``K`` numbers of each
graph that join the output layer, ``M`` edges of the whole batch that a field brings.

A model states the fields that it needs in a `BatchSpec`; the collator builds
these and no others. In training the task adds ``seed``, int64 ``[B]``: where random
numbers of a graph come from (``modules/layers/graph_random.py``).
"""

from dataclasses import dataclass

from cython_ext.codes import MAX_HOPS
from graphormer_plugin.choices import UnknownNameError
from graphormer_plugin.components import matching


@dataclass(frozen=True)
class Field:
    """One entry of a batch.

    Attributes:
        shape: in the letters above.
        dtype: NumPy names; alternatives are separated by ``|``.
        padding: value of the entries that belong to no node; None if there are none.
        meaning: one line.
        column: stored column of a field that a user has registered; empty for the others.
    """

    shape: str
    dtype: str
    padding: str | None
    meaning: str
    column: str = ""


FIELDS: dict[str, Field] = {
    # The columns as stored; a model that embeds them adds its own offsets.
    "x": Field("[B, N, F]", "int16|int32|float64", "0", "node features"),
    # A sum over N counts the nodes of a graph.
    "node_mask": Field("[B, N]", "bool", "False", "True where a node is real"),
    # Parallel edges count once, and so does a self-loop.
    "in_degree": Field("[B, N]", "int16", "0", "distinct nodes with an edge to it"),
    "out_degree": Field("[B, N]", "int16", "0", "distinct nodes it has an edge to"),
    # A path follows the direction of the edges. Codes: cython_ext/codes.py.
    "dist": Field("[B, N, N]", "uint8", "UNREACHABLE", "hops from i to j, or a code"),
    # The lowest type of parallel edges. The diagonal is 0, also with a self-loop.
    # `number_edges` puts an edge's number in the batch from 1, int32, in the place of its
    # type, here and in path_bond.
    "bond": Field("[B, N, N]", "uint8|uint16", "0", "type of edge i -> j, 0 = none"),
    # The path that arrives from the lowest-numbered node, if several are shortest.
    "path_bond": Field(
        "[B, N, N, L]", "uint8|uint16", "0", "types of the first L edges from i to j"
    ),
    # Distance and bond of a pair as one index into small look-up tables.
    "relation_index": Field(
        "[B, N, N]", "uint8|uint16", "0", "position in `relations` of the pair's own"
    ),
    # Ascending. Always starts with RELATION_VIRTUAL, so padded pairs have index 0.
    "relations": Field("[R]", "int64", None, "relations that occur (cython_ext/codes)"),
    # Symmetric. The diagonal is 1 where a node is in any ring. See rings.py.
    "ring": Field("[B, N, N]", "uint8", "0", "1 if i and j share a ring"),
    # Computed once, at preparation.
    "lap_pe": Field("[B, N, k]", "float32", "0", "eigenvectors of the Laplacian"),
    # The same colour has the same number in all graphs (weisfeiler_lehman.py).
    "wl_role": Field("[B, N]", "int32", "0", "Weisfeiler-Lehman colour"),
    # In angstrom for molecules, otherwise in the unit of the dataset. The kernel makes
    # float32, which fairseq's --fp16 would halve; the collator makes float64 of it.
    "pos": Field("[B, N, 3]", "float64", "0", "coordinates"),
    # The batch as in PyTorch Geometric: the nodes of all graphs, one after another.
    "edge_index": Field("[2, E]", "int64", None, "source and target of each edge"),
    "edge_bond": Field("[E]", "uint8|uint16", None, "bond type of each edge, from 1"),
    "edge_attr": Field("[E, F]", "float64", None, "real features of each edge"),
    # The nodes of each labelled edge or link, P the most in a graph.
    "edge_label_index": Field("[B, P, 2]", "int64", "0", "nodes of what has a label"),
    # Standardised, 0 where missing (FeatureSchema.scale_graph_features).
    "graph_features": Field("[B, K]", "float64", None, "numbers of each graph"),
    "node_graph": Field("[sum N]", "int64", None, "position in the batch of its graph"),
}
"""All fields of a batch, by name; `registered.register_field` adds a user's own."""


def list_fields(*patterns: str) -> list[str]:
    """Names of batch fields that match one of some patterns; all without."""
    return matching(FIELDS, patterns)


# Fields, the parameter that they need, and its range.
_NEEDS = (
    ({"relation_index", "relations"}, "max_hop", 1, MAX_HOPS),
    ({"dist"}, "max_dist", 1, MAX_HOPS),
    ({"path_bond"}, "path_length", 1, 2**16 - 1),
    ({"lap_pe"}, "lap_pe_dim", 1, 2**31 - 1),
    ({"ring"}, "max_ring_size", 3, 2**31 - 1),
)


@dataclass(frozen=True)
class BatchSpec:
    """Fields of a batch that a model needs, and their parameters.

    Attributes:
        fields: names out of `FIELDS`.
        max_hop: largest number of hops with a relation of its own, 1 to 253; farther
            pairs share RELATION_FAR.
        max_dist: larger distances become FAR in ``dist``; None keeps them all.
        path_length: ``L`` of ``path_bond``.
        lap_pe_dim: ``k`` of ``lap_pe``.
        max_ring_size: largest number of nodes of a ``ring``, 3 or more.
        substructures: kind of sets behind ``ring``, a name registered in rings.py.
        distinct_edges: the model reads real features of edges as features of pairs: no two
            edges of a graph may have the same ends.
        number_edges: ``bond`` and ``path_bond`` have numbers of edges, from 1, in the
            order of ``edge_attr``, instead of bond types.
    """

    fields: frozenset[str]
    max_hop: int | None = None
    max_dist: int | None = None
    path_length: int = 0
    lap_pe_dim: int = 0
    max_ring_size: int = 0
    substructures: str = "rings"
    distinct_edges: bool = False
    number_edges: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", frozenset(self.fields))
        unknown = sorted(self.fields - FIELDS.keys())
        if unknown:
            raise UnknownNameError("batch field", unknown[0], FIELDS)
        for fields, name, least, most in _NEEDS:
            value = getattr(self, name)
            needed = value is not None if name == "max_dist" else fields & self.fields
            if needed and not least <= (value or 0) <= most:
                raise ValueError(
                    f"{min(fields)} needs {name} in {least}..{most:,}, got {value}"
                )
