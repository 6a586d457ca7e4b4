"""fairseq's real commands: train, resume, validate, fp16, bad input.

Training runs in this process, on one core and with data in the main process, unless a
test is about processes: starting Python and fairseq costs more than the training.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fairseq import options
from fairseq.dataclass import utils
from fairseq.logging import metrics
from fairseq_cli import train as fairseq_train
from hydra import experimental

from graphormer_plugin import hub
from support.training import (
    ROOT,
    SMILES,
    TINY,
    assert_same_weights,
    logged,
    losses,
    run,
    train_arguments,
    weights,
)

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("fresh_fairseq")]


# Hydra's composition takes 16 seconds, and fairseq and Hydra are pinned.
@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        "--arch gt_zinc --criterion mse_loss --target-unit 'it\"s' --lr 1e-2 "
        "--lr-scheduler cosine --lr-period-updates 9 --adam-betas '(0.8, 0.9)'",
        "--task graph_prediction_with_flag --flag-m 2 --optimizer adam_l2 --clip-norm 5",
    ],
)
def test_options_are_those_of_hydra(more, data, tmp_path, monkeypatch):
    """All other trainings here have theirs from support/quick_options.py."""
    more = ["--save-dir", tmp_path / "ü, = 'x'", *shlex.split(more)]
    arguments = train_arguments(data, tmp_path, *more)
    monkeypatch.setattr(sys, "argv", ["fairseq-train", *arguments])
    parser = options.get_training_parser()
    arguments = options.parse_args_and_arch(parser)
    quick = utils.convert_namespace_to_omegaconf(arguments)
    for name in ("compose", "initialize"):
        monkeypatch.setattr(utils, name, getattr(experimental, name))
    real = utils.convert_namespace_to_omegaconf(arguments)
    assert real == quick and list(real) == list(quick)


@pytest.mark.slow
def test_options_in_a_file(tmp_path, monkeypatch):
    """The YAML of the page, with its commands: one training, two without a schedule."""
    page = (ROOT / "examples/fairseq_train/README.md").read_text()
    text = page.partition("```yaml\n")[2].partition("```")[0]
    typed = re.findall(r"^```sh\n(fairseq-hydra.*?)```", page, re.DOTALL | re.MULTILINE)
    assert text.count("\n") == 6
    schedule = text[text.index("lr_scheduler") : text.index("optimization")]
    lines = ["smiles,solubility", *(f"{one},{len(one)}" for one in SMILES)]
    (tmp_path / "molecules.csv").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("GRAPHORMER_DATA_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    for command, left_out in zip(typed, ("", schedule), strict=True):
        (tmp_path / "solubility.yaml").write_text(text.replace(left_out, ""))
        command = f"{command.rstrip()} optimization.max_update=2"
        subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)
    jobs = [next(tmp_path.glob(f"multirun/*/*/{job}")) for job in range(2)]
    for folder in (tmp_path, *jobs):
        found = {path.name for path in (folder / "checkpoints").glob("*.pt")}
        assert found == {"checkpoint_best.pt", "checkpoint_last.pt"}
    path = tmp_path / "checkpoints/checkpoint_best.pt"
    assert hub.load(path).model.embed_dim == 80
    assert weights(path)["cfg"]["model"]["encoder_layers"] == 6


def test_a_training_after_another_in_a_process(train, tmp_path):
    """The jobs of fairseq-hydra-train --multirun; the second one learns nothing."""
    logs = [
        logged(
            train(name, "--lr", lr, "--patience", 2, "--tensorboard-logdir", tb),
            "valid",
        )
        for name, lr, tb in (
            ("good", 1e-2, tmp_path / "tb_good"),
            ("bad", 1e-9, tmp_path / "tb_bad"),
        )
    ]
    best = [min(log["valid_mae"] for log in one) for one in logs]
    assert len(logs[1]) == 3 and best[0] < best[1]
    for name, expected in zip(("good", "bad"), best, strict=True):
        state = weights(tmp_path / name / "checkpoint_best.pt")["extra_state"]
        assert state["best"] == pytest.approx(expected, rel=1e-4)
        assert list((tmp_path / f"tb_{name}/valid").iterdir())


def test_resumed_runs_equal_a_run_at_one_go(three_epochs, train, tmp_path):
    folder, log = three_epochs
    whole_train, whole_valid = losses(log)
    assert [log["epoch"] for log in whole_train] == [1, 2, 3]
    assert whole_train[2]["train_mae"] < whole_train[0]["train_mae"]

    # between epochs
    train("parts", "--max-epoch", 2)
    metrics.reset()
    text = train("parts", "--max-epoch", 3)
    resumed_train, resumed_valid = losses(text)
    assert resumed_train == whole_train[2:]
    assert resumed_valid == whole_valid[2:]
    assert_same_weights(folder / "checkpoint3.pt", tmp_path / "parts/checkpoint3.pt")

    # in the middle of the second epoch: 6 updates an epoch
    metrics.reset()
    train("broken", "--max-update", 8)
    metrics.reset()
    state = weights(tmp_path / "broken/checkpoint_last.pt")
    assert state["extra_state"]["train_iterator"]["iterations_in_epoch"] == 2
    resumed_train, resumed_valid = losses(train("broken", "--max-update", 0))
    assert resumed_valid == whole_valid[1:]
    # the meters of the epoch go on where they stopped
    assert resumed_train == [pytest.approx(log, rel=1e-5) for log in whole_train[1:]]
    assert_same_weights(folder / "checkpoint3.pt", tmp_path / "broken/checkpoint3.pt")


@pytest.mark.parametrize(
    "more",
    [
        ["--task", "graph_prediction_with_flag"],
        ["--perturb-noise", 0.2, "--dropout", 0.1],
    ],
    ids=["flag", "noise"],
)
def test_data_workers_and_resuming_change_no_random_numbers(train, more):
    def run_of(name, epochs, workers):
        metrics.reset()
        words = [*more, "--max-epoch", epochs, "--num-workers", workers]
        return losses(train(name, *words))

    whole = run_of("0", 2, 0)
    assert run_of("1", 2, 1) == run_of("2", 2, 2) == whole
    run_of("parts", 1, 1)
    assert run_of("parts", 2, 1) == tuple(logs[1:] for logs in whole)


def test_validate_gives_the_number_of_the_training_run(
    three_epochs, validate, tmp_path, data, monkeypatch
):
    monkeypatch.delenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", raising=False)
    folder, text = three_epochs
    best = min(logged(text, "valid"), key=lambda log: log["valid_mae"])
    checkpoint = folder / "checkpoint_best.pt"
    state = weights(checkpoint)
    assert state["extra_state"]["val_loss"] == pytest.approx(best["valid_mae"], 1e-5)
    assert state["task_state"]["targets"]["names"] == ["length", "carbons"]

    # other batches than in training, from another folder
    monkeypatch.chdir(tmp_path)
    text = validate(checkpoint, "--valid-subset", "valid,test")
    (valid,) = logged(text, "valid")
    (test,) = logged(text, "test")
    for name in ("loss", "mae", "mae_length", "mae_carbons"):
        key = "valid_" + name
        assert valid[key] == pytest.approx(best[key], rel=1e-5)
    per_target = [valid["valid_mae_length"], valid["valid_mae_carbons"]]
    assert valid["valid_mae"] == pytest.approx(sum(per_target) / 2, rel=1e-5)
    assert test["test_mae"] != valid["valid_mae"]

    # other data with the same columns: here the same rows in another order
    header, *rows = (data / "molecules.csv").read_text().splitlines()
    other = tmp_path / "other.csv"
    other.write_text("\n".join([header, *reversed(rows)]) + "\n")
    more = ["--valid-subset", "test", "--dataset-name", str(other)]
    text = validate(checkpoint, *more)
    assert "other data" in text
    assert logged(text, "test")[0]["test_mae"] == pytest.approx(test["test_mae"], 1e-5)


def test_validating_on_the_training_split_leaves_training_alone(
    three_epochs, train, tmp_path
):
    folder, text = three_epochs
    plain = [log["train_loss"] for log in logged(text, "train")][:2]
    text = train("both", "--max-epoch", 2, "--valid-subset", "valid,train")
    trained = [log for log in logged(text, "train") if "train_lr" in log]
    assert [log["train_loss"] for log in trained] == plain
    assert_same_weights(folder / "checkpoint2.pt", tmp_path / "both/checkpoint2.pt")


GRAPHORMER = TINY.replace("grpe_tiny", "graphormer_paper_slim").split()


def test_positions_in_space(train, tmp_path, error):
    (tmp_path / "points.py").write_text("""
