"""The site that `make docs` builds, and the files that CONTRIBUTING.md names."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.long
def test_site(tmp_path):
    """Strict: a link or an anchor that leads nowhere fails, as does an unlisted page."""
    pytest.importorskip("mkdocstrings", reason="`make docs` installs it")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", tmp_path]
    done = subprocess.run(
        [*command, "--config-file", ".ci/mkdocs.yml"],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=3600,
    )
    assert done.returncode == 0, done.stderr
    for package in ("cython_ext", "graphormer_plugin"):
        for source in ROOT.joinpath(package).rglob("[a-z]*.py"):
            page = tmp_path / "api" / source.relative_to(ROOT).with_suffix("")
            article = re.search(
                r"<article.*</article>", (page / "index.html").read_text(), re.DOTALL
            )[0]
            # Title, docstring and a name that is documented: more than an empty page.
            assert "doc-contents" in article, source
            assert 'class="doc doc-object doc-' in article, source
    page = (tmp_path / "api/graphormer_plugin/models/grpe/index.html").read_text()
    assert "largest distance with a vector of its own" in page  # the help of an option
    page = (tmp_path / "api/cython_ext/codes/index.html").read_text()
    assert "a path exists, but has more hops than allowed" in page  # a comment
    index = json.loads((tmp_path / "search/search_index.json").read_text())
    found = {entry["location"] for entry in index["docs"]}
    assert "api/graphormer_plugin/hub/#graphormer_plugin.hub.Predictor.predict" in found
    assert "examples/zinc/" in found


def test_contributing_names_files_that_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.split("## What to change for what")[1].split("###")[0]
    named = set(re.findall(r"`([\w/]+\.pyx?)`", table))
    named = {name for name in named if "NAME" not in name}
    files = [path.as_posix() for path in ROOT.glob("*/**/*.py*")]
    assert named == {name for name in named for file in files if file.endswith(name)}
    assert len(named) > 5
