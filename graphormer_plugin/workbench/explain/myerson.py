"""Myerson values: shares of the parts of a molecule in its prediction that add up to it.

The Myerson value (Myerson 1977) is the Shapley value of a game in which only connected parts
act together: a set of parts is worth the sum over its connected components.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import numpy as np

from graphormer_plugin.estimators.kernels import Floats

Worth = Callable[[Sequence[int]], Floats]  # of connected sets, as bits: [sets]
MOST_SETS = 10_000  # connected sets up to which values are exact; our choice
ORDERS = 100  # orders of the parts that are sampled beyond


def connected_sets(neighbours: Sequence[int]) -> Iterator[int]:
    """Yield each connected set of nodes of a graph once, as bits; ``neighbours`` of each node
    are bits, too."""
    for first in range(len(neighbours)):
        below = (1 << first) - 1  # sets with these are there already
        stack = [(1 << first, neighbours[first] & ~below, below)]
        while stack:
            chosen, beside, refused = stack.pop()
            if not beside:
                yield chosen
                continue
            node = beside & -beside
            near = neighbours[node.bit_length() - 1]
            stack.append((chosen, beside ^ node, refused | node))
            more = (beside ^ node) | (near & ~(chosen | refused))
            stack.append((chosen | node, more, refused))


def myerson_values(neighbours: Sequence[int], worth: Worth) -> tuple[Floats, Floats]:
    """Myerson values of the nodes of a graph, and their standard errors [N].

    With v(C) the worth of a connected set C of c nodes, whose neighbours outside are b nodes,
    each node of C gets v(C) (c - 1)! b! / (c + b)!, and each of these neighbours
    -v(C) c! (b - 1)! / (c + b)!. Of a graph with more than `MOST_SETS`, the mean over `ORDERS`
    random orders of the nodes is taken: a node gets what the worth rises by when it joins.
    """
    sets = [*islice(connected_sets(neighbours), MOST_SETS + 1)]
    count = len(neighbours)
    if len(sets) > MOST_SETS:
        return _sampled(neighbours, worth)
    values = np.zeros(count)
    for members, own in zip(sets, worth(sets).tolist(), strict=True):
        inside = bits(members)
        outside = bits(_around(neighbours, members))
        c = len(inside)
        b = len(outside)
        values[inside] += own / (c * math.comb(c + b, c))
        values[outside] -= own / (max(b, 1) * math.comb(c + b, c))
    return values, np.zeros(count)


def _sampled(neighbours: Sequence[int], worth: Worth) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(1)
    steps = []  # order, node, component that it makes, those that it joins
    for order in range(ORDERS):
        components: list[int] = []
        for node in rng.permutation(len(neighbours)).tolist():
            joined = [part for part in components if part & neighbours[node]]
            merged = sum(joined) | 1 << node
            components = [part for part in components if part not in joined] + [merged]
            steps.append((order, node, merged, joined))
    sets = [*dict.fromkeys(part for step in steps for part in (step[2], *step[3]))]
    worth_of = dict(zip(sets, worth(sets).tolist(), strict=True))
    values = np.empty((ORDERS, len(neighbours)))
    for order, node, merged, joined in steps:
        values[order, node] = worth_of[merged] - sum(map(worth_of.get, joined))
    return values.mean(0), values.std(0, ddof=1) / math.sqrt(ORDERS)


def _around(neighbours: Sequence[int], members: int) -> int:
    """Neighbours of a set outside of it."""
    around = 0
    for node in bits(members):
        around |= neighbours[node]
    return around & ~members


def bits(members: int) -> list[int]:
    """Numbers of the bits of a set."""
    return [at for at in range(members.bit_length()) if members >> at & 1]
