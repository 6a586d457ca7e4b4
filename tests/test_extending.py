"""A user's own folder: an architecture and a pair encoding outside the package."""

import csv
import sys

import numpy as np
import pytest
from fairseq_cli import train as fairseq_train
from fairseq_cli import validate as fairseq_validate

from graphormer_plugin.data import user_code
from graphormer_plugin.data.fields import FIELDS, BatchSpec
from graphormer_plugin.data.fields.field_cache import compute_columns
from support.training import PATIENCE, ROOT, command, logged, run, train_arguments

MY_GRAPHS = str(ROOT / "examples/extending/my_graphs")
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("fresh_fairseq")]
PREDICT = "from graphormer_plugin.cli.predict import main; raise SystemExit(main())"


@pytest.mark.parametrize(
    "name, options",
    [
        ("mixer", ("--arch", "mixer_small", "--layerwise-lr-decay", 0.9)),
        ("grpe", ("--pair-encodings", "common_neighbours")),
        ("fields", ("--pair-encodings", "resistance", "--num-workers", 1)),
    ],
)
def test_train_validate_predict(name, options, data, tmp_path, monkeypatch):
    # fairseq puts the parent of the folder on the path and leaves it there.
    monkeypatch.setattr(sys, "path", sys.path[:])
    more = ("--user-dir", MY_GRAPHS, "--max-epoch", 2, *options)
    log = run(
        fairseq_train.cli_main,
        train_arguments(data, tmp_path / name, *more),
        monkeypatch,
    )
    first, last = logged(log, "train")
    assert last["train_loss"] < first["train_loss"]
    path = str(tmp_path / name / "checkpoint_best.pt")
    arguments = ["--user-dir", MY_GRAPHS, "--task", "graph_prediction"]
    arguments += ["--path", path, "--batch-size", "5", "--log-format", "json"]
    arguments += ["--data-root", str(data)]
    log = run(
        fairseq_validate.cli_main, [*arguments, "--num-workers", "0"], monkeypatch
    )
    assert logged(log, "valid")[0]["valid_mae"] > 0
    # A process that does not know the folder yet.
    output = tmp_path / "predictions.csv"
    process = command(
        "-c",
        PREDICT,
        path,
        f"{data}/molecules.csv",
        output,
        "--user-data-dir",
        MY_GRAPHS,
    )
    text, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, text + errors
    with open(output) as file:
        assert len(list(csv.DictReader(file))) == 120


def test_resistances():
    """A ring of six nodes, a path of two behind it, and a node apart."""
    if "resistance" not in FIELDS:  # no training of this process has imported it
        user_code.import_user_data(MY_GRAPHS)
    ends = [(n, (n + 1) % 6) for n in range(6)] + [(0, 6), (6, 7)]
    edges = np.array(ends + [(v, u) for u, v in ends]).T
    columns = {"node_offset": np.array([0, 9]), "edge_offset": np.array([0, 16])}
    columns |= {"edge_src": edges[0], "edge_dst": edges[1]}
    made = compute_columns(columns, BatchSpec({"resistance"}))
    ohm = made["pair.resistance"].reshape(9, 9)
    for pair, value in {
        (0, 1): 5 / 6,
        (0, 2): 8 / 6,
        (0, 3): 9 / 6,
        (0, 6): 1,
        (7, 3): 3.5,
        (4, 4): 0,
        (2, 8): -1,
        (8, 8): 0,
    }.items():
        assert ohm[pair] == pytest.approx(value, abs=1e-6)
    assert np.array_equal(ohm, ohm.T)
