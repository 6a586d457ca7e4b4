"""Ten epochs of ZINC-12k with the settings in which the released code of GRPE and of
Graphormer was trained for a comparison: do the models here learn as fast?

    python examples/fidelity/curves.py runs/fidelity

trains each model with each seed below the folder, one after the other, and writes the
MAE of every epoch to curves.tsv and curves.png there, and a table to the terminal. A
run that is complete is not trained again, and an interrupted one goes on.
"""

import argparse
import csv
import os
import statistics
import subprocess
import sys
from pathlib import Path

from matplotlib.figure import Figure

EXAMPLES = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(EXAMPLES))

import plot_training  # noqa: E402

EPOCHS = 10
UPDATES = 157 * EPOCHS  # 10,000 graphs in batches of 64
# Each model with what its released code adds to the common settings.
MODELS = {
    "grpe_small": "--max-hop 5 --perturb-noise 0.2",
    "graphormer_paper_slim": "--multi-hop-max-dist 5",
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
# Validation MAE of the released code after the tenth epoch, by seed.
RELEASED = {
    "grpe_small": {1: 0.454, 2: 0.460},
    "graphormer_paper_slim": {1: 0.579, 2: 0.608},
}


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
        subprocess.run(
            command,
            env={"PYTHONPATH": str(EXAMPLES.parent), **os.environ},
            stdout=file,
            stderr=subprocess.STDOUT,
            check=True,
        )


def curve(log: Path, split: str) -> list[float]:
    """MAE of every epoch."""
    curves = plot_training.read(log.read_text(errors="replace"))
    return [mae for _, mae in curves.get("mae", {}).get(split, [])]


def write(rows: list[dict], folder: Path) -> None:
    """The curves as a table and a picture."""
    with open(folder / "curves.tsv", "w", newline="") as file:
        names = list(rows[0])
        table = csv.DictWriter(file, names, delimiter="\t", lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    figure = Figure(figsize=(6, 4))
    axis = figure.subplots()
    for model, colour in zip(MODELS, ("C0", "C1")):
        for seed, style in ((1, "-"), (2, "--")):
            chosen = [r for r in rows if (r["model"], r["seed"]) == (model, seed)]
            epochs = [row["epoch"] for row in chosen]
            values = [row["valid_mae"] for row in chosen]
            label = f"{model}, seed {seed}" if chosen else None
            axis.plot(epochs, values, style, color=colour, label=label)
            axis.plot(EPOCHS, RELEASED[model][seed], "x", color=colour)
    axis.set(
        xlabel="epoch", ylabel="validation MAE (crosses: released)", ylim=(0.35, 1)
    )
    axis.grid(alpha=0.3)
    axis.legend()
    figure.tight_layout()
    figure.savefig(folder / "curves.png", dpi=120)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path, help="of the runs and of the results")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2])
    arguments, more = parser.parse_known_args()  # more: flags for fairseq-train
    rows = []
    for model in arguments.models:
        for seed in arguments.seeds:
            run = arguments.folder / model / f"seed{seed}"
            train(model, seed, run, more)
            both = zip(
                curve(run / "train.log", "train"), curve(run / "train.log", "valid")
            )
            for epoch, (train_mae, valid_mae) in enumerate(both, start=1):
                rows.append(
                    {
                        "model": model,
                        "seed": seed,
                        "epoch": epoch,
                        "train_mae": train_mae,
                        "valid_mae": valid_mae,
                    }
                )
    write(rows, arguments.folder)
    for model in arguments.models:
        last = [r["valid_mae"] for r in rows if r["model"] == model]
        last = last[EPOCHS - 1 :: EPOCHS]
        values = ", ".join(f"{value:.3f}" for value in last)
        print(f"{model}: validation MAE {values}, mean {statistics.mean(last):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
