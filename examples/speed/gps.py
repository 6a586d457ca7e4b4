"""GPS beside PyG's GPSConv: CPU time of a training, and its losses.

    python examples/speed/gps.py --csv zinc.csv --molecules 2000

Both are `gps_zinc` with the same inputs, head, settings and batches. In one of them each layer is
`GPSConv` with `GINEConv`; its other parts are those of this package. They take turns, an epoch
each. Prints the mean absolute error of every epoch in training and of the validation molecules
afterwards, and the ratio of the CPU times.
"""

import argparse
import statistics
from collections.abc import Callable

import torch
from measuring import in_turn, ratio, store_collator
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import GINEConv, GPSConv

from graphormer_plugin.data import DatasetOptions, get_store
from graphormer_plugin.models import build_model
from graphormer_plugin.models._base import GraphModel
from graphormer_plugin.modules import Edges, NodeLayout

BATCH = 32  # graphs, as in GraphGPS's configuration of ZINC


class PyGLayer(nn.Module):
    """PyG's layer, called as `GPSLayer` is."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        maps = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))
        dropout = {"dropout": 0.5}
        self.conv = GPSConv(dim, GINEConv(maps), heads=4, attn_kwargs=dropout)

    def forward(
        self, x: Tensor, edges: Edges, layout: NodeLayout, attn_bias: Tensor
    ) -> tuple[Tensor, Edges]:
        vectors = edges.vectors(None)
        x = self.conv(x, edges.index, layout.node_graph, edge_attr=vectors)
        return x, edges


def make_epoch(
    name: str, model: GraphModel, train: list[dict], valid: list[dict]
) -> Callable[[], None]:
    """A function that trains an epoch and prints the errors."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def error(sample: dict) -> Tensor:
        return F.l1_loss(model(sample["net_input"]["batch"]), sample["target"])

    def epoch() -> None:
        losses = []
        model.train()
        for sample in train:
            optimiser.zero_grad()
            loss = error(sample)
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        model.eval()
        with torch.no_grad():
            errors = [error(sample).item() for sample in valid]
        means = f"{statistics.mean(losses):.4f} {statistics.mean(errors):.4f}"
        print(f"{name:8} train, valid {means}", flush=True)

    return epoch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--csv", default="nci", help="default: RDKit's NCI")
    parser.add_argument("--molecules", type=int, default=1000, help="for training")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    store = get_store(DatasetOptions(name=args.csv))
    models = {}
    for name in ("here", "GPSConv"):
        torch.manual_seed(args.seed)
        model = build_model("gps_zinc", store.schema, store.targets)
        if name == "GPSConv":
            layers = [PyGLayer(model.embed_dim) for _ in model.encoder.layers]
            model.encoder.layers = nn.ModuleList(layers)
        weights = sum(weight.numel() for weight in model.parameters())
        print(f"{name:8} {weights:,} weights")
        models[name] = model
    collator = store_collator(store, models["here"].batch_spec)

    def batches(split: str, number: int) -> list[dict]:
        graphs = torch.tensor(store.splits[split][:number])
        return [collator(part.numpy()) for part in graphs.split(BATCH)]

    train = batches("train", args.molecules)
    valid = batches("valid", args.molecules // 4)
    ways = {
        name: make_epoch(name, model, train, valid) for name, model in models.items()
    }
    seconds, _ = in_turn(ways, args.epochs)
    for name, times in seconds.items():
        rate = len(train) * BATCH / statistics.median(times)
        print(f"{name:8} {rate:6.0f} graphs/s of training and validation")
    print(ratio(seconds["GPSConv"], seconds["here"]))


if __name__ == "__main__":
    main()
