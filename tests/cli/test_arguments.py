"""Wrong arguments of the commands beside fairseq's."""

import pytest

from graphormer_plugin.cli import convert, explain, predict, preprocess, train

COMMANDS = [convert, explain, predict, preprocess, train]


@pytest.mark.parametrize("module", COMMANDS, ids=lambda one: one.__name__)
@pytest.mark.parametrize(
    "arguments", [[], ["a", "b", "c", "--dataset-name=x", "--typo"]]
)
def test_a_wrong_argument_is_one_line(module, arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        module.main(arguments)
    assert stop.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and line.endswith("; --help lists the options")
