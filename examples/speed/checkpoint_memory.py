"""Peak memory and time of training steps with and without --checkpoint-activations.

    python examples/speed/checkpoint_memory.py

Measures steps (forward, backward; dropout as in training) on `nci` molecules, each case
in a process of its own. Prints the rise of the resident memory during the steps (Linux
only), the median processor time of a step, and the ratios.
"""

import argparse
import statistics

import torch
from measuring import alone, store_collator, train_steps

from graphormer_plugin.data import DatasetOptions, get_store
from graphormer_plugin.models import build_model

ARCHITECTURES = ["grpe_small", "graphormer_paper_slim", "cgt_zinc", "gt_zinc"]


def measure(arch: str, checkpoint: bool, size: int, steps: int) -> tuple[int, float]:
    """Rise of the memory in bytes, and processor time of a step in seconds."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    store = get_store(DatasetOptions(name="nci"))
    model = build_model(
        arch, store.schema, store.targets, checkpoint_activations=checkpoint
    ).train()
    collator = store_collator(store, model.batch_spec)
    graph_ids = store.splits["train"]
    model(collator(graph_ids[:2])["net_input"]["batch"]).sum().backward()
    batch = collator(graph_ids[:size])["net_input"]["batch"]
    rise, seconds = train_steps(model, batch, steps)
    return rise, statistics.median(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=128, help="graphs")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--arch", choices=ARCHITECTURES, help="only this")
    args = parser.parse_args()
    for arch in [args.arch] if args.arch else ARCHITECTURES:
        (plain, before), (less, after) = (
            alone(measure, arch, checkpoint, args.batch_size, args.steps)
            for checkpoint in (False, True)
        )
        print(
            f"{arch}: {plain / 2**20:.0f} -> {less / 2**20:.0f} MiB "
            f"({less / plain:.2f}), {before * 1e3:.0f} -> {after * 1e3:.0f} ms "
            f"({after / before:.2f})"
        )


if __name__ == "__main__":
    main()
