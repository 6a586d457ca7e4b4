"""Files with random damage, and what reads them: a result or one line, nothing else.

Each reader takes a number, which is the seed of the damage, and returns ``read`` or
``refused``.
"""

import contextlib
import copy
import functools
import gzip
import io
import json
import random
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet
import torch
from rdkit import Chem

from graphormer_plugin import hub
from graphormer_plugin.cli import convert
from graphormer_plugin.compat.checkpoint_files import load_checkpoint
from graphormer_plugin.data import DatasetOptions
from graphormer_plugin.data.datasets.csv_file import csv_dataset
from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.files import read_arrays
from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.data.store import GraphStore
from graphormer_plugin.data.tables.formats import open_table
from graphormer_plugin.finetune.fit_head import BLOCKS, fit_on_features
from graphormer_plugin.finetune.importers import checkpoint_of, import_published
from graphormer_plugin.heads.array_file import META, write_arrays
from graphormer_plugin.heads.head import read_head
from graphormer_plugin.heads.kernels import raw_features
from support.golden import golden_state, load_golden
from support.quick_options import quicken
from support.stores import random_chunk, write

quicken()  # the converter makes options of fairseq

JUNK = [
    *(None, True, -1, 0, 1, 2**31, 2**63, 10**30, -0.5, 1e300, float("nan")),
    *("", "x", "../x", "train", "nan", "\0", "é" * 99),
    *([], {}, [[]], ["a", 1], {"a": 1}),
]
TENSORS = [torch.zeros(()), torch.zeros(3, 0), torch.ones(2, 2).bool(), torch.ones(5)]
DTYPES = ["u1", "i1", "<i2", "<i4", "<i8", "<f4", "<f8", ">i4", "?", "U2"]


def damaged_bytes(content: bytes, chance: random.Random) -> bytes:
    """Bytes with a few changes."""
    content = bytearray(content)
    for _ in range(chance.randrange(1, 4)):
        place = chance.randrange(len(content) + 1)
        kind = chance.randrange(5)
        if kind == 0 and place < len(content):
            content[place] ^= 1 << chance.randrange(8)
        elif kind == 1 and place < len(content):
            content[place] = chance.randrange(256)
        elif kind == 2:
            del content[place : place + chance.choice([1, 2, 100, 10**6])]
        elif kind == 3:
            content[place:place] = content[place : place + chance.choice([1, 50, 5000])]
        else:
            junk = [b"\0", b'"', b",", b"\n", b"\r", b"\xff\xfe", b"9" * 400, b"PK\3\4"]
            content[place:place] = chance.choice(junk)
    return bytes(content)


def damaged_tree(tree, chance: random.Random, junk=JUNK):
    """A copy of nested dicts and lists in which one value is another, or missing."""
    tree = copy.copy(tree)
    keys = list(tree) if isinstance(tree, dict) else range(len(tree))
    key = chance.choice(keys)
    if isinstance(tree[key], dict | list) and tree[key] and chance.random() < 0.8:
        tree[key] = damaged_tree(tree[key], chance, junk)
    elif chance.random() < 0.3:
        del tree[key]
    else:
        tree[key] = chance.choice(junk)
    return tree


def damaged_array(array: np.ndarray, chance: random.Random) -> np.ndarray:
    """An array with another value, type or shape."""
    kind = chance.randrange(5)
    if kind < 2 and array.size:
        array = array.copy()
        limit = np.iinfo(array.dtype) if array.dtype.kind in "iu" else None
        values = [np.nan, np.inf, -1e30, 0.0, 0.5]
        if limit:
            values = [limit.min, limit.max, 0, 1, min(limit.max, 200)]
        array.reshape(-1)[chance.randrange(array.size)] = chance.choice(values)
        return array
    if kind == 2:
        return array.astype(chance.choice(DTYPES))
    if kind == 3:
        return array[: chance.randrange(len(array) + 1)]
    none = array[:, :0] if array.ndim == 2 else array[:0]
    return chance.choice([array[..., None], array.reshape(-1), array[::-1], none])


