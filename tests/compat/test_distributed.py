"""Several processes on CPUs by the usual lines: the same numbers as with one."""

import functools
import sys

import pytest
from fairseq.distributed import utils
from omegaconf import OmegaConf
from torch import multiprocessing

from graphormer_plugin.compat import distributed
from support.training import (
    PATIENCE,
    command,
    free_port,
    losses,
    train_arguments,
    trained_once,
)

pytestmark = pytest.mark.usefixtures("fresh_fairseq")
NO_DROPOUT = "--dropout 0 --attention-dropout 0 --act-dropout 0 --max-epoch 2".split()


@pytest.fixture(scope="module")
def alone(data, tmp_path_factory):
    """Losses and metrics of one process."""
    return losses(trained_once(data, tmp_path_factory.mktemp("one"), *NO_DROPOUT))


def words(data, folder, *more):
    arguments = train_arguments(data, folder, *NO_DROPOUT, "--batch-size", 8, *more)
    return ["-m", "fairseq_cli.train", *arguments]


def assert_same(text, expected):
    for found, logs in zip(losses(text), expected, strict=True):
        assert found == [pytest.approx(log, rel=1e-5) for log in logs]


@pytest.mark.long
def test_torchrun_needs_no_flag(data, tmp_path, alone):
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    both = [
        command(*words(data, tmp_path), RANK=rank, WORLD_SIZE="2", **address)
        for rank in "01"
    ]
    texts = [process.communicate(timeout=PATIENCE)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], texts
    assert_same(texts[0], alone)


FORKING = """
import functools
from fairseq_cli import train
from torch import multiprocessing
start = multiprocessing.start_processes
multiprocessing.spawn = functools.partial(start, start_method="fork")
train.cli_main()
"""  # a spawn imports everything


@pytest.mark.long
def test_fairseq_starts_them_itself(data, tmp_path, alone):
    more = ["--distributed-world-size", 2]
    process = command("-c", FORKING, *words(data, tmp_path, *more)[2:])
    text = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 0, text
    assert_same(text, alone)


def options(**group):
    group = {
        "distributed_init_method": None,
        "distributed_world_size": 2,
        "distributed_backend": "nccl",
        "distributed_no_spawn": False,
        "distributed_rank": 0,
    } | group
    return OmegaConf.create(
        {"common": {"cpu": True, "tpu": False}, "distributed_training": group}
    )


def fail(*_):
    print("error: a line", file=sys.stderr)
    raise SystemExit(2)


def test_a_line_of_a_process_ends_the_command(capfd, monkeypatch):
    forks = functools.partial(multiprocessing.start_processes, start_method="fork")
    monkeypatch.setattr(multiprocessing, "spawn", forks)  # a spawn imports everything
    monkeypatch.setattr(utils, "distributed_main", fail)
    with pytest.raises(SystemExit) as end:
        distributed.call_main(options(), print)
    assert end.value.code == 2
    assert "error: a line" in capfd.readouterr().err


def test_a_process_that_is_killed_is_no_line(monkeypatch):
    def killed(*_, **__):
        raise multiprocessing.ProcessExitedException("", 0, 1, -9, "SIGKILL")

    monkeypatch.setattr(distributed, "_fairseq_call_main", killed)
    with pytest.raises(multiprocessing.ProcessExitedException):
        distributed.call_main(options(distributed_no_spawn=True), print)


@pytest.mark.parametrize(
    "group, backend",
    [
        ({"distributed_no_spawn": True}, "gloo"),
        ({"distributed_no_spawn": True, "distributed_backend": "mpi"}, "mpi"),
        ({"distributed_world_size": 1}, "nccl"),
    ],
)
def test_processes_started_by_hand_or_by_slurm(group, backend, monkeypatch):
    seen = []
    monkeypatch.setattr(
        distributed, "_fairseq_call_main", lambda cfg, main, **_: seen.append(cfg)
    )
    distributed.call_main(options(**group), print)
    (cfg,) = seen
    assert cfg.distributed_training.distributed_backend == backend
