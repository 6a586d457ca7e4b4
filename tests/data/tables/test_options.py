"""Options of tables, from which flags of all commands are made."""

import dataclasses

from graphormer_plugin.cli import preprocess, train
from graphormer_plugin.data.tables.options import (
    DatasetConfig,
    DatasetOptions,
    TableOptions,
    flag_of,
)
from graphormer_plugin.workbench.experiment.settings import Settings

NAMES = [one.name for one in dataclasses.fields(TableOptions)]


def test_each_option_is_a_flag_of_each_command():
    config = {one.name for one in dataclasses.fields(DatasetConfig)}
    assert {*NAMES} - config == {"seed"}
    # graphormer-train always reads the canonical SMILES.
    for command, absent in ((train, ["canonical_smiles"]), (preprocess, [])):
        text = command.build_parser().format_help()
        assert [name for name in NAMES if flag_of(name) not in text] == absent


def test_none_and_text_become_values():
    options = DatasetOptions(target_columns="a, b", split=None, missing_labels=["ND"])
    assert options.target_columns == ("a", "b") and options.split == ""
    assert options.missing_labels == ("ND",)
    assert Settings("a.csv", "out", class_names="no,yes").class_names == ("no", "yes")
