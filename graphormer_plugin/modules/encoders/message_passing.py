"""Message passing over the edges of sparse batches: the encoder of the baselines."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphormer_plugin.choices import check_choice, check_least
from graphormer_plugin.modules.encoders.base import SparseEncoder, perturbed
from graphormer_plugin.modules.encodings.bond_encoder import BondEncoder, edge_encoder
from graphormer_plugin.modules.encodings.node_encoder import NodeEncoder
from graphormer_plugin.modules.encodings.vocabulary import Vocabularies
from graphormer_plugin.modules.layers.batch_norm import NORMS
from graphormer_plugin.modules.layers.dropout import Dropout
from graphormer_plugin.modules.layers.encoder_config import (
    LayersConfig,
    SpatialEdgesConfig,
    check_layers,
    defaults,
    option,
)
from graphormer_plugin.modules.layers.encoder_layer import ACTIVATIONS
from graphormer_plugin.modules.layers.init import init_columns
from graphormer_plugin.modules.layers.sparse import Batch, NodeLayout, scatter_sum
from graphormer_plugin.modules.message_passing.convolutions import (
    BondGraphConvolution,
    Edges,
    GatedGraphConvolution,
    LayerSettings,
    PrincipalAggregation,
    SimplePrincipalAggregation,
    gat,
    gcn,
    gin,
    graphsage,
    symmetric_gcn,
)
from graphormer_plugin.modules.message_passing.edge_input import EdgeInput


class Convolution(NamedTuple):
    """A convolution, and the parts of a layer around it.

    Attributes:
        build: settings of the layer and options of its own -> module.
        bonds: the owner of vectors of bonds: "layer", every layer for itself; "shared",
            the encoder for all layers; "state", the encoder for the first layer, and the
            layers update the vectors of the edges; "none".
        activation: after the convolution.
        order: "norm first", "activation first", or "neither" where the convolution has
            both.
        drop_sum: dropout is on the sum with the input, not on the term that is added.
        options: names of the options that `build` takes.
    """

    build: Callable[..., nn.Module]
    bonds: str = "none"
    activation: Callable[[Tensor], Tensor] = F.relu
    order: str = "norm first"
    drop_sum: bool = False
    options: tuple[str, ...] = ()


ACTIVATION_NAMES = ("relu", "gelu", "silu")
TOWERS = ("edge_dim", "num_towers")
GAT_OPTIONS = ("num_heads", "attention_dropout")
CONVOLUTIONS = {
    "gcn": Convolution(gcn),
    "gcn_symmetric": Convolution(symmetric_gcn),
    "gcn_bonds": Convolution(BondGraphConvolution, "layer"),
    "gin": Convolution(gin, options=("hidden_dim", "learned_share")),
    "gine": Convolution(gin, "layer", options=("hidden_dim", "learned_share")),
    "gat": Convolution(gat, activation=F.elu, options=GAT_OPTIONS),
    "gat_bonds": Convolution(gat, "layer", activation=F.elu, options=GAT_OPTIONS),
    "gatedgcn": Convolution(GatedGraphConvolution, "state"),
    "graphsage": Convolution(graphsage, order="activation first"),
    "pna": Convolution(
        PrincipalAggregation,
        "shared",
        order="neither",
        options=(*TOWERS, "mean_log_degree"),
    ),
    "pna_simple": Convolution(
        SimplePrincipalAggregation, drop_sum=True, options=("mean_log_degree",)
    ),
    "mpnn": Convolution(
        partial(PrincipalAggregation, aggregators=["sum"], scalers=["identity"]),
        "shared",
        order="neither",
        options=TOWERS,
    ),
}


class MessagePassingLayer(nn.Module):
    """h' = h + dropout(ReLU(norm(convolution(h)))), and with a virtual node v (OGB's
    baselines, arXiv:2005.00687): v joins h before, and v' = v + dropout(MLP(v + sum of
    h)) follows.

    Args:
        conv: a key of `CONVOLUTIONS`, which has the activation and its place.
        linear: no activation.
        virtual_node: there is a virtual node. The last layer has no v'.
    """

    def __init__(
        self,
        conv: str,
        layer: LayerSettings,
        linear: bool = False,
        virtual_node: bool = False,
        **conv_options: Any,
    ) -> None:
        super().__init__()
        build, _, activation, order, self.drop_sum, _ = CONVOLUTIONS[conv]
        if layer.activation:
            check_choice("activation_fn", layer.activation, ACTIVATION_NAMES)
            if order == "neither":
                raise ValueError(
                    f"activation_fn {layer.activation}: {conv} has its own"
                )
            activation = ACTIVATIONS[layer.activation]
        dim = layer.embed_dim
        norm = NORMS[layer.norm]
        self.convolution = build(layer, **conv_options)
        self.activation = None if linear or order == "neither" else activation
        self.activation_first = order == "activation first"
        self.norm = nn.Identity() if order == "neither" else norm(dim)
        self.residual = layer.residual
        # If the order is "neither", the convolution has the dropout.
        self.dropout = Dropout(0.0 if order == "neither" else layer.dropout)
        self.virtual_update = None
        if virtual_node and not layer.last:
            maps = [[nn.Linear(dim, dim), norm(dim), nn.ReLU()] for _ in range(2)]
            self.virtual_update = nn.Sequential(*maps[0], *maps[1])
            self.virtual_dropout = Dropout(layer.dropout)

    def forward(
        self, x: Tensor, virtual: Tensor | None, edges: Edges
    ) -> tuple[Tensor, Tensor | None, Edges]:
        """Nodes x [S, D] of all graphs, virtual nodes [B, D] or None, and edges -> all three
        after this layer."""
        if virtual is not None:
            x = x + virtual[edges.node_graph]
        out, edges = self.convolution(x, edges)
        if self.activation_first:
            out = self.norm(self.activate(out))
        else:
            out = self.activate(self.norm(out))
        if not self.drop_sum:
            out = self.dropout(out)
        if self.virtual_update is not None:
            nodes = scatter_sum(x, edges.node_graph, virtual.shape[0]).to(x.dtype)
            update = self.virtual_dropout(self.virtual_update(nodes + virtual))
            virtual = virtual + update if self.residual else update
        out = x + out if self.residual else out
        return self.dropout(out) if self.drop_sum else out, virtual, edges

    def activate(self, x: Tensor) -> Tensor:
        """x after the activation of the layer, which may be the identity."""
        return x if self.activation is None else self.activation(x)


@dataclass
@defaults(encoder_layers=16, dropout=0.0)
class MessagePassingEncoderConfig(LayersConfig, SpatialEdgesConfig):
    """Options of `MessagePassingEncoder`."""

    virtual_node: bool = option(
        False, "a vector per graph that all its nodes read and write"
    )
    norm: str = option("batch", "normalisation: batch, layer or none")
    activation_fn: str = option(
        "", "activation of a layer: relu or gelu; default: the layer's own"
    )
    no_residual: bool = option(False, "a layer replaces its input")
    linear_last_layer: bool = option(False, "no activation after the last layer")
    xavier_embeddings: bool = option(
        False, "tables of nodes and bonds start Xavier-uniform, as OGB's"
    )


class MessagePassingEncoder(SparseEncoder):
    """Node vectors, and layers of message passing over the edges. Nothing has the size of
    all node pairs. An `edge_input` makes the edges of a batch; None: `EdgeInput`."""

    def __init__(
        self,
        conv: str,
        vocabularies: Vocabularies,
        config: MessagePassingEncoderConfig,
        edge_input: EdgeInput | None = None,
        **conv_options: Any,
    ) -> None:
        super().__init__()
        check_choice("conv", conv, CONVOLUTIONS)
        check_choice("norm", config.norm, NORMS)
        check_layers(config)
        check_least("hidden_dim", conv_options.get("hidden_dim", 1), 1)
        embed_dim = config.encoder_embed_dim
        num_layers = config.encoder_layers
        self.embed_dim = embed_dim
        self.node_encoder = NodeEncoder(vocabularies, config)
        self.virtual_node = None
        if config.virtual_node:
            self.virtual_node = nn.Embedding(1, embed_dim)
            nn.init.zeros_(self.virtual_node.weight)
        width = conv_options.get("edge_dim", embed_dim)
        check_least("edge_dim", width, 0)
        owner = CONVOLUTIONS[conv].bonds if width else "none"
        self.edge_input = edge_input or EdgeInput(owner, vocabularies, config)
        self.fields = "node_graph", *self.edge_input.fields
        kernels = config.length_kernels
        bonds = partial(
            edge_encoder, vocabularies, width, combine="sum", num_kernels=kernels
        )
        self.bonds = bonds() if owner in ("shared", "state") else None
        self.layers = nn.ModuleList()
        for index in range(num_layers):
            last = index == num_layers - 1
            layer = LayerSettings(
                embed_dim,
                config.norm,
                not config.no_residual,
                config.dropout,
                last,
                bonds() if owner == "layer" else None,
                activation=config.activation_fn,
            )
            self.layers.append(
                MessagePassingLayer(
                    conv,
                    layer,
                    config.linear_last_layer and last,
                    config.virtual_node,
                    **conv_options,
                )
            )
        if config.xavier_embeddings:
            for module in self.modules():
                columns = isinstance(module, (NodeEncoder, BondEncoder))
                if columns and hasattr(module, "embedding"):  # not a linear map
                    init_columns(module)

    def forward(self, batch: Batch, perturb: Tensor | None = None) -> Tensor:
        """See `Encoder`; returns [B, N, D]; padding is zero."""
        outputs, layout = self._layers(batch, perturb)
        return layout.pad(outputs[-1])

    def all_layers(self, batch: Batch, perturb: Tensor | None = None) -> Tensor:
        """The input of the first layer and the outputs of all layers, side by side:
        [B, N, (L + 1) D]. See `forward`."""
        outputs, layout = self._layers(batch, perturb)
        return layout.pad(torch.cat(outputs, -1))

    def _layers(
        self, batch: Batch, perturb: Tensor | None
    ) -> tuple[list[Tensor], NodeLayout]:
        layout = NodeLayout.of(batch)
        x = layout.flatten(perturbed(self.node_encoder(batch), perturb))
        virtual = None
        if self.virtual_node is not None:
            virtual = self.virtual_node.weight.expand(layout.num_graphs, -1)
        edges = self.edge_input(batch, self.bonds)
        outputs = [x]
        for layer in self.layers:
            x, virtual, edges = layer(x, virtual, edges)
            outputs.append(x)
        return outputs, layout


class LayersHead(nn.Module):
    """Sum of a linear map per layer, the read-out of GIN in Dwivedi et al. 2020 (Xu et
    al. 2019, arXiv:1810.00826). It starts as separate maps would, with a common bias.

    Args:
        num_layers: L, without the input of the first layer.
    """

    output_names = ("projection.weight", "projection.bias")

    def __init__(self, embed_dim: int, num_layers: int, num_outputs: int) -> None:
        super().__init__()
        self.projection = nn.Linear((num_layers + 1) * embed_dim, num_outputs)
        bound = embed_dim**-0.5
        nn.init.uniform_(self.projection.weight, -bound, bound)
        biases = torch.empty(num_layers + 1, num_outputs).uniform_(-bound, bound)
        self.projection.bias.data.copy_(biases.sum(0))

    def forward(self, x: Tensor) -> Tensor:
        """[..., (L + 1) D] -> [..., C]."""
        return self.projection(x)
