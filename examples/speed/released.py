"""Layers of GRIT and Exphormer beside those of their released code: CPU time of training.

    git clone https://github.com/LiamMa/GRIT
    git clone https://github.com/hamed1375/Exphormer
    python examples/speed/released.py --grit GRIT --exphormer Exphormer

Ten layers of GRIT, 64 wide, with the same weights, and ten attentions of Exphormer along the
bonds and an expander of degree 5, forward and backward, on 32 random graphs of 14 to 31 nodes.
They take turns. torch_scatter, which the released code imports, is stood in for by
`index_add`. Prints milliseconds of CPU time, their ratio and, of GRIT, the largest difference
of the results.
"""

import argparse
import importlib.util
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from measuring import in_turn, ratio
from torch import Tensor, nn
from torch_geometric.data import Batch

from graphormer_plugin.modules.attention.edge import GivenEdgeAttention, GivenEdges
from graphormer_plugin.modules.encoders.grit import GRITEncoderConfig, GRITLayer
from graphormer_plugin.modules.layers.sparse import NodeLayout

WIDTH, LAYERS, GRAPHS = 64, 10, 32
NAMES = {  # of the released layer
    "attention.Q": "attention.query",
    "attention.K": "attention.key",
    "attention.V": "attention.value",
    "attention.E": "attention.pair",
    "O_h": "out_proj",
    "O_e": "pair_proj",
    "FFN_h_layer1": "fc1",
    "FFN_h_layer2": "fc2",
}


class Config(dict):
    """A dictionary whose keys are attributes, as yacs has it."""

    __getattr__ = dict.__getitem__


def added(
    values: Tensor,
    index: Tensor,
    dim: int = 0,
    out: Tensor | None = None,
    dim_size: int | None = None,
    reduce: str = "add",
) -> Tensor:
    """Sums of rows, as `torch_scatter.scatter`."""
    if out is None:
        size = int(index.max()) + 1 if dim_size is None else dim_size
        out = values.new_zeros(size, *values.shape[1:])
    return out.index_add_(0, index, values)


def largest(
    values: Tensor, index: Tensor, dim: int = 0, dim_size: int = 0
) -> tuple[Tensor, None]:
    """Largest rows, as `torch_scatter.scatter_max`."""
    out = values.new_full((dim_size, *values.shape[1:]), -torch.inf)
    rows = index.view(-1, 1, 1).expand_as(values)
    return out.scatter_reduce(0, rows, values, "amax"), None


def released(folder: Path, file: str) -> ModuleType:
    """A module of released code, without the packages that its layers do not need."""
    import torch_geometric.graphgym.register as register

    register.act_dict.setdefault("relu", nn.ReLU)
    contents: dict[str, dict[str, Any]] = {
        "torch_scatter": {
            "scatter": added,
            "scatter_add": added,
            "scatter_max": largest,
        },
        "opt_einsum": {"contract": lambda formula, *x, backend: einsum(formula, *x)},
        "yacs": {},
        "yacs.config": {"CfgNode": Config},
        "grit.utils": {"negate_edge_index": None},
    }
    for name, content in contents.items():
        module = sys.modules[name] = ModuleType(name)
        vars(module).update(content)
    spec = importlib.util.spec_from_file_location(folder.name, folder / file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def einsum(formula: str, *tensors: Tensor) -> Tensor:
    return torch.einsum(formula.replace(" ", ""), *tensors)


def graphs() -> tuple[NodeLayout, Tensor]:
    """Layout of random graphs, and their nodes."""
    sizes = torch.randint(14, 32, (GRAPHS,))
    mask = torch.arange(int(sizes.max())) < sizes[:, None]
    layout = NodeLayout(mask, torch.arange(GRAPHS).repeat_interleave(sizes))
    return layout, torch.randn(int(sizes.sum()), WIDTH)


def grit(folder: Path) -> dict[str, Callable[[], Tensor]]:
    """The released layers and ours, which have their weights."""
    layout, x = graphs()
    pairs = layout.all_pairs(loops=True)
    states, degree = torch.randn(pairs.shape[1], WIDTH), torch.rand(len(x), 1)
    layer = released(folder, "grit/layer/grit_layer.py").GritTransformerLayer
    config = Config(bn_momentum=0.1, bn_no_runner=False, attn=Config())
    theirs = nn.ModuleList(layer(WIDTH, WIDTH, 8, cfg=config) for _ in range(LAYERS))
    ours = nn.ModuleList(
        GRITLayer(GRITEncoderConfig(attention_dropout=0.0), last=False) for _ in theirs
    )
    for one, other in zip(theirs, ours):
        for name, name_here in NAMES.items():
            weights = one.get_submodule(name).state_dict()
            other.get_submodule(name_here).load_state_dict(weights)
        with torch.no_grad():
            other.attention.score.copy_(one.attention.Aw.squeeze(-1).T)
            other.attention.pair_value.copy_(one.attention.VeRow.permute(1, 0, 2))
            other.degree_scale.copy_(one.deg_coef[0].T)

    def _theirs() -> Tensor:
        batch = Batch(x=x, edge_index=pairs, edge_attr=states, log_deg=degree)
        for layer in theirs:
            batch = layer(batch)
        (batch.x.sum() + batch.edge_attr.sum()).backward()
        return batch.x

    def _ours() -> Tensor:
        h, e = x, states
        for layer in ours:
            h, e = layer(h, e, pairs, layout, degree)
        (h.sum() + e.sum()).backward()
        return h

    return {"released": _theirs, "here": _ours}


def exphormer(folder: Path) -> dict[str, Callable[[], Tensor]]:
    """Released attentions and ours, along 7 edges of each node."""
    layout, x = graphs()
    pairs = layout.all_pairs()
    chosen = torch.rand(pairs.shape[1]).argsort()[: 7 * len(x)]
    index, kind = pairs[:, chosen], torch.randint(3, (len(chosen),))
    vectors = torch.randn(3, WIDTH)
    layer = released(folder, "graphgps/layer/Exphormer.py").ExphormerAttention
    theirs = nn.ModuleList(layer(WIDTH, WIDTH, 4, False) for _ in range(LAYERS))
    ours = nn.ModuleList(GivenEdgeAttention(WIDTH, 4) for _ in theirs)

    def _theirs() -> Tensor:
        batch = Batch(x=x, batch=layout.node_graph)
        batch.expander_edge_index, batch.expander_edge_attr = index, vectors[kind]
        for layer in theirs:
            batch.x = batch.x + layer(batch)
        batch.x.sum().backward()
        return batch.x

    def _ours() -> Tensor:
        h, given = x, GivenEdges(index, kind, vectors, len(x))
        for layer in ours:
            h = h + layer(h, given)
        h.sum().backward()
        return h

    return {"released": _theirs, "here": _ours}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--grit", type=Path, help="clone of LiamMa/GRIT")
    parser.add_argument("--exphormer", type=Path, help="clone of hamed1375/Exphormer")
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name, make in (("grit", grit), ("exphormer", exphormer)):
        folder = getattr(args, name)
        if folder is None:
            continue
        torch.manual_seed(0)
        seconds, results = in_turn(make(folder), args.rounds)
        medians = {way: statistics.median(times) for way, times in seconds.items()}
        times = ", ".join(f"{way} {1e3 * t:.0f} ms" for way, t in medians.items())
        print(f"{name}: {times}, {ratio(seconds['released'], seconds['here'])}")
        if name == "grit":
            difference = (results["released"] - results["here"]).detach().abs().max()
            print(f"grit: largest difference {float(difference):.1e}")


if __name__ == "__main__":
    main()
