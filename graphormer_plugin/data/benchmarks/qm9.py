"""QM9, 12 properties of 130,831 molecules with positions by DFT (Ramakrishnan et al. 2014,
doi:10.1038/sdata.2014.22), from the package qm9pack or PyG's raw files."""

import dataclasses
import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rdkit import Chem, rdBase
from rdkit.Chem import rdDetermineBonds

from graphormer_plugin.data.benchmarks.official import BenchmarkFiles, SingleFile
from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.files import file_sha256
from graphormer_plugin.data.graphs.chunk import MoleculeGraph
from graphormer_plugin.data.graphs.featurisers import vocabulary_of
from graphormer_plugin.data.graphs.smiles import PLACED
from graphormer_plugin.data.graphs.sources import MolBlock
from graphormer_plugin.data.sources.registry import DatasetSource, register_dataset
from graphormer_plugin.data.splits import Split
from graphormer_plugin.data.tables.formats import SdfTable
from graphormer_plugin.data.tables.options import DatasetOptions

HARTREE = 27.211386246  # eV
# Unit of each target, and its column in qm9pack and in PyG's files, which have Hartree where
# the unit is eV.
TARGETS = {
    "mu": ("D", "Dipole_debye", "mu"),
    "alpha": ("bohr^3", "Polarizability_bohr3", "alpha"),
    "homo": ("eV", "HOMO_au", "homo"),
    "lumo": ("eV", "LUMO_au", "lumo"),
    "gap": ("eV", "HOMO_LUMO_gap_au", "gap"),
    "r2": ("bohr^2", "R2_bohr2", "r2"),
    "zpve": ("eV", "ZPVE_au", "zpve"),
    "u0": ("eV", "InternalEnergy_0K_au", "u0"),
    "u": ("eV", "InternalEnergy_298K_au", "u298"),
    "h": ("eV", "Enthalphy_298K_au", "h298"),
    "g": ("eV", "GibbsFreeEnergy_298K_au", "g298"),
    "cv": ("cal/mol/K", "Heatcapacity_Cv_cal_mol_K", "cv"),
}
ATOMISED = {"u0": 7, "u": 8, "h": 9, "g": 10}  # numbers in PyG's table of references
ELEMENTS = ("H", "C", "N", "O", "F")  # order of that table
# Atoms nearer than this many sums of covalent radii have a bond. Of 1,500 molecules 57 then
# have other bonds than their SMILES with RDKit's 1.3, 18 with 1.2 and one with 1.15.
BOND = 1.15
ROWS = 130_831
TRAIN = 110_000
VALID = 10_000
RAW = BenchmarkFiles(
    name="qm9",
    folder="QM9/raw",
    files=("gdb9.sdf", "gdb9.sdf.csv", "uncharacterized.txt"),
    url="https://deepchemdata.s3-us-west-1.amazonaws.com/datasets/molnet_publish/qm9.zip",
    apart=(
        SingleFile(
            "uncharacterized.txt", "https://ndownloader.figshare.com/files/3195404"
        ),
    ),
    graphs=ROWS,
)


def _package_files() -> list[Path]:
    """The tables of qm9pack, which is not imported; none without the package."""
    package = importlib.util.find_spec("qm9pack")
    folders = [] if package is None else package.submodule_search_locations
    return sorted(f for d in folders for f in Path(d).glob("data/qm9_part*.csv"))


def _source(options: DatasetOptions) -> DatasetOptions:
    """Options with the source that is there: PyG's files, or else qm9pack. Both have
    positions."""
    found = "qm9pack" if RAW.missing(options) and _package_files() else "pyg"
    source = options.source or found
    return dataclasses.replace(options, source=source, positions="none")


def _content(options: DatasetOptions) -> dict[str, Any]:
    if options.source == "pyg":
        return RAW.content(options)
    return {"files": [file_sha256(file) for file in _package_files()] or None}


@register_dataset(
    "qm9",
    source="qm9pack",
    sources=("pyg",),
    options=("source", "seed", "target_columns", "positions"),
    positions=("none", "file"),
    content=_content,
    resolve=_source,
)
def qm9(options: DatasetOptions) -> DatasetSource:
    """QM9 with hydrogens as nodes: 110,000 / 10,000 / 10,831 by the seed.

    Targets are those of ``--target-columns``, by default ``gap``. Energies are in eV; u0, u, h and
    g are atomisation energies: the energies of free atoms in PyG's table are subtracted.
    """
    names = list(options.target_columns or ("gap",))
    if unknown := [name for name in names if name not in TARGETS]:
        raise DatasetError(
            f"qm9 has no target {unknown[0]!r}, only {', '.join(TARGETS)}"
        )
    if options.source == "pyg":
        texts, table = _pyg(options)
        place = 2
        parser = PLACED.read_row
    else:
        texts, table = _package()
        place = 1
        parser = parse_placed
    columns = [_in_unit(name, table, place) for name in names]
    return DatasetSource(
        smiles=texts,
        parser=parser,
        targets=np.stack(columns, 1),
        splits=split_of(len(texts), options.seed),
        target_names=names,
        unit=", ".join({TARGETS[name][0]: None for name in names}),
        kind="regression",
        **vocabulary_of(PLACED),
    )


