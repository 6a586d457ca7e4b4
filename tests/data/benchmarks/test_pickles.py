"""Pickles that only an enemy makes: an error, and nothing read beyond the file's bytes."""

import io
import pickle
import struct

import numpy as np
import pytest
import torch

from graphormer_plugin.data.benchmarks.pickles import (
    Attributes,
    load_pickle,
    load_torch,
)

EMPTY = np._core.multiarray._reconstruct, (np.ndarray, (0,), b"b")
with pytest.warns(UserWarning):  # the form that files have
    STORAGE = torch.zeros(4).storage()
TENSOR = torch._utils._rebuild_tensor_v2
NOTHING = 1, (10**8, 0), np.dtype("f8"), False, b""
OBJECTS = np.dtype("O")
TITLED = np.dtype({"names": ["a"], "formats": ["f8"], "offsets": [800]})


class Made:
    """Is unpickled as what a function returns, and then gets a state."""

    def __init__(self, function, arguments, *state):
        self.parts = (function, arguments, *state)

    def __reduce__(self):
        return self.parts


class State:
    """Is pickled as a function or value of the file that gets a state."""

    def __init__(self, value, state):
        self.value = value
        self.state = state


class Pickler(pickle._Pickler):
    """Writes states of what has none."""

    def save(self, value, *more):
        if type(value) is not State:
            return super().save(value, *more)
        self.save(value.value)
        self.save(value.state)
        self.write(pickle.BUILD)


def pickled(value, protocol=2):
    file = io.BytesIO()
    Pickler(file, protocol).dump(value)
    return file.getvalue()


def nested(count):
    """The key of a dictionary, tuples in tuples."""
    return b"\x80\x02})" + b"\x85" * count + b"K\x01s."


def array_with(*state):
    return pickled(Made(*EMPTY, state))


DOUBLE = b"cnumpy\ndtype\n(X\x02\x00\x00\x00f8I00\nI01\ntR"
MADE = b"cnumpy.core.multiarray\n_reconstruct\n)R"
# Tuples of two equal tuples, whose text has no end.
BOMB = b")q\0" + b"".join(b"0h%ch%c\x86q%c" % (k, k, k + 1) for k in range(60))
HOSTILE = {
    "a dtype without end": b"\x80\x02cnumpy\ndtype\n(" + BOMB + b"tR.",
    "a shape without end": b"\x80\x02%b(K\x01}U\x01a%bs%bI00\nB\0\0\0\0tb."
    % (MADE, BOMB, DOUBLE),
    "a set without end": b"\x80\x04\x8f(" + BOMB + b"\x90.",
    "an extension": b"\x80\x02\x82\x01.",
    "an instance": b"(S'id'\nios\nsystem\n.",
    "an object": b"(cos\nsystem\nS'id'\no.",
    "two words": b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
    "a new array": b"\x80\x02cnumpy\nndarray\n)\x81.",
    "a byte order": b"\x80\x02" + DOUBLE + b"(K\x03U\x01~tb.",
    "an item of an array": b"\x80\x02" + MADE + b"K\0K\1s.",
    "pointers": pickled(Made(np.ndarray, ((18,), OBJECTS, b"A" * 144))),
    "a call of ndarray": pickled(Made(np.ndarray, ((2,), np.dtype("f8"), b"A" * 16))),
    "strides": pickled(
        Made(np.ndarray, ((9,), np.dtype("f8"), b"A" * 16, 0, (1 << 40,)))
    ),
    "objects": array_with(1, (1,), OBJECTS, False, [7]),
    "object bytes": array_with(1, (1,), OBJECTS, False, b"A" * 8),
    "fields": array_with(1, (1,), TITLED, False, b"A" * 808),
    "a shape beyond": array_with(1, (10**8,), np.dtype("f8"), False, b"A" * 8),
    "a negative shape": array_with(1, (-3, -3), np.dtype("f8"), False, b"A" * 72),
    "a huge shape": array_with(1, (2**62, 4), np.dtype("f8"), False, b""),
    "text": array_with(1, (1,), np.dtype("U2"), False, b"A" * 8),
    "a dtype's class": pickled(State(np.dtype, (None, {"type": 1}))),
    "a function": pickled(State(EMPTY[0], (None, {"__defaults__": (1,)}))),
    "a class": pickled(State(Attributes, (None, {"__setstate__": 1}))),
    "a tensor beyond": pickled(Made(TENSOR, (STORAGE, 0, (5,), (1,), False, {}))),
    "an offset beyond": pickled(Made(TENSOR, (STORAGE, 9, (1,), (1,), False, {}))),
    "an offset before": pickled(Made(TENSOR, (STORAGE, -9, (1,), (1,), False, {}))),
    "strides beyond": pickled(Made(TENSOR, (STORAGE, 0, (2,), (9,), False, {}))),
    "strides back": pickled(Made(TENSOR, (STORAGE, 0, (2,), (-9,), False, {}))),
    "a repeated number": pickled(Made(TENSOR, (STORAGE, 0, (10**8,), (0,), False, {}))),
    "a tensor of nothing": pickled(
        Made(TENSOR, (Made(*EMPTY, NOTHING), 0, (4,), (1,), False, {}))
    ),
    "overflow": pickled(
        Made(TENSOR, (STORAGE, 0, (np.int64(2**62), 1), (4, 1), False, {}))
    ),
    "a deep key": nested(10**6),
    "a number of an object": b"\x80\x02]r" + struct.pack("<I", 2**31 - 1) + b"0.",
    "bytes beyond": b"\x80\x05\x96" + struct.pack("<Q", 10**11) + b".",
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_only_an_enemy_writes_is_an_error(content):
    content = content.replace(Attributes.__module__.encode(), b"torch_geometric.data")
    content = content.replace(b"\nAttributes\n", b"\ndata.Data\n")
    with pytest.raises(
        (pickle.UnpicklingError, ValueError, TypeError, LookupError, EOFError)
    ):
        load_pickle(content)


ARRAYS = [
    np.arange(6).reshape(2, 3),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.arange(3, dtype=">f4"),
    np.ones((2, 0), bool),
    np.float32(0.5),
    np.array(7),
]


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: str(array.dtype))
def test_arrays_and_tensors_of_every_protocol(array, protocol):
    content = pickle.dumps({"a": [array, array]}, protocol)
    read, expected = (load(content)["a"][1] for load in (load_pickle, pickle.loads))
    assert read.dtype == expected.dtype and np.array_equal(read, array)
    if array.dtype.isnative:
        tensor = torch.as_tensor(array).mT if array.ndim == 2 else torch.as_tensor(7)
        read = load_pickle(pickle.dumps(tensor, protocol))
        assert np.array_equal(read, tensor.numpy())


def test_a_file_of_torch_makes_no_array_of_pointers(tmp_path):
    path = tmp_path / "file.pt"
    torch.save({"rows": np.arange(3), "x": torch.ones(2)}, path)
    read = load_torch(path)
    assert read["rows"].tolist() == [0, 1, 2] and read["x"].tolist() == [1, 1]
    for made in (Made(np.ndarray, ((2,), OBJECTS, b"A" * 16)), np.array([None])):
        torch.save(made, path)
        with pytest.raises(pickle.UnpicklingError):
            load_torch(path)
