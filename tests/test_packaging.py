"""Packaging, set-up, the demo, ``python -m graphormer_plugin``, and the site."""

import importlib.util
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import setuptools
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from setuptools._distutils.filelist import FileList

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
    assert len(pins) == len(pairs) and all(n == canonicalize_name(n) for n in pins)
    requirements = PYPROJECT["build-system"]["requires"] + PROJECT["dependencies"]
    for text in requirements + sum(PROJECT["optional-dependencies"].values(), []):
        requirement = Requirement(text)
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)])


def test_versions():
    pythons = [text.split()[-1] for text in PROJECT["classifiers"] if ":: 3." in text]
    built = PYPROJECT["tool"]["cibuildwheel"]["build"]
    assert built == [f"cp{python.replace('.', '')}-*" for python in pythons]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    versions = citation["version"], graphormer_plugin.__version__
    assert versions == (PROJECT["version"],) * 2


def test_fairseq_is_pinned_by_content_where_the_project_takes_it():
    text = (ROOT / "examples/installation/fairseq.txt").read_text().replace("\\\n", "")
    pinned = [line for line in text.splitlines() if not line.startswith("#")]
    assert all("--hash=sha256:" in line for line in pinned)
    names = {str(Requirement(line.partition("--hash")[0])) for line in pinned}
    dependencies = map(Requirement, PROJECT["dependencies"])
    assert names == {str(item) for item in dependencies if "fairseq" in item.name}


def test_an_environment_is_made_once_and_anew_when_a_pin_changes(tmp_path):
    script = "examples/quickstart/install.py"
    for name in (script, *load("install").PINNED_FILES):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    install, commands = load("install", tmp_path), []

    def run(*words):
        commands.append(" ".join(words))
        if words[1:3] == ("-m", "venv"):
            Path(words[3]).mkdir()
            Path(words[3], "pyvenv.cfg").touch()

    install.run = run  # this test's own copy
    with pytest.raises(SystemExit, match="not a Python environment"):
        install.main(["--venv", str(tmp_path)])
    assert not commands and len([*tmp_path.iterdir()]) > 1  # nothing is deleted
    venv, old = tmp_path / "venv", tmp_path / "venv/old"
    made = (
        "venv torch fairseq.txt compileall -e build_ext build_ext".split()
    )  # the last one again
    for name in install.PINNED_FILES:
        with open(tmp_path / name, "a") as file:
            file.write("\n")
        commands.clear()
        for _ in range(2):
            install.main(["--venv", str(venv)])
        pairs = zip(made, commands, strict=True)
        assert all(word in line for word, line in pairs) and not old.exists()
        old.touch()


def recorded(install):
    """Commands that a copy of install.py then runs only in name."""
    commands = []
    install.run = lambda *words: commands.append(words)
    return commands


