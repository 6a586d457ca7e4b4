"""Rings and other substructures: columns of a store, users' functions, batches."""

import linecache

import numpy as np
import pytest

from graphormer_plugin.data import BatchSpec, get_store
from graphormer_plugin.data.batches.collator import GraphCollator
from graphormer_plugin.data.batches.fields import rings as rings_module
from graphormer_plugin.data.batches.fields.field_cache import (
    compute_columns,
    load_or_compute,
)
from graphormer_plugin.data.batches.fields.rings import (
    SUBSTRUCTURES,
    register_substructures,
    substructure_sets,
)
from support import edge_lists
from support.edge_lists import both


def ring_spec(size, name="rings"):
    fields = frozenset({"ring", "node_mask"})
    return BatchSpec(fields, max_ring_size=size, substructures=name)


def columns_of(*graphs):
    """Flat columns of graphs given as (number of nodes, undirected edges)."""
    return edge_lists.columns_of(*((n, both(edges)) for n, edges in graphs))


def ring_of(n, tail=0):
    edges = [(u, (u + 1) % n) for u in range(n)]
    return n + tail, edges + [(n + u - 1, n + u) for u in range(tail)]


def bound(columns, spec, graph):
    """Field `ring` of one graph, as a batch has it."""
    target = np.zeros((len(columns["node_offset"]) - 1, 1))
    columns = columns | compute_columns(columns, spec)
    collator = GraphCollator(columns, target, num_bond_types=1, spec=spec)
    return collator(np.array([graph]))["net_input"]["batch"]["ring"][0].numpy()


