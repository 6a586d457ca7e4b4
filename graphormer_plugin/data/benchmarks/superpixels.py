"""MNIST and CIFAR10 as graphs of superpixels (Dwivedi et al. 2020, arXiv:2003.00982).

The files come from PyG's `GNNBenchmarkDataset`. Nodes are superpixels, with their mean
intensities and position; edges join near superpixels, with a real weight. The datasets
``mnist-tenths`` and ``cifar10-tenths`` have the weights as the released code of GRPE
(grpe/dataset/gnnbenchmark.py): tenths, rounded down, which are categories.
"""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from graphormer_plugin.data.benchmarks.official import BenchmarkFiles, gnn_benchmark
from graphormer_plugin.data.graphs.pyg_graphs import MappedGraphs
from graphormer_plugin.data.sources.registry import DatasetSource, register_dataset
from graphormer_plugin.data.tables.options import DatasetOptions

NUM_CLASSES = 10


def superpixels(data: Mapping[str, Any], tenths: bool) -> SimpleNamespace:
    """A graph as PyG stores it, with intensities and position side by side; weights of
    edges as they are, or in ``tenths``, rounded down."""
    x, pos, weight = (data[name].numpy() for name in ("x", "pos", "edge_attr"))
    return SimpleNamespace(
        x=np.concatenate([x.reshape(len(pos), -1), pos], 1).astype(np.float32),
        edge_index=data["edge_index"].numpy(),
        edge_attr=(weight * 10).astype(np.int64) if tenths else weight,
        y=data["y"].numpy().reshape(1),
    )


def _register(name: str, files: BenchmarkFiles, tenths: bool) -> None:
    def _load(options: DatasetOptions) -> DatasetSource:
        graphs, splits = files.load_parts(options)
        return DatasetSource(
            graphs=MappedGraphs(graphs, lambda data: superpixels(data, tenths)),
            kind="multiclass",
            num_classes=NUM_CLASSES,
            splits=splits,
            target_names=["class"],
        )

    def _content(options: DatasetOptions) -> dict[str, Any]:
        return files.content(options) | {"tenths": tenths}

    register_dataset(name, source="pyg", options=(), content=_content)(_load)


SUPERPIXELS = {
    "mnist": gnn_benchmark("MNIST", 70_000),
    "cifar10": gnn_benchmark("CIFAR10", 60_000),
}
for _name, _files in SUPERPIXELS.items():
    _register(_name, _files, tenths=False)
    _register(f"{_name}-tenths", _files, tenths=True)
