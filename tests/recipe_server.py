"""Runs the Python commands of recipes in forks of one process that has all imports.

Importing torch and fairseq takes several seconds and there are many recipes. The folder
that `shims` fills goes in front of PATH; its `fairseq-train` and `python` send their
arguments to this server and print what comes back.

    python tests/recipe_server.py      # prints the port, serves until it is killed
"""

import os
import runpy
import signal
import socket
import sys
import traceback
from pathlib import Path

SHIM = r"""#!/usr/bin/env bash
exec 3<> "/dev/tcp/127.0.0.1/$RECIPE_SERVER"
printf '%s\0' "$#" "${0##*/}" "$PWD" "$@" >&3
status=1
while IFS= read -r line <&3; do
    if [[ $line == "exit status "* ]]; then status="${line##* }"; else echo "$line"; fi
done
exit "$status"
"""


def shims(folder: Path) -> None:
    folder.mkdir()
    for name in ("fairseq-train", "python"):
        path = folder / name
        path.write_text(SHIM)
        path.chmod(0o755)


def read_request(stream) -> tuple[str, str, list[str]]:
    """Name of the command, working directory, arguments."""

    def word() -> str:
        letters = bytearray()
        while (letter := stream.read(1)) != b"\0":
            if not letter:
                raise EOFError("request ended early")
            letters += letter
        return letters.decode()

    count = int(word())
    return word(), word(), [word() for _ in range(count)]


def execute(name: str, folder: str, arguments: list[str]) -> int:
    """Exit status of the command; its output goes to descriptors 1 and 2."""
    os.chdir(folder)
    try:
        if name == "python":
            sys.argv = arguments
            runpy.run_path(arguments[0], run_name="__main__")
        else:
            from fairseq_cli import train

            sys.argv = [name, *arguments]
            train.cli_main()
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
    import torch._dynamo  # noqa: F401  (optimisers import it)
    from fairseq_cli import train, validate  # noqa: F401

    import graphormer_plugin  # noqa: F401
    from graphormer_plugin import hub  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries the children
    server = socket.create_server(("127.0.0.1", 0))
    print(server.getsockname()[1], flush=True)
    while True:
        connection, _ = server.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
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
