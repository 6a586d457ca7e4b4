"""A user's own folder: an architecture and a pair encoding outside the package."""

import csv
import sys

import pytest
from fairseq_cli import train as fairseq_train
from fairseq_cli import validate as fairseq_validate

from support.training import PATIENCE, ROOT, command, logged, run, train_arguments

MY_GRAPHS = str(ROOT / "examples/extending/my_graphs")
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("fresh_fairseq")]
PREDICT = "from graphormer_plugin.cli.predict import main; raise SystemExit(main())"


@pytest.mark.parametrize(
    "name, options",
    [
        ("mixer", ("--arch", "mixer_small", "--layerwise-lr-decay", 0.9)),
        ("grpe", ("--pair-encodings", "common_neighbours")),
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
