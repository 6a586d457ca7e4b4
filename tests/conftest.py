"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder with real benchmark data; tests that need it skip where it is absent."""
    root = Path(__file__).resolve().parent.parent
    shared = Path(os.environ.get("GRAPHORMER_SHARED", root.parent / "shared"))
    # A worktree may lie one level deeper than the checkout.
    folders = [shared / "data", root.parent.parent / "shared" / "data"]
    for folder in folders:
        if folder.is_dir():
            return folder
    pytest.skip(f"no benchmark data in {folders[0]} (set GRAPHORMER_SHARED)")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240501)
