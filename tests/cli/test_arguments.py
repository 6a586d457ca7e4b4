"""Wrong arguments of the commands beside fairseq's, and streams that do not take all."""

import io
import os
import sys

import pytest
from tqdm import tqdm

from graphormer_plugin.cli import (
    command,
    convert,
    explain,
    predict,
    preprocess,
    say,
    train,
)

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


@pytest.mark.parametrize(
    "module, arguments, name",
    [
        (convert, ["--info", ""], "IN"),
        (explain, ["", "C", "x.svg"], "CKPT"),
        (predict, ["", "in.csv", "out.csv"], "CKPT"),
        (predict, ["model.pt", "", "out.csv"], "INPUT.csv"),
        (train, [""], "TABLE"),
    ],
)
def test_an_empty_argument(module, arguments, name, capsys):
    """It would be the current folder."""
    with pytest.raises(SystemExit, match="2"):
        module.main(arguments)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: argument {name}: it is empty, expected a name; ")


def test_a_terminal_that_lacks_a_character(monkeypatch):
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.TextIOWrapper(io.BytesIO(), "ascii"))

    @command
    def main(argv):
        say("1 ± 2 µM")
        raise ValueError("no ±")

    assert main([]) == 2
    sys.stderr.flush()
    assert sys.stdout.buffer.getvalue() == b"1 \\xb1 2 \\xb5M\n"
    assert sys.stderr.buffer.getvalue() == b"error: no \\xb1\n"


def test_closed_streams(monkeypatch, capfd):
    """A progress bar writes to standard error."""
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)

    @command
    def main(argv):
        say("lost")
        return sum(tqdm([1, 2]))

    assert main([]) == 3
    for stream in (sys.stdout, sys.stderr):
        assert stream.name == os.devnull
        stream.close()
    assert capfd.readouterr() == ("", "")


@pytest.fixture(params=["full", "closed pipe"])
def unwritable(request):
    """A stream, and what it says."""
    if request.param == "full":
        stream, reason = open("/dev/full", "w"), "No space left on device"
    else:
        end, start = os.pipe()
        os.close(end)
        stream, reason = open(start, "w"), "Broken pipe"
    with stream:
        yield stream, reason


def test_standard_output_that_cannot_be_written(unwritable, monkeypatch, capsys):
    stream, reason = unwritable
    monkeypatch.setattr(sys, "stdout", stream)
    done = []

    @command
    def main(argv):
        for line in ("a", "b"):
            say(line)
            done.append(line)

    assert main([]) == 0 and done == ["a", "b"]
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        f"warning: standard output cannot be written, its lines are lost: {reason}"
    )


def test_standard_error_that_cannot_be_written(unwritable, monkeypatch):
    monkeypatch.setattr(sys, "stderr", unwritable[0])

    @command
    def main(argv):
        raise ValueError("wrong")

    assert main([]) == 2
