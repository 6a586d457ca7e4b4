"""Graphormer's attention bias from the structure of a graph, computed once per step.

Terms are [B, N, N, H] scalars per head; `AttnBias` adds them up, gives pairs with the
virtual node a scalar of their own and forbids padding.
"""

import torch
from torch import Tensor, nn

from cython_ext.codes import FAR, MAX_HOPS, NUM_DIST_CODES, UNREACHABLE
from graphormer_plugin.choices import check_least
from graphormer_plugin.modules.encodings.bond_encoder import (
    BondEncoder,
    EdgeEncoder,
    IncidentBonds,
)
from graphormer_plugin.modules.encodings.pair_encodings import (
    NO_PAIRS,
    PairInput,
    PairTerms,
)
from graphormer_plugin.modules.layers.embedding_sum import embedding_sum
from graphormer_plugin.modules.layers.sparse import Batch

# The released code stores this distance for a pair without a path, which matters where
# distances are compared with `spatial_pos_max`.
UNREACHABLE_HOPS = 510

# Bias of a pair that may not attend. Any half represents it, also after a query-key
# product is added, and its softmax weight is zero.
FORBIDDEN = -30000.0


class SpatialEncoding(nn.Module):
    """A scalar per head and distance, b_phi(i,j) of Eq. 6 of Ying et al. 2021,

        A_ij = (h_i W_Q)(h_j W_K)^T / sqrt(d) + b_phi(i,j).

    Row 0 is unreachable, row h + 1 is h hops; all distances that do not fit share the
    last row.

    Args:
        num_spatial: rows of the table, at least 3. From 256 rows on, only FAR (254 hops
            and more) has the last row.
    """

    fields = ("dist",)

    def __init__(self, num_heads: int, num_spatial: int = 512) -> None:
        super().__init__()
        check_least("num_spatial", num_spatial, 3)
        self.embedding = nn.Embedding(num_spatial, num_heads)
        rows = (torch.arange(NUM_DIST_CODES) + 1).clamp_(max=num_spatial - 1)
        rows[FAR] = num_spatial - 1
        rows[UNREACHABLE] = 0
        self.register_buffer("rows", rows, persistent=False)

    def forward(self, dist: Tensor) -> Tensor:
        """dist [B, N, N] uint8 -> [B, N, N, H]."""
        return embedding_sum(self.embedding(self.rows), dist.int().unsqueeze(-1))


class PathEncoding(nn.Module):
    """Mean over the edges of a shortest path, c of Eq. 7 of Ying et al. 2021.

        c_ij = 1/N sum_n x_e_n (w_n)^T over the N edges e_n of the path.

    The vector of bond type b at step n is x_b W_n (H scalars), so a table of step x
    bond type x head holds everything, and a pair sums L of its rows. The mean is over
    N = min(distance, L) steps, the released code's choice; the paper does not cut paths.
    The largest tensor in memory is [B, N, N, L] int32, not [B, N, N, L, H].

    Args:
        bonds: vectors of width H per bond type.
        max_steps: L (`multi_hop_max_dist`), 1..253; later edges of a path are ignored.
        num_weights: rows of the weight table, at least L; None: L. The published code
            has 128 and reads the first L.
    """

    def __init__(
        self,
        bonds: BondEncoder | EdgeEncoder,
        max_steps: int = 5,
        num_weights: int | None = None,
    ) -> None:
        super().__init__()
        if not 1 <= max_steps <= MAX_HOPS:
            raise ValueError(f"max_steps {max_steps}, expected 1..{MAX_HOPS}")
        num_weights = num_weights or max_steps
        check_least("num_weights", num_weights, max_steps)
        self.bonds = bonds
        self.max_steps = max_steps
        self.fields = ("path_bond", "dist", *bonds.fields)
        width = bonds.embed_dim
        self.weight = nn.Parameter(torch.empty(num_weights, width, width))
        nn.init.normal_(self.weight, std=0.02)
        steps = torch.arange(NUM_DIST_CODES, dtype=torch.int32).clamp_(1, max_steps)
        self.register_buffer("steps", steps, persistent=False)

    def forward(self, path_bond: Tensor, dist: Tensor, *edge_attr: Tensor) -> Tensor:
        """path_bond [B, N, N, L], 0 past the end, dist [B, N, N], and the fields of the
        vectors -> [B, N, N, H]."""
        if path_bond.shape[-1] != self.max_steps:
            raise ValueError(
                f"path_bond has {path_bond.shape[-1]} steps, expected {self.max_steps}"
            )
        # [L, K + 1, H]
        table = torch.matmul(self.bonds(*edge_attr), self.weight[: self.max_steps])
        first = torch.arange(self.max_steps, device=dist.device, dtype=torch.int32)
        rows = path_bond.int() + first * table.shape[1]
        path_sum = embedding_sum(table.flatten(0, 1), rows)
        return path_sum / self.steps[dist.long()].unsqueeze(-1).to(path_sum.dtype)


