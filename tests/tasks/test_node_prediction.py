"""A value for every node: from a folder of a user to metrics and predictions."""

import numpy as np
import pytest
from fairseq_cli import train as fairseq_train
from fairseq_cli import validate as fairseq_validate

from graphormer_plugin import hub
from graphormer_plugin.data import DATASETS, DatasetError, DatasetOptions, get_store
from graphormer_plugin.tasks.graph_prediction import (
    GraphPredictionConfig,
    GraphPredictionTask,
)
from support import tables
from support.training import TINY, USER_DIR, logged, run

DATASET = """
import torch
from torch_geometric.data import Data

from graphormer_plugin.data import DatasetSource, register_dataset


@register_dataset("positions")
def positions():
    \"\"\"Paths; the value of a node is its number, missing in the middle.\"\"\"
    graphs = []
    for length in range(4, 34):
        nodes = torch.arange(length - 1)
        pairs = torch.stack([nodes, nodes + 1])
        y = torch.arange(length).double()
        y[2] = float("nan")
        graphs.append(
            Data(
                x=torch.ones(length, 1, dtype=torch.long),
                edge_index=torch.cat([pairs, pairs.flip(0)], dim=1),
                y=Y,
            )
        )
    rows = list(range(30))
    splits = {"train": rows[:20], "valid": rows[20:25], "test": rows[25:]}
    return DatasetSource(
        graphs=graphs, splits=splits, target_names=["place"], unit="nodes",
        kind=KIND, level="node",
    )
"""


@pytest.fixture(autouse=True)
def forget():
    yield
    DATASETS.pop("positions", None)


def folder_with(tmp_path, y="y", kind="'regression'"):
    folder = tmp_path / "datasets"
    folder.mkdir(exist_ok=True)
    code = DATASET.replace("Y,", f"{y},").replace("KIND", kind)
    (folder / "positions.py").write_text(code)
    return {"user_data_dir": str(folder), "data_root": str(tmp_path), "progress": False}


def test_store(tmp_path):
    store = get_store(DatasetOptions("positions", **folder_with(tmp_path)))
    assert store.target.dtype == np.float32 and store.target.shape[1:] == (1,)
    assert store.targets.level == "node" and store.targets.kind == "regression"
    train = np.concatenate([np.arange(length) for length in range(4, 24)])
    train = train[train != 2]
    assert store.targets.mean == pytest.approx([train.mean()])
    assert store.targets.std == pytest.approx([train.std()])
    assert store.manifest["counts"]["missing_labels"] == 30


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"y": "y[:-1]"}, "y has shape .3. .* expected 4 values"),
        ({"y": "y * 1e39"}, "graph 0: y has .* fit float32"),
        ({"kind": "'multiclass'"}, "expected 4 integer classes"),
    ],
)
def test_what_is_wrong_is_said(changes, message, tmp_path):
    with pytest.raises(DatasetError, match=message):
        get_store(DatasetOptions("positions", **folder_with(tmp_path, **changes)))


def test_labels_of_nodes_need_their_task(tmp_path):
    options = folder_with(tmp_path)
    del options["progress"]
    task = GraphPredictionTask(
        GraphPredictionConfig(
            dataset_name="positions", seed=1, prepare_workers=1, **options
        )
    )
    with pytest.raises(ValueError, match="labels of nodes; use --task node_pred"):
        _ = task.store


