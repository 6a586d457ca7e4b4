"""Make or repair the environment of `make demo` and `make test`.

Standard library only; run by the interpreter that the environment is made from::

    python3 examples/quickstart/install.py            # .venv beside the Makefile
    python3 examples/quickstart/install.py --venv DIR

The environment is trusted only when its stamp, written last, names this Python, this
folder and the present `constraints.txt`, `pyproject.toml` and `setup.py`, and a real
import of every package that matters succeeds. Anything else is repaired: packages
whose files are missing or cut short are installed again, an environment without a
working pip, or one that still does not import, is made anew.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OLDEST_PYTHON = (3, 11)
TRIED_PYTHONS = "3.11, 3.12 and 3.13"
STAMP = "graphormer-installed.json"
PINNED_FILES = ("constraints.txt", "pyproject.toml", "setup.py")
HEARTBEAT_SECONDS = 30
LOG = "install.log"
# What a folder may hold to be deleted as a broken environment, whoever named it.
PARTS_OF_VENV = {"bin", "etc", "include", "lib", "lib64", "pyvenv.cfg", "share"}
PARTS_OF_VENV |= {".gitignore", LOG, STAMP}
# Handed to pip too: if this script is killed, a pip that outlives it keeps the lock.
HELD_LOCKS = []
# pip sees stock settings where ours would change what gets installed where. CUDA_HOME
# makes fairseq compile CUDA kernels, which nothing here uses and a CPU torch refuses.
DROPPED_VARIABLES = ("CUDA_HOME", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_USER")
DROPPED_VARIABLES += ("GRAPHORMER_NO_EXT",)

# Run inside the environment: removes the metadata of packages that a killed pip left
# incomplete, so that pip does not take them for installed.
DROP_BROKEN = """
import csv, os, shutil, sysconfig
site = sysconfig.get_paths()["purelib"]
for entry in sorted(os.listdir(site)):
    folder = os.path.join(site, entry)
    if entry.startswith("~"):
        shutil.rmtree(folder, ignore_errors=True)
    if not entry.endswith(".dist-info"):
        continue
    try:
        with open(os.path.join(folder, "RECORD"), newline="", encoding="utf-8") as f:
            rows = list(csv.reader(f))
        with open(os.path.join(folder, "METADATA"), encoding="utf-8") as f:
            whole = f.read(16) != ""
        for row in rows:
            path, _, size = row
            path = os.path.join(site, path)
            if path.endswith(".pyc"):
                continue
            whole = whole and os.path.isfile(path)
            if whole and size:
                whole = os.path.getsize(path) == int(size)
    except (OSError, ValueError):
        whole = False
    if not whole:
        print(entry[: -len(".dist-info")])
        shutil.rmtree(folder)
"""

# Run inside the environment. The two packages of this repository are only located: a
# mistake in their source is no reason to install anything again.
IMPORTS = """
import importlib.util, os, sys
import numpy, pandas, rdkit.Chem, torch, torch_geometric, fairseq, fairseq_cli.train
import Cython, setuptools, pytest, hypothesis, scipy, networkx
root = os.path.realpath(sys.argv[1])
for name in ("cython_ext", "graphormer_plugin"):
    spec = importlib.util.find_spec(name)
    place = os.path.realpath(spec.origin if spec else "nowhere")
    assert place.startswith(root + os.sep), name + " is in " + place
for name in ("fairseq-train", "fairseq-validate", "graphormer-preprocess"):
    assert os.access(os.path.join(sys.prefix, "bin", name), os.X_OK), "no " + name
