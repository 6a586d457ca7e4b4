"""Graphormer-3D: Benchmarking Graphormer on Large-Scale Molecular Modeling Datasets (Shi et
al. 2022).

https://arxiv.org/abs/2203.04810, by its released code (microsoft/Graphormer), whose numbers
ours agree with. `graphormer3d_base` is its only network; the sizes of `graphormer3d_small`
are nablaDFT's. All weights start from torch's defaults, except the kernels and the factors
of the tags.

Molecules and other graphs with positions have one tag, 1, and no node head. Systems of the
task `is2re` have tags and periodic images, and three numbers per atom.
"""

import dataclasses
from dataclasses import dataclass

from torch import Tensor, nn

from graphormer_plugin.data.columns import LINK_LEVELS, Level
from graphormer_plugin.data.graphs.periodic import IMAGE, TAG, TAGS, counted_atoms
from graphormer_plugin.models._base import GraphModel, TransformerConfig
from graphormer_plugin.models._registry import register_model
from graphormer_plugin.modules import (
    Dropout,
    Graphormer3DEncoder,
    Graphormer3DEncoderConfig,
    MLPHead,
    VectorHead,
    option,
)
from graphormer_plugin.modules.layers.sparse import Batch


@dataclass
class Graphormer3DConfig(Graphormer3DEncoderConfig, TransformerConfig):
    """Options of Graphormer-3D's encoder and head."""

    head_dropout: float = option(
        0.1, "dropout before the head of each atom, 0 <= p < 1"
    )


class AtomHead(MLPHead):
    """Dropout, a network of widths D, D and C, and a factor by the tag of the atom."""

    def __init__(self, embed_dim: int, num_outputs: int, dropout: float) -> None:
        super().__init__([embed_dim, embed_dim, num_outputs], "gelu")
        self.dropout = Dropout(dropout)
        self.factor = nn.Embedding(TAGS, 1)
        nn.init.normal_(self.factor.weight, std=0.01)

    def forward(self, x: Tensor, tags: Tensor) -> Tensor:
        """Atoms [..., D] and tags [...] -> [..., C]."""
        return super().forward(self.dropout(x)) * self.factor(tags)


@register_model(
    "graphormer3d",
    Graphormer3DConfig,
    graphormer3d_small={
        "encoder_layers": 6,
        "encoder_embed_dim": 512,
        "encoder_ffn_embed_dim": 512,
        "encoder_attention_heads": 32,
    },
    graphormer3d_base={},
)
class Graphormer3DModel(GraphModel):
    """`Graphormer3DEncoder` and a head on each atom. A graph has the sum of its atoms, in a
    periodic system of those above tag 0, without images.

    A model of targets with displacements returns the targets of a graph and the vector of
    each atom [B, N, 3].
    """

    @classmethod
    def build_model(cls, cfg: Graphormer3DConfig, task) -> "Graphormer3DModel":
        """The model of a config, for a task's schema and targets (see `ModelTask`)."""
        schema = task.schema
        targets = task.targets
        if targets.has_vector_outputs:  # the image is no feature
            dims = schema.node_dims[:IMAGE]
            schema = dataclasses.replace(
                schema, node_dims=dims, num_node_features=len(dims)
            )
        encoder = Graphormer3DEncoder(schema, cfg)
        width = cfg.encoder_embed_dim
        outputs = targets.num_outputs
        head: nn.Module = AtomHead(width, outputs, cfg.head_dropout)
        if targets.level in LINK_LEVELS:
            head = MLPHead([width, width, outputs], "gelu")
        model = cls(encoder, head, targets.level, "sum")
        heads = cfg.encoder_attention_heads
        model.vector_head = None
        if targets.has_vector_outputs:
            model.vector_head = VectorHead(cfg.encoder_embed_dim, heads)
        return model

    def forward(
        self, batch: Batch, perturb: Tensor | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        """See `GraphModel`."""
        if self.level in LINK_LEVELS:
            return super().forward(batch, perturb)
        x, attn_bias = self.encoder.encode(batch, perturb)
        counted = batch["node_mask"]
        tags = counted.long()
        if self.vector_head is not None:
            tags = batch["x"][..., TAG].long()
            counted = counted_atoms(batch["x"])
        outputs = self.head(x, tags)
        if self.level is Level.GRAPH:
            outputs = self.graphs(outputs, counted)
        if self.vector_head is None:
            return outputs
        return outputs, self.vector_head(x, attn_bias, self.encoder.positions(batch))
