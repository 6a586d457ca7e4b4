"""Data: from a source to a store on disk, and from there to batches."""

from graphormer_plugin.data.errors import DatasetError, StoreError
from graphormer_plugin.data.fields import FIELDS, BatchSpec
from graphormer_plugin.data.prepare import MoleculeGraph
from graphormer_plugin.data.registry import (
    DATASETS,
    DatasetOptions,
    DatasetSource,
    get_store,
    register_dataset,
)
from graphormer_plugin.data.schema import FeatureSchema, TargetSchema
from graphormer_plugin.data.store import GraphStore, describe
from graphormer_plugin.data.writer import write_store

from graphormer_plugin.data import datasets  # isort: skip  (registers; uses the above)

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
    "datasets",
    "describe",
    "get_store",
    "register_dataset",
    "write_store",
]