"""


class InstallError(Exception):
    """What the user reads as one line."""


def say(text):
    print("[set-up] " + text, flush=True)


def environment():
    env = {k: v for k, v in os.environ.items() if k not in DROPPED_VARIABLES}
    env["PIP_NO_INPUT"] = "1"
    env["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    return env


def quiet(command, cwd=None):
    """Run a short command; returns its exit status and what it printed."""
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    except OSError as error:
        return 127, str(error)
    return done.returncode, done.stdout


def logged(command, log, what):
    """Run a long command into a log file, with a sign of life now and then."""
    say(what)
    start = spoken = time.monotonic()
    with open(log, "a", encoding="utf-8") as sink:
        sink.write("\n$ " + " ".join(command) + "\n")
        sink.flush()
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            pass_fds=HELD_LOCKS,
        )
        try:
            while process.poll() is None:
                time.sleep(0.2)
                if time.monotonic() - spoken > HEARTBEAT_SECONDS:
                    spoken = time.monotonic()
                    say(f"  ... {spoken - start:.0f} s")
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if process.returncode:
        with open(log, encoding="utf-8", errors="replace") as f:
            tail = [line for line in f if "is ignored: it is neither" not in line]
        sys.stderr.writelines(tail[-25:])
        raise InstallError(
            f"'{what}' failed; the whole output is in {os.path.relpath(log)}"
        )
    say(f"  done in {time.monotonic() - start:.0f} s")


def wanted_stamp():
    digest = hashlib.sha256()
    for name in PINNED_FILES:
        with open(os.path.join(ROOT, name), "rb") as f:
            digest.update(name.encode() + b"\0" + f.read() + b"\0")
    return {
        "python": sys.version,
        "base": os.path.realpath(sys.base_prefix),
        "folder": ROOT,
        "pins": digest.hexdigest(),
    }


def read_stamp(venv):
    try:
        with open(os.path.join(venv, STAMP), encoding="utf-8") as f:
            stamp = json.load(f)
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def missing_for_compiling():
    """What is missing of a C++ compiler and Python's headers, or None."""
    candidates = [*os.environ.get("CXX", "").split()[:1], "c++", "g++", "clang++"]
    if not any(map(shutil.which, candidates)):
        return "no C++ compiler (Debian, Ubuntu: apt install g++)"
    header = os.path.join(sysconfig.get_paths()["include"], "Python.h")
    if not os.path.exists(header):
        return "no Python.h (Debian, Ubuntu: apt install python3-dev)"
    return None


def fairseq_requirement():
    with open(os.path.join(ROOT, "constraints.txt"), encoding="utf-8") as f:
        return next(line.strip() for line in f if line.startswith("fairseq-fixed=="))


def check_compiler(python):
    """Say early, before gigabytes are fetched, what a missing compiler costs."""
    missing = missing_for_compiling()
    if missing is None:
        return
    if not has_fairseq(python):
        major, minor = sys.version_info[:2]
        raise InstallError(
            f"{missing}, and {fairseq_requirement()} must be compiled on Python "
            f"{major}.{minor}: install it, or use Python 3.12, for which there is a "
            "wheel (make demo PYTHON=python3.12)"
        )
    say(missing + ": cython_ext will run on its NumPy fallback, which is much slower")


def has_fairseq(python):
    """Whether fairseq is in the environment, or can be had as a wheel."""
    installed = "import importlib.metadata as m; m.version('fairseq-fixed')"
    if quiet([python, "-c", installed])[0] == 0:
        return True
    with tempfile.TemporaryDirectory() as folder:
        command = [python, "-m", "pip", "download", "-q", "--no-deps", "-d", folder]
        command += ["--only-binary", ":all:", fairseq_requirement()]
        return quiet(command, cwd=folder)[0] == 0


def works(venv):
    """The real check: import everything in a fresh interpreter, from elsewhere."""
    python = os.path.join(venv, "bin", "python")
    command = [python, "-W", "ignore", "-c", IMPORTS, ROOT]
    with tempfile.TemporaryDirectory() as folder:
        status, output = quiet(command, cwd=folder)
    return None if status == 0 else (output.strip().splitlines() or ["no output"])[-1]


def make_venv(venv):
    if os.path.islink(venv):
        os.unlink(venv)
    elif os.path.lexists(venv):
        if set(os.listdir(venv)) - PARTS_OF_VENV:
            raise InstallError(f"{venv} is no Python environment: remove it yourself")
        shutil.rmtree(venv)
    say(f"making {venv} with Python {sys.version.split()[0]}")
    status, output = quiet([sys.executable, "-m", "venv", venv])
    if status:
        raise InstallError(
            "python -m venv failed (Debian, Ubuntu: apt install python3-venv): "
            + " ".join(output.split())[-400:]
        )