class EdgeBias(IncidentBonds):
    """A scalar per head for the bond of a direct edge (`--edge-type single_hop` of the
    released code)."""

    def forward(self, bond: Tensor, *edge_attr: Tensor) -> Tensor:
        """bond [B, N, N], 0 = none, and the fields of the vectors -> [B, N, N, H]."""
        return super().forward(bond.unsqueeze(-1), *edge_attr)


class AttnBias(nn.Module):
    """Sum of the bias terms of a graph and its virtual node, [B, H, T, T].

    Args:
        spatial: distances, A_ij + b_phi(i,j) (Eq. 6 of Ying et al. 2021). Pairs with the
            virtual node then have a scalar per head of their own (section 3.2).
        edges: bonds, along paths or direct, A_ij + c_ij (Eq. 7).
        spatial_pos_max: pairs at this distance or farther do not attend to each other, FAR
            counting as 254 and unreachable as 510 hops; None: all attend.
        virtual_node: False: the batch has no virtual node, and T = N.
        further: other pair encodings; None: no others.
    """

    def __init__(
        self,
        num_heads: int,
        spatial: SpatialEncoding | None = None,
        edges: nn.Module | None = None,
        spatial_pos_max: int | None = None,
        virtual_node: bool = True,
        further: PairTerms | None = None,
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.virtual_node = virtual_node
        self.spatial = spatial
        self.edges = edges
        self.further = PairTerms() if further is None else further
        has_scalar = virtual_node and spatial is not None
        self.virtual = nn.Embedding(1, num_heads) if has_scalar else None
        hops = torch.arange(NUM_DIST_CODES)
        hops[UNREACHABLE] = UNREACHABLE_HOPS
        limit = UNREACHABLE_HOPS + 1 if spatial_pos_max is None else spatial_pos_max
        check_least("spatial_pos_max", limit, 1)
        self.limited = limit <= UNREACHABLE_HOPS
        self.register_buffer("too_far", hops >= limit, persistent=False)

    def forward(self, batch: Batch, pairs: PairInput = NO_PAIRS) -> Tensor:
        """Batch fields of `required_fields`, and what `further` makes of them ->
        [B, H, T, T]; [B, H, 1, T] if all rows are the same."""
        mask = batch["node_mask"]  # [B, N]
        B, N = mask.shape
        H = self.num_heads
        terms = [term(*(batch[name] for name in term.fields)) for term in self.terms]
        terms += self.further.projected(pairs)
        if terms:
            nodes = sum(terms).permute(0, 3, 1, 2)  # [B, N, N, H] -> [B, H, N, N]
        else:
            nodes = torch.zeros(B, H, 1, N, device=mask.device)
        forbidden = ~mask[:, None, None]  # [B, 1, 1, N], columns that are padding
        if self.limited:
            forbidden = forbidden | self.too_far[batch["dist"].long()].unsqueeze(1)
        nodes = nodes.masked_fill(forbidden, FORBIDDEN)
        if not self.virtual_node:
            return nodes
        if self.virtual is not None:
            scalar = self.virtual.weight.view(1, H, 1, 1).to(nodes.dtype)
        else:
            scalar = nodes.new_zeros(1, 1, 1, 1)
        nodes = nodes.expand(B, H, N, N)
        row = scalar.expand(B, H, 1, N).masked_fill(~mask[:, None, None], FORBIDDEN)
        nodes = torch.cat([row, nodes], 2)
        return torch.cat([scalar.expand(B, H, N + 1, 1), nodes], 3)

    @property
    def terms(self) -> list[nn.Module]:
        """The terms in use; each reads its `fields` and gives [B, N, N, H]."""
        return [term for term in (self.spatial, self.edges) if term is not None]

    @property
    def required_fields(self) -> frozenset[str]:
        """Batch fields that `forward` reads."""
        fields = {"node_mask", *(name for term in self.terms for name in term.fields)}
        return frozenset(fields | {"dist"} if self.limited else fields)
