"""ZINC, the benchmark of Dwivedi et al. 2020 (arXiv:2003.00982)."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from rdkit import Chem

from graphormer_plugin.data.benchmarks.official import BenchmarkFiles, SingleFile
from graphormer_plugin.data.benchmarks.pickles import load_pickle
from graphormer_plugin.data.files import file_sha256
from graphormer_plugin.data.graphs.chunk import Dims, MoleculeGraph
from graphormer_plugin.data.graphs.featurisers import Featuriser, register_featuriser
from graphormer_plugin.data.graphs.smiles import edges_of_mol, mol_of_smiles
from graphormer_plugin.data.sources.csv_file import read_labels
from graphormer_plugin.data.sources.registry import DatasetSource, register_dataset
from graphormer_plugin.data.splits import consecutive_splits
from graphormer_plugin.data.tables.options import DatasetOptions
from graphormer_plugin.data.tables.table import CsvTable

# Position = number of the atom type in the benchmark's files. Names are those of Kekule
# SMILES: element, hydrogens if the atom stands in brackets, sign of its charge.
# fmt: off
ZINC_ATOM_TYPES = (
    "C", "O", "N", "F", "C H1", "S", "Cl", "O -", "N H1 +", "Br",
    "N H3 +", "N H2 +", "N +", "N -", "S -", "I", "P", "O H1 +", "N H1 -", "O +",
    "S +", "P H1", "P H2", "C H2 -", "P +", "S H1 +", "C H1 -", "P H1 +",
)
# fmt: on
ZINC_BOND_TYPES = ("NONE", "SINGLE", "DOUBLE", "TRIPLE")
_ATOM_NUMBER = {name: number for number, name in enumerate(ZINC_ATOM_TYPES)}

_INDEX = "https://raw.githubusercontent.com/graphdeeplearning/benchmarking-gnns/master"
_ZINC_SPLITS = {"train": "train", "val": "valid", "test": "test"}
ZINC = BenchmarkFiles(
    name="zinc",
    folder="ZINC/raw",
    files=tuple(
        f"{split}.{kind}" for kind in ("pickle", "index") for split in _ZINC_SPLITS
    ),
    url="https://www.dropbox.com/s/feo9qle74kg48gy/molecules.zip?dl=1",
    inside="molecules",
    apart=tuple(
        SingleFile(f"{split}.index", f"{_INDEX}/data/molecules/{split}.index")
        for split in _ZINC_SPLITS
    ),
    graphs=12_000,
)
_DESCRIPTION: dict[str, Any] = dict(
    node_dims=[len(ZINC_ATOM_TYPES)],
    bond_dims=[len(ZINC_BOND_TYPES)],
    featuriser="zinc",
    target_names=["penalised_logp"],
    unit="dimensionless",
    kind="regression",
)
ZINC_FULL = dataclasses.replace(ZINC, name="zinc-full", graphs=249_456)
ZINC_CSV = "ZINC/zinc12k.csv.gz"


def _zinc_csv(options: DatasetOptions) -> Path:
    return ZINC.path(options).parents[1] / ZINC_CSV


def _zinc_source(options: DatasetOptions) -> DatasetOptions:
    """Options with source ``pyg``, or ``smiles`` if only the CSV exists."""
    only_csv = ZINC.missing(options) and _zinc_csv(options).is_file()
    reads_csv = options.source == "smiles" or options.source == "" and only_csv
    source = "smiles" if reads_csv and options.name == "zinc" else "pyg"
    return dataclasses.replace(options, source=source)


def _zinc_content(options: DatasetOptions) -> dict[str, Any]:
    path = _zinc_csv(options)
    if options.source == "smiles":
        return {"files": file_sha256(path) if path.is_file() else None}
    return ZINC.content(options)


_REGISTERED: dict[str, Any] = dict(
    source="pyg", options=("source",), content=_zinc_content, resolve=_zinc_source
)


@register_dataset("zinc", sources=("ogb", "smiles"), **_REGISTERED)
def zinc(options: DatasetOptions) -> DatasetSource:
    """ZINC, the benchmark of 12,000 molecules: 10,000 / 1,000 / 1,000.

    Target: penalised logP, standardised, dimensionless. Nodes have 28 atom
    types, edges a bond type 1 to 3 (see `ZINC_ATOM_TYPES`). With ``--dataset-source
    smiles`` the graphs are made from ``ZINC/zinc12k.csv.gz`` (columns split, smiles, y
    in official order), in the same vocabulary.
    """
    label = "zinc (the benchmark's 12,000; zinc-full has all 249,456)"
    if options.source == "smiles":
        return _zinc_from_smiles(_zinc_csv(options), label)
    return _zinc_from_pickles(ZINC, options, label)


@register_dataset("zinc-full", sources=("ogb",), **_REGISTERED)
def zinc_full(options: DatasetOptions) -> DatasetSource:
    """All 249,456 molecules: 220,011 / 24,445 / 5,000; otherwise as `zinc`."""
    return _zinc_from_pickles(ZINC_FULL, options, "zinc-full")


def _zinc_from_pickles(
    files: BenchmarkFiles, options: DatasetOptions, label: str
) -> DatasetSource:
    graphs: list[SimpleNamespace] = []
    counts = {}
    with files.reading(options) as folder:
        for split, name in _ZINC_SPLITS.items():
            molecules = load_pickle((folder / f"{split}.pickle").read_bytes())
            if files is ZINC:
                rows = (folder / f"{split}.index").read_text().split(",")
                molecules = [molecules[int(row)] for row in rows]
            graphs += [_graph(molecule) for molecule in molecules]
            counts[name] = len(molecules)
    files.check_count(len(graphs))
    splits = consecutive_splits(counts)
    return DatasetSource(graphs=graphs, splits=splits, label=label, **_DESCRIPTION)


def _graph(molecule: dict[str, Any]) -> SimpleNamespace:
    bonds = np.asarray(molecule["bond_type"])  # [n, n]
    edge_index = np.stack(np.nonzero(bonds))
    return SimpleNamespace(
        x=np.asarray(molecule["atom_type"]),
        edge_index=edge_index,
        edge_attr=bonds[edge_index[0], edge_index[1]],
        y=np.asarray(molecule["logP_SA_cycle_normalized"], np.float32),
    )


def _zinc_from_smiles(path: Path, label: str) -> DatasetSource:
    options = DatasetOptions(
        name=str(path),
        smiles_column="smiles",
        target_columns=("y",),
        split="column:split",
    )
    source = read_labels(CsvTable(path), options).source
    ZINC.check_count(len(source.smiles))
    changed = {"parser": parse_zinc_smiles, "label": label, **_DESCRIPTION}
    return dataclasses.replace(source, **changed)


def parse_zinc_smiles(smiles: str) -> MoleculeGraph:
    """Graph of a SMILES in the vocabulary of the ZINC benchmark.

    Bonds are the bonds of a Kekule structure: single, double, triple are 1, 2, 3. An atom
    counts its hydrogens only where Kekule SMILES writes it in brackets, which depends
    on charge and chirality: ``[C@H]`` is ``C H1``, ``[NH+]`` is ``N H1 +``, but the
    nitrogen of pyrrole is plain ``N``.
    """
    mol = mol_of_smiles(smiles)
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
    types = []
    for bond in mol.GetBonds():
        name = str(bond.GetBondType())
        if name not in ZINC_BOND_TYPES:
            raise ValueError(f"bond type {name} is not in the vocabulary of ZINC")
        types.append(ZINC_BOND_TYPES.index(name))
    return MoleculeGraph(
        x, edges_of_mol(mol), np.repeat(np.array(types, dtype=np.int64), 2)[:, None]
    )


@dataclasses.dataclass(frozen=True)
class ZincFeaturiser(Featuriser):
    """The `Featuriser` of SMILES in the vocabulary of ZINC, see `parse_zinc_smiles`."""

    name: str = "zinc"

    @property
    def dims(self) -> Dims:
        """See `Featuriser`."""
        return [len(ZINC_ATOM_TYPES)], [len(ZINC_BOND_TYPES)]

    def read(self, text: str) -> MoleculeGraph:
        """See `Featuriser`."""
        return parse_zinc_smiles(text)

    def mols(self, text: str) -> list[Chem.Mol]:
        """See `Featuriser`."""
        return [mol_of_smiles(text)]


register_featuriser(ZincFeaturiser())
