"""Whatever the arguments: the oracle's result, or an exception."""

import os
import re

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cython_ext import (
    FIELDS,
    Relations,
    build_batch,
    channel_attention,
    channel_attention_gradient,
    chordless_cycles,
    extract_paths,
    floyd_warshall,
    relative_attention,
    relative_attention_gradient,
    shortest_paths,
)
from support import attention, reference
from support.reference import columns_of

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", 60))
fuzz = settings(deadline=None, derandomize=True, max_examples=EXAMPLES, database=None)

LIMITS = [-(2**63), -(2**31), -1, 0, 1, 2, 255, 256, 2**15, 2**16, 2**31 - 1, 2**63 - 1]
# What kernels find wrong, so that the oracle must find it, too. All other messages are
# about arguments and the layout of columns, which test_batch.py goes through.
FOUND_BY_KERNELS = re.compile("holds|out of order|followed back|negative cycle through")


# Errors of wrong values, and of arguments without such a type, attribute or length.
MISTAKES = (ValueError, TypeError, AttributeError, LookupError, OverflowError)


def outcome(function, *args, **kwargs):
    """The result, or the message of an exception."""
    try:
        return function(*args, **kwargs)
    except MISTAKES as error:
        return str(error)


def assert_close(found, expected):
    """Arrays of attentions and their gradients; None where an argument is missing."""
    for one, other in zip(found, expected, strict=True):
        if other is None:
            assert one is None
        else:
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def check_batch(columns, graph_ids, fields, max_nodes=None, **options):
    limits = {"max_nodes": max_nodes, **options}
    found = outcome(build_batch, columns, graph_ids, fields, **limits)
    if isinstance(found, str) and not FOUND_BY_KERNELS.search(found):
        return
    expected = outcome(reference.batch_of, columns, graph_ids, fields, **options)
    if isinstance(found, str) or isinstance(expected, str):
        assert found == expected
        return
    assert found.keys() == expected.keys()
    for name in found:
        assert np.array_equal(found[name], expected[name]), name


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
        kind = draw(st.sampled_from([*["entry"] * 3, "short", "long", "type"]))
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
    },
    optional={"max_dist": st.integers(1, 5), "max_nodes": st.integers(5, 9)},
)


@fuzz
@given(stores(), st.lists(st.integers(0, 3), max_size=6), options)
def test_batches(columns, ids, options):
    check_batch(columns, ids, **options)


@fuzz
@given(damaged_stores(), st.lists(st.integers(-1, 4), max_size=6), options)
def test_damaged_batches(columns, ids, options):
    check_batch(columns, ids, **options)


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
        "columns graph_ids fields num_bond_types max_nodes max_dist max_hop path_length "
        "x node_offset edge_offset edge_src edge_dst edge_bond pos".split()
    ),
    anything,
)
def test_arguments_of_any_kind(columns, name, value):
    options = {"columns": columns, "graph_ids": [0], "fields": FIELDS}
    options |= {"num_bond_types": 6, "max_hop": 2, "path_length": 2}
    if name in columns:
        columns[name] = value
    else:
        options[name] = value
    check_batch(**options)


@fuzz
@given(stores() | damaged_stores(), st.integers(2, 9), st.integers(1, 400))
def test_cycles(columns, max_size, max_steps):
    found = outcome(chordless_cycles, columns, max_size, max_steps=max_steps)
    if isinstance(found, str) and "steps" in found:
        found = chordless_cycles(columns, max_size)
    if isinstance(found, str):
        return
    count, size, node = found
    cycles = [sorted(part.tolist()) for part in np.split(node, np.cumsum(size)[:-1])]
    ends = np.cumsum(count)
    for graph, end in enumerate(ends.tolist()):
        edges = np.stack([columns["edge_src"], columns["edge_dst"]], axis=1)
        edges = edges[slice(*columns["edge_offset"][graph : graph + 2])].tolist()
        n = reference.size_of(columns, graph)
        expected = reference.chordless_cycles(n, edges, max_size)
        assert sorted(cycles[end - count[graph] : end]) == expected


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
    found = outcome(extract_paths, pred, length, values=values)
    if isinstance(found, str) and not FOUND_BY_KERNELS.search(found):
        assert (pred < -1).any() or (pred >= n).any() or (pred.diagonal() != -1).any()
        return
    expected = outcome(reference.paths_of, pred, length, values)
    if isinstance(found, str) or isinstance(expected, str):
        assert found == expected
    else:
        assert np.array_equal(found, expected)


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
    found = outcome(floyd_warshall, weights)
    if isinstance(found, str) and not FOUND_BY_KERNELS.search(found):
        return
    expected = outcome(reference.floyd_warshall, weights)
    if isinstance(found, str) or isinstance(expected, str):
        assert found == expected
    else:
        assert all(map(np.array_equal, found, expected))
        extract_paths(found[1], 2)  # no circles in spite of edges of length 0


