"""Pairs of nodes that count as not linked, drawn for each epoch anew."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphormer_plugin.data.columns import (
    ENDS,
    Columns,
    Level,
    ends_of,
    ranges_of_graphs,
)

ROUNDS = 20  # in which enough pairs are found unless nearly all are linked


@dataclass(frozen=True)
class Negatives:
    """Adds pairs of label 0 to the labelled pairs of graphs.

    A graph then has ``ratio`` times as many of them as of label 1, including those of the data.
    They are drawn with equal probability among all ordered pairs of two nodes that have no
    label 1 in either direction (our choice); a graph whose pairs are nearly all linked may have
    fewer. They follow from the seed, the epoch and the number of the graph alone, and not from
    its batch, worker or process.
    """

    ratio: int
    seed: int

    def added(
        self, columns: Columns, ids: np.ndarray, graph_ids: np.ndarray, epoch: int
    ) -> Columns:
        """Columns of the labels of some graphs, each with its drawn pairs at the end.

        Args:
            ids: numbers of the graphs in the columns.
            graph_ids: their numbers in the dataset.
        """
        offset, rows = ranges_of_graphs(columns[Level.PAIR.offset], ids)
        ends = ends_of({name: columns[name][rows] for name in ENDS})
        target = columns["target"][rows]
        sizes = columns["node_offset"][ids + 1] - columns["node_offset"][ids]
        all_ends, all_targets = [], []
        for number, graph in enumerate(graph_ids.tolist()):
            part = slice(*offset[number : number + 2])
            drawn = self._drawn(
                ends[part], target[part], int(sizes[number]), (epoch, graph)
            )
            all_ends.append(np.concatenate([ends[part], drawn]))
            zeros = np.zeros((len(drawn), 1), target.dtype)
            all_targets.append(np.concatenate([target[part], zeros]))
        return {
            Level.PAIR.offset: np.cumsum([0, *map(len, all_ends)]),
            "target": np.concatenate(all_targets),
            **dict(zip(ENDS, np.concatenate(all_ends).T)),
        }

    def _drawn(
        self, ends: np.ndarray, target: np.ndarray, size: int, key: Sequence[int]
    ) -> np.ndarray:
        """Pairs [n, 2] to add to those of a graph of ``size`` nodes."""
        first, second = ends[target[:, 0] == 1].T
        wanted = max(0, self.ratio * len(first) - int((target == 0).sum()))
        linked = np.concatenate([first * size + second, second * size + first])
        rng = np.random.default_rng([self.seed, *key])
        found = np.empty(0, np.int64)
        for _ in range(ROUNDS):
            if len(found) >= wanted:
                break
            pairs = rng.integers(size**2, size=2 * wanted)
            differ = pairs // size != pairs % size
            found = np.append(found, pairs[differ & ~np.isin(pairs, linked)])
        return np.stack(np.divmod(found[:wanted], size), 1)
