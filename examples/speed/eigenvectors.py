"""Laplacian eigenvectors: the dense and the sparse solvers, and where they cross.

    python examples/speed/eigenvectors.py

Processor time (one thread) of 8 vectors of one graph, and the rise of the resident memory,
in a process per case: molecules of `nci` joined into a tree (see graph_size.py), random
graphs of mean degree 6, and graphs with a tenth of all pairs. The last two factorise badly.
"""

import argparse
import multiprocessing
import time

import numpy as np
from graph_size import joined_graph
from measuring import memory, restart_peak

from graphormer_plugin.data import DatasetOptions, get_store
from graphormer_plugin.data.batches.fields import laplacian

K = 8


def random_graph(nodes: int, degree: float) -> dict[str, np.ndarray]:
    """Columns of a random graph; parallel edges count once."""
    random = np.random.default_rng(nodes)
    ends = random.integers(0, nodes, (2, int(nodes * degree / 2)))
    ends = np.concatenate([ends, ends[::-1]], 1)
    offsets = {"node_offset": np.array([0, nodes])}
    offsets["edge_offset"] = np.array([0, ends.shape[1]])
    return offsets | {"edge_src": ends[0], "edge_dst": ends[1]}


def measure(kind: str, nodes: int, dense: bool) -> tuple[float, int]:
    """Processor seconds and bytes."""
    if kind == "molecules":
        columns = joined_graph(get_store(DatasetOptions(name="nci")), nodes, nodes)
    else:
        columns = random_graph(nodes, 6 if kind == "degree 6" else nodes / 10)
    laplacian.DENSE_NODES = nodes if dense else 2 * K
    before = restart_peak()
    start = time.process_time()
    laplacian.laplacian_eigenvectors(columns, K)
    return time.process_time() - start, memory("VmHWM") - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sizes = [128, 256, 512, 1024, 2048]
    parser.add_argument("--nodes", type=int, nargs="+", default=sizes)
    parser.add_argument("--sparse-only", action="store_true")
    args = parser.parse_args()
    for kind in ("molecules", "degree 6", "a tenth of all pairs"):
        for nodes in args.nodes:
            cells = []
            for dense in (False,) if args.sparse_only else (True, False):
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    seconds, size = pool.apply(measure, (kind, nodes, dense))
                cells.append(f"{seconds * 1e3:.0f} ms, {size / 2**20:.0f} MiB")
            print(f"{kind}, {nodes}: {' | '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
