"""kill -9 at moments of writing: the same command finishes, and nothing differs.

A moment is half of a write, or before or after a file is synchronised or gets its name.
"""

import builtins
import io
import os
import signal
import sys

import pytest
from fairseq_cli import train as fairseq_train

from graphormer_plugin.cli import predict, preprocess, train
from graphormer_plugin.inference.checkpoint import read_file
from support.training import TINY, train_arguments, write_molecules

KILLS = 5
TRAINING = [*TINY.split(), "--max-epoch", "2", "--save-interval-updates", "4"]


def training(data, out):
    sys.argv = ["", *train_arguments(data, out / "run", *TRAINING)]
    fairseq_train.cli_main()


def preparation(data, out):
    command = f"--dataset-name {data}/molecules.csv --target-columns length --quiet"
    command += f" --descriptors --workers 0 --data-root {out}"
    assert preprocess.main(command.split()) == 0


def prediction(data, out):
    command = f"{data}/run/checkpoint_best.pt {data}/molecules.csv {out}/out.csv"
    command += " --quiet"
    assert predict.main(command.split()) == 0


def experiment(data, out):
    os.chdir(out)  # the report names the folder
    command = f"{data}/molecules.csv --target-columns length --out model --quiet"
    command += f" --model head --start {data}/run/checkpoint_best.pt --trees 3"
    assert train.main(command.split()) == 0


class Moments:
    """Kills this process at the n-th moment of writing in a folder."""

    def __init__(self, folder, n):
        self.folder, self.n, self.count, self.open = str(folder), n, 0, builtins.open
        builtins.open = self.opened
        os.fsync, os.replace = self.around(os.fsync), self.around(os.replace)

    def is_over(self):
        self.count += 1
        return self.count == self.n

    def passes(self):
        if self.is_over():
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, function):
        def aimed(*arguments, **options):
            self.passes()
            result = function(*arguments, **options)
            self.passes()
            return result

        return aimed

    def opened(self, path, mode="r", *arguments, **options):
        file = self.open(path, mode, *arguments, **options)
        ours = str(path).startswith(self.folder) and set(mode) & set("wa+")
        return AimedFile(file, self) if ours else file


class AimedFile:
    """A file of whose write, at the moment of the kill, half of the bytes are on disk."""

    def __init__(self, file, moments):
        self.file, self.moments = file, moments

    def write(self, content):
        if self.moments.is_over():
            text = isinstance(self.file, io.TextIOBase)
            half = memoryview(content.encode() if text else content).cast("B")
            os.write(self.file.fileno(), half[: half.nbytes // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return self.file.write(content)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def __getattr__(self, name):
        return getattr(self.file, name)


def run(job, data, out, n=0):
    """Exit status of a job in a fork, and its number of moments."""
    out.mkdir(exist_ok=True)
    receive, send = os.pipe()
    if not (child := os.fork()):
        code = 1
        try:
            moments = Moments(out, n)
            job(data, out)
            os.write(send, str(moments.count).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(send)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with open(receive, "rb") as pipe:
        return status, int(pipe.read() or 0)


def result(out):
    """Content of the files, without locks and leftovers; what a checkpoint has learned."""
    found = {}
    for path in sorted(out.rglob("*")):
        name = str(path.relative_to(out))
        if path.suffix == ".pt":
            state = read_file(path, mmap=False)
            found[name] = repr((state["model"], state.get("last_optimizer_state")))
        elif path.is_file() and path.name[0] != "." and path.suffix != ".log":
            found[name] = path.read_bytes()
    return found


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = write_molecules(tmp_path_factory.mktemp("data"))
    assert run(training, folder, folder)[0] == 0
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("job", [training, preparation, prediction, experiment])
def test_nothing_is_lost(job, data, tmp_path):
    status, moments = run(job, data, tmp_path / "whole")
    assert status == 0 and moments > KILLS
    expected = result(tmp_path / "whole")
    for kill in range(KILLS):
        out = tmp_path / f"kill{kill}"
        moment = 1 + moments * (2 * kill + 1) // (2 * KILLS)
        assert run(job, data, out, moment)[0] == -signal.SIGKILL
        assert run(job, data, out)[0] == 0
        found = result(out)
        assert found.keys() == expected.keys()
        for name, content in found.items():
            assert content == expected[name], (moment, name)
