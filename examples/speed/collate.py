"""Cost of a batch: from stored graphs to the padded tensors that a model needs.

    python examples/speed/collate.py

Collates the `nci` molecules on one thread, in batches of graphs of about the same size
as the size buckets of training make them, and prints graphs/s and bytes per graph in
the batch for the fields of GRPE and of Graphormer. For comparison,
`scipy.sparse.csgraph.shortest_path` computes only the distances, in a Python loop over
CSR matrices of every 16th graph. All alternate within a run, so that a drifting machine
slows them alike. Figures are of the fastest round.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from measuring import in_turn, store_collator
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import shortest_path

from graphormer_plugin.data import DatasetOptions, get_store
from graphormer_plugin.data.batches.collator import GraphCollator
from graphormer_plugin.data.batches.fields import BatchSpec
from graphormer_plugin.data.store import GraphStore

GRPE = {"x", "node_mask", "relation_index"}
GRAPHORMER = {"x", "node_mask", "dist", "path_bond", "in_degree", "out_degree"}
SCIPY_STRIDE = 16


def size_sorted_batches(store: GraphStore, batch_size: int) -> list[np.ndarray]:
    """Graph numbers in batches of about equal sizes, from small graphs to large."""
    order = np.argsort(store.sizes, kind="stable")
    return [order[k : k + batch_size] for k in range(0, len(order), batch_size)]


def csr_matrices(store: GraphStore, graphs: np.ndarray) -> list[csr_matrix]:
    """The adjacency matrices of some graphs."""
    columns, offset = store.columns, store.columns["edge_offset"]
    matrices = []
    for graph, n in zip(graphs, store.sizes[graphs].tolist()):
        edges = slice(offset[graph], offset[graph + 1])
        ends = columns["edge_src"][edges], columns["edge_dst"][edges]
        matrices.append(csr_matrix((np.ones(len(ends[0])), ends), shape=(n, n)))
    return matrices


def tensor_bytes(sample: dict[str, Any]) -> int:
    """Bytes of all tensors of a model's input."""
    return sum(tensor.nbytes for tensor in sample["net_input"]["batch"].values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-root", help="folder for prepared datasets")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--max-hop", type=int, default=5, help="of GRPE")
    parser.add_argument("--path-length", type=int, default=5, help="of Graphormer")
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()

    store = get_store(DatasetOptions(name="nci", data_root=args.data_root))
    batches = size_sorted_batches(store, args.batch_size)
    specs = {
        "GRPE": BatchSpec(frozenset(GRPE), max_hop=args.max_hop, max_dist=None),
        "Graphormer": BatchSpec(
            frozenset(GRAPHORMER),
            max_hop=None,
            max_dist=None,
            path_length=args.path_length,
        ),
    }
    contestants: dict[str, Callable[[], None]] = {}
    sizes = {}
    for name, spec in specs.items():
        collate = store_collator(store, spec)
        sizes[name] = sum(tensor_bytes(collate(batch)) for batch in batches)

        def collate_all(collate: GraphCollator = collate) -> None:
            for batch in batches:
                collate(batch)

        contestants[name] = collate_all
    matrices = csr_matrices(store, np.concatenate(batches)[::SCIPY_STRIDE])

    def scipy_distances() -> None:
        for matrix in matrices:
            shortest_path(matrix, unweighted=True)

    contestants["scipy"] = scipy_distances
    times, _ = in_turn(contestants, args.rounds, time.perf_counter)
    seconds = {name: min(rounds) for name, rounds in times.items()}
    graphs = len(store)
    seconds["scipy"] *= graphs / len(matrices)

    print(
        f"nci: {graphs:,} graphs of {store.sizes.mean():.1f} nodes, batches of "
        f"{args.batch_size}, one thread"
    )
    print(f"{'':12}{'graphs/s':>12}{'us/graph':>10}{'bytes/graph':>13}{'/scipy':>8}")
    for name, duration in seconds.items():
        print(
            f"{name:12}{graphs / duration:>12,.0f}{duration / graphs * 1e6:>10.2f}"
            f"{sizes[name] // graphs if name in sizes else '':>13}"
            f"{seconds['scipy'] / duration:>8.1f}"
        )


if __name__ == "__main__":
    main()
