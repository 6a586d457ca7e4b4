"""Edges of a batch as the input of graph convolutions."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphormer_plugin.modules.bond_encoder import BondEncoder, EdgeEncoder
from graphormer_plugin.modules.convolutions import Edges


class EdgeInput(nn.Module):
    """Makes the `Edges` of a batch, with what the layers read of bonds.

    Args:
        owner: owner of the vectors of bonds, see `message_passing.Convolution`.
        real: edges have real features, not bond types.

    Attributes:
        fields: batch fields that `forward` reads.
    """

    def __init__(self, owner: str, real: bool) -> None:
        super().__init__()
        self.owner = owner
        self.real = real
        self.fields: tuple[str, ...] = ("edge_index",)
        if owner != "none":
            self.fields += ("edge_attr" if real else "edge_bond",)

    def forward(
        self, batch: dict[str, Tensor], bonds: BondEncoder | EdgeEncoder | None
    ) -> Edges:
        """A batch, and the vectors of bonds of the owners "shared" and "state" -> edges."""
        edges = Edges.of_batch(batch)
        if self.owner == "none":
            return edges
        if self.real:
            attr = batch["edge_attr"]
            numbers = torch.arange(1, attr.shape[0] + 1, device=attr.device)
            edges = edges._replace(bond=numbers.int(), features=(attr,))
        else:
            edges = edges._replace(bond=batch["edge_bond"].int())
        if self.owner == "shared":
            return edges._replace(table=bonds(*edges.features))
        if self.owner == "state":
            return edges._replace(state=F.embedding(edges.bond, bonds(*edges.features)))
        return edges
