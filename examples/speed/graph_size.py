"""Time and memory of a training step over the size of the graphs, and the largest graph.

    python examples/speed/graph_size.py
    python examples/speed/graph_size.py --largest

A graph is molecules of `nci` joined by single bonds into a tree, which keeps distances
short. Each system has a process of its own with one thread. A step is forward, backward and
Adam on one batch of graphs of one size, ``--nodes-per-batch`` nodes together. Prints the
processor time of a step and the rise of resident memory, both per graph.

``--largest`` prints the largest graph, to within 10 %, whose step fits into a process
with 8 GiB of private memory (``ulimit -d``).
"""

import argparse
import ctypes
import gc
import multiprocessing
import resource
import statistics
import time

import numpy as np
import torch
from measuring import alone, memory, restart_peak

from graphormer_plugin.data import DatasetOptions, get_store
from graphormer_plugin.data.batches.collator import GraphCollator
from graphormer_plugin.data.batches.fields.field_cache import compute_columns
from graphormer_plugin.models import build_model

ARCHITECTURES = ["grpe_small", "graphormer_slim", "cgt_zinc", "gt_zinc"]
SIZES = [16, 32, 64, 128, 256, 512, 1024, 2000]
LIMIT = 8 << 30


def joined_graph(store, nodes: int, seed: int) -> dict[str, np.ndarray]:
    """Columns of a graph of molecules; number i is bonded to number i / 2."""
    columns, random = store.columns, np.random.default_rng(seed)
    offsets = {name: columns[f"{name}_offset"] for name in ("node", "edge")}
    x, edges, bonds, starts = [], [], [], [0]
    while starts[-1] < nodes:
        graph = int(random.integers(len(store)))
        first, end = offsets["node"][graph : graph + 2]
        end = min(end, first + nodes - starts[-1])
        part = slice(*offsets["edge"][graph : graph + 2])
        ends = np.stack([columns["edge_src"][part], columns["edge_dst"][part]])
        kept = (ends < end - first).all(0)  # the last molecule is cut off
        x.append(columns["x"][first:end])
        edges.append(ends[:, kept].astype(np.int64) + starts[-1])
        bonds.append(columns["edge_bond"][part][kept])
        parent = starts[(len(starts) - 1) // 2]
        if starts[-1]:
            link = np.array([[parent, starts[-1]], [starts[-1], parent]])
            edges.append(link)
            bonds.append(np.ones(2, bonds[0].dtype))
        starts.append(starts[-1] + int(end - first))
    ends, bond = np.concatenate(edges, 1), np.concatenate(bonds)
    order = np.lexsort((bond, *ends[::-1]))
    return {
        "node_offset": np.array([0, nodes]),
        "edge_offset": np.array([0, len(order)]),
        "x": np.concatenate(x),
        "edge_src": ends[0][order].astype(np.int32),
        "edge_dst": ends[1][order].astype(np.int32),
        "edge_bond": bond[order],
    }


def measure(arch: str, nodes: int, at_once: int, limit: int) -> dict[str, float]:
    """Processor time and memory of a step on ``at_once`` graphs; None if they are too
    large."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    store = get_store(DatasetOptions(name="nci"))
    model = build_model(arch, store.schema, store.targets).train()
    optimizer = torch.optim.Adam(model.parameters(), 1e-4)
    columns = joined_graph(store, nodes, seed=nodes)
    if limit:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    try:
        columns |= compute_columns(columns, model.batch_spec)
        collator = GraphCollator(
            columns,
            np.zeros((1, 1), np.float32),
            num_bond_types=store.schema.num_bond_types,
            spec=model.batch_spec,
        )
        gc.collect()
        ctypes.CDLL("libc.so.6").malloc_trim(0)  # gives back what earlier graphs took
        before, seconds = restart_peak(), []
        for _ in range(1 if limit or nodes > 500 else 3):
            start = time.process_time()
            batch = collator(np.zeros(at_once, np.int64))["net_input"]["batch"]
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
            seconds.append(time.process_time() - start)
    except (RuntimeError, MemoryError, ValueError) as error:
        if not limit:
            raise
        return {"error": str(error).splitlines()[0][:100]}
    return {
        "seconds": statistics.median(seconds) / at_once,
        "bytes": (memory("VmHWM") - before) / at_once,
        "peak": memory("VmHWM"),
    }


def largest(arch: str, start: int) -> tuple[int, float]:
    """Nodes of the largest graph that trains within the limit, and the step's seconds."""
    good, bad, seconds, nodes = 0, 0, 0.0, start
    while not bad or bad > 1.1 * good:
        found = alone(measure, arch, nodes, 1, LIMIT)
        print(arch, nodes, found, flush=True)
        if "error" in found:
            bad = nodes
        else:
            good, seconds = nodes, found["seconds"]
        nodes = (good + bad) // 2 if good and bad else good * 5 // 4 or bad * 3 // 4
    return good, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes-per-batch", type=int, default=2048)
    parser.add_argument("--arch", choices=ARCHITECTURES, help="only this")
    parser.add_argument("--largest", action="store_true", help="the largest graph only")
    parser.add_argument("--start", type=int, default=2500, help="of --largest: nodes")
    args = parser.parse_args()
    for arch in [args.arch] if args.arch else ARCHITECTURES:
        if args.largest:
            nodes, seconds = largest(arch, args.start)
            print(f"{arch}: {nodes} nodes, {seconds:.0f} s", flush=True)
            continue
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            for nodes in SIZES:
                at_once = max(1, args.nodes_per_batch // nodes)
                found = pool.apply(measure, (arch, nodes, at_once, 0))
                ms, mib = found["seconds"] * 1e3, found["bytes"] / 2**20
                print(f"{arch}, {nodes} nodes: {ms:.3g} ms, {mib:.3g} MiB", flush=True)


if __name__ == "__main__":
    main()
