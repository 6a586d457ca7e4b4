"""Builds the official raw layouts of the benchmarks from a few molecules.

    python tests/support/benchmark_files.py FOLDER

writes those of all molecular benchmarks, for the SMOKE mode of the recipes.
"""

import csv
import fcntl
import gzip
import itertools
import os
import pickle
import shutil
import sys
import zipfile
from pathlib import Path

import numpy as np
import torch

from graphormer_plugin.data.benchmarks.zinc import parse_zinc_smiles
from graphormer_plugin.data.graphs.smiles import PLAIN

STARTS = "C CC OCC NCC ClCC CC(=O)OC N#CC c1ccccc1C BrCC FCC C1CCC1C O=C(N)C".split()
SMILES = [start + "C" * k for start in STARTS for k in range(4)]  # 48
# Refused by RDKit's valence rules; row 137 of ogbg-molhiv.
REFUSED = "CC1(C)OB(C2=CC=CC=C2)O[Al]1(O)(O)(O)(O)O"
REFUSED_ROWS = (137, 987, 12882, 18293, 30784, 30785, 35728)  # all of ogbg-molhiv


class Code:
    """Prints when it is unpickled."""

    def __reduce__(self):
        return print, ("executed",)


class Planted:
    """Makes a folder when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def splits_of(count, names=("train", "valid", "test")):
    """Every tenth row to each of the later splits, the rest to the first."""
    rows = np.arange(count)
    result = {names[0]: rows[rows % 10 < 11 - len(names)]}
    for digit, name in enumerate(names[1:], 11 - len(names)):
        result[name] = rows[rows % 10 == digit]
    return result


def write_csv(path, header, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if header:
            writer.writerow(header)
        writer.writerows(rows)


def write_pcqm(root, smiles=SMILES, gaps=None, version=2):
    """Write what ``pcqm4m-v2.zip`` unpacks to; return the folder."""
    folder = root / ("pcqm4m-v2" if version == 2 else "pcqm4m_kddcup2021")
    hidden = ("test-dev", "test-challenge") if version == 2 else ("test",)
    splits = splits_of(len(smiles), ("train", "valid", *hidden))
    gaps = [3 + 0.25 * (n % 7) for n in range(len(smiles))] if gaps is None else gaps
    unlabelled = set(np.concatenate([splits[name] for name in hidden]).tolist())
    rows = [
        (row, string, "" if row in unlabelled else gap)
        for row, (string, gap) in enumerate(zip(smiles, gaps))
    ]
    write_csv(folder / "raw" / "data.csv.gz", ["idx", "smiles", "homolumogap"], rows)
    torch.save(splits, folder / "split_dict.pt")
    (folder / "RELEASE_v1.txt").touch()
    return folder


def write_ogbg(root, name, smiles, labels, splits=None, tasks=("HIV_active",)):
    """Write OGB's layout of ogbg-mol datasets; labels [G, tasks] with NaN for missing."""
    folder = root / name.replace("-", "_")
    graphs = [PLAIN.read_any(string) for string in smiles]
    # OGB stores every edge once.
    edges = [graph.edge_index[:, ::2].T for graph in graphs]
    columns = {
        "edge": np.concatenate(edges),
        "edge-feat": np.concatenate([graph.edge_attr[::2] for graph in graphs]),
        "node-feat": np.concatenate([graph.x for graph in graphs]),
        "num-node-list": [[len(graph.x)] for graph in graphs],
        "num-edge-list": [[len(pairs)] for pairs in edges],
    }
    for column, rows in columns.items():
        write_csv(folder / "raw" / f"{column}.csv.gz", None, np.asarray(rows).tolist())

    def cells(row):
        return ["" if np.isnan(label) else int(label) for label in row]

    labels = [cells(row) for row in labels]
    write_csv(folder / "raw" / "graph-label.csv.gz", None, labels)
    for split, rows in (splits or splits_of(len(smiles))).items():
        path = folder / "split" / "scaffold" / f"{split}.csv.gz"
        write_csv(path, None, [[row] for row in rows.tolist()])
    molecules = [
        [*row, string, f"MOL{number}"]
        for number, (row, string) in enumerate(zip(labels, smiles))
    ]
    header = [*tasks, "smiles", "mol_id"]
    write_csv(folder / "mapping" / "mol.csv.gz", header, molecules)
    (folder / "RELEASE_v1.txt").touch()
    return folder


