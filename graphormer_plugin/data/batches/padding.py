"""Padding of batches to few shapes, of which no loss and no gradient counts anything."""

import torch
from torch import Tensor

from cython_ext.codes import UNREACHABLE
from graphormer_plugin.data.batches.fields import FIELDS

# Our choice: multiples of nodes and labelled ends of a graph, and of relations; nodes
# and edges in a row are rounded to multiples per graph.
MULTIPLES = {"N": 8, "P": 8, "R": 16}
NODES, EDGES = 2, 8


def pad_batch(batch: dict[str, Tensor]) -> tuple[dict[str, Tensor], list[Tensor]]:
    """Pad a batch to the shapes of its bucket. Nothing waits for a GPU.

    For sparse fields graphs without real nodes follow the others. Two or more nodes of the
    first, which are in no `node_mask`, take the places of all; additional edges lead from the
    first node to the second, so that nothing is passed on from layer to layer.

    Returns:
        - the fields, padded;
        - masks bool of graphs [B], nodes [sum N] and edges [E] where these are padded, True
          where they count. No two masks have the same length.
    """
    axes = {
        name: FIELDS[name].shape[1:-1].split(", ") if name in FIELDS else ["B"]  # seed
        for name in batch
    }
    sizes: dict[str, int] = {}
    for name, tensor in batch.items():
        sizes |= dict(zip(axes[name], tensor.shape))
    graphs = sizes["B"]
    padded = {
        axis: _rounded(sizes[axis], unit)
        for axis, unit in MULTIPLES.items()
        if axis in sizes
    }
    nodes = sizes.get("sum N", 0)
    if "sum N" in sizes:
        places = _rounded(NODES * graphs + 1, padded["N"])
        padded["B"] = graphs + places // padded["N"]
        padded["sum N"] = _rounded(nodes + 2, NODES * graphs)
    if "E" in sizes:
        padded["E"] = _rounded(sizes["E"] + 1, EDGES * graphs)
        if padded["E"] == padded.get("sum N"):
            padded["E"] += EDGES * graphs
    fillings = {"node_graph": graphs, "edge_index": nodes, "dist": UNREACHABLE}
    fields: dict[str, Tensor] = {}
    for name, tensor in batch.items():
        letters = axes[name]
        shape = [padded.get(axis, size) for axis, size in zip(letters, tensor.shape)]
        shape += tensor.shape[len(shape) :]
        field = tensor.new_full(shape, fillings.get(name, 0))
        field[tuple(slice(size) for size in tensor.shape)] = tensor
        fields[name] = field
    if "edge_index" in fields:
        fields["edge_index"][1, sizes["E"] :] = nodes + 1
    device = batch["node_mask"].device
    masks = [
        torch.arange(padded[axis], device=device) < sizes[axis]
        for axis in ("B", "sum N", "E")
        if axis in padded
    ]
    return fields, masks


def _rounded(size: int, unit: int) -> int:
    """The lowest multiple of a unit that is not below a size."""
    return -(-size // unit) * unit