@functools.cache
def folder() -> Path:
    """A folder for the files of this process, in memory where there is such a disk."""
    shm = Path("/dev/shm")
    keep = tempfile.TemporaryDirectory(dir=shm if shm.is_dir() else None)
    folder.keep = keep  # until the process ends
    return Path(keep.name)


# Stores


@functools.cache
def whole_store() -> Path:
    path = folder() / "whole"
    chunk = random_chunk(np.random.default_rng(3), dims=(300, 40))
    write(path, chunk, bond_dims=[300, 40])
    return path


def read_store(seed: int) -> str:
    chance = random.Random(seed)
    whole, path = whole_store(), folder() / "store"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(whole, path)
    file = chance.choice(sorted(path.iterdir()))
    file.write_bytes(damaged_bytes(file.read_bytes(), chance))
    try:
        store = GraphStore.open(path, verify=True)
    except DatasetError as error:
        assert "\n" not in str(error)
        return "refused"
    assert store.fingerprint == GraphStore.open(whole).fingerprint  # equal bytes
    return "read"


# CSV

TABLE = "smiles,name,y,z,split\n" + "".join(
    f'CC{"O" * row},"a, ""b""",{row},{"" if row % 3 else 0.5e3},{split}\n'
    for row, split in enumerate(["train", "valid", "test", "Train"] * 3)
)


def read_csv(seed: int) -> str:
    chance = random.Random(seed)
    path = folder() / chance.choice(["table.csv", "table.csv.gz"])
    content = damaged_bytes(TABLE.encode(), chance)
    if path.suffix == ".gz":
        content = gzip.compress(content, 1)
        if chance.random() < 0.3:
            content = damaged_bytes(content, chance)
    path.write_bytes(content)
    options = DatasetOptions(
        name=str(path),
        target_columns=chance.choice(["y", "y,z", "z", "name", ""]),
        smiles_column=chance.choice(["", "smiles", "name"]),
        split=chance.choice(["", "random", "scaffold", "column:split"]),
        target_kind=chance.choice(["regression", "binary", "multiclass"]),
    )
    try:
        csv_dataset(options)
    except DatasetError as error:
        assert "\n" not in str(error).strip()
        return "refused"
    return "read"


# Parquet and SDF


@functools.cache
def whole_tables() -> dict[str, tuple[bytes, bytes]]:
    """Content by suffix, and an end that stays: with a damaged footer, pyarrow 26 aborts the
    process (statistics of levels)."""
    cells = [line.split(",") for line in TABLE.splitlines()[1:]]
    texts = [line[0] for line in cells]
    columns = {
        "smiles": texts,
        "y": np.arange(len(texts), dtype=np.float64),
        "z": [[text, None] for text in texts],
        "name": [{"of": text} for text in texts],
        "code": pyarrow.array([text[:2].encode() for text in texts], pyarrow.binary(2)),
    }
    file = io.BytesIO()
    pyarrow.parquet.write_table(
        pyarrow.table(columns),
        file,
        row_group_size=5,
        use_dictionary=["smiles", "z.list.element", "code"],
        column_encoding={"name.of": "DELTA_BYTE_ARRAY"},
    )
    content = file.getvalue()
    end = len(content) - int.from_bytes(content[-8:-4], "little") - 8
    blocks = (Chem.MolToMolBlock(Chem.MolFromSmiles(text)) for text in texts)
    sdf = "".join(f"{block}>  <y>\n{n}\n\n$$$$\n" for n, block in enumerate(blocks))
    return {".parquet": (content[:end], content[end:]), ".sdf": (sdf.encode(), b"")}


def read_table(seed: int) -> str:
    chance = random.Random(seed)
    suffix = chance.choice([*whole_tables()])
    path = folder() / f"table{suffix}"
    content, end = whole_tables()[suffix]
    path.write_bytes(damaged_bytes(content, chance) + end)
    try:
        table = open_table(path)
        for _ in table.rows(table.header):
            pass
    except DatasetError as error:
        assert "\n" not in str(error) and str(error).startswith(str(path))
        return "refused"
    return "read"


# Heads


