"""Padded batches of stored graphs.

``B`` is the number of graphs, ``N`` the number of nodes of the largest graph (0 for an
empty batch), and ``[i, j]`` describes the pair from node ``i`` to node ``j``. Padding is 0 unless
stated otherwise. Bond types are uint8, or uint16 if ``num_bond_types > 255``.

| field | shape and type | meaning |
|---|---|---|
| `x` | [B, N, F] int16 | stored node column; int32 or float32 if it is stored so |
| `lap_pe`, `pos` | [B, N, k] float32 | stored node columns |
| `wl_role` | [B, N] int32 | stored node column |
| `node_mask` | [B, N] bool | True for a real node |
| `in_degree`, `out_degree` | [B, N] int16 | distinct neighbours: parallel edges |
| | | count once, and so does a self-loop |
| `dist` | [B, N, N] uint8 | hops, `FAR` or `UNREACHABLE`; padding is `UNREACHABLE` |
| `bond` | [B, N, N] bond type | of the edge, the lowest of parallel edges; |
| | | 0 for none and on the diagonal |
| `path_bond` | [B, N, N, L] bond type | of the first `L` edges of the shortest path; |
| | | 0 past its end |
| `relation_index` | [B, N, N] uint8 | position in `relations`; uint16 if there can be |
| | | more than 256 of them |
| `relations` | [R] int64 | relations (`codes.py`) that occur in the batch and |
| | | `RELATION_VIRTUAL`, ascending |
| `ring` | [B, N, N] uint8 | 1 if the two nodes, or the one node, belong to a stored |
| | | ring together |
| `edge_index` | [2, sum E] int64 | edges; nodes are numbered without padding |
| `edge_bond` | [sum E] bond type | of each edge |
| `edge_attr` | [sum E, C] float32 | stored column of edges |
| `node_graph` | [sum N] int64 | position in the batch of its graph |
"""

from collections.abc import Iterable, Mapping

import numpy as np

from cython_ext import _batch
from cython_ext._checks import checked_integer
from cython_ext._job import (
    BAD_BOND,
    BAD_DEGREE,
    BAD_HOPS,
    BAD_ORDER,
    BAD_SOURCE,
    BAD_TARGET,
    MAX_DEGREE,
    BatchJob,
)
from cython_ext.codes import (
    FAR,
    MAX_HOPS,
    RELATION_FAR,
    RELATION_SELF,
    RELATION_UNREACHABLE,
    RELATION_VIRTUAL,
    UNREACHABLE,
    bond_relation,
    hop_relation,
    num_relations,
)
from cython_ext.columns import (
    EDGE_COLUMNS,
    NODE_COLUMNS,
    RING_COLUMNS,
    bond_dtype,
    checked_columns,
    checked_graph_ids,
    extents,
    ranges,
)

_BOND_FIELDS = frozenset({"bond", "path_bond", "relation_index", "edge_bond"})
_EDGE_FIELDS = _BOND_FIELDS | {"dist", "in_degree", "out_degree", "edge_index"}
#: Names of the fields that `build_batch` makes.
FIELDS = _EDGE_FIELDS.union(
    NODE_COLUMNS, {"node_mask", "node_graph", "relations", "ring", "edge_attr"}
)


def build_batch(
    columns: Mapping[str, np.ndarray],
    graph_ids: Iterable[int],
    fields: Iterable[str],
    *,
    num_bond_types: int,
    max_nodes: int | None = None,
    max_dist: int | None = None,
    max_hop: int | None = None,
    path_length: int = 0,
) -> dict[str, np.ndarray]:
    """Build the padded arrays of a batch of stored graphs in one call.

    Args:
        columns: C-contiguous arrays of the types in ``columns.DTYPES``, for instance a
            store's memory maps, which may be read-only. ``node_offset`` and
            ``edge_offset`` are ``[G + 1]``; ``x``, ``lap_pe`` and ``pos``
            ``[sum N, F]``; ``wl_role`` ``[sum N]``; ``edge_src`` and ``edge_dst``
            ``[sum E]``, numbered within each graph; ``edge_bond`` ``[sum E]``, from 1;
            ``edge_attr`` ``[sum E, C]``; the edges of a graph are in the order of `edge_order`.
            ``ring_offset`` ``[G + 1]`` has the rings of each graph, ``ring_start``
            ``[S + 1]`` the rows of each ring, and ``ring_node`` its nodes, numbered
            within the graph. Only the columns behind ``fields`` must be there.
        graph_ids: numbers of graphs, each in ``0..G-1``; any order, repeats allowed.
        fields: names from the table above. Either of ``relation_index`` and ``relations``
            gives both.
        num_bond_types: largest bond type, in 0..65535.
        max_nodes: largest number of nodes that a graph may have; None for no limit.
        max_dist: distances above it become ``FAR`` in ``dist``; in 1..253.
        max_hop: largest number of hops with a relation of its own; in 1..253. Needed
            for ``relation_index``.
        path_length: ``L``, needed for ``path_bond``.

    Returns:
        the fields asked for.

    Raises:
        ValueError: if an argument has another type, shape or range; if a graph has more
            than ``max_nodes`` nodes, or a path of over 253 hops with ``dist`` asked for
            and no ``max_dist``, or over 32767 neighbours of one node with a degree
            asked for; if there are over 65536 relations; or if the columns contradict
            each other (a node number outside its graph, descending offsets, edges out
            of order). The message names the graph and the number.
    """
    fields = _checked_fields(fields)
    num_bond_types = checked_integer("num_bond_types", num_bond_types, 0, 65535)
    if max_dist is not None:
        max_dist = checked_integer("max_dist", max_dist, 1, MAX_HOPS)
    if "relation_index" in fields:
        max_hop = checked_integer("max_hop", max_hop, 1, MAX_HOPS)
    if "path_bond" in fields:
        path_length = checked_integer("path_length", path_length, 1, 65535)

    stored = checked_columns(columns, _column_names(fields))
    ids = checked_graph_ids(graph_ids, len(stored["node_offset"]) - 1)
    job = _plan(stored, ids, max_nodes)
    _allocate_node_fields(job, stored, fields)
    if fields & _EDGE_FIELDS:
        job.edge_src = stored["edge_src"]
        job.edge_dst = stored["edge_dst"]
        job.edge_bond = stored.get("edge_bond")
        job.num_bond_types = num_bond_types
        _allocate_edge_fields(job, fields, max_dist, max_hop, path_length)
    seen = _run(job, ids)
    return _completed(job, stored, ids, fields, seen)


