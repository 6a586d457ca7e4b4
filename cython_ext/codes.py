"""Codes in the batch fields ``dist`` and ``relations``, and numbers of a hash. Imports
nothing.

A relation is one number for the distance and the bond of a node pair.
"""

MAX_HOPS = 253  # entries 0..MAX_HOPS of `dist` are numbers of hops
FAR = 254  # entry of `dist`: a path exists, but has more hops than allowed
UNREACHABLE = 255  # entry of `dist`: no path, or padding
NUM_DIST_CODES = 256

RELATION_VIRTUAL = 0  # a pair with the virtual node; also padding
RELATION_SELF = 1  # a node with itself
RELATION_UNREACHABLE = 2  # no path
RELATION_FAR = 3  # a path of more than `max_hop` hops

# SplitMix64 (Steele et al. 2014): the step of its state, and shifts and factors of its output.
GOLDEN = 0x9E3779B97F4A7C15
MIXING = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))


def hop_relation(hop: int) -> int:
    """Relation of a pair at 2..max_hop hops."""
    return hop + 2


def bond_relation(bond: int, max_hop: int) -> int:
    """Relation of a pair with a direct edge of type 1..num_bond_types."""
    return max_hop + 2 + bond


def num_relations(max_hop: int, num_bond_types: int) -> int:
    """Number of relations: the four above, hops 2..max_hop, then the bond types."""
    return max_hop + 3 + num_bond_types
