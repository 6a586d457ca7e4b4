"""Wrong arguments of the commands beside fairseq's, and streams that do not take all."""

import contextlib
import io
import os
import subprocess
import sys

import pytest

from graphormer_plugin.cli import (
    command,
    compare,
    convert,
    explain,
    next,
    predict,
    preprocess,
    print_line,
    train,
)

COMMANDS = [compare, convert, explain, next, predict, preprocess, train]
NAMES = [module.__name__.rpartition(".")[2] for module in COMMANDS]


ANSWERS = """
import sys
from graphormer_plugin.cli import {0}
for words in sys.argv[1:]:
    try:
        code = {0}.main(words.split())
    except SystemExit as stop:
        code = stop.code
    print("code", code, "torch" in sys.modules)
"""
WITHOUT_FILE = {
    "next": ["no.pt no.csv out.csv"],
    "predict": ["no.pt no.csv out.csv"],
    "preprocess": ["--dataset-name no.csv"],
    "train": ["no.csv"],
}


@pytest.mark.long  # starts processes
@pytest.mark.parametrize("name", NAMES)
def test_an_answer_imports_no_torch(name, tmp_path):
    """It takes three times as long as the rest."""
    more = WITHOUT_FILE.get(name, [])
    line = [sys.executable, "-c", ANSWERS.format(name), "--help", "--typo", *more]
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path)
    codes = [line for line in done.stdout.splitlines() if line.startswith("code ")]
    assert codes == ["code 0 False", *["code 2 False"] * (1 + len(more))], done.stderr
    assert not more or "no.csv" in done.stderr.splitlines()[-1]


def test_any_exception_is_one_line(capsys):
    @command
    def main(argv):
        return {}["missing"]

    assert main([]) == 2
    assert "KeyError: 'missing'; --debug shows where" in capsys.readouterr().err
    with pytest.raises(KeyError):
        main(["--debug"])


def test_processes_import_nothing_from_the_current_folder(tmp_path, monkeypatch):
    """Such as those that read SMILES, which multiprocessing starts with `python -c`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    monkeypatch.setattr(sys, "argv", ["graphormer-preprocess"])
    (tmp_path / "selectors.py").write_text("print('it ran')")
    start = [sys.executable, "-c", "import selectors"]

    @command
    def main(arguments):
        print(subprocess.run(start, capture_output=True, text=True).stdout)

    for argv, ran in (([], True), (None, False)):  # in another program, and alone
        with contextlib.redirect_stdout(io.StringIO()) as output:
            assert main(argv) == 0
        assert ("it ran" in output.getvalue()) == ran


def test_a_terminal_that_lacks_a_character():
    out, err = (io.TextIOWrapper(io.BytesIO(), "ascii") for _ in range(2))

    @command
    def main(argv):
        print_line("1 ± 2 µM")
        raise ValueError("no ±")

    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        assert main([]) == 2
    err.flush()
    assert out.buffer.getvalue() == b"1 \\xb1 2 \\xb5M\n"
    assert err.buffer.getvalue() == b"error: no \\xb1\n"


@pytest.fixture(params=["No space left on device", "Broken pipe"])
def unwritable(request):
    """A stream, and the reason that it gives."""
    path = "/dev/full"
    if request.param == "Broken pipe":
        end, path = os.pipe()
        os.close(end)
    with open(path, "w") as stream:
        yield stream, request.param


def test_standard_output_that_cannot_be_written(unwritable, capsys):
    stream, reason = unwritable
    done = []

    @command
    def main(argv):
        for line in ("a", "b"):
            print_line(line)
            done.append(line)

    with contextlib.redirect_stdout(stream):
        assert main([]) == 0 and done == ["a", "b"]
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: standard output") and line.endswith(reason)


def test_standard_error_that_cannot_be_written(unwritable):
    @command
    def main(argv):
        raise ValueError("wrong")

    with contextlib.redirect_stderr(unwritable[0]):
        assert main([]) == 2
