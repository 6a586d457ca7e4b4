"""examples/plot_training.py reads the metrics of a training; its page draws them."""

import plot_training
import pytest

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
