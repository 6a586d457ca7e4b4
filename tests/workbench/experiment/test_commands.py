"""Lines of fairseq-train, their process and its log."""

import argparse
import dataclasses
import os
import shlex
import sys

import numpy as np
import pytest

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.files import write_csv
from graphormer_plugin.data.sources.csv_file import read_labels
from graphormer_plugin.data.tables.formats import open_table
from graphormer_plugin.data.tables.options import DatasetOptions
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.workbench.experiment import training
from graphormer_plugin.workbench.experiment.experiment import ModelRun
from graphormer_plugin.workbench.experiment.settings import FINETUNE, SCRATCH, TRAININGS
from graphormer_plugin.workbench.experiment.training import fairseq_arguments
from support.labelled_molecules import experiment_of, molecules_of
from support.training import forked

LABELS = np.arange(12.0)[:, None] % 2 + np.zeros(2)
SPLIT = dict(zip(("train", "valid", "test"), np.split(np.arange(12), [8, 10])))


def line(model=FINETUNE, targets=None, settings=None, **trial):
    """Options of fairseq-train for a model of an experiment."""
    table = molecules_of(LABELS, names=["y one", "z"])
    table = dataclasses.replace(table, targets=targets or table.targets)
    experiment = experiment_of(table, [SPLIT], model=model, **(settings or {}))
    searched = dataclasses.replace(TRAININGS[model], epochs=10, **trial)
    start = None if model == SCRATCH else experiment.start
    experiment = dataclasses.replace(experiment, tuned_training=searched, start=start)
    return fairseq_arguments(experiment, ModelRun(0, model))


def test_line():
    options = line(settings={"target_unit": "eV"}, frozen=0.5, dropout=0.2)
    assert (
        options
        | {
            "target_columns": "y one,z",
            "target_unit": "eV",
            "smiles_column": "smiles",
            "split": "rows:replicate1/split.json",
            "finetune_from_model": "/a b/start.pt",
            "arch": "grpe_tiny",
            "freeze_encoder_layers": 6,
            "layerwise_lr_decay": 0.9,
            "act_dropout": 0.2,
            "total_num_update": 10,
            # Otherwise batches of 30 would be cut to 24, and the rate be 0 before the end.
            "required_batch_size_multiple": 1,
            "criterion": "mse_loss",
            "num_workers": 0,
        }
        == options
    )
    assert not options.keys() & {"cpu", "class_weights", "target_kind"}
    binary = TargetSchema.of(["y", "z"], kind="binary")
    options = line(SCRATCH, binary, {"device": "cpu"}, lr_decay=0.9)
    assert (options["arch"], options["criterion"]) == ("grpe_small", "binary_logloss")
    assert options["cpu"] and options["maximize_best_checkpoint_metric"]
    assert "layerwise_lr_decay" not in options
    options = line(SCRATCH, settings={"arch": "gat"}, dropout=0.2)
    assert options["dropout"] == options["attention_dropout"] == 0.2
    assert "act_dropout" not in options


def test_line_of_classes():
    weighted = {"weight_column": "w", "class_weights": "balanced"}
    weighted["largest_fragment"] = True
    taste = TargetSchema.of(["taste"], kind="multiclass").with_classes(
        [["a", "b", "c"]]
    )
    options = line(targets=taste, settings=weighted)
    assert (
        options
        | {
            **weighted,
            "criterion": "multiclass_cross_entropy",
            "class_names": "a,b,c",
            "best_checkpoint_metric": "accuracy",
            "maximize_best_checkpoint_metric": True,
        }
        == options
    )
    # Targets with words of their own have their order by meaning.
    own = TargetSchema.of(["y", "z"], kind="binary").with_classes([["no", "yes"], []])
    assert "class_names" not in line(targets=own)
    assert line(targets=own, settings={"class_names": "b,a"})["class_names"] == "b,a"


def test_names_that_look_like_flags_or_lists(tmp_path):
    """The line means the column, and no other."""
    names = ["-logKow", "logS, [mol/L]", 'a "b", c']
    path = tmp_path / "molecules.csv"
    columns = ["smiles", "logS; [mol/L]", *names, "split1"]
    write_csv(path, [columns, *[("C", 1, 2, 3, 4, "train")] * 3])
    options = line(targets=TargetSchema.of(names), settings={"target_unit": "-x"})
    parser = argparse.ArgumentParser()
    for flag in ("--target-columns", "--target-unit"):
        parser.add_argument(flag)
    parsed, _ = parser.parse_known_args(training.flag_words(options))
    assert parsed.target_unit == "-x"
    asked = DatasetOptions(str(path), target_columns=parsed.target_columns)
    assert read_labels(open_table(path), asked).source.target_names == names


