"""Packaging, the set-up script, the demo driver and ``python -m graphormer_plugin``."""

import fnmatch
import importlib.util
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.training import command

ROOT = Path(__file__).resolve().parents[1]


def load(path):
    spec = importlib.util.spec_from_file_location(f"_tested_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def install():
    return load(ROOT / "examples" / "quickstart" / "install.py")


@pytest.fixture
def demo():
    return load(ROOT / "examples" / "quickstart" / "demo.py")


@pytest.fixture(scope="module")
def pyproject():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def pins():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    found = {}
    for line in lines:
        if line and not line.startswith("#"):
            name, version = line.split("==")
            assert name == canonicalize_name(name)
            assert name not in found, name
            found[name] = version
    return found


@pytest.fixture
def bare_venv(tmp_path):
    """An environment with nothing in it, not even pip."""
    folder = tmp_path / "venv"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=60
    )
    return folder


class TestPins:
    def test_every_requirement_has_an_exact_version_that_fits(self, pyproject, pins):
        project = pyproject["project"]
        requirements = [
            *pyproject["build-system"]["requires"],
            *project["dependencies"],
            *sum(project["optional-dependencies"].values(), []),
        ]
        for text in requirements:
            requirement = Requirement(text)
            name = canonicalize_name(requirement.name)
            assert name in pins, text
            assert requirement.specifier.contains(pins[name]), text

    def test_fairseq_is_pinned_by_content_where_the_project_takes_it(self, pyproject):
        lines = (ROOT / "examples/installation/fairseq.txt").read_text()
        lines = lines.replace("\\\n", "").splitlines()
        pinned = [line for line in lines if not line.startswith("#")]
        assert all("--hash=sha256:" in line for line in pinned)
        found = {str(Requirement(line.partition("--hash")[0])) for line in pinned}
        dependencies = map(Requirement, pyproject["project"]["dependencies"])
        assert found == {str(one) for one in dependencies if "fairseq" in one.name}

    def test_names_no_index(self):
        text = (ROOT / "constraints.txt").read_text()
        assert "://" not in text and "--" not in text

    def test_version_is_stated_once(self, pyproject):
        assert "version" not in pyproject["project"].get("dynamic", [])
        assert "version=" not in (ROOT / "setup.py").read_text()


class TestInstall:
    @pytest.fixture
    def commands(self, install, monkeypatch):
        """What would be run; `python -m venv` leaves its mark."""
        commands = []

        def run(*command):
            commands.append(" ".join(command))
            if command[1:3] == ("-m", "venv"):
                Path(command[3]).mkdir()
                Path(command[3], "pyvenv.cfg").touch()

        monkeypatch.setattr(install, "run", run)
        return commands

    def test_is_made_once_and_anew_when_a_pin_changes(
        self, install, commands, tmp_path, monkeypatch
    ):
        for name in install.PINNED_FILES:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
        monkeypatch.setattr(install, "ROOT", tmp_path)
        arguments = ["--venv", str(tmp_path / "venv")]
        install.main(arguments)
        made = (
            "venv",
            "torch",
            "fairseq.txt",
            "--no-build-isolation -e .",
            "build_ext",
        )
        assert len(commands) == len(made)
        assert all(word in line for word, line in zip(made, commands))
        install.main(arguments)
        assert commands[len(made) :] == commands[len(made) - 1 : len(made)]
        for name in install.PINNED_FILES:
            (tmp_path / "venv" / "old").touch()
            with open(tmp_path / name, "a") as file:
                file.write("\n")
            commands.clear()
            install.main(arguments)
            assert len(commands) == 5 and not (tmp_path / "venv" / "old").exists()

    def test_an_extra_is_installed_once(self, install, commands, tmp_path):
        arguments = ["--venv", str(tmp_path / "venv"), "--extras"]
        install.main(arguments)
        assert not any("pytest>" in line for line in commands)
        for extras in (["test"], ["lint", "test"], ["test"]):
            install.main([*arguments, *extras])
        added = [line for line in commands if "pytest>" in line or "ruff>" in line]
        assert ["ruff>" in line for line in added] == [False, True]

    def test_an_unfinished_environment_is_made_anew(self, install, commands, bare_venv):
        install.main(["--venv", str(bare_venv)])
        assert len(commands) == 5

    def test_never_deletes_a_folder_that_is_not_an_environment(
        self, install, commands, tmp_path
    ):
        (tmp_path / "thesis.tex").write_text("important")
        with pytest.raises(SystemExit, match="not a Python environment"):
            install.main(["--venv", str(tmp_path)])
        assert (tmp_path / "thesis.tex").exists() and not commands

    def test_old_python_is_refused_in_one_line(self, install, tmp_path, monkeypatch):
        monkeypatch.setattr(install, "OLDEST_PYTHON", (9, 9))
        with pytest.raises(SystemExit, match="PYTHON="):
            install.main(["--venv", str(tmp_path / "venv")])
        assert not (tmp_path / "venv").exists()

    def test_missing_compiler_is_named(self, install, monkeypatch, tmp_path):
        monkeypatch.setattr(install.shutil, "which", lambda name: None)
        with pytest.raises(SystemExit, match="no C\\+\\+ compiler"):
            install.main(["--venv", str(tmp_path / "venv")])


