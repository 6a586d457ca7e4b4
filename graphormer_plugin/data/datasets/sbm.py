"""PATTERN and CLUSTER made from the stochastic block model.

The generators of Dwivedi et al. 2020 (arXiv:2003.00982, section on SBMs), with the
parameters of the released notebooks. Those set no seed, so the published graphs cannot
be made again; graphs from here have the same distribution.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace

import numpy as np

SIZE = (5, 35)  # nodes of a community or pattern: 5 to 34
NUM_PATTERNS = 100

OFFICIAL_COUNTS = {
    "pattern": {"train": 10_000, "valid": 2_000, "test": 2_000},
    "cluster": {"train": 10_000, "valid": 1_000, "test": 1_000},
}


class SbmGraphs(Sequence):
    """Seeded graphs, each made when it is asked for.

    A graph is a function of seed, split and number alone; the same on every platform.
    Splits come one after another: train, valid, test. Each graph has integer ``x``
    ``[n, 1]``, ``edge_index`` ``[2, E]`` with both directions of every edge, and
    classes ``y`` ``[n]``.

    Args:
        counts: graphs of each split.
        seed: 0 or more.
    """

    num_symbols: int
    num_classes: int

    def __init__(self, counts: Mapping[str, int], seed: int) -> None:
        self.counts = dict(counts)
        self.seed = seed

    def __len__(self) -> int:
        return sum(self.counts.values())

    def __iter__(self) -> Iterator[SimpleNamespace]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, number: int) -> SimpleNamespace:
        if number < 0:
            raise IndexError(number)
        for part, count in enumerate(self.counts.values()):
            if number < count:
                rng = np.random.default_rng([self.seed, 1 + part, number])
                return permuted(rng, *self.make(rng, number / count))
            number -= count
        raise IndexError(number)

    def make(
        self, rng: np.random.Generator, position: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Adjacency bool ``[n, n]``, features ``[n]`` and labels ``[n]`` of a graph.

        Args:
            rng: of this graph.
            position: of the graph in its split, from 0 to below 1.
        """
        raise NotImplementedError


class PatternGraphs(SbmGraphs):
    """PATTERN: which nodes belong to a pattern that is hidden in a larger graph?

    100 patterns, the same in all splits, each with its own size, edges (probability
    0.5) and features; a split holds equally many graphs of each, ordered by pattern.
    The graph around it has five communities (edges 0.5 within, 0.35 between) and random
    features out of three. Pattern and other nodes are joined with probability 0.5.
    """

    num_symbols = 3
    num_classes = 2

    def __init__(self, counts: Mapping[str, int], seed: int) -> None:
        super().__init__(counts, seed)
        rng = np.random.default_rng([seed, 0])
        self.patterns = []
        for _ in range(NUM_PATTERNS):
            size = int(rng.integers(*SIZE))
            edges = symmetric(rng, np.full((size, size), 0.5))
            self.patterns.append((edges, rng.integers(0, self.num_symbols, size)))

    def make(
        self, rng: np.random.Generator, position: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        edges, symbols = self.patterns[int(position * NUM_PATTERNS)]
        community = communities(rng, 5)
        n, m = len(community), len(symbols)
        probability = np.full((n + m, n + m), 0.5)
        different = community[:, None] != community
        probability[:n, :n][different] = 0.35
        adjacency = symmetric(rng, probability)
        adjacency[n:, n:] = edges
        background = rng.integers(0, self.num_symbols, n)
        label = np.repeat([0, 1], [n, m])
        return adjacency, np.concatenate([background, symbols]), label


class ClusterGraphs(SbmGraphs):
    """CLUSTER: to which of six communities does a node belong?

    Edges 0.55 within and 0.25 between communities. One node of community ``r`` has
    feature ``r + 1``, all others have 0.
    """

    num_symbols = 7
    num_classes = 6

    def make(
        self, rng: np.random.Generator, position: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        community = communities(rng, self.num_classes)
        same = community[:, None] == community
        adjacency = symmetric(rng, np.where(same, 0.55, 0.25))
        symbols = np.zeros(len(community), dtype=np.int64)
        for number in range(self.num_classes):
            symbols[rng.choice(np.flatnonzero(community == number))] = number + 1
        return adjacency, symbols, community


GENERATORS = {"pattern": PatternGraphs, "cluster": ClusterGraphs}


def communities(rng: np.random.Generator, count: int) -> np.ndarray:
    """Community of each node, ``[n]``; sizes are drawn from `SIZE`."""
    return np.repeat(np.arange(count), rng.integers(*SIZE, size=count))


def symmetric(rng: np.random.Generator, probability: np.ndarray) -> np.ndarray:
    """bool ``[n, n]``: an edge for every unordered pair with its own probability."""
    upper = np.triu(rng.random(probability.shape) < probability, 1)
    return upper | upper.T


def permuted(
    rng: np.random.Generator,
    adjacency: np.ndarray,
    symbols: np.ndarray,
    labels: np.ndarray,
) -> SimpleNamespace:
    """A graph with its nodes in random order."""
    order = rng.permutation(len(symbols))
    return SimpleNamespace(
        x=symbols[order][:, None],
        edge_index=np.stack(np.nonzero(adjacency[np.ix_(order, order)])),
        y=labels[order],
    )
