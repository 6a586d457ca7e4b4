"""Packaging, the set-up script, the demo driver and ``python -m graphormer_plugin``."""

import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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

    def test_names_no_index(self):
        text = (ROOT / "constraints.txt").read_text()
        assert "://" not in text and "--" not in text

    def test_version_is_stated_once(self, pyproject):
        assert "version" not in pyproject["project"].get("dynamic", [])
        assert "version=" not in (ROOT / "setup.py").read_text()


class TestSetup:
    @pytest.mark.skipif(
        sys.version_info[:2] == (3, 12), reason="fairseq-fixed has a wheel for 3.12"
    )
    def test_stops_before_a_second_torch(self, bare_venv):
        # -S hides the environment's packages from setup.py as pip's isolation does.
        command = [bare_venv / "bin" / "python", "-S", "setup.py", "--name"]
        env = {k: v for k, v in os.environ.items() if not k.startswith("GRAPHORMER_")}
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 1
        assert "--no-build-isolation" in done.stderr
        assert "Traceback" not in done.stderr

        env["GRAPHORMER_ALLOW_ISOLATION"] = "1"
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60
        )
        assert "--no-build-isolation" not in done.stderr

    def test_without_a_compiler_the_extension_is_left_out(self, tmp_path):
        pytest.importorskip("Cython")
        shutil.copy(ROOT / "setup.py", tmp_path)
        (tmp_path / "cython_ext").mkdir()
        (tmp_path / "cython_ext" / "_kernel.pyx").write_text("x = 1\n")
        env = {**os.environ, "CC": str(tmp_path / "no-cc"), "DISTUTILS_DEBUG": ""}
        done = subprocess.run(
            [sys.executable, "setup.py", "build_ext", "--inplace"],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert "_kernel" in done.stderr and "failed" in done.stderr
        assert not list(tmp_path.rglob("_kernel*.so"))


class TestInstall:
    def test_stamp_follows_the_pinned_files(self, install, tmp_path, monkeypatch):
        for name in install.PINNED_FILES:
            shutil.copy(ROOT / name, tmp_path)
        monkeypatch.setattr(install, "ROOT", str(tmp_path))
        before = install.wanted_stamp()
        assert install.wanted_stamp() == before
        for name in install.PINNED_FILES:
            with open(tmp_path / name, "a") as f:
                f.write("\n")
            after = install.wanted_stamp()
            assert after["pins"] != before["pins"], name
            before = after

    @pytest.mark.parametrize("content", [None, "", "{", "[]", '{"pins": 1}'])
    def test_damaged_stamp_is_no_stamp(self, install, tmp_path, content):
        if content is not None:
            (tmp_path / install.STAMP).write_text(content)
        assert install.read_stamp(str(tmp_path)) != install.wanted_stamp()

    def test_environment_without_interpreter_or_pip_is_unusable(
        self, install, bare_venv
    ):
        assert not install.usable(str(bare_venv))
        assert not install.usable(str(bare_venv / "nowhere"))
        assert install.works(str(bare_venv)) is not None

    def test_packages_cut_short_are_dropped(self, install, bare_venv):
        python = bare_venv / "bin" / "python"
        site = Path(
            subprocess.check_output(
                [
                    python,
                    "-c",
                    "import sysconfig; print(sysconfig.get_paths()['purelib'])",
                ],
                text=True,
            ).strip()
        )

        def add(name, size, record=True):
            (site / f"{name}.py").write_text("x = 1\n")
            info = site / f"{name}-1.0.dist-info"
            info.mkdir()
            (info / "METADATA").write_text("Metadata-Version: 2.1\n")
            if record:
                rows = f"{name}.py,sha256=x,{size}\n{name}-1.0.dist-info/RECORD,,\n"
                (info / "RECORD").write_text(rows)

        add("whole", 6)
        add("short", 60)
        add("unrecorded", 6, record=False)
        add("missing", 6)
        (site / "missing.py").unlink()
        (site / "~leftover").mkdir()
        output = subprocess.check_output(
            [python, "-c", install.DROP_BROKEN], text=True, timeout=60
        )
        assert output.split() == ["missing-1.0", "short-1.0", "unrecorded-1.0"]
        left = {path.name for path in site.iterdir() if path.suffix == ".dist-info"}
        assert left == {"whole-1.0.dist-info"}
        assert not (site / "~leftover").exists()

    def test_never_deletes_a_folder_that_is_no_environment(self, install, tmp_path):
        (tmp_path / "thesis.tex").write_text("important")
        with pytest.raises(install.InstallError, match="no Python environment"):
            install.make_venv(str(tmp_path))
        assert (tmp_path / "thesis.tex").exists()

    def test_old_python_is_refused_in_one_line(self, install, tmp_path, monkeypatch):
        monkeypatch.setattr(install, "OLDEST_PYTHON", (9, 9))
        with pytest.raises(SystemExit, match="PYTHON="):
            install.main(["--venv", str(tmp_path / "venv")])
        assert not (tmp_path / "venv").exists()

    def test_missing_compiler_is_named(self, install, monkeypatch):
        monkeypatch.setattr(install.shutil, "which", lambda name: None)
        assert "compiler" in install.missing_for_compiling()


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
        for target in ("demo", "test", "setup", "lint", "clean"):
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


def test_ci_script_is_executable_bash():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", script], check=True)
    assert "set -euo pipefail" in script.read_text()


def test_path_from_anywhere(tmp_path):
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    output = subprocess.check_output(
        [sys.executable, "-W", "ignore", "-m", "graphormer_plugin", "--path"],
        cwd=tmp_path,
        env=env,
        text=True,
    )
    assert output == f"{ROOT / 'graphormer_plugin'}\n"


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