def write_zinc(root, parts, full_parts=None):
    """Write PyG's raw files: pickles of all molecules, and the rows of the benchmark.

    Args:
        root: Data root.
        parts: (SMILES, y) pairs of the benchmark by split.
        full_parts: Pairs that only the full dataset has, put before the others.
    """
    folder = root / "ZINC" / "raw"
    folder.mkdir(parents=True)
    for split, pairs in parts.items():
        extra = list((full_parts or {}).get(split, ()))
        molecules = []
        for smiles, y in itertools.chain(extra, pairs):
            graph = parse_zinc_smiles(smiles)
            bonds = torch.zeros(len(graph.x), len(graph.x), dtype=torch.int32)
            source, target = graph.edge_index
            bonds[source, target] = torch.as_tensor(graph.edge_attr[:, 0]).int()
            molecules.append(
                {
                    "num_atom": len(graph.x),
                    "atom_type": torch.as_tensor(graph.x[:, 0]).int(),
                    "bond_type": bonds,
                    "logP_SA_cycle_normalized": torch.tensor([y]),
                }
            )
        with open(folder / f"{split}.pickle", "wb") as file:
            pickle.dump(molecules, file)
        rows = range(len(extra), len(molecules))
        (folder / f"{split}.index").write_text(",".join(map(str, rows)) + "\n")
    return folder


def write_gnn_benchmark(root, name, graphs):
    """Write PyG's ``PATTERN_v2.pt``: one-hot features, three lists of dictionaries."""
    folder = root / name / "raw"
    folder.mkdir(parents=True)
    torch.save(graphs, folder / f"{name}_v2.pt")
    return folder


def write_superpixels(root, name, graphs=12, seed=0):
    """Write PyG's ``MNIST_v2.pt``: intensities, positions, and edges to near superpixels
    with a weight. Returns the three lists, 4 of 6 graphs in the first."""
    rng = np.random.default_rng(seed)
    channels = {"MNIST": 1, "CIFAR10": 3}[name]
    made = []
    for number in range(graphs):
        n = int(rng.integers(6, 10))
        pos = rng.random((n, 2))
        distance = ((pos[:, None] - pos) ** 2).sum(-1)
        near = distance.argsort(1)[:, 1:4]  # without the node itself
        edges = np.stack([np.repeat(np.arange(n), 3), near.reshape(-1)])
        weight = np.exp(-distance[tuple(edges)])
        made.append(
            {
                "x": torch.from_numpy(rng.random((n, channels))).float(),
                "pos": torch.from_numpy(pos).float(),
                "edge_index": torch.from_numpy(edges),
                "edge_attr": torch.from_numpy(weight).float(),
                "y": torch.tensor([number % 10]),
            }
        )
    parts = [made[: -graphs // 3], made[-graphs // 3 : -graphs // 6]]
    parts.append(made[-graphs // 6 :])
    write_gnn_benchmark(root, name, parts)
    return parts


def write_gaps(root):
    """The tables of electronic gaps."""
    rows = [(row, smiles, 3 + len(smiles) / 8) for row, smiles in enumerate(SMILES)]
    for name in ("pcqm4mv2_subset", "qm9_gap_subset"):
        write_csv(root / f"{name}.csv.gz", ["idx", "smiles", "homolumogap"], rows)


def pack(folder, archive, inside=""):
    """A zip of a folder's content."""
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted(Path(folder).rglob("*")):
            if path.is_file():
                file.write(path, Path(inside) / path.relative_to(folder))
    return archive


def write_peptides(root, smiles=SMILES):
    """Write LRGB's table and split of Peptides-func; return the folder."""
    folder = root / "peptides-functional"
    labels = [[(row // 10 + n) % 2 for n in range(10)] for row in range(len(smiles))]
    rows = [[*pair, "", str(row), 0] for pair, row in zip(enumerate(smiles), labels)]
    header = ["", "smiles", "peptide_seq", "labels", "identifier"]
    path = folder / "raw" / "peptide_multi_class_dataset.csv.gz"
    write_csv(path, header, rows)
    splits = splits_of(len(smiles), ("train", "val", "test"))
    path = folder / "splits_random_stratified_peptide.pickle"
    path.write_bytes(pickle.dumps(splits))
    return folder


def write_all(root):
    """What the molecular benchmarks need; nothing if the folder is there."""
    root = Path(root)
    root.parent.mkdir(parents=True, exist_ok=True)
    with open(root.parent / f".{root.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if root.exists():
            return
        temporary = root.parent / f".tmp-{root.name}"
        shutil.rmtree(temporary, ignore_errors=True)
        parts = {"train": SMILES[:32], "val": SMILES[32:40], "test": SMILES[40:]}
        pairs = {n: [(s, 0.5 * len(s)) for s in part] for n, part in parts.items()}
        write_zinc(temporary, pairs)
        for version in (1, 2):
            write_pcqm(temporary, version=version)
        # Alternating within each split, so that every split has both classes.
        labels = np.arange(len(SMILES))[:, None] // 10 % 2.0
        write_ogbg(temporary, "ogbg-molhiv", SMILES, labels)
        write_gaps(temporary)
        write_peptides(temporary)
        for name in ("MNIST", "CIFAR10"):
            write_superpixels(temporary, name, graphs=48)
        names = [f"task{number}" for number in range(128)]
        labels = np.repeat(labels, len(names), axis=1)
        labels[::3, ::2] = np.nan
        write_ogbg(temporary, "ogbg-molpcba", SMILES, labels, tasks=names)
        os.rename(temporary, root)


if __name__ == "__main__":
    write_all(sys.argv[1])
