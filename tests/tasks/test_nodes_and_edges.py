"""Targets of every node or edge: from a folder of a user to metrics and predictions."""

import numpy as np
import pytest
import torch
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


@register_dataset("paths")
def paths():
    \"\"\"A node has its place, missing in the middle, and the distance from the nearest end,
    which misses more, or whether this is small; an edge, whether its nodes have one colour.\"\"\"
    generator = torch.Generator().manual_seed(0)
    graphs = []
    for length in range(4, 34):
        nodes = torch.arange(length - 1)
        edges = torch.stack([nodes, nodes + 1])
        edges = torch.cat([edges, edges.flip(0)], 1).flip(1)
        colour = torch.randint(3, (length, 1), generator=generator)
        place = torch.arange(length).double()
        x = torch.cat([colour, place.long()[:, None] % 5], 1)
        place[2] = float("nan")
        near = torch.minimum(place, place.flip(0))
        both = torch.stack([place, near], 1)
        small = torch.stack([(near < 1) + 0 * place, (near < 2) + 0 * near], 1)
        same = (colour[edges[0], 0] == colour[edges[1], 0]).long()
        same[0] = -1
        graphs.append(Data(x=x, edge_index=edges, y=Y))
    rows = list(range(30))
    splits = {"train": rows[:20], "valid": rows[20:25], "test": rows[25:]}
    return DatasetSource(graphs=graphs, splits=splits, SAYS)
