"""Small trainings through fairseq's own commands, in this process or in two others.

Its fixtures are known everywhere: conftest.py loads this module as a plugin.
"""

import atexit
import functools
import io
import json
import logging
import multiprocessing
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch
from fairseq.logging import metrics
from fairseq_cli import train as fairseq_train
from fairseq_cli import validate as fairseq_validate

import graphormer_plugin.tasks  # noqa: F401  (for the user's folders of some tests)
from graphormer_plugin.workbench.experiment import training
from support import recipe_server
from support.quick_options import quicken

# Seconds until a process counts as hanging: longer than any takes on a busy machine.
PATIENCE = 3600
ROOT = Path(__file__).parents[2]
USER_DIR = str(ROOT / "graphormer_plugin")
TINY = "--arch grpe_tiny --encoder-layers 1 --encoder-embed-dim 16 "
TINY += "--encoder-ffn-embed-dim 16 --encoder-attention-heads 2"
STARTS = "C CC OCC NCC ClCC CC(=O)OC N#CC c1ccccc1C BrCC FCC C1CCC1C O=C(N)C".split()
SMILES = [start + "C" * k for start in STARTS for k in range(10)]


quicken()


@pytest.fixture
def error(capfd):
    """Function that calls what exits with code 2; the last line, its only error."""

    def line(function, *arguments, **options):
        capfd.readouterr()
        with pytest.raises(SystemExit, match="2"):
            function(*arguments, **options)
        *before, line = capfd.readouterr().err.splitlines()
        assert line.startswith("graphormer_plugin: error: ")
        assert not [text for text in before if "error:" in text or "Traceback" in text]
        return line

    return line


def forget():
    """fairseq keeps all meters in the process."""
    metrics.reset()


@pytest.fixture
def fresh_fairseq():
    forget()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def write_molecules(folder, *more):
    """120 molecules: 96 to train, 12 to validate, 12 to test; two targets; more lines."""
    lines = ["smiles,split,length,carbons"]
    for row, smiles in enumerate(SMILES):
        split = {8: "valid", 9: "test"}.get(row % 10, "train")
        carbons = "" if row % 6 == 1 else str(100 * smiles.upper().count("C"))
        lines.append(f"{smiles},{split},{len(smiles)},{carbons}")
    (folder / "molecules.csv").write_text("\n".join([*lines, *more]) + "\n")
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_molecules(tmp_path_factory.mktemp("data"))


def train_arguments(data, save_dir, *more):
    arguments = f"""
        --user-dir {USER_DIR} --task graph_prediction --criterion l1_loss {TINY}
        --dataset-name {data}/molecules.csv --target-columns length,carbons
        --data-root {data} --prepare-workers 1 --num-workers 0
        --optimizer adam --lr 1e-2 --batch-size 16 --required-batch-size-multiple 1
        --max-epoch 3 --save-dir {save_dir} --best-checkpoint-metric mae
        --log-format json --no-progress-bar --cpu
    """
    return [*arguments.split(), *(str(value) for value in more)]


def logged(text, tag):
    """The json lines of a split in fairseq's log."""
    lines = re.findall(rf"\| {tag} \| (\{{.*\}})", text)
    return [
        {key: float(value) for key, value in json.loads(line).items()} for line in lines
    ]


def run(main, arguments, monkeypatch):
    """Run a command of fairseq in this process and return its log.

    Listens to the loggers themselves: fairseq-validate takes the handlers off the root.
    """
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("| %(name)s | %(message)s"))
    names = ["fairseq.logging.progress_bar", "graphormer_plugin"]
    levels = {logging.getLogger(name): logging.getLogger(name).level for name in names}
    for logger in levels:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    monkeypatch.setattr(sys, "argv", ["fairseq", *arguments])
    try:
        main()
    finally:
        for logger, level in levels.items():
            logger.removeHandler(handler)
            logger.setLevel(level)
    return stream.getvalue()


def run_once(main, arguments):
    """Log of a command of fairseq, for a fixture of a module."""
    forget()
    with pytest.MonkeyPatch.context() as patch:
        return run(main, arguments, patch)


def trained_once(data, save_dir, *more):
    """Log of a training for a fixture of a module; no test may change its checkpoints."""
    return run_once(fairseq_train.cli_main, train_arguments(data, save_dir, *more))