@pytest.mark.parametrize("extras", [[], ["test"], ["lint", "test"]])
def test_pip_accepts_the_commands_of_the_set_up(tmp_path, extras):
    install = load("install")
    commands = recorded(install)
    install.make(tmp_path / "new", set(extras))
    asked = [commands[-1]]
    if extras:
        install.add_extras(tmp_path / "made", set(extras))
        asked.append(commands[-1])
    wanted = sum((PROJECT["optional-dependencies"][extra] for extra in extras), [])
    for command in asked:
        words = command[command.index("constraints.txt") + 1 :]
        packages = [w for w in words if w not in ("--no-build-isolation", "-e", ".")]
        assert [Requirement(text) for text in packages] == [*map(Requirement, wanted)]
        dry = ("--dry-run", "--no-deps", "--retries", "0", "--timeout", "5")
        done = subprocess.run(
            [sys.executable, *command[1:], *dry],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        if "No matching distribution found" in done.stderr:
            pytest.skip("needs a package index")
        assert done.returncode == 0, done.stderr


def test_a_step_that_fails_says_what_to_try(capsys):
    install = load("install")
    with pytest.raises(SystemExit, match="Troubleshooting") as error:
        install.run(sys.executable, "-c", "print(11); raise SystemExit(3)")
    assert "next make" in error.value.code and "\n" not in error.value.code
    shown = capsys.readouterr().out
    assert "11\n" in shown and "exit status 3" in shown
    page = (ROOT / "examples/installation/README.md").read_text()
    assert "## Troubleshooting" in page


@pytest.mark.slow  # starts fairseq
@pytest.mark.filterwarnings("ignore:setup.py install is deprecated")  # it is not run
@pytest.mark.parametrize("editable", [False, True])
def test_an_installed_package_is_found_by_its_name(tmp_path, editable, monkeypatch):
    """From an empty folder; the packages lie side by side, as pip puts them, or the clone is
    in sys.path after the folder that an editable build leaves."""
    site, folder = tmp_path / "site", tmp_path / "empty"
    folder.mkdir()
    for name in ("fairseq", "fairseq_cli"):
        source = Path(importlib.util.find_spec(name).origin).parent
        shutil.copytree(source, site / name)
    if editable:
        monkeypatch.chdir(ROOT)
        monkeypatch.setattr(setuptools, "setup", lambda **words: None)
        distribution = setuptools.Distribution()
        distribution.get_command_obj("install").install_lib = str(site)
        build = runpy.run_path("setup.py")["BuildExtensions"](distribution)
        build.editable_mode = True
        build.ensure_finalized()
        build.run()
        # A wheel has no empty folder.
        note = site / "graphormer_plugin/editable.txt"
        assert note.read_text() == f"{ROOT}\n"
    else:
        for name in ("cython_ext", "graphormer_plugin"):
            (site / name).symlink_to(ROOT / name)
    path = f"{site}{os.pathsep}{ROOT}" if editable else str(site)
    words = "-m fairseq_cli.train --user-dir graphormer_plugin --help"
    done = subprocess.run(
        [sys.executable, *words.split()],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "ignore"},
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

    def train(command, log):
        resumed.append(last.exists())
        last.write_text("half")
        if len(resumed) == 1:
            (folder / "finished.json").write_text('{"digest": "')
            raise KeyboardInterrupt
        (folder / "checkpoint_best.pt").touch()
        # the second attempt fails: the file is damaged
        return len(resumed) == 2, {}

    demo.run = train  # this test's own copy
    with pytest.raises(KeyboardInterrupt):
        demo.train(tmp_path, topics)
    for _ in range(2):
        demo.train(tmp_path, topics)
    assert resumed == [False, True, False]
    demo.train(tmp_path, demo.train_command(tmp_path, epochs=2, workers=1))
    assert len(resumed) == 4


def test_the_screen_of_the_demo_is_short(tmp_path, capsys):
    """The log has the rest; a failed command shows its end."""
    demo, log = load("demo"), tmp_path / "demo.log"
    noise = "x" * 4000 + "\n"
    epoch = (
        "date | INFO | valid | epoch 012 | valid on 'valid' subset | mae 0.5 | wps 1\n"
    )
    store = "nci: 1 train / 1 valid graphs, fingerprint 94c5\n"
    script = tmp_path / "script.py"
    script.write_text(f"print({noise + epoch + store!r}, end='')\nraise SystemExit(3)")
    found = demo.run([[sys.executable, str(script)]], log)
    assert found == (3, noise + epoch + store) and log.read_text() == found[1]
    shown = capsys.readouterr().out.splitlines()
    assert shown[2:4] == ["epoch 12: MAE 0.5 in validation", store.strip()]
    assert shown[4:] == log.read_text().splitlines()
    script.write_text(f"print({noise + epoch + store!r}, end='')")
    demo.run([[sys.executable, str(script)]], log)
    assert len(capsys.readouterr().out.splitlines()) == 4


@pytest.mark.parametrize("name", ["demo", "install"])
def test_ctrl_c_is_one_line(name, tmp_path):
    path = ROOT / "examples" / "quickstart" / f"{name}.py"
    code = path.read_text().replace(
        "def main(", "def main(*_): raise KeyboardInterrupt\ndef _("
    )
    copy = tmp_path / "a" / "b" / f"{name}.py"
    copy.parent.mkdir(parents=True)
    copy.write_text(code)
    done = subprocess.run([sys.executable, str(copy)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "")
    assert "stopped; the next make" in done.stdout
    assert len(done.stdout.strip().splitlines()) == 1


def test_the_source_archive_takes_every_kind_of_file():
    """MANIFEST.in, for the files that git has; setuptools takes the package."""
    words = ["git", "-C", str(ROOT), "ls-files"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("needs git and a clone")
    archive = FileList()
    archive.allfiles = done.stdout.splitlines()
    for line in (ROOT / "MANIFEST.in").read_text().splitlines():
        archive.process_template_line(line)
    packages = r"(graphormer_plugin|cython_ext)/.*\.(py|typed)"
    by_itself = rf"MANIFEST.in|setup.py|pyproject.toml|{packages}"
    left_out = {*archive.allfiles} - {*archive.files}
    assert [name for name in left_out if not re.fullmatch(by_itself, name)] == []


def test_overview(capsys):
    main([])
    lines = capsys.readouterr().out.splitlines()
    lines = dict(line.split(maxsplit=1) for line in lines)
    assert lines["torch"][0].isdigit() and "compiled" in lines["cython_ext"]
    tasks = lines["tasks"].split()
    assert "graph_prediction" in tasks and "translation" not in tasks


def test_contributing_names_files_that_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z\d_/]+\.pyx?)`", text))
    folders = ("cython_ext", "examples", "graphormer_plugin", "tests")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py*")]
    found = {name for name in named for path in files if path.match(name)}
    assert found == named and len(named) > 5