def _completed(
    job: BatchJob,
    stored: dict[str, np.ndarray],
    ids: np.ndarray,
    fields: frozenset[str],
    seen: np.ndarray,
) -> dict[str, np.ndarray]:
    """The fields of a job that has run, with relations numbered by those that were ``seen``."""
    out = job.out
    if "ring" in fields:
        out["ring"] = _fill_rings(stored, ids, job.node_count, job.width)
    if "edge_attr" in fields:
        out["edge_attr"] = stored["edge_attr"][ranges(job.edge_start, job.edge_count)]
    if "node_graph" in fields:
        out["node_graph"] = np.repeat(np.arange(len(ids)), job.node_count)
    if "relation_index" in fields:
        # Padding has this relation, and so has the virtual node that a model may add.
        seen[RELATION_VIRTUAL] = 1
        out["relations"] = np.flatnonzero(seen)
        position = np.cumsum(seen, dtype=np.int64) - 1
        _batch.replace(
            out["relation_index"].reshape(-1),
            position.astype(out["relation_index"].dtype),
        )
    if "wl_role" in fields:
        out["wl_role"] = out["wl_role"][..., 0]
    return out


def _checked_fields(fields: Iterable[str]) -> frozenset[str]:
    """Return the names as a set; ``relations`` implies ``relation_index``."""
    names = frozenset(fields)
    if names - FIELDS:
        raise ValueError(
            f"fields has {sorted(names - FIELDS)}, expected names among "
            f"{sorted(FIELDS)}"
        )
    if "relations" in names:
        names = names - {"relations"} | {"relation_index"}
    return names


def _column_names(fields: frozenset[str]) -> list[str]:
    """Names of the columns that the fields are made from."""
    names = ["node_offset", *(name for name in NODE_COLUMNS if name in fields)]
    if fields & _EDGE_FIELDS:
        names += EDGE_COLUMNS
    if fields & _BOND_FIELDS:
        names.append("edge_bond")
    if "edge_attr" in fields:
        names += [*EDGE_COLUMNS, "edge_attr"]
    if "ring" in fields:
        names += RING_COLUMNS
    return list(dict.fromkeys(names))


def _plan(
    stored: dict[str, np.ndarray], ids: np.ndarray, max_nodes: int | None
) -> BatchJob:
    """Look up where the graphs of the batch lie and how large they are."""
    node_start, node_count = extents("node_offset", stored["node_offset"], ids)
    width = int(node_count.max(initial=0))
    if max_nodes is not None and width > max_nodes:
        place = int((node_count > max_nodes).argmax())
        raise ValueError(
            f"graph {ids[place]} has {node_count[place]} nodes, expected at most "
            f"max_nodes = {max_nodes}"
        )
    if "edge_offset" in stored:
        edge_start, edge_count = extents("edge_offset", stored["edge_offset"], ids)
    else:
        edge_start = edge_count = np.zeros(len(ids), dtype=np.int64)
    return BatchJob(width, node_start, node_count, edge_start, edge_count)


def _allocate_node_fields(
    job: BatchJob, stored: dict[str, np.ndarray], fields: frozenset[str]
) -> None:
    graphs = len(job.node_count)
    out = job.out
    for name in NODE_COLUMNS:
        if name in fields:
            column = stored[name]
            if column.ndim == 1:
                column = column[:, None]
            dtype = np.int16 if column.dtype == np.uint8 else column.dtype
            out[name] = np.empty((graphs, job.width, column.shape[1]), dtype=dtype)
            job.node_columns.append((column, out[name]))
    if "node_mask" in fields:
        out["node_mask"] = np.empty((graphs, job.width), dtype=bool)


