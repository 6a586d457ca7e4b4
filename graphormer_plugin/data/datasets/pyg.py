"""Benchmarks that come through PyTorch Geometric: ZINC, PATTERN, CLUSTER.

Of "Benchmarking Graph Neural Networks", Dwivedi et al. 2020 (arXiv:2003.00982).
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import io
import itertools
import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from graphormer_plugin.data.datasets import sbm
from graphormer_plugin.data.datasets.molecules import CsvTable, mol_of_smiles
from graphormer_plugin.data.datasets.official import (
    Official,
    patched,
    scratch_root,
    tamed,
)
from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.files import file_sha256
from graphormer_plugin.data.prepare import MoleculeGraph
from graphormer_plugin.data.registry import (
    DatasetOptions,
    DatasetSource,
    register_dataset,
)

# ---------------------------------------------------------------------------- ZINC

# Position = number of the atom type in the benchmark's files. An atom is written as in
# Kekule SMILES: element, hydrogens if it stands in brackets, sign of its charge.
ZINC_ATOM_TYPES = (
    "C",
    "O",
    "N",
    "F",
    "C H1",
    "S",
    "Cl",
    "O -",
    "N H1 +",
    "Br",
    "N H3 +",
    "N H2 +",
    "N +",
    "N -",
    "S -",
    "I",
    "P",
    "O H1 +",
    "N H1 -",
    "O +",
    "S +",
    "P H1",
    "P H2",
    "C H2 -",
    "P +",
    "S H1 +",
    "C H1 -",
    "P H1 +",
)
ZINC_BOND_TYPES = ("NONE", "SINGLE", "DOUBLE", "TRIPLE")
_ATOM_NUMBER = {name: number for number, name in enumerate(ZINC_ATOM_TYPES)}

_INDEX = "https://raw.githubusercontent.com/graphdeeplearning/benchmarking-gnns/master"
_ZINC_SPLITS = {"train": "train", "val": "valid", "test": "test"}
ZINC = Official(
    name="zinc",
    folder="ZINC/raw",
    files=tuple(
        f"{split}.{kind}" for kind in ("pickle", "index") for split in _ZINC_SPLITS
    ),
    url="https://www.dropbox.com/s/feo9qle74kg48gy/molecules.zip?dl=1",
    inside="molecules",
    more=tuple(
        (f"{split}.index", f"{_INDEX}/data/molecules/{split}.index")
        for split in _ZINC_SPLITS
    ),
    graphs=12_000,
)
ZINC_FULL = dataclasses.replace(ZINC, name="zinc-full", graphs=249_456)
ZINC_CSV = "ZINC/zinc12k.csv.gz"


def _zinc_csv(options: DatasetOptions) -> Path:
    return ZINC.path(options).parents[1] / ZINC_CSV


def _zinc_source(options: DatasetOptions) -> DatasetOptions:
    """Options with source ``pyg``, or ``smiles`` where only the CSV is there."""
    source = options.source
    allowed = ("", "pyg", "ogb", "smiles")[: 4 if options.name == "zinc" else 3]
    if source not in allowed:
        raise DatasetError(
            f"dataset {options.name!r} comes from "
            f"{'|'.join(allowed[1:])}, not from {source!r}"
        )
    only_csv = ZINC.missing(options) and _zinc_csv(options).is_file()
    if source == "" and options.name == "zinc" and only_csv:
        source = "smiles"
    return dataclasses.replace(
        options, source="smiles" if source == "smiles" else "pyg"
    )


def _zinc_content(options: DatasetOptions) -> dict[str, Any]:
    if options.source == "smiles":
        path = _zinc_csv(options)
        return {"files": file_sha256(path) if path.is_file() else None, "rule": 1}
    return {"files": ZINC.content(options), "rule": 1}


@register_dataset(
    "zinc",
    source="pyg",
    options=("source",),
    content=_zinc_content,
    resolve=_zinc_source,
)
def zinc(options: DatasetOptions) -> DatasetSource:
    """ZINC, the benchmark of 12,000 molecules: 10,000 / 1,000 / 1,000.

    Target: penalised logP, standardised, dimensionless. Nodes have one of 28 atom
    types, edges a bond type 1 to 3 (see `ZINC_ATOM_TYPES`). With ``--dataset-source
    smiles`` the graphs are made from ``ZINC/zinc12k.csv.gz`` (columns split, smiles, y
    in official order), in the same vocabulary.
    """
    label = "zinc (the benchmark's 12,000; zinc-full has all 249,456)"
    if options.source == "smiles":
        return _zinc_from_smiles(_zinc_csv(options), label)
    return _zinc_from_pickles(ZINC, options, label)


@register_dataset(
    "zinc-full",
    source="pyg",
    options=("source",),
    content=_zinc_content,
    resolve=_zinc_source,
)
def zinc_full(options: DatasetOptions) -> DatasetSource:
    """All 249,456 molecules: 220,011 / 24,445 / 5,000; otherwise as `zinc`."""
    return _zinc_from_pickles(ZINC_FULL, options, "zinc-full")


def _zinc_from_pickles(
    official: Official, options: DatasetOptions, label: str
) -> DatasetSource:
    import torch_geometric.datasets.zinc as loader

    folder = official.require(options)
    links = {f"raw/{name}": folder / name for name in official.files}
    parts = []
    with scratch_root(options, links) as root, tamed(official, folder):
        with patched(loader, "pickle", _RestrictedPickle), _strict_torch_load():
            for split in _ZINC_SPLITS:
                subset = official is ZINC
                parts.append(loader.ZINC(str(root), subset=subset, split=split))
    return DatasetSource(
        graphs=_Chained(parts),
        node_dims=[len(ZINC_ATOM_TYPES)],
        bond_dims=[len(ZINC_BOND_TYPES)],
        featuriser="zinc",
        splits=_consecutive(official, [len(part) for part in parts]),
        target_names=["penalised_logp"],
        unit="dimensionless",
        kind="regression",
        label=label,
    )


def _zinc_from_smiles(path: Path, label: str) -> DatasetSource:
    if not path.is_file():
        raise DatasetError(
            f"zinc: {path} is missing; put a CSV there with the columns split (train, "
            "val, test), smiles and y"
        )
    table = CsvTable(path)
    for column in ("split", "smiles", "y"):
        table.require(column)
    smiles, targets = [], []
    rows: dict[str, list[int]] = {name: [] for name in _ZINC_SPLITS.values()}
    for row, line, (split, string, y) in table.rows(["split", "smiles", "y"]):
        if split not in _ZINC_SPLITS:
            raise DatasetError(
                f"{path}: row {row} (line {line}): {split!r} is no split, expected "
                f"{'|'.join(_ZINC_SPLITS)}"
            )
        try:
            targets.append(float(y))
        except ValueError:
            raise DatasetError(
                f"{path}: row {row} (line {line}), column 'y': {y!r} is no number"
            ) from None
        rows[_ZINC_SPLITS[split]].append(row)
        smiles.append(string)
    ZINC.check_count(len(smiles))
    return DatasetSource(
        smiles=smiles,
        parser=parse_zinc_smiles,
        node_dims=[len(ZINC_ATOM_TYPES)],
        bond_dims=[len(ZINC_BOND_TYPES)],
        featuriser="zinc",
        targets=np.array(targets)[:, None],
        splits={name: np.array(part, dtype=np.int64) for name, part in rows.items()},
        target_names=["penalised_logp"],
        unit="dimensionless",
        kind="regression",
        label=label,
    )


def parse_zinc_smiles(smiles: str) -> MoleculeGraph:
    """Graph of a SMILES in the vocabulary of the ZINC benchmark.

    Bonds are those of a Kekule structure: single, double, triple are 1, 2, 3. An atom
    counts its hydrogens only where Kekule SMILES writes it in brackets, which depends
    on charge and chirality: ``[C@H]`` is ``C H1``, ``[NH+]`` is ``N H1 +``, but the
    nitrogen of pyrrole is plain ``N``.

    Returns:
        x int64 ``[atoms, 1]``; edges in both directions; edge_attr int64 ``[E, 1]``.

    Raises:
        ValueError: RDKit refuses it, or an atom or bond is not in the vocabulary.
    """
    from rdkit import Chem

    mol = mol_of_smiles(smiles)
    if not mol.GetNumAtoms():
        raise ValueError("no atoms")
    Chem.Kekulize(mol, clearAromaticFlags=True)
    # RDKit decides about brackets when it writes; the atoms come back in this order.
    written = Chem.MolToSmiles(mol, kekuleSmiles=True, canonical=False)
    order = list(mol.GetPropsAsDict(True, True)["_smilesAtomOutputOrder"])
    read = Chem.MolFromSmiles(written, sanitize=False)
    x = np.zeros((mol.GetNumAtoms(), 1), dtype=np.int64)
    for position, atom in zip(order, read.GetAtoms(), strict=True):
        name = atom.GetSymbol()
        if atom.GetNumExplicitHs():
            name += f" H{atom.GetNumExplicitHs()}"
        if atom.GetFormalCharge():
            name += " +" if atom.GetFormalCharge() > 0 else " -"
        if name not in _ATOM_NUMBER:
            raise ValueError(f"atom type {name!r} is not in the vocabulary of ZINC")
        x[position] = _ATOM_NUMBER[name]
    ends, types = [], []
    for bond in mol.GetBonds():
        name = str(bond.GetBondType())
        if name not in ZINC_BOND_TYPES:
            raise ValueError(f"bond type {name} is not in the vocabulary of ZINC")
        ends.append((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()))
        types.append(ZINC_BOND_TYPES.index(name))
    edges = np.array(ends, dtype=np.int64).reshape(-1, 2)
    return MoleculeGraph(
        x,
        np.stack([edges, edges[:, ::-1]], axis=1).reshape(-1, 2).T,
        np.repeat(np.array(types, dtype=np.int64), 2)[:, None],
    )


class _RestrictedPickle:
    """Stands in for the module ``pickle``: reads containers, numbers and tensors."""

    UnpicklingError = pickle.UnpicklingError

    @staticmethod
    def load(file: io.BufferedIOBase) -> Any:
        return _Unpickler(file).load()


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        import torch

        allowed = {
            "collections.OrderedDict": collections.OrderedDict,
            "torch._utils._rebuild_tensor": torch._utils._rebuild_tensor,
            "torch._utils._rebuild_tensor_v2": torch._utils._rebuild_tensor_v2,
            "torch.storage._load_from_bytes": _load_from_bytes,
        }
        if f"{module}.{name}" not in allowed:
            raise pickle.UnpicklingError(
                f"the file names {module}.{name}, which no file of ZINC needs"
            )
        return allowed[f"{module}.{name}"]


def _load_from_bytes(content: bytes) -> Any:
    import torch

    return torch.load(io.BytesIO(content), weights_only=True)


@contextlib.contextmanager
def _strict_torch_load() -> Iterator[None]:
    """PyG retries a file that torch's safe loader refuses with the unsafe one."""
    import torch
    from torch_geometric.io import fs

    def load(path: str, map_location: Any = None) -> Any:
        return torch.load(path, map_location, weights_only=True)

    with patched(fs, "torch_load", load):
        yield


