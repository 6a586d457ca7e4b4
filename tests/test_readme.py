"""What README.md and the pages under examples/ tell people to type exists and works.

The shell and Python blocks of a page are run in order by bash, in a copy of the
repository. In front of PATH are commands that run in forks of one Python process
(recipe_server.py), after the wrappers below have made them short.
"""

import gzip
import importlib
import re
import shutil
from pathlib import Path

import pytest
import torch
from fairseq import options

from graphormer_plugin.__main__ import components
from graphormer_plugin.models import ARCHITECTURES
from support.benchmark_files import SMILES, write_all
from support.golden import golden_state, load_golden, write_huggingface
from support.recipe_server import COMMANDS
from support.recipes import bash
from support.springs import write_waters
from support.training import free_port, server_environment

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", *sorted(ROOT.glob("examples/**/README.md")))
}
BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)
BLOCKS = {page: BLOCK.findall(text) for page, text in PAGES.items()}
TEXT = "\n".join(PAGES.values())
# Flags of pip, torchrun, srun, hydra, and of `python -m graphormer_plugin`.
OTHER_FLAGS = set(
    """--no-build-isolation --path --standalone --nnodes --nproc-per-node --no-python
    --rdzv-backend --rdzv-endpoint --nodes --ntasks-per-node --gpus-per-node --config-dir
    --config-name --multirun --array""".split()
)

# What the tests do not run as it stands, and why.
WRAPPERS = {
    # Packages: make installs them. make says what it would do.
    "pip": """[[ $1 == install ]]""",
    "make": """exec "$(type -ap make | sed -n 2p)" --dry-run "$@" """,
    # Two updates of a tiny model. These flags come last, so they win.
    "fairseq-train": """
        [[ " $* " != *" --help "* ]] || exec "$SHIMS/fairseq-train" "$@"
        more=(--max-update 2 --batch-size 8 --update-freq 1 --num-workers 0 --cpu)
        more+=(--prepare-workers 1)
        # The model in the package has the sizes of its preset.
        [[ " $* " == *" grpe_minimol "* || " $* " == *" --arch gcn "* ]] ||
            more+=(--encoder-layers 3 --encoder-embed-dim 32 --encoder-ffn-embed-dim 48
                --encoder-attention-heads 4)
        [[ " $* " != *" --arch cgt_"* ]] || more+=(--node-encoding-dim 4)
        [[ " $* " != *" --freeze-encoder-layers "* ]] || more+=(--freeze-encoder-layers 1)
        [[ " $* " != *" --dataset-source generated:"* ]] ||
            more+=(--dataset-source generated:10:1)
        exec "$SHIMS/fairseq-train" "${@//29500/$PORT}" "${more[@]}" """,
    # One replicate on few molecules, which share scaffolds.
    "graphormer-train": """
        sed -i 60q "$1"
        exec "$SHIMS/graphormer-train" "$@" --replicates 1 --split random --trees 5 \\
            --device cpu """,
    # No data workers: fairseq-validate waits for them at its end.
    "fairseq-validate": """exec "$SHIMS/fairseq-validate" "$@" --num-workers 0 """,
    "python": """
        more=()
        case "$1" in
            # Some of the molecules are enough.
            */table.py)
                "$SHIMS/python" "$@" | sed -n 1,60p
                exit "${PIPESTATUS[0]}" ;;
            # They start Pythons of their own, which would take a minute.
            */*_memory.py | */prepare.py) more=(--help) ;;
            */graph_size.py | */eigenvectors.py | */many_graphs.py) more=(--help) ;;
            # It needs instructions that older processors lack.
            */bfloat16.py) more=(--help) ;;
            */attention_layer.py) more=(--rounds 1) ;;
            */collate.py) more=(--batch-size 8 --rounds 1) ;;
            */featurise.py | */prediction.py) more=(--molecules 20 --rounds 1) ;;
            */operators.py) more=(--size 1x32x4) ;;
            */gps.py) more=(--csv nci --molecules 32 --epochs 1) ;;
            */train_step.py)
                more=(--batch-size 8 --batches 1 --rounds 1 --threads 1)
                more+=(--device cpu --size 1x32x4) ;;
        esac
        exec "$SHIMS/python" "$@" "${more[@]}" """,
    # Two processes in all, on one or two "machines" that are this one.
    "torchrun": """
        rm -rf "$SMOKE_DIR"/pcqm4mv2
        words=("${@/#HOST:29500/127.0.0.1:$PORT}")
        each=2
        [[ " $* " != *" --nnodes 2 "* ]] || each=1
        for ((i = 0; i < $#; i++)); do
            [[ ${words[i]} != --nproc-per-node ]] || words[i + 1]=$each
        done
        for ((i = each; i <= 2; i++)); do
            "$SHIMS/torchrun" "${words[@]}" &
        done
        for job in $(jobs -p); do wait "$job" || exit 1; done """,
    # Four processes that believe to be on two machines, each on the first device.
    "srun": """
        rm -rf "$SMOKE_DIR"/pcqm4mv2
        export SLURM_STEP_NODELIST=here SLURM_NNODES=2 SLURM_NTASKS_PER_NODE=2
        export SLURM_STEP_NUM_TASKS=4 SLURM_LOCALID=0
        while [[ $1 == --* ]]; do shift 2; done
        for rank in 0 1 2 3; do
            SLURM_PROCID=$rank "$@" &
        done
        for job in $(jobs -p); do wait "$job" || exit 1; done """,
    "scontrol": "echo 127.0.0.1",
}

