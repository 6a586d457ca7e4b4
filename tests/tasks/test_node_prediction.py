"""Targets of every node: from a folder of a user to metrics and predictions."""

import numpy as np
import pytest
from fairseq_cli import train as fairseq_train
from fairseq_cli import validate as fairseq_validate

from graphormer_plugin import hub
from graphormer_plugin.criterions.metrics import average_precision, roc_auc
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
    \"\"\"Paths; the value of a node is its number, missing in the middle. Or the distance from
    the nearest end, too, which misses more; or whether this is small.\"\"\"
    graphs = []
    for length in range(4, 34):
        nodes = torch.arange(length - 1)
        pairs = torch.stack([nodes, nodes + 1])
        y = torch.arange(length).double()
        y[2] = float("nan")
        near = torch.minimum(y, y.flip(0))
        values = torch.stack([y, near], 1)
        classes = torch.stack([(near < 1) + 0 * y, (near < 2) + 0 * near], 1)
        graphs.append(
            Data(
                x=torch.arange(length)[:, None] % 5,
                edge_index=torch.cat([pairs, pairs.flip(0)], dim=1),
                y=Y,
            )
        )
    rows = list(range(30))
    splits = {"train": rows[:20], "valid": rows[20:25], "test": rows[25:]}
    return DatasetSource(
        graphs=graphs, splits=splits, target_names=NAMES, unit="nodes",
        kind=KIND, level="node",
    )
"""


@pytest.fixture(autouse=True)
def forget():
    yield
    DATASETS.pop("positions", None)


def folder_with(tmp_path, y="y", kind="regression", names=("place",)):
    folder = tmp_path / "datasets"
    folder.mkdir(exist_ok=True)
    code = DATASET.replace("Y,", f"{y},").replace("KIND", repr(kind))
    code = code.replace("NAMES", repr(names))
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


def test_store_of_several_targets(tmp_path):
    """A column each, with its own missing cells; the first has the numbers it has alone."""
    (tmp_path / "alone").mkdir()
    alone = get_store(DatasetOptions("positions", **folder_with(tmp_path / "alone")))
    DATASETS.pop("positions")
    folder = folder_with(tmp_path, "values", names=("place", "near"))
    store = get_store(DatasetOptions("positions", **folder))
    assert np.load(alone.path / "target.npy").ndim == 1
    assert np.load(store.path / "target.npy").shape == (len(alone.target), 2)
    assert np.array_equal(store.target[:, :1], alone.target, equal_nan=True)
    near = store.labels(store.splits["train"])[:, 1].astype(float)
    assert store.targets.mean == [*alone.targets.mean, np.nanmean(near)]
    assert store.targets.std == pytest.approx([*alone.targets.std, np.nanstd(near)])
    missing = 30 + 59  # both ends of `near` but in the path of five nodes
    assert store.manifest["counts"]["missing_labels"] == missing


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"y": "y[:-1]"}, r"y has shape \[3\] .* values \[4\] or \[4, C\] of nodes"),
        ({"y": "y * 1e39"}, "graph 0: y has .* fit float32"),
        ({"kind": "multiclass"}, r"expected integer classes \[4\] of nodes"),
    ],
)
def test_what_is_wrong_is_said(changes, message, tmp_path):
    with pytest.raises(DatasetError, match=message):
        get_store(DatasetOptions("positions", **folder_with(tmp_path, **changes)))


def test_their_source_says_the_kind_of_labels(tmp_path):
    options = DatasetOptions(
        "positions", target_kind="binary", **folder_with(tmp_path, kind="")
    )
    with pytest.raises(DatasetError, match="'positions' does not read --target-kind"):
        get_store(options)


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


CASES = [
    ("y", "regression", "l1_loss", ["place"]),
    ("values", "regression", "mse_loss", ["place", "near"]),
    ("classes", "binary", "binary_logloss --class-weights balanced", ["end", "near"]),
]


@pytest.mark.long
@pytest.mark.usefixtures("fresh_fairseq")
@pytest.mark.parametrize("y, kind, loss, names", CASES)
def test_training_and_predictions(y, kind, loss, names, tmp_path, monkeypatch):
    folder = folder_with(tmp_path, y, kind, names)
    shared = f"--user-dir {USER_DIR} --task node_prediction --cpu "
    shared += f"--log-format json --num-workers 0 --data-root {tmp_path} "
    shared += f"--user-data-dir {tmp_path}/datasets --required-batch-size-multiple 1"
    words = f"""{shared} --dataset-name positions --criterion {loss} {TINY}
        --optimizer adam --lr 1e-3 --max-epoch 3 --batch-size 8 --no-progress-bar
        --save-dir {tmp_path}/run --best-checkpoint-metric loss"""
    log = run(fairseq_train.cli_main, words.split(), monkeypatch)
    losses = [epoch["train_loss"] for epoch in logged(log, "train")]
    assert losses == sorted(losses, reverse=True)
    tables_of_sizes = []
    for size in (8, 1):
        words = f"""{shared} --path {tmp_path}/run/checkpoint_best.pt --valid-subset test
            --batch-size {size} --results-path {tmp_path}/{size}"""
        log = run(fairseq_validate.cli_main, words.split(), monkeypatch)
        (test,) = logged(log, "test")
        rows = tables.rows(tmp_path / f"{size}/predictions_test.csv")
        tables_of_sizes.append(rows)
    assert len(rows) == sum(range(29, 34))
    ends = ("", "_target")
    columns = [f"{name}{end}" for end in ends for name in names]
    assert [*rows[0]] == ["row", "node", *columns]
    places = [row[f"{names[0]}_target"] for row in rows[:4]]
    assert places == (
        ["0", "1", "", "3"] if kind == "regression" else list("10") + ["", "0"]
    )
    values, labels = (
        np.array([[float(row[f"{n}{end}"] or "nan") for n in names] for row in rows])
        for end in ends
    )
    other = [[float(row[name]) for name in names] for row in tables_of_sizes[0]]
    assert values == pytest.approx(np.array(other), abs=1e-5)
    store = get_store(DatasetOptions("positions", **folder))
    expected = store.labels(store.splits["test"])
    assert labels == pytest.approx(expected, nan_ok=True)
    if kind == "regression":
        errors = np.nanmean(np.abs(values - labels), 0)
        assert errors.mean() == pytest.approx(test["test_mae"], rel=1e-4)
        for name, error in zip(names, errors if len(names) > 1 else ()):
            assert error == pytest.approx(test[f"test_mae_{name}"], rel=1e-4)
    else:
        metrics = (roc_auc(values, labels), average_precision(values, labels))
        logged_metrics = (test["test_roc_auc"], test["test_ap"])
        assert logged_metrics == pytest.approx(metrics, abs=1e-6)  # as it is rounded
    predictor = hub.load(tmp_path / "run/checkpoint_best.pt")
    assert predictor.targets == store.targets
    graphs = DATASETS["positions"].function().graphs[25:]
    predicted = np.concatenate(predictor.predict(graphs))
    assert predicted == pytest.approx(values, rel=1e-4, abs=1e-5)


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
