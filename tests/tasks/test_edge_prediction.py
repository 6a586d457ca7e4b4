"""Labels of edges and of pairs of nodes: from a folder of a user to metrics and predictions."""

import numpy as np
import pytest
import torch
from fairseq_cli import train as fairseq_train
from fairseq_cli import validate as fairseq_validate
from torch_geometric.data import Data

from graphormer_plugin import hub
from graphormer_plugin.data import DATASETS, DatasetError, DatasetSource
from graphormer_plugin.pyg import build_model, graph_loader
from support import tables
from support.stores import store_of
from support.training import TINY, USER_DIR, logged, run

DATASET = """
import torch
from torch_geometric.data import Data

from graphormer_plugin.data import DatasetSource, register_dataset


@register_dataset("colours")
def colours():
    \"\"\"Paths; the class of an edge says whether its nodes have one colour.\"\"\"
    generator = torch.Generator().manual_seed(0)
    graphs = []
    for length in range(4, 34):
        nodes = torch.arange(length - 1)
        forth = torch.stack([nodes, nodes + 1])
        edges = torch.cat([forth, forth.flip(0)], 1).flip(1)
        x = torch.randint(3, (length, 1), generator=generator)
        y = (x[edges[0], 0] == x[edges[1], 0]).long()
        y[0] = -1
        graphs.append(Data(x=x, edge_index=edges, y=y))
    rows = list(range(30))
    splits = {"train": rows[:20], "valid": rows[20:25], "test": rows[25:]}
    return DatasetSource(
        graphs=graphs, splits=splits, target_names=["same"], level="edge",
        class_names=[["other", "one"]],
    )
"""


@pytest.fixture(autouse=True)
def forget():
    yield
    DATASETS.pop("colours", None)


def triangle(level="edge", **changes):
    """Three edges in an order that no store has; at pair level two pairs."""
    values = {
        "x": torch.arange(3)[:, None],
        "edge_index": torch.tensor([[2, 0, 1], [0, 1, 2]]),
        "y": torch.tensor([20.0, 1.0, 12.0]),
    }
    return Data(**values | changes)


def test_store_has_edges_in_the_order_of_the_source():
    lone = triangle(
        x=torch.zeros(1, 1, dtype=torch.long),
        edge_index=torch.zeros(2, 0, dtype=torch.long),
        y=torch.zeros(0),
    )
    graphs = [triangle(), lone, triangle(y=torch.tensor([5.0, torch.nan, 6.0]))] * 4
    splits = {"train": [0, 1, 2], "valid": [3, 4, 5], "test": [6]}
    source = DatasetSource(graphs, splits=splits, kind="regression", level="edge")
    store = store_of(source)
    labels = store.labels(np.array([2, 1, 0])).T
    np.testing.assert_array_equal(labels, [[5, np.nan, 6, 20, 1, 12]])
    ends = store.label_ends(np.array([1, 0]))
    assert ends.dtype == np.int64 and ends.tolist() == [[2, 0], [0, 1], [1, 2]]
    assert store.label_counts[:3].tolist() == [3, 0, 3]
    train = [20, 1, 12, 5, 6]
    assert store.targets.mean == pytest.approx([np.mean(train)])
    assert store.targets.std == pytest.approx([np.std(train)])


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"y": torch.zeros(2)}, "graph 0: y has shape .2."),
        (
            {"y": torch.full((3,), 1e39, dtype=torch.double)},
            "graph 0: y has .* float32",
        ),
    ],
)
def test_what_is_wrong_is_said(changes, message):
    with pytest.raises(DatasetError, match=message):
        source = DatasetSource([triangle(**changes)] * 9, level="edge")
        source.kind = "regression"
        store_of(source)


def test_batches_and_models_of_pyg():
    """Labels and outputs have the order of the edges of `Data`, and equal predictions."""
    torch.manual_seed(0)
    graphs = [triangle(), triangle(y=torch.tensor([5.0, torch.nan, 6.0]))]
    model = build_model("gt_zinc", graphs, level="edge", kind="regression").eval()
    ((batch, target),) = graph_loader(graphs, model, batch_size=2)
    assert batch["ends"].tolist() == [[[2, 0], [0, 1], [1, 2]]] * 2
    values = [[20, 1, 12], [5, np.nan, 6]]
    assert target.tolist() == pytest.approx(np.array(values), nan_ok=True)
    assert model(batch).shape == (2, 3, 1)
    unlabelled = [triangle(y=None)] * 2
    ((_, target),) = graph_loader(unlabelled, model, batch_size=2)
    assert target.shape == (2, 3) and target.isnan().all()


@pytest.mark.long
@pytest.mark.usefixtures("fresh_fairseq")
def test_training_and_predictions(tmp_path, monkeypatch):
    folder = tmp_path / "datasets"
    folder.mkdir()
    (folder / "colours.py").write_text(DATASET)
    shared = f"--user-dir {USER_DIR} --task edge_prediction --batch-size 8 --cpu "
    shared += f"--log-format json --num-workers 0 --data-root {tmp_path} "
    shared += f"--user-data-dir {folder}"
    words = f"""{shared} --dataset-name colours {TINY} --optimizer adam --lr 2e-2
        --criterion multiclass_cross_entropy --max-epoch 6 --no-progress-bar
        --dropout 0 --attention-dropout 0 --no-epoch-checkpoints
        --best-checkpoint-metric accuracy --save-dir {tmp_path}/run
        --required-batch-size-multiple 1"""
    log = run(fairseq_train.cli_main, words.split(), monkeypatch)
    losses = [epoch["train_loss"] for epoch in logged(log, "train")]
    assert losses[-1] < 0.5 * losses[0]
    words = f"""{shared} --path {tmp_path}/run/checkpoint_best.pt --valid-subset test
        --results-path {tmp_path}"""
    log = run(fairseq_validate.cli_main, words.split(), monkeypatch)
    (test,) = logged(log, "test")
    rows = tables.rows(tmp_path / "predictions_test.csv")
    assert len(rows) == sum(2 * (length - 1) for length in range(29, 34))
    assert (
        list(rows[0])
        == "row source target same same_target same_other same_one".split()
    )
    assert [rows[0][name] for name in ("row", "source", "target", "same_target")] == [
        "25", "28", "27", ""
    ]  # fmt: skip
    right = [row["same"] == row["same_target"] for row in rows if row["same_target"]]
    assert np.mean(right) == pytest.approx(test["test_accuracy"], abs=1e-3)
    assert np.mean(right) > 0.9
    both = {(row["row"], row["source"], row["target"]): row["same_one"] for row in rows}
    for (row, source, target), probability in both.items():
        assert both[row, target, source] == probability
    model = hub.load(tmp_path / "run/checkpoint_best.pt")
    graphs = DATASETS["colours"].function().graphs[25:]
    predicted = np.concatenate(model.predict(graphs, batch_size=3))
    written = [float(row["same_one"]) for row in rows]
    np.testing.assert_allclose(predicted[:, 1], written, atol=1e-5)
    with pytest.raises(ValueError, match="predictions of edges have neither spread"):
        model.estimate(graphs)