def usable(venv):
    """Whether the folder holds an environment of this Python with a working pip."""
    python = os.path.join(venv, "bin", "python")
    probe = "import sys; print(sys.version); import pip._internal.cli.main"
    status, output = quiet([python, "-c", probe])
    return status == 0 and output.strip() == sys.version.strip()


def install(venv):
    python = os.path.join(venv, "bin", "python")
    log = os.path.join(venv, LOG)
    pip = [python, "-m", "pip", "install", "-c", "constraints.txt"]
    status, output = quiet([python, "-c", DROP_BROKEN])
    if status:
        raise InstallError("cannot look through " + venv + ": " + output)
    if output.strip():
        say("incomplete, installed again: " + ", ".join(output.split()))
    check_compiler(python)
    logged(
        pip + ["pip", "setuptools", "wheel", "numpy", "cython", "torch"],
        log,
        f"installing torch and the build tools (log: {os.path.relpath(log)})",
    )
    # fairseq's build needs the torch just installed; pip's build isolation would
    # fetch another one.
    logged(
        pip + ["--no-build-isolation", "-e", ".[test]"],
        log,
        "installing fairseq (where there is no wheel it is compiled: about 4 minutes "
        "on 2 cores) and this package",
    )


def build_extension(venv):
    """Compile what changed in cython_ext since the last time; usually nothing."""
    python = os.path.join(venv, "bin", "python")
    _, output = quiet([python, "setup.py", "-q", "build_ext", "--inplace"], ROOT)
    # setup.py leaves out what cannot be compiled; with a compiler that is a mistake.
    compiled = "import sys, cython_ext; sys.exit(not cython_ext.COMPILED)"
    status, _ = quiet([python, "-W", "ignore", "-c", compiled], ROOT)
    if status and missing_for_compiling() is None:
        sys.stderr.write(output)
        raise InstallError("building cython_ext failed, see above")


def ensure(venv):
    wanted = wanted_stamp()
    found = read_stamp(venv)
    if found == wanted:
        problem = works(venv)
        if problem is None:
            build_extension(venv)
            return
        say(f"{venv} is stamped but does not work: {problem}")
    elif os.path.lexists(venv):
        say(f"{venv} is unfinished or out of date")
    if found:
        os.remove(os.path.join(venv, STAMP))

    same_place = all(found.get(k, wanted[k]) == wanted[k] for k in ("base", "folder"))
    if not same_place or not usable(venv):
        make_venv(venv)
        fresh = True
    else:
        fresh = False
    install(venv)
    problem = works(venv)
    if problem is not None and not fresh:
        say(f"repair was not enough ({problem}); starting over")
        make_venv(venv)
        install(venv)
        problem = works(venv)
    if problem is not None:
        raise InstallError("installed, but does not import: " + problem)
    build_extension(venv)

    path = os.path.join(venv, STAMP)
    with open(path + ".new", "w", encoding="utf-8") as f:
        json.dump(wanted, f, indent=1)
    os.replace(path + ".new", path)
    say(f"{venv} is ready")


def lock(venv):
    """Let one run at a time work on an environment; the kernel frees a dead one's."""
    try:
        import fcntl
    except ImportError:
        return None
    handle = open(venv + ".lock", "w")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        say(f"waiting for another set-up of {venv}")
        fcntl.flock(handle, fcntl.LOCK_EX)
    HELD_LOCKS.append(handle.fileno())
    return handle


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--venv", default=os.path.join(ROOT, ".venv"))
    options = parser.parse_args(argv)
    version = sys.version.split()[0]
    if sys.version_info < OLDEST_PYTHON:
        sys.exit(
            f"[set-up] Python 3.11 or newer is needed, {sys.executable} is {version}: "
            "name another one, e.g. make demo PYTHON=python3.12"
        )
    if sys.version_info[:2] > (3, 13):
        say(f"constraints.txt was tried with Python {TRIED_PYTHONS} only")
    venv = os.path.abspath(options.venv)
    try:
        held = lock(venv)
        try:
            ensure(venv)
        finally:
            if held is not None:
                held.close()
    except InstallError as error:
        sys.exit("[set-up] " + str(error))


if __name__ == "__main__":
    main()
