"""Padded batches: known graphs, the definition on random ones, wrong columns."""

import multiprocessing
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from cython_ext import FAR, FIELDS, UNREACHABLE, build_batch, codes, edge_order
from cython_ext.columns import ranges
from support import reference
from support.reference import columns_of, random_graph

PATH = (3, [(0, 1, 1), (1, 0, 1), (1, 2, 2), (2, 1, 2)])
ROUND = [(u, v) for u in range(4) for v in ((u + 1) % 4, (u - 1) % 4)]
RING = (4, [(u, v, 1 + min(u, v)) for u, v in ROUND])
ONE, EMPTY, NO_EDGES = (1, []), (0, []), (2, [])


def build(graphs, fields, ids=None, **options):
    options = {"num_bond_types": 9, **options}
    ids = range(len(graphs)) if ids is None else ids
    return build_batch(columns_of(graphs), ids, fields, **options)


def chain(n):
    return n, [(u, u + 1, 1) for u in range(n - 1)]


def codes_of(batch):
    return batch["relations"][batch["relation_index"]]


def test_path_next_to_one_node():
    batch = build([PATH, ONE], ["x", "node_mask", "dist", "bond", "out_degree"])
    assert batch["node_mask"].tolist() == [[True] * 3, [True, False, False]]
    assert batch["x"].tolist() == [
        [[0, 1, 2], [3, 4, 5], [6, 7, 8]],
        [[9, 10, 11], [0, 0, 0], [0, 0, 0]],
    ]
    U = UNREACHABLE
    assert batch["dist"].tolist() == [
        [[0, 1, 2], [1, 0, 1], [2, 1, 0]],
        [[0, U, U], [U, U, U], [U, U, U]],
    ]
    assert batch["bond"].tolist() == [[[0, 1, 0], [1, 0, 2], [0, 2, 0]], [[0] * 3] * 3]
    assert batch["out_degree"].tolist() == [[1, 2, 1], [0, 0, 0]]
    assert {name: array.dtype.name for name, array in batch.items()} == {
        "x": "int16",
        "node_mask": "bool",
        "dist": "uint8",
        "bond": "uint8",
        "out_degree": "int16",
    }


def test_relation_of_a_path():
    batch = build([chain(4), NO_EDGES], ["relation_index"], max_hop=2)
    # self 1, unreachable 2, far 3, two hops 4, a bond of type 1 at 2 + 2 + 1
    assert codes_of(batch).tolist() == [
        [[1, 5, 4, 3], [2, 1, 5, 4], [2, 2, 1, 5], [2, 2, 2, 1]],
        [[1, 2, 0, 0], [2, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]],
    ]
    assert batch["relations"].tolist() == [0, 1, 2, 3, 4, 5]
    assert batch["relation_index"].dtype == np.uint8
    assert batch["relations"].dtype == np.int64


def test_relation_lists_only_codes_that_occur():
    batch = build([PATH], ["relation_index"], max_hop=5)
    assert batch["relations"].tolist() == [0, 1, 4, 8, 9]
    assert batch["relation_index"].tolist() == [[[1, 3, 2], [3, 1, 4], [2, 4, 1]]]
    assert build([EMPTY], ["relations"], max_hop=1)["relations"].tolist() == [0]


def test_paths_in_a_ring_take_the_lowest_predecessor():
    path = build([RING], ["path_bond"], path_length=3)["path_bond"][0]
    assert path[0].tolist() == [[0, 0, 0], [1, 0, 0], [1, 2, 0], [1, 0, 0]]
    assert path[2].tolist() == [[2, 1, 0], [2, 0, 0], [0, 0, 0], [3, 0, 0]]


def test_paths_are_cut_at_their_length():
    path = build([chain(5)], ["path_bond"], path_length=2)["path_bond"][0]
    assert path[0].tolist() == [[0, 0], [1, 0], [1, 1], [1, 1], [1, 1]]
    assert not path[4].any()


