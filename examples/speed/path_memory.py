"""Peak memory of Graphormer's edge encoding, next to the way of its formula.

    python examples/speed/path_memory.py

Eq. 7 of Ying et al. 2021 read literally looks up a vector of H numbers for every step of
every path, [B, N, N, L, H], and multiplies it by the weights of that step. Here a table of
step x bond type x head is made first and its rows are summed. Both compute the bias of one
batch of random molecule-sized graphs, forward and backward, each in a process of its own;
prints how far the resident memory rises above that before (Linux only), and the largest
difference of the two results.
"""

import argparse
import multiprocessing

import torch
from measuring import memory, restart_peak
from torch import Tensor

from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.modules.attn_bias import PathEncoding
from graphormer_plugin.modules.bond_encoder import BondEncoder


def literal(encoding: PathEncoding, path_bond: Tensor, dist: Tensor) -> Tensor:
    """Eq. 7 step by step: looked-up vectors, weights, sum over the path, mean."""
    vectors = encoding.bonds()[path_bond.long()]  # [B, N, N, L, H]
    weighted = torch.einsum("bijlh,lhk->bijlk", vectors, encoding.weight)
    return weighted.sum(3) / encoding.steps[dist.int()].unsqueeze(-1)


WAYS = {"literal": literal, "tables": PathEncoding.forward}


def measure(way: str, args: argparse.Namespace) -> tuple[int, Tensor]:
    """Rise of the memory in bytes, and the bias [B, N, N, H]."""
    torch.manual_seed(0)
    schema = FeatureSchema(1, bond_dims=[5, 6, 2])  # OGB's columns, 60 types
    bonds = BondEncoder(schema, args.heads)
    encoding = PathEncoding(bonds, args.steps)
    shape = (args.batch_size, args.nodes, args.nodes)
    dist = torch.randint(0, 9, shape, dtype=torch.uint8)
    path_bond = torch.randint(1, 61, (*shape, args.steps), dtype=torch.uint8)
    path_bond[torch.arange(args.steps) >= dist.unsqueeze(-1)] = 0
    before = restart_peak()
    bias = WAYS[way](encoding, path_bond, dist)
    bias.sum().backward()
    return memory("VmHWM") - before, bias.detach()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=128, help="graphs B")
    parser.add_argument("--nodes", type=int, default=21, help="nodes N")
    parser.add_argument("--steps", type=int, default=5, help="edges of a path L")
    parser.add_argument("--heads", type=int, default=32, help="heads H")
    args = parser.parse_args()
    results = {}
    for way in WAYS:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            results[way] = pool.apply(measure, (way, args))
    (literal_rise, expected), (tables_rise, bias) = results.values()
    print(
        f"B {args.batch_size}, N {args.nodes}, L {args.steps}, H {args.heads}: largest "
        f"difference {(expected - bias).abs().max():.1e} of {expected.abs().max():.1e}"
    )
    for way, (rise, _) in results.items():
        print(f"{way:8} {rise / 2**20:7.1f} MiB")
    print(f"ratio {literal_rise / tables_rise:.1f}")


if __name__ == "__main__":
    main()
