"""What a whole run of fairseq lacks, repeats or would select wrongly, in one line."""

import logging

import pytest
from fairseq.criterions import FairseqCriterion
from fairseq.dataclass.configs import CommonConfig
from fairseq_cli import train as fairseq_train
from omegaconf import OmegaConf

from graphormer_plugin.inference.checkpoint import Progress, read_checkpoint
from graphormer_plugin.inference.pretrained import Pretrained
from graphormer_plugin.tasks._run import (
    check_common,
    check_criterion,
    settle_metric,
    why_finished,
)
from support.training import logged


def test_amp_without_a_gpu_has_no_effect(caplog):
    check_common(OmegaConf.structured(CommonConfig(amp=True, cpu=True)))
    assert "--amp has no effect without a GPU" in caplog.text


# ------------------------------------------------------- a finished training


def files(folder):
    """Content and time of every file."""
    return {one: (one.read_bytes(), one.stat().st_mtime_ns) for one in folder.iterdir()}


@pytest.mark.parametrize(
    "limit, reason",
    [
        (("--max-update", 4), "4 updates, --max-update 4"),
        (("--max-epoch", 1), "1 epochs, --max-epoch 1"),
        (("--patience", 1, "--lr", 0), "1 validations without a better metric"),
    ],
)
def test_a_finished_training_changes_nothing(
    train, tmp_path, limit, reason, caplog, fresh_fairseq
):
    train("run", *limit)
    before = files(tmp_path / "run")
    fairseq_train.should_stop_early.num_runs = 0  # as in a new process
    with pytest.raises(SystemExit) as stop, caplog.at_level(logging.INFO):
        train("run", *limit)
    assert stop.value.code == 0
    assert f"this training is finished ({reason}" in caplog.text
    assert files(tmp_path / "run") == before


def options(**changes):
    optimization = {"max_update": 0, "max_epoch": 0, "stop_time_hours": 0}
    checkpoint = {"patience": -1, "reset_optimizer": False, "reset_dataloader": False}
    for name, value in changes.items():
        (optimization if name in optimization else checkpoint)[name] = value
    return OmegaConf.create({"optimization": optimization, "checkpoint": checkpoint})


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({}, ""),
        ({"max_update": 101, "max_epoch": 6, "stop_time_hours": 3, "patience": 3}, ""),
        ({"max_update": 100}, "100 updates, --max-update 100"),
        ({"max_update": 100, "reset_optimizer": True}, ""),
        (
            {"max_update": 100, "reset_dataloader": True},
            "100 updates, --max-update 100",
        ),
        ({"max_epoch": 5}, "5 epochs, --max-epoch 5"),
        ({"max_epoch": 5, "reset_dataloader": True}, ""),
        ({"stop_time_hours": 1.5}, "2.00 hours, --stop-time-hours 1.5"),
        ({"patience": 2}, "2 validations without a better metric, --patience 2"),
    ],
)
def test_limits(changes, expected):
    start = Pretrained("last.pt", None, None, {}, progress=Progress(100, 6, 2.0, 2))
    assert why_finished(options(**changes), start) == expected


# ------------------------------------------------- the metric of the best checkpoint


def test_a_metric_that_should_rise(data, tmp_path, train, fresh_fairseq):
    path = tmp_path / "classes.csv"
    lines = "".join(f"{'C' * n},{n % 2}\n" for n in range(1, 31))
    path.write_text("smiles,y\n" + lines)
    train(
        "run",
        *("--dataset-name", path, "--target-columns", "y", "--target-kind", "binary"),
        *("--criterion", "binary_logloss", "--best-checkpoint-metric", "accuracy"),
        *("--max-epoch", 1, "--lr-scheduler", "reduce_lr_on_plateau"),
    )
    saved = read_checkpoint(tmp_path / "run" / "checkpoint_last.pt").state["cfg"]
    for group in ("checkpoint", "lr_scheduler"):
        assert saved[group]["maximize_best_checkpoint_metric"] is True


@pytest.mark.parametrize(
    "metric, message",
    [
        (
            ["roc_auc"],
            "--best-checkpoint-metric roc_auc: l1_loss has loss, mae, mae_length, "
            "mae_carbons, rmse, rmse_length, rmse_carbons, nrmse",
        ),
        (["mae", "--maximize-best-checkpoint-metric"], "mae is better when it is"),
    ],
)
def test_a_metric_that_cannot_be_meant(train, tmp_path, error, metric, message):
    assert message in error(train, "run", "--best-checkpoint-metric", *metric)
    assert not list((tmp_path / "run").glob("*.pt"))


def test_a_known_metric_selects_the_best_checkpoint(train, tmp_path, fresh_fairseq):
    log = train("run", "--best-checkpoint-metric", "mae_length", "--max-epoch", 2)
    values = [epoch["valid_mae_length"] for epoch in logged(log, "valid")]
    saved = read_checkpoint(tmp_path / "run" / "checkpoint_best.pt").state
    best = saved["extra_state"]["best"]
    assert len(values) == 2 and best == pytest.approx(min(values), abs=1e-3)


def test_a_criterion_of_another_kind(tmp_path):
    """It may train; what the task asks a `GraphCriterion` for is not asked of it."""

    class Mine(FairseqCriterion):
        pass

    criterion = Mine(None)
    check_criterion(criterion, "mine", None)
    settle_metric(options(best_checkpoint_metric="mine"), criterion)
    with pytest.raises(ValueError, match="--criterion mine is not a GraphCriterion"):
        check_criterion(criterion, "mine", str(tmp_path))
