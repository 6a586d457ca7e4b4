"""Whatever the arguments: a result or a ValueError, the same from both kernels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cython_ext
from cython_ext import FIELDS, _fallback
from support.reference import KERNELS, columns_of

pytestmark = pytest.mark.skipif(
    not cython_ext.COMPILED, reason="compares the compiled kernels with the fallback"
)
fuzz = settings(deadline=None, derandomize=True, max_examples=150, database=None)

LIMITS = [-(2**63), -(2**31), -1, 0, 1, 2, 255, 256, 2**15, 2**16, 2**31 - 1, 2**63 - 1]


def outcomes(function, *args, **kwargs):
    """The result or the message of the compiled kernels, then of the fallback."""
    found = []
    compiled = {name: getattr(cython_ext, name) for name in KERNELS}
    for modules in (compiled, dict.fromkeys(KERNELS, _fallback)):
        vars(cython_ext).update(modules)
        try:
            found.append(getattr(cython_ext, function)(*args, **kwargs))
        except ValueError as error:
            found.append(str(error))
        finally:
            vars(cython_ext).update(compiled)
    return found


def assert_same(first, second):
    assert type(first) is type(second), (first, second)
    if isinstance(first, str):
        assert first == second
    elif isinstance(first, dict):
        assert first.keys() == second.keys()
        for name in first:
            assert_same(first[name], second[name])
    elif isinstance(first, tuple):
        for one, other in zip(first, second):
            assert_same(one, other)
    else:
        assert first.dtype == second.dtype
        assert np.array_equal(first, second)


@st.composite
def graphs(draw, num_bond_types=6):
    n = draw(st.integers(0, 9))
    if n == 0:
        return 0, []
    node, bond = st.integers(0, n - 1), st.integers(1, num_bond_types)
    return n, draw(st.lists(st.tuples(node, node, bond), max_size=16))


@st.composite
def stores(draw):
    return columns_of(
        draw(st.lists(graphs(), min_size=1, max_size=4)),
        draw(st.sampled_from([np.uint8, np.int16, np.int32, np.float32])),
        draw(st.sampled_from([np.uint8, np.uint16, np.int32])),
        draw(st.sampled_from([np.uint8, np.uint16])),
    )


@st.composite
def damaged_stores(draw):
    columns = draw(stores())
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(sorted(columns)))
        array = columns[name]
        kind = draw(
            st.sampled_from(["entry", "entry", "entry", "short", "long", "type"])
        )
        if kind == "entry" and array.size and array.dtype.kind in "iu":
            bounds = np.iinfo(array.dtype)
            near = st.integers(max(bounds.min, -3), min(bounds.max, 300))
            far = st.sampled_from([v for v in LIMITS if bounds.min <= v <= bounds.max])
            array = array.copy()
            place = draw(st.integers(0, array.size - 1))
            array.reshape(-1)[place] = draw(near | far)
        elif kind == "short":
            array = array[: draw(st.integers(0, len(array)))]
        elif kind == "long":
            array = np.concatenate([array, array[:1]])
        elif kind == "type":
            array = array.astype(draw(st.sampled_from(["u1", "i1", "i8", "f8", ">i2"])))
        columns[name] = array
    return columns


options = st.fixed_dictionaries(
    {
        # Always with x, whose rows bound the number of nodes that offsets can claim.
        "fields": st.sets(st.sampled_from(sorted(FIELDS))).map(
            lambda names: names | {"x"}
        ),
        "num_bond_types": st.sampled_from([0, 1, 5, 6, 255, 256, 65529]),
        "max_hop": st.sampled_from([1, 2, 3, 253]),
        "path_length": st.integers(1, 4),
        "num_threads": st.integers(1, 3),
    },
    optional={"max_dist": st.integers(1, 5), "max_nodes": st.integers(5, 9)},
)


@fuzz
@given(stores(), st.lists(st.integers(0, 3), max_size=6), options)
def test_batches(columns, ids, options):
    assert_same(*outcomes("build_batch", columns, ids, **options))


@fuzz
@given(damaged_stores(), st.lists(st.integers(-1, 4), max_size=6), options)
def test_damaged_batches(columns, ids, options):
    assert_same(*outcomes("build_batch", columns, ids, **options))


anything = (
    st.none()
    | st.integers(-3, 300)
    | st.floats()
    | st.text(max_size=3)
    | st.lists(st.integers(-2, 2) | st.text(max_size=1), max_size=3)
    | st.sampled_from(
        ["u1", "i2", "i4", "i8", "f4", "f8", "?", "O", "U2", "M8[s]"]
    ).map(lambda dtype: np.zeros((2, 2), dtype))
)


@fuzz
@given(
    stores(),
    st.sampled_from(
        "columns ids fields num_bond_types max_nodes max_dist max_hop path_length "
        "num_threads x node_offset edge_offset edge_src edge_dst edge_bond pos".split()
    ),
    anything,
)
def test_arguments_of_any_kind(columns, name, value):
    options = {"columns": columns, "ids": [0], "fields": FIELDS, "num_bond_types": 6}
    options |= {"max_hop": 2, "path_length": 2}
    if name in columns:
        columns[name] = value
    else:
        options[name] = value
    if name != "num_threads" or not isinstance(value, int) or value < 9:
        assert_same(*outcomes("build_batch", **options))


@fuzz
@given(stores() | damaged_stores(), st.integers(2, 9), st.integers(1, 400))
def test_cycles(columns, max_size, max_steps):
    assert_same(*outcomes("chordless_cycles", columns, max_size, max_steps=max_steps))


@st.composite
def edge_lists(draw):
    n = draw(st.integers(0, 70))
    node = st.integers(0, max(n - 1, 0))
    if draw(st.integers(0, 9)) == 0:
        node |= st.sampled_from(LIMITS)
    edges = draw(st.lists(st.tuples(node, node), max_size=60))
    return n, np.array(edges, dtype=np.int64).reshape(-1, 2).T.copy()


@fuzz
@given(edge_lists(), st.booleans(), st.integers(1, 5))
def test_shortest_paths(graph, directed, length):
    n, edges = graph
    found = outcomes("shortest_paths", edges, n, directed=directed)
    assert_same(*found)
    if not isinstance(found[0], str):
        dist, pred = found[0]
        found = outcomes("extract_paths", pred, length)
        assert_same(*found)
        ends = (found[0] >= 0).sum(axis=2)
        assert np.array_equal(ends, np.minimum(dist + 1, length))


@fuzz
@given(
    st.integers(0, 6).flatmap(
        lambda n: st.lists(st.integers(-2, n), min_size=n * n, max_size=n * n)
    ),
    st.integers(1, 4),
    st.booleans(),
)
def test_predecessors(entries, length, with_values):
    n = int(len(entries) ** 0.5)
    pred = np.array(entries, dtype=np.int32).reshape(n, n)
    if n % 2:
        np.fill_diagonal(pred, -1)
        np.clip(pred, -1, n - 1, out=pred)
    values = np.arange(n * n, dtype=np.uint16).reshape(n, n) if with_values else None
    assert_same(*outcomes("extract_paths", pred, length, values=values))


@fuzz
@given(
    st.integers(0, 6).flatmap(
        lambda n: st.lists(
            st.integers(0, 4)
            | st.just(np.inf)
            | st.floats(allow_subnormal=False)
            | st.integers(-2, 1),
            min_size=n * n,
            max_size=n * n,
        )
    )
)
def test_floyd_warshall(entries):
    n = int(len(entries) ** 0.5)
    weights = np.array(entries, dtype=np.float64).reshape(n, n)
    assert_same(*outcomes("floyd_warshall", weights))


@fuzz
@given(anything, anything)
def test_single_graphs_of_any_kind(first, second):
    assert_same(*outcomes("shortest_paths", first, second))
    assert_same(*outcomes("floyd_warshall", first))
    assert_same(*outcomes("extract_paths", first, second))
    pred = np.full((2, 2), -1, np.int32)
    assert_same(*outcomes("extract_paths", pred, 2, values=second))