class TestDemo:
    def test_shown_command_is_the_command(self, demo, tmp_path):
        command = demo.train_command(tmp_path, epochs=3, workers=1)
        words = [word for topic in command for word in topic]
        assert shlex.split(demo.shown(command).replace("\\\n", "")) == words
        assert words[:3] == ["fairseq-train", "--user-dir", "graphormer_plugin"]

    def test_reads_what_fairseq_prints(self, demo):
        logged = {}
        for line in [
            "2030-01-01 00:00:00 | INFO | train | epoch 001 | loss 0.5 | ups 4 | bsz 60",
            "2030-01-01 00:00:00 | INFO | train | epoch 002 | loss 0.4 | ups 5 | bsz 64",
            "2030-01-01 00:00:00 | INFO | test | valid on 'test' subset | mae 0.25",
            "2030-01-01 00:00:00 | INFO | fairseq.tasks | done",
            "no log line",
        ]:
            demo.read_numbers(line, logged)
        assert logged["train"] == {"epoch": 2, "loss": 0.4, "ups": 5, "bsz": 64}
        assert logged["test"] == {"mae": 0.25}

    def test_finished_training_is_not_repeated(self, demo, tmp_path, monkeypatch):
        checkpoints = tmp_path / "checkpoints"
        calls = []

        def train(command):
            calls.append(command)
            (checkpoints / "checkpoint_last.pt").write_text("")
            (checkpoints / "checkpoint_best.pt").write_text("")
            return 0, {"train": {"ups": 2.0, "bsz": 64.0}}

        monkeypatch.setattr(demo, "run", train)
        command = demo.train_command(tmp_path, epochs=1, workers=1)
        assert demo.train(tmp_path, command) == 128.0
        assert demo.train(tmp_path, command) == 128.0
        assert len(calls) == 1
        other = demo.train_command(tmp_path, epochs=2, workers=1)
        assert demo.train(tmp_path, other) == 128.0
        assert len(calls) == 2

    def test_interrupted_training_goes_on_from_its_checkpoint(
        self, demo, tmp_path, monkeypatch
    ):
        last = tmp_path / "checkpoints" / "checkpoint_last.pt"
        command = demo.train_command(tmp_path, epochs=1, workers=1)

        def interrupted(command):
            last.write_text("half")
            raise KeyboardInterrupt

        monkeypatch.setattr(demo, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            demo.train(tmp_path, command)
        seen = []

        def resumed(command):
            seen.append(last.exists())
            return len(seen) % 2, {}  # the first attempt fails: the file is damaged

        monkeypatch.setattr(demo, "run", resumed)
        demo.train(tmp_path, command)
        assert seen == [True, False]

    def test_unfinished_notes_are_ignored(self, demo, tmp_path, monkeypatch):
        command = demo.train_command(tmp_path, epochs=1, workers=1)
        checkpoints = tmp_path / "checkpoints"
        checkpoints.mkdir()
        (checkpoints / "finished.json").write_text('{"digest": "')
        (checkpoints / "checkpoint_best.pt").write_text("")
        monkeypatch.setattr(demo, "run", lambda command: (0, {}))
        demo.train(tmp_path, command)
        note = json.loads((checkpoints / "finished.json").read_text())
        assert note["digest"] == demo.sources_digest(command)


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
class TestMake:
    def test_help_names_every_target(self):
        text = subprocess.check_output(["make", "help"], cwd=ROOT, text=True)
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
        assert {"demo", "test", "test-quick", "lint", "docs"} <= set(targets)
        for target in set(targets) - {"help"}:
            assert f"make {target} " in text

    def test_missing_python_is_said_in_one_line(self, tmp_path):
        done = subprocess.run(
            ["make", "setup", "PYTHON=no-such-python", f"VENV={tmp_path}/venv"],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert done.returncode != 0
        assert "no no-such-python here" in done.stderr


def test_tests_do_not_import_tests():
    for path in (ROOT / "tests").rglob("*.py"):
        assert not re.search(r"^(from|import) \S*\btest_", path.read_text(), re.M), path


def test_workflows_run_what_the_makefile_has(pyproject):
    makefile = (ROOT / "Makefile").read_text()
    classifiers = pyproject["project"]["classifiers"]
    pythons = [line.split()[-1] for line in classifiers if "Python :: 3." in line]
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())
    jobs = workflow["jobs"].values()
    assert workflow["jobs"]["tests"]["strategy"]["matrix"]["python"] == pythons
    for step in itertools.chain.from_iterable(job["steps"] for job in jobs):
        if "run" in step:
            assert f"\n{step['run'].split()[1]}:" in makefile
    built = pyproject["tool"]["cibuildwheel"]["build"]
    assert built == [f"cp{python.replace('.', '')}-*" for python in pythons]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == pyproject["project"]["version"]


def test_ci_script_is_executable_bash():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", script], check=True)
    assert "set -euo pipefail" in script.read_text()


def test_the_source_archive_takes_every_kind_of_file():
    """MANIFEST.in, for the files that git has."""
    command = ["git", "-C", str(ROOT), "ls-files"]
    found = subprocess.run(command, capture_output=True, text=True)
    if found.returncode:
        pytest.skip("not a checkout of git")
    lines = [line.split() for line in (ROOT / "MANIFEST.in").read_text().splitlines()]
    taken = {"MANIFEST.in", "setup.py", "pyproject.toml"}
    patterns = []
    for kind, *words in lines:
        if kind == "include":
            taken |= {*words}
        elif kind == "graft":
            patterns.append(f"{words[0]}/*")
        elif kind == "recursive-include":
            patterns += [f"{words[0]}/{word}" for word in words[1:]]
    missing = [
        name
        for name in found.stdout.splitlines()
        if name not in taken
        and not re.match(
            r"(graphormer_plugin|cython_ext)/.*\.(py|typed)", name
        )  # of setuptools
        and not any(fnmatch.fnmatch(name, pattern) for pattern in patterns)
    ]
    assert missing == []


@pytest.mark.long
def test_path_from_anywhere(tmp_path):
    process = command("-m", "graphormer_plugin", "--path", cwd=tmp_path)
    assert process.communicate()[0].strip() == str(ROOT / "graphormer_plugin")
    assert process.returncode == 0


def test_overview_lists_what_is_registered(capsys):
    from graphormer_plugin.__main__ import components, main

    main([])
    lines = dict(
        line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()
    )
    for name in ("python", "torch", "fairseq", "torch_geometric", "rdkit", "numpy"):
        assert lines[name][0].isdigit(), name
    assert "compiled" in lines["cython_ext"]
    assert lines["device"].startswith(("cpu", "cuda"))
    found = components()
    assert "graph_prediction" in found["tasks"]
    assert {"grpe_tiny", "grpe_small", "grpe_standard"} <= set(found["architectures"])
    assert "l1_loss" in found["criterions"]
    assert "nci" in found["datasets"]
    # Ours only: fairseq's own components do not show.
    assert "translation" not in found["tasks"]
    assert "cross_entropy" not in found["criterions"]
