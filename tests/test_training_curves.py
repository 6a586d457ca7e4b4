"""TensorBoard's files and examples/plot_training.py show what a training reaches."""

import io
import logging
import re
import struct
import sys
from functools import partial
from pathlib import Path

import plot_training
import pytest
import tqdm
from fairseq.logging import metrics, progress_bar
from fairseq_cli import train as fairseq_train
from PIL import Image

ROOT = Path(__file__).parents[1]
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
"valid_mae_mu (D)": "3", \
"valid_num_updates": "6"}
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
    from tensorboardX.proto.event_pb2 import Event

    found = {}
    for path in folder.iterdir():
        stream = io.BytesIO(path.read_bytes())
        while head := stream.read(12):  # length, checksum
            event = Event.FromString(stream.read(struct.unpack("<Q", head[:8])[0]))
            stream.read(4)
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.long
def test_curves_of_a_training(tmp_path, monkeypatch, capsys):
    rows = "\n".join(f"{'C' * (i % 9 + 1)}O,{i},{i % 7}" for i in range(60))
    (tmp_path / "alcohols.csv").write_text(f"smiles,gap,mu/D\n{rows}\n")
    arguments = f"""--user-dir {ROOT}/graphormer_plugin --task graph_prediction
        --dataset-name {tmp_path}/alcohols.csv --data-root {tmp_path}
        --target-columns gap,mu/D --prepare-workers 1 --num-workers 0
        --criterion l1_loss --optimizer adam --arch grpe_tiny
        --encoder-layers 1 --encoder-embed-dim 16
        --batch-size 16 --max-epoch 2 --no-save --save-dir {tmp_path}/save --cpu
        --log-interval 1 --log-file {tmp_path}/train.log
        --tensorboard-logdir {tmp_path}/board"""
    monkeypatch.setattr(sys, "argv", ["fairseq-train", *arguments.split()])
    handlers = progress_bar.logger.handlers[:]
    monkeypatch.setattr(progress_bar.logger, "level", logging.INFO)
    progress_bar.logger.manager._clear_cache()
    metrics.reset()
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

    assert {"train", "train_inner", "valid"} == {
        path.name for path in (tmp_path / "board").iterdir()
    }
    board = {split: scalars(tmp_path / "board" / split) for split in ("train", "valid")}
    errors = {"mae", "mae_gap", "mae_mu_D", "rmse", "rmse_gap", "rmse_mu_D"}
    speed = {"wps", "ups", "wpb", "bsz", "train_wall", "wall"}
    text = {"sys.argv/text_summary"}
    train = errors | speed | text | {"loss", "lr", "gnorm"}
    valid = errors | text | {"loss", "best_loss", "wps", "wpb", "bsz"}
    assert {split: set(tags) for split, tags in board.items()} == {
        "train": train,
        "valid": valid,
    }
    # The bar: updates done, time spent and left, rate, loss and metrics.
    bar = (
        r"epoch 002: .* [12]/3 \[\d\d:\d\d<\d\d:\d\d, +[\d.]+(it/s|s/it), loss=[\d.]+, "
    )
    assert re.search(bar + r"mae=[\d.]+, rmse=[\d.]+, wps=", terminal.getvalue())

    out = tmp_path / "curves.png"
    log = str(tmp_path / "train.log")
    monkeypatch.setattr(sys, "argv", ["plot", log, str(out)])
    assert plot_training.main() == 0
    assert Image.open(out).size[0] > 1000
    curves = plot_training.read(Path(log).read_text())
    assert set(curves) == errors | {"loss", "lr"}
    for name in ("loss", *errors):
        for split in ("train", "valid"):
            points = [point for pair in board[split][name] for point in pair]
            drawn = [point for pair in curves[name][split] for point in pair]
            assert drawn == pytest.approx(points, rel=1e-4) and len(drawn) == 4
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1] == str(out)
    assert any(line.startswith("mae: ") for line in printed)