LOG = """valid | epoch 001 | valid on 'valid' subset | mae 1 | num_updates 1
train | epoch 001 | mae 1 | num_updates 1
"""


def csv_file(header):
    """A file with these columns for some molecules; every third has empty cells."""
    lines = [",".join(header)]
    for row, smiles in enumerate(SMILES):
        cells = {"smiles": smiles, "name": f"number {row}"}
        cells |= {"solubility": f"{len(smiles)}.5", "gap": str(row)}
        cells |= {"active": str(row % 2), "toxic": "" if row % 3 else str(row // 3 % 2)}
        lines.append(",".join(cells[name] for name in header))
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A copy of the repository, with data and wrappers of its commands."""
    folder = tmp_path_factory.mktemp("pages") / "clone"
    ignored = shutil.ignore_patterns("__pycache__", "*.c", "runs")
    for part in ("cython_ext", "examples", "graphormer_plugin", "tests/support"):
        shutil.copytree(ROOT / part, folder / part, ignore=ignored)
    for name in ("Makefile", "README.md", "constraints.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / name)
    (folder / ".venv/bin").mkdir(parents=True)
    (folder / ".venv/bin/activate").touch()
    write_all(folder.parent / "data")
    wrappers = folder.parent / "bin"
    wrappers.mkdir()
    for name, text in WRAPPERS.items():
        (wrappers / name).write_text(f"#!/usr/bin/env bash\n{text}\n")
        (wrappers / name).chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def environment(clone):
    """Variables of the shell."""
    found, root = server_environment(), clone.parent
    return found | {
        "GRAPHORMER_DATA_ROOT": str(root / "data"),
        "PATH": f"{root}/bin:{found['PATH']}",
        "PORT": str(free_port()),
        "SMOKE": "1",
        "SMOKE_DIR": str(clone / "runs/smoke"),
    }


def run(page, clone, environment):
    """Output of the blocks of a page, which must succeed."""
    script = "\n".join(as_shell(*block) for block in BLOCKS[page])
    done = bash(["-euxo", "pipefail", "-c", script], environment, clone)
    assert done.returncode == 0, done.stdout[-4000:]
    if page in SHOWN:
        shown = re.search(r"^```csv\n(.*?)^```", PAGES[page], re.DOTALL | re.M)[1]
        assert but_numbers(shown) == but_numbers((clone / SHOWN[page]).read_text())
    return done.stdout


def weights_of(name):
    state = golden_state(load_golden(name))
    return {name: value.float() for name, value in state.items()}


@pytest.fixture(scope="module")
def trained(clone, environment):
    """Files that the commands of the first page leave."""
    before, folder = set(clone.iterdir()), clone.parent / "trained"
    folder.mkdir()
    run("README.md", clone, environment)
    for path in set(clone.iterdir()) - before:
        path.rename(folder / path.name)
    return folder


def provide(page, clone, trained):
    """What a page says that there is."""
    header = re.search(r"^```csv\n(.*)$", PAGES["examples/own_csv/README.md"], re.M)[1]
    (clone / "molecules.csv").write_text(csv_file(header.split(",")))
    (clone / "large.csv").write_text(csv_file(["smiles", "gap"]))
    if page == "examples/README.md":
        log = clone / "runs/zinc/grpe_small/seed1/train.log"
        log.parent.mkdir(parents=True)
        log.write_text(LOG)
    if page == "examples/positions/README.md":
        pytest.importorskip("ase", reason="pip install ase")
        write_waters(clone / "water.xyz")
    if page == "examples/speed/README.md":
        packed = gzip.compress(csv_file(["smiles"]).encode())
        for name in ("molhiv", "pcqm4mv2"):
            (clone / f"{name}.csv.gz").write_bytes(packed)
    of_model = "explaining next_batch predicting scale speed".split()
    if Path(page).parent.name in of_model:
        shutil.copytree(trained, clone, dirs_exist_ok=True)
    if page == "examples/published/README.md":
        state = weights_of("graphormer_preln_multi_hop")
        state["encoder.embed_out.weight"] = state["encoder.embed_out.weight"][:1]
        torch.save({"model": state}, clone / "pcqm4mv2_graphormer_base.pt")
        write_huggingface(clone / "graphormer_folder")
        torch.save(weights_of("grpe_shared"), clone / "last.pt")
        torch.save(weights_of("gt_edges_layernorm"), clone / "weights.pt")


def as_shell(language, code):
    """A block as bash runs it. A module of a user begins with a comment: its path."""
    if language == "bash":
        return code
    module = re.match(r"# (\S+\.py)\n", code)
    path = Path(module[1] if module else "block.py")
    write = (
        f"mkdir -p {path.parent}\ncat > {path} <<'END_OF_PYTHON'\n{code}END_OF_PYTHON\n"
    )
    return write if module else f"{write}python {path}\n"


# The file whose content a page shows; the tiny model has other numbers.
SHOWN = {"README.md": "predictions.csv"}


def but_numbers(text):
    return re.sub(r"-?\d+(\.\d+)?(e-\d+)?", "#", text)


# Up to four processes in each of five trainings; twenty measurements; and what has tests of
# its own: recipes, an extension, graphormer-train, explanations (cli/test_explain.py), the
# estimators (test_sklearn.py), PyG's graphs (test_pyg.py, models/test_export.py), labels of
# nodes (tasks/test_nodes_and_edges.py) and datasets of a user (data/test_user_code.py).
SLOW = """examples/multi_gpu/README.md examples/README.md examples/zinc/README.md
    examples/molhiv/README.md examples/extending/README.md examples/graphormer_train/README.md
    examples/speed/README.md examples/explaining/README.md examples/python/README.md
    examples/models/README.md examples/node_level/README.md examples/edge_level/README.md
    examples/own_dataset/README.md""".split()


@pytest.mark.xdist_group("pages")
def test_the_first_page(trained):
    assert (trained / "activity-model/report.html").exists()


@pytest.mark.xdist_group("pages")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] if page in SLOW else [])
        for page, found in BLOCKS.items()
        if found and page != "README.md"
    ],
)
def test_commands_run(page, clone, environment, trained):
    before = set(clone.iterdir())
    try:
        provide(page, clone, trained)
        output = run(page, clone, environment)
    finally:
        for path in set(clone.iterdir()) - before:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    if page == "examples/datasets/README.md":
        # The line that two people compare, with RDKit as constraints.txt pins it.
        nci = re.search(r"^    (nci: .*\n    .*)$", PAGES[page], re.M)[1]
        assert " ".join(nci.split()) in output
    if page == "examples/multi_gpu/README.md":
        ranks = re.findall(r"initialized host \S+ as rank (\d)", output)
        # torchrun three times and fairseq alone: two processes; Slurm: four
        assert sorted(ranks) == sorted("01" * 4 + "0123")


def test_ci_types_the_first_commands_of_readme_first():
    typed = [text for _, one in BLOCKS["README.md"][:1] for text in one.splitlines()]
    first = [line.partition("#")[0].strip() for line in typed]
    steps = re.findall(r"^step (make \w+)", (ROOT / ".ci/run").read_text(), re.M)
    assert first == ["make demo", "make test"] == steps[:2]


def test_the_first_page_has_the_figures_of_small_data():
    first, page = PAGES["README.md"], PAGES["examples/small_data/README.md"]
    rows = re.findall(r"^\| ([^|,]+).*?((?: \| \d\.\d{3}){7}) \|$", first, re.MULTILINE)
    assert len(rows) == 4
    for name, figures in rows:
        _, rmse, *correlations = figures.split(" | ")
        assert re.search(rf"^\| {name} \| {rmse} \| [\d.]+ \| \w", page, re.MULTILINE)
        assert f"| {name} | {' | '.join(correlations)} |" in page


def cells_of(text):
    """Cells of the tables of a page, with a word for each code and the text of each link."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    for line in re.findall(r"^\|(.*)\|$", text, re.MULTILINE):
        for cell in re.split(r"(?<!\\)\|", line):
            cell = re.sub(r"`[^`]*`", "code", cell)
            cell = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", cell)
            # These full stops end no sentence.
            yield re.sub(r"\b(et al|Eq)\.", r"\1", cell)


def test_a_cell_has_one_sentence_of_at_most_20_words():
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    cells = [*cells_of(TEXT), *cells_of(contributing)]
    assert len(cells) > 1000
    sentence = re.compile(r"[.?!] +\S")
    assert [c for c in cells if len(c.split()) > 20 or sentence.search(c)] == []


def test_the_tour_types_the_commands_of_the_first_page():
    blocks = [text for _, text in BLOCKS["README.md"] if "checkpoints" in text]
    assert len(blocks) == 2
    assert all(text in PAGES["examples/tour/README.md"] for text in blocks)


def test_every_flag_exists(tmp_path, monkeypatch):
    """Flags in tables and text: of the task, the model, or one of the commands."""
    monkeypatch.chdir(tmp_path)  # a folder of checkpoints is made when flags are read
    parsers = [options.get_validation_parser()]
    base = "--optimizer adam --lr-scheduler polynomial_decay --total-num-update 1"
    cases = {f"--task {task} --arch grpe_small" for task in components()["tasks"]}
    cases |= {f"--arch {arch.family}" for arch in ARCHITECTURES.values()}
    cases |= {"--criterion binary_logloss", "--lr-scheduler reduce_lr_on_plateau"}
    cases |= {"--criterion mae_deltapos", "--criterion energy_forces"}
    for case in cases:  # the last of equal flags wins
        words = f"{base} --criterion l1_loss --task graph_prediction --arch gin {case}"
        parsers.append(options.get_training_parser())
        # all, known or not: the plateau schedule has no --total-num-update
        options.parse_args_and_arch(parsers[-1], words.split(), parse_known=True)
    for command, function in COMMANDS.items():
        if command.startswith("graphormer-"):
            module = importlib.import_module(function.partition(":")[0])
            parsers.append(module.build_parser())
    known = OTHER_FLAGS.union(*(parser._option_string_actions for parser in parsers))
    for script in (ROOT / "examples").rglob("*.py"):
        known |= set(re.findall(r"\"(--[a-z-]+)\"", script.read_text()))
    text = re.sub(r"\]\(http[^)]*\)", "", TEXT)
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", text))
    assert len(flags) > 100 and flags - known == set()