@pytest.fixture(scope="module")
def three_epochs(data, tmp_path_factory):
    """Folder and log of `train` at one go, three epochs."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    return folder, trained_once(data, folder)


@pytest.fixture
def train(data, tmp_path, monkeypatch):
    def run_training(name, *more):
        arguments = train_arguments(data, tmp_path / name, *more)
        return run(fairseq_train.cli_main, arguments, monkeypatch)

    return run_training


@pytest.fixture
def validate(data, monkeypatch):
    def run_validation(path, *more):
        # the shortest command: fairseq itself demands the task and a batch size
        arguments = ["--user-dir", USER_DIR, "--task", "graph_prediction"]
        arguments += ["--data-root", str(data)]
        arguments += ["--batch-size", "5", "--path", str(path), *more]
        arguments += ["--log-format", "json", "--num-workers", "0"]
        return run(fairseq_validate.cli_main, arguments, monkeypatch)

    return run_validation


def losses(text):
    """What a run says about its epochs, without times."""
    keys = ("epoch", "train_loss", "train_mae", "train_gnorm", "train_num_updates")
    train_log = [{key: log[key] for key in keys} for log in logged(text, "train")]
    keys = ("epoch", "valid_loss", "valid_mae", "valid_mae_length")
    return train_log, [{key: log[key] for key in keys} for log in logged(text, "valid")]


def weights(path):
    """Safe loading: nothing but tensors, numbers, strings and containers."""
    return torch.load(path, weights_only=True)


def assert_same_weights(one, two):
    one, two = weights(one)["model"], weights(two)["model"]
    assert one.keys() == two.keys()
    for name in one:
        assert torch.equal(one[name], two[name]), name


# Before the first test: what tests change in their process is not in its forks.
SERVER = recipe_server.start()


@pytest.fixture(scope="module")
def quick():
    """Trainings of an experiment run in forks of the server; their environment."""
    environment = server_environment()
    python = shutil.which("python", path=environment["PATH"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "PROGRAM", [python, "-m", "fairseq_cli.train"])
        patch.setattr(training, "ENVIRONMENT", environment)
        yield environment


@functools.cache
def server_environment():
    """Environment in which commands run in forks of one process that has all imports."""
    # Python 3.13 lets go of a TemporaryDirectory in every fork, which would remove it.
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    bin = Path(folder, "bin")
    recipe_server.shims(bin)
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    found = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ":".join(paths)}
    found |= {"PYTHONWARNINGS": "ignore", "SHIMS": str(bin)}
    found.pop("PYTHONSAFEPATH", None)  # set by a command of fairseq in this process
    found |= {"RECIPE_SERVER": str(SERVER), "PATH": f"{bin}:{os.environ['PATH']}"}
    return found


def command(*arguments, cwd=None, **more):
    """A started `python`, whose standard output and error come together; more variables."""
    environment = {**server_environment(), **more}
    python = shutil.which("python", path=environment["PATH"])
    streams = {"stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen([python, *arguments], cwd=cwd, env=environment, **streams)


def forked(function, *arguments):
    """A started copy of this process, which has all imports and runs a function."""
    context = multiprocessing.get_context("fork")
    process = context.Process(target=function, args=arguments)
    process.start()
    return process


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def meeting_place():
    """Flag with a file at which processes meet; a port could be taken meanwhile."""
    return f"--distributed-init-method file://{tempfile.mkdtemp()}/meet"


def on_two_processes(*arguments):
    """Output of the first of two processes of a command of fairseq on the CPU."""
    distributed = "--ddp-backend legacy_ddp --cpu --distributed-no-spawn "
    distributed += f"--distributed-world-size 2 {meeting_place()}"
    both = ["-m", *arguments, *distributed.split()]
    processes = [command(*both, "--distributed-rank", str(rank)) for rank in (0, 1)]
    outputs = [process.communicate(timeout=PATIENCE)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs[0]
    return outputs[0]


def train_on_two_processes(*arguments):
    return on_two_processes("fairseq_cli.train", *arguments)


def train_several(runs, world_size, path):
    """Logs of several trainings, one after another in one group of processes.

    Args:
        runs: name -> arguments of fairseq-train.
        world_size: number of processes.
        path: of a file to write.

    Returns:
        Name -> what was logged.
    """
    path.write_text(json.dumps(runs))
    script = Path(__file__).with_name("run_several.py")
    words = [str(world_size), *meeting_place().split(), path]
    processes = [command(script, str(rank), *words) for rank in range(world_size)]
    outputs = [process.communicate(timeout=PATIENCE)[0] for process in processes]
    assert not any(process.returncode for process in processes), "\n".join(outputs)
    return json.loads(Path(f"{path}.{world_size}").read_text())
