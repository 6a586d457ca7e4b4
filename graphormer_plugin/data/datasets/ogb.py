"""Benchmarks of the Open Graph Benchmark: PCQM4M, PCQM4Mv2, ogbg-molhiv, ogbg-molpcba.

Hu et al. 2020 (arXiv:2005.00687) and 2021 (arXiv:2103.09430). Splits and labels are the
official ones, read from the files that OGB publishes.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from graphormer_plugin.data.datasets.official import BenchmarkFiles, load_torch
from graphormer_plugin.data.datasets.smiles import feature_dims, parse_any_smiles
from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.options import DatasetOptions
from graphormer_plugin.data.registry import DatasetSource, register_dataset
from graphormer_plugin.data.splits import checked_splits
from graphormer_plugin.data.table import CsvTable

# ------------------------------------------------------------- PCQM4M and PCQM4Mv2

_LSC = "https://dgl-data.s3-accelerate.amazonaws.com/dataset/OGB-LSC"
PCQM4M = BenchmarkFiles(
    name="pcqm4m",
    folder="pcqm4m_kddcup2021",
    files=("raw/data.csv.gz", "split_dict.pt"),
    url=f"{_LSC}/pcqm4m_kddcup2021.zip",
    inside="pcqm4m_kddcup2021",
    md5="5144ebaa7c67d24da1a2acbe41f57f6a",
    graphs=3_803_453,
)
PCQM4MV2 = BenchmarkFiles(
    name="pcqm4mv2",
    folder="pcqm4m-v2",
    files=("raw/data.csv.gz", "split_dict.pt"),
    url=f"{_LSC}/pcqm4m-v2.zip",
    inside="pcqm4m-v2",
    md5="65b742bafca5670be4497499db7d361b",
    graphs=3_746_620,
)


def official_only(options: DatasetOptions) -> DatasetOptions:
    """Options with source ``ogb``; Graphormer v2's ``pyg`` means the same files.

    Raises:
        DatasetError: The options name another source.
    """
    if options.source not in ("", "ogb", "pyg"):
        raise DatasetError(
            f"dataset {options.name!r} comes from 'ogb' (or 'pyg': the same files), "
            f"not from {options.source!r}"
        )
    return dataclasses.replace(options, source="ogb")


def _register(name: str, files: BenchmarkFiles, rule: int = 1):
    """Decorator of a dataset that is read from these files.

    Prepared data of an earlier rule is prepared again.
    """
    return register_dataset(
        name,
        source="ogb",
        options=(),
        content=lambda options: {"files": files.content(options), "rule": rule},
        resolve=official_only,
    )


@_register("pcqm4m", PCQM4M)
def pcqm4m(options: DatasetOptions) -> DatasetSource:
    """PCQM4M of the KDD Cup 2021: 3,803,453 molecules, HOMO-LUMO gap in eV.

    Splits are train, valid and test; molecules of test have no label.
    """
    return _pcqm(PCQM4M, ("train", "valid", "test"), options)


@_register("pcqm4mv2", PCQM4MV2)
def pcqm4mv2(options: DatasetOptions) -> DatasetSource:
    """PCQM4Mv2: 3,746,620 molecules, HOMO-LUMO gap in eV (DFT, B3LYP/6-31G*).

    Splits are train and valid, and test-dev and test-challenge without labels.
    """
    names = ("train", "valid", "test-dev", "test-challenge")
    return _pcqm(PCQM4MV2, names, options)


@_register("pcqm4mv2-graphgps", PCQM4MV2)
def pcqm4mv2_graphgps(options: DatasetOptions) -> DatasetSource:
    """PCQM4Mv2 as GraphGPS and Menegaux et al. 2023 (hal-04105101) split it.

    150,000 molecules of the official training split are valid, the other 3,228,606 are
    train. Test is the official validation split, which has labels: 73,545 molecules.
    """
    return _held_out(pcqm4mv2(options), subset=False)


@_register("pcqm4mv2-subset", PCQM4MV2, rule=2)
def pcqm4mv2_subset(options: DatasetOptions) -> DatasetSource:
    """A tenth of PCQM4Mv2, for the ablations of Menegaux et al. 2023, section 4.1.

    The tenth is that of the released code: 322,860 molecules of train of
    `pcqm4mv2_graphgps`, 50,000 of its valid, and its test.
    """
    return _held_out(pcqm4mv2(options), subset=True)


def held_out_splits(train: np.ndarray, subset: bool) -> dict[str, np.ndarray]:
    """Rows of train and valid of PCQM4Mv2 in the released code of GraphGPS and CSA.

    ``default_rng(42)`` permutes the rows. The first 150,000 choose the epoch, and the
    others train. The subset trains on the first tenth of these others and chooses by
    the first 50,000. A file of fewer rows than the official one has the same shares.

    Args:
        train: Rows of the official training split.
        subset: Whether to return the splits of the subset.
    """
    order = np.random.default_rng(42).permutation(train)
    held = max(1, len(order) * 150_000 // 3_378_606)
    valid, rest = order[:held], order[held:]
    if subset:
        valid, rest = valid[: max(1, held // 3)], rest[: len(rest) // 10]
    return {"train": np.sort(rest), "valid": np.sort(valid)}


def _held_out(whole: DatasetSource, subset: bool) -> DatasetSource:
    splits = held_out_splits(whole.splits["train"], subset)
    splits["test"] = whole.splits["valid"]
    rows = np.concatenate(list(splits.values()))
    ends = np.cumsum([len(part) for part in splits.values()])
    parts = np.split(np.arange(len(rows)), ends[:-1])
    return dataclasses.replace(
        whole,
        smiles=[whole.smiles[row] for row in rows],
        targets=whole.targets[rows],
        splits=dict(zip(splits, parts, strict=True)),
    )


def _pcqm(
    files: BenchmarkFiles, split_names: Sequence[str], options: DatasetOptions
) -> DatasetSource:
    import pandas  # late: it takes long

    folder = files.require(options)
    _check_release(files, folder, 1)
    file = folder / "raw" / "data.csv.gz"
    with files.reading(folder):
        table = pandas.read_csv(file)
        smiles, labels = table["smiles"].tolist(), table["homolumogap"]
        splits = load_torch(folder / "split_dict.pt")
        if set(splits) != set(split_names):
            raise DatasetError(
                f"{folder / 'split_dict.pt'}: has splits {', '.join(splits)}, expected "
                f"{', '.join(split_names)}; the file is of another version"
            )
        splits = checked_splits(splits, len(smiles), "row")
    files.check_count(len(smiles))
    gap = _numbers(labels, file, "homolumogap")
    for row, string in enumerate(smiles):
        if not isinstance(string, str):
            raise DatasetError(f"{file}: row {row}, column 'smiles': no SMILES")
    for name in ("train", "valid"):
        missing = splits[name][np.isnan(gap[splits[name]])]
        if missing.size:
            raise DatasetError(
                f"{file}: row {missing[0]} of split {name} has no homolumogap; the file "
                "is damaged or of another version"
            )
    node_dims, bond_dims = feature_dims()
    return DatasetSource(
        smiles=smiles,
        parser=parse_any_smiles,
        node_dims=node_dims,
        bond_dims=bond_dims,
        featuriser="ogb",
        targets=gap[:, None],
        target_names=["homolumogap"],
        unit="eV",
        kind="regression",
        splits=splits,
    )


def _check_release(files: BenchmarkFiles, folder: Path, version: int) -> None:
    releases = sorted(path.name for path in folder.glob("RELEASE_v*.txt"))
    if releases and f"RELEASE_v{version}.txt" not in releases:
        raise DatasetError(
            f"{files.name}: {folder} has {releases[0]}, this program reads release "
            f"{version}"
        )


def _numbers(values: Any, file: Path, column: str) -> np.ndarray:
    """float64 with NaN for missing values; DatasetError for text."""
    import pandas  # late: it takes long

    numbers = pandas.to_numeric(values, errors="coerce")
    text = values[numbers.isna() & values.notna()]
    if len(text):
        raise DatasetError(
            f"{file}: row {text.index[0]}, column {column!r}: {text.iloc[0]!r} is not a "
            "number"
        )
    return numbers.to_numpy(np.float64)


# ------------------------------------------------------ ogbg-molhiv and ogbg-molpcba

_GRAPHS = "http://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download"
_SPLIT = tuple(f"split/scaffold/{name}.csv.gz" for name in ("train", "valid", "test"))
_RAW = tuple(
    f"raw/{name}.csv.gz"
    for name in (
        "edge",
        "num-node-list",
        "num-edge-list",
        "node-feat",
        "edge-feat",
        "graph-label",
    )
)
_MAPPING = "mapping/mol.csv.gz"


@dataclass(frozen=True)
class MoleculeBenchmark:
    """An ogbg-mol dataset: graphs that OGB made, or its list of SMILES.

    Attributes:
        graphs: Files with graphs, which are downloaded if all files are missing.
        smiles: Files with SMILES, which are read if those with graphs are missing.
        tasks: Number of binary tasks.
    """

    graphs: BenchmarkFiles
    smiles: BenchmarkFiles
    tasks: int

    def files(self, options: DatasetOptions) -> BenchmarkFiles:
        """The files that exist; those with graphs if none do."""
        if self.graphs.missing(options) and not self.smiles.missing(options):
            return self.smiles
        return self.graphs

    def content(self, options: DatasetOptions) -> dict[str, Any]:
        """See `RegisteredDataset`."""
        return {"files": self.files(options).content(options), "rule": 1}

    def load(self, options: DatasetOptions) -> DatasetSource:
        """See `register_dataset`."""
        files = self.files(options)
        folder = files.require(options)
        _check_release(files, folder, 1)
        with files.reading(folder):
            splits = {
                Path(name).name.partition(".")[0]: _split(folder / name)
                for name in _SPLIT
            }
        node_dims, bond_dims = feature_dims()
        shared = dict(
            node_dims=node_dims,
            bond_dims=bond_dims,
            featuriser="ogb",
            kind="binary",
            splits=splits,
        )
        names = task_names(folder / _MAPPING, self.tasks, files.name)
        if files is self.smiles:
            smiles, targets = _molecules(folder / _MAPPING, names)
            files.check_count(len(smiles))
            return DatasetSource(
                smiles=smiles,
                targets=targets,
                target_names=names,
                parser=parse_any_smiles,
                **shared,
            )
        graphs = _RawGraphs(files, folder, self.tasks)
        files.check_count(len(graphs))
        return DatasetSource(graphs=graphs, target_names=names, **shared)


def _benchmark(name: str, archive: str, graphs: int, tasks: int) -> MoleculeBenchmark:
    files = BenchmarkFiles(
        name=name,
        folder=name.replace("-", "_"),
        files=(*_RAW, *_SPLIT),
        url=f"{_GRAPHS}/{archive}.zip",
        inside=archive,
        graphs=graphs,
    )
    smiles = dataclasses.replace(files, files=(_MAPPING, *_SPLIT))
    benchmark = MoleculeBenchmark(files, smiles, tasks)
    register_dataset(
        name,
        source="ogb",
        options=(),
        content=benchmark.content,
        resolve=official_only,
    )(benchmark.load)
    return benchmark


# HIV inhibition, a binary label; scored by ROC-AUC.
MOLHIV = _benchmark("ogbg-molhiv", "hiv", 41_127, 1)
# 128 assays of PubChem, 40 % of the labels missing; scored by average precision.
MOLPCBA = _benchmark("ogbg-molpcba", "pcba", 437_929, 128)


def task_names(mapping: Path, tasks: int, name: str) -> list[str]:
    """Names of the tasks: the columns of OGB's list of molecules, if it exists."""
    if tasks == 1:
        return ["HIV_active"]
    if not mapping.is_file():
        return [f"task{number}" for number in range(tasks)]
    header = CsvTable(mapping).header
    names = [column for column in header if column not in ("smiles", "mol_id")]
    if len(names) != tasks:
        raise DatasetError(
            f"{mapping}: {len(names)} columns of labels, {name} has {tasks}; the file "
            "is of another version"
        )
    return names


