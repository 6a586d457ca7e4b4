"""A node encoding: the degree of a node, and the sum of its neighbours' degrees."""

import torch

from graphormer_plugin.modules import NodeEncoding, register_node_encoding


@register_node_encoding("near_degrees")
class NearDegrees(NodeEncoding):
    fields = ("bond",)
    num_features = 2

    def forward(self, bond: torch.Tensor) -> torch.Tensor:
        """bond [B, N, N], 0 = none -> [B, N, 2]."""
        edges = (bond != 0).to(self.dtype)
        degree = edges.sum(-1, keepdim=True)
        return torch.cat([degree, edges @ degree], -1)
