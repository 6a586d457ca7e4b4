"""TensorBoard's files and examples/plot_training.py show the metrics of a training."""

import io
import logging
import re
import struct
import sys
from functools import partial

import plot_training
import pytest
import tqdm
from fairseq.logging import progress_bar
from fairseq_cli import train as fairseq_train
from PIL import Image
from tensorboardX.proto.event_pb2 import Event

from support.training import train_arguments

PLAIN = """\
2026-01-01 10:00:00 | INFO | train_inner | epoch 001:    2 / 6 loss=1.2, num_updates=2
2026-01-01 10:00:00 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 0.5 \
| mae 9.5 | mae_mu (D) 3 | wps 0 | num_updates 6
2026-01-01 10:00:01 | INFO | train | epoch 001 | loss 1.5 | mae 26 | wps 1344.7 \
| num_updates 6 | lr 0.001 | train_wall 0 | wall 2
epoch 002 | valid on 'valid' subset | loss 0.25 | mae nan | num_updates 12 | best_mae 9
"""
JSON = """\
x | INFO | train_inner | {"epoch": 1, "update": 0.3, "loss": "1.2", "num_updates": "2"}
x | INFO | valid | {"epoch": 1, "valid_loss": "0.5", "valid_mae": "9.5", \
"valid_mae_mu (D)": "3", "valid_num_updates": "6"}
x | INFO | train | {"epoch": 1, "train_loss": "1.5", "train_mae": "26", \
"train_num_updates": "6", "train_lr": "0.001", "train_train_wall": "0"}
{"epoch": 2, "valid_loss": "0.25", "valid_mae": "NaN", "valid_num_updates": "12"}
"""


@pytest.mark.parametrize("text", [PLAIN, JSON, 2 * PLAIN.replace("\n", "\r")])
def test_reads_what_fairseq_prints(text):
    curves = plot_training.read(text)
    assert set(curves) == {"loss", "mae", "mae_mu (D)", "lr"}
    assert curves["mae_mu (D)"] == {"valid": [(6, 3)]}
    assert curves["loss"] == {"valid": [(6, 0.5), (12, 0.25)], "train": [(6, 1.5)]}
    assert curves["mae"]["valid"][0] == (6, 9.5) and len(curves["mae"]["valid"]) == 2
    assert curves["lr"] == {"train": [(6, 0.001)]}


def scalars(folder):
    """Tag -> [(update, value)] of TensorBoard's event files in a folder."""
    curves = {}
    for path in folder.iterdir():
        stream = io.BytesIO(path.read_bytes())
        while head := stream.read(12):  # length, checksum
            event = Event.FromString(stream.read(struct.unpack("<Q", head[:8])[0]))
            stream.read(4)
            for value in event.summary.value:
                curves.setdefault(value.tag, []).append(
                    (event.step, value.simple_value)
                )
    return curves


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.long
def test_curves_of_a_training(data, tmp_path, monkeypatch, capsys, fresh_fairseq):
    text = (data / "molecules.csv").read_text().replace("carbons", "mu/D", 1)
    (tmp_path / "molecules.csv").write_text(text)
    more = ["--target-columns", "length,mu/D", "--max-epoch", 2, "--no-save"]
    more += ["--log-interval", 1, "--log-file", tmp_path / "train.log"]
    more += ["--tensorboard-logdir", tmp_path / "board"]
    words = train_arguments(tmp_path, tmp_path / "save", *more)
    words = [
        word for word in words if word not in ("--no-progress-bar", "--log-format")
    ]
    words.remove("json")
    monkeypatch.setattr(sys, "argv", ["fairseq-train", *words])
    handlers = progress_bar.logger.handlers[:]
    monkeypatch.setattr(progress_bar.logger, "level", logging.INFO)
    progress_bar.logger.manager._clear_cache()
    progress_bar._tensorboard_writers.clear()
    terminal = Terminal()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", terminal)
        patch.setattr("tqdm.tqdm", partial(tqdm.tqdm, mininterval=0))  # every update
        fairseq_train.cli_main()
    progress_bar._close_writers()  # as at the end of a process
    progress_bar._tensorboard_writers.clear()
    for handler in set(progress_bar.logger.handlers) - set(handlers):
        progress_bar.logger.removeHandler(handler)
        handler.close()

    board = {split: scalars(tmp_path / "board" / split) for split in ("train", "valid")}
    errors = {"mae", "mae_length", "mae_mu_D", "rmse", "rmse_length", "rmse_mu_D"}
    assert errors | {"loss", "lr", "gnorm"} < set(board["train"])
    assert errors | {"loss", "best_mae"} < set(board["valid"])
    # The bar: updates done, time spent and left, rate, loss and metrics.
    bar = r"epoch 002: .* \d/6 \[\d\d:\d\d<\d\d:\d\d, +[\d.]+(it/s|s/it), loss=[\d.]+, "
    assert re.search(bar + r"mae=[\d.]+, rmse=[\d.]+, wps=", terminal.getvalue())

    log, out = tmp_path / "train.log", tmp_path / "curves.png"
    monkeypatch.setattr(sys, "argv", ["plot", str(log), str(out)])
    assert plot_training.main() == 0
    assert Image.open(out).size[0] > 1000
    curves = plot_training.read(log.read_text())
    assert set(curves) == errors | {"loss", "lr"}
    for name in ("loss", *errors):
        for split in ("train", "valid"):
            points = [point for pair in board[split][name] for point in pair]
            drawn = [point for pair in curves[name][split] for point in pair]
            assert drawn == pytest.approx(points, rel=1e-4) and len(drawn) == 4
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1] == str(out)
    assert any(line.startswith("mae: ") for line in printed)