def test_script(tmp_path):
    """Nothing says where it was written, and its words are those that run."""
    options = line(settings={"device": "cpu", "target_unit": "/h"})
    text = training.shell_lines([options], tmp_path / "model", ["one"])
    assert "\n# one\nPLUGIN=$(python -m graphormer_plugin --path)\n" in text
    words = shlex.split(text.partition("\nfairseq-train ")[2].replace("\\\n", ""))
    start = words[words.index("--finetune-from-model") + 1]
    assert not os.path.isabs(start)
    assert os.path.normpath(tmp_path / "model" / start) == "/a b/start.pt"
    known = {"$PLUGIN": str(options["user_dir"]), start: "/a b/start.pt"}
    words = [known.get(word, word) for word in words]
    assert words == training.flag_words(options)
    assert "PLUGIN" not in training.shell_lines([], tmp_path)


def test_the_metric_that_selects():
    table = molecules_of(np.arange(12.0)[:, None] % 2, kind="binary")
    for valid, name in {(8, 9): "roc_auc", (9, 11): "loss"}.items():
        splits = [SPLIT | {"valid": np.array(valid)}]
        assert experiment_of(table, splits).metric(0) == name


def test_a_training_ends_with_its_parent():
    """The parent may have the number 1, for example in a container."""

    def ending(parent):
        child = forked(training._end_with, parent)
        child.join()
        return child.exitcode

    assert ending(os.getpid()) == 0
    assert ending(os.getppid()) == 1  # another parent: the own one has died


LOG = """INFO | train_inner | {"epoch": 1, "loss": "3", "train_wall": "2"}
INFO | train | {"epoch": 1, "train_loss": "2", "train_num_updates": "3"}
INFO | valid | {"epoch": 1, "valid_loss": "1.5", "valid_num_updates": "3"}
INFO | train | {"epoch": 2, "train_loss": "1", "train_num_updates": "6"}
INFO | train | {"epoch": 2, "train_loss": "0.9", "train_num_updates": "6"}
INFO | train | {"epoch": 3, "train_lo
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Function: run a training that prints a text; returns the epochs that it reports."""

    def run(text, code=0):
        program = f"print({text!r}, end=''); raise SystemExit({code})"
        monkeypatch.setattr(training, "PROGRAM", [sys.executable, "-c", program])
        epochs = []
        training.run_training(tmp_path, {"save_dir": "model"}, epochs.append)
        return epochs

    return run


def test_epochs_and_curves(run, tmp_path):
    assert run(LOG) == [1, 2, 2]
    log = tmp_path / "model/train.log"
    assert log.read_text() == LOG
    curves = training.read_curves(log)
    assert curves["loss", "train"] == {3.0: 2.0, 6.0: 0.9}
    assert curves["loss", "valid"] == {3.0: 1.5}
    assert training.read_curves(tmp_path / "none.log") == {}


def test_a_torn_log_is_read(tmp_path):
    """Cut off anywhere by a kill, with the lines of the next run after that."""
    log, whole = tmp_path / "train.log", LOG.encode()
    log.write_bytes(whole)
    expected = training.read_curves(log)
    for size in range(len(whole)):
        log.write_bytes(whole[:size] + whole)
        assert training.read_curves(log) == expected


def test_nothing_in_the_folder_is_imported(tmp_path, monkeypatch):
    for name in ("numbers.py", "fairseq_cli.py"):
        (tmp_path / name).write_text("raise SystemExit('error: it ran')")
    program = [*training.PROGRAM[:-2], "-c", "import numbers, fairseq_cli"]
    monkeypatch.setattr(training, "PROGRAM", program)
    training.run_training(tmp_path, {"save_dir": "model"}, print)


@pytest.mark.parametrize(
    "log, reason",
    [
        ("INFO | x\nplugin: error: no such file\nbye\n", "no such file"),
        ("Traceback\nRuntimeError: bad thing\n", "RuntimeError: bad thing"),
        ("Traceback\nhydra.errors.ParseException: bad\nSee", "ParseException: bad"),
        ("", "fairseq-train ended with exit code 3"),
    ],
)
def test_reason_of_a_failure(run, log, reason):
    with pytest.raises(DatasetError, match=f"^{reason}; see .*model/train.log$"):
        run(log, 3)
