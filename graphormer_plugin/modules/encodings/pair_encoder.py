"""Features of node pairs: bonds, distances, random walks and rings."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cython_ext.codes import (
    RELATION_FAR,
    RELATION_SELF,
    RELATION_UNREACHABLE,
    RELATION_VIRTUAL,
    bond_relation,
    hop_relation,
)
from graphormer_plugin.choices import check_choice, check_least
from graphormer_plugin.modules.attention.chromatic import PairVectors
from graphormer_plugin.modules.encodings.attn_bias import FORBIDDEN
from graphormer_plugin.modules.encodings.bond_encoder import BondEncoder, FeatureMap
from graphormer_plugin.modules.encodings.node_encodings import walk_powers
from graphormer_plugin.modules.encodings.pair_encodings import (
    NO_PAIRS,
    PairInput,
    PairTerms,
)
from graphormer_plugin.modules.encodings.vocabulary import Vocabularies
from graphormer_plugin.modules.layers.sparse import (
    PAIR_FIELDS,
    Batch,
    scaled_pair_features,
    wide_type,
)

RELATIVE_ENCODINGS = ("rwse", "spde", "both", "none")
COMBINATIONS = ("concat", "sum")
RINGS = ("none", "additive", "categorical")


class PairEncoder(nn.Module):
    """Pair features E^(0) of Menegaux et al. 2023 (section 3.3 and 3.4).

    Bond vectors, with learned vectors for a node and itself and for nodes without a bond
    (Eq. 8), or a linear map of real features of edges, are joined with a relative
    encoding: a linear map of the powers 1..p of the random-walk matrix D^-1 A (`rwse`,
    Eq. 12), a vector per distance 1..p, for beyond and for self (`spde`, Eq. 11), or
    both. Two nodes that share a ring (section 3.4) have a vector added, another if they are
    not bonded (`additive`); or bond types, self and no bond have other vectors
    (`categorical`).

    All this is linear in features that need no learning: the relation of a pair (one-hot
    over the relations of the batch), the walk powers, whether a ring is shared, and further
    encodings. E^(0) is therefore their product with a small matrix, the basis, and only the
    features are made for each pair.

    Args:
        pair_dim: width of E^(0).
        encoding: E^RPE, "rwse", "spde", "both" or "none".
        num_steps: p, at least 1.
        encoding_dim: width of a concatenated relative encoding (halved for each of
            "both"); None: half of `pair_dim`.
        combine: E^(0) = E^bond || E^RPE for "concat" (Eq. 9), E^bond + E^RPE for "sum",
            where all parts are `pair_dim` wide.
        rings: "none", "additive" or "categorical".
        neighbours_only: forbid pairs without a bond, except of a node with itself.
        further: other pair encodings, which are added to E^(0); None: no others.
    """

    def __init__(
        self,
        vocabularies: Vocabularies,
        pair_dim: int,
        encoding: str = "rwse",
        num_steps: int = 16,
        encoding_dim: int | None = None,
        combine: str = "concat",
        rings: str = "none",
        neighbours_only: bool = False,
        further: PairTerms | None = None,
    ) -> None:
        super().__init__()
        check_choice("relative encoding", encoding, RELATIVE_ENCODINGS)
        check_choice("combination of pair features", combine, COMBINATIONS)
        check_choice("rings", rings, RINGS)
        walks, distances = (encoding in (name, "both") for name in ("rwse", "spde"))
        if encoding != "none":
            check_least("relative_steps", num_steps, 1)
        self.max_hop = num_steps if distances else 1
        self.rings = rings
        self.combine = combine

        if encoding_dim is not None and (combine == "sum" or encoding == "none"):
            raise ValueError(
                f"width {encoding_dim} of the relative encoding: only 'concat' with an "
                f"encoding has this width, received {combine!r} and {encoding!r}"
            )
        widths = {"bond": pair_dim, "spde": pair_dim, "rwse": pair_dim}
        if combine == "concat":
            widths = _shares(pair_dim, encoding_dim, walks, distances)
        kinds = 2 if rings == "categorical" else 1  # without and with a shared ring
        self.bonds = nn.ModuleList(
            BondEncoder(vocabularies, widths["bond"]) for _ in range(kinds)
        )
        # The vector of the only bond type is the bias of the linear map of features.
        self.edges = None
        if vocabularies.num_edge_features:
            self.edges = FeatureMap(vocabularies.num_edge_features, widths["bond"])
        self.no_bonds = nn.Embedding(2 * kinds, widths["bond"])  # self, not connected
        self.distances = (
            nn.Embedding(num_steps + 2, widths["spde"]) if distances else None
        )
        self.walks = nn.Linear(num_steps, widths["rwse"], bias=False) if walks else None
        # Features of bonded pairs, and of others.
        self.ring = nn.Embedding(2, widths["bond"]) if rings == "additive" else None
        self.further = PairTerms() if further is None else further

        table = _relation_rows(self.max_hop, self.bonds[0].num_bond_types)
        self.register_buffer("rows", table.T.contiguous(), persistent=False)
        forbidden = torch.zeros(len(table), dtype=torch.bool)
        forbidden[RELATION_VIRTUAL] = True  # padding; there is no virtual node
        if neighbours_only:
            first_bond = bond_relation(1, self.max_hop)
            forbidden[RELATION_UNREACHABLE:first_bond] = True
        self.register_buffer("forbidden", forbidden, persistent=False)

    @property
    def required_fields(self) -> frozenset[str]:
        """Batch fields that `forward` reads; `relation_index` with `max_hop`."""
        fields = {"relation_index", "relations"}
        if self.rings != "none":
            fields.add("ring")
        if self.walks is not None:
            fields.add("bond")
        if self.edges is not None:
            fields |= PAIR_FIELDS
        return frozenset(fields)

    def forward(
        self, batch: Batch, pairs: PairInput = NO_PAIRS
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Features of the pairs of a batch, and the matrix that maps them to E^(0).

        Args:
            batch: the fields of `required_fields`.
            pairs: what `further` makes of the batch.

        Returns:
            features [B, N, N, F], in memory [B, F, N, N]; the basis [F, pair_dim], with
            E^(0) = features @ basis; and a mask of the features that forbid their pairs
            [F], bool.
        """
        relations = batch["relations"]
        index = batch["relation_index"].long()
        if self.rings != "none":
            index = index + relations.shape[0] * batch["ring"].long()
        basis = [self.relation_vectors(relations)]
        dtype = basis[0].dtype
        rows = torch.arange(basis[0].shape[0], device=index.device)
        blocks = [(index.unsqueeze(1) == rows[:, None, None]).to(dtype)]
        forbidden = self.forbidden[relations].repeat(1 + (self.rings != "none"))
        if self.walks is not None:
            wide = wide_type(basis[0])
            powers = walk_powers(batch["bond"], self.walks.in_features, wide)
            blocks += [power.to(dtype).unsqueeze(1) for power in powers]
            basis.append(self._place(self.walks.weight.T, "rwse"))
        if self.edges is not None:
            features, scale = scaled_pair_features(batch, dtype)
            blocks.append(features.permute(0, 3, 1, 2))
            weights = scale.unsqueeze(1) * self.edges.weight.T
            basis.append(self._place(weights.to(dtype), "bond"))
        blocks += [features.permute(0, 3, 1, 2) for features in pairs.features]
        basis += [term.projection.weight.T for term in self.further]
        basis = torch.cat(basis)
        forbidden = F.pad(forbidden, (0, basis.shape[0] - forbidden.shape[0]))
        return torch.cat(blocks, 1).permute(0, 2, 3, 1), basis, forbidden

    def relation_vectors(self, relations: Tensor) -> Tensor:
        """Part of the basis for relations: [R, pair_dim], or [2 R, pair_dim], relations
        without a shared ring before relations with a shared ring."""
        bond_rows, distance_rows = self.rows[:, relations]
        no_bonds = self.no_bonds.weight.chunk(len(self.bonds))
        parts = []
        for bonds, without_bond in zip(self.bonds, no_bonds):
            table = torch.cat([without_bond, bonds()[1:]])
            parts.append(self._place(table[bond_rows], "bond"))
        if self.ring is not None:
            ring = torch.cat([torch.zeros_like(self.ring.weight[:1]), self.ring.weight])
            # Rows: self has none; then not bonded, and bonded.
            rows = torch.where(bond_rows == 0, 0, torch.where(bond_rows == 1, 2, 1))
            parts.append(parts[0] + self._place(ring[rows], "bond"))
        vectors = torch.cat(parts)
        if self.distances is not None:
            distance = self._place(self.distances(distance_rows), "spde")
            vectors = vectors + distance.repeat(len(parts), 1)
        return vectors

    def _place(self, vectors: Tensor, part: str) -> Tensor:
        """Vectors in the columns of their part (bond, spde, rwse) of a concatenation."""
        if self.combine == "sum":
            return vectors
        spde = 0 if self.distances is None else self.distances.embedding_dim
        rwse = 0 if self.walks is None else self.walks.out_features
        bond = self.no_bonds.embedding_dim
        before = {"bond": 0, "spde": bond, "rwse": bond + spde}[part]
        after = bond + spde + rwse - before - vectors.shape[1]
        return F.pad(vectors, (before, after))


