"""Settings of an experiment, and the folder that it claims."""

import os

import pytest

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.experiment.settings import (
    FINETUNE,
    SCRATCH,
    SETTINGS_FILE,
    TRAININGS,
    Settings,
    claim,
    parse_ratios,
)


def test_names_that_are_not_utf_8():
    for names in (["a\udce9.csv", "out"], ["a.csv", "out\udce9"]):
        with pytest.raises(ValueError, match="utf-8.*udce9"):
            Settings(*names)


def test_options_of_a_training():
    settings = Settings("a.csv", "out", epochs=3, lr=0.5)
    training = settings.training(FINETUNE)
    assert (training.epochs, training.lr) == (3, 0.5)
    assert training.lr_decay == TRAININGS[FINETUNE].lr_decay
    assert Settings("a.csv", "out").training(SCRATCH) == TRAININGS[SCRATCH]


def test_ratios():
    assert parse_ratios("80,10,10") == (0.8, 0.1, 0.1)
    assert parse_ratios("3, 1,1") == (0.6, 0.2, 0.2)
    for text in ("80,20", "a,b,c", "1,0,1", "nan,1,1", "1e308,1e308,1e308", ""):
        with pytest.raises(DatasetError, match="expected three numbers above 0"):
            parse_ratios(text)


SAME = {"seed": 1, "ratios": (0.8, 0.1, 0.1)}
OTHER = "another experiment: "


@pytest.mark.parametrize(
    "change, message",
    [
        ({"seed": 2}, OTHER + "seed was 1, now 2; name a new folder"),
        ({"lr": "high"}, OTHER + 'lr was null, now "high"'),
        ({"missing_labels": ("ND",)}, r'missing_labels was null, now \["ND"\]'),
        ({"sha256": "cd"}, "the table is another file, or has changed;"),
        ({"start_sha256": None}, "the pre-trained model is another"),
        ({"valid_sha256": "cd"}, "--valid-file is another file"),
    ],
)
def test_a_folder_belongs_to_one_experiment(tmp_path, change, message):
    digests = {"sha256": "ab", "start_sha256": "ab"}
    for _ in range(2):
        claim(tmp_path / "model", SAME | digests)
    with pytest.raises(DatasetError, match=message):
        claim(tmp_path / "model", SAME | digests | change)


@pytest.mark.parametrize("damaged", [b"{", b"[1]", b"3", b"\xff", b"[" * 200_000])
def test_a_folder_that_cannot_be_claimed(tmp_path, damaged):
    with pytest.raises(FileExistsError):
        (tmp_path / "file").touch()
        claim(tmp_path / "file", SAME)
    with pytest.raises(DatasetError, match="holds other files"):
        claim(tmp_path, SAME)
    (tmp_path / "settings.json").write_bytes(damaged)
    with pytest.raises(DatasetError, match="settings.json is damaged"):
        claim(tmp_path, SAME)


def test_settings_that_are_a_pipe(tmp_path):
    """Reading it would never end."""
    os.mkfifo(tmp_path / SETTINGS_FILE)
    with pytest.raises(OSError, match=f"not a regular file: '.*{SETTINGS_FILE}'"):
        claim(tmp_path, {})
