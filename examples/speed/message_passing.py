"""Training steps of the message-passing baselines on graphs of PATTERN's generator.

    python examples/speed/message_passing.py pna gatedgcn mpnn

A step is forward, backward and AdamW. Prints the median of milliseconds a step, by the
clock and of CPU time, which counts all threads and no other work on the machine, and with
--profile the operations that take the time.
"""

import argparse
import statistics
import time

import torch
from measuring import collator_of

from graphormer_plugin.data import DatasetOptions, get_store
from graphormer_plugin.models import GraphModel, build_model


def step(
    model: GraphModel, batch: dict, optimiser: torch.optim.Optimizer
) -> tuple[float, float]:
    """Milliseconds by the clock and of CPU time."""
    start, cpu = time.perf_counter(), time.process_time()
    optimiser.zero_grad()
    model(batch).square().mean().backward()
    optimiser.step()
    elapsed, cpu = time.perf_counter() - start, time.process_time() - cpu
    return 1000 * elapsed, 1000 * cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("archs", nargs="+", help="names for --arch")
    parser.add_argument("--batch-size", type=int, default=8, help="graphs of PATTERN")
    parser.add_argument("--threads", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="timed, after one more")
    parser.add_argument("--profile", action="store_true", help="of one more step")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    store = get_store(DatasetOptions(name="pattern", source="generated:100"))
    graph_ids = store.splits["train"][: args.batch_size]
    for arch in args.archs:
        torch.manual_seed(1)
        model = build_model(arch, store.schema, store.targets)
        collator = collator_of(store, model.batch_spec)
        batch = collator(graph_ids)["net_input"]["batch"]
        optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
        times = [step(model, batch, optimiser) for _ in range(args.rounds + 1)][1:]
        edges = batch["edge_index"].shape[1]
        elapsed, cpu = map(statistics.median, zip(*times))
        print(
            f"{arch:10} {len(graph_ids)} graphs, {edges} edges: "
            f"{elapsed:7.0f} ms a step, {cpu:7.0f} ms of CPU time",
            flush=True,
        )
        if args.profile:
            with torch.profiler.profile() as profile:
                step(model, batch, optimiser)
            averages = profile.key_averages()
            print(averages.table(sort_by="self_cpu_time_total", row_limit=12))


if __name__ == "__main__":
    main()
