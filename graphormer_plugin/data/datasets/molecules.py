"""Molecules from SMILES: OGB's features, RDKit's own NCI molecules, and any CSV."""

from __future__ import annotations

import array
import csv
import functools
import gzip
import importlib.util
import math
import os
import types
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

import numpy as np

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.files import file_sha256
from graphormer_plugin.data.prepare import MoleculeGraph, Parser
from graphormer_plugin.data.registry import (
    DatasetOptions,
    DatasetSource,
    RegisteredDataset,
    random_split,
    register_dataset,
)

# Part of what a store must have come from: raised when features, targets or splits
# change, so that stores of earlier versions are prepared again.
_RULE = 1

# ------------------------------------------------------------------- featuriser


@functools.cache
def _ogb_features() -> types.ModuleType:
    """OGB's module of feature lists.

    Loaded by its path: the package itself asks a server for its version when imported,
    and pulls in torch, which preparing workers do not need.
    """
    package = importlib.util.find_spec("ogb")
    if package is None:
        raise DatasetError("the package ogb is not installed; it defines the features")
    folder = package.submodule_search_locations[0]
    path = os.path.join(folder, "utils", "features.py")
    spec = importlib.util.spec_from_file_location("_ogb_utils_features", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def feature_dims() -> tuple[list[int], list[int]]:
    """Number of values of OGB's 9 node columns and 3 bond columns."""
    features = _ogb_features()
    return features.get_atom_feature_dims(), features.get_bond_feature_dims()


def graph_of_mol(mol: Any) -> MoleculeGraph:
    """Nodes and edges of an RDKit molecule as ``ogb.utils.smiles2graph`` makes them.

    Args:
        mol: RDKit molecule; atoms keep their order.

    Returns:
        x int64 [atoms, 9]; edge_index int64 [2, 2 x bonds] with both directions of a
        bond next to each other; edge_attr int64 [2 x bonds, 3].

    Raises:
        ValueError: A bond has a kind of stereo that OGB's list lacks.
    """
    features = _ogb_features()
    x = [features.atom_to_feature_vector(atom) for atom in mol.GetAtoms()]
    ends, attributes = [], []
    for bond in mol.GetBonds():
        ends.append((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()))
        attributes.append(features.bond_to_feature_vector(bond))
    edges = np.array(ends, dtype=np.int64).reshape(-1, 2)
    return MoleculeGraph(
        np.array(x, dtype=np.int64).reshape(-1, 9),
        np.stack([edges, edges[:, ::-1]], axis=1).reshape(-1, 2).T,
        np.repeat(np.array(attributes, np.int64).reshape(-1, 3), 2, axis=0),
    )


def parse_smiles(smiles: str, scaffold: bool = False) -> MoleculeGraph:
    """Graph of a SMILES with OGB's features; see `graph_of_mol`.

    Args:
        smiles: One molecule; several fragments make one disconnected graph.
        scaffold: Also put the Bemis-Murcko scaffold into ``extras["scaffold"]``.

    Raises:
        ValueError: RDKit refuses it.
    """
    mol = mol_of_smiles(smiles)
    graph = graph_of_mol(mol)
    if scaffold:
        graph = graph._replace(extras={"scaffold": murcko_scaffold(mol)})
    return graph


def parse_any_smiles(smiles: str) -> MoleculeGraph:
    """`parse_smiles` for benchmarks, which lose no graph over RDKit's valence rules.

    Those have become stricter since the benchmarks were made: seven molecules of
    ogbg-molhiv, complexes of Al, B and Ge, are refused today. What they refuse is
    parsed without them; all else (aromaticity, conjugation, rings) is perceived as
    usual.

    Raises:
        ValueError: It is no SMILES.
    """
    from rdkit import Chem

    try:
        return parse_smiles(smiles)
    except ValueError:
        mol = Chem.MolFromSmiles(smiles, sanitize=False)
        if mol is None:
            raise
    mol.UpdatePropertyCache(strict=False)
    mol = Chem.RemoveHs(mol, sanitize=False)
    everything = Chem.SanitizeFlags.SANITIZE_ALL
    Chem.SanitizeMol(mol, everything ^ Chem.SanitizeFlags.SANITIZE_PROPERTIES)
    Chem.AssignStereochemistry(mol, cleanIt=True, force=True)
    return graph_of_mol(mol)


def parser(scaffold: bool = False) -> Parser:
    """The default parser, to be sent to workers."""
    return functools.partial(parse_smiles, scaffold=True) if scaffold else parse_smiles


def mol_of_smiles(smiles: str) -> Any:
    """RDKit molecule.

    Raises:
        ValueError: RDKit refuses it, or text follows it.
    """
    from rdkit import Chem

    # RDKit takes what follows a blank for the molecule's name: "[Na+] [Cl-]" would be
    # a sodium ion. CXSMILES extensions stand between bars.
    _, *rest = smiles.split(maxsplit=1) or [""]
    if rest and not rest[0].startswith("|"):
        raise ValueError(f"text after a blank in the SMILES: {rest[0]!r}")
    mol = Chem.MolFromSmiles(smiles)
    if mol is None:
        raise ValueError("RDKit refuses it")
    return mol


# --------------------------------------------------------------------- scaffolds


def murcko_scaffold(mol: Any) -> str:
    """Bemis-Murcko scaffold as SMILES with chirality; empty without rings.

    As RDKit's ``MurckoScaffoldSmiles``, and also for molecules parsed without
    sanitisation, whose valences that function refuses.

    Args:
        mol: RDKit molecule whose rings are known.
    """
    from rdkit import Chem

    scaffold = Chem.MurckoDecompose(mol)
    scaffold.ClearComputedProps()
    scaffold.UpdatePropertyCache(strict=False)
    Chem.GetSymmSSSR(scaffold)
    return Chem.MolToSmiles(scaffold, isomericSmiles=True)


def scaffold_split(scaffolds: Sequence[str]) -> dict[str, np.ndarray]:
    """Split by Bemis-Murcko scaffold: 80 / 10 / 10 %, no scaffold in two splits.

    MoleculeNet's and OGB's rule, which reproduces the official ogbg-molhiv split:
    groups of equal scaffold, sorted by size and then by first molecule, both
    descending, fill train up to 80 %, then valid up to 90 %; the rest is test.

    Args:
        scaffolds: One per molecule.

    Returns:
        Molecule numbers by split, ascending.
    """
    groups: dict[str, list[int]] = defaultdict(list)
    for number, scaffold in enumerate(scaffolds):
        groups[scaffold].append(number)
    order = sorted(groups.values(), key=lambda g: (len(g), g[0]), reverse=True)
    splits: dict[str, list[int]] = {"train": [], "valid": [], "test": []}
    for group in order:
        if len(splits["train"]) + len(group) <= 0.8 * len(scaffolds):
            splits["train"] += group
        elif len(splits["train"]) + len(splits["valid"]) + len(group) <= 0.9 * len(
            scaffolds
        ):
            splits["valid"] += group
        else:
            splits["test"] += group
    return {name: np.sort(np.array(g, np.int64)) for name, g in splits.items()}


# ---------------------------------------------------------------- NCI molecules

# Rows (from 0) of the file that RDKit's valence rules refuse: oxo-mercury nitrate and
# aluminium, beryllium, silicon and phosphorus complexes drawn with plain bonds.
NCI_REFUSED = (2097, 2897, 3226, 3369, 4508, 4595, 4596, 4780)


def _nci_file() -> Path:
    try:
        from rdkit import RDConfig
    except ImportError:
        raise DatasetError("the package rdkit is not installed") from None
    path = Path(RDConfig.RDDataDir) / "NCI" / "first_5K.smi"
    if not path.exists():
        raise DatasetError(f"{path} is missing: this build of RDKit comes without data")
    return path


@register_dataset(
    "nci",
    source="rdkit",
    options=(),
    content=lambda options: {"file": file_sha256(_nci_file()), "rule": _RULE},
)
def nci() -> DatasetSource:
    """The 4,999 NCI molecules in RDKit's wheel, with ZINC's constrained solubility.

    target = z(logP) - z(SA) - z(cyc), higher is better, dimensionless: logP is
    Crippen's, SA the synthetic accessibility of Ertl & Schuffenhauer 2009
    (doi:10.1186/1758-2946-1-8), cyc = max(0, longest cycle - 6) with
    `longest_cycle`. As in Jin et al. 2018 (arXiv:1802.04364), from whom ZINC has its
    target, each term is standardised: z subtracts the mean and divides by the
    population standard deviation, here those of this dataset's training split.

    Of the 4,999 rows RDKit refuses 8 (`NCI_REFUSED`), left out. Of the others, row
    numbers ending in 8 are valid, in 9 test, the rest train: a further molecule that
    another RDKit refuses moves no other molecule.
    """
    lines = _nci_file().read_text(encoding="utf-8").splitlines()
    rows = np.arange(len(lines))
    return DatasetSource(
        smiles=[line.split()[0] for line in lines],
        parser=_parse_with_solubility,
        node_dims=feature_dims()[0],
        bond_dims=feature_dims()[1],
        featuriser="ogb",
        targets=_standardised_solubility,
        target_names=["penalised_logp"],
        unit="dimensionless",
        kind="regression",
        splits={
            "train": rows[rows % 10 < 8],
            "valid": rows[rows % 10 == 8],
            "test": rows[rows % 10 == 9],
        },
        exclude=NCI_REFUSED,
    )


def _parse_with_solubility(smiles: str) -> MoleculeGraph:
    mol = mol_of_smiles(smiles)
    return graph_of_mol(mol)._replace(extras={"terms": solubility_terms(mol)})


def solubility_terms(mol: Any) -> tuple[float, float, float]:
    """Crippen logP, synthetic accessibility, and max(0, longest cycle - 6)."""
    from rdkit.Chem import Crippen

    neighbours = [[a.GetIdx() for a in atom.GetNeighbors()] for atom in mol.GetAtoms()]
    cycle = max(0, longest_cycle(neighbours) - 6)
    return Crippen.MolLogP(mol), _sa_scorer().calculateScore(mol), float(cycle)


def _standardised_solubility(
    extras: Mapping[str, list[Any]], splits: Mapping[str, np.ndarray]
) -> np.ndarray:
    terms = np.array(extras["terms"], dtype=np.float64)  # [G, 3]
    train = terms[splits["train"]]
    standard = (terms - train.mean(axis=0)) / train.std(axis=0)
    return (standard @ np.array([1.0, -1.0, -1.0]))[:, None]


def longest_cycle(neighbours: Sequence[Iterable[int]]) -> int:
    """Length of the longest cycle in the cycle basis that ZINC's target is made with.

    Paton 1969 (doi:10.1145/363219.363232): a spanning tree is grown depth-first from
    the lowest node of each component, neighbours visited in ascending order; each
    further edge closes one cycle. The basis, and so the length, depends on that order
    and on the numbering of the nodes.

    Args:
        neighbours: Of each node; symmetric, no self-loops.

    Returns:
        Nodes of the longest cycle, 0 without cycles.
    """
    longest = 0
    unseen = set(range(len(neighbours)))
    while unseen:
        root = min(unseen)
        stack = [root]
        parent = {root: root}
        used: dict[int, set[int]] = {root: set()}
        while stack:
            node = stack.pop()
            for other in sorted(neighbours[node]):
                if other not in used:
                    parent[other] = node
                    stack.append(other)
                    used[other] = {node}
                elif other not in used[node]:
                    # Up from node until a node that the other end has already met.
                    length, above = 2, parent[node]
                    while above not in used[other]:
                        length += 1
                        above = parent[above]
                    longest = max(longest, length + 1)
                    used[other].add(node)
        unseen -= parent.keys()
    return longest


@functools.cache
def _sa_scorer() -> types.ModuleType:
    """RDKit's contributed module; not importable by name in every build of RDKit."""
    from rdkit import RDConfig

    path = Path(RDConfig.RDContribDir) / "SA_Score" / "sascorer.py"
    if not path.exists():
        raise DatasetError(
            f"{path} is missing: this build of RDKit comes without its contributions"
        )
    spec = importlib.util.spec_from_file_location("_rdkit_sascorer", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --------------------------------------------------------------------------- CSV

_MISSING = frozenset({"", "nan", "na", "n/a", "null", "none"})
_LARGEST = float(np.finfo(np.float32).max)
_LONGEST_CELL = 1 << 24  # characters; Python's own limit of 131,072 cuts a mol block
_SPLIT_NAMES = {
    "train": "train",
    "training": "train",
    "valid": "valid",
    "validation": "valid",
    "val": "valid",
    "dev": "valid",
    "test": "test",
}


def _csv_content(options: DatasetOptions) -> dict[str, Any]:
    path = Path(options.name).expanduser()
    try:
        return {"file": file_sha256(path), "rule": _RULE}
    except OSError as error:
        raise DatasetError(f"{path}: {error.strerror}") from None


def csv_dataset(options: DatasetOptions) -> DatasetSource:
    """Molecules and targets from a CSV file with a header, plain or gzipped.

    Missing targets are empty cells, nan, na, n/a, null or none (in any case). Row
    numbers count data rows from 0, as predictions are numbered; errors also give the
    line of the file, from 1.

    Raises:
        DatasetError: The file cannot be read, or a header, row or cell is wrong; one
            line that names file, row and column.
    """
    path = Path(options.name).expanduser()
    table = CsvTable(path)
    smiles_column = table.find_smiles(options.smiles_column)
    split_column = table.find_split(options.split)
    targets = options.target_columns or table.remaining(smiles_column, split_column)
    for name in targets:
        table.require(name)
    if len(set(targets)) != len(targets):
        raise DatasetError(f"{path}: a target column is named twice: {list(targets)}")
    wanted = [smiles_column, *targets, *([split_column] if split_column else [])]
    smiles: list[str] = []
    values = array.array("d")
    rows_of: dict[str, list[int]] = {}
    for row, line, cells in table.rows(wanted):
        if not cells[0].strip():
            raise DatasetError(
                f"{path}: row {row} (line {line}), column {smiles_column!r}: no SMILES"
            )
        smiles.append(cells[0].strip())
        for name, cell in zip(targets, cells[1 : 1 + len(targets)], strict=True):
            try:
                values.append(_number(cell, options.target_kind))
            except ValueError as error:
                raise DatasetError(
                    f"{path}: row {row} (line {line}), column {name!r}: {error}"
                ) from None
        if split_column:
            split = _SPLIT_NAMES.get(cells[-1].strip().lower())
            if split is None:
                raise DatasetError(
                    f"{path}: row {row} (line {line}), column {split_column!r}: "
                    f"{cells[-1]!r} is no split, expected train|valid|test"
                )
            rows_of.setdefault(split, []).append(row)
    if not smiles:
        raise DatasetError(f"{path}: there are no rows below the header")
    target = np.frombuffer(values).reshape(len(smiles), len(targets))
    splits: Optional[dict[str, np.ndarray]] = None
    if split_column:
        for name in ("train", "valid"):
            if name not in rows_of:
                raise DatasetError(
                    f"{path}: no rows in split {name} (column {split_column!r})"
                )
        splits = {name: np.array(rows_of[name]) for name in rows_of}
    elif options.split != "scaffold":
        try:
            splits = random_split(len(smiles), options.seed)
        except DatasetError as error:
            raise DatasetError(f"{path}: {error}") from None
    if np.isnan(target).all():
        raise DatasetError(f"{path}: columns {list(targets)} have no label at all")
    if options.target_kind == "multiclass" and len(targets) != 1:
        raise DatasetError(
            f"{path}: a multiclass target is one column, got {list(targets)}"
        )
    label = path.name.removesuffix(".gz").removesuffix(".csv")
    return DatasetSource(
        smiles=smiles,
        targets=target,
        splits=splits,
        target_names=list(targets),
        unit=options.target_unit,
        kind=options.target_kind,
        label=label,
    )


CSV = RegisteredDataset(
    name="csv",
    function=csv_dataset,
    source="csv",
    options=(
        "smiles_column",
        "target_columns",
        "split",
        "seed",
        "target_kind",
        "target_unit",
    ),
    content=_csv_content,
)


def _number(cell: str, kind: str) -> float:
    text = cell.strip()
    if text.lower() in _MISSING:
        return math.nan
    try:
        if "_" in text:  # Python's 1_000, and nobody's number in a CSV
            raise ValueError
        number = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is no number") from None
    if not abs(number) <= _LARGEST:
        raise ValueError(f"{text!r} is no number that fits float32")
    if kind == "binary" and number not in (0, 1):
        raise ValueError(f"{text!r} is neither 0 nor 1")
    if kind == "multiclass" and (number < 0 or number != int(number)):
        raise ValueError(f"{text!r} is no class number")
    return number


class CsvTable:
    """A CSV file read row by row, strictly.

    pandas fills short rows with NaN and renames repeated columns; a training set
    should not be mended silently.

    Args:
        path: File; gzipped if it ends in ``.gz``.

    Raises:
        DatasetError: It cannot be read, is empty, or names a column twice.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        _, header = next(self._lines(), (0, None))
        if header is None:
            raise DatasetError(f"{path}: the file is empty")
        self.header = [name.strip() for name in header]
        repeated = {name for name in self.header if self.header.count(name) > 1}
        if repeated:
            raise DatasetError(
                f"{path}: column {min(repeated)!r} appears twice in the header; rename "
                "one of them"
            )

    def require(self, name: str) -> str:
        """The name, if it is a column."""
        if name not in self.header:
            raise DatasetError(f"{self.path}: no column {name!r}, {self._has()}")
        return name

    def find_smiles(self, asked: str) -> str:
        """The SMILES column: as asked, else the one called smiles in any case, else the
        only one with smiles in its name (canonical_smiles)."""
        if asked:
            return self.require(asked)
        lower = [name.lower() for name in self.header]
        for found in (
            [name == "smiles" for name in lower],
            ["smiles" in name and not {";", "\t"} & {*name} for name in lower],
        ):
            if sum(found) == 1:
                return self.header[found.index(True)]
        raise DatasetError(
            f"{self.path}: which column has the SMILES? Name it with --smiles-column; "
            f"{self._has()}"
        )

    def _has(self) -> str:
        hint = ""
        if len(self.header) == 1 and any(mark in self.header[0] for mark in ";\t"):
            hint = " (cells must be separated by commas)"
        return f"the header has {_listed(self.header)}{hint}"

    def find_split(self, asked: str) -> Optional[str]:
        """The column that ``column:NAME`` names; by default one called split."""
        if asked.startswith("column:"):
            return self.require(asked.removeprefix("column:"))
        if not asked and "split" in self.header:
            return "split"
        return None

    def remaining(self, smiles_column: str, split_column: Optional[str]) -> list[str]:
        """The one column that can be the target where none is named."""
        others = [
            name
            for name in self.header
            if name not in (smiles_column, split_column, "split")
        ]
        if len(others) != 1:
            raise DatasetError(
                f"{self.path}: which columns are targets? Name them with "
                f"--target-columns; there are {_listed(others)}"
            )
        return others

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[int, int, list[str]]]:
        """Yields (row from 0, line of the file from 1, cells of ``columns``)."""
        places = [self.header.index(name) for name in columns]
        lines = self._lines()
        next(lines)
        for row, (line, cells) in enumerate(lines):
            if len(cells) != len(self.header):
                raise DatasetError(
                    f"{self.path}: row {row} (line {line}) has {len(cells)} cells, "
                    f"expected {len(self.header)} as the header"
                )
            yield row, line, [cells[place] for place in places]

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """Yields (line, cells) of everything that is no blank line."""
        opener: Callable[..., Any] = gzip.open if self.path.suffix == ".gz" else open
        try:
            with opener(self.path, "rt", encoding="utf-8-sig", newline="") as file:
                csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
                reader = csv.reader(file, strict=True)
                try:
                    for cells in reader:
                        if cells:
                            yield reader.line_num, cells
                except csv.Error as error:
                    raise DatasetError(
                        f"{self.path}: line {reader.line_num}: {error}; check the "
                        "quotes there and before"
                    ) from None
        except UnicodeDecodeError:
            with opener(self.path, "rb") as file:
                line = next(n for n, text in enumerate(file, 1) if not _is_utf8(text))
            raise DatasetError(
                f"{self.path}: line {line} is not UTF-8 text; save the table as CSV in "
                "UTF-8"
            ) from None
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DatasetError(
                f"{self.path}: the gzip file is damaged or incomplete: {error}"
            ) from None
        except OSError as error:
            raise DatasetError(f"{self.path}: {error.strerror}") from None


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _listed(names: Sequence[str], limit: int = 12) -> str:
    if not names:
        return "no other column"
    more = f", and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(repr(name) for name in names[:limit]) + more
