"""A pair encoding: the number of common neighbours."""

from torch import Tensor

from graphormer_plugin.modules import PairEncoding, register_pair_encoding


@register_pair_encoding("common_neighbours")
class CommonNeighbours(PairEncoding):
    """Number of nodes that have a bond with both nodes; the degree for a node and
    itself."""

    fields = ("bond",)
    num_features = 1

    def forward(self, bond: Tensor) -> Tensor:
        """bond [B, N, N], 0 = none -> [B, N, N, 1]."""
        adjacency = (bond != 0).to(self.dtype)
        return (adjacency @ adjacency.mT).unsqueeze(-1)
