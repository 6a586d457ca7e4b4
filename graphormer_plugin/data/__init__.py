"""Data: from a source to a store on disk, and from there to batches."""

from graphormer_plugin.data import benchmarks, sources
from graphormer_plugin.data.batches.fields import FIELDS, BatchSpec
from graphormer_plugin.data.errors import DatasetError, StoreError
from graphormer_plugin.data.graphs.chunk import MoleculeGraph
from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.sources.registry import (
    DATASETS,
    DatasetSource,
    register_dataset,
)
from graphormer_plugin.data.store import GraphStore, describe
from graphormer_plugin.data.store.build import get_store
from graphormer_plugin.data.tables.options import DatasetOptions
from graphormer_plugin.data.targets import TargetSchema

__all__ = [
    "BatchSpec",
    "DATASETS",
    "DatasetError",
    "DatasetOptions",
    "DatasetSource",
    "FIELDS",
    "FeatureSchema",
    "GraphStore",
    "MoleculeGraph",
    "StoreError",
    "TargetSchema",
    "benchmarks",
    "describe",
    "get_store",
    "register_dataset",
    "sources",
]
