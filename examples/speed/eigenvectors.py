"""Laplacian eigenvectors: the dense and the sparse solvers, and where they cross.

    python examples/speed/eigenvectors.py

Processor time (one thread) of 8 vectors of one graph, and the rise of the resident memory,
in a process per case: molecules of `nci` joined into a tree (see graph_size.py), strips of
mean width 10, random graphs of mean degree 3, 4.6 and 6, and graphs with a tenth of all pairs.
Random graphs factorise badly; ``--factorised`` does it nevertheless.
"""

import argparse
import math
import time

import numpy as np
import scipy.sparse.linalg  # noqa: F401, its import is not measured
from graph_size import joined_graph
from measuring import alone, memory, restart_peak

from graphormer_plugin.data import DatasetOptions, get_store
from graphormer_plugin.data.batches.fields import laplacian

K = 8
WIDTHS = {"path": 1, "strip": 10, "grid": 0}
DEGREES = {"degree 3": 3, "degree 4.6": 4.6, "degree 6": 6}


def random_graph(nodes: int, degree: float) -> dict[str, np.ndarray]:
    """Columns of a random graph; parallel edges count once."""
    random = np.random.default_rng(nodes)
    ends = random.integers(0, nodes, (2, int(nodes * degree / 2)))
    return columns_of(nodes, ends)


def strip(nodes: int, width: int) -> dict[str, np.ndarray]:
    """Columns of a grid of ``nodes`` nodes in rows of ``width``."""
    node = np.arange(nodes)
    along = node[(node + 1) % width != 0][:-1]
    ends = np.concatenate(
        [[along, along + 1], [node[:-width], node[width:]]], 1, dtype=np.int64
    )
    return columns_of(nodes, ends)


def columns_of(nodes: int, ends: np.ndarray) -> dict[str, np.ndarray]:
    ends = np.concatenate([ends, ends[::-1]], 1)
    offsets = {"node_offset": np.array([0, nodes])}
    offsets["edge_offset"] = np.array([0, ends.shape[1]])
    return offsets | {"edge_src": ends[0], "edge_dst": ends[1]}


def measure(kind: str, nodes: int, solver: str) -> tuple[float, int]:
    """Processor seconds and bytes."""
    if kind == "molecules":
        columns = joined_graph(get_store(DatasetOptions(name="nci")), nodes, nodes)
    elif kind in WIDTHS:
        columns = strip(nodes, WIDTHS[kind] or math.isqrt(nodes))
    else:
        columns = random_graph(nodes, DEGREES.get(kind, nodes / 10))
    laplacian.DENSE_NODES = nodes if solver == "dense" else 2 * K
    if solver == "factorised":
        laplacian.ITERATED_ROW = math.inf
    before = restart_peak()
    start = time.process_time()
    laplacian.laplacian_eigenvectors(columns, K)
    return time.process_time() - start, memory("VmHWM") - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sizes = [128, 256, 512, 1024, 2048]
    parser.add_argument("--nodes", type=int, nargs="+", default=sizes)
    parser.add_argument("--sparse-only", action="store_true")
    parser.add_argument("--factorised", action="store_true")
    args = parser.parse_args()
    solvers = ["sparse"] if args.sparse_only else ["dense", "sparse"]
    solvers += ["factorised"] * args.factorised
    for kind in ("molecules", *WIDTHS, *DEGREES, "a tenth of all pairs"):
        for nodes in args.nodes:
            cells = []
            for solver in solvers:
                seconds, size = alone(measure, kind, nodes, solver)
                cells.append(f"{seconds * 1e3:.0f} ms, {size / 2**20:.0f} MiB")
            print(f"{kind}, {nodes}: {' | '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
