"""Fine-tuning through fairseq's real commands."""

import pytest
import torch
from fairseq.logging import metrics

from graphormer_plugin.data import DATASETS
from support.training import (
    logged,
    train_arguments,
    train_on_two_processes,
    trained_once,
    weights,
)

pytestmark = pytest.mark.usefixtures("fresh_fairseq")

ROWS = "encoder.node_encoder.embedding.weight"
PLAIN = "--dropout 0 --attention-dropout 0 --encoder-layers 2".split()


@pytest.fixture(scope="module")
def first(data, tmp_path_factory):
    """Checkpoint of a run with one target."""
    folder = tmp_path_factory.mktemp("first")
    trained_once(data, folder, *PLAIN, "--max-epoch", 1, "--target-columns", "length")
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def rings(tmp_path_factory):
    """Folder with a dataset of other node and bond columns: rings of 3 to 32 nodes."""
    folder = tmp_path_factory.mktemp("rings")
    (folder / "cycles.py").write_text("""
import torch
from torch_geometric.data import Data
from graphormer_plugin.data.sources.registry import DatasetSource, register_dataset

@register_dataset("cycles")
def cycles():
    graphs = []
    for length in range(3, 33):
        nodes = torch.arange(length)
        pairs = torch.stack([nodes, (nodes + 1) % length])
        graphs.append(Data(
            x=torch.full((length, 2), length % 3),
            edge_index=torch.cat([pairs, pairs.flip(0)], dim=1),
            edge_attr=torch.zeros(2 * length, 3, dtype=torch.long) + length % 2,
            y=torch.tensor([[float(length), 1.0 + length % 5]]),
        ))
    rows = list(range(30))
    splits = {"train": rows[:24], "valid": rows[24:27], "test": rows[27:]}
    return DatasetSource(graphs=graphs, splits=splits, target_names=["length", "rest"])
""")
    yield folder
    DATASETS.pop("cycles", None)


def on_rings(rings, checkpoint):
    return [*PLAIN, "--dataset-name", "cycles", "--target-columns", "",
            "--user-data-dir", rings, "--finetune-from-model", checkpoint]  # fmt: skip


def test_another_dataset_with_other_columns_and_targets(train, first, rings, tmp_path):
    log = train("tuned", *on_rings(rings, first), "--max-epoch", 2, "--lr", 1e-9)
    assert "re-initialised (targets there 1: length, here 2: length, rest)" in log
    assert f"mapped by vocabulary: {ROWS}" in log
    source, tuned = (
        weights(path)["model"]
        for path in (first, tmp_path / "tuned/checkpoint_last.pt")
    )
    # x is 0..2: values of the first column, then of the second.
    assert tuned[ROWS].shape[0] == 6
    assert torch.allclose(tuned[ROWS][:3], source[ROWS][:3], atol=1e-6)
    assert torch.allclose(tuned[ROWS][3:], source[ROWS][119:122], atol=1e-6)
    assert tuned["head.weight"].shape == (2, 16)

    # Resuming takes the run's own weights as they are.
    metrics.reset()
    log = train("tuned", *on_rings(rings, first), "--max-epoch", 3, "--lr", 1e-9)
    assert [line["epoch"] for line in logged(log, "train")] == [3]
    assert "mapped" not in log and "re-initialised" not in log
    again = weights(tmp_path / "tuned/checkpoint_last.pt")["model"]
    assert tuned and tuned.keys() == again.keys()
    for name, value in tuned.items():
        assert torch.allclose(again[name], value, atol=1e-6), name


def test_options_of_the_first_run_are_taken_over(train, validate, tmp_path):
    train("first", *PLAIN, "--max-epoch", 1, "--max-hop", 3, "--node-table-size", 200)
    for epoch in (1, 2):  # the second resumes
        metrics.reset()
        log = train(
            "tuned",
            *PLAIN,
            *("--max-epoch", epoch, "--split", "random"),
            *("--finetune-from-model", tmp_path / "first/checkpoint1.pt"),
        )
        assert "--max-hop 3, --node-table-size 200" in log
    checkpoint = tmp_path / "tuned/checkpoint2.pt"
    assert weights(checkpoint)["model"][ROWS].shape[0] == 9 * 200
    wanted = logged(log, "valid")[0]["valid_mae"]
    log = validate(checkpoint, "--valid-subset", "valid")
    assert logged(log, "valid")[0]["valid_mae"] == pytest.approx(wanted, rel=1e-5)


def test_two_processes(data, train, first, rings, tmp_path):
    more = [*on_rings(rings, first), "--max-epoch", 2, "--batch-size", 8]
    more += ["--freeze-encoder-layers", 1, "--layerwise-lr-decay", 0.9]
    log = train_on_two_processes(*train_arguments(data, tmp_path / "two", *more))
    assert "mapped by vocabulary" in log
    assert len(logged(log, "train")) == 2
    # fairseq stops when the processes' gradients, and so their weights, differ.
    source, tuned = (
        weights(path)["model"] for path in (first, tmp_path / "two/checkpoint_last.pt")
    )
    assert torch.equal(tuned[ROWS][:3], source[ROWS][:3])
    frozen = [name for name in tuned if name.startswith("encoder.layers.0.")]
    assert frozen and all(torch.equal(tuned[n], source[n]) for n in frozen)


def moved(before, after):
    """Largest change of every weight."""
    before, after = weights(before)["model"], weights(after)["model"]
    return {name: (after[name] - before[name]).abs().max().item() for name in before}


@pytest.mark.parametrize("half", [[], ["--fp16", "--fp16-no-flatten-grads"]])
def test_layers_take_smaller_steps_below(train, tmp_path, half):
    """Adam's first step is the learning rate in every weight with a gradient."""
    common = [*PLAIN, "--layerwise-lr-decay", 0.5, *half]
    for name, rate in [("still", 1e-12), ("step", 1e-2)]:
        metrics.reset()
        train(name, *common, "--max-update", 1, "--lr", rate)
    change = moved(*(tmp_path / n / "checkpoint_last.pt" for n in ("still", "step")))
    wanted = {
        "head.weight": 1e-2,
        "encoder.final_norm.weight": 1e-2,
        "encoder.layers.1.fc1.weight": 5e-3,
        "encoder.layers.0.fc1.weight": 2.5e-3,
        "encoder.virtual_node.embedding.weight": 1.25e-3,
    }
    # Embeddings start from N(0, 1): in half precision those above 2 move by 2^-9.
    rounding = 2**-10 if half else 0
    for name, size in wanted.items():
        slack = max(0.05 * size, rounding * (name == ROWS))
        assert change[name] == pytest.approx(size, abs=slack), name

    # Checkpoints of such runs are ordinary ones.
    state = weights(tmp_path / "step/checkpoint_last.pt")["last_optimizer_state"]
    (group,) = state["param_groups"]
    assert group["lr"] == 1e-2
    metrics.reset()
    log = train("step", *PLAIN, *half, "--max-epoch", 1)
    assert len(logged(log, "train")) == 1