"""


@pytest.fixture(autouse=True)
def forget():
    yield
    DATASETS.pop("paths", None)


def folder_with(tmp_path, y="place", names=("place",), **says):
    folder = tmp_path / "datasets"
    folder.mkdir(exist_ok=True)
    says = {"level": "node", "kind": "regression", "target_names": names} | says
    words = ", ".join(f"{name}={value!r}" for name, value in says.items())
    code = DATASET.replace("Y)", f"{y})").replace("SAYS", words)
    (folder / "paths.py").write_text(code)
    return {"user_data_dir": str(folder), "data_root": str(tmp_path), "progress": False}


def test_store_of_several_targets(tmp_path):
    """A column each, with its own missing cells; the first has the numbers it has alone."""
    (tmp_path / "alone").mkdir()
    alone = get_store(DatasetOptions("paths", **folder_with(tmp_path / "alone")))
    DATASETS.pop("paths")
    folder = folder_with(tmp_path, "both", ("place", "near"))
    store = get_store(DatasetOptions("paths", **folder))
    assert np.load(alone.path / "target.npy").ndim == 1
    assert np.load(store.path / "target.npy").shape == (len(alone.target), 2)
    assert np.array_equal(store.target[:, :1], alone.target, equal_nan=True)
    near = store.labels(store.splits["train"])[:, 1].astype(float)
    assert store.targets.mean == [*alone.targets.mean, np.nanmean(near)]
    assert store.targets.std == pytest.approx([*alone.targets.std, np.nanstd(near)])
    missing = 30 + 59  # both ends of `near` but in the path of five nodes
    assert store.manifest["counts"]["missing_labels"] == missing


def test_their_source_says_the_kind_of_labels(tmp_path):
    folder = folder_with(tmp_path, kind="")
    with pytest.raises(DatasetError, match="'paths' does not read --target-kind"):
        get_store(DatasetOptions("paths", target_kind="binary", **folder))


def test_labels_of_nodes_need_their_task(tmp_path):
    options = folder_with(tmp_path)
    del options["progress"]
    options |= {"dataset_name": "paths", "seed": 1, "prepare_workers": 1}
    task = GraphPredictionTask(GraphPredictionConfig(**options))
    with pytest.raises(ValueError, match="labels of nodes; use --task node_pred"):
        _ = task.store


# Level, labels, their kind and names, the loss.
CASES = [
    ("node", "place", "regression", "place", "l1_loss"),
    ("node", "both", "regression", "place near", "mse_loss"),
    ("node", "small", "binary", "end near", "binary_logloss --class-weights balanced"),
    ("edge", "same", "multiclass", "same", "multiclass_cross_entropy"),
]
STEPS = {"node": "--lr 1e-3 --max-epoch 3", "edge": "--lr 1e-2 --max-epoch 8"}
WORDS = ["other", "one"]


@pytest.mark.long
@pytest.mark.usefixtures("fresh_fairseq")
@pytest.mark.parametrize("level, y, kind, names, loss", CASES)
def test_training_and_predictions(level, y, kind, names, loss, tmp_path, monkeypatch):
    """From the folder of a user to metrics, files and predictions."""
    names = names.split()
    classes = {"class_names": [WORDS]} if kind == "multiclass" else {}
    options = folder_with(tmp_path, y, names, level=level, kind=kind, **classes)
    shared = f"--user-dir {USER_DIR} --task {level}_prediction --cpu --num-workers 0 "
    shared += f"--log-format json --data-root {tmp_path} --user-data-dir "
    shared += f"{tmp_path}/datasets --required-batch-size-multiple 1"
    words = f"""{shared} --dataset-name paths {TINY} --optimizer adam {STEPS[level]}
        --dropout 0 --attention-dropout 0 --batch-size 8 --no-progress-bar
        --no-epoch-checkpoints --save-dir {tmp_path}/run --best-checkpoint-metric loss
        --criterion {loss}"""
    log = run(fairseq_train.cli_main, words.split(), monkeypatch)
    losses = [epoch["train_loss"] for epoch in logged(log, "train")]
    assert losses == sorted(losses, reverse=True)
    shown = [f"{names[0]}_{word}" for word in WORDS] if classes else names
    written = []
    for size in (8, 1):
        words = f"""{shared} --path {tmp_path}/run/checkpoint_best.pt --valid-subset test
            --batch-size {size} --results-path {tmp_path}/{size}"""
        log = run(fairseq_validate.cli_main, words.split(), monkeypatch)
        rows = tables.rows(tmp_path / f"{size}/predictions_test.csv")
        written.append([[float(row[name]) for name in shown] for row in rows])
    (test,) = logged(log, "test")
    places = {"node": ["node"], "edge": ["source", "target"]}[level]
    columns = [*names, *(f"{n}_target" for n in names), *(shown if classes else [])]
    assert list(rows[0]) == ["row", *places, *columns]
    values, other = map(np.array, written)
    assert values == pytest.approx(other, abs=1e-5)
    graphs = DATASETS["paths"].function().graphs[25:]
    indices = [
        (
            graph.edge_index.T
            if level == "edge"
            else torch.arange(graph.num_nodes)[:, None]
        )
        for graph in graphs
    ]
    found = [[int(row[name]) for name in places] for row in rows]
    assert found == torch.cat(indices).tolist()
    numbers = {"": "nan"} | {word: str(at) for at, word in enumerate(WORDS)}
    cells = [[row[f"{name}_target"] for name in names] for row in rows]
    labels = np.array([[float(numbers.get(x, x)) for x in line] for line in cells])
    store = get_store(DatasetOptions("paths", **options))
    expected = store.labels(store.splits["test"]).astype(float)
    expected[expected < 0] = np.nan  # a missing class is -1
    assert labels == pytest.approx(expected, nan_ok=True)
    predictor = hub.load(tmp_path / "run/checkpoint_best.pt")
    assert predictor.targets == store.targets
    predicted = np.concatenate(predictor.predict(graphs))
    assert predicted == pytest.approx(values, rel=1e-4, abs=1e-5)
    if kind == "regression":
        errors = np.nanmean(np.abs(values - labels), 0)
        metrics = {"mae": errors.mean()}
        if len(names) > 1:
            metrics |= {f"mae_{name}": error for name, error in zip(names, errors)}
    elif kind == "binary":
        metrics = {f.__name__: f(values, labels) for f in (roc_auc, average_precision)}
        metrics["ap"] = metrics.pop("average_precision")
    else:
        known = ~np.isnan(labels[:, 0])
        metrics = {"accuracy": (values.argmax(1) == labels[:, 0])[known].mean()}
        assert metrics["accuracy"] > 0.9
    for name, value in metrics.items():
        assert test[f"test_{name}"] == pytest.approx(value, rel=1e-4, abs=1e-3), name
    if level == "edge":  # both directions have one probability
        pair = {(row["row"], row["source"], row["target"]): row for row in rows}
        for (row, source, target), cells in pair.items():
            assert pair[row, target, source]["same_one"] == cells["same_one"]
        with pytest.raises(ValueError, match="of edges have neither spread"):
            predictor.estimate(graphs)


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
