"""Runs the Python commands of shell scripts in forks of one process that has all imports.

Importing torch and fairseq takes several seconds, and there are many recipes and pages.
The server is itself a fork of the process of the tests, made before the first test. The
folder that `shims` fills goes in front of PATH; its commands send their arguments and
environment to this server and print what comes back.
"""

import base64
import ctypes
import functools
import gc
import importlib
import logging
import os
import runpy
import signal
import socketserver
import sys
import tomllib
import traceback
import warnings
from pathlib import Path

import graphormer_plugin
from support.quick_options import warm_up

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
# What a command calls; `python` runs a file, a module, or code.
COMMANDS = {
    "fairseq-train": "fairseq_cli.train:cli_main",
    "fairseq-validate": "fairseq_cli.validate:cli_main",
    "torchrun": "torch.distributed.run:main",
    **tomllib.loads(PYPROJECT.read_text())["project"]["scripts"],
}
# Optimisers import the first.
NEEDED = (
    """torch._dynamo graphormer_plugin.hub graphormer_plugin.workbench.experiment.run
    graphormer_plugin.cli._explanation graphormer_plugin.sklearn sklearn.ensemble
    sklearn.model_selection torch_geometric.datasets""".split()
)
SHIM = r"""#!/usr/bin/env bash
exec 3<> "/dev/tcp/127.0.0.1/$RECIPE_SERVER"
{ printf '%s\0' "${0##*/}" "$PWD" "$#" "$@"; env -0; } | base64 | tr -d '\n' >&3
echo >&3
status=1
while IFS= read -r line <&3; do
    if [[ $line == "exit status "* ]]; then status="${line##* }"; else echo "$line"; fi
done
exit "$status"
"""


def shims(folder: Path) -> None:
    folder.mkdir()
    for name in ("python", *COMMANDS):
        path = folder / name
        path.write_text(SHIM)
        path.chmod(0o755)


def execute(name: str, arguments: list[str]) -> int:
    """Exit status of the command; its output goes to descriptors 1 and 2."""
    try:
        if name in COMMANDS:
            module, _, function = COMMANDS[name].partition(":")
            sys.argv = [name, *arguments]
            return getattr(importlib.import_module(module), function)() or 0
        sys.path.insert(0, "")
        if arguments[0] == "-m":
            sys.argv = arguments[1:]
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        elif arguments[0] == "-c":
            sys.argv = ["-c", *arguments[2:]]
            exec(arguments[1], {"__name__": "__main__"})
        else:
            sys.argv = arguments
            sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
            runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


class Command(socketserver.StreamRequestHandler):
    """A request, in a process of its own: a line with the name of the command, its folder,
    the number of its arguments, these, and its environment."""

    def handle(self) -> None:
        gc.enable()
        line = base64.b64decode(self.rfile.readline())
        name, folder, count, *words = os.fsdecode(line).split("\0")[:-1]
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(entry.split("=", 1) for entry in words[int(count) :])
        # A copy of the repository has the same package: fairseq need not import it again.
        graphormer_plugin.__path__.append(os.path.abspath("graphormer_plugin"))
        os.dup2(self.connection.fileno(), 1)
        os.dup2(self.connection.fileno(), 2)
        # Those of this process are pytest's.
        sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)
        sys.stderr = sys.__stderr__ = open(2, "w", buffering=1, closefd=False)
        # As fairseq's commands set it when they are imported, whoever was first in this process.
        form = "%(asctime)s | %(levelname)s | %(name)s | %(message)s"
        logging.basicConfig(format=form, level="INFO", stream=sys.stdout, force=True)
        status = execute(name, words[: int(count)])
        sys.stdout.flush()
        sys.stderr.flush()
        os.write(1, f"\nexit status {status}\n".encode())
        os._exit(0)


@functools.cache
def get_ready() -> None:
    """What most commands need, once and before the first."""
    for name in NEEDED:
        importlib.import_module(name)
    logging.getLogger("hydra").setLevel(logging.INFO)
    warm_up()
    gc.freeze()


class Server(socketserver.ForkingTCPServer):
    def process_request(self, *request) -> None:
        get_ready()
        super().process_request(*request)


def start() -> int:
    """Port of a server, which ends with this process."""
    server = Server(("127.0.0.1", 0), Command)
    parent = os.getpid()
    if os.fork():
        server.socket.close()
        return server.server_address[1]
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() == parent:
            warnings.simplefilter("ignore")
            server.serve_forever()
    finally:
        os._exit(1)
