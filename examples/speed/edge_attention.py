"""The two forms of GT's attention: edge by edge, and padded matrices with a mask.

    python examples/speed/edge_attention.py

Trains the same model in both forms on the same batches, alternating, so that a drifting
machine slows both alike: graphs of PATTERN's generator, `nci` molecules without features
of their bonds, and random graphs from dense to sparse, which show where one form overtakes
the other (`DENSE_PAIRS_PER_EDGE` in modules/graph_transformer_encoder.py). Molecules with
features of their bonds are computed edge by edge only; here their other form is the same
model with an edge for every pair of atoms, because the features of edges are updated in
every layer. A step is forward, backward and AdamW. Prints milliseconds a step (medians
over the rounds) and how many times as fast the sparse form is.
"""

import argparse
import statistics
import time

import numpy as np
import torch
from measuring import collator_of
from torch import Tensor

from graphormer_plugin.data import DatasetOptions, get_store
from graphormer_plugin.data.store import GraphStore
from graphormer_plugin.models import GraphModel, build_model

Batch = dict[str, Tensor]


def make_model(store: GraphStore, arch: str, **options) -> GraphModel:
    torch.manual_seed(1)
    return build_model(arch, store.schema, store.targets, pos_enc="none", **options)


def make_batch(store: GraphStore, model: GraphModel, size: int) -> Batch:
    """Graphs from the middle of the training split, sorted by size."""
    graph_ids = store.splits["train"]
    graph_ids = graph_ids[np.argsort(store.sizes[graph_ids], kind="stable")]
    first = max(0, (len(graph_ids) - size) // 2)
    collator = collator_of(store, model.batch_spec)
    return collator(graph_ids[first : first + size])["net_input"]["batch"]


def with_all_pairs(batch: Batch) -> Batch:
    """An edge for every pair of nodes."""
    node_graph = batch["node_graph"]
    pairs = (node_graph.unsqueeze(0) == node_graph.unsqueeze(1)).nonzero().T
    bonds = torch.ones(pairs.shape[1], dtype=batch["edge_bond"].dtype)
    return {**batch, "edge_index": pairs.contiguous(), "edge_bond": bonds}


def with_random_edges(batch: Batch, pairs_per_edge: int) -> Batch:
    """Random edges instead: one for every `pairs_per_edge` padded pairs."""
    graphs, columns = batch["node_mask"].shape
    node_graph = batch["node_graph"]
    sizes = batch["node_mask"].sum(1)
    first = sizes.cumsum(0) - sizes
    source = torch.randint(len(node_graph), (graphs * columns**2 // pairs_per_edge,))
    graph = node_graph[source]
    target = first[graph] + (torch.rand(len(source)) * sizes[graph]).long()
    return {**batch, "edge_index": torch.stack([source, target])}


def measure(runs: dict[str, tuple[GraphModel, Batch]], rounds: int) -> dict[str, float]:
    """Milliseconds a step of each run, medians, taking turns."""
    optimisers = {
        name: torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
        for name, (model, _) in runs.items()
    }
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, (model, batch) in runs.items():
            start = time.perf_counter()
            optimisers[name].zero_grad()
            model(batch).square().mean().backward()
            optimisers[name].step()
            if number:  # the first round warms up
                seconds[name].append(time.perf_counter() - start)
    return {name: 1000 * statistics.median(times) for name, times in seconds.items()}


def report(what: str, batch: Batch, runs: dict, rounds: int) -> None:
    graphs, columns = batch["node_mask"].shape
    edges = batch["edge_index"].shape[1]
    times = measure(runs, rounds)
    print(
        f"{what:36} {edges / graphs:7.0f} {graphs * columns**2 / edges:11.1f} "
        f"{times['sparse']:8.0f} {times['dense']:8.0f} "
        f"{times['dense'] / times['sparse']:7.2f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=16, help="of PATTERN")
    parser.add_argument("--molecules", type=int, default=128, help="of nci a batch")
    parser.add_argument("--layers", type=int, default=4, help="default: %(default)s")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=5, help="timed, after one more")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    pattern = get_store(DatasetOptions(name="pattern", source="generated:100"))
    nci = get_store(DatasetOptions(name="nci"))
    print(f"{args.layers} layers, {args.threads} threads; milliseconds a step")
    print(
        f"{'':36} {'edges a':>7} {'pairs per':>11} {'':>8} {'':>8} {'sparse':>7}\n"
        f"{'':36} {'graph':>7} {'edge':>11} {'sparse':>8} {'dense':>8} {'faster':>7}"
    )
    for what, store, arch, size in (
        (f"{args.batch_size} of PATTERN, width 80", pattern, "gt_sbm", args.batch_size),
        (f"{args.molecules} molecules, width 64", nci, "gt_zinc", args.molecules),
    ):
        models = {
            form: make_model(
                store,
                arch,
                encoder_layers=args.layers,
                no_edge_features=True,
                attention_form=form,
            )
            for form in ("sparse", "dense")
        }
        batch = make_batch(store, models["sparse"], size)
        runs = {form: (model, batch) for form, model in models.items()}
        report(what, batch, runs, args.rounds)
        for ratio in (4, 8, 16, 32):
            other = with_random_edges(batch, ratio)
            runs = {form: (model, other) for form, model in models.items()}
            report("  the same nodes, random edges", other, runs, args.rounds)
    model = make_model(nci, "gt_zinc", encoder_layers=args.layers)
    batch = make_batch(nci, model, args.molecules)
    runs = {"sparse": (model, batch), "dense": (model, with_all_pairs(batch))}
    what = f"{args.molecules} molecules, with bond features"
    report(what, batch, runs, args.rounds)


if __name__ == "__main__":
    main()
