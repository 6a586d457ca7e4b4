"""1, 2 and 4 processes: the same losses, metrics and weights for every system.

All trainings of a number of processes share one process group.
"""

import functools
import importlib.util

import pytest
from fairseq_cli import train as fairseq_train

from support.springs import write_waters
from support.training import (
    TINY,
    assert_same_weights,
    forget,
    logged,
    run,
    train_arguments,
    train_several,
    weights,
    write_molecules,
)

pytestmark = [
    pytest.mark.long,
    pytest.mark.usefixtures("fresh_fairseq"),
    pytest.mark.xdist_group("several processes"),  # share their trainings
]

UPDATES = 10  # two epochs
DDP = {1: "pytorch_ddp", 2: "pytorch_ddp", 4: "legacy_ddp"}
BATCH = 20  # batch of all processes
SIZES = "--encoder-layers 2 --encoder-embed-dim 16"
HEADS = f"{SIZES} --encoder-attention-heads 2 --encoder-ffn-embed-dim 16"
NO_DROPOUT = "--dropout 0 --attention-dropout 0 --act-dropout 0"
TRANSFORMER = f"{HEADS} {NO_DROPOUT}"
FLAG = "--task graph_prediction_with_flag --flag-m 2 --flag-step-size 0.01 --flag-mag 0"
NODES = "--task node_prediction --criterion weighted_cross_entropy "
NODES += "--dataset-name pattern --dataset-source generated:9 --batch-size-valid 1 "
NODES += "--best-checkpoint-metric weighted_accuracy --maximize-best-checkpoint-metric"
# Halves round by 5e-4, and errors of gradients grow with the rate.
FP16 = "--fp16 --fp16-no-flatten-grads --lr 1e-4"
SYSTEMS = {
    "grpe": f"--arch grpe_tiny {TRANSFORMER} --perturb-noise 0.1",
    "graphormer": f"--arch graphormer_paper_slim {TRANSFORMER} "
    f"--node-relation none --node-encodings laplacian:3 {FLAG}",
    "cgt": f"--arch cgt_zinc_rings {TRANSFORMER} --node-encoding-dim 4 {FLAG} "
    "--checkpoint-activations",
    "cgt_nodes": f"--arch cgt_pattern {TRANSFORMER} --node-encoding-dim 4 {NODES}",
    "gt": f"--arch gt_zinc {TRANSFORMER}",
    "gt_full_graph": f"--arch gt_zinc {TRANSFORMER} --full-graph --node-encodings degrees:37:0",
    "pna": f"--arch pna {SIZES} --dropout 0 --towers 4 --virtual-node",
    "gatedgcn": f"--arch gatedgcn {SIZES} --dropout 0 --node-encodings laplacian:3",
    "grpe_fp16": f"--arch grpe_tiny {TRANSFORMER} {FP16}",
    "cgt_fp16": f"--arch cgt_zinc {TRANSFORMER} --node-encoding-dim 4 {FP16}",
    "gt_fp16": f"--arch gt_zinc {TRANSFORMER} {FP16}",
}
if importlib.util.find_spec("ase"):
    SYSTEMS["forces"] = f"--arch grpe_tiny {TRANSFORMER} --task energy_forces "
    SYSTEMS["forces"] += "--criterion energy_forces --force-weight 3 --split random "
    SYSTEMS["forces"] += "--dataset-name DATA/springs.xyz --positions file "
    SYSTEMS["forces"] += "--pair-encodings gaussians --gaussian-node-factor 1"
# Two processes are for fairseq's other implementation of distributed training.
NAMES = {2: ["graphormer", "cgt", *SYSTEMS.keys() & {"forces"}], 4: list(SYSTEMS)}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """97 graphs to train, so that the last update of an epoch has 17; 13 to validate."""
    folder = tmp_path_factory.mktemp("data")
    write_waters(folder / "springs.xyz")
    return write_molecules(folder, "CCO,train,3,200", "C,valid,1,100")


