"""Runs the Python commands of shell scripts in forks of one process that has all imports.

Importing torch and fairseq takes several seconds, and there are many recipes and pages.
The folder that `shims` fills goes in front of PATH; its commands send their arguments
and environment to this server and print what comes back.

    python tests/support/recipe_server.py      # prints the port, serves until it is killed
"""

import gc
import importlib
import os
import runpy
import signal
import socket
import sys
import tomllib
import traceback
from pathlib import Path

PROJECT = tomllib.loads(
    Path(__file__).parents[2].joinpath("pyproject.toml").read_text()
)
# What a command calls; `python` runs a file (- for standard input), a module, or code.
COMMANDS = {
    "fairseq-train": "fairseq_cli.train:cli_main",
    "fairseq-validate": "fairseq_cli.validate:cli_main",
    "torchrun": "torch.distributed.run:main",
    **PROJECT["project"]["scripts"],
}
SHIM = r"""#!/usr/bin/env bash
if [[ ${0##*/} == python && $1 == - ]]; then
    script="$(mktemp)"
    cat > "$script"
    set -- "$script" "${@:2}"
fi
exec 3<> "/dev/tcp/127.0.0.1/$RECIPE_SERVER"
printf '%s\0' "$#" "${0##*/}" "$PWD" "$@" >&3
env -0 >&3
printf '\0' >&3
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


def read_request(stream) -> tuple[str, str, list[str], dict[str, str]]:
    """Name of the command, working directory, arguments, environment."""

    def word() -> str:
        letters = bytearray()
        while (letter := stream.read(1)) != b"\0":
            if not letter:
                raise EOFError("request ended early")
            letters += letter
        return os.fsdecode(bytes(letters))

    count = int(word())
    name, folder, arguments = word(), word(), [word() for _ in range(count)]
    environment = dict(entry.split("=", 1) for entry in iter(word, ""))
    return name, folder, arguments, environment


def execute(
    name: str, folder: str, arguments: list[str], environment: dict[str, str]
) -> int:
    """Exit status of the command; its output goes to descriptors 1 and 2."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
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


def main() -> None:
    gc.disable()  # nothing of the imports is ever freed
    import torch._dynamo  # noqa: F401  (optimisers import it)
    from fairseq_cli import train, validate  # noqa: F401

    import graphormer_plugin.tasks  # noqa: F401
    from graphormer_plugin import hub  # noqa: F401

    warm_up = importlib.import_module("quick_options").warm_up
    warm_up()  # after fairseq, which says how lines of logs look
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries the children
    server = socket.create_server(("127.0.0.1", 0))
    print(server.getsockname()[1], flush=True)
    while True:
        connection, _ = server.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            gc.enable()
            server.close()
            request = read_request(connection.makefile("rb", buffering=0))
            os.dup2(connection.fileno(), 1)
            os.dup2(connection.fileno(), 2)
            status = execute(*request)
            sys.stdout.flush()
            sys.stderr.flush()
            os.write(1, f"\nexit status {status}\n".encode())
            os._exit(0)
        connection.close()


if __name__ == "__main__":
    main()
