"""A function of tables, as engines call it."""

import os
import pickle
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pandas
import pyarrow
import pyarrow.parquet as parquet
import pytest

from graphormer_plugin.cli.predict import main as predict
from graphormer_plugin.inference.checkpoint import packaged_models
from graphormer_plugin.workbench.fitting.fit_gp import fit_gp
from graphormer_plugin.workbench.predictions import arrow
from graphormer_plugin.workbench.predictions.arrow import TablePredictor

MODEL = "grpe_minimol"
ROOT = Path(__file__).parents[2]
SMILES = ["CCO", "C1CC", None, "c1ccccc1O", "CC(=O)[O-].[Na+]", ""]


@pytest.fixture(scope="module")
def predictor():
    arrow._loaded.cache_clear()
    return TablePredictor(MODEL, device="cpu", batch_size=4)


@pytest.fixture(scope="module")
def table():
    rows = pyarrow.table({"id": range(60), "smiles": SMILES * 10, "reason": ["x"] * 60})
    return rows


@pytest.fixture(scope="module")
def found(predictor, table):
    return predictor(table)


def test_it_is_what_the_command_writes(found, table, tmp_path):
    parquet.write_table(table, tmp_path / "in.parquet")
    files = [str(tmp_path / "in.parquet"), str(tmp_path / "out.parquet")]
    assert predict([MODEL, *files, "--quiet", "--batch-size", "4"]) == 0
    written = parquet.read_table(files[1])
    assert found.schema.equals(written.schema)
    assert found.column_names[-1] == "reason_predicted"
    assert found.equals(written)
    good = found["reason_predicted"].is_null().to_numpy()
    assert good.sum() == 30 and not np.isnan(found.column(3).to_numpy()[good]).any()
    assert found["reason_predicted"][2].as_py() == "no SMILES"


def test_kinds_of_tables(predictor, table, found):
    """Ray: Table; Spark: an iterator of RecordBatch; Dask: DataFrame."""
    batches = table.to_batches(24)
    out = predictor(iter(batches))
    assert not isinstance(out, list)
    out = list(out)
    assert all(isinstance(batch, pyarrow.RecordBatch) for batch in out)
    assert [batch.num_rows for batch in out] == [24, 24, 12]
    joined = pyarrow.Table.from_batches(out)
    assert joined.schema.equals(found.schema)
    np.testing.assert_allclose(joined.column(3), found.column(3), rtol=1e-5)
    frame = table.to_pandas().set_index("id", drop=False)[::-1]
    frame["smiles"] = frame["smiles"].astype("string")  # with another missing value
    changed = predictor(frame)
    assert isinstance(changed, pandas.DataFrame) and changed.index.equals(frame.index)
    np.testing.assert_allclose(
        changed.sort_index().iloc[:, 3], found.column(3).to_pandas(), rtol=1e-5
    )
    assert frame.shape[1] == 3  # not changed


def test_columns_beside_the_molecule(tmp_path):
    smiles, ph = ["CCO", "CCCO", "CCCCO", "CCCCCO"] * 2, [2.0] * 4 + [9.0] * 4
    path = packaged_models()[MODEL]
    head = fit_gp(path, smiles, ph, names=["y"], blocks=["vectors"], extra={"pH": ph})
    head.save(tmp_path / "head.npz")
    predict = TablePredictor(MODEL, device="cpu", head=str(tmp_path / "head.npz"))
    new = pyarrow.table({"smiles": ["CCO"] * 3, "pH": ["2", "9.5", "acid"]})
    with pytest.warns(match=r"has pH beyond 2 to 9 \(in 1 molecule\)"):
        new = predict(new)
    low, high, none = new["y"].to_pylist()
    assert low < high and none is None
    assert new["reason"].to_pylist() == [None, None, "'acid' is not a number"]


def test_no_rows(predictor, table, found):
    """Engines call it with none, to know the columns."""
    assert predictor(table.slice(0, 0)).schema.equals(found.schema)
    empty = predictor(table.slice(0, 0).to_pandas())
    assert empty.columns.tolist() == found.column_names
    assert list(predictor(iter([]))) == []


def test_an_engine_can_ship_it(tmp_path, monkeypatch):
    """A few bytes without weights, which work from another folder."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here/model.pt").touch()
    monkeypatch.chdir(tmp_path / "here")
    sent = pickle.dumps(TablePredictor("model.pt", "smiles", user_data_dir="."))
    assert len(sent) < 1000
    monkeypatch.chdir(tmp_path)
    got = pickle.loads(sent)
    assert got.checkpoint == str(tmp_path / "here/model.pt")
    assert got.user_data_dir == str(tmp_path / "here")


def test_one_model_for_a_process(predictor, table):
    """Loaded at the first call, and shared by threads, which take turns."""
    arrow._loaded.cache_clear()
    copies = [pickle.loads(pickle.dumps(predictor)) for _ in range(3)]
    assert arrow._loaded.cache_info().misses == 0
    results = []
    threads = [
        threading.Thread(target=lambda one=one: results.append(one(table.slice(0, 6))))
        for one in copies
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert arrow._loaded.cache_info().misses == 1 and len(results) == 3
    assert results[0].equals(results[1]) and results[0].equals(results[2])


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["ray", "dask", "spark"])
def test_engines(engine, found, table, tmp_path):
    """The examples, with the real engines."""
    needed = {"ray": "ray.data", "dask": "dask.dataframe", "spark": "pyspark.sql"}
    extra = "spark" if engine == "spark" else "engines"
    pytest.importorskip(needed[engine], reason=f"pip install '.[{extra}]'")
    if engine == "spark" and not shutil.which("java"):
        pytest.skip("apt install default-jre-headless")
    (tmp_path / "in").mkdir()
    for part in range(2):
        parquet.write_table(table.slice(30 * part, 30), tmp_path / f"in/{part}.parquet")
    # Ray's workers are nice otherwise, and starve beside other work.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RAY_worker_niceness": "0"}
    environment |= {"PYSPARK_PYTHON": sys.executable, "MASTER": "local[2]"}
    script = [sys.executable, str(ROOT / f"examples/scale/with_{engine}.py"), MODEL]
    done = subprocess.run(
        [*script, str(tmp_path / "in"), str(tmp_path / "out")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    files = list(tmp_path.glob("out/*.parquet"))
    assert files
    rows = pandas.concat(map(pandas.read_parquet, files)).sort_values("id")
    expected = found.to_pandas()
    assert list(rows.columns)[: expected.shape[1]] == list(expected.columns)
    types = parquet.read_schema(files[0]).types[: expected.shape[1]]
    assert engine != "spark" or types == found.schema.types
    np.testing.assert_allclose(rows.iloc[:, 3], expected.iloc[:, 3], rtol=1e-4)
    assert rows["reason_predicted"].notna().sum() == 30
