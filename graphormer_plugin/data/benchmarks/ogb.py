"""Benchmarks of the Open Graph Benchmark: PCQM4M, PCQM4Mv2, ogbg-molhiv, ogbg-molpcba.

Hu et al. 2020 (arXiv:2005.00687) and 2021 (arXiv:2103.09430). Splits and labels are the
official ones, read from the files that OGB publishes.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from graphormer_plugin.data.benchmarks.official import BenchmarkFiles
from graphormer_plugin.data.benchmarks.pickles import load_torch
from graphormer_plugin.data.graphs.featurisers import vocabulary_of
from graphormer_plugin.data.graphs.pyg_graphs import MappedGraphs
from graphormer_plugin.data.graphs.smiles import PLAIN
from graphormer_plugin.data.sources.registry import DatasetSource, register_dataset
from graphormer_plugin.data.splits import (
    SPLITS,
    Split,
    checked_splits,
    consecutive_splits,
)
from graphormer_plugin.data.tables.options import DatasetOptions

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


def _register(name: str, files: BenchmarkFiles, *options: str):
    """Decorator of a dataset that is read from these files, with some ``options``. Graphormer
    v2's source ``pyg`` means the same files as ``ogb``."""
    return register_dataset(
        name,
        source="ogb",
        sources=("pyg",),
        options=options,
        content=files.content,
    )


@_register("pcqm4m", PCQM4M, "positions")
def pcqm4m(options: DatasetOptions) -> DatasetSource:
    """PCQM4M of the KDD Cup 2021: 3,803,453 molecules, HOMO-LUMO gap in eV.

    Splits are train, valid and test; molecules of test have no label.
    """
    return _pcqm(PCQM4M, SPLITS, options)


@_register("pcqm4mv2", PCQM4MV2, "positions")
def pcqm4mv2(options: DatasetOptions) -> DatasetSource:
    """PCQM4Mv2: 3,746,620 molecules, HOMO-LUMO gap in eV (DFT, B3LYP/6-31G*).

    Splits are train and valid, and test-dev and test-challenge without labels.
    """
    names = ("train", "valid", "test-dev", "test-challenge")
    return _pcqm(PCQM4MV2, names, options)


@_register("pcqm4mv2-graphgps", PCQM4MV2, "positions")
def pcqm4mv2_graphgps(options: DatasetOptions) -> DatasetSource:
    """PCQM4Mv2 as GraphGPS and Menegaux et al. 2023 (hal-04105101) split it.

    150,000 molecules of the official training split are valid, the other 3,228,606 are
    train. Test is the official validation split, which has labels: 73,545 molecules.
    """
    return _held_out(pcqm4mv2(options), subset=False)


@_register("pcqm4mv2-subset", PCQM4MV2, "positions")
def pcqm4mv2_subset(options: DatasetOptions) -> DatasetSource:
    """A tenth of PCQM4Mv2, for the ablations of Menegaux et al. 2023, section 4.1.

    The tenth is the tenth of the released code: 322,860 molecules of train of
    `pcqm4mv2_graphgps`, 50,000 of its valid, and its test.
    """
    return _held_out(pcqm4mv2(options), subset=True)


