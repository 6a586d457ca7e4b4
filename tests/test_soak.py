"""A short version of tests/soak/kills.py; `make soak` has the long one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_kills():
    """In a process of its own: its forks must not meet threads of other tests."""
    script = Path(__file__).with_name("soak") / "kills.py"
    command = [sys.executable, script, "--kills", "5", "--aimed", "5", "--flips", "2"]
    done = subprocess.run(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=3600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every result is equal, bit for bit: " in done.stdout
