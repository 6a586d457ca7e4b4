"""Encoder and node head of Graphormer-3D, by the released code (microsoft/Graphormer)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from graphormer_plugin.choices import check_least
from graphormer_plugin.modules.attention.biased import BiasedAttention
from graphormer_plugin.modules.encoders.base import Encoder, perturbed
from graphormer_plugin.modules.encodings.attn_bias import FORBIDDEN
from graphormer_plugin.modules.encodings.gaussian_kernels import (
    DistanceKernels,
    cosine_cutoff,
    pair_distances,
)
from graphormer_plugin.modules.encodings.node_encoder import NodeEncoder
from graphormer_plugin.modules.encodings.vocabulary import Vocabularies
from graphormer_plugin.modules.layers.dropout import Dropout
from graphormer_plugin.modules.layers.encoder_config import (
    PairTransformerConfig,
    TransformerEncoderConfig,
    check_layers,
    option,
    redefault,
)
from graphormer_plugin.modules.layers.encoder_layer import encoder_layers
from graphormer_plugin.modules.layers.readout import MLPHead
from graphormer_plugin.modules.layers.sparse import Batch, wide_type

CUTOFF_FLOOR = 1e-6  # added to factors of attention weights, for the logarithm


@dataclass
class Graphormer3DEncoderConfig(TransformerEncoderConfig):
    """Options of `Graphormer3DEncoder`, of `graphormer3d_base`."""

    encoder_attention_heads: int = redefault(
        TransformerEncoderConfig, "encoder_attention_heads", 48
    )
    blocks: int = option(4, "runs of all layers, one after another, >= 1")
    input_dropout: float = option(0.0, "dropout on the embeddings, 0 <= p < 1")
    gaussian_kernels: int = option(
        128, "Gaussians of a distance, >= 1", argparse_alias="--num-kernel"
    )
    gaussian_start: str = redefault(PairTransformerConfig, "gaussian_start", "uniform")
    attention_cutoff: float = option(
        0.0,
        "attention falls smoothly to 0 between atoms this far apart, in angstrom; 0: it "
        "does not",
    )


class Graphormer3DEncoder(Encoder):
    """Transformer over atoms whose attention reads distances, without bonds.

    The Gaussians of a distance (`DistanceKernels`, by the first column of both nodes) are
    summed over all nodes into the input of a node, and give the bias of the attention, which
    all layers share. The layers run `blocks` times. With a cutoff, Gaussians and attention
    weights have the factor `cosine_cutoff` (our choice).

    Args:
        vocabularies: columns of nodes, of which the first has the chemical elements.

    Raises:
        ValueError: nodes have real features.
    """

    fields = ("pos",)

    def __init__(
        self, vocabularies: Vocabularies, config: Graphormer3DEncoderConfig
    ) -> None:
        super().__init__()
        check_layers(config)
        check_least("blocks", config.blocks, 1)
        check_least("attention_cutoff", config.attention_cutoff, 0)
        if vocabularies.node_dims is None:
            raise ValueError("node features are real numbers, expected elements")
        self.embed_dim = embed_dim = config.encoder_embed_dim
        num_heads = config.encoder_attention_heads
        kernels = config.gaussian_kernels
        self.blocks = config.blocks
        self.cutoff = config.attention_cutoff
        self.node_encoder = NodeEncoder(vocabularies, config)
        num_types = self.node_encoder.table_rows[0]
        start = config.gaussian_start
        self.kernels = DistanceKernels(kernels, "ordered", num_types, start)
        self.bias = MLPHead([kernels, kernels, num_heads], "gelu")
        self.neighbours = nn.Linear(kernels, embed_dim)
        self.input_dropout = Dropout(config.input_dropout)
        self.layers = encoder_layers(
            config,
            lambda: BiasedAttention(embed_dim, num_heads, config.attention_dropout),
        )
        self.final_norm = nn.LayerNorm(embed_dim)

    def forward(self, batch: Batch, perturb: Tensor | None = None) -> Tensor:
        """See `Encoder`; returns [B, N, D]; padding has any values."""
        return self.encode(batch, perturb)[0]

    def encode(
        self, batch: Batch, perturb: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Vectors of the nodes [B, N, D], and the bias of the attention [B, H, N, N]."""
        columns = batch["x"][..., : len(self.node_encoder.table_rows)]
        mask = batch["node_mask"]
        distances = pair_distances(self.positions(batch))
        atoms = columns[..., 0].long()
        psi = self.kernels(distances, atoms.unsqueeze(2), atoms.unsqueeze(1))
        if self.cutoff:
            factor = cosine_cutoff(distances, self.cutoff).unsqueeze(-1).to(psi.dtype)
            psi = psi * factor
        near = psi.masked_fill(~mask[:, None, :, None], 0).sum(2)
        x = self.node_encoder({**batch, "x": columns}) + self.neighbours(near)
        x = self.input_dropout(perturbed(x, perturb))
        bias = self.bias(psi)
        if self.cutoff:
            bias = bias + (factor + CUTOFF_FLOOR).log()
        bias = bias.permute(0, 3, 1, 2)
        bias = bias.masked_fill(~mask[:, None, None], FORBIDDEN)
        if x.device.type != "cpu":
            bias = BiasedAttention.aligned(bias)
        for _ in range(self.blocks):
            for layer in self.layers:
                x = self.run_layer(layer, x, bias)
        return self.final_norm(x), bias

    def positions(self, batch: Batch) -> Tensor:
        """[B, N, 3] in float32 at least: half precision cannot tell distances apart."""
        return batch["pos"].to(wide_type(self.kernels.kernels.centre))


class VectorHead(BiasedAttention):
    """Three numbers of each node, the node head of Graphormer-3D,

        f_ia = b_a + sum_j sum_h A_hij u_ija (v_jh . w_ah) for the axes a,

    with the unit vectors u from i to j, which are divided by the distance + 1e-5. It does
    not change with a translation, but it does not turn with a rotation of the positions:
    every axis has a map w_a of its own. Dropout on the attention is 0.1.
    """

    def __init__(self, embed_dim: int, num_heads: int) -> None:
        super().__init__(embed_dim, num_heads, dropout=0.1)
        self.out_proj = nn.Linear(embed_dim, 3)

    def forward(self, x: Tensor, attn_bias: Tensor, pos: Tensor) -> Tensor:
        """x [B, N, D], attn_bias [B, H, N, N], pos [B, N, 3] -> [B, N, 3], in the type of the
        positions."""
        q, k, v = self.heads(self.qkv_proj(x))
        weights = self.dropout(self.weights(q, k, attn_bias.to(q.dtype)))
        weights = weights.view_as(attn_bias).to(pos.dtype)
        maps = self.out_proj.weight.view(3, self.num_heads, -1).to(pos.dtype)
        values = torch.einsum("bhjd,ahd->bhja", v.to(pos.dtype), maps)
        steps = pos.unsqueeze(1) - pos.unsqueeze(2)
        steps = steps / (pair_distances(pos).unsqueeze(-1) + 1e-5)
        sums = torch.einsum("bhij,bhja->bija", weights, values) * steps
        return sums.sum(2) + self.out_proj.bias
