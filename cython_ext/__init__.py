"""Shortest paths, cycles and padded batches of graphs, computed in C.

The package needs NumPy only. Every function checks its arguments (``ValueError`` with
name, received and expected), allocates its results and calls a compiled kernel that
runs without the GIL:

- ``batch.py`` and ``_batch.pyx``: the padded arrays of a batch of stored graphs;
- ``paths.py`` and ``_shortest_path.pyx``: shortest paths of one graph, unweighted or with
  weights (``floyd_warshall``);
- ``cycles.py`` and ``_cycles.pyx``: cycles without chords;
- ``attention.py``, ``_attention.pyx`` and ``_attention.h``: attention with relations,
  and its gradient;
- ``channels.py``, ``_channels.pyx`` and ``_channels.h``: attention with a score per
  channel, and its gradient;
- ``pairs.py``, ``_pairs.pyx`` and ``_pairs.h``: attention whose pairs have states, and its
  gradient;
- ``edges.py``, ``_edges.pyx`` and ``_edges.h``: attention along edges, and its gradient;
- ``molecule.py`` and ``_molecule.pyx``: atoms and bonds of RDKit's molecules;
- ``columns.py``: layout of stored graphs and its check; ``codes.py``: codes in the results.

Two rules hold everywhere:

- Node 0 is a node like any other; "none" is -1 among nodes and 0 among bond types.
- If several shortest paths lead to a node ``j``, the path that arrives from the
  lowest-numbered node counts.
"""

try:
    import cython_ext._attention
    import cython_ext._batch
    import cython_ext._channels
    import cython_ext._cycles
    import cython_ext._edges
    import cython_ext._molecule
    import cython_ext._pairs
    import cython_ext._shortest_path  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"cython_ext is not compiled ({error}): run `pip install -e .` in the clone, "
        "with a C compiler, or work in another folder after `pip install .`"
    ) from error

from cython_ext.attention import (
    Relations,
    dropped_out,
    relative_attention,
    relative_attention_gradient,
)
from cython_ext.batch import FIELDS, build_batch
from cython_ext.channels import channel_attention, channel_attention_gradient
from cython_ext.codes import FAR, UNREACHABLE
from cython_ext.columns import bond_dtype, edge_order
from cython_ext.cycles import MAX_CYCLE_STEPS, chordless_cycles
from cython_ext.edges import edge_attention, edge_attention_gradient
from cython_ext.molecule import ATOM_COLUMNS, BOND_COLUMNS, read_molecule
from cython_ext.pairs import pair_attention, pair_attention_gradient
from cython_ext.paths import extract_paths, floyd_warshall, shortest_paths

__all__ = [
    "ATOM_COLUMNS",
    "BOND_COLUMNS",
    "FAR",
    "FIELDS",
    "MAX_CYCLE_STEPS",
    "Relations",
    "UNREACHABLE",
    "bond_dtype",
    "build_batch",
    "channel_attention",
    "channel_attention_gradient",
    "chordless_cycles",
    "dropped_out",
    "edge_attention",
    "edge_attention_gradient",
    "edge_order",
    "extract_paths",
    "floyd_warshall",
    "pair_attention",
    "pair_attention_gradient",
    "read_molecule",
    "relative_attention",
    "relative_attention_gradient",
    "shortest_paths",
]