def _molecules(mapping: Path, names: list[str]) -> tuple[list[str], np.ndarray]:
    table = CsvTable(mapping)
    for name in ("smiles", *names):
        table.require(name)
    smiles, labels = [], []
    for row, line, cells in table.rows(["smiles", *names]):
        smiles.append(cells[0])
        try:
            labels.append([float(cell) if cell else np.nan for cell in cells[1:]])
        except ValueError as error:
            raise DatasetError(f"{mapping}: row {row} (line {line}): {error}") from None
    return smiles, np.array(labels, dtype=np.float64).reshape(-1, len(names))


def _split(path: Path) -> np.ndarray:
    """Rows of a split, one per line."""
    import pandas  # late: it takes long

    cells = pandas.read_csv(path, header=None, dtype=str, keep_default_na=False)[0]
    for line, cell in enumerate(cells, 1):
        if not cell.strip().isdecimal():
            raise DatasetError(f"{path}: line {line}: {cell!r} is not a row number")
    return cells.astype(np.int64).to_numpy()


class _RawGraphs:
    """Graphs of OGB's raw files, which list each bond once, with their labels."""

    def __init__(self, files: BenchmarkFiles, folder: Path, tasks: int) -> None:
        import pandas  # late: it takes long

        raw = folder / "raw"
        with files.reading(raw):
            self.edges, nodes, edges, self.x, self.edge_attr, labels = (
                pandas.read_csv(folder / name, header=None) for name in _RAW
            )
            self.edges, self.x, self.edge_attr = (
                table.to_numpy() for table in (self.edges, self.x, self.edge_attr)
            )
            self.nodes, self.bonds = nodes[0].to_numpy(), edges[0].to_numpy()
        for name, rows, counts in (
            ("node-feat", self.x, self.nodes),
            ("edge", self.edges, self.bonds),
            ("edge-feat", self.edge_attr, self.bonds),
        ):
            if len(rows) != counts.sum():
                raise DatasetError(
                    f"{raw / name}.csv.gz: {len(rows)} rows, expected {counts.sum()}; "
                    "the file is incomplete or of another version"
                )
        path = raw / "graph-label.csv.gz"
        columns = [_numbers(labels[name], path, str(name)) for name in labels]
        self.labels = np.stack(columns, axis=1)
        if self.labels.shape != (len(self), tasks):
            raise DatasetError(
                f"{path}: {len(self.labels)} rows of {self.labels.shape[1]} labels, "
                f"expected {len(self)} (graphs) of {tasks}"
            )

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[SimpleNamespace]:
        node_ends, bond_ends = np.cumsum(self.nodes), np.cumsum(self.bonds)
        for number, (node, bond) in enumerate(zip(node_ends, bond_ends, strict=True)):
            bonds = slice(bond - self.bonds[number], bond)
            one_way = self.edges[bonds].T
            yield SimpleNamespace(
                x=self.x[node - self.nodes[number] : node],
                edge_index=np.concatenate([one_way, one_way[::-1]], axis=1),
                edge_attr=np.tile(self.edge_attr[bonds], (2, 1)),
                y=self.labels[number],
            )
