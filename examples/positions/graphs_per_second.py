"""Graphs a second of our models with positions and of schnetpack's, in turns on one core.

    python examples/positions/graphs_per_second.py STORE ROWS.npz --peers SITE_PACKAGES

ROWS.npz is of STORE, by `rows.py`. A turn is a training step (loss, gradients, Adam) or a
prediction of the same graphs with each model, without the making of batches. A line has the
graphs a second of CPU time, the median of the turns.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import peers
import torch
from torch_geometric.data import Data

sys.path.append(str(Path(__file__).parents[1] / "speed"))
from measuring import in_turn

from graphormer_plugin.data.store import GraphStore
from graphormer_plugin.pyg import build_model, graph_loader

GAUSSIANS = {"pair_encodings": "gaussians", "gaussian_kernels": 32}
OURS = {
    "graphormer_slim": GAUSSIANS,
    "grpe_small": GAUSSIANS,
    "cgt_zinc": GAUSSIANS,
}


def graphs_of(store: GraphStore, ids: np.ndarray) -> list[Data]:
    """Graphs of a store for PyG, with elements as their only column."""
    columns = store.columns
    graphs = []
    for graph in ids:
        nodes = slice(*columns["node_offset"][graph : graph + 2])
        edges = slice(*columns["edge_offset"][graph : graph + 2])
        ends = np.stack([columns["edge_src"][edges], columns["edge_dst"][edges]])
        graphs.append(
            Data(
                x=torch.tensor(columns["x"][nodes, :1], dtype=torch.long),
                edge_index=torch.tensor(ends, dtype=torch.long),
                edge_attr=torch.tensor(columns["edge_bond"][edges], dtype=torch.long),
                pos=torch.tensor(columns["pos"][nodes]),
                y=torch.tensor(store.target[graph, :1]),
            )
        )
    return graphs


def step_of(model: torch.nn.Module, loss: Callable[[], torch.Tensor]) -> Callable:
    """A training step."""
    optimizer = torch.optim.Adam(model.parameters())

    def _step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return _step


def main(words: list[str] | None = None) -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store")
    parser.add_argument("rows")
    parser.add_argument("--peers", help="site-packages with schnetpack")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--turns", type=int, default=5)
    args = parser.parse_args(words)
    torch.set_num_threads(1)
    store = GraphStore.open(args.store)
    ids = np.arange(args.batch_size)
    graphs = graphs_of(store, ids)
    models = {}
    losses = {}
    for name, options in OURS.items():
        model = models[name] = build_model(name, graphs, **options)
        batch, target = next(iter(graph_loader(graphs, model, batch_size=len(graphs))))
        losses[name] = lambda model=model, batch=batch, target=target: (
            (model(batch) - target).abs().mean()
        )
    if args.peers:
        # schnetpack's metrics would load fairseq's torchaudio, which may be for another torch.
        sys.modules["torchaudio"] = None
        sys.path.append(args.peers)
        rows = peers.Rows(args.rows)
        for name in ("schnet", "painn"):
            model = models[name] = peers.build(name, with_forces=False)
            batch = rows.batch(ids)
            losses[name] = lambda model=model, batch=batch: peers.loss_of(
                model, dict(batch), 0
            )
    for model in models.values():
        model.train()
    steps = {name: step_of(models[name], losses[name]) for name in models}
    training = measured(steps, args.turns)
    for model in models.values():
        model.eval()
    with torch.no_grad():
        prediction = measured(losses, args.turns)
    print("model", "weights", "training", "prediction", sep="\t")
    for name, model in models.items():
        weights = sum(weight.numel() for weight in model.parameters())
        rates = [args.batch_size / seconds[name] for seconds in (training, prediction)]
        print(name, weights, *(round(rate) for rate in rates), sep="\t")


def measured(actions: dict[str, Callable], turns: int) -> dict[str, float]:
    """Median CPU seconds of each action over the turns; a first turn does not count."""
    seconds, _ = in_turn(actions, turns + 1)
    return {name: float(np.median(parts[1:])) for name, parts in seconds.items()}


if __name__ == "__main__":
    main()
