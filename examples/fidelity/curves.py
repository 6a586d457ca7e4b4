"""Ten epochs of ZINC-12k with the settings in which the released code of GRPE and of
Graphormer was trained for a comparison: do the models here learn as fast?

    python examples/fidelity/curves.py runs/fidelity

trains each model with each seed in turn, below the folder. The MAE of every epoch, and of
the test graphs after the last epoch, goes to curves.tsv and curves.png there, the table of
the README to the terminal. The same command goes on where it was stopped.
"""

import csv
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

EXAMPLES = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(EXAMPLES))

import plot_training  # noqa: E402
import record  # noqa: E402

from graphormer_plugin.cli import CommandParser, command  # noqa: E402

EPOCHS = 10
UPDATES = 157 * EPOCHS  # 10,000 graphs in batches of 64
# Each model with what its released code adds to the common settings.
MODELS = {
    "grpe_small": "--max-hop 5 --perturb-noise 0.2",
    "graphormer_paper_slim": "--multi-hop-max-dist 5",
    # The second version's network, with the LayerNorm and dropout of that training.
    "graphormer_slim": "--multi-hop-max-dist 5 --pre-layernorm --act-dropout 0",
}
# AdamW (fairseq's decay is decoupled); raw targets.
SETTINGS = f"""
    --task graph_prediction --criterion l1_loss --dataset-name zinc --target-scale none
    --dropout 0.1 --attention-dropout 0.1
    --optimizer adam --adam-eps 1e-8 --clip-norm 5 --weight-decay 0.01
    --lr 5e-4 --lr-scheduler polynomial_decay --end-learning-rate 0
    --warmup-updates 500 --total-num-update {UPDATES} --max-epoch {EPOCHS}
    --batch-size 64 --required-batch-size-multiple 1
    --best-checkpoint-metric mae --no-epoch-checkpoints --log-format json
"""
# MAE of the released code by seed: of validation and test after the tenth epoch, and of
# validation after the fifth where it is known.
RELEASED = {
    "grpe_small": {1: (0.454, 0.482, 0.538), 2: (0.460, 0.489, 0.526)},
}
RELEASED |= dict.fromkeys(
    ("graphormer_paper_slim", "graphormer_slim"),
    {1: (0.579, 0.625, None), 2: (0.608, 0.665, None)},
)
COLUMNS = "model seed epoch train_mae valid_mae test_mae".split()


def train(model: str, seed: int, folder: Path, more: list[str]) -> None:
    """Trains a model with a seed, unless that is done; its log is train.log."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "train.log"
    if log.exists() and len(curve(log, "valid")) == EPOCHS:
        return
    command = [sys.executable, "-m", "fairseq_cli.train"]
    command += ["--user-dir", str(EXAMPLES.parent / "graphormer_plugin")]
    command += [*SETTINGS.split(), "--adam-betas", "(0.9, 0.999)"]
    command += ["--arch", model, *MODELS[model].split()]
    command += ["--seed", str(seed), "--save-dir", str(folder), *more]
    with open(log, "a") as file:
        status = subprocess.run(
            command,
            env={"PYTHONPATH": str(EXAMPLES.parent), **os.environ},
            stdout=file,
            stderr=subprocess.STDOUT,
        ).returncode
    if status:
        raise ValueError(f"fairseq-train ended with code {status}; see {log}")


def curve(log: Path, split: str) -> list[float]:
    """MAE of every epoch."""
    curves = plot_training.read(log.read_text(errors="replace"))
    return [mae for _, mae in curves.get("mae", {}).get(split, [])]


def rows_of(model: str, seed: int, folder: Path) -> list[dict]:
    """The curves of a complete run; the test graphs are measured after its last epoch."""
    log = folder / "train.log"
    rows = []
    both = zip(curve(log, "train"), curve(log, "valid"))
    for epoch, (train_mae, valid_mae) in enumerate(both, start=1):
        test = ""
        if epoch == EPOCHS:
            test = record.measure(folder / "checkpoint_last.pt", "test", "mae")
        values = (model, seed, epoch, train_mae, valid_mae, test)
        rows.append(dict(zip(COLUMNS, values)))
    return rows


def table(rows: list[dict]) -> str:
    """The table of the README, out of the rows of curves.tsv."""
    head = "| model | seed | validation, released | validation, here | test, released "
    head += "| test, here | after five epochs, released | here |"
    lines = [head, "|---" * 8 + "|"]
    by_epoch = {(r["model"], int(r["seed"]), int(r["epoch"])): r for r in rows}
    for (model, seed, epoch), last in by_epoch.items():
        if epoch != EPOCHS:
            continue
        middle = by_epoch[model, seed, 5]["valid_mae"]
        here = last["valid_mae"], last["test_mae"], middle
        released = RELEASED[model].get(seed, (None,) * 3)
        cells = [f"`{model}`", str(seed)]
        for theirs, ours in zip(released, here):
            cells += ["" if theirs is None else f"{theirs:.3f}", f"{float(ours):.3f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def write(rows: list[dict], folder: Path) -> None:
    """The curves as a table and a picture."""
    with open(folder / "curves.tsv", "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    figure = Figure(figsize=(6, 4))
    axis = figure.subplots()
    for model, colour in zip(MODELS, ("C0", "C1", "C2")):
        for seed, style in ((1, "-"), (2, "--")):
            chosen = [r for r in rows if (r["model"], r["seed"]) == (model, seed)]
            epochs = [row["epoch"] for row in chosen]
            values = [row["valid_mae"] for row in chosen]
            label = f"{model}, seed {seed}" if chosen else None
            axis.plot(epochs, values, style, color=colour, label=label)
            axis.plot(EPOCHS, RELEASED[model][seed][0], "x", color=colour)
    axis.set(
        xlabel="epoch", ylabel="validation MAE (crosses: released)", ylim=(0.35, 1)
    )
    axis.grid(alpha=0.3)
    axis.legend()
    figure.tight_layout()
    figure.savefig(folder / "curves.png", dpi=120)


@command
def main(argv: Sequence[str] | None = None) -> None:
    parser = CommandParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path, help="of the runs and of the results")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2])
    arguments, more = parser.parse_known_args(argv)  # more: flags for fairseq-train
    rows = []
    for model in arguments.models:
        for seed in arguments.seeds:
            run = arguments.folder / model / f"seed{seed}"
            train(model, seed, run, more)
            rows += rows_of(model, seed, run)
    write(rows, arguments.folder)
    print(table(rows), end="")


if __name__ == "__main__":
    sys.exit(main())
