"""Base of all architectures: options of an encoder, and the model around an encoder and
a head (fairseq imports no file whose name starts with _)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from graphormer_plugin.choices import check_choice
from graphormer_plugin.data.batches.fields import BatchSpec
from graphormer_plugin.data.columns import LINK_LEVELS, Level, learned_level
from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.modules.encoders.base import Encoder
from graphormer_plugin.modules.layers.encoder_config import (
    LayersConfig,
    PairTransformerConfig,
    TransformerEncoderConfig,
    option,
)
from graphormer_plugin.modules.layers.readout import READOUTS, read_out
from graphormer_plugin.modules.layers.sparse import Batch


@dataclass(frozen=True)
class ModelTask:
    """The attributes of a task that an architecture reads, without fairseq's commands.

    Attributes:
        log_degree: mean log degree of the training graphs; None without data.
    """

    schema: FeatureSchema
    targets: TargetSchema
    log_degree: float | None = None

    def mean_log_degree(self) -> float | None:
        """Mean log degree of the training graphs; None without data."""
        return self.log_degree


@dataclass
class EncoderConfig(LayersConfig):
    """Size of an encoder with layers, and options of its training."""

    freeze_encoder_layers: int = option(
        0,
        "number of first layers that are not trained, like the embeddings; 0: train all",
        run_only=True,
    )
    layerwise_lr_decay: float = option(
        1.0,
        "learning rate of a layer relative to the layer above, 0 < x <= 1; the head has "
        "--lr, the embeddings are below the first layer",
        run_only=True,
    )


@dataclass
class TransformerConfig(TransformerEncoderConfig, EncoderConfig):
    """Size of a Transformer encoder, and options of its training."""

    checkpoint_activations: bool = option(
        False,
        "compute each layer a second time in the backward pass instead of keeping its "
        "activations: same results, less memory, more time",
        run_only=True,
    )


@dataclass
class PairConfig(PairTransformerConfig, TransformerConfig):
    """A Transformer encoder with encodings of node pairs."""


class GraphModel(nn.Module):
    """An encoder of nodes, and a head on graphs, on each node, or on edges or links.

    Every architecture derives from it. Graphs are read out at the virtual node or, without
    it, from their nodes. An edge or link has the product of the vectors of its nodes behind
    a linear layer, so that both directions are predicted alike (our choice); a linear head
    then makes a weighted dot product.

    Args:
        encoder: see `Encoder`.
        head: [..., D] -> [..., C], C targets or classes, with `output_names`: its
            weights that belong to single outputs, the matrix first.
        level: the `Level` that has the targets.
        readout: `mean`, `sum` or `max` over the nodes of a graph without virtual node.

    Attributes:
        batch_spec: the batch fields that the model reads.
    """

    schema: FeatureSchema
    targets: TargetSchema

    def __init__(
        self,
        encoder: Encoder,
        head: nn.Module,
        level: Level = Level.GRAPH,
        readout: str = "mean",
    ) -> None:
        super().__init__()
        check_choice("readout", readout, READOUTS)
        level = self.level = learned_level(level)  # also a word
        self.readout = readout
        self.encoder = encoder
        self.head = head
        fields = encoder.required_fields
        if level is Level.GRAPH and not encoder.has_virtual_node:
            fields |= {"node_mask"}
        if level in LINK_LEVELS:
            self.project = nn.Linear(encoder.embed_dim, encoder.embed_dim)
            fields |= {"edge_label_index"}
        self.batch_spec = BatchSpec(fields, **encoder.field_options)
        self.translate: Callable[[Mapping[str, Tensor]], Any] | None = None

    def forward(self, batch: Batch, perturb: Tensor | None = None) -> Tensor:
        """Predict [B, C], or of nodes [B, N, C], and of edges or links [B, P, C] for
        `edge_label_index` [B, P, 2], where padding has any values.

        Regression has the scale of training (standardised, or the target's unit).
        `perturb` [B, N, D] is added to the encoded node features (FLAG).
        """
        if hasattr(batch, "to_data_list"):
            raise TypeError(
                "a batch of PyG's DataLoader lacks the fields that the model reads; make "
                "batches with graphormer_plugin.pyg.graph_loader(graphs, model)"
            )
        x = self.encoder(batch, perturb)
        if self.level is Level.NODE:
            return self.head(self.nodes(x))
        if self.level in LINK_LEVELS:
            return self.links(self.nodes(x), batch["edge_label_index"])
        return self.head(self.graphs(x, batch["node_mask"]))

    @property
    def embed_dim(self) -> int:
        """Width D of the vectors of nodes and graphs."""
        return self.encoder.embed_dim

    @property
    def virtual_node(self) -> bool:
        """Whether graphs are read out at a virtual node."""
        return self.encoder.has_virtual_node

    def nodes(self, x: Tensor) -> Tensor:
        """Output of the encoder [B, T, D] -> vectors of nodes [B, N, D]."""
        return x[:, 1:] if self.virtual_node else x

    def links(self, nodes: Tensor, ends: Tensor) -> Tensor:
        """Predict edges or links [B, P, C] of `edge_label_index` [B, P, 2], from vectors of nodes
        [B, N, D]."""
        graphs = torch.arange(len(nodes), device=nodes.device).unsqueeze(1)
        nodes = self.project(nodes)
        first, second = ends.unbind(-1)
        return self.head(nodes[graphs, first] * nodes[graphs, second])

    def graphs(self, x: Tensor, node_mask: Tensor) -> Tensor:
        """Output of the encoder [B, T, D] -> vectors of graphs [B, D]."""
        if self.virtual_node:
            return x[:, 0]
        return read_out(x, node_mask, self.readout)

    @property
    def output_names(self) -> list[str]:
        """Names of the weights that belong to single outputs, the matrix first."""
        return [f"head.{name}" for name in self.head.output_names]

    def load_state_dict(
        self, state_dict: Mapping[str, Tensor], *args: Any, **kwargs: Any
    ):
        """Load weights; see `nn.Module`.

        The weights of `--finetune-from-model`, which fairseq's trainer loads, pass through
        `translate`, which the task has set.
        """
        if self.translate is not None:
            state_dict = self.translate(state_dict)
            self.translate = None
        return super().load_state_dict(state_dict, *args, **kwargs)


def sizes(layers: int, width: int, heads: int) -> dict[str, int]:
    """Sizes of a Transformer whose feed-forward network has the same width."""
    return {
        "encoder_layers": layers,
        "encoder_embed_dim": width,
        "encoder_ffn_embed_dim": width,
        "encoder_attention_heads": heads,
    }
