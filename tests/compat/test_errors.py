"""Mistakes of a user in one line."""

import logging

import pytest

from graphormer_plugin.compat.errors import one_line_errors


@pytest.mark.parametrize("level, lines", [(None, 0), ("DEBUG", 1)])
def test_tracebacks_are_for_debugging(level, lines, monkeypatch, caplog):
    """fairseq-validate has the root logger at DEBUG when it reads its arguments."""
    if level:
        monkeypatch.setenv("LOGLEVEL", level)
    with caplog.at_level(logging.DEBUG), pytest.raises(SystemExit), one_line_errors():
        raise ValueError("wrong")
    assert len(caplog.records) == lines
