"""Recipes as tests run them: for real on tiny data, or with commands that do nothing.

Its fixtures are known everywhere: conftest.py loads this module as a plugin.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.benchmark_files import write_gaps
from support.lmdb_files import golden_entries, write_lmdb

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
RECIPES = sorted(
    str(path.relative_to(EXAMPLES).with_suffix(""))
    for path in EXAMPLES.glob("*/*.sh")
    if path.parent.name not in ("ablations", "pretraining")
)
ABLATIONS = sorted(f"ablations/{p.stem}" for p in EXAMPLES.glob("ablations/*.sh"))

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
ENVIRONMENT["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
for setting in ("SEED", "EPOCHS", "BATCH_SIZE", "DATA_ROOT", "SAVE_DIR", "RESULTS"):
    ENVIRONMENT.pop(setting, None)


def bash(words, environment, cwd=None):
    """A finished bash, whose standard output and error come together."""
    return subprocess.run(
        ["bash", *words],
        cwd=cwd,
        env={**ENVIRONMENT, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=3600,  # a hang: no busy machine is so slow
    )


def run_recipe(recipe, environment):
    return bash([EXAMPLES / f"{recipe}.sh"], environment)


@pytest.fixture
def flags(tmp_path):
    """Runs a recipe with commands that do nothing; what it would call.

    GPUS is the number of devices; CHECKPOINT=1: the training leaves one, INTERRUPT=1: and
    ends too early.
    """
    train = 'printf "%s\\0" "$@" END >> "$CALLS"\n'
    train += '[ -z "$CHECKPOINT" ] || > "$SAVE_DIR/checkpoint_last.pt"\n'
    commands = {
        "fairseq-train": train + '[ -z "$INTERRUPT" ]',
        "python": 'case "$1" in -c) echo "$GPUS" ;; *record.py) echo "recorded $*" ;; esac',
        "nvidia-smi": "",
    }
    for name, code in commands.items():
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{code}\n")
        path.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PRETRAINED": "none"}
    environment |= {"SAVE_DIR": str(tmp_path / "run"), "GPUS": "0"}
    environment |= {"CALLS": str(tmp_path / "calls"), "SMOKE_DIR": str(tmp_path)}
    return lambda recipe, more: run_recipe(recipe, environment | more).stdout


@pytest.fixture
def dry(flags, tmp_path):
    """Runs a recipe or an ablation in the same way; (recipe, variant, arguments of
    fairseq-train) of each training."""
    write_gaps(tmp_path / "data")
    write_lmdb(tmp_path / "is2re", golden_entries())

    def trainings(name, **more):
        output = flags(name, {"SEEDS": "1"} | more)
        names = re.findall(
            r"^recorded .* --recipe (\S+) --variant (\S*) ", output, re.MULTILINE
        )
        calls = (tmp_path / "calls").read_text().split("\0END\0")[:-1]
        for (recipe, variant), call in zip(names, calls, strict=True):
            yield recipe, variant, call.split("\0")

    return trainings
