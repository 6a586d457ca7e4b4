"""Words, salts, weights and names from a table to a prediction in another format."""

import numpy as np
import pandas
import pytest
from fairseq_cli import validate as fairseq_validate

from graphormer_plugin import hub
from graphormer_plugin.cli.predict import main as predict
from graphormer_plugin.data.tables.formats import open_table
from support import tables
from support.training import USER_DIR, run_once


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folder with the table of a training."""
    folder = tmp_path_factory.mktemp("words")
    lines = ["smiles\tname\thit\ttoxic\tw"]
    for n in range(1, 31):
        words = ["active" if n % 3 else "inactive", str(n % 2)]
        lines.append("\t".join([f"{'C' * n}[NH3+].[Cl-]", f"amine {n}", *words, "2"]))
    (folder / "table.tsv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def checkpoint(checkpoint, folder):
    words = f"""--dataset-name {folder}/table.tsv --target-columns hit,toxic
        --target-kind binary --target-unit= --weight-column w --largest-fragment
        --data-root {folder} --criterion binary_logloss --class-weights balanced"""
    return checkpoint("grpe_tiny", *words.split())


def test_validation_writes_molecules_and_words(folder, checkpoint):
    arguments = f"""--user-dir {USER_DIR} --task graph_prediction --path {checkpoint}
        --valid-subset test --batch-size 8 --data-root {folder} --num-workers 0
        --results-path {folder}/results"""
    run_once(fairseq_validate.cli_main, arguments.split())
    rows = tables.rows(folder / "results" / "predictions_test.csv")
    columns = "row smiles name hit toxic hit_target toxic_target hit_class".split()
    assert len(rows) == 3 and list(rows[0]) == columns
    for row in rows:
        n = int(row["row"]) + 1
        assert row["smiles"] == f"{'C' * n}[NH3+].[Cl-]" and row["name"] == f"amine {n}"
        assert row["hit_target"] == ("active" if n % 3 else "inactive")
        assert row["hit_class"] == ("active" if float(row["hit"]) > 0.5 else "inactive")
        assert row["toxic_target"] == str(n % 2)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "sdf", "parquet"])
def test_prediction_in_every_format(folder, checkpoint, tmp_path, suffix, capsys):
    output = tmp_path / f"out.{suffix}"
    arguments = [checkpoint, str(folder / "table.tsv"), str(output), "--quiet"]
    assert predict(arguments) == 0
    table = open_table(output)
    names = ["smiles", "hit_predicted", "hit_class"]
    cells = [cells for *_, cells in table.rows(names)]
    expected = hub.load(checkpoint).predict([row[0] for row in cells])[:, 0]
    np.testing.assert_allclose([float(row[1]) for row in cells], expected, rtol=1e-6)
    assert {row[2] for row in cells} <= {"active", "inactive"}
    assert [path.name for path in tmp_path.iterdir()] == [output.name]
    if suffix == "parquet":
        assert pandas.read_parquet(output)["hit_predicted"].dtype == float
