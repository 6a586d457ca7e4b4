"""Recipes as tests run them: for real on tiny data, or with commands that do nothing.

Its fixtures are known everywhere: conftest.py loads this module as a plugin.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.benchmark_files import write_gaps

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
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=3600,  # a hang: no busy machine is so slow
    )


def run_recipe(recipe, environment, *arguments):
    script = EXAMPLES / f"{recipe}.sh"
    return bash([script, *arguments], {**ENVIRONMENT, **environment})


@pytest.fixture
def dry(tmp_path):
    """Runs a recipe or an ablation with commands that only note what they are called
    with; returns (recipe, variant, arguments of fairseq-train) of each training."""
    notes, bin = tmp_path / "notes", tmp_path / "bin"
    note = f'printf "%s\\n" "$@" END >> {notes}'
    (bin / "python").parent.mkdir()
    (bin / "fairseq-train").write_text(f"#!/bin/sh\n{note}\n")
    (bin / "python").write_text(f'#!/bin/sh\n[ "$1" = -c ] && echo 0 || {note}\n')
    for path in bin.iterdir():
        path.chmod(0o755)
    environment = {"PATH": f"{bin}:{os.environ['PATH']}", "PRETRAINED": "none"}
    environment |= {"SMOKE_DIR": str(tmp_path), "SAVE_DIR": str(tmp_path / "run")}
    write_gaps(tmp_path / "data")

    def trainings(name, **more):
        result = run_recipe(name, environment | {"SEEDS": "1"} | more)
        assert result.returncode == 0, result.stdout[-3000:]
        commands = [
            call.split("\n") for call in notes.read_text().split("\nEND\n")[:-1]
        ]
        for train, record in zip(commands[::2], commands[1::2], strict=True):
            recipe, variant = (
                record[record.index(option) + 1] for option in ("--recipe", "--variant")
            )
            yield recipe, variant, train

    return trainings


@pytest.fixture
def flags(tmp_path):
    """Runs a recipe with commands that do nothing; what it would call.

    GPUS is the number of devices; CHECKPOINT=1: the training leaves one, INTERRUPT=1: and
    ends too early.
    """
    commands = {
        "fairseq-train": '[ -z "$CHECKPOINT" ] || > "$SAVE_DIR/checkpoint_last.pt"\n'
        '[ -z "$INTERRUPT" ]',
        "python": 'case "$1" in -c) echo "$GPUS" ;; *record.py) echo "recorded $*" ;; esac',
        "nvidia-smi": "",
    }
    for name, code in commands.items():
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{code}\n")
        path.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PRETRAINED": "none"}
    environment |= {"SAVE_DIR": str(tmp_path / "run"), "GPUS": "0"}
    return lambda recipe, more: run_recipe(recipe, environment | more).stdout
