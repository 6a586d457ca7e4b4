"""Time to accuracy: ZINC-12k to a validation MAE of 0.45, the package's GRPE-Small next to
the computation of the released code.

    python examples/speed/time_to_accuracy.py runs/tta

Two trainings, one after the other, in the settings of examples/fidelity: `fairseq-train` as
a user types it, and `ReleasedGRPE` (released_grpe.py) in a plain PyTorch loop. Both train
the same network (the paper's) from the same weights on the same batches of the same epochs,
with torch's default of threads. They differ in how it is computed, and in the random numbers
of dropout and noise. `fairseq-train` has the fused `--optimizer adamw`.

From a description of the released code: torch's AdamW with gradient clipping, rates set per
update, raw targets, batches padded in Python, validation after every epoch, the best
checkpoint kept. Our choice: batches are padded in the training process (`--num-workers 0`),
which takes a hundredth of a step.

A time is by the clock from the start of the process, imports included; molecules were
prepared before. After every epoch a row (system, epoch, seconds, valid_mae) joins
``time_to_accuracy.tsv`` in the folder. The same command goes on after an interruption, and
does not repeat what is complete. At the end it writes ``time_to_accuracy.svg`` and prints
the ratio of the times. Flags that it does not know go to both trainings, such as
``--data-root`` or ``--max-epoch 2``.
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import matplotlib
import torch
from fairseq import options, tasks, utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from released_grpe import ReleasedGRPE, graphs_of, pad, weights_of
from torch.nn import functional as F

EXAMPLES = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(EXAMPLES))

from fidelity.curves import MODELS, SETTINGS  # noqa: E402

import graphormer_plugin  # noqa: E402, F401  (registers the architectures)

matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402

OURS, RELEASED = "graphormer_plugin", "released computation"
MAE = 0.45
NAMES = ("system", "epoch", "seconds", "valid_mae")


def flags(seed: int, folder: Path, more: list[str]) -> list[str]:
    """Flags of both trainings; later flags win."""
    return [
        *["--user-dir", str(EXAMPLES.parent / "graphormer_plugin")],
        *[*SETTINGS.split(), "--adam-betas", "(0.9, 0.999)"],
        *["--arch", "grpe_small", *MODELS["grpe_small"].split()],
        *["--seed", str(seed), "--save-dir", str(folder), *more],
    ]


def rate(update: int, peak: float, warmup: int, total: int) -> float:
    """fairseq's linear warm-up and decay to 0 in an update, counted from 0."""
    if update <= warmup:
        return peak * update / warmup
    return peak * max(0.0, 1 - (update - warmup) / (total - warmup))


def train_released(arguments: list[str]) -> None:
    """Trains `ReleasedGRPE`; a line of JSON after every epoch, as fairseq logs it."""
    parser = options.get_training_parser()
    parsed = options.parse_args_and_arch(parser, arguments)
    cfg = convert_namespace_to_omegaconf(parsed)
    # As fairseq-train starts, so that weights and order of the data are the same.
    utils.set_torch_seed(cfg.common.seed)
    task = tasks.setup_task(cfg.task)
    ours, schema = task.build_model(cfg.model), task.store.schema
    model = ReleasedGRPE(
        ours.encoder.node_encoder.table_rows,
        schema.num_bond_types,
        num_layer=cfg.model.encoder_layers,
        d_model=cfg.model.encoder_embed_dim,
        nhead=cfg.model.encoder_attention_heads,
        dim_feedforward=cfg.model.encoder_ffn_embed_dim,
        max_hop=cfg.model.max_hop,
        dropout=cfg.model.dropout,
        attention_dropout=cfg.model.attention_dropout,
        perturb_noise=cfg.model.perturb_noise,
        paper=True,
    )
    state = weights_of(ours.state_dict(), cfg.model.max_hop, schema.num_bond_types)
    model.load_state_dict(state)
    del ours
    graphs = graphs_of(task.store.columns, task.store.target)
    peak, clip = cfg.optimization.lr[0], cfg.optimization.clip_norm
    warmup = cfg.lr_scheduler.warmup_updates
    total = cfg.lr_scheduler.total_num_update
    optimiser = torch.optim.AdamW(
        model.parameters(), peak, weight_decay=cfg.optimizer.weight_decay
    )
    batches = {}
    for split in ("train", "valid"):
        task.load_dataset(split)
        dataset = task.datasets[split]
        dataset.collator = lambda rows: pad([graphs[row] for row in rows])
        batches[split] = task.get_batch_iterator(
            dataset,
            max_sentences=cfg.dataset.batch_size,
            required_batch_size_multiple=1,
            seed=cfg.common.seed,
        )

    saved = Path(cfg.checkpoint.save_dir) / "released.pt"
    epoch = update = 0
    best = float("inf")
    if saved.exists():
        state = torch.load(saved)
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        epoch, update, best = state["epoch"], state["update"], state["best"]
        batches["train"].load_state_dict({"epoch": epoch + 1})
    while epoch < cfg.optimization.max_epoch:
        epoch += 1
        model.train()
        for batch in batches["train"].next_epoch_itr(shuffle=True):
            for group in optimiser.param_groups:
                group["lr"] = rate(update, peak, warmup, total)
            optimiser.zero_grad()
            F.l1_loss(model(batch), batch["target"]).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimiser.step()
            update += 1
        model.eval()
        error = count = 0
        with torch.no_grad():
            for batch in batches["valid"].next_epoch_itr(shuffle=False):
                error += (model(batch) - batch["target"]).abs().sum().item()
                count += len(batch["target"])
        mae = error / count
        print(json.dumps({"epoch": epoch, "valid_mae": mae}), flush=True)
        state = {"model": model.state_dict(), "epoch": epoch, "update": update}
        if mae < best:
            best = mae
            torch.save(state["model"], saved.with_name("best.pt"))
        state |= {"optimiser": optimiser.state_dict(), "best": best}
        torch.save(state, saved.with_suffix(".tmp"))
        os.replace(saved.with_suffix(".tmp"), saved)


