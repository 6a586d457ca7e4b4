"""Parts of a table as independent jobs, from Parquet to Parquet."""

import datetime
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet as parquet
import pytest

from graphormer_plugin.cli.predict import main
from graphormer_plugin.data import DatasetError
from graphormer_plugin.data.tables.formats import open_table
from graphormer_plugin.data.tables.parquet import ParquetTable

ROWS = 1204
SMILES = ["C1CC" if n % 50 == 7 else f"{'C' * (n % 23 + 1)}O" for n in range(ROWS)]


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A folder of two files in row groups of 150, with columns of several types."""
    monkeypatch.chdir(tmp_path)
    table = pyarrow.table(
        {
            "id": pyarrow.array(range(ROWS), pyarrow.int32()),
            "smiles": SMILES,
            "day": [datetime.date(2020, 1, 1)] * ROWS,
            "tags": [["a", "b"], None] * (ROWS // 2),
        }
    )
    Path("in.parquet").mkdir()
    for part, rows in enumerate((table[:700], table[700:])):
        parquet.write_table(rows, f"in.parquet/{part}.parquet", row_group_size=150)
    return table


def test_rows_of_a_table_of_several_files(table):
    found = open_table(Path("in.parquet"))
    assert isinstance(found, ParquetTable) and found.count() == ROWS
    for first, end in ((0, ROWS), (0, 0), (140, 160), (690, 910), (999, 1000)):
        rows = found.rows(["smiles", "id"], "", first, end)
        expected = [(row, [SMILES[row], str(row)]) for row in range(first, end)]
        assert [(row, cells) for row, *_, cells in rows] == expected


def test_digest_is_that_of_all_files(table):
    before = open_table(Path("in.parquet")).digest
    path = Path("in.parquet/0.parquet")
    content = bytearray(path.read_bytes())
    content[20] ^= 1
    path.write_bytes(content)
    assert open_table(Path("in.parquet")).digest != before


def test_files_of_a_folder_differ(table):
    parquet.write_table(table.select(["smiles"]), "in.parquet/2.parquet")
    with pytest.raises(DatasetError, match=r"2.parquet has other columns"):
        open_table(Path("in.parquet"))
    Path("empty").mkdir()
    with pytest.raises(DatasetError, match=r"directory without .parquet"):
        open_table(Path("empty"))


def test_shards_are_the_whole(checkpoint, table, capsys):
    """Types of the input are kept, and all parts together are what one run writes."""
    model = checkpoint("grpe_tiny")
    common = ["--quiet", "--embeddings", "v.npy"]
    assert main([model, "in.parquet", "whole.parquet", *common]) == 0
    whole = parquet.read_table("whole.parquet")
    assert whole.select(table.column_names).equals(table)
    assert whole.schema.field("gap").type == pyarrow.float64()
    assert whole.schema.field("reason").type == pyarrow.string()
    failed = [row for row, smiles in enumerate(SMILES) if smiles == "C1CC"]
    assert np.flatnonzero(whole["gap"].is_null()).tolist() == failed
    assert np.flatnonzero(whole["reason"].is_valid()).tolist() == failed
    for number in (3, 1, 2):  # in any order
        shard = ["--shard", f"{number}/3"]
        assert main([model, "in.parquet", "out.parquet", *common, *shard]) == 0
    names = [f"out-0000{number}-of-00003.parquet" for number in (1, 2, 3)]
    parts = [parquet.read_table(name) for name in names]
    assert [len(part) for part in parts] == [401, 401, 402]
    found = pyarrow.concat_tables(parts)
    assert found.schema.equals(whole.schema)
    assert found.drop(["gap"]).equals(whole.drop(["gap"]))
    np.testing.assert_allclose(found["gap"], whole["gap"], rtol=1e-5)
    vectors = [np.load(f"v-0000{number}-of-00003.npy") for number in (1, 2, 3)]
    # batches of the whole table end elsewhere, and with them the last bit differs
    np.testing.assert_allclose(np.concatenate(vectors), np.load("v.npy"), atol=1e-5)
    assert "out-00003-of-00003.parquet: 402 rows" in capsys.readouterr().out


def test_other_divisions_are_refused(checkpoint, table, refused):
    model = checkpoint("grpe_tiny")
    arguments = [model, "in.parquet", "out.csv", "--quiet", "--shard"]
    assert main([*arguments, "1/9"]) == 0
    line = refused(main, *arguments, "2/8")
    assert "out-00001-of-00009.csv is one of 9 shards" in line
    line = refused(main, *arguments, "1/9")
    assert "out-00001-of-00009.csv exists already" in line
    Path("out-00001-of-00009.csv").rename("out-00001-of-00009.csv.parts")
    refused(main, *arguments, "2/8")
    assert main([*arguments, "2/9"]) == 0


def test_an_empty_shard(checkpoint, table, tmp_path):
    """More shards than rows: some have none, and say so in files of the same columns."""
    Path("few.csv").write_text("smiles\nC\nCC\n")
    model = checkpoint("grpe_tiny")
    for number in (1, 2, 3):
        for suffix in ("csv", "parquet"):
            arguments = [model, "few.csv", f"o.{suffix}", "--quiet", "--shard"]
            assert main([*arguments, f"{number}/3"]) == 0
    parts = [parquet.read_table(f"o-0000{n}-of-00003.parquet") for n in (1, 2, 3)]
    assert [len(part) for part in parts] == [0, 1, 1]
    assert parts[0].schema.equals(parts[2].schema)
    assert Path("o-00001-of-00003.csv").read_text() == "smiles,gap,reason\n"


def test_shard_of_an_sdf(checkpoint, table):
    """The records of a part of an SDF are repeated."""
    model = checkpoint("grpe_tiny")
    lines = [f"{'C' * n},n{n}\n" for n in range(1, 7)]
    Path("few.csv").write_text("smiles,name\n" + "".join(lines))
    assert main([model, "few.csv", "few.sdf", "--quiet"]) == 0
    assert main([model, "few.sdf", "o.sdf", "--quiet", "--shard", "2/2"]) == 0
    rows = open_table(Path("o-00002-of-00002.sdf")).rows(["title", "smiles"])
    assert [cells for *_, cells in rows] == [[f"n{n}", "C" * n] for n in (4, 5, 6)]
