"""Mistakes of a user in one line."""

import logging

import pytest

from graphormer_plugin.cli import command
from graphormer_plugin.compat.one_line_errors import one_line_errors


@pytest.mark.parametrize("level, lines", [(None, 0), ("DEBUG", 1)])
def test_tracebacks_are_for_debugging(level, lines, monkeypatch, caplog):
    """fairseq-validate has the root logger at DEBUG when it reads its arguments."""
    if level:
        monkeypatch.setenv("LOGLEVEL", level)
    with caplog.at_level(logging.DEBUG), pytest.raises(SystemExit), one_line_errors():
        raise ValueError("wrong")
    assert len(caplog.records) == lines


def test_full_memory_names_the_files(tmp_path, monkeypatch, capsys):
    def fail(argv=None):
        raise MemoryError

    path = tmp_path / "large.csv"
    path.touch()
    line = f"error: not enough memory to read or compute {path}: MemoryError\n"
    assert command(fail)(["--quiet", str(path)]) == 2
    assert capsys.readouterr().err == line
    monkeypatch.setattr("sys.argv", ["fairseq-train", str(path)])
    with pytest.raises(SystemExit), one_line_errors():
        fail()
    assert capsys.readouterr().err == f"graphormer_plugin: {line}"