def test_loops_and_parallel_edges():
    graph = (2, [(0, 0, 3), (0, 1, 7), (0, 1, 2), (1, 1, 1)])
    batch = build([graph], FIELDS, max_hop=1, path_length=1)
    assert batch["out_degree"].tolist() == [[2, 1]]
    assert batch["in_degree"].tolist() == [[1, 2]]
    assert batch["bond"].tolist() == [[[0, 2], [0, 0]]]
    assert batch["path_bond"][..., 0].tolist() == [[[0, 2], [0, 0]]]
    assert batch["dist"].tolist() == [[[0, 1], [UNREACHABLE, 0]]]
    assert codes_of(batch).tolist() == [[[1, 5], [2, 1]]]
    assert batch["edge_index"].tolist() == [[0, 0, 0, 1], [0, 1, 1, 1]]
    assert batch["edge_bond"].tolist() == [3, 2, 7, 1]


def test_flat_edges_are_numbered_without_padding():
    graphs = [PATH, ONE, EMPTY, chain(2)]
    batch = build(graphs, ["edge_index", "node_graph"], ids=[1, 3, 0, 2])
    assert batch["node_graph"].tolist() == [0, 1, 1, 2, 2, 2]
    assert batch["edge_index"].tolist() == [[1, 3, 4, 4, 5], [2, 4, 3, 5, 4]]


@pytest.mark.parametrize("graphs", [[], [EMPTY], [EMPTY, EMPTY]])
def test_batches_without_nodes(graphs):
    batch = build(graphs, FIELDS, max_hop=1, path_length=2)
    B = len(graphs)
    assert batch["x"].shape == (B, 0, 3)
    assert batch["path_bond"].shape == (B, 0, 0, 2)
    assert batch["edge_index"].shape == (2, 0)
    assert batch["relations"].tolist() == [0]
    assert build([PATH], ["node_mask"], ids=[])["node_mask"].shape == (0, 0)


def test_only_the_fields_asked_for_and_only_their_columns():
    columns = {"node_offset": np.array([0, 2]), "pos": np.ones((2, 3), np.float32)}
    batch = build_batch(columns, [0], ["pos", "node_mask"], num_bond_types=1)
    assert batch.keys() == {"pos", "node_mask"}
    columns |= {"edge_offset": np.array([0, 1]), "edge_src": np.zeros(1, np.uint8)}
    columns |= {"edge_dst": np.ones(1, np.uint8)}
    batch = build_batch(columns, [0], {"dist"}, num_bond_types=1)
    assert batch["dist"].tolist() == [[[0, 1], [UNREACHABLE, 0]]]


@pytest.mark.parametrize(
    "max_nodes, density, num_bond_types",
    [(1, 1, 1), (5, 2, 2), (12, 2, 200), (12, 3, 300), (66, 1.5, 5), (130, 2, 5)],
)
@pytest.mark.parametrize("directed", [True, False])
def test_agrees_with_the_definition(max_nodes, density, num_bond_types, directed):
    rng = np.random.default_rng(max_nodes)
    kind = max_nodes, density, num_bond_types, directed
    for trial in range(60 if max_nodes < 20 else 3):
        graphs = [random_graph(rng, *kind) for _ in range(5)]
        columns = columns_of(
            graphs,
            rng.choice([np.uint8, np.int16, np.int32, np.float32]),
            rng.choice([np.uint8, np.uint16, np.int32]),
            rng.choice([np.uint8, np.uint16]) if num_bond_types < 256 else np.uint16,
        )
        ids = rng.integers(0, 5, 4)
        max_dist = rng.choice([None, 1, 4])
        max_hop, length = (int(number) for number in rng.integers(1, 6, 2))
        limits = {"max_dist": max_dist, "max_hop": max_hop, "path_length": length}
        graph_fields = columns, ids, FIELDS
        limits["num_bond_types"] = num_bond_types
        batch = build_batch(*graph_fields, **limits)
        expected = reference.batch_of(*graph_fields, **limits)
        assert expected and batch.keys() == expected.keys()
        for name, array in expected.items():
            assert np.array_equal(batch[name], array), (name, trial, graphs, ids)


