"""Settings of an experiment, and the folder that it claims."""

import pytest

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.workbench.experiment.settings import (
    FINETUNE,
    SCRATCH,
    TRAININGS,
    Settings,
    claim,
    parse_ratios,
)


def test_options_of_a_training():
    given = {"epochs": 3, "lr": 0.5}
    asked = Settings("a.csv", "out", **given, ensemble=2, descriptors=True, trials=1)
    training = asked.training(FINETUNE)
    assert (training.epochs, training.lr) == (3, 0.5)
    assert training.lr_decay == TRAININGS[FINETUNE].lr_decay
    flags = {"--epochs", "--lr", "--ensemble", "--descriptors", "--trials"}
    assert {*asked.training_flags} == flags
    assert Settings("a.csv", "out").training(SCRATCH) == TRAININGS[SCRATCH]


def test_ratios():
    assert parse_ratios("80,10,10") == (0.8, 0.1, 0.1)
    assert parse_ratios("3, 1,1") == (0.6, 0.2, 0.2)
    for text in ("80,20", "a,b,c", "1,0,1", "nan,1,1", "1e308,1e308,1e308", ""):
        with pytest.raises(DatasetError, match="expected three numbers above 0"):
            parse_ratios(text)


GIVEN = {"seed": 1, "ratios": (0.8, 0.1, 0.1), "sha256": "ab", "start_sha256": "ab"}


@pytest.mark.parametrize(
    "change, message",
    [
        ({"seed": 2}, "seed was 1, now 2; name a new folder with --out"),
        ({"lr": "high"}, 'lr was null, now "high"'),
        ({"missing_labels": ("ND",)}, r'missing_labels was null, now \["ND"\]'),
        ({"sha256": "cd"}, "the table is another file, or has changed;"),
        ({"start_sha256": None}, "the pre-trained model is another file, or has"),
        ({"valid_sha256": "cd"}, "--valid-file is another file, or has changed"),
    ],
)
def test_a_folder_belongs_to_one_experiment(tmp_path, change, message):
    for _ in range(2):
        claim(tmp_path / "model", GIVEN)
    with pytest.raises(DatasetError, match=f"another experiment: {message}"):
        claim(tmp_path / "model", GIVEN | change)


def test_a_folder_that_cannot_be_claimed(tmp_path):
    (tmp_path / "settings.json").write_bytes(b"{")
    with pytest.raises(DatasetError, match="settings.json is damaged"):
        claim(tmp_path, GIVEN)
