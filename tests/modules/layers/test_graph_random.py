"""Random numbers of a graph: SplitMix64, and the same in any batch."""

import torch

from graphormer_plugin.modules.layers.graph_random import (
    _GOLDEN,
    FLAG,
    SIGNS,
    _mixed,
    graph_seeds,
    uniform,
)

LIKE = torch.empty(0)


def test_the_numbers_are_those_of_splitmix64():
    def in_python(state, count):
        found, limit = [], 2**64
        for _ in range(count):
            state = (state + 0x9E3779B97F4A7C15) % limit
            z = state
            z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % limit
            z = (z ^ (z >> 27)) * 0x94D049BB133111EB % limit
            found.append(z ^ (z >> 31))
        return found

    for seed in (0, 1234567, 2**63 - 1):
        bits = _mixed(torch.tensor([seed]) + torch.arange(1, 6) * _GOLDEN)
        assert [int(b) % 2**64 for b in bits] == in_python(seed, 5)


def test_a_graph_has_its_numbers_in_any_batch():
    seeds = graph_seeds(1, 7, torch.tensor([3, 10, 4]))
    padded = uniform(seeds, torch.Size([3, 9, 4]), FLAG, LIKE)

    def alone(seed, update, stream):
        own = graph_seeds(seed, update, torch.tensor([10]))
        return uniform(own, torch.Size([1, 5, 4]), stream, LIKE)

    assert torch.equal(padded[1:2, :5], alone(1, 7, FLAG))
    for other in ((2, 7, FLAG), (1, 8, FLAG), (1, 7, SIGNS)):
        assert (alone(*other) != alone(1, 7, FLAG)).all()


def test_uniform():
    seeds = graph_seeds(-1, 0, torch.arange(1000))
    numbers = uniform(seeds, torch.Size([1000, 500]), FLAG, LIKE).double()
    assert -1 <= numbers.min() < -0.9999 and 0.9999 < numbers.max() < 1
    # standard errors: 0.0008 of a mean of 500,000, 0.026 of one of 500, 0.045 of a
    # correlation of 500
    assert abs(numbers.mean()) < 0.004 and abs(numbers.square().mean() - 1 / 3) < 0.003
    assert numbers.mean(0).abs().max() < 0.1 and numbers.mean(1).abs().max() < 0.13
    assert torch.corrcoef(numbers[:100]).triu(1).abs().max() < 0.25
    unseeded = (uniform(None, torch.Size([2, 3]), FLAG, LIKE) for _ in range(2))
    assert not torch.equal(*unseeded)
