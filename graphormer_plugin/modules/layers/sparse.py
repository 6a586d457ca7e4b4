"""Nodes without padding, and sums over edges, for models that read the sparse fields of a
batch: `edge_index`, `edge_bond` and `node_graph` number the nodes of all graphs in a row.
"""

import torch
from torch import Tensor

Batch = dict[str, Tensor]  # the fields of a batch, by name


class NodeLayout:
    """Converts between flat tensors [S, ...], which hold the S nodes of all graphs in a
    row, and padded tensors [B, N, ...].

    Args:
        node_mask: [B, N] bool, True where a node is real; real nodes come first.
        node_graph: [S] int64, the graph of each node, ascending.

    Attributes:
        sizes: [B] int64, nodes of each graph.
        ptr: [B] int64, the flat index of the first node of each graph.
        local_index: [S] int64, number of each node within its graph.
        flat_index: [S] int64, index of each node into [B * N, ...].

    Example:
        >>> layout = NodeLayout(
        ...     torch.tensor([[True, False], [True, True]]), torch.tensor([0, 1, 1])
        ... )
        >>> flat = layout.flatten(torch.tensor([[[5], [0]], [[6], [7]]]))
        >>> flat.squeeze(-1).tolist()
        [5, 6, 7]
        >>> layout.pad(flat).squeeze(-1).tolist()
        [[5, 0], [6, 7]]
    """

    def __init__(self, node_mask: Tensor, node_graph: Tensor) -> None:
        self.num_graphs, self.max_nodes = node_mask.shape
        self.node_graph = node_graph
        self.sizes = sizes = node_mask.sum(1)
        self.ptr = sizes.cumsum(0) - sizes
        # Counted, not looked up with nonzero(), which would wait for a GPU.
        nodes = torch.arange(node_graph.shape[0], device=node_graph.device)
        self.local_index = nodes - self.ptr[node_graph]
        self.flat_index = node_graph * self.max_nodes + self.local_index

    @classmethod
    def of(cls, batch: Batch) -> "NodeLayout":
        """The layout of a batch."""
        return cls(batch["node_mask"], batch["node_graph"])

    def flatten(self, padded: Tensor) -> Tensor:
        """[B, N, ...] -> [S, ...]."""
        return padded.flatten(0, 1).index_select(0, self.flat_index)

    def all_pairs(self, loops: bool = False) -> Tensor:
        """[2, P] int64, source and target, ascending by target: all pairs of different nodes of
        a graph, with ``loops`` also of a node and itself."""
        partners = self.sizes[self.node_graph]
        target = torch.repeat_interleave(partners)
        first = partners.cumsum(0) - partners  # pair of each target
        number = torch.arange(target.shape[0], device=target.device) - first[target]
        source = self.ptr[self.node_graph[target]] + number
        pairs = torch.stack([source, target])
        return pairs if loops else pairs[:, source != target]

    def pad(self, flat: Tensor) -> Tensor:
        """[S, ...] -> [B, N, ...], zero where there is no node."""
        padded = flat.new_zeros(self.num_graphs * self.max_nodes, *flat.shape[1:])
        padded = padded.index_copy(0, self.flat_index, flat)
        return padded.view(self.num_graphs, self.max_nodes, *flat.shape[1:])


LARGE_HALF = 2.0**14  # a quarter of the largest number of half precision


def scaled_pair_features(batch: Batch, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Real features of edges as features of pairs, divided by a scale: [B, N, N, C] in
    `dtype`, zero without an edge and on the diagonal; and the scale [C] in the type of the
    batch, which multiplies the weights.

    The scale is 1, except for large values in half precision, where 70,000 is infinite:
    there it is a power of two, which changes no digit.
    """
    layout = NodeLayout.of(batch)
    source, target = batch["edge_index"]
    attr = batch["edge_attr"]
    B, N = batch["node_mask"].shape
    row = layout.flat_index[source] * N + layout.local_index[target]
    attr = attr * (source != target).unsqueeze(1)
    features = attr.new_zeros(B * N * N, attr.shape[1]).index_add(0, row, attr)
    features = features.view(B, N, N, -1)
    scale = features.new_ones(features.shape[-1])
    if dtype == torch.float16 and features.numel():
        largest = features.abs().amax((0, 1, 2)) / LARGE_HALF
        scale = torch.exp2(largest.log2().ceil().clamp(min=0))
        features = features / scale
    return features.to(dtype), scale


def wide_type(tensor: Tensor) -> torch.dtype:
    """The type of sums of a tensor's numbers: float32 at least, as a sum of many halves loses
    small terms."""
    return torch.promote_types(tensor.dtype, torch.float32)


PAIR_FIELDS = frozenset({"edge_attr", "edge_index", "node_graph", "node_mask"})


def add_by_index(
    pairs: Tensor, index: Tensor, dim: int, shape: tuple[int, ...]
) -> Tensor:
    """Sum `pairs` into zeros of a shape at `index` along `dim`, e.g. the attention of
    all pairs in the same relation. Accumulates in `wide_type`."""
    wide = wide_type(pairs)
    sums = torch.zeros(shape, dtype=wide, device=pairs.device)
    return sums.scatter_add_(dim, index, pairs.to(wide)).to(pairs.dtype)


def scatter_sum(values: Tensor, index: Tensor, size: int) -> Tensor:
    """Sums of the rows of `values` that have an index in common.

    Args:
        values: [M, ...].
        index: [M] int64 in 0..size - 1, e.g. `edge_index[1]` for sums over the edges
            that arrive at a node, or `node_graph` for sums over a graph.

    Returns:
        [size, ...] in `wide_type`; zero where there is nothing to add.
    """
    wide = wide_type(values)
    out = values.new_zeros(size, *values.shape[1:], dtype=wide)
    return out.index_add_(0, index, values.to(wide))