@pytest.mark.parametrize("fields", [{"dist"}, {"dist", "path_bond"}])
def test_distances_beyond_the_code(fields):
    graphs = [chain(254), chain(255), chain(270)]
    options = {"path_length": 1}
    batch = build(graphs, fields, ids=[0], **options)
    assert batch["dist"][0, 0, -1] == 253
    message = "graph 1 has a shortest path of 254 hops, expected at most 253"
    with pytest.raises(ValueError, match=message):
        build(graphs, fields, ids=[0, 1], **options)
    with pytest.raises(ValueError, match="graph 2 has a shortest path of 269 hops"):
        build(graphs, fields, ids=[0, 0, 2, 0], **options)
    batch = build(graphs, fields, ids=[2], max_dist=253, **options)
    assert batch["dist"][0, 0, [252, 253, 254, 269]].tolist() == [252, 253, FAR, FAR]
    assert batch["dist"][0, 269, 0] == UNREACHABLE


def test_relations_and_paths_have_no_limit_of_hops():
    fields = {"relation_index", "path_bond"}
    batch = build([chain(270)], fields, max_hop=253, path_length=1)
    codes = codes_of(batch)[0, 0]
    assert codes[[0, 1, 2, 253, 254, 269]].tolist() == [1, 256, 4, 255, 3, 3]
    assert (batch["path_bond"][0, 0, 1:] == 1).all()


@pytest.mark.parametrize(
    "num_bond_types, bond, relation",
    [
        (0, "uint8", "uint8"),
        (249, "uint8", "uint8"),  # 4 + 3 + 249 codes
        (250, "uint8", "uint16"),
        (255, "uint8", "uint16"),
        (256, "uint16", "uint16"),
        (65529, "uint16", "uint16"),
    ],
)
def test_smallest_type_that_holds_all_bonds(num_bond_types, bond, relation):
    edges = [(0, 1, num_bond_types)] if num_bond_types else []
    columns = columns_of([(2, edges)], bond_dtype=np.uint16)
    names = ["bond", "path_bond", "edge_bond"]
    options = {"num_bond_types": num_bond_types, "max_hop": 4, "path_length": 2}
    batch = build_batch(columns, [0], [*names, "relation_index"], **options)
    for name in names:
        assert batch[name].dtype == bond
        assert batch[name].max(initial=0) == num_bond_types
    assert batch["relation_index"].dtype == relation
    if num_bond_types:
        assert codes_of(batch)[0, 0, 1] == 4 + 2 + num_bond_types


def test_degrees_beyond_their_type():
    n = 32770
    star = (n, [(0, v, 1) for v in range(n)])
    columns = columns_of([ONE, star], node_dtype=np.uint16)
    batch = build_batch(columns, [1], ["in_degree"], num_bond_types=1)
    assert (batch["in_degree"] == 1).all()
    message = "graph 1 has a node of 32770 neighbours, expected at most 32767"
    with pytest.raises(ValueError, match=message):
        build_batch(columns, [0, 1], ["out_degree"], num_bond_types=1)


def test_works_in_a_forked_child():
    given = [PATH, RING], ["relation_index"]
    options = {"max_hop": 3}
    expected = build(*given, **options)["relation_index"]
    with multiprocessing.get_context("fork").Pool(1) as pool:
        result = pool.apply_async(build, given, options).get(timeout=30)
    assert np.array_equal(result["relation_index"], expected)