# --------------------------------------------------------------- PATTERN and CLUSTER


def _gnn_benchmark(name: str, graphs: int) -> Official:
    return Official(
        name=name.lower(),
        folder=f"{name}/raw",
        files=(f"{name}_v2.pt",),
        url=f"https://data.pyg.org/datasets/benchmarking-gnns/{name}_v2.zip",
        graphs=graphs,
    )


SBM = {
    "pattern": _gnn_benchmark("PATTERN", 14_000),
    "cluster": _gnn_benchmark("CLUSTER", 12_000),
}


def _sbm_source(options: DatasetOptions) -> DatasetOptions:
    """Options with source ``pyg``, or ``generated:N`` and the seed that counts then."""
    source, *numbers = options.source.split(":")
    if source == "generated":
        if len(numbers) > 2 or not all(number.isdecimal() for number in numbers):
            raise DatasetError(
                f"--dataset-source {options.source}: expected generated, generated:N "
                "with a number N of training graphs, or generated:N:SEED"
            )
        defaults = [sbm.OFFICIAL_COUNTS[options.name]["train"], options.seed]
        count, seed = [*map(int, numbers), *defaults[len(numbers) :]]
        if count < 1:
            raise DatasetError(f"--dataset-source {options.source}: no training graphs")
        return dataclasses.replace(options, source=f"generated:{count}", seed=seed)
    if options.source not in ("", "pyg", "ogb"):
        raise DatasetError(
            f"dataset {options.name!r} comes from pyg|ogb (official files) or "
            f"generated[:N[:SEED]], not from {options.source!r}"
        )
    return dataclasses.replace(options, source="pyg", seed=0)