def _allocate_edge_fields(
    job: BatchJob,
    fields: frozenset[str],
    max_dist: int | None,
    max_hop: int | None,
    path_length: int,
) -> None:
    graphs = len(job.node_count)
    width = job.width
    out = job.out
    bond_type = bond_dtype(job.num_bond_types)
    pairs = (graphs, width, width)
    hops = np.arange(width + 1)
    for name in ("in_degree", "out_degree"):
        if name in fields:
            out[name] = np.empty((graphs, width), dtype=np.int16)
    if "bond" in fields:
        out["bond"] = np.empty(pairs, dtype=bond_type)
    if "path_bond" in fields:
        out["path_bond"] = np.empty((*pairs, path_length), dtype=bond_type)
    if "edge_index" in fields or "edge_bond" in fields:
        job.node_base = np.cumsum(job.node_count) - job.node_count
        job.edge_base = np.cumsum(job.edge_count) - job.edge_count
        num_edges = int(job.edge_count.sum())
    if "edge_index" in fields:
        out["edge_index"] = np.empty((2, num_edges), dtype=np.int64)
    if "edge_bond" in fields:
        out["edge_bond"] = np.empty(num_edges, dtype=bond_type)
    if "dist" in fields:
        out["dist"] = np.empty(pairs, dtype=np.uint8)
        if max_dist is None:
            job.hop_limit = MAX_HOPS
        farthest = MAX_HOPS if max_dist is None else max_dist
        job.dist_of_hop = np.where(hops > farthest, FAR, hops).astype(np.uint16)
        job.dist_of_hop[width] = UNREACHABLE
    if max_hop is not None and "relation_index" in fields:
        number = num_relations(max_hop, job.num_bond_types)
        if number > 65536:
            raise ValueError(
                f"num_bond_types {job.num_bond_types} and max_hop {max_hop} make "
                f"{number} relations, expected at most 65536 for field relation_index"
            )
        out["relation_index"] = np.empty(
            pairs, dtype=np.uint8 if number <= 256 else np.uint16
        )
        relations = hop_relation(hops)  # type: ignore[arg-type]  # relations of all hops
        relation = np.where(hops > max_hop, RELATION_FAR, relations)
        relation[0] = RELATION_SELF
        relation[width] = RELATION_UNREACHABLE
        job.relation_of_hop = relation.astype(np.uint16)
        job.bond_base = bond_relation(0, max_hop)


def _run(job: BatchJob, ids: np.ndarray) -> np.ndarray:
    """Run the kernel; return a uint8 flag for each relation, 1 if it occurs."""
    seen = np.zeros(job.bond_base + 1 + job.num_bond_types, dtype=np.uint8)
    error = _batch.fill(job, seen)
    if error is not None:
        position, code, value = error
        raise ValueError(_describe(job, int(ids[position]), position, code, value))
    return seen


def _fill_rings(
    stored: dict[str, np.ndarray], ids: np.ndarray, node_count: np.ndarray, width: int
) -> np.ndarray:
    """Build field ``ring`` from the rings of each graph."""
    ring = np.zeros((len(ids), width, width), dtype=np.uint8)
    first, num_rings = extents("ring_offset", stored["ring_offset"], ids)
    place = np.repeat(
        np.arange(len(ids)), num_rings
    )  # position of each ring in the batch
    start, size = extents(
        "ring_start", stored["ring_start"], ranges(first, num_rings), "ring"
    )
    node = stored["ring_node"][ranges(start, size)]
    wrong = _batch.mark_sets(ring, node_count, place, size, node)
    if wrong is not None:
        raise ValueError(
            f"ring_node of graph {ids[wrong[0]]} holds {wrong[1]}, expected a node in "
            f"[0, {node_count[wrong[0]]})"
        )
    return ring


def _describe(job: BatchJob, graph: int, position: int, code: int, value: int) -> str:
    """Message about a fault that the kernel found in a graph."""
    nodes = int(job.node_count[position])
    name = "edge_src" if code == BAD_SOURCE else "edge_dst"
    end = f"{name} of graph {graph} holds {value}, expected a node in [0, {nodes})"
    return {
        BAD_SOURCE: end,
        BAD_TARGET: end,
        BAD_BOND: f"edge_bond of graph {graph} holds {value}, expected a type in "
        f"[1, {job.num_bond_types}]",
        BAD_ORDER: f"edge {value} of graph {graph} is out of order, expected edges "
        "sorted by source, target and bond type",
        BAD_DEGREE: f"graph {graph} has a node of {value} neighbours, expected at most "
        f"{MAX_DEGREE} (int16)",
        BAD_HOPS: f"graph {graph} has a shortest path of {value} hops, expected at "
        f"most {MAX_HOPS} in field dist; pass max_dist to cut distances",
    }[code]