def test_reads_memory_maps_and_modifies_nothing(tmp_path):
    columns = columns_of([PATH, RING])
    maps = {}
    for name, array in columns.items():
        np.save(tmp_path / f"{name}.npy", array)
        maps[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    options = {"num_bond_types": 9, "max_hop": 2, "path_length": 2}
    batch = build_batch(columns, [1, 0], FIELDS, **options)
    mapped = build_batch(maps, [1, 0], FIELDS, **options)
    assert batch and batch.keys() == mapped.keys()
    for name, array in batch.items():
        assert np.array_equal(array, mapped[name]) and mapped[name].flags.writeable
    again = columns_of([PATH, RING])
    assert all(np.array_equal(array, columns[name]) for name, array in again.items())


@pytest.mark.parametrize("kind", [list, tuple, iter, lambda ids: np.array(ids, "u1")])
def test_ids_of_any_kind(kind):
    assert build([PATH, ONE], ["node_mask"], ids=kind([1, 0]))["node_mask"].sum() == 4


@pytest.mark.parametrize(
    "options, message",
    [
        ({"ids": [0, 2]}, r"graph_ids has 2, expected graphs in \[0, 2\)"),
        ({"ids": [-1]}, "graph_ids has -1"),
        ({"ids": [2**70]}, "graph_ids has dtype object"),
        ({"ids": [0.5]}, "graph_ids has dtype float64"),
        ({"ids": [[0]]}, r"graph_ids .* shape \(1, 1\)"),
        ({"ids": [True]}, "graph_ids has dtype bool"),
        ({"fields": ["dist", "hop"]}, r"fields has \['hop'\], expected"),
        ({"num_bond_types": 1}, r"edge_bond of graph 0 holds 2, .* \[1, 1\]"),
        ({"num_bond_types": -1}, "num_bond_types is -1"),
        ({"num_bond_types": 65536}, "num_bond_types is 65536, expected .* 0"),
        ({"num_bond_types": 65535, "max_hop": 5}, "make 65543 relations"),
        ({"max_nodes": 2}, "graph 0 has 3 nodes, expected at most max_nodes = 2"),
        ({"max_dist": 0}, r"max_dist is 0, expected an integer in 1..253"),
        ({"max_dist": 254}, "max_dist is 254"),
        ({"max_hop": 0}, r"max_hop is 0, expected an integer in 1..253"),
        ({"max_hop": 254}, "max_hop is 254"),
        ({"path_length": 0}, "path_length is 0, expected .* 1"),
    ],
)
def test_refuses_arguments(options, message):
    options = {"fields": FIELDS, "max_hop": 2, "path_length": 2} | options
    with pytest.raises(ValueError, match=message):
        build([PATH, ONE], **options)


def changed(index, value):
    def change(array):
        array = array.copy()
        array[index] = value
        return array

    return change


@pytest.mark.parametrize(
    "name, change, message",
    [
        ("edge_src", changed(2, 3), r"edge_src of graph 1 holds 3, .* \[0, 3\)"),
        ("edge_dst", changed(3, 200), "edge_dst of graph 1 holds 200"),
        ("edge_dst", lambda a: changed(2, -7)(a.astype("i4")), "holds -7"),
        ("edge_bond", changed(3, 0), "edge_bond of graph 1 holds 0"),
        ("edge_bond", changed(3, 10), "edge_bond of graph 1 holds 10"),
        ("edge_src", changed(0, 2), "edge 1 of graph 1 is out of order"),
        ("edge_offset", changed(1, 5), "edge_offset of graph 0 runs from 0 to 5"),
        ("edge_offset", changed(0, -1), "edge_offset of graph 0 runs from -1 to 0"),
        ("node_offset", changed(1, -(2**63)), "node_offset of graph 0 runs .* -9"),
        ("node_offset", changed(1, 2**63 - 1), "node_offset of graph 0 runs .* 9"),
        ("ring_node", changed(0, 3), "ring_node of graph 1 holds 3, expected a node"),
        ("ring_start", changed(1, 7), "ring_start of ring 0 runs from 0 to 7"),
        ("ring_offset", changed(1, 3), "ring_offset of graph 0 runs from 0 to 3"),
        # lengths
        ("edge_offset", changed(2, 9), r"edge_src has 4 rows, .* edge_offset.* = 9"),
        ("node_offset", changed(2, 3), r"x has 4 rows, .* node_offset.* = 3"),
        ("edge_offset", lambda a: np.append(a, 4), "edge_offset has 4 rows"),
        ("edge_src", lambda a: a[:3].copy(), "edge_src has 3 rows"),
        ("wl_role", lambda a: a[:-1].copy(), "wl_role has 3 rows"),
        ("ring_node", lambda a: a[:-1], "ring_node has 3 rows, expected ring_start"),
        ("ring_start", lambda a: a[:-1], "ring_start has 2 rows, .* = 3"),
        ("ring_offset", lambda a: a[1:], "ring_offset has 2 rows, .* = 3"),
        # types, shapes and order in memory
        ("edge_src", lambda a: a.astype("i8"), "edge_src .* int64, .* uint8"),
        ("edge_src", lambda a: a.astype(">u2"), "edge_src has dtype >u2"),
        ("edge_src", lambda a: a.repeat(2)[::2], "edge_src .* strides .* C-contiguous"),
        ("edge_bond", lambda a: a[:, None], r"edge_bond .* \[4, 1\] .* \[any\]"),
        ("x", lambda a: a.astype(float), "x has dtype float64"),
        ("x", lambda a: np.asfortranarray(a), "x .* C-contiguous"),
        ("pos", lambda a: a.view("i4"), "pos has dtype int32"),
        ("node_offset", lambda a: a.astype("i4"), "node_offset has dtype int32"),
        ("lap_pe", None, "expected lap_pe"),
        ("edge_bond", None, "expected edge_bond"),
    ],
)
def test_refuses_columns(name, change, message):
    columns = columns_of([ONE, PATH])
    if change is None:
        del columns[name]
    else:
        columns[name] = change(columns[name])
    with pytest.raises(ValueError, match=message):
        build_batch(columns, [0, 1], FIELDS, num_bond_types=9, max_hop=2, path_length=1)


def test_unaligned_columns_are_refused():
    columns = columns_of([ONE])
    buffer = bytearray(columns["node_offset"].nbytes + 1)
    columns["node_offset"] = np.frombuffer(buffer, np.int64, offset=1)
    with pytest.raises(ValueError, match="aligned"):
        build_batch(columns, [0], ["node_mask"], num_bond_types=1)


def test_codes():
    assert (codes.MAX_HOPS, FAR, UNREACHABLE) == (253, 254, 255)
    assert (reference.FAR, reference.UNREACHABLE) == (FAR, UNREACHABLE)
    assert codes.num_relations(max_hop=5, num_bond_types=60) == 68
    assert codes.hop_relation(2) == codes.RELATION_FAR + 1
    assert codes.bond_relation(1, max_hop=5) == codes.hop_relation(5) + 1


def test_order_of_edges():
    rng = np.random.default_rng(6)
    num_edges = np.array([5, 0, 30, 4])
    source, target, bond = rng.integers(0, 3, (3, num_edges.sum()))
    for key in (bond, None):
        order = edge_order(num_edges, source, target, key)
        graph = np.repeat(range(4), num_edges)
        edges = list(zip(graph, source, target, bond if key is not None else 0 * bond))
        assert order.tolist() == sorted(range(39), key=lambda edge: edges[edge])


def test_without_the_compiled_kernels_one_line_says_what_to_do():
    run = "import sys; sys.modules['cython_ext._batch'] = None; import cython_ext.codes"
    words = [sys.executable, "-c", run]
    result = subprocess.run(words, capture_output=True, text=True)
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]
    assert last.startswith("ImportError: cython_ext is not compiled (import of")
    assert "pip install -e ." in last


