"""Preparing PCQM4Mv2 at its size, without its files: time, memory, bytes on disk.

    python examples/speed/preparation.py --molecules 3746620 --workers 8

Repeats real molecules (RDKit's NCI set, or those of a CSV with the columns smiles and
homolumogap) to as many as asked for, writes them in the official layout, and runs
``graphormer-preprocess --dataset-name pcqm4mv2`` on them while it watches the memory of
all its processes. Prints molecules/s, in all and per core; what RDKit's parser alone
and with the features would reach on one core; peak memory of the parent and of the
largest worker; bytes per graph on disk. Needs Linux (reads /proc).
"""

import argparse
import csv
import gzip
import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from measuring import memory
from rdkit import Chem, RDLogger

from graphormer_plugin.data.datasets.nci import nci
from graphormer_plugin.data.smiles import parse_any_smiles
from graphormer_plugin.data.store import GraphStore

SHARES = {"train": 3_378_606, "valid": 73_545, "test-dev": 147_037}
OFFICIAL = 3_746_620
MEGABYTE = 1 << 20


def real_molecules(path: Path | None) -> list[str]:
    """SMILES that RDKit accepts."""
    if path is None:
        smiles = list(nci().smiles)
    else:
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rt") as file:
            smiles = [row["smiles"] for row in csv.DictReader(file)]
    RDLogger.DisableLog("rdApp.*")
    return [string for string in smiles if Chem.MolFromSmiles(string) is not None]


def write_layout(root: Path, smiles: list[str], count: int) -> None:
    """The official files: ``raw/data.csv.gz`` and ``split_dict.pt``."""
    folder = root / "pcqm4m-v2"
    (folder / "raw").mkdir(parents=True)
    ends = np.cumsum([0, *(share * count // OFFICIAL for share in SHARES.values())])
    splits = {
        name: np.arange(start, end) for name, start, end in zip(SHARES, ends, ends[1:])
    }
    splits["test-challenge"] = np.arange(ends[-1], count)
    torch.save(splits, folder / "split_dict.pt")
    labelled = ends[2]
    with gzip.open(folder / "raw" / "data.csv.gz", "wt", 1, newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["idx", "smiles", "homolumogap"])
        for row, string in enumerate(itertools.islice(itertools.cycle(smiles), count)):
            writer.writerow([row, string, 5.0 if row < labelled else ""])


def descendants(pid: int) -> Iterator[int]:
    """Processes that a process has started, and theirs."""
    try:
        tasks = Path(f"/proc/{pid}/task").glob("*/children")  # of every thread
        children = " ".join(task.read_text() for task in tasks).split()
    except OSError:
        return
    for child in map(int, children):
        yield child
        yield from descendants(child)


def peak_memory(pid: int) -> int:
    """Largest resident memory of a process so far, bytes; 0 if it has ended."""
    try:
        return memory("VmHWM", pid)
    except (OSError, ValueError):
        return 0


def rate(function, smiles: list[str]) -> float:
    """Calls per second on one core."""
    start = time.process_time()
    for string in smiles:
        function(string)
    return len(smiles) / (time.process_time() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--molecules", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--csv", type=Path, help="real molecules (default: NCI)")
    parser.add_argument("--folder", type=Path, help="for data (default: temporary)")
    arguments = parser.parse_args()
    smiles = real_molecules(arguments.csv)
    sample = smiles[:2000]
    parse, both = rate(Chem.MolFromSmiles, sample), rate(parse_any_smiles, sample)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        root = Path(name)
        write_layout(root, smiles, arguments.molecules)
        command = [sys.executable, "-m", "graphormer_plugin.cli.preprocess"]
        command += ["--dataset-name", "pcqm4mv2", "--data-root", name]
        command += ["--workers", str(arguments.workers)]
        start = time.perf_counter()
        parent, worker = 0, 0
        with subprocess.Popen(command) as process:
            while process.poll() is None:
                parent = max(parent, peak_memory(process.pid))
                others = map(peak_memory, descendants(process.pid))
                worker = max(worker, *others, 0)
                time.sleep(0.1)
        seconds = time.perf_counter() - start
        if process.returncode:
            raise SystemExit(process.returncode)
        (path,) = (root / "stores").glob("pcqm4mv2-*")
        store = GraphStore.open(path)
        size = sum(file.stat().st_size for file in path.iterdir())
    cores = max(1, arguments.workers)
    speed = len(store) / seconds
    print(f"{len(store):,} molecules of {len(smiles):,} real ones in {seconds:.0f} s")
    print(f"{speed:,.0f} molecules/s, {speed / cores:,.0f} per core")
    print(f"one core alone: RDKit parses {parse:,.0f}/s, with features {both:,.0f}/s")
    print(f"peak memory: parent {parent / MEGABYTE:,.0f} MB", end=", ")
    print(f"largest worker {worker / MEGABYTE:,.0f} MB")
    print(f"{size / len(store):.0f} bytes per graph on disk")


if __name__ == "__main__":
    main()