def split_of(rows: int, seed: int) -> Split:
    """The field's 110,000 / 10,000 / 10,831 of all rows at random, or as many for each row."""
    order = np.random.default_rng(seed).permutation(rows)
    train = round(rows * TRAIN / ROWS)
    valid = train + round(rows * VALID / ROWS)
    parts = np.split(order, [train, valid])
    return {
        name: np.sort(part) for name, part in zip(("train", "valid", "test"), parts)
    }


def _in_unit(name: str, table: Any, place: int) -> np.ndarray:
    """A target [rows] in its unit. ``table`` has the `ELEMENTS` of each row, too."""
    values = table[TARGETS[name][place]].to_numpy(np.float64)
    if TARGETS[name][0] == "eV":
        values = values * HARTREE
    if name in ATOMISED:
        from torch_geometric.datasets.qm9 import atomrefs  # takes seconds

        values = values - table[[*ELEMENTS]].to_numpy() @ atomrefs[ATOMISED[name]]
    return values


def _package() -> tuple[Sequence[str], Any]:
    """Texts for `parse_placed` and labels of the molecules of qm9pack."""
    files = _package_files()
    if not files:
        raise DatasetError("qm9 needs qm9pack: pip install 'graphormer-plugin[qm9]'")
    import pandas  # a third of a second that no other dataset needs

    columns = [column for _, column, _ in TARGETS.values()]
    columns += ["SMILES", "Elements", "XYZ_Ang"]
    parts = [pandas.read_csv(file, usecols=columns) for file in files]
    table = pandas.concat(parts, ignore_index=True)
    for element in ELEMENTS:
        table[element] = table["Elements"].str.count(f"'{element}'")
    texts = table["SMILES"] + "\n" + table["Elements"] + "\n" + table["XYZ_Ang"]
    return texts.tolist(), table


def _pyg(options: DatasetOptions) -> tuple[Sequence[str], Any]:
    """Mol blocks and labels of the molecules in PyG's files that QM9's authors characterised."""
    import pandas

    with RAW.reading(options) as folder:
        lines = (folder / "uncharacterized.txt").read_text().split("\n")[9:-2]
        left_out = [int(line.split()[0]) - 1 for line in lines]
        table = pandas.read_csv(folder / "gdb9.sdf.csv").drop(index=left_out)
        sdf = SdfTable(folder / "gdb9.sdf").in_format(MolBlock)
        placed = [row.source for row in sdf.rows([], "smiles")]
    blocks = [placed[row] for row in table.index]
    for element in ELEMENTS:
        symbol = re.compile(rf"^(?:\s+[-\d.]+){{3}} {element}\s", re.MULTILINE)
        table[element] = [len(symbol.findall(one.block)) for one in blocks]
    RAW.check_count(len(blocks))
    return blocks, table


def parse_placed(text: str) -> MoleculeGraph:
    """Graph of a SMILES, elements with hydrogens and their positions, a line each."""
    smiles, elements, positions = text.split("\n")
    symbols = re.findall("[A-Z][a-z]?", elements)
    pos = np.array(re.findall(r"[-+\d.eE]+", positions), np.float64).reshape(-1, 3)
    return PLACED.graph(placed_mol(smiles, symbols, pos))


def placed_mol(smiles: str, symbols: Sequence[str], pos: np.ndarray) -> Any:
    """RDKit molecule of a SMILES with all hydrogens, whose atoms have the elements and positions
    [n, 3]. ValueError unless bonds between near atoms, found without the SMILES, are its bonds.
    """
    rows = [f"{one} {x:f} {y:f} {z:f}" for one, (x, y, z) in zip(symbols, pos.tolist())]
    near = Chem.MolFromXYZBlock("\n".join([str(len(rows)), "", *rows]))
    with rdBase.BlockLogs():
        rdDetermineBonds.DetermineConnectivity(near, useVdw=True, covFactor=BOND)
    mol = Chem.AddHs(Chem.MolFromSmiles(smiles))
    plain = Chem.RWMol()
    for atom in mol.GetAtoms():
        plain.AddAtom(Chem.Atom(atom.GetAtomicNum()))
    for bond in mol.GetBonds():
        ends = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        plain.AddBond(*ends, Chem.BondType.SINGLE)
    place = near.GetSubstructMatch(plain)
    sizes = [(one.GetNumAtoms(), one.GetNumBonds()) for one in (near, plain)]
    if not place or sizes[0] != sizes[1]:
        raise ValueError("near atoms are not those that its bonds join")
    mol = Chem.RenumberAtoms(mol, np.argsort(place).tolist())
    conformer = Chem.Conformer(len(pos))
    conformer.SetPositions(pos)
    mol.AddConformer(conformer)
    return mol
