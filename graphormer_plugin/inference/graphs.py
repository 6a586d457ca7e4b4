"""Graphs in batches for a model, and results of batches in the order of the graphs."""

from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np
import torch

from graphormer_plugin.choices import check_least
from graphormer_plugin.data.batches.buckets import cut_batches
from graphormer_plugin.data.batches.collator import GraphCollator
from graphormer_plugin.data.batches.fields.field_cache import compute_columns
from graphormer_plugin.data.columns import LINK_LEVELS, Columns, Level
from graphormer_plugin.data.graphs.chunk import GraphChunk
from graphormer_plugin.data.graphs.graph_columns import columns_of_chunk
from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.models import GraphModel
from graphormer_plugin.modules.layers.sparse import Batch, wide_type

# [G, C] with a row per graph, or an array [N, C] per graph.
PerGraph = np.ndarray | list[np.ndarray]

# Largest number of padded node pairs per batch: 256 molecules of 64 atoms.
MAX_PAIRS = 256 * 64 * 64
# Padded nodes of a batch per thread of a CPU: the activations stay in its cache, and
# molecules of a batch are of about equal size.
NODES_PER_THREAD = 1024


class ModelGraphs:
    """G graphs with the fields that a model reads.

    Attributes:
        columns: flat columns of the graphs, the format of a store. Features that join
            the output layer are the values of a typical molecule, until others come.
        target: labels of a `GraphCollator`, all missing at first.
        level: what has a label. A model of edges or links predicts those of
            `GraphChunk.with_edge_label_index`.
    """

    def __init__(
        self, model: GraphModel, schema: FeatureSchema, chunk: GraphChunk | None
    ) -> None:
        self.device = next(model.parameters()).device
        self.level = model.level
        self.columns: Columns = {self.level.counted_by: np.zeros(1, np.int64)}
        if chunk is not None and len(chunk):
            if self.level in LINK_LEVELS:
                chunk = chunk.with_edge_label_index(self.level)
            self.columns = columns_of_chunk(chunk, schema)
            if schema.graph_features:
                shape = len(chunk), len(schema.graph_features)
                self.columns["graph_features"] = np.zeros(shape)
            self.columns |= compute_columns(self.columns, model.batch_spec)
        self.sizes = self.counts(Level.NODE)
        of_graphs = self.level is Level.GRAPH
        rows = len(self.sizes) if of_graphs else self.counts(self.level).sum()
        self.target = np.full((rows, 1), np.nan)
        self._schema = schema
        self._spec = model.batch_spec

    @cached_property
    def collator(self) -> GraphCollator:
        """Make the batches, once the columns are complete."""
        return GraphCollator(
            self.columns,
            self.target,
            level=self.level,
            num_bond_types=self._schema.num_bond_types,
            spec=self._spec,
        )

    def counts(self, level: Level) -> np.ndarray:
        """Nodes, edges or links of each graph [G]."""
        return np.diff(self.columns.get(level.offset, np.zeros(1, np.int64)))

    def batch(self, graph_ids: np.ndarray) -> Batch:
        """Fields of some graphs, on the model's device."""
        batch = self.collator(graph_ids)["net_input"]["batch"]
        if self.device.type == "cuda":  # so that the copy does not wait for the GPU
            batch = {name: field.pin_memory() for name, field in batch.items()}
        return {
            name: field.to(self.device, non_blocking=True)
            for name, field in batch.items()
        }

    def each(self) -> Iterator[Batch]:
        """Yield the fields of each graph, in their order."""
        for graph in range(len(self.sizes)):
            yield self.batch(np.array([graph]))

    def collect(
        self,
        function: Callable[[Batch], torch.Tensor],
        width: int,
        batch_size: int,
        level: Level = Level.GRAPH,
    ) -> PerGraph:
        """Results of a function of batches, in the order of the graphs: [G, width], or of
        another level a list of [N, width]."""
        check_least("batch_size", batch_size, 1)
        counts = None if level is Level.GRAPH else self.counts(level)
        results: list[np.ndarray] = [np.empty(0)] * len(self.sizes)
        is_cpu = self.device.type == "cpu"
        batches = cut_batches(
            np.argsort(self.sizes, kind="stable"),
            self.sizes,
            max_graphs=batch_size,
            max_nodes=NODES_PER_THREAD * torch.get_num_threads() if is_cpu else None,
            max_pairs=MAX_PAIRS,
        )
        # The outermost context of autocast: `bfloat16` converts weights once within it.
        with torch.autocast(self.device.type, enabled=False):
            # A GPU computes while the next batch is made: nothing here waits for it.
            results_of_batches = [(ids, function(self.batch(ids))) for ids in batches]
        for ids, tensor in results_of_batches:
            tensor = tensor.to(wide_type(tensor))
            for graph, values in zip(ids, tensor.numpy(force=True), strict=True):
                results[graph] = values if counts is None else values[: counts[graph]]
        if counts is not None:
            return results
        return np.stack(results) if results else np.empty((0, width))
