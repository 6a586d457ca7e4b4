"""What README.md tells people to type exists and works."""

import itertools
import os
import re
import shlex
import sys
from argparse import Namespace
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
# Flags of pip and of `python -m graphormer_plugin`.
OTHER_FLAGS = {"--no-build-isolation", "--path"}


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def commands():
    """Every command of the shell blocks, as words."""
    found = []
    for block in blocks("bash"):
        block = block.replace("\\\n", " ")
        block = block.replace('"$(python -m graphormer_plugin --path)"', "PLUGIN")
        found += [shlex.split(line, comments=True) for line in block.splitlines()]
    settings = re.compile(r"[A-Z_]+=")  # before the program
    found = [
        list(itertools.dropwhile(settings.match, words)) for words in found if words
    ]
    return [words for words in found if words]


def snippet(needle):
    (found,) = [block for block in blocks("python") if needle in block]
    return found


@pytest.fixture
def parser_of(monkeypatch):
    """Function: name of a fairseq command to its parser, with the plugin loaded."""
    from fairseq import options, utils

    monkeypatch.setattr(sys, "argv", ["readme"])
    utils.import_user_module(Namespace(user_dir=str(ROOT / "graphormer_plugin")))
    return {
        "fairseq-train": lambda: options.get_training_parser(),
        "fairseq-validate": lambda: options.get_validation_parser(),
    }.__getitem__


def parsed(parser, words):
    from fairseq import options

    return options.parse_args_and_arch(parser, input_args=words[1:])


class TestShell:
    def test_programs_are_known(self):
        programs = {words[0] for words in commands()}
        recipes = {program for program in programs if program.startswith("examples/")}
        assert recipes and all(os.access(ROOT / path, os.X_OK) for path in recipes)
        assert programs - recipes == {
            "make",
            "source",
            "pip",
            "python",
            "fairseq-train",
            "fairseq-validate",
            "graphormer-convert",
            "graphormer-explain",
            "graphormer-preprocess",
        }

    def test_make_targets_exist(self):
        makefile = (ROOT / "Makefile").read_text()
        for words in commands():
            if words[0] == "make":
                assert re.search(rf"^{words[1]}:", makefile, re.MULTILINE), words

    def test_fairseq_commands_parse(self, parser_of):
        checked = 0
        for words in commands():
            if words[0] not in ("fairseq-train", "fairseq-validate"):
                continue
            if "--help" in words:
                continue
            args = parsed(parser_of(words[0])(), words)
            assert args.task == "graph_prediction"
            assert args.dataset_name in ("molecules.csv", "zinc")
            checked += 1
        assert checked == 4

    def test_convert_commands_parse(self):
        from graphormer_plugin.cli import convert

        ran = [words for words in commands() if words[0] == "graphormer-convert"]
        sources = {convert.parser().parse_args(words[1:]).source for words in ran}
        assert sources == set(convert.IMPORTERS)

    def test_preprocess_commands_work(self, tmp_path, monkeypatch):
        from graphormer_plugin.cli import preprocess

        monkeypatch.setenv("GRAPHORMER_DATA_ROOT", str(tmp_path / "data"))
        datasets = tmp_path / "datasets"
        datasets.mkdir()
        (datasets / "rings.py").write_text(snippet("# datasets/rings.py"))
        monkeypatch.chdir(tmp_path)
        ran = [w for w in commands() if w[0] == "graphormer-preprocess"]
        assert len(ran) == 2
        for words in ran:
            monkeypatch.setattr(sys, "argv", [*words, "--quiet", "--workers", "1"])
            assert not preprocess.main()
        stores = {
            path.name.split("-")[0] for path in (tmp_path / "data/stores").iterdir()
        }
        assert {"nci", "rings"} <= stores
        # The line that two people compare, with RDKit as constraints.txt pins it.
        from graphormer_plugin.data.registry import DATASETS, DatasetOptions, get_store
        from graphormer_plugin.data.store import describe

        assert describe(get_store(DatasetOptions(name="nci"))) in README
        # The snippet on modules reads the store that was just made.
        exec(compile(snippet("GRPEEncoder"), "README.md", "exec"), {})
        del DATASETS["rings"]  # other tests have rings of their own


def test_kernels_snippet():
    exec(compile(snippet("extract_paths"), "README.md", "exec"), {})


def test_every_flag_exists(parser_of):
    """Flags in tables and text: of the task, the model, or one of the commands."""
    from fairseq import options

    from graphormer_plugin.__main__ import components

    ours = components()
    base = ["--criterion", "l1_loss", "--optimizer", "adam", "--total-num-update", "1"]
    choices = [("--task", "--arch", task, "grpe_small") for task in ours["tasks"]]
    choices += [
        ("--arch", "--task", arch, "graph_prediction") for arch in ours["architectures"]
    ]
    choices = [(*choice, "polynomial_decay") for choice in choices]
    choices.append(
        ("--task", "--arch", "graph_prediction", "grpe_small", "reduce_lr_on_plateau")
    )
    known = set(OTHER_FLAGS)
    for first, second, one, other, schedule in choices:
        parser = parser_of("fairseq-train")()
        words = [first, one, second, other, "--lr-scheduler", schedule]
        # all, known or not: the plateau schedule has no --total-num-update
        options.parse_args_and_arch(parser, [*base, *words], parse_known=True)
        known |= set(parser._option_string_actions)
    known |= set(parser_of("fairseq-validate")()._option_string_actions)
    from graphormer_plugin.cli import convert, explain, preprocess

    for command in (convert, explain, preprocess):
        known |= set(command.parser()._option_string_actions)
    text = re.sub(r"\]\(http[^)]*\)", "", README)
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", text))
    assert flags - known == set()


def test_tables_of_architectures_and_datasets_are_complete():
    from graphormer_plugin.__main__ import components
    from graphormer_plugin.data.registry import DATASETS

    table = set(re.findall(r"^\| `([\w-]+)` \|", README, re.MULTILINE))
    # An architecture without a suffix is the model with its default sizes.
    presets = {name for name in components()["architectures"] if "_" in name}
    assert presets <= table
    # Other tests register datasets of their own in this process, as users do.
    assert {name for name, item in DATASETS.items() if not item.any_source} <= table


def test_ablation_flags_cover_every_combination():
    rows = re.findall(r"^\| (yes|no) \| (yes|no) \| (yes|no) \|(.*)\|$", README, re.M)
    assert len({row[:3] for row in rows}) == 8
    flags = (
        "--no-topology-attention",
        "--no-edge-attention",
        "--no-graph-encoded-value",
    )
    for *on, cell in rows:
        assert [state == "no" for state in on] == [flag in cell for flag in flags]
