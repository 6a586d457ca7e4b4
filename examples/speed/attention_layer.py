"""Attention of one layer of GRPE and Graphormer: compiled, compared with torch.

    python examples/speed/attention_layer.py

Measures the attention of random queries, keys, values, relations and biases without its
linear maps, forward and backward, with dropout 0.1 and no padding. The two take turns.
Prints milliseconds of CPU time, the medians of the rounds, and their ratio.
"""

import argparse
import statistics
from collections.abc import Callable
from functools import partial

import torch
from measuring import in_turn
from torch import Tensor, nn

from graphormer_plugin.modules import RelationTables
from graphormer_plugin.modules.attention import biased as biased_attention
from graphormer_plugin.modules.attention import compiled as compiled_attention
from graphormer_plugin.modules.attention import relative as relative_attention

# Graphs, nodes, heads, width of a head.
SHAPES = (
    (128, 18, 8, 10),
    (8, 120, 8, 10),
    (1, 1500, 8, 10),
    (128, 18, 32, 24),
    (32, 18, 12, 64),
)
RELATIONS = 40  # number of topology and bond types together


class Given(nn.Module):
    """Queries, keys and values instead of a map of the states."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.qkv = nn.Parameter(torch.randn(shape))

    def forward(self, x: Tensor) -> Tensor:
        return self.qkv


def arguments(shape: tuple[int, ...], arch: str) -> tuple:
    """A module without its linear maps, and the arguments of its forward."""
    graphs, nodes, heads, width = shape
    states = torch.empty(graphs, nodes, heads * width)
    if arch == "Graphormer":
        module = biased_attention.BiasedAttention(heads * width, heads, 0.1)
        bias = torch.randn(graphs, heads, nodes, nodes, requires_grad=True)
        inputs = states, bias
    else:
        module = relative_attention.RelativeAttention(heads * width, heads, 0.1)
        vectors = torch.randn(3, heads, RELATIONS + 1, width)
        vectors[:, :, -1] = 0  # forbids a pair
        tables = RelationTables(*vectors.requires_grad_().unbind())
        inputs = states, tables, torch.randint(RELATIONS, (graphs, nodes, nodes))
    module.qkv_proj = Given(graphs, nodes, 3 * heads * width)
    module.out_proj = nn.Identity()
    return module, inputs


def step(compiled: bool, module: Callable, inputs: tuple) -> None:
    """Forward and backward pass, compiled or by torch."""
    compiled_attention.HAS_ATTENTION = compiled
    module(*inputs).sum().backward(retain_graph=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15, help="timed, after one more")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print("graphs, nodes, heads x width, milliseconds: torch, compiled, ratio")
    for shape in SHAPES:
        for arch in ("GRPE", "Graphormer"):
            case = arguments(shape, arch)
            ways = {str(way): partial(step, way, *case) for way in (False, True)}
            seconds, _ = in_turn(ways, args.rounds + 1)
            # The first round warms up.
            torch_ms, ms = (1e3 * statistics.median(t[1:]) for t in seconds.values())
            graphs, nodes, heads, width = shape
            print(
                f"{graphs:4} {nodes:5} {heads:3} x {width:2}  {arch:10} "
                f"{torch_ms:8.1f} {ms:8.1f} {torch_ms / ms:6.2f}"
            )


if __name__ == "__main__":
    main()