def held_out_splits(train: np.ndarray, subset: bool) -> Split:
    """Rows of train and valid of PCQM4Mv2 in the released code of GraphGPS and CSA.

    ``default_rng(42)`` permutes the rows ``train`` of the official training split. The first
    150,000 choose the epoch, and the others train. The subset trains on the first tenth of
    these others and chooses by the first 50,000. A file of fewer rows has the same shares.
    """
    order = np.random.default_rng(42).permutation(train)
    held = max(1, len(order) * 150_000 // 3_378_606)
    valid = order[:held]
    rest = order[held:]
    if subset:
        valid = valid[: max(1, held // 3)]
        rest = rest[: len(rest) // 10]
    return {"train": np.sort(rest), "valid": np.sort(valid)}


def _held_out(whole: DatasetSource, subset: bool) -> DatasetSource:
    splits = held_out_splits(whole.splits["train"], subset)
    splits["test"] = whole.splits["valid"]
    rows = np.concatenate(list(splits.values()))
    return dataclasses.replace(
        whole,
        smiles=[whole.smiles[row] for row in rows],
        targets=whole.targets[rows],
        splits=consecutive_splits({name: len(part) for name, part in splits.items()}),
    )


def _pcqm(
    files: BenchmarkFiles, split_names: Sequence[str], options: DatasetOptions
) -> DatasetSource:
    import pandas  # late: it takes long

    with files.reading(options) as folder:
        table = pandas.read_csv(folder / files.files[0], dtype={"homolumogap": float})
        smiles = table["smiles"].fillna("").tolist()
        saved = load_torch(folder / files.files[1])
        splits = {name: saved[name] for name in split_names}
        splits = checked_splits(splits, len(smiles), "row")
    files.check_count(len(smiles))
    return DatasetSource(
        smiles=smiles,
        targets=table["homolumogap"].to_numpy()[:, None],
        target_names=["homolumogap"],
        unit="eV",
        kind="regression",
        splits=splits,
        parser=options.featuriser.read_any,
        **vocabulary_of(options.featuriser),
    )


# ------------------------------------------------------ ogbg-molhiv and ogbg-molpcba

_GRAPHS = "http://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download"
_SPLIT = tuple(f"split/scaffold/{name}.csv.gz" for name in SPLITS)
_COLUMNS = "edge num-node-list num-edge-list node-feat edge-feat graph-label"
_RAW = tuple(f"raw/{name}.csv.gz" for name in _COLUMNS.split())
_MAPPING = "mapping/mol.csv.gz"  # names of the tasks, if it is there


def _benchmark(name: str, archive: str, graphs: int, tasks: int) -> BenchmarkFiles:
    """Files of an ogbg-mol dataset, which is registered."""
    files = BenchmarkFiles(
        name=name,
        folder=name.replace("-", "_"),
        files=(*_RAW, *_SPLIT),
        url=f"{_GRAPHS}/{archive}.zip",
        inside=archive,
        graphs=graphs,
    )

    @_register(name, files)
    def _load(options: DatasetOptions) -> DatasetSource:
        import pandas  # late: it takes long

        names = [f"task{index}" for index in range(tasks)]
        if tasks == 1:
            names = ["HIV_active"]
        with files.reading(options) as folder:
            splits = {
                Path(name).name.partition(".")[0]: _table(folder / name, int)[:, 0]
                for name in _SPLIT
            }
            if (folder / _MAPPING).is_file():
                columns = pandas.read_csv(folder / _MAPPING, nrows=0).columns
                names = [n for n in columns if n not in ("smiles", "mol_id")]
            molecules = _raw_graphs(folder, len(names))
        files.check_count(len(molecules))
        return DatasetSource(
            graphs=molecules,
            target_names=names,
            kind="binary",
            splits=splits,
            **vocabulary_of(PLAIN),
        )

    return files


# HIV inhibition, a binary label; scored by ROC-AUC.
MOLHIV = _benchmark("ogbg-molhiv", "hiv", 41_127, 1)
# 128 assays of PubChem, 40 % of the labels missing; scored by average precision.
MOLPCBA = _benchmark("ogbg-molpcba", "pcba", 437_929, 128)


def _table(path: Path, dtype: type) -> np.ndarray:
    """Numbers of a file without a header; ValueError for text."""
    import pandas  # late: it takes long

    return pandas.read_csv(path, header=None, dtype=dtype).to_numpy()


def _raw_graphs(folder: Path, tasks: int) -> MappedGraphs:
    """Graphs of OGB's raw files, which list each bond once, with their labels."""
    edges, nodes, bonds, x, edge_attr = (_table(folder / n, int) for n in _RAW[:-1])
    labels = _table(folder / _RAW[-1], float)
    node_ends = np.cumsum(nodes)
    bond_ends = np.cumsum(bonds)
    sizes = [len(x), len(edges), len(edge_attr), *labels.shape]
    ends = [int(node_ends[-1]), *[int(bond_ends[-1])] * 2]
    expected = [*ends, len(nodes), tasks]
    if sizes != expected:
        raise ValueError(f"rows and tasks {sizes}, expected {expected}")

    def _graph(number: int) -> SimpleNamespace:
        own_nodes = slice(node_ends[number] - nodes[number, 0], node_ends[number])
        own_bonds = slice(bond_ends[number] - bonds[number, 0], bond_ends[number])
        one_way = edges[own_bonds].T
        return SimpleNamespace(
            x=x[own_nodes],
            edge_index=np.concatenate([one_way, one_way[::-1]], axis=1),
            edge_attr=np.tile(edge_attr[own_bonds], (2, 1)),
            y=labels[number],
        )

    return MappedGraphs(range(len(nodes)), _graph)