@st.composite
def channel_arguments(draw):
    """Sizes, zeros and forbidden features of all kinds."""
    batch, nodes = draw(st.integers(1, 40)), draw(st.integers(1, 9))
    heads, head_dim = draw(st.integers(1, 9)), draw(st.integers(1, 17))
    features, width = draw(st.integers(1, 9)), heads * head_dim
    rng = np.random.default_rng(draw(st.integers(0, 99)))

    def normal(*shape):
        return rng.normal(size=shape).astype(np.float32)

    pairs = normal(batch, features, nodes, nodes)
    pairs *= rng.random(pairs.shape) < draw(st.sampled_from([0, 0.3, 1]))
    att = normal(features, width)
    if draw(st.booleans()):  # receiver 0 forbids all senders, or all but itself
        att[0], pairs[:, 0] = -30000, 0
        pairs[0, :, 0, draw(st.integers(0, 1)) :] = np.eye(features)[:, :1]
    base = normal(batch, heads, draw(st.sampled_from([1, nodes])), nodes)
    base[0, :, 0] = 0  # -30000 swallows the digits of what is added
    return {
        "base": base,
        "v": normal(batch, nodes, width),
        "features": pairs,
        "att": att,
        "val": draw(st.none() | st.just(normal(features, width))),
        "keep": draw(st.none() | st.just(normal(batch, nodes, nodes))),
    }


@fuzz
@given(channel_arguments(), st.integers(1, 3))
def test_channels(arguments, num_threads):
    grad, threads = arguments["v"][::-1].copy(), {"num_threads": num_threads}
    z, state = channel_attention(**arguments, **threads)
    found = [z]
    found += channel_attention_gradient(grad, **arguments, state=state, **threads)
    expected = reference.channel_attention(grad, **arguments)
    assert_close(found, expected)


@fuzz
@given(
    channel_arguments(),
    st.sampled_from("grad base v features att val keep".split()),
    anything,
)
def test_channels_of_any_kind(arguments, name, value):
    arguments |= {"grad": arguments["v"], name: value}
    outcome(channel_attention_gradient, **arguments)
    del arguments["grad"]
    outcome(channel_attention, **arguments)


def attention_arguments():
    """Arguments of `relative_attention`; relations forbid the padding of graphs."""
    terms = st.sampled_from(["relations", "bias", "relations and bias"])
    sizes = [st.integers(1, most) for most in (40, 9, 17, 17, 6)]
    return st.builds(attention.arguments, *sizes, seed=st.integers(0, 99), terms=terms)


@fuzz
@given(attention_arguments(), st.booleans(), st.integers(1, 3))
def test_attention(arguments, key_from_row, num_threads):
    options = {"key_from_row": key_from_row, "num_threads": num_threads}
    qkv, _, bias = arguments
    grad = qkv[..., : qkv.shape[2] // 3].copy()
    found = relative_attention(*arguments, **options)
    found = [found, *relative_attention_gradient(grad, *arguments, **options)]
    del options["num_threads"]
    wanted = [attention.expected(*arguments, **options)]
    wanted += attention.expected(*arguments, grad, **options)
    assert_close(found, wanted)


@fuzz
@given(
    attention_arguments(),
    st.sampled_from("grad qkv attn_bias key_from_row dropout seed".split())
    | st.sampled_from(Relations._fields),
    anything,
)
def test_attention_of_any_kind(arguments, name, value):
    qkv, relations, bias = arguments
    grad = qkv[..., : qkv.shape[2] // 3].copy()
    options = {"qkv": qkv, "relations": relations, "attn_bias": bias, "grad": grad}
    if name not in Relations._fields:
        options[name] = value
    elif relations:
        options["relations"] = relations._replace(**{name: value})
    outcome(relative_attention_gradient, **options)
    del options["grad"]
    outcome(relative_attention, **options)


@fuzz
@given(anything, anything)
def test_single_graphs_of_any_kind(first, second):
    outcome(shortest_paths, first, second)
    outcome(floyd_warshall, first)
    outcome(extract_paths, first, second)
    outcome(extract_paths, np.full((2, 2), -1, np.int32), 2, values=second)
