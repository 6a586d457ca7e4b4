"""Edges of a batch as the input of graph convolutions: bonds, or near atoms."""

import torch
from torch import Tensor, nn

from graphormer_plugin.choices import check_least
from graphormer_plugin.modules.encodings.bond_encoder import EdgeVectors
from graphormer_plugin.modules.encodings.gaussian_kernels import (
    GaussianKernels,
    lengths,
    pair_distances,
)
from graphormer_plugin.modules.encodings.vocabulary import Vocabularies
from graphormer_plugin.modules.layers.embedding_sum import embedding_sum
from graphormer_plugin.modules.layers.encoder_config import SpatialEdgesConfig
from graphormer_plugin.modules.layers.sparse import Batch, NodeLayout, wide_type
from graphormer_plugin.modules.message_passing.convolutions import Edges


class EdgeInput(nn.Module):
    """Makes the `Edges` of a batch, with what the layers read of bonds and lengths.

    Args:
        owner: owner of the vectors of edges, see `message_passing.Convolution`.
        vocabularies: say whether edges have real features or bond types.
        config: near atoms in place of bonds, and kernels of lengths.

    Attributes:
        fields: batch fields that `forward` reads.

    Raises:
        ValueError: nothing reads the lengths, or near atoms would lack real features.
    """

    def __init__(
        self, owner: str, vocabularies: Vocabularies, config: SpatialEdgesConfig
    ) -> None:
        super().__init__()
        self.owner = owner
        self.real = bool(vocabularies.num_edge_features)
        self.radius = config.radius
        check_least("radius", config.radius, 0)
        check_least("length_kernels", config.length_kernels, 0)
        if config.radius and self.real:
            raise ValueError("radius: near atoms lack the real features of edges")
        if config.length_kernels and owner == "none":
            raise ValueError("length_kernels: the layers read no vectors of edges")
        self.kernels = None
        if config.length_kernels:
            self.kernels = GaussianKernels(config.length_kernels)
        bonds = "bond" if config.radius else "edge_attr" if self.real else "edge_bond"
        self.fields: tuple[str, ...] = ("pos",) if config.radius else ("edge_index",)
        if owner != "none":
            self.fields += (bonds,)
        if self.kernels is not None:
            self.fields += ("pos",)

    def forward(self, batch: Batch, bonds: EdgeVectors | None) -> Edges:
        """A batch, and the vectors of edges of the owners "shared" and "state" -> edges."""
        if self.radius:
            index, pairs = self.near(batch)
        else:
            index = batch["edge_index"]
        edges = Edges(index, batch["node_graph"])
        if self.owner == "none":
            return edges
        if self.radius:
            bond = batch["bond"][pairs].int()
        else:
            bond = batch["edge_attr"] if self.real else batch["edge_bond"].int()
        features = (bond,) if self.real else ()
        if self.kernels is not None:
            layout = NodeLayout.of(batch)
            pos = layout.flatten(self.positions(batch))
            features = self.kernels(lengths(pos[index[0]] - pos[index[1]])), bond
        if features:  # every edge has vectors of its own
            bond = torch.arange(1, index.shape[1] + 1, device=index.device).int()
        edges = edges._replace(bond=bond, features=features)
        if self.owner == "shared":
            return edges._replace(table=bonds(*features))
        if self.owner == "state":
            if features:
                return edges._replace(state=bonds(*features)[1:])
            return edges._replace(state=embedding_sum(bonds(), bond.unsqueeze(-1)))
        return edges

    def near(self, batch: Batch) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Pairs of different atoms within the radius: nodes of the batch [2, E], and graph,
        source and target [E] in padded fields."""
        if torch.compiler.is_compiling():
            raise ValueError(
                "radius: positions decide the edges, so nothing is exported"
            )
        mask = batch["node_mask"]
        distances = pair_distances(self.positions(batch).detach())
        near = (distances < self.radius) & mask.unsqueeze(1) & mask.unsqueeze(2)
        near = near & ~torch.eye(mask.shape[1], dtype=torch.bool, device=mask.device)
        graph, source, target = near.nonzero(as_tuple=True)
        sizes = mask.sum(1)
        first = (sizes.cumsum(0) - sizes)[graph]
        return torch.stack([first + source, first + target]), (graph, source, target)

    def positions(self, batch: Batch) -> Tensor:
        """[B, N, 3] in float32 at least: half precision cannot tell distances apart."""
        weights = batch["pos"] if self.kernels is None else self.kernels.centre
        return batch["pos"].to(wide_type(weights))
