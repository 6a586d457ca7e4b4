"""Encoder of the Graph Transformer (Dwivedi & Bresson 2021, arXiv:2012.09699)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from graphormer_plugin.choices import check_choice
from graphormer_plugin.modules.attention.compiled import compiled_fits
from graphormer_plugin.modules.attention.edge import (
    EDGE_EPSILON,
    EdgeAttention,
    EdgeScores,
    ScoreOutput,
    count_edges,
)
from graphormer_plugin.modules.encoders.base import SparseEncoder, perturbed
from graphormer_plugin.modules.encodings.bond_encoder import edge_encoder
from graphormer_plugin.modules.encodings.node_encoder import NodeEncoder
from graphormer_plugin.modules.encodings.vocabulary import Vocabularies
from graphormer_plugin.modules.layers.batch_norm import NORMS, MaskedBatchNorm
from graphormer_plugin.modules.layers.dropout import Dropout
from graphormer_plugin.modules.layers.encoder_config import (
    SpatialEdgesConfig,
    TransformerEncoderConfig,
    check_layers,
    defaults,
    option,
)
from graphormer_plugin.modules.layers.encoder_layer import EncoderLayer
from graphormer_plugin.modules.layers.sparse import Batch, NodeLayout
from graphormer_plugin.modules.message_passing.edge_input import EdgeInput

NORM_NAMES = ("batch", "layer")  # keys of NORMS

# In operations of torch, padded matrices of all pairs are faster than edges with fewer pairs
# per edge: up to about 8 for graphs of 120 nodes, up to about 5 for graphs of 15 (measured on
# a CPU). The compiled function is faster than both.
DENSE_PAIRS_PER_EDGE = 6


class GraphTransformerLayer(nn.Module):
    """One layer of the Graph Transformer: Eq. 4-8, or with features of edges Eq. 9-18.

    Args:
        edge_features: edges have vectors e_ij, which enter the scores, w_ij = (Q h_i .
            K h_j) / sqrt(D / H) * E e_ij (Eq. 12), and are updated, O_e w_ij (Eq. 10).
        attention_dropout: rate on the attention weights.
        dropout, act_dropout: see `EncoderLayer`.
        norm: width -> normalisation, h' = norm(h + A(h)); norm(h' + FFN(h')) (Eq. 6-8).
    """

    def __init__(
        self,
        embed_dim: int,
        ffn_dim: int,
        num_heads: int,
        edge_features: bool,
        attention_dropout: float = 0.0,
        dropout: float = 0.0,
        act_dropout: float = 0.0,
        norm: Callable[[int], nn.Module] = MaskedBatchNorm,
    ) -> None:
        super().__init__()
        around = partial(
            EncoderLayer,
            embed_dim=embed_dim,
            ffn_dim=ffn_dim,
            dropout=dropout,
            act_dropout=act_dropout,
            activation="relu",
            pre_layernorm=False,
            norm=norm,
        )
        epsilon = EDGE_EPSILON if edge_features else 0.0
        self.scores = EdgeScores(embed_dim, num_heads, edge_features)
        self.nodes = around(
            EdgeAttention(embed_dim, num_heads, attention_dropout, epsilon)
        )
        self.edges = around(ScoreOutput(embed_dim)) if edge_features else None

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge: Tensor | None = None,
        update_edges: bool = True,
        layout: NodeLayout | None = None,
        count: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """
        Args:
            edge_index: [2, E], source and target.
            edge: features of edges [E, D].
            update_edges: False: return the features of edges unchanged.
            layout, count: layout of the nodes and number of edges [B, N, N], to compute
                with all pairs; only without features of edges.

        Returns:
            nodes and edges after the layer.
        """
        inputs = *self.scores(x, edge), edge_index
        update_edges &= edge is not None
        attention = self.nodes.attention
        if count is None:
            mixed, channels = attention.messages(*inputs, channels=update_edges)
        else:
            mixed = attention.dense_messages(inputs[0], layout, count)
        x = self.nodes(x, mixed, *inputs)
        if update_edges:
            edge = self.edges(edge, channels)
        return x, edge


@dataclass
@defaults(
    encoder_layers=10,
    encoder_embed_dim=64,
    encoder_attention_heads=8,
    dropout=0.0,
    attention_dropout=0.0,
    node_encodings="laplacian:8",
)
class GraphTransformerEncoderConfig(TransformerEncoderConfig, SpatialEdgesConfig):
    """Options of `GraphTransformerEncoder`. The defaults are those of `gt_zinc`."""

    encoder_ffn_embed_dim: int = option(
        0, "inner width of the feed-forward networks; 0: twice the width"
    )
    input_dropout: float = option(
        0.0, "dropout on the embedded nodes and edges, 0 <= p < 1"
    )
    norm: str = option("batch", "normalisation: batch or layer (Table 1)")
    full_graph: bool = option(
        False,
        "every node attends to every other node; edge features start from one constant "
        "(Table 1)",
    )
    no_edge_features: bool = option(False, "Eq. 4-8 also where edges have features")
    no_pair_features: bool = option(
        False,
        "with --full-graph: pairs have no features, Eq. 4-8, also where edges have "
        "some",
    )


class GraphTransformerEncoder(SparseEncoder):
    """Graph Transformer of Dwivedi & Bresson 2021, without a virtual node.

    Layers have the nodes of all graphs one after another, so they see no padding. With
    `full_graph`, real features of edges are not read, bond columns only say that pairs
    have vectors, and positional encodings still come from the graph itself.

    Args:
        vocabularies: values of nodes and bonds, e.g. `GraphStore.schema`. Edges without
            bond columns and real features have no features (Eq. 4-8).
        edge_input: makes the edges of a batch; None: `EdgeInput` of the config.

    Example:
        >>> import torch
        >>> from graphormer_plugin.data.schema import FeatureSchema
        >>> schema = FeatureSchema(1, node_dims=[28], bond_dims=[4])
        >>> config = GraphTransformerEncoderConfig(
        ...     encoder_layers=2, encoder_embed_dim=16, node_encodings="none"
        ... )
        >>> encoder = GraphTransformerEncoder(schema, config)
        >>> batch = {
        ...     "x": torch.tensor([[[5], [0]], [[7], [3]]]),
        ...     "node_mask": torch.tensor([[True, False], [True, True]]),
        ...     "node_graph": torch.tensor([0, 1, 1]),
        ...     "edge_index": torch.tensor([[1, 2], [2, 1]]),
        ...     "edge_bond": torch.tensor([2, 2]),
        ... }
        >>> encoder(batch).shape
        torch.Size([2, 2, 16])
    """

    def __init__(
        self,
        vocabularies: Vocabularies,
        config: GraphTransformerEncoderConfig,
        edge_input: EdgeInput | None = None,
    ) -> None:
        super().__init__()
        check_layers(config)
        check_choice("norm", config.norm, NORM_NAMES)
        embed_dim = config.encoder_embed_dim
        full_graph = config.full_graph
        self.real = bool(vocabularies.num_edge_features)
        kernels = config.length_kernels
        edge_features = bool(vocabularies.bond_dims or self.real or kernels)
        edge_features &= not config.no_edge_features
        if full_graph and (config.radius or kernels or edge_input):
            raise ValueError(
                "full_graph: all pairs are edges, without lengths; expected radius, "
                "length_kernels and edge_input without it"
            )
        if full_graph:
            edge_features &= not (config.no_pair_features or self.real)
        self.embed_dim = embed_dim
        self.full_graph = full_graph
        self.node_encoder = NodeEncoder(vocabularies, config)
        self.bonds = None
        if edge_features:
            self.bonds = edge_encoder(vocabularies, embed_dim, num_kernels=kernels)
        owner = "state" if edge_features else "none"
        self.edge_input = edge_input or EdgeInput(owner, vocabularies, config)
        edge_fields = () if full_graph else self.edge_input.fields
        self.fields = "node_graph", *edge_fields
        self.input_dropout = Dropout(config.input_dropout)
        self.layers = nn.ModuleList(
            GraphTransformerLayer(
                embed_dim,
                config.encoder_ffn_embed_dim or 2 * embed_dim,
                config.encoder_attention_heads,
                edge_features,
                config.attention_dropout,
                config.dropout,
                config.act_dropout,
                NORMS[config.norm],
            )
            for _ in range(config.encoder_layers)
        )

    def attention_modules(self) -> list[EdgeAttention]:
        """See `Encoder`."""
        return [layer.nodes.attention for layer in self.layers]

    def forward(self, batch: Batch, perturb: Tensor | None = None) -> Tensor:
        """See `Encoder`; returns [B, N, D]; padding is zero."""
        layout = NodeLayout.of(batch)
        x = self.encode_nodes(batch, layout, perturb)
        if self.full_graph:
            index = layout.all_pairs()
            if self.bonds is not None:  # of the first type
                state = self.bonds()[1].expand(index.shape[1], -1)
        else:
            edges = self.edge_input(batch, self.bonds)
            index = edges.index
            state = edges.state
        if self.bonds is not None:
            return layout.pad(self.run_with_edges(x, index, state))
        form = {}
        if self.is_dense(x, layout, index):
            form = {"layout": layout, "count": count_edges(index, layout)}
        for layer in self.layers:
            x, _ = self.run_layer(layer, x, index, **form)
        return layout.pad(x)

    def encode_nodes(
        self, batch: Batch, layout: NodeLayout, perturb: Tensor | None
    ) -> Tensor:
        """Eq. 2-3 -> [S, D]."""
        x = perturbed(self.node_encoder(batch), perturb)
        return self.input_dropout(layout.flatten(x))

    def run_with_edges(self, x: Tensor, edge_index: Tensor, edge: Tensor) -> Tensor:
        """All layers, with vectors of edges [E, D]."""
        edge = self.input_dropout(edge)
        last = self.layers[-1]
        for layer in self.layers:
            x, edge = self.run_layer(
                layer, x, edge_index, edge, update_edges=layer is not last
            )
        # Nothing reads the edges of the last layer, so they are not computed. Its weights
        # for them, which the paper's numbers include, get a gradient of zero, because
        # distributed training waits for the gradient of every weight.
        return x + 0 * parameters_to_vector(last.edges.parameters()).sum()

    @staticmethod
    def is_dense(x: Tensor, layout: NodeLayout, index: Tensor) -> bool:
        """Whether to compute with all pairs of the nodes x, of which edges [2, E] join some."""
        # An exported program has one form, for batches of any size.
        if compiled_fits(x) or torch.compiler.is_compiling():
            return False
        pairs = layout.num_graphs * layout.max_nodes**2
        return pairs < DENSE_PAIRS_PER_EDGE * index.shape[1]
