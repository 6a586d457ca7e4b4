"""Encoder of TokenGT (Kim et al. 2022, arXiv:2207.02505) as released (jw9730/tokengt)."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphormer_plugin.choices import check_least
from graphormer_plugin.modules.attention.biased import BiasedAttention
from graphormer_plugin.modules.encoders.base import AttentionMaps, Encoder, perturbed
from graphormer_plugin.modules.encodings.bond_encoder import edge_encoder
from graphormer_plugin.modules.encodings.node_encoder import NodeEncoder, VirtualNode
from graphormer_plugin.modules.encodings.vocabulary import Vocabularies
from graphormer_plugin.modules.layers.dropout import Dropout
from graphormer_plugin.modules.layers.encoder_config import (
    TransformerEncoderConfig,
    check_layers,
    option,
)
from graphormer_plugin.modules.layers.encoder_layer import encoder_layers
from graphormer_plugin.modules.layers.graph_random import (
    IDENTIFIERS,
    random_signs,
    uniform,
)
from graphormer_plugin.modules.layers.init import init_transformer
from graphormer_plugin.modules.layers.sparse import Batch, NodeLayout

SPECIAL = 2  # tokens of no node and no edge: of the graph, and null
# Rows of the type identifiers.
EDGE = 0
NODE = 1
DEEPEST_DROP = 0.1  # rate of stochastic depth in the last layer


@dataclass
class TokenGTEncoderConfig(TransformerEncoderConfig):
    """Options of `TokenGTEncoder`, by the names of the released code."""

    prenorm: bool = option(False, "LayerNorm before each half of a layer (default)")
    postnorm: bool = option(False, "LayerNorm after each half of a layer")
    lap_node_id: bool = option(
        False, "identifiers of nodes: eigenvectors of the Laplacian"
    )
    lap_node_id_k: int = option(16, "eigenvectors, with the trivial one, >= 2 (k)")
    lap_node_id_sign_flip: bool = option(
        False, "a random sign of each eigenvector and graph in training"
    )
    lap_node_id_eig_dropout: float = option(
        0.2, "dropout on the entries of eigenvectors, 0 <= p < 1"
    )
    orf_node_id: bool = option(False, "identifiers of nodes: orthonormal random")
    orf_node_id_dim: int = option(64, "their width, >= 1; longer ones are cut")
    rand_node_id: bool = option(
        False, "identifiers of nodes: uniform random, of length 1"
    )
    rand_node_id_dim: int = option(64, "their width, >= 1")
    type_id: bool = option(False, "a vector for nodes and one for edges")
    stochastic_depth: bool = option(
        False,
        "leave halves of layers out in training, graph by graph, at rates that rise to "
        f"{DEEPEST_DROP} in the last layer",
    )
    num_atoms: int = option(
        0,
        "rows of the tables of all node columns together (released code: 4608 for 9 "
        "columns); --node-table-size says it per column",
    )
    num_edges: int = option(
        0,
        "rows of the tables of all bond columns together (released code: 1536 for 3 "
        "columns)",
    )


class TokenGTEncoder(Encoder):
    """Transformer over tokens of the graph, of its nodes and of its edges. The tokens say by
    identifiers which edge joins which nodes; the attention knows no structure.

    With P_u the identifier of node u, T the type identifiers and W linear maps, the token of
    node u is x_u + W_V (P_u, P_u) + T_1, and that of edge (u, v) is e_uv + W_E (P_u, P_v) +
    T_0; a bond is two edges, and nodes and edges share one map W in the released code.

    Differences from the released code: identifiers that are drawn follow from the seed of the
    graph in training and are always the same in evaluation, and they do not depend on the
    other graphs of the batch. The trivial eigenvector of several components is that of all
    together. A GPU is waited for once in a step, for the longest sequence.

    Example:
        >>> from graphormer_plugin.data.schema import FeatureSchema
        >>> schema = FeatureSchema(2, node_dims=[119, 5], bond_dims=[4])
        >>> config = TokenGTEncoderConfig(
        ...     encoder_layers=2, encoder_embed_dim=16, encoder_attention_heads=4
        ... )
        >>> encoder = TokenGTEncoder(schema, config)
        >>> sorted(encoder.required_fields)
        ['edge_bond', 'edge_index', 'node_graph', 'node_mask', 'x']
        >>> batch = {
        ...     "x": torch.tensor([[[6, 0], [8, 1]]]),
        ...     "node_mask": torch.tensor([[True, True]]),
        ...     "node_graph": torch.tensor([0, 0]),
        ...     "edge_index": torch.tensor([[0, 1], [1, 0]]),
        ...     "edge_bond": torch.tensor([1, 1]),
        ... }
        >>> encoder(batch).shape
        torch.Size([1, 3, 16])
    """

    def __init__(
        self, vocabularies: Vocabularies, config: TokenGTEncoderConfig
    ) -> None:
        super().__init__()
        check_layers(config)
        if config.prenorm and config.postnorm:
            raise ValueError("--prenorm and --postnorm cannot be combined")
        self.embed_dim = width = config.encoder_embed_dim
        columns = len(vocabularies.node_dims or ()) or 1
        self.node_encoder = NodeEncoder(
            vocabularies, config, config.num_atoms // columns
        )
        bond_rows = config.num_edges // (len(vocabularies.bond_dims) or 1)
        real = {} if vocabularies.num_edge_features else {"combine": "sum"}
        self.edge_encoder = edge_encoder(vocabularies, width, bond_rows, **real)
        self.virtual_node = VirtualNode(width)
        self.null = nn.Embedding(1, width)
        self.identifiers = make_identifiers(config)
        if self.identifiers is not None:
            size = 2 * self.identifiers.width
            self.identify = nn.Linear(size, width, bias=False)
        self.types = nn.Embedding(2, width) if config.type_id else None
        self.embed_norm = nn.LayerNorm(width)
        self.dropout = Dropout(config.dropout)
        self.layers = encoder_layers(
            config,
            lambda: BiasedAttention(
                width, config.encoder_attention_heads, config.attention_dropout
            ),
            pre_layernorm=not config.postnorm,
        )
        if config.stochastic_depth:
            for number, layer in enumerate(self.layers, 1):
                rate = DEEPEST_DROP * number / len(self.layers)
                layer.dropout = nn.Sequential(layer.dropout, StochasticDepth(rate))
        self.initialise = init_transformer  # heads use it
        self.apply(self.initialise)

    @property
    def fields(self) -> Iterable[str]:
        """See `Encoder`."""
        identifiers = () if self.identifiers is None else self.identifiers.fields
        bonds = self.edge_encoder.fields or ("edge_bond",)
        return "edge_index", "node_graph", *bonds, *identifiers

    @property
    def options(self) -> dict[str, int]:
        """See `Encoder`."""
        return {} if self.identifiers is None else self.identifiers.options

    def forward(self, batch: Batch, perturb: Tensor | None = None) -> Tensor:
        """See `Encoder`; returns [B, 1 + N, D], the token of the graph first; padding is
        zero."""
        tokens, mask = self.tokens(batch, perturb)
        B, T = mask.shape
        heads = self.layers[0].attention.num_heads
        attn_bias = tokens.new_zeros(B, 1, 1, T)
        attn_bias = attn_bias.masked_fill_(~mask.view(B, 1, 1, T), float("-inf"))
        attn_bias = attn_bias.expand(B, heads, 1, T)
        x = self.dropout(self.embed_norm(tokens))
        for layer in self.layers:
            x = self.run_layer(layer, x, attn_bias)
        nodes = F.pad(batch["node_mask"], (1, 0), value=True)
        return self.padded(x, batch) * nodes.unsqueeze(-1)

    def tokens(self, batch: Batch, perturb: Tensor | None) -> tuple[Tensor, Tensor]:
        """Tokens [B, T, D] of the graph, its nodes, null and its edges, and which are real
        [B, T]. Their order changes nothing."""
        x = perturbed(self.node_encoder(batch), perturb)
        layout = NodeLayout.of(batch)
        nodes = layout.flatten(x)
        edges = self.edges(batch).to(x.dtype)
        source, target = batch["edge_index"]
        if self.identifiers is not None:
            chosen = layout.flatten(self.identifiers(batch).to(x.dtype))
            nodes = nodes + self.identify(torch.cat([chosen, chosen], -1))
            ends = torch.cat([chosen[source], chosen[target]], -1)
            edges = edges + self.identify(ends)
        if self.types is not None:
            nodes = nodes + self.types.weight[NODE]
            edges = edges + self.types.weight[EDGE]

        B, _, D = x.shape
        sizes = layout.sizes
        graph = batch["node_graph"][source]
        counts = torch.zeros_like(sizes).index_add(0, graph, torch.ones_like(graph))
        lengths = SPECIAL + sizes + counts
        T = int(lengths.max()) if B else SPECIAL
        number = torch.arange(len(graph), device=graph.device)
        number = number - (counts.cumsum(0) - counts)[graph]  # within its graph
        start = torch.arange(B, device=graph.device) * T
        rows = [
            start,
            (start + 1)[batch["node_graph"]] + layout.local_index,
            start + 1 + sizes,
            (start + SPECIAL + sizes)[graph] + number,
        ]
        parts = [
            self.virtual_node.embedding.weight.to(x.dtype).expand(B, -1),
            nodes,
            self.null.weight.to(x.dtype).expand(B, -1),
            edges,
        ]
        tokens = x.new_zeros(B * T, D).index_copy(0, torch.cat(rows), torch.cat(parts))
        mask = torch.arange(T, device=graph.device) < lengths.unsqueeze(1)
        return tokens.view(B, T, D), mask

    def edges(self, batch: Batch) -> Tensor:
        """Vectors of the features of edges [E, D]."""
        if self.edge_encoder.fields:
            return self.edge_encoder(batch["edge_attr"])[1:]
        return F.embedding(batch["edge_bond"].long(), self.edge_encoder())

    def padded(self, x: Tensor, batch: Batch) -> Tensor:
        """[B, T, ...] -> [B, 1 + N, ...]: the graph and the nodes."""
        return x[:, : 1 + batch["node_mask"].shape[1]]

    def attention_modules(self) -> list[AttentionMaps]:
        """Empty: tokens of edges attend too, so that there is no map of nodes."""
        return []


class StochasticDepth(nn.Module):
    """Zero for a graph with probability `rate` in training, else divided by 1 - rate."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] -> [B, T, D]."""
        if not self.training:
            return x
        kept = torch.rand(len(x), 1, 1, device=x.device) >= self.rate
        return x * kept.to(x.dtype) / (1 - self.rate)


