"""Pairs of nodes that count as not linked, drawn for each epoch anew."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphormer_plugin.data.columns import (
    EDGE_LABEL_COLUMNS,
    Columns,
    Level,
    edge_label_index_of,
    offsets_of,
    ranges_of_graphs,
)
from graphormer_plugin.data.targets import Kind, TargetSchema

ROUNDS = 20  # in which enough pairs are found unless nearly all are linked


@dataclass(frozen=True)
class Negatives:
    """Adds pairs of label 0 to the labelled pairs of graphs.

    A graph then has ``ratio`` times as many of them as of label 1, including those of the data.
    They are drawn with equal probability among all ordered pairs of two nodes that have
    neither label 1 nor an edge in either direction (our choice); a graph whose pairs are
    nearly all linked may have fewer. They follow from the seed, the epoch and the number of
    the graph alone, and not from its batch, worker or process.

    Attributes:
        edges_are_links: see `links_among_edges`.
    """

    ratio: int
    seed: int
    edges_are_links: bool = False

    def added(
        self, columns: Columns, ids: np.ndarray, graph_ids: np.ndarray, epoch: int
    ) -> Columns:
        """Columns of the labels of some graphs, each with its drawn pairs at the end.

        Args:
            ids: numbers of the graphs in the columns.
            graph_ids: their numbers in the dataset.
        """
        offset, rows = ranges_of_graphs(columns[Level.LINK.offset], ids)
        ends = edge_label_index_of(
            {name: columns[name][rows] for name in EDGE_LABEL_COLUMNS}
        )
        target = columns["target"][rows]
        edge_offset, edge_rows = ranges_of_graphs(columns[Level.EDGE.offset], ids)
        edges = edges_of(columns, edge_rows)
        sizes = columns["node_offset"][ids + 1] - columns["node_offset"][ids]
        all_ends = []
        all_targets = []
        for index, graph in enumerate(graph_ids.tolist()):
            part = slice(*offset[index : index + 2])
            positive = ends[part][target[part, 0] == 1]
            zeros = int((target[part] == 0).sum())
            drawn = self._drawn(
                max(0, self.ratio * len(positive) - zeros),
                np.append(positive, edges[slice(*edge_offset[index : index + 2])], 0),
                int(sizes[index]),
                (epoch, graph),
            )
            all_ends.append(np.concatenate([ends[part], drawn]))
            added = np.zeros((len(drawn), 1), target.dtype)
            all_targets.append(np.concatenate([target[part], added]))
        return {
            Level.LINK.offset: offsets_of(map(len, all_ends)),
            "target": np.concatenate(all_targets),
            **dict(zip(EDGE_LABEL_COLUMNS, np.concatenate(all_ends).T)),
        }

    def _drawn(
        self, wanted: int, linked: np.ndarray, size: int, key: Sequence[int]
    ) -> np.ndarray:
        """Pairs [n, 2] of a graph of ``size`` nodes that are not ``linked`` [m, 2]."""
        first, second = linked.T
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


def negatives_of(
    targets: TargetSchema, ratio: int | None, seed: int
) -> Negatives | None:
    """Negatives of links, 0 and 1 of pairs, one of each by default; None for other labels.
    ValueError for a ratio of those."""
    if targets.level is Level.LINK and targets.kinds == [Kind.BINARY]:
        return Negatives(1 if ratio is None else ratio, seed)
    if ratio is not None:
        raise ValueError(
            f"--negatives {ratio}: the labels are not 0 and 1 of pairs; leave it out"
        )
    return None


def edges_of(columns: Columns, rows: np.ndarray | slice) -> np.ndarray:
    """Ends of some edges, int64 [n, 2]."""
    ends = [columns[name][rows] for name in ("edge_src", "edge_dst")]
    return np.stack(ends, 1).astype(np.int64)


def links_among_edges(columns: Columns) -> np.ndarray:
    """Whether the links of label 1 [n] are edges (row 0), and would be the other way round (row
    1). Some are in one graph that is split; contacts of atoms never are bonds."""
    nodes = columns[Level.NODE.offset]

    def _numbers(level: Level, ends: np.ndarray) -> np.ndarray:
        first = np.repeat(nodes[:-1], np.diff(columns[level.offset]))
        one, other = first + ends.T
        return np.stack([one * nodes[-1] + other, other * nodes[-1] + one])

    edges, _ = _numbers(Level.EDGE, edges_of(columns, slice(None)))
    links = _numbers(Level.LINK, edge_label_index_of(columns))
    return np.isin(links[:, columns["target"][:, 0] == 1], edges)
