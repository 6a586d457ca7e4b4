"""Numbers of graphs in, one padded batch of tensors out.

The only place that knows about padding: models get ``node_mask`` and the padding
values of ``fields.py``, everything else works with true sizes.
"""

from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cython_ext import bond_dtype, build_batch
from graphormer_plugin.data.fields import BatchSpec
from graphormer_plugin.data.schema import MAX_BOND_TYPES


class GraphCollator:
    """Builds the samples that fairseq hands to a model.

    One call into compiled code makes all padded arrays of a batch; they become tensors
    without a copy. No torch operator runs here, because data workers are forked and an
    OpenMP team of the parent does not survive a fork.

    Args:
        columns: Flat columns of a ``GraphStore``.
        target: Float array ``[G, C]``, NaN where a target is missing; or of nodes
            ``[sum N]``, classes, -1 where missing, or floats.
        num_bond_types: Largest joint bond type of the data; types start at 1.
        max_nodes: Largest graph allowed; None for no limit.
        spec: What the model needs. The task sets it when it has built the model. The
            datasets of a store share one collator, so it is set for all of them.
    """

    def __init__(
        self,
        columns: dict[str, NDArray[Any]],
        target: NDArray[np.floating],
        *,
        num_bond_types: int,
        max_nodes: int | None = None,
        spec: BatchSpec | None = None,
    ) -> None:
        self.columns = columns
        self.target = target
        self.num_bond_types = num_bond_types
        self.max_nodes = max_nodes
        self.spec = spec

    def __call__(self, graph_ids: NDArray[np.int64]) -> dict[str, Any]:
        """Collates graphs of the store.

        Args:
            graph_ids: Their numbers in the store ``[B]``.

        Returns:
            - ``id`` int64 ``[B]``, the numbers (``GraphStore.rows`` gives the rows of
              the source);
            - ``nsamples``, the number of graphs, and ``ntokens``, of real nodes;
            - ``net_input`` with the ``batch`` of fields;
            - ``target`` ``[B, C]``, NaN where missing. It is float64 although the store
              holds float32: fairseq's ``--fp16`` halves every float32 tensor of a
              sample, and a half rounds 2,049 and turns 70,000 into infinity. For
              nodes ``[B, N]``: classes int64, -1 where missing or padding; values
              float64, NaN there;
            - ``weight`` float64 ``[B]``, of each graph in the loss, if the data have weights.

            An empty array gives an empty dict. fairseq fills uneven shards with such
            samples, and its trainer replaces them by a dummy batch.

        Raises:
            RuntimeError: There is no ``BatchSpec``, because no model was built.
            ValueError: A graph has more than ``max_nodes`` nodes, or more hops than
                a distance holds.
        """
        graph_ids = np.asarray(graph_ids, dtype=np.int64)
        if graph_ids.size == 0:
            return {}
        if self.spec is None:
            raise RuntimeError("no batch_spec: build the model before iterating")
        columns, num_bond_types = self.columns, self.num_bond_types
        if self.spec.number_edges:
            numbers, num_bond_types = self.edge_numbers
            columns = columns | {"edge_bond": numbers}
        arrays = build_batch(
            columns,
            graph_ids,
            self.spec.fields - {"graph_features"},
            num_bond_types=num_bond_types,
            max_nodes=self.max_nodes,
            max_dist=self.spec.max_dist,
            max_hop=self.spec.max_hop,
            path_length=self.spec.path_length,
        )
        # fairseq's --fp16 halves float32, not float64. As halves, positions would be off
        # by 0.01 at 10 angstrom, and features infinite above 65,504.
        for name in ("x", "pos", "edge_attr"):
            if name in arrays and arrays[name].dtype == np.float32:
                arrays[name] = arrays[name].astype(np.float64)
        if "graph_features" in self.spec.fields:
            values = self.columns["graph_features"][graph_ids]
            arrays["graph_features"] = values.astype(np.float64)
        if self.spec.number_edges:
            self.number_in_batch(arrays, graph_ids)
        offsets = self.columns["node_offset"]
        starts, sizes = offsets[graph_ids], offsets[graph_ids + 1] - offsets[graph_ids]
        if self.target.ndim == 1:
            target = self.node_target(starts, sizes)
        else:
            target = self.target[graph_ids].astype(np.float64)
        weight = {}
        if "weight" in self.columns:
            values = self.columns["weight"][graph_ids].astype(np.float64)
            weight["weight"] = torch.from_numpy(values)
        return {
            **weight,
            "id": torch.from_numpy(graph_ids),
            "nsamples": len(graph_ids),
            "ntokens": int(sizes.sum()),
            "net_input": {
                "batch": {name: torch.from_numpy(a) for name, a in arrays.items()}
            },
            "target": torch.from_numpy(target),
        }

    @cached_property
    def edge_numbers(self) -> tuple[NDArray[np.unsignedinteger], int]:
        """Number of each edge within its graph ``[sum E]``, from 1, and the largest.

        Raises:
            ValueError: a graph has more than 65,535 edges.
        """
        offsets = np.asarray(self.columns["edge_offset"])
        most = int(np.diff(offsets).max(initial=0))
        if most > MAX_BOND_TYPES:
            raise ValueError(
                f"a graph has {most} edges, expected at most {MAX_BOND_TYPES} of edges "
                "with real features"
            )
        numbers = np.arange(1, offsets[-1] + 1)
        numbers -= np.repeat(offsets[:-1], np.diff(offsets))
        return numbers.astype(bond_dtype(most)), max(most, 1)

    def number_in_batch(
        self, arrays: dict[str, NDArray], graph_ids: NDArray[np.int64]
    ) -> None:
        """Edges that are numbered within each graph get their numbers in the batch."""
        offsets = self.columns["edge_offset"]
        counts = offsets[graph_ids + 1] - offsets[graph_ids]
        first = (np.cumsum(counts) - counts).astype(np.int32)
        for name in ("bond", "path_bond"):
            if name in arrays:
                numbers = arrays[name].astype(np.int32)
                shape = (-1, *[1] * (numbers.ndim - 1))
                numbers += np.where(numbers, first.reshape(shape), np.int32(0))
                arrays[name] = numbers

    def node_target(
        self, starts: NDArray[np.int64], sizes: NDArray[np.int64]
    ) -> NDArray[np.int64] | NDArray[np.float64]:
        """Classes of nodes ``[B, N]``, -1 at padding, or values, NaN at padding.

        Args:
            starts: First node of each graph in the store ``[B]``.
            sizes: Number of its nodes ``[B]``.
        """
        real = np.arange(sizes.max()) < sizes[:, None]
        target = np.full(real.shape, -1, dtype=np.int64)
        if self.target.dtype.kind == "f":
            target = np.full(real.shape, np.nan)
        first = np.cumsum(sizes) - sizes
        nodes = np.arange(sizes.sum()) + np.repeat(starts - first, sizes)
        target[real] = self.target[nodes]
        return target
