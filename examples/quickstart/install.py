"""Make, or make anew, the environment of `make demo` and `make test`.

Standard library only; run by the interpreter that the environment is made from::

    python3 examples/quickstart/install.py            # .venv beside the Makefile
    python3 examples/quickstart/install.py --venv DIR --extras test lint

The last step writes a stamp: this Python, this folder, the content of the
`PINNED_FILES`, and the installed extras of pyproject.toml. An environment with
another stamp, or without one, is removed; a missing extra is added. pip's cache keeps what
was downloaded and compiled before.
"""

import argparse
import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OLDEST_PYTHON = (3, 11)
STAMP = "graphormer-installed.txt"
FAIRSEQ = "examples/installation/fairseq.txt"
PINNED_FILES = ("constraints.txt", "pyproject.toml", "setup.py", FAIRSEQ)
# CUDA_HOME makes fairseq compile CUDA kernels, which nothing here uses and a CPU torch
# refuses; the others send packages somewhere else.
DROPPED_VARIABLES = ("CUDA_HOME", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_USER")
COMPILE = (
    "import compileall, importlib.util as u; "
    "compileall.compile_dir(*u.find_spec('fairseq').submodule_search_locations, quiet=1)"
)
SHOWN_LINES = 20  # last lines of a failed command
WHAT_NEXT = (
    "the next make finishes the environment; if it fails too, read Troubleshooting in "
    "examples/installation/README.md, try another Python (make demo PYTHON=python3.12), "
    "or report the lines above"
)


def say(text: str, end: str = "\n") -> None:
    print(f"[set-up] {text}", end=end, flush=True)


def fail(text: str) -> None:
    sys.exit(f"[set-up] {text}")


@contextlib.contextmanager
def step(text: str) -> Iterator[None]:
    """A line with what is done and, when it is done, its seconds."""
    started = time.monotonic()
    say(f"{text} ... ", end="")
    yield
    print(f"{time.monotonic() - started:.0f} s", flush=True)


def run(*command: str) -> None:
    """Run a command. If it fails, show the last lines of its output."""
    env = {k: v for k, v in os.environ.items() if k not in DROPPED_VARIABLES}
    env |= {"PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if done.returncode:
        print("\n", *done.stdout.splitlines(keepends=True)[-SHOWN_LINES:], sep="")
        say(f"exit status {done.returncode}, see above: {' '.join(command)}")
        fail(WHAT_NEXT)


def wanted_stamp() -> str:
    pins = b"".join((ROOT / name).read_bytes() for name in PINNED_FILES)
    return f"{sys.version}\n{ROOT}\n{hashlib.sha256(pins).hexdigest()}\n"


def check_compiler() -> None:
    """Fail before gigabytes are fetched if cython_ext cannot be compiled."""
    candidates = [*os.environ.get("CXX", "").split()[:1], "c++", "g++", "clang++"]
    if not any(map(shutil.which, candidates)):
        fail("no C++ compiler: install one (Debian, Ubuntu: apt install g++)")
    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        fail("no Python.h: install it (Debian, Ubuntu: apt install python3-dev)")


def make(venv: Path, extras: set[str]) -> None:
    """Make the environment with all extras; an old one is removed."""
    if venv.exists():
        if any(venv.iterdir()) and not (venv / "pyvenv.cfg").exists():
            fail(f"{venv} is not a Python environment: remove it yourself")
        say(f"{venv} is out of date or unfinished: making it anew")
        shutil.rmtree(venv)
    check_compiler()
    # Not an activated environment, which may just have been removed, but its base.
    python = Path(sys.base_prefix, "bin", "python{}.{}".format(*sys.version_info))
    with step("1 of 3: torch and the build tools"):
        run(str(python if python.exists() else sys.executable), "-m", "venv", str(venv))
        pip_install(venv, "pip", "setuptools", "wheel", "numpy", "cython", "torch")
    machine = sys.platform, platform.machine()
    has_wheel = sys.version_info < (3, 13) and machine == ("linux", "x86_64")
    with step(f"2 of 3: fairseq{'' if has_wheel else ', compiled: 2 to 4 minutes'}"):
        # In build isolation pip would fetch a second torch to compile it.
        pip_install(venv, "--no-build-isolation", "--no-deps", "-r", FAIRSEQ)
        # Otherwise the first command compiles fairseq, and prints its SyntaxWarnings.
        run(str(venv / "bin" / "python"), "-W", "ignore", "-c", COMPILE)
    with step("3 of 3: this package, its kernels (compiled) and its dependencies"):
        pip_install(venv, "--no-build-isolation", "-e", ".", *requirements(extras))


def pip_install(venv: Path, *words: str) -> None:
    """Install packages of the pinned versions.

    Python compiles a module when it is first imported: most of the 30,000 never are.
    """
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--no-compile"]
    run(*pip, "-c", "constraints.txt", *words)


def requirements(extras: set[str]) -> list[str]:
    """Requirements of extras of pyproject.toml."""
    import tomllib  # absent from Pythons that are refused

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    packages = [project["optional-dependencies"][extra] for extra in sorted(extras)]
    return sum(packages, [])


def add_extras(venv: Path, extras: set[str]) -> None:
    with step(f"packages of {', '.join(sorted(extras))}"):
        pip_install(venv, *requirements(extras))


def main(argv=None):  # old Pythons also read this, to say that they are old
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv")
    parser.add_argument("--extras", nargs="*", default=[], help="of pyproject.toml")
    options = parser.parse_args(argv)
    venv = options.venv.resolve()
    if sys.version_info < OLDEST_PYTHON:
        fail(
            f"Python 3.11 or newer is needed, {sys.executable} is "
            f"{sys.version.split()[0]}: name another, e.g. make demo PYTHON=python3.12"
        )
    # One set-up at a time; the kernel frees the lock of one that was killed.
    venv.parent.mkdir(parents=True, exist_ok=True)
    lock = open(f"{venv}.lock", "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    stamp, wanted = venv / STAMP, wanted_stamp()
    found = stamp.read_text() if stamp.exists() else ""
    extras = {*options.extras}
    if found.startswith(wanted):
        if missing := extras - {*found[len(wanted) :].split()}:
            add_extras(venv, missing)
    else:
        make(venv, extras)
        found, missing = wanted, extras
    # Compiles what changed in cython_ext since the last time; usually nothing.
    run(str(venv / "bin" / "python"), "setup.py", "-q", "build_ext", "--inplace")
    stamp.write_text("\n".join([found.rstrip("\n"), *sorted(missing), ""]))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("\n[set-up] stopped; the next make goes on with what pip has downloaded")
        sys.exit(130)
