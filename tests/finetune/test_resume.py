"""Resuming a training with other options than it began with."""

import pytest

from support.training import trained_once

pytestmark = pytest.mark.usefixtures("fresh_fairseq")


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    trained_once(data, folder, "--max-epoch", 1)
    return folder


@pytest.mark.parametrize(
    "other, message",
    [
        ("--target-columns length", "targets there 2: length, carbons, here 1: length"),
        ("--descriptors", "joined.weight: none there"),
        ("--max-hop 3", "--max-hop 3 (there --max-hop 5)"),
        ("--no-virtual-node", "--no-virtual-node (there no --no-virtual-node)"),
        ("--head-layers 2", "--head-layers 2 (there --head-layers 0)"),
        ("--node-table-size 512", "--node-table-size 512 (there --node-table-size 0)"),
        ("--encoder-layers 2", "--encoder-layers 2 (there --encoder-layers 1)"),
        ("--optimizer adam_l2", "--optimizer adam_l2 (there adam)"),
        (
            "--lr-scheduler polynomial_decay --total-num-update 100",
            "--lr-scheduler polynomial_decay (there fixed)",
        ),
        ("--lr-scheduler reduce_lr_on_plateau", "(there fixed); resume with the same"),
        ("--criterion mse_loss", "--criterion mse_loss (there l1_loss)"),
    ],
)
def test_what_has_to_agree_is_one_line(other, message, finished, train, error):
    line = error(train, finished, "--max-epoch", 2, *other.split())
    assert message in line and "checkpoint_last.pt" in line and len(line) < 500


def test_what_may_differ(finished, train, tmp_path):
    """Rates of dropout, and with --reset-optimizer the optimiser and its schedule."""
    (tmp_path / "run").mkdir()
    last = (finished / "checkpoint_last.pt").read_bytes()
    (tmp_path / "run/checkpoint_last.pt").write_bytes(last)
    other = (
        "--optimizer adamw --lr-scheduler inverse_sqrt --warmup-updates 5 --dropout 0.3"
    )
    text = train("run", "--max-epoch", 2, "--reset-optimizer", *other.split())
    assert "--dropout 0.3 (there --dropout 0.1)" in text and "| train |" in text
