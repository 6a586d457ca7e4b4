"""Docstrings render to API pages."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_every_module_has_a_page(tmp_path):
    pytest.importorskip("pdoc", reason="no pdoc here (make docs installs it)")
    recipe = (ROOT / "Makefile").read_text().split("\ndocs: setup\n")[1]
    # The last command, as make would run it.
    command = re.search(r'("\$\(BIN\)/python" -W.*?)\n\n', recipe, re.DOTALL)[1]
    command = command.replace("$(BIN)/python", sys.executable).replace("$$", "$")
    command = command.replace("build/docs", str(tmp_path))
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")
    for page, name in {
        "cython_ext.html": "build_batch",
        "graphormer_plugin/hub.html": "Predictor.predict",
        "graphormer_plugin/modules/grpe_encoder.html": "GRPEEncoder",
        "graphormer_plugin/cli/explain.html": "read_molecules",
        "graphormer_plugin/data/store.html": "GraphStore",
    }.items():
        assert f'id="{name}"' in (tmp_path / page).read_text()