import torch
from torch_geometric.data import Data
from graphormer_plugin.data.sources.registry import DatasetSource, register_dataset

@register_dataset("end_to_end_points")
def points():
    graphs = []
    for number in range(30):
        far = 1.0 + number / 10
        graphs.append(Data(
            x=torch.tensor([[0], [1]]),
            edge_index=torch.tensor([[0, 1], [1, 0]]),
            pos=torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0 + far, 3.0]]),
            y=torch.tensor([far]),
        ))
    rows = list(range(30))
    splits = {"train": rows[:24], "valid": rows[24:27], "test": rows[27:]}
    return DatasetSource(graphs=graphs, splits=splits, target_names=["far"])
""")
    more = [*GRAPHORMER, "--pair-encodings", "gaussians", "--gaussian-kernels", 3]
    more += ["--target-columns", ""]
    more += ["--dataset-name", "end_to_end_points", "--user-data-dir", tmp_path]
    # The read-out sees pairs of nodes from the second layer on.
    more += ["--encoder-layers", 2]
    train("run", *more, "--max-epoch", 4)
    # Distances reach the bias: its Gaussians have moved.
    first, last = (
        weights(tmp_path / f"run/checkpoint{name}.pt")["model"][
            "encoder.attn_bias.further.0.encoding.kernels.kernels.centre"
        ]
        for name in ("1", "_last")
    )
    assert (last - first).abs().max() > 1e-4
    with pytest.raises(ValueError, match="how SMILES become"):
        hub.load(tmp_path / "run/checkpoint_last.pt").predict(["CC"])
    line = error(train, "flat", *GRAPHORMER, "--pair-encodings", "gaussians")
    assert "positions of atoms, which these graphs do not have" in line


def test_message_passing_up_to_a_prediction(data, validate, tmp_path, monkeypatch):
    """PNA's degrees are those of the training split, and come with the weights."""
    arguments = train_arguments(data, tmp_path / "pna")
    place, preset = arguments.index("--arch"), TINY.split()
    model = "--arch pna --encoder-layers 2 --encoder-embed-dim 16 --towers 4"
    arguments[place : place + len(preset)] = [*model.split(), "--virtual-node"]
    arguments += [*FLAG.split(), "--fp16", "--fp16-no-flatten-grads"]
    text = run(fairseq_train.cli_main, arguments, monkeypatch)
    train_log = logged(text, "train")
    assert train_log[-1]["train_mae"] < train_log[0]["train_mae"]
    path = tmp_path / "pna/checkpoint_last.pt"
    name = "encoder.layers.0.convolution.mean_log_degree"
    delta = weights(path)["model"][name].item()
    assert 0.9 < delta < 1.1  # chains, with degrees 1 and 2: log 2, log 3
    metrics.reset()
    assert len(logged(validate(path), "valid")) == 1
    predictor = hub.load(path)
    assert predictor.model.state_dict()[name].item() == pytest.approx(delta)
    together = predictor.predict([*SMILES[:20], "C"])  # and a graph without edges
    alone = predictor.predict(SMILES[:1])
    assert np.isfinite(together).all()
    assert together[:1] == pytest.approx(alone, rel=1e-3)