class LaplacianIdentifiers(nn.Module):
    """The first eigenvectors of the Laplacian, the trivial one first, zero where a graph has
    fewer."""

    fields = ("lap_pe", "out_degree", "node_mask")

    def __init__(self, width: int, sign_flip: bool, dropout: float) -> None:
        super().__init__()
        check_least("lap_node_id_k", width, 2)
        self.width = width
        self.options = {"lap_pe_dim": width - 1}
        self.sign_flip = sign_flip
        self.dropout = Dropout(dropout)

    def forward(self, batch: Batch) -> Tensor:
        """-> [B, N, k]."""
        lap_pe = batch["lap_pe"][..., : self.width - 1]
        degree = batch["out_degree"].to(lap_pe.dtype).clamp(min=1)
        trivial = (degree * batch["node_mask"]).sqrt()
        trivial = F.normalize(trivial, dim=1).unsqueeze(-1)
        vectors = torch.cat([trivial, lap_pe], -1)
        if self.training and self.sign_flip:
            vectors = random_signs(vectors, batch.get("seed"))
        return self.dropout(vectors)


class RandomIdentifiers(nn.Module):
    """Random vectors of length 1 for each node, in a graph of at most `width` nodes
    orthonormal if `orthogonal`: rows of a random orthogonal matrix, else uniform."""

    fields = ("node_mask",)
    options: dict[str, int] = {}

    def __init__(self, width: int, orthogonal: bool) -> None:
        super().__init__()
        check_least("orf_node_id_dim" if orthogonal else "rand_node_id_dim", width, 1)
        self.width = width
        self.orthogonal = orthogonal

    def forward(self, batch: Batch) -> Tensor:
        """-> [B, N, width] float32."""
        mask = batch["node_mask"]
        B, N = mask.shape
        seed = batch.get("seed") if self.training else None
        if seed is None:  # in evaluation always the same
            seed = torch.zeros(B, dtype=torch.int64, device=mask.device)
        like = torch.zeros((), device=mask.device)
        shape = torch.Size([B, max(N, self.width), self.width])
        vectors = uniform(seed, shape, IDENTIFIERS, like)
        if not self.orthogonal:
            vectors = (vectors[:, :N] + 1) / 2
        else:
            vectors = self._orthonormal(vectors, mask.sum(1))[:, :N]
        return F.normalize(vectors, dim=-1) * mask.unsqueeze(-1)

    def _orthonormal(self, draws: Tensor, sizes: Tensor) -> Tensor:
        """Uniform numbers [B, M, width] and sizes [B] -> orthonormal rows, or where a graph
        is larger than the width orthonormal columns, of random directions."""
        # Normal numbers, whose orthogonal factors have no preferred direction.
        normal = torch.erfinv(draws.clamp(-1 + 2**-23, 1 - 2**-23))
        row = torch.arange(draws.shape[1], device=draws.device)
        column = row[: self.width]
        in_graph = (row.view(-1, 1) < sizes.view(-1, 1, 1)) & (
            column < sizes.view(-1, 1, 1)
        )
        # Beside the matrix of a small graph is the identity, which changes nothing in it.
        beside = (row.view(-1, 1) == column) & (column >= sizes.view(-1, 1, 1))
        matrix = torch.where(in_graph, normal, beside.to(normal.dtype))
        with torch.autocast(draws.device.type, enabled=False):
            factor = torch.linalg.qr(matrix).Q
        return factor * in_graph


def make_identifiers(
    config: TokenGTEncoderConfig,
) -> LaplacianIdentifiers | RandomIdentifiers | None:
    """Identifiers of nodes that a config names; None without."""
    names = ("lap_node_id", "orf_node_id", "rand_node_id")
    chosen = [name for name in names if getattr(config, name)]
    if len(chosen) > 1:
        flags = " and ".join(f"--{name.replace('_', '-')}" for name in chosen)
        raise ValueError(f"{flags} cannot be combined")
    if config.lap_node_id:
        return LaplacianIdentifiers(
            config.lap_node_id_k,
            config.lap_node_id_sign_flip,
            config.lap_node_id_eig_dropout,
        )
    if config.orf_node_id:
        return RandomIdentifiers(config.orf_node_id_dim, orthogonal=True)
    if config.rand_node_id:
        return RandomIdentifiers(config.rand_node_id_dim, orthogonal=False)
    return None