@pytest.mark.parametrize("times", [1, rings_module._GRAPHS_AT_ONCE // 3])
def test_sets_of_several_graphs(times):
    """The graphs are looked at in several groups."""
    four = ring_of(4, 2), (2, [(0, 1)]), ring_of(7), ring_of(3, 1)
    sets = substructure_sets(columns_of(*four * times), "rings", 8)
    expected = {
        "ring_offset": np.cumsum([0, *[1, 0, 1, 1] * times]),
        "ring_start": np.cumsum([0, *[4, 7, 3] * times]),
        "ring_node": [0, 1, 2, 3, *range(7), 0, 1, 2] * times,
    }
    assert sets.keys() == expected.keys()
    for name, array in sets.items():
        np.testing.assert_array_equal(array, expected[name])
    dtypes = [array.dtype.name for array in sets.values()]
    assert dtypes == ["int64", "int64", "uint8"]
    # from 257 nodes on, a number does not fit a byte
    edges = [(u, u + 1) for u in range(299)] + [(297, 299)]
    wide = columns_of((300, edges))
    node = substructure_sets(wide, "rings", 5)["ring_node"]
    assert node.dtype == np.uint16 and node.tolist() == [297, 298, 299]


def test_who_is_bound_in_a_batch():
    columns = columns_of(ring_of(4, 2), ring_of(7), (3, []))
    square = bound(columns, ring_spec(4), 0)
    assert square.dtype == np.uint8
    assert square.tolist() == [[1, 1, 1, 1, 0, 0]] * 4 + [[0] * 6] * 2
    assert not bound(columns, ring_spec(6), 1).any()
    assert bound(columns, ring_spec(7), 1).all()
    assert not bound(columns, ring_spec(7), 2).any()


def test_bound_is_not_transitive():
    """The two rings of a spiro compound have one node in common."""
    spiro = (5, [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 2)])
    ring = bound(columns_of(spiro), ring_spec(18), 0)
    ends = [[1, 1, 1, 0, 0]] * 2, [[0, 0, 1, 1, 1]] * 2
    assert ring.tolist() == [*ends[0], [1] * 5, *ends[1]]


@pytest.fixture
def store(rings):
    return get_store(rings())


def test_kept_beside_the_store_by_kind_and_size(store, monkeypatch):
    def folders():
        return sorted(
            path.name.removeprefix(store.path.name)
            for path in store.path.parent.iterdir()
            if path.name.startswith(f"{store.path.name}.") and path.is_dir()
        )

    for size in (6, 2 + 6, 6):
        found = load_or_compute(store, ring_spec(size))
        expected = compute_columns(store.columns, ring_spec(size))
        assert found.keys() == expected.keys()
        for name, array in expected.items():
            assert np.array_equal(found[name], array), name
        assert len(found["ring_start"]) == size - 2 + 1  # rings of 3..size nodes
    assert folders() == [".rings.6", ".rings.8"]
    # nothing to store is not an error
    empty = rings_module.Substructures(lambda *_: [], "")
    monkeypatch.setitem(SUBSTRUCTURES, "nothing", empty)
    for _ in range(2):
        none = load_or_compute(store, ring_spec(6, "nothing"))
        assert len(none["ring_node"]) == 0 and not none["ring_offset"].any()
    assert ".nothing.6" in folders()
    # a name that ends in a digit: not the rings of up to 18 nodes
    monkeypatch.setitem(SUBSTRUCTURES, "rings1", empty)
    assert len(load_or_compute(store, ring_spec(8, "rings1"))["ring_node"]) == 0
    assert len(load_or_compute(store, ring_spec(18))["ring_node"])


@pytest.fixture
def stars():
    """The example of the module's text; what a test registers is forgotten after it."""
    before = dict(SUBSTRUCTURES)
    text = rings_module.__doc__.split("names:\n")[1]
    scope = {"register_substructures": register_substructures}
    exec("\n".join(line[4:] for line in text.splitlines()), scope)
    yield scope["stars"]
    SUBSTRUCTURES.clear()
    SUBSTRUCTURES.update(before)


def test_a_function_of_a_user(stars):
    columns = columns_of((5, [(0, 1), (0, 2), (0, 3), (3, 4)]), ring_of(4))
    ring = bound(columns, ring_spec(9, "stars"), 0)
    assert ring.tolist() == [[1, 1, 1, 1, 0]] * 4 + [[0] * 5]
    assert not bound(columns, ring_spec(3, "stars"), 0).any()
    assert not bound(columns, ring_spec(9, "stars"), 1).any()


def test_computed_again_after_a_change_of_the_code(store, stars, monkeypatch):
    """The function's file changes; a notebook's cell that runs again replaces its own."""
    for run, size in enumerate([1, 2, 1]):
        code = "@register('cell')\ndef cell(n, edges, size):\n"
        code += f"    return [list(range({size}))]\n"
        file = f"<cell {run}>"
        lines = len(code), None, code.splitlines(keepends=True), file
        monkeypatch.setitem(linecache.cache, file, lines)
        scope = {"register": register_substructures, "__name__": "__main__"}
        exec(compile(code, file, "exec"), scope)
        sets = load_or_compute(store, ring_spec(6, "cell"))
        assert len(sets["ring_node"]) == size * len(store)


def test_registration(stars):
    register_substructures("stars")(stars)  # the module was imported again
    with pytest.raises(ValueError, match="'stars' are registered already"):
        register_substructures("stars")(lambda *_: [])
    with pytest.raises(ValueError, match="'rings' are registered already"):
        register_substructures("rings")(stars)
    with pytest.raises(ValueError, match=r"'a/b': expected letters, digits"):
        register_substructures("a/b")
    with pytest.raises(ValueError, match=r"unknown substructures 'star', .*stars"):
        substructure_sets(columns_of(ring_of(3)), "star", 9)
    register_substructures("wrong")(lambda n, edges, size: [[0, n]] * (n == 4))
    with pytest.raises(ValueError, match=r"substructure \[0, 4\] of graph 1"):
        substructure_sets(columns_of(ring_of(3), ring_of(4)), "wrong", 9)
    register_substructures("failing")(lambda n, edges, size: {}["nothing"])
    message = rf"^the function of the substructures failed at {__file__}:\d+: KeyError"
    with pytest.raises(ValueError, match=message):
        substructure_sets(columns_of(ring_of(3)), "failing", 9)