def test_ranges_one_after_another():
    """Empty ranges, overlapping ones, none at all; types of stored offsets."""
    rng = np.random.default_rng(5)
    for size in (0, 1, 2, 50):
        for start_type, count_type in (("i8", "i8"), ("i4", "i4"), ("u1", "i8")):
            start = rng.integers(0, 100, size).astype(start_type)
            count = rng.integers(0, 4, size).astype(count_type)
            found = ranges(start, count)
            both = zip(start.tolist(), count.tolist())
            expected = [at + k for at, n in both for k in range(n)]
            assert found.dtype == np.int64 and found.tolist() == expected


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32])
def test_sets_of_nodes_take_no_memory_per_pair(dtype):
    """10,000 nodes of 100 sets make a million pairs."""
    columns = {
        "node_offset": np.array([0, 200]),
        "ring_offset": np.array([0, 100]),
        "ring_start": np.arange(0, 10_001, 100),
        "ring_node": np.tile(np.arange(0, 200, 2, dtype), 100),
    }
    tracemalloc.start()
    ring = build_batch(columns, [0], ["ring"], num_bond_types=1)["ring"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert ring[0, ::2, ::2].all() and ring.sum() == 100 * 100
    assert peak < 1e6
    if dtype == np.int32:
        columns["ring_node"][17] = -1
        with pytest.raises(ValueError, match=r"graph 0 holds -1, .* in \[0, 200\)"):
            build_batch(columns, [0], ["ring"], num_bond_types=1)
