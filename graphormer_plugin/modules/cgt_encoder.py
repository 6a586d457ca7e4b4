"""Encoder of the chromatic graph Transformer (Menegaux et al. 2023, hal-04105101)."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from graphormer_plugin.modules.batch_norm import MaskedBatchNorm, real_rows
from graphormer_plugin.modules.choices import check_choice
from graphormer_plugin.modules.chromatic_attention import ChromaticAttention
from graphormer_plugin.modules.compiled_attention import compiled_fits
from graphormer_plugin.modules.encoder import Encoder, joined_options
from graphormer_plugin.modules.encoder_layer import EncoderLayer
from graphormer_plugin.modules.init import init_columns
from graphormer_plugin.modules.node_encoder import NodeEncoder
from graphormer_plugin.modules.node_position import walk_powers
from graphormer_plugin.modules.pair_encoder import PairEncoder, PairProjection
from graphormer_plugin.modules.pair_encodings import PairEncoding
from graphormer_plugin.modules.vocabulary import Vocabularies

MEMORY = ("auto", "plain", "lean")
LARGE = 1 << 22  # elements of a [B, N, N, D] above which "auto" is "lean"


class CGTEncoder(Encoder):
    """Transformer over the nodes of a graph, without a virtual node, whose attention has
    a filter per pair of nodes, Menegaux et al. 2023.

    Node input: embedded features, concatenated with a linear map of normalised return
    probabilities. Layers: attention, sum, BatchNorm; two linear maps, ReLU between them,
    sum, BatchNorm (section 3.5).

    Args:
        vocabularies: of nodes and bonds, e.g. `GraphStore.schema`.
        num_layers: number of layers, at least 1.
        embed_dim: width D.
        ffn_dim: inner width of the feed-forward network; None: 2 D.
        num_heads: H.
        node_table_size: see `NodeEncoder`.
        rwse_steps: number of return probabilities in the node input; 0: none.
        rwse_dim: channels of the node input that encode them.
        relative_encoding, relative_steps, relative_dim: see `PairEncoder`.
        combine, rings, neighbours_only: see `PairEncoder`.
        max_ring_size, substructures: for `rings`, the most nodes of a ring, and what
            counts as one, a name registered in `graphormer_plugin.data.rings`.
        pair_dim: width of the pair features; None: D.
        share_edge_encoding: all layers share the maps from pair features to E^att and
            E^val.
        edge_values: pairs add a vector to the message (Eq. 7); else Eq. 6.
        attention, output_projection: see `ChromaticAttention`.
        attention_memory: "plain", "lean" (see `PairVectors`), or "auto", by size. Without
            effect where the compiled function fits (float32 on a CPU).
        attention_dropout, node_dropout, channel_dropout: see `ChromaticAttention`.
        dropout, act_dropout, activation: see `EncoderLayer`.
        pair_encodings: added to the pair features (see `make_pair_encodings`).

    Raises:
        ValueError: a size or rate out of range, or an unknown choice.

    Example:
        >>> from graphormer_plugin.data.schema import FeatureSchema
        >>> schema = FeatureSchema(1, node_dims=[119], bond_dims=[4])
        >>> encoder = CGTEncoder(schema, num_layers=2, embed_dim=16, num_heads=4)
        >>> sorted(encoder.required_fields)
        ['node_mask', 'relation_index', 'relations', 'x']
        >>> batch = {
        ...     "x": torch.tensor([[[6], [8]]]),
        ...     "node_mask": torch.tensor([[True, True]]),
        ...     # positions in `relations`: self, and a bond of type 1
        ...     "relation_index": torch.tensor([[[1, 2], [2, 1]]]),
        ...     # padding, self, and what codes.bond_relation gives for that bond
        ...     "relations": torch.tensor([0, 1, encoder.pairs.max_hop + 3]),
        ... }
        >>> encoder(batch).shape
        torch.Size([1, 2, 16])
    """

    def __init__(
        self,
        vocabularies: Vocabularies,
        num_layers: int = 10,
        embed_dim: int = 64,
        ffn_dim: int | None = None,
        num_heads: int = 4,
        node_table_size: int | None = None,
        rwse_steps: int = 0,
        rwse_dim: int = 0,
        relative_encoding: str = "rwse",
        relative_steps: int = 16,
        relative_dim: int | None = None,
        pair_dim: int | None = None,
        combine: str = "concat",
        rings: str = "none",
        max_ring_size: int = 18,
        substructures: str = "rings",
        neighbours_only: bool = False,
        share_edge_encoding: bool = False,
        edge_values: bool = True,
        attention: str = "chromatic",
        output_projection: str = "full",
        attention_dropout: float = 0.0,
        node_dropout: float = 0.0,
        channel_dropout: float = 0.0,
        dropout: float = 0.0,
        act_dropout: float = 0.0,
        activation: str = "relu",
        attention_memory: str = "auto",
        pair_encodings: Iterable[PairEncoding] = (),
    ) -> None:
        super().__init__()
        if num_layers < 1:
            raise ValueError(f"num_layers {num_layers}, expected at least 1")
        if rwse_steps < 0 or not (rwse_steps == 0 or 1 <= rwse_dim < embed_dim):
            raise ValueError(
                f"rwse_steps {rwse_steps} and rwse_dim {rwse_dim} of embed_dim "
                f"{embed_dim}, expected 0 steps, or 1 channel or more and some left"
            )
        check_choice("attention memory", attention_memory, MEMORY)
        self.embed_dim = embed_dim
        self.max_ring_size, self.substructures = max_ring_size, substructures
        self.rwse_steps = rwse_steps
        self.attention, self.attention_memory = attention, attention_memory
        self.node_encoder = NodeEncoder(
            vocabularies,
            embed_dim - rwse_dim if rwse_steps else embed_dim,
            node_table_size,
        )
        # A single column keeps its start.
        if self.node_encoder.categorical and len(self.node_encoder.table_rows) > 1:
            init_columns(self.node_encoder)
        if rwse_steps:
            self.rwse_norm = MaskedBatchNorm(rwse_steps)
            self.rwse_proj = nn.Linear(rwse_steps, rwse_dim)
        self.pairs = PairEncoder(
            vocabularies,
            pair_dim or embed_dim,
            relative_encoding,
            relative_steps,
            relative_dim,
            combine,
            rings,
            neighbours_only,
            pair_encodings,
        )
        for bonds in self.pairs.bonds:
            if len(bonds.table_rows) > 1:
                init_columns(bonds, averaged=True)
        self.projections = nn.ModuleList(
            PairProjection(
                pair_dim or embed_dim,
                num_heads if attention == "mono" else embed_dim,
                embed_dim if edge_values else 0,
            )
            for _ in range(1 if share_edge_encoding else num_layers)
        )
        self.layers = nn.ModuleList(
            EncoderLayer(
                ChromaticAttention(
                    embed_dim,
                    num_heads,
                    attention,
                    output_projection,
                    attention_dropout,
                    node_dropout,
                    channel_dropout,
                ),
                embed_dim,
                2 * embed_dim if ffn_dim is None else ffn_dim,
                dropout,
                act_dropout,
                activation,
                pre_layernorm=False,
                norm=MaskedBatchNorm,
            )
            for _ in range(num_layers)
        )

    @property
    def required_fields(self) -> frozenset[str]:
        return self.pairs.required_fields | {"x", "node_mask"}

    @property
    def field_options(self) -> dict[str, Any]:
        options = {"max_hop": self.pairs.max_hop}
        if self.pairs.rings != "none":
            options["max_ring_size"] = self.max_ring_size
            options["substructures"] = self.substructures
        return joined_options(options, *self.pairs.further.field_options)

    def modules_of_layer(self, number: int) -> list[nn.Module]:
        own = self.projections if len(self.projections) > 1 else ()
        return [self.layers[number], *own[number : number + 1]]

    def attention_modules(self) -> list[ChromaticAttention]:
        return [layer.attention for layer in self.layers]

    @property
    def attention_unit(self) -> str:
        return "head" if self.attention == "mono" else "channel"

    def forward(
        self, batch: dict[str, Tensor], perturb: Tensor | None = None
    ) -> Tensor:
        """Encodes a batch.

        Args:
            batch: the fields of `required_fields`.
            perturb: [B, N, D], added to the encoded nodes.

        Returns:
            [B, N, D]; padding is zero.
        """
        rows = real_rows(batch["node_mask"])
        walks = self.walk_powers(batch)
        x = self.encode_nodes(batch["x"], rows, walks)
        if perturb is not None:
            x = x + perturb.to(x.dtype)
        encoded = self.pairs(batch, walks)
        pairs = [projection(*encoded) for projection in self.projections]
        if self.lean(x):
            pairs = [vectors._replace(lean=True) for vectors in pairs]
        elif len(pairs) == 1 and self.attention != "mono" and not compiled_fits(x):
            pairs = [pairs[0].with_dense()]  # once for all layers
        pairs *= len(self.layers) // len(pairs)
        for layer, layer_pairs in zip(self.layers, pairs):
            x = self.run_layer(layer, x, layer_pairs, rows=rows)
        return x

    def lean(self, x: Tensor) -> bool:
        """Whether to compute the attention in chunks for this batch, x [B, N, D], where
        the compiled function does not fit."""
        if self.attention_memory != "auto":
            return self.attention_memory == "lean"
        return x.shape[0] * x.shape[1] ** 2 * x.shape[2] > LARGE

    def walk_powers(self, batch: dict[str, Tensor]) -> Tensor | None:
        """Powers of the random-walk matrix that nodes or pairs read, [B, N, N, K], in
        float32 at least."""
        steps = max(self.rwse_steps, self.pairs.num_steps)
        if not steps:
            return None
        weight = self.pairs.no_bonds.weight
        wide = torch.promote_types(weight.dtype, torch.float32)
        return walk_powers(self.pairs.adjacency(batch), steps, wide)

    def encode_nodes(self, x: Tensor, rows: Tensor, walks: Tensor | None) -> Tensor:
        """Features and return probabilities of nodes, [B, N, D]."""
        x = self.node_encoder(x)
        if self.rwse_steps:
            back = walks.diagonal(dim1=1, dim2=2).transpose(1, 2)  # [B, N, K]
            back = self.rwse_norm(back[..., : self.rwse_steps], rows)
            x = torch.cat([x, self.rwse_proj(back.to(x.dtype))], -1)
        return x
