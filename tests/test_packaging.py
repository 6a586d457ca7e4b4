"""Packaging, the set-up script, the demo driver and ``python -m graphormer_plugin``."""

import fnmatch
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import graphormer_plugin
from graphormer_plugin.__main__ import main

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]


def load(name, root=ROOT):
    path = root / "examples/quickstart" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"_tested_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_requirement_has_an_exact_version_that_fits():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and line[0] != "#"]
    pins = dict(pairs)  # a line that names an index or an option is no pair
    assert len(pins) == len(pairs) and all(
        name == canonicalize_name(name) for name in pins
    )
    requirements = PYPROJECT["build-system"]["requires"] + PROJECT["dependencies"]
    for text in requirements + sum(PROJECT["optional-dependencies"].values(), []):
        requirement = Requirement(text)
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)])


def test_fairseq_is_pinned_by_content_where_the_project_takes_it():
    text = (ROOT / "examples/installation/fairseq.txt").read_text().replace("\\\n", "")
    pinned = [line for line in text.splitlines() if not line.startswith("#")]
    assert all("--hash=sha256:" in line for line in pinned)
    names = {str(Requirement(line.partition("--hash")[0])) for line in pinned}
    dependencies = map(Requirement, PROJECT["dependencies"])
    assert names == {str(item) for item in dependencies if "fairseq" in item.name}


def test_an_environment_is_made_once_and_anew_when_a_pin_changes(tmp_path):
    script = "examples/quickstart/install.py"
    for name in (script, "examples/installation/fairseq.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    for name in (script, *load("install").PINNED_FILES):
        shutil.copy(ROOT / name, tmp_path / name)
    install, commands = load("install", tmp_path), []
    made = ("venv", "torch", "fairseq.txt", "--no-build-isolation -e .", "build_ext")

    def run(*words):
        commands.append(" ".join(words))
        if words[1:3] == ("-m", "venv"):
            Path(words[3]).mkdir()
            Path(words[3], "pyvenv.cfg").touch()

    install.run = run  # of this test's own copy
    with pytest.raises(SystemExit, match="not a Python environment"):
        install.main(["--venv", str(tmp_path)])
    assert not commands and len([*tmp_path.iterdir()]) > 1  # nothing is deleted
    venv = tmp_path / "venv"
    venv.mkdir()
    (venv / "pyvenv.cfg").touch()  # of a set-up that has not finished
    install.main(["--venv", str(venv)])
    assert all(word in line for word, line in zip(made, commands, strict=True))
    install.main(["--venv", str(venv)])
    assert commands[5:] == commands[4:5]
    for name in install.PINNED_FILES:
        (venv / "old").touch()
        with open(tmp_path / name, "a") as file:
            file.write("\n")
        commands.clear()
        install.main(["--venv", str(venv)])
        assert len(commands) == 5 and not (venv / "old").exists()


@pytest.mark.slow  # starts fairseq twice
@pytest.mark.parametrize("command", ["train", "validate"])
def test_an_installed_package_is_found_by_its_name(command, tmp_path):
    """From an empty folder; the packages lie side by side, as pip puts them."""
    site, folder = tmp_path / "site", tmp_path / "empty"
    folder.mkdir()
    for name in ("fairseq", "fairseq_cli"):
        source = Path(importlib.util.find_spec(name).origin).parent
        shutil.copytree(source, site / name)
    for name in ("cython_ext", "graphormer_plugin"):
        (site / name).symlink_to(ROOT / name)
    words = f"-m fairseq_cli.{command} --user-dir graphormer_plugin --help"
    done = subprocess.run(
        [sys.executable, *words.split()],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(site), "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "weighted_cross_entropy" in done.stdout  # a loss of the package


def test_the_demo_trains_until_it_is_finished(tmp_path):
    """An interrupted training goes on, but not from a damaged file; a finished one is not
    repeated."""
    demo, folder, resumed = load("demo"), tmp_path / "checkpoints", []
    last = folder / "checkpoint_last.pt"
    topics = demo.train_command(tmp_path, epochs=1, workers=1)

    def train(command):
        resumed.append(last.exists())
        last.write_text("half")
        if len(resumed) == 1:
            (folder / "finished.json").write_text('{"digest": "')
            raise KeyboardInterrupt
        (folder / "checkpoint_best.pt").touch()
        # the second attempt fails: the file is damaged
        return len(resumed) == 2, {"train": {"ups": 2.0, "bsz": 64.0}}

    demo.run = train  # of this test's own copy
    with pytest.raises(KeyboardInterrupt):
        demo.train(tmp_path, topics)
    assert demo.train(tmp_path, topics) == demo.train(tmp_path, topics) == 128.0
    assert resumed == [False, True, False]
    other = demo.train_command(tmp_path, epochs=2, workers=1)
    assert demo.train(tmp_path, other) == 128.0 and len(resumed) == 4


def test_workflows_run_what_the_makefile_has():
    makefile = (ROOT / "Makefile").read_text()
    workflow = (ROOT / ".github/workflows/tests.yml").read_text()
    targets = re.findall(r"- run: make ([\w-]+)", workflow)
    assert targets and all(f"\n{target}:" in makefile for target in targets)
    classifiers = [line.split()[-1] for line in PROJECT["classifiers"]]
    pythons = [word for word in classifiers if word.startswith("3.")]
    assert f"python: {json.dumps(pythons)}\n" in workflow
    built = PYPROJECT["tool"]["cibuildwheel"]["build"]
    assert built == [f"cp{python.replace('.', '')}-*" for python in pythons]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == PROJECT["version"]
    subprocess.run(["bash", "-n", ROOT / ".ci/run"], check=True)


def test_the_source_archive_takes_every_kind_of_file():
    """MANIFEST.in, for the files that git has; setuptools takes the package."""
    words = ["git", "-C", str(ROOT), "ls-files"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("not a checkout of git")
    patterns = ["MANIFEST.in", "setup.py", "pyproject.toml"]
    for package in ("graphormer_plugin", "cython_ext"):
        patterns += [f"{package}/*.py", f"{package}/*.typed"]
    for line in (ROOT / "MANIFEST.in").read_text().splitlines():
        kind, *words = line.split()
        if kind == "graft":
            patterns.append(f"{words[0]}/*")
        elif kind == "recursive-include":
            patterns += [f"{words[0]}/{word}" for word in words[1:]]
        elif kind == "include":
            patterns += words
    assert [
        name
        for name in done.stdout.splitlines()
        if not any(fnmatch.fnmatch(name, pattern) for pattern in patterns)
    ] == []


def test_overview_lists_what_is_registered(capsys):
    main([])
    lines = capsys.readouterr().out.splitlines()
    lines = dict(line.split(maxsplit=1) for line in lines)
    for name in ("python", "torch", "fairseq", "torch_geometric", "rdkit", "numpy"):
        assert lines[name][0].isdigit(), name
    assert "compiled" in lines["cython_ext"]
    for kind, name, of_fairseq in [
        ("tasks", "graph_prediction", "translation"),
        ("architectures", "grpe_standard", "transformer"),
        ("criterions", "l1_loss", "cross_entropy"),
        ("datasets", "nci", "csv"),
    ]:
        names = lines[kind].split()
        assert name in names and of_fairseq not in names
    assert graphormer_plugin.__version__ == PROJECT["version"]