FLAG = "--task graph_prediction_with_flag --criterion l1_loss_with_flag --flag-m 2"


def test_bfloat16_trains_without_a_tpu(three_epochs, train):
    plain = logged(three_epochs[1], "train")
    halves = logged(train("half", "--bf16"), "train")
    assert len(plain) == 3
    for half, whole in zip(halves, plain, strict=True):
        assert half["train_loss"] == pytest.approx(whole["train_loss"], rel=0.05)
        assert half["train_loss"] != whole["train_loss"]


GT = "--arch gt_zinc --encoder-layers 2 --encoder-embed-dim 16 "
GT += "--encoder-attention-heads 2 --batch-size 32"


def test_a_plateau_is_as_long_in_a_resumed_training(train, tmp_path, fresh_fairseq):
    more = "--lr-scheduler reduce_lr_on_plateau --lr-shrink 0.5 --lr-patience 1 "
    more += "--lr-threshold 10 --lr 1e-3 --stop-min-lr 2e-4"
    words = [*GT.split(), "--node-encodings", "none", *more.split()]
    at_once = logged(train("whole", *words, "--max-epoch", 20), "train")
    parts = [logged(train("parts", *words, "--max-epoch", n), "train") for n in (1, 20)]
    rates = [log["train_lr"] for log in at_once]
    assert rates == [1e-3] * 2 + [5e-4] * 2 + [2.5e-4] * 2
    assert [log["train_lr"] for part in parts for log in part] == rates
    # Its end by --stop-min-lr is an end, too.
    last = tmp_path / "parts/checkpoint_last.pt"
    before = last.stat().st_mtime_ns
    assert logged(train("parts", *words, "--max-epoch", 30), "train") == []
    assert last.stat().st_mtime_ns == before