def _sbm_content(options: DatasetOptions) -> dict[str, Any]:
    if options.source.startswith("generated"):
        return {"files": "generated", "rule": 1}
    return {"files": SBM[options.name].content(options), "rule": 1}


def _sbm_dataset(options: DatasetOptions) -> DatasetSource:
    """PATTERN or CLUSTER: official files, or generated ones of any size.

    ``--dataset-source generated`` makes as many graphs as the benchmark has, from
    ``--seed``; ``generated:N`` N for training and the others in proportion;
    ``generated:N:SEED`` the same ones whatever ``--seed`` is.
    """
    generator = sbm.GENERATORS[options.name]
    if options.source.startswith("generated"):
        counts = sbm.OFFICIAL_COUNTS[options.name]
        number = int(options.source.partition(":")[2])
        counts = {
            split: max(1, count * number // counts["train"])
            for split, count in counts.items()
        }
        graphs: Sequence[Any] = generator(counts, options.seed)
        ends = np.cumsum([0, *counts.values()])
        splits = {
            split: np.arange(start, end)
            for split, start, end in zip(counts, ends[:-1], ends[1:], strict=True)
        }
        label = f"{options.name} (generated, seed {options.seed})"
    else:
        graphs, splits = _sbm_files(SBM[options.name], options)
        label = options.name
    return DatasetSource(
        graphs=graphs,
        level="node",
        kind="multiclass",
        num_classes=generator.num_classes,
        node_dims=[generator.num_symbols],
        splits=splits,
        target_names=["class"],
        label=label,
    )


def _sbm_files(
    official: Official, options: DatasetOptions
) -> tuple[Sequence[Any], dict[str, np.ndarray]]:
    from torch_geometric.datasets import GNNBenchmarkDataset

    try:
        folder = official.require(options)
    except DatasetError as error:
        raise DatasetError(
            f"{error}; --dataset-source generated makes such graphs without files"
        ) from None
    links = {f"{official.folder}/{name}": folder / name for name in official.files}
    name = official.name.upper()
    with scratch_root(options, links) as root, tamed(official, folder):
        with _strict_torch_load():
            parts = [
                _Symbols(GNNBenchmarkDataset(str(root), name, split=split), folder)
                for split in _ZINC_SPLITS
            ]
    splits = _consecutive(official, [len(part) for part in parts])
    return _Chained(parts), splits


for _name in SBM:
    register_dataset(
        _name,
        source="pyg",
        options=("source", "seed"),
        content=_sbm_content,
        resolve=_sbm_source,
    )(_sbm_dataset)


class _Symbols(Sequence):
    """Graphs with one-hot features as numbers, and without edge features.

    The benchmark's edges all carry the same.
    """

    def __init__(self, graphs: Sequence[Any], folder: Path) -> None:
        self.graphs = graphs
        self.folder = folder

    def __len__(self) -> int:
        return len(self.graphs)

    def __getitem__(self, number: int) -> SimpleNamespace:
        data = self.graphs[number]
        x = data.x.numpy()
        if x.ndim == 2 and x.shape[1] > 1:
            if not ((x == 0) | (x == 1)).all() or not (x.sum(axis=1) == 1).all():
                raise DatasetError(
                    f"{self.folder}: features of graph {number} are not one-hot; the "
                    "file is of another version"
                )
            x = x.argmax(axis=1)
        return SimpleNamespace(
            x=x.reshape(-1, 1).astype(np.int64),
            edge_index=data.edge_index.numpy(),
            y=data.y.numpy(),
        )

    def __iter__(self) -> Iterator[SimpleNamespace]:
        return (self[number] for number in range(len(self)))


# --------------------------------------------------------------------------- shared


class _Chained(Sequence):
    """Several datasets one after another."""

    def __init__(self, parts: Sequence[Sequence[Any]]) -> None:
        self.parts = parts

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self.parts)

    def __getitem__(self, index: int) -> Any:
        for part in self.parts:
            if index < len(part):
                return part[index]
            index -= len(part)
        raise IndexError(index)


def _consecutive(official: Official, counts: Sequence[int]) -> dict[str, np.ndarray]:
    """Splits of rows that come as train, valid and test, one after another."""
    official.check_count(sum(counts))
    ends = np.cumsum([0, *counts])
    names = ("train", "valid", "test")
    return {
        name: np.arange(start, end)
        for name, start, end in zip(names, ends[:-1], ends[1:], strict=True)
    }
