"""A user's own folder: an architecture and pair encodings outside the package."""

from pathlib import Path

import numpy as np
import pytest

from graphormer_plugin.data.batches.fields import FIELDS, BatchSpec
from graphormer_plugin.data.batches.fields.field_cache import compute_columns
from graphormer_plugin.data.sources import user_code
from support.tables import rows
from support.training import PATIENCE, ROOT, command, logged

MY_GRAPHS = str(ROOT / "examples/extending/my_graphs")
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("fresh_fairseq")]
PREDICT = "from graphormer_plugin.cli.predict import main; raise SystemExit(main())"


ARCHITECTURE = (
    "--arch mixer_small --layerwise-lr-decay 0.9 --node-encodings near_degrees"
)
PAIRS = "--pair-encodings common_neighbours,resistance --num-workers 1"


@pytest.mark.parametrize("words", [ARCHITECTURE, PAIRS])
def test_train_validate_predict(words, train, validate, data, tmp_path, monkeypatch):
    # fairseq puts the parent of the folder on the path and leaves it there.
    monkeypatch.syspath_prepend(ROOT / "examples/extending")
    log = train("mine", "--user-dir", MY_GRAPHS, "--max-epoch", 2, *words.split())
    first, last = logged(log, "train")
    assert last["train_loss"] < first["train_loss"]
    path = tmp_path / "mine/checkpoint_best.pt"
    log = validate(path, "--user-dir", MY_GRAPHS)
    assert logged(log, "valid")[0]["valid_mae"] > 0
    # A process that does not know the folder yet.
    table, output = data / "molecules.csv", tmp_path / "predictions.csv"
    words = ("-c", PREDICT, path, table, output, "--user-data-dir", MY_GRAPHS)
    process = command(*words)
    text, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, text
    assert len(rows(output)) == 120


def test_resistances():
    """A ring of six nodes, a path of two behind it, and a node apart."""
    if "resistance" not in FIELDS:  # no training of this process has imported it
        user_code.import_user_data(Path(MY_GRAPHS))
    ends = [(n, (n + 1) % 6) for n in range(6)] + [(0, 6), (6, 7)]
    edges = np.array(ends + [(v, u) for u, v in ends]).T
    columns = {"node_offset": np.array([0, 9]), "edge_offset": np.array([0, 16])}
    columns |= {"edge_src": edges[0], "edge_dst": edges[1]}
    made = compute_columns(columns, BatchSpec({"resistance"}))
    ohm = made["pair.resistance"].reshape(9, 9)
    assert ohm[0] == pytest.approx(np.array([0, 5, 8, 9, 8, 5, 6, 12, -6]) / 6)
    assert ohm[7, 3] == pytest.approx(3.5) and ohm[8, 8] == 0
    assert np.array_equal(ohm, ohm.T)
