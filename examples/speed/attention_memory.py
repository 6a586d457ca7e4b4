"""Peak memory and time of the three paths of chromatic attention.

    python examples/speed/attention_memory.py

`plain` keeps [B, N, N, D] tensors for the gradients, `lean` computes attention in
parts, and again for the gradients, and the compiled function replaces both where it
fits. Measures steps (forward, backward; dropout as in training) of `cgt_small` on `nci`
molecules of 20 atoms and of `cgt_pattern` on graphs like PATTERN's, each path in a
process of its own. Prints the rise of the resident memory during the steps (Linux
only), the median time of the steps after the first, and the largest difference of the
outputs in evaluation mode.
"""

import argparse
import statistics
import time

import numpy as np
import torch
from measuring import alone, store_collator, train_steps
from torch import Tensor

from graphormer_plugin.data import DatasetOptions, get_store
from graphormer_plugin.models import build_model
from graphormer_plugin.modules.attention import compiled as compiled_attention

PATHS = ("plain", "lean", "compiled")
# Architecture, dataset, nodes of a graph (0: as they come), graphs in a batch.
CASES = [
    ("cgt_small", DatasetOptions(name="nci"), 20, 256),
    ("cgt_pattern", DatasetOptions(name="pattern", source="generated:64"), 0, 32),
]


def measure(
    arch: str, path: str, options: DatasetOptions, nodes: int, size: int, steps: int
) -> tuple[int, float, str, Tensor]:
    """Rise of the memory in bytes, seconds a step, shape of the batch, and outputs."""
    torch.manual_seed(0)
    store = get_store(options)
    compiled_attention.HAS_ATTENTION = compiled = path == "compiled"
    memory_path = "auto" if compiled else path
    model = build_model(arch, store.schema, store.targets, attention_memory=memory_path)
    graph_ids = np.array(store.splits["train"])
    if nodes:
        graph_ids = graph_ids[store.sizes[graph_ids] == nodes]
    collator = store_collator(store, model.batch_spec)
    batch = collator(np.resize(graph_ids, size))["net_input"]["batch"]
    mask = batch["node_mask"]
    shape = f"{len(mask)} graphs, {mask.sum() / len(mask):.0f} nodes, N {mask.shape[1]}"
    with torch.no_grad():
        out = model.eval()(batch)
    if out.dim() == 3:
        out = out[mask]
    few = collator(np.resize(graph_ids, 2))["net_input"]["batch"]
    model.train()(few).sum().backward()  # memory that any step needs
    rise, seconds = train_steps(model, batch, steps, time.perf_counter)
    return rise, statistics.median(seconds[1:]), shape, out.detach()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", choices=[case[0] for case in CASES], help="only this")
    parser.add_argument("--steps", type=int, default=4, help="two or more")
    parser.add_argument("--batch-size", type=int, help="graphs, instead of 256 or 32")
    args = parser.parse_args()
    for arch, options, nodes, size in CASES:
        if args.arch not in (None, arch):
            continue
        results = {}
        for path in PATHS:
            case = arch, path, options, nodes, args.batch_size or size, args.steps
            results[path] = alone(measure, *case)
        shape, threads = results["lean"][2], torch.get_num_threads()
        print(f"{arch}: {shape}, {threads} threads")
        for path, (rise, seconds, _, _) in results.items():
            print(f"{path:8} {rise / 2**20:7.0f} MiB {seconds:7.2f} s a step")
        plain = results["plain"]
        for path in PATHS[1:]:
            rise, seconds, _, out = results[path]
            print(
                f"plain : {path}  {plain[0] / rise:.1f}  {plain[1] / seconds:.2f}, "
                f"largest difference {(plain[3] - out).abs().max():.1e}"
            )


if __name__ == "__main__":
    main()