@functools.cache
def whole_head() -> tuple[dict, dict]:
    """JSON values and arrays of a head."""
    generator = np.random.default_rng(2)
    mols = [Chem.MolFromSmiles("C" * (n % 20 + 1) + "O" * (n // 20)) for n in range(40)]
    raw = {block: raw_features(block, None, mols) for block in BLOCKS[1:]}
    raw["vectors"] = generator.normal(size=(40, 8)).astype(np.float32)
    head = fit_on_features(
        raw, mols, generator.normal(size=(40, 1)), TargetSchema(["y"]), "of", layers=1
    )
    path = folder() / "whole.npz"
    head.save(path)
    arrays = read_arrays(path)
    return json.loads(str(arrays.pop(META))), arrays


def read_damaged_head(seed: int) -> str:
    chance = random.Random(seed)
    meta, arrays = whole_head()
    path = folder() / "damaged.npz"  # not beside a checkpoint
    kind = chance.randrange(3)
    if kind == 0:
        meta = damaged_tree(meta, chance)
    if kind == 1:
        name = chance.choice([*arrays])
        arrays = {**arrays, name: damaged_array(arrays[name], chance)}
    write_arrays(path, meta, arrays)
    if kind == 2:
        path.write_bytes(damaged_bytes(path.read_bytes(), chance))
    try:
        read_head(path, "of")
    except ValueError as error:
        assert "\n" not in str(error) and str(error).count(str(path)) == 1
        return "refused"
    return "read"


# Checkpoints


@functools.cache
def foreign() -> tuple[dict, dict]:
    archive = load_golden("grpe_shared")
    return golden_state(archive), json.loads(str(archive["config"]))


@functools.cache
def whole_checkpoint() -> tuple[dict, bytes]:
    state, config = foreign()
    path = folder() / "foreign.pt"
    torch.save(state, path)
    imported = import_published(path, "lenscloth-grpe", config)
    names = [f"y{number}" for number in range(imported.num_outputs)]
    checkpoint = checkpoint_of(imported, TargetSchema(names), "lenscloth-grpe")
    content = io.BytesIO()  # not the file: the weights lie in it
    torch.save(checkpoint, content)
    return checkpoint, content.getvalue()


def read_checkpoint(seed: int) -> str:
    chance = random.Random(seed)
    state, content = whole_checkpoint()
    path = folder() / "checkpoint.pt"
    path.unlink(missing_ok=True)  # an earlier model may still lie in it
    if chance.random() < 0.5:
        path.write_bytes(damaged_bytes(content, chance))
    else:
        torch.save(damaged_tree(state, chance, JUNK + TENSORS), path)
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            load_checkpoint(str(path), {})
    except SystemExit as end:
        assert end.code == 2 and errors.getvalue().count("\n") == 1
    try:
        model = hub.load(path)
    except (ValueError, OSError) as error:
        assert str(path) in str(error)
        return "refused"
    with contextlib.suppress(ValueError):  # its features are not those of SMILES
        model.predict(["CCO", "c1ccccc1"])
    return "read"


def read_foreign(seed: int) -> str:
    """Through graphormer-convert."""
    chance = random.Random(seed)
    state, config = foreign()
    path, out = folder() / "in.pt", folder() / "out.pt"
    for file in (path, out):
        file.unlink(missing_ok=True)
    kind = chance.randrange(3)
    if kind == 0:
        config = damaged_tree(config, chance)
    if kind == 1:
        state = damaged_tree(state, chance, JUNK + TENSORS)
    torch.save(state, path)
    if kind == 2:
        path.write_bytes(damaged_bytes(path.read_bytes(), chance))
    (folder() / "config.json").write_text(json.dumps(config))
    command = ["--from", "lenscloth-grpe", path, out]
    command += ["--config", folder() / "config.json"]
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(errors):
        code = convert.main([*map(str, command)])
    assert code in (0, 2) and (code == 0) == out.exists(), errors.getvalue()
    return "refused" if code else "read"


READERS = {
    "stores": read_store,
    "CSV": read_csv,
    "tables": read_table,
    "heads": read_damaged_head,
    "checkpoints": read_checkpoint,
    "converter": read_foreign,
}