def epochs_of(command: list[str], log: Path) -> Iterator[tuple[int, float, float]]:
    """Runs a training; epoch, seconds since its start, and validation MAE."""
    environment = {"PYTHONPATH": str(EXAMPLES.parent), **os.environ}
    start = time.perf_counter()
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        with open(log, "a") as file:
            for line in process.stdout:
                file.write(line)
                file.flush()
                if '"valid_mae"' in line:
                    stats = json.loads(line[line.index("{") :])
                    seconds = time.perf_counter() - start
                    yield stats["epoch"], seconds, float(stats["valid_mae"])
        if process.wait():
            raise SystemExit(f"error: the training failed, see {log}")
    finally:
        process.kill()
        process.wait()


def read(table: Path) -> list[dict]:
    """Rows of the table with numbers; none if there is no table."""
    if not table.exists():
        return []
    with open(table, newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return [
        row
        | {"epoch": int(row["epoch"])}
        | {name: float(row[name]) for name in NAMES[2:]}
        for row in rows
    ]


def train(system: str, folder: Path, seed: int, more: list[str]) -> None:
    """Trains a system and appends its epochs to the table."""
    run, table = folder / system.replace(" ", "_"), folder / "time_to_accuracy.tsv"
    run.mkdir(parents=True, exist_ok=True)
    script = [str(Path(__file__).resolve()), "--train-released"]
    if system == OURS:
        script, more = ["-m", "fairseq_cli.train"], ["--optimizer", "adamw", *more]
    command = [sys.executable, *script, *flags(seed, run, more)]
    before = [row for row in read(table) if row["system"] == system]
    offset = before[-1]["seconds"] if before else 0.0  # where an interrupted run was
    done = {row["epoch"] for row in before}
    for epoch, seconds, mae in epochs_of(command, run / "train.log"):
        if epoch in done:  # its checkpoint was not written before the interruption
            continue
        values = (system, epoch, f"{offset + seconds:.2f}", f"{mae:.4f}")
        with open(table, "a", newline="") as file:
            if file.tell() == 0:
                file.write("\t".join(NAMES) + "\n")
            file.write("\t".join(map(str, values)) + "\n")
        print(*values, sep="  ", flush=True)


def draw(rows: list[dict], path: Path) -> None:
    """Validation MAE over the time by the clock."""
    figure, axis = pyplot.subplots(figsize=(6, 3.8), layout="constrained")
    for system in dict.fromkeys(row["system"] for row in rows):
        own = [row for row in rows if row["system"] == system]
        seconds, values = ([row[name] for row in own] for name in NAMES[2:])
        axis.semilogx(seconds, values, "o-", markersize=3, label=system)
    axis.axhline(MAE, color="grey", linestyle=":")
    axis.set_xlabel("seconds")
    axis.set_ylabel("validation MAE")
    axis.grid(alpha=0.3)
    axis.legend(frameon=False)
    figure.savefig(path)
    pyplot.close(figure)


def report(rows: list[dict]) -> str:
    """Times to the target, seconds per epoch, and the ratios of both."""
    lines, reached, epochs = [], {}, {}
    for system in (OURS, RELEASED):
        own = [row for row in rows if row["system"] == system]
        ends = [row["seconds"] for row in own]
        lengths = [after - before for before, after in zip([0.0, *ends], ends)]
        # The first epoch has the start of the process in it.
        epochs[system] = statistics.median(lengths[1:] or lengths)
        below = [row for row in own if row["valid_mae"] <= MAE]
        text = f"MAE {own[-1]['valid_mae']:.3f} after {len(own)} epochs"
        if below:
            reached[system] = below[0]["seconds"]
            text = (
                f"{MAE} in {reached[system]:.0f} s, epoch {below[0]['epoch']}; {text}"
            )
        lines.append(f"{system}: {text}, {epochs[system]:.1f} s an epoch")
    lines.append(f"ratio of an epoch: {epochs[RELEASED] / epochs[OURS]:.2f}")
    if len(reached) == 2:
        ratio = reached[RELEASED] / reached[OURS]
        lines.append(f"ratio of the times to {MAE}: {ratio:.2f}")
    return "\n".join(lines)


def main() -> None:
    if sys.argv[1:2] == ["--train-released"]:
        return train_released(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("folder", type=Path, help="of the runs and of the results")
    parser.add_argument("--seed", type=int, default=1)
    arguments, more = parser.parse_known_args()
    for system in (OURS, RELEASED):
        train(system, arguments.folder, arguments.seed, more)
    rows = read(arguments.folder / "time_to_accuracy.tsv")
    draw(rows, arguments.folder / "time_to_accuracy.svg")
    print(report(rows))


if __name__ == "__main__":
    main()