def runs(data, folder, world_size, *more, **systems):
    """Trainings of all systems whose update has the same number of graphs."""
    found = {}
    for name, options in systems.items():
        arguments = train_arguments(data, folder / name)
        place = arguments.index("--arch")
        del arguments[place : place + len(TINY.split())]
        batch = 8 if "nodes" in name else BATCH
        arguments += f"--batch-size {batch // world_size} --batch-size-valid 5".split()
        arguments += f"--max-update {UPDATES} --max-epoch 0 --log-interval 1".split()
        # fairseq's two implementations, which differ in when gradients are summed
        arguments += ["--ddp-backend", DDP[world_size]]
        # Biases in front of a BatchNorm have rounding noise as gradient, which Adam
        # would scale up to steps of --lr.
        arguments += ["--lr", "1e-3", "--adam-eps", "1e-4"]
        arguments += ["--validate-interval", "10", "--no-epoch-checkpoints"]
        words = options.replace("DATA", str(data)).split()
        found[name] = [*arguments, *words, *(str(value) for value in more)]
        if "--dataset-name" in words:
            place = found[name].index("--target-columns")
            del found[name][place : place + 2]
    return found


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    """Function: the names of a group, trained on a number of processes: folder, and
    system -> log."""

    @functools.cache
    def train(group, world_size):
        folder = tmp_path_factory.mktemp(f"{group}_on_{world_size}")
        systems = {name: SYSTEMS[name] for name in NAMES[group]}
        systems = runs(data, folder, world_size, **systems)
        if world_size == 2:  # stopped after an epoch, and resumed
            parts = [*systems["graphormer"], "--save-dir", str(folder / "parts")]
            begun = [*parts, "--max-update", str(UPDATES // 2)]
            systems |= {"begun": begun, "resumed": parts}
        return folder, train_several(systems, world_size, folder / "runs.json")

    return train


@pytest.mark.parametrize(
    "world_size, name",
    [
        pytest.param(size, name, marks=[pytest.mark.slow] if size == 4 else [])
        for size, names in NAMES.items()
        for name in names
    ],
)
def test_losses_and_metrics_are_those_of_one_process(trained, world_size, name):
    error = 1e-3 if "fp16" in name else 1e-5
    logs = [trained(world_size, size)[1][name] for size in (1, world_size)]
    expected, found = (
        [log["loss"] for log in logged(text, "train_inner")] for text in logs
    )
    assert len(found) == UPDATES
    assert found == pytest.approx(expected, rel=error, abs=error)
    (expected,), (found,) = (logged(text, "valid") for text in logs)
    metrics = {
        key
        for key in expected
        if not key.endswith(("wall", "wps", "ups", "wpb", "bsz"))
    }
    assert {"valid_loss"} < metrics
    for key in metrics:
        assert found[key] == pytest.approx(expected[key], rel=error), key


def test_two_processes_resume(trained):
    folder, logs = trained(2, 2)
    whole, resumed = (
        [log["loss"] for log in logged(logs[name], "train_inner")]
        for name in ("graphormer", "resumed")
    )
    assert resumed == whole[UPDATES // 2 :]
    last = "checkpoint_last.pt"
    assert_same_weights(folder / "graphormer" / last, folder / "parts" / last)


def test_update_freq_changes_nothing_without_batchnorm(data, tmp_path, monkeypatch):
    """97 graphs in updates of 24: in the last one, three of four batches are empty."""
    found = []
    for batch_size, update_freq in ((24, 1), (6, 4)):
        forget()
        folder = tmp_path / str(update_freq)
        more = ["--batch-size", batch_size, "--update-freq", update_freq]
        more += ["--max-update", 10]
        (arguments,) = runs(data, folder, 1, *more, grpe=SYSTEMS["grpe"]).values()
        text = run(fairseq_train.cli_main, arguments, monkeypatch)
        found.append([log["loss"] for log in logged(text, "train_inner")])
    assert len(found[0]) == 10
    assert found[1] == pytest.approx(found[0], rel=1e-5, abs=1e-5)


def test_the_metric_is_that_of_the_saved_model(trained, validate):
    """Every process has the statistics that the first one saves."""
    folder, logs = trained(2, 2)
    path = folder / "cgt/checkpoint_best.pt"
    (log,) = logged(logs["cgt"], "valid")
    (alone,) = logged(validate(path), "valid")
    for name in ("valid_loss", "valid_mae"):
        assert alone[name] == pytest.approx(log[name], rel=1e-5)
    saved = weights(path)["extra_state"]["val_loss"]
    assert saved == pytest.approx(log["valid_mae"], rel=1e-5)
