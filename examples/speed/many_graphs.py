"""Opening ten million graphs, starting an epoch, and training on them.

    python examples/speed/many_graphs.py --folder /scratch/stores

Writes the molecules of `nci` repeatedly into ``--stores`` stores of ``--graphs`` graphs
together (280 bytes a graph), unless the stores exist. Prints the seconds until all are
open, until the training split is ready, and until the batches of an epoch are cut, for
a tenth, a half and all of the stores. For ``fairseq-train`` (``grpe_small``, one data
worker) it prints the seconds to the first update and the peak memory of the trainer and
its worker. Linux only.
"""

import argparse
import contextlib
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from measuring import descendants, memory

from graphormer_plugin.data import DatasetOptions, DatasetSource, get_store
from graphormer_plugin.data.graphs.chunk import FeaturisedRows, GraphChunk
from graphormer_plugin.data.splits import rowwise_split
from graphormer_plugin.data.store import GraphStore
from graphormer_plugin.data.store.sharded_store import ShardedStore, open_stores
from graphormer_plugin.data.store.writer import StoreWriter
from graphormer_plugin.tasks._dataset import dataset_of_split
from graphormer_plugin.tasks._iterator import batch_iterator

REPEATS = 20  # repeats of all molecules in a chunk


def write_stores(folder: Path, graphs: int, stores: int) -> None:
    """One store of repeated molecules, and copies of it."""
    source = get_store(DatasetOptions(name="nci"))
    columns, count = source.columns, graphs // stores
    attributes = source.schema.bond_columns()[columns["edge_bond"]]
    once = GraphChunk(
        num_nodes=np.diff(columns["node_offset"]),
        num_edges=np.diff(columns["edge_offset"]),
        x=np.asarray(columns["x"]),
        edge_index=np.stack([columns["edge_src"], columns["edge_dst"]]),
        edge_attr=attributes,
        target=np.asarray(source.target),
    )
    chunk = GraphChunk.joined([once] * REPEATS)
    number = -(-count // len(chunk))
    first = folder / f"00001-of-{stores:05d}"
    carried = DatasetSource(
        label="repeated",
        kind="regression",
        target_names=source.targets.names,
        featuriser=source.featuriser,
    )
    splits = rowwise_split(0, number * len(chunk), 1, (0.998, 0.001, 0.001))
    with StoreWriter(first, source.schema.node_dims, source.schema.bond_dims) as writer:
        for _ in range(number):
            writer.append(FeaturisedRows(chunk))
        writer.finish(carried, splits)
    for copy in range(2, stores + 1):
        shutil.copytree(first, folder / f"{copy:05d}-of-{stores:05d}")


def measure(folder: Path, share: float) -> None:
    """Times of the steps before the first batch."""
    names = sorted(str(path) for path in folder.glob("0*"))
    names = names[: max(1, round(share * len(names)))]
    marks = [time.perf_counter()]
    store = open_stores(DatasetOptions(name=",".join(names)))
    marks.append(time.perf_counter())
    dataset = dataset_of_split(store, "train", collator=None, name="repeated")
    _ = store.targets
    marks.append(time.perf_counter())
    cpu = time.process_time()
    iterator = batch_iterator(dataset, max_sentences=256, update_freq=lambda _: 1)
    iterator.next_epoch_itr(shuffle=True)
    marks.append(time.perf_counter())
    opened, split, epoch = np.diff(marks)
    print(
        f"{len(store):,} graphs in {len(names)} stores: open {opened:.2f} s, training "
        f"split {split:.2f} s, epoch {epoch:.2f} s ({time.process_time() - cpu:.2f} s "
        f"of the processor), {memory('VmHWM') / 1e9:.2f} GB",
        flush=True,
    )
    assert isinstance(store, (GraphStore, ShardedStore))


def train(folder: Path, updates: int) -> None:
    """Time to the first update, and peak memory of the processes."""
    arguments = f"""--user-dir graphormer_plugin --task graph_prediction
        --dataset-name {folder} --arch grpe_small --criterion l1_loss --optimizer adam
        --lr 1e-4 --batch-size 64 --max-update {updates} --log-interval 1
        --num-workers 1 --disable-validation --no-save --save-dir {folder}/run
        --log-format simple --cpu"""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "fairseq_cli.train", *arguments.split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    first, peaks = 0.0, {}
    for line in process.stdout:
        if not first and re.search(r"num_updates=1\b", line):
            first = time.perf_counter() - start
        for pid in (process.pid, *descendants(process.pid)):
            for name in ("VmHWM", "RssAnon"):
                key = ("trainer" if pid == process.pid else "worker", name)
                with contextlib.suppress(OSError, ValueError):  # it has ended
                    peaks[key] = max(peaks.get(key, 0), memory(name, pid))
    if process.wait():
        raise SystemExit("fairseq-train failed")
    print(f"first update after {first:.0f} s, {updates} updates")
    for (who, name), size in sorted(peaks.items()):
        print(f"{who}: {name} {size / 1e9:.2f} GB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--graphs", type=int, default=10_000_000)
    parser.add_argument("--stores", type=int, default=10)
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--share", type=float, help="only measure; share of the stores")
    args = parser.parse_args()
    if args.share:
        measure(args.folder, args.share)
        return
    if not args.folder.exists():
        start = time.perf_counter()
        write_stores(args.folder, args.graphs, args.stores)
        print(f"written in {time.perf_counter() - start:.0f} s", flush=True)
    for share in (0.1, 0.5, 1):
        words = [sys.executable, __file__, "--folder", args.folder, "--share", share]
        subprocess.run(list(map(str, words)), check=True)
    train(args.folder, args.updates)


if __name__ == "__main__":
    main()