class PairProjection(nn.Module):
    """E^att = W_EA E^(0) and E^val = W_EV E^(0), linear maps without bias (section 3.2 of
    Menegaux et al. 2023).

    Args:
        pair_dim: width of E^(0).
        att_dim: width of E^att, D or the number of heads.
        val_dim: width of E^val, D, for messages v_j + E^val_ij (Eq. 7); 0: v_j (Eq. 6).
    """

    def __init__(self, pair_dim: int, att_dim: int, val_dim: int) -> None:
        super().__init__()
        self.att = nn.Linear(pair_dim, att_dim, bias=False)
        self.val = nn.Linear(pair_dim, val_dim, bias=False) if val_dim else None

    def forward(
        self, features: Tensor, basis: Tensor, forbidden: Tensor
    ) -> PairVectors:
        """Results of `PairEncoder` -> vectors of the pairs."""
        att = self.att(basis).masked_fill(forbidden.unsqueeze(-1), FORBIDDEN)
        return PairVectors(features, att, None if self.val is None else self.val(basis))


def _shares(
    pair_dim: int, encoding_dim: int | None, walks: bool, distances: bool
) -> dict[str, int]:
    """Widths of concatenated pair features."""
    both = walks and distances
    total = pair_dim // 2 if encoding_dim is None else encoding_dim
    total *= walks or distances
    first = total // 2 if both else total
    if pair_dim <= total or total < walks + distances:
        raise ValueError(
            f"width {total} of the relative encoding, expected at least 1 for each, and "
            f"less than the width {pair_dim} of the pair features"
        )
    rest = total - first if both else total
    return {"bond": pair_dim - total, "spde": first, "rwse": rest}


def _relation_rows(max_hop: int, num_bond_types: int) -> Tensor:
    """Rows of each relation [relations, 2], in "self, no bond, bond types" and in "self, 1 ..
    p, beyond"."""
    rows = dict.fromkeys(
        (RELATION_VIRTUAL, RELATION_UNREACHABLE, RELATION_FAR), (1, max_hop + 1)
    )
    rows[RELATION_SELF] = 0, 0
    for hop in range(2, max_hop + 1):
        rows[hop_relation(hop)] = 1, hop
    for bond in range(1, num_bond_types + 1):
        rows[bond_relation(bond, max_hop)] = bond + 1, 1
    return torch.tensor([rows[relation] for relation in range(len(rows))])
