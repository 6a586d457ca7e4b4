"""Lines of fairseq-train and their logs."""

import argparse
import os
from pathlib import Path

import numpy as np

from graphormer_plugin.data.options import names_of
from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.data.table_formats import open_table
from graphormer_plugin.experiment.scores import MAIN
from graphormer_plugin.experiment.settings import Settings, Training
from graphormer_plugin.experiment.training import (
    Start,
    _end_with,
    read_curves,
    reason_of,
    selecting_metric,
    shell_lines,
    training_line,
)
from support.training import forked

START = Start(
    ("--finetune-from-model", "/a b/start.pt"), Path("start.pt"), "grpe_tiny", 12
)


def line(start=START, settings=None, kind="regression", targets=None, **training):
    options = {"lr": 1e-3, "epochs": 10, "patience": 5, **training}
    unit = "" if kind == "binary" else "eV"
    return training_line(
        settings or Settings("a.csv", "out"),
        Training(**options),
        targets or TargetSchema(["y one", "z"], unit, kind),
        start=start,
        molecules="molecules.csv",
        split_column="split1",
        train_rows=65,
        metric=MAIN[kind],
        seed=7,
        save_dir="replicate1/finetune1",
    )


def value(words, flag):
    texts = [word.partition("=")[2] for word in words if word.startswith(f"{flag}=")]
    return texts[0] if texts else words[words.index(flag) + 1]


def test_line():
    words = line(frozen=0.5, lr_decay=0.9, dropout=0.2)
    assert value(words, "--target-columns") == "y one,z"
    assert value(words, "--smiles-column") == "smiles"
    assert value(words, "--finetune-from-model") == "/a b/start.pt"
    assert value(words, "--arch") == "grpe_tiny"
    assert value(words, "--freeze-encoder-layers") == "6"
    assert value(words, "--layerwise-lr-decay") == "0.9"
    assert value(words, "--act-dropout") == "0.2"
    assert value(words, "--total-num-update") == "30"
    # Otherwise batches of 30 would be cut to 24, and the rate be 0 before the end.
    assert value(words, "--required-batch-size-multiple") == "1"
    assert value(words, "--target-unit") == "eV" and "--cpu" not in words
    words = line(None, Settings("a.csv", "out", device="cpu"), "binary", lr_decay=0.9)
    assert value(words, "--arch") == "grpe_small" and "--cpu" in words
    assert "--layerwise-lr-decay" not in words
    assert "--maximize-best-checkpoint-metric" in words
    assert value(words, "--criterion") == "binary_logloss"


def test_dropout_of_models_that_have_few_kinds():
    words = line(None, Settings("a.csv", "out", arch="gat"), dropout=0.2)
    assert value(words, "--dropout") == value(words, "--attention-dropout") == "0.2"
    assert "--act-dropout" not in words


def test_names_that_look_like_flags_or_lists(tmp_path):
    """The line means the column, and no other."""
    names = ["-logKow", "logS, [mol/L]"]
    path = tmp_path / "molecules.csv"
    path.write_text('smiles,-logKow,logS; m,"logS, [mol/L]",split1\nC,1,2,3,train\n')
    words = line(targets=TargetSchema(names, "-x"))
    parser = argparse.ArgumentParser()
    for flag in ("--target-columns", "--target-unit"):
        parser.add_argument(flag)
    parsed, _ = parser.parse_known_args(words)
    assert parsed.target_unit == "-x"
    asked = names_of(parsed.target_columns, "target_columns")
    assert open_table(path).select(asked, ["smiles", "split1"]) == names


def test_a_training_ends_with_its_parent():
    """Also if that has the number 1, as in a container."""

    def ending(parent):
        child = forked(_end_with, parent)
        child.join()
        return child.exitcode

    assert ending(os.getpid()) == 0
    assert ending(os.getppid()) == 1  # another parent: the own one has died


def test_line_of_classes():
    settings = Settings(
        "a.csv",
        "out",
        weight_column="w",
        class_weights="balanced",
        largest_fragment=True,
    )
    taste = TargetSchema(["taste"], kind="multiclass").with_classes([["a", "b", "c"]])
    words = line(None, settings, "multiclass", taste)
    assert value(words, "--criterion") == "multiclass_cross_entropy"
    assert value(words, "--class-names") == "a,b,c"
    assert value(words, "--class-weights") == "balanced"
    assert value(words, "--weight-column") == "w" and "--largest-fragment" in words
    assert value(words, "--best-checkpoint-metric") == "accuracy"
    assert "--maximize-best-checkpoint-metric" in words
    # Targets with words of their own have their order by meaning.
    own = TargetSchema(["y", "z"], kind="binary").with_classes([["no", "yes"], []])
    assert "--class-names" not in line(None, None, "binary", own)
    words = line(None, Settings("a.csv", "out", class_names=("b", "a")), "binary", own)
    assert value(words, "--class-names") == "b,a"


def test_script():
    text = shell_lines([line(), line(None)])
    assert text.count("\nfairseq-train \\\n    --user-dir /") == 2
    assert " \\\n    '--target-columns=y one,z' \\\n" in text
    assert "'/a b/start.pt'" in text


def test_the_metric_that_selects():
    targets = TargetSchema(["y"], kind="binary")
    assert selecting_metric(targets, np.array([[0.0], [1.0]])).name == "roc_auc"
    assert selecting_metric(targets, np.array([[1.0], [1.0]])).name == "loss"


def test_reason_of_a_failure():
    log = "INFO | x\ngraphormer_plugin: error: no such file\nbye\n"
    assert reason_of(log, 2) == "no such file"
    assert reason_of("Traceback\nRuntimeError: bad thing\n", 1) == (
        "RuntimeError: bad thing"
    )
    log = "Traceback\nhydra.errors.OverrideParseException: bad override\nSee a page\n"
    assert reason_of(log, 1) == "OverrideParseException: bad override"
    assert reason_of("", -9) == "fairseq-train ended with exit code -9"


def test_curves(tmp_path):
    log = tmp_path / "train.log"
    log.write_text(
        '... | {"epoch": 1, "train_loss": "2", "train_num_updates": "3"}\n'
        '... | {"epoch": 1, "valid_loss": "1.5", "valid_num_updates": "3"}\n'
        '... | {"epoch": 2, "train_loss": "1", "train_num_updates": "6"}\n'
        '... | {"epoch": 2, "train_loss": "0.9", "train_num_updates": "6"}\n'
        "killed\n"
    )
    assert read_curves(log)["loss"] == {
        "train": [(3.0, 2.0), (6.0, 0.9)],
        "valid": [(3.0, 1.5)],
    }