@pytest.mark.long
@pytest.mark.usefixtures("fresh_fairseq")
def test_training_and_predictions(tmp_path, monkeypatch):
    folder_with(tmp_path)
    shared = f"--user-dir {USER_DIR} --task node_prediction --batch-size 8 --cpu "
    shared += "--log-format json --num-workers 0"
    words = f"""{shared} --dataset-name positions --user-data-dir {tmp_path}/datasets
        --data-root {tmp_path} --criterion l1_loss {TINY} --optimizer adam --lr 1e-3
        --max-epoch 1 --best-checkpoint-metric mae --no-progress-bar
        --save-dir {tmp_path}/run --required-batch-size-multiple 1"""
    log = run(fairseq_train.cli_main, words.split(), monkeypatch)
    (valid,) = logged(log, "valid")
    assert 0 < valid["valid_mae"] < valid["valid_rmse"] < 40
    words = f"""{shared} --path {tmp_path}/run/checkpoint_best.pt --valid-subset test
        --results-path {tmp_path} --data-root {tmp_path}
        --user-data-dir {tmp_path}/datasets"""
    log = run(fairseq_validate.cli_main, words.split(), monkeypatch)
    (test,) = logged(log, "test")
    rows = tables.rows(tmp_path / "predictions_test.csv")
    assert len(rows) == sum(range(29, 34))
    assert rows[0].keys() == {"row", "node", "place", "place_target"}
    assert [row["place_target"] for row in rows[:4]] == ["0", "1", "", "3"]
    errors = [
        abs(float(row["place"]) - float(row["place_target"]))
        for row in rows
        if row["place_target"]
    ]
    assert np.mean(errors) == pytest.approx(test["test_mae"], rel=1e-4)
    model = hub.load(tmp_path / "run/checkpoint_best.pt")
    store = get_store(DatasetOptions("positions", **folder_with(tmp_path)))
    assert model.targets == store.targets


MASKED = """
import torch
from torch_geometric.data import Data

from graphormer_plugin.data import DatasetSource, register_dataset


@register_dataset("masked")
def masked():
    \"\"\"A ring of 40 nodes; one class in the training, another elsewhere.\"\"\"
    nodes = torch.arange(40)
    pairs = torch.stack([nodes, (nodes + 1) % 40])
    masks = {"train_mask": nodes < 20, "val_mask": nodes >= 30}
    masks["test_mask"] = (nodes >= 20) & (nodes < 25)
    data = Data(
        x=torch.ones(40, 1), edge_index=torch.cat([pairs, pairs.flip(0)], dim=1),
        y=torch.where(nodes < 23, 0, 1), **masks,
    )
    return DatasetSource(
        graphs=[data], target_names=["half"], kind="multiclass", level="node"
    )
"""


@pytest.mark.long
@pytest.mark.usefixtures("fresh_fairseq")
def test_one_graph_with_masks(tmp_path, monkeypatch):
    """All nodes of the ring look alike and get the class of the training, so that each
    split's accuracy says which labels count in it."""
    folder = tmp_path / "datasets"
    folder.mkdir()
    (folder / "masked.py").write_text(MASKED)
    shared = f"--user-dir {USER_DIR} --task node_prediction --batch-size 1 --cpu "
    shared += f"--log-format json --num-workers 0 --data-root {tmp_path} "
    shared += f"--user-data-dir {folder}"
    words = f"""{shared} --dataset-name masked --arch grpe_tiny {TINY}
        --criterion multiclass_cross_entropy --optimizer adam --lr 1e-2 --max-epoch 8
        --dropout 0 --attention-dropout 0 --no-progress-bar --no-epoch-checkpoints
        --best-checkpoint-metric loss --save-dir {tmp_path}/run"""
    log = run(fairseq_train.cli_main, words.split(), monkeypatch)
    assert logged(log, "train")[-1]["train_accuracy"] == 1
    assert logged(log, "train")[-1]["train_loss"] < 0.2
    assert logged(log, "valid")[-1]["valid_accuracy"] == 0
    words = f"""{shared} --path {tmp_path}/run/checkpoint_last.pt --valid-subset test
        --results-path {tmp_path}"""
    log = run(fairseq_validate.cli_main, words.split(), monkeypatch)
    assert logged(log, "test")[0]["test_accuracy"] == pytest.approx(3 / 5)
    rows = tables.rows(tmp_path / "predictions_test.csv")
    labels = [row["half_target"] for row in rows]
    assert labels == [""] * 20 + ["0"] * 3 + ["1"] * 2 + [""] * 15
    DATASETS.pop("masked")
