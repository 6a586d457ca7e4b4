"""Graph convolutions of the message-passing baselines: layers of PyTorch Geometric, and
layers of our own that PyG does not have.

A convolution maps nodes [S, D] and `Edges` to new nodes [S, D] and `Edges`. PyG is
imported when a layer is made, because that takes seconds.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector

from graphormer_plugin.choices import check_heads
from graphormer_plugin.modules.encodings.bond_encoder import EdgeVectors
from graphormer_plugin.modules.layers.batch_norm import NORMS
from graphormer_plugin.modules.layers.dropout import Dropout
from graphormer_plugin.modules.layers.edge_statistics import (
    STATISTICS,
    message_statistics,
    scatter_max,
)
from graphormer_plugin.modules.layers.encoder_layer import ACTIVATIONS
from graphormer_plugin.modules.layers.readout import HEAD_ACTIVATIONS
from graphormer_plugin.modules.layers.sparse import scatter_sum, wide_type

GATE_EPSILON = 1e-6  # added to a sum of gates, as in the released code
STD_EPSILON = 1e-5  # added to a variance, as in the released code of PNA


class Edges(NamedTuple):
    """Edges of a batch, and the graphs of its nodes.

    Attributes:
        index: [2, E], source j and target i.
        node_graph: [S], the graph of each node.
        bond: [E], types from 1, or numbers of edges with real features; None where
            bonds are not read.
        table: [K + 1, De], vectors of bond types that the layers share.
        state: [E, D], vectors of edges that layers update.
        features: the real features from which the vectors of edges are made, if any.
        virtual: states [V B, D] of virtual nodes, which attention along edges updates.
    """

    index: Tensor
    node_graph: Tensor
    bond: Tensor | None = None
    table: Tensor | None = None
    state: Tensor | None = None
    features: tuple[Tensor, ...] = ()
    virtual: Tensor | None = None

    def vectors(self, bonds: EdgeVectors | None) -> Tensor:
        """[E, D]: from a layer's own vectors of bond types, or without them `state`."""
        if bonds is None:
            return self.state
        return F.embedding(self.bond, bonds(*self.features))


class LayerSettings(NamedTuple):
    """Settings of a layer that its convolution reads.

    Attributes:
        residual: the layer adds its output to its input.
        dropout: rate on the output.
        bonds: vectors of bond types that only this layer has.
        edge_vectors: the layer reads `Edges.state` instead of vectors of its own.
        activation: a key of `ACTIVATIONS`; empty: that of the convolution.
    """

    embed_dim: int
    norm: str = "batch"
    residual: bool = True
    dropout: float = 0.0
    last: bool = False
    bonds: EdgeVectors | None = None
    edge_vectors: bool = False
    activation: str = ""

    @property
    def reads_edges(self) -> bool:
        """Whether the messages have vectors of edges."""
        return self.edge_vectors or self.bonds is not None


class PyGConvolution(nn.Module):
    """A layer of PyG.

    Args:
        conv: x, edge_index and, if the layer reads edges, their vectors [E, D] -> x.
    """

    def __init__(self, conv: nn.Module, layer: LayerSettings) -> None:
        super().__init__()
        self.conv = conv
        self.bonds = layer.bonds
        self.reads_edges = layer.reads_edges

    def forward(self, x: Tensor, edges: Edges) -> tuple[Tensor, Edges]:
        """x [S, D] and edges -> nodes [S, D] and edges after the convolution."""
        if not self.reads_edges:
            return self.conv(x, edges.index), edges
        vectors = edges.vectors(self.bonds)
        out = self.conv(x, edges.index, vectors)
        if not edges.index.shape[1]:
            # Some layers then skip weights, but distributed training waits for the
            # gradient of every weight.
            weights = (vectors, *self.parameters())
            out = out + 0 * parameters_to_vector(weights).sum()
        return out, edges


def gcn(layer: LayerSettings) -> nn.Module:
    """A linear map of the mean of the neighbours, the GCN of Kipf & Welling 2017
    (arXiv:1609.02907) in the form of Dwivedi et al. 2020."""
    from torch_geometric.nn import SAGEConv

    dim = layer.embed_dim
    return PyGConvolution(SAGEConv(dim, dim, aggr="mean", root_weight=False), layer)


def symmetric_gcn(layer: LayerSettings) -> nn.Module:
    """The sum of W x_j / sqrt(d_i d_j) over a node and its neighbours, d being one more than
    a degree: the GCN of Kipf & Welling 2017 as it was published."""
    from torch_geometric.nn import GCNConv

    return PyGConvolution(GCNConv(layer.embed_dim, layer.embed_dim), layer)


class BondGraphConvolution(nn.Module):
    """OGB's GCN: messages ReLU(W x_j + bond) / sqrt(d_i d_j), and for the node itself
    ReLU(W x_i + root) / d_i, where d is one more than the number of edges that leave a
    node."""

    def __init__(self, layer: LayerSettings) -> None:
        super().__init__()
        self.linear = nn.Linear(layer.embed_dim, layer.embed_dim)
        self.root = nn.Parameter(torch.randn(layer.embed_dim))
        self.bonds = layer.bonds

    def forward(self, x: Tensor, edges: Edges) -> tuple[Tensor, Edges]:
        """x [S, D] and edges -> nodes [S, D] and edges after the convolution."""
        x = self.linear(x)
        source, target = edges.index
        degree = _count(source, x).unsqueeze(1) + 1
        scale = degree.rsqrt().to(x.dtype)
        message = x.index_select(0, source) + edges.vectors(self.bonds)
        message = message.relu() * (scale[source] * scale[target])
        mixed = scatter_sum(message, target, x.shape[0]).to(x.dtype)
        return mixed + (x + self.root).relu() / degree.to(x.dtype), edges


def gin(layer: LayerSettings, hidden_dim: int, learned_share: bool = True) -> nn.Module:
    """Two linear maps of the sum of the neighbours and (1 + eps) times the node: GIN (Xu et
    al. 2019, arXiv:1810.00826), or GINE if the messages have bonds (Hu et al. 2020,
    arXiv:1905.12265; GIN in OGB's examples).

    Args:
        learned_share: eps is a weight; else it is 0.
    """
    from torch_geometric.nn import GINConv, GINEConv

    maps = nn.Sequential(
        nn.Linear(layer.embed_dim, hidden_dim),
        NORMS[layer.norm](hidden_dim),
        HEAD_ACTIVATIONS[layer.activation or "relu"](),
        nn.Linear(hidden_dim, layer.embed_dim),
    )
    kind = GINEConv if layer.reads_edges else GINConv
    conv = kind(maps, train_eps=learned_share)
    if layer.activation and layer.reads_edges:  # PyG's message has ReLU
        conv.message = functools.partial(_message, ACTIVATIONS[layer.activation])
    return PyGConvolution(conv, layer)


def _message(
    activation: Callable[[Tensor], Tensor], x_j: Tensor, edge_attr: Tensor
) -> Tensor:
    """A message of GINE [E, D]."""
    return activation(x_j + edge_attr)


def gat(
    layer: LayerSettings, num_heads: int, attention_dropout: float = 0.0
) -> nn.Module:
    """Attention over the neighbours (Velickovic et al. 2018, arXiv:1710.10903), heads
    side by side, a single head in the last layer. It starts as DGL's layer, which the
    released code uses: Xavier-normal with gain sqrt(2)."""
    from torch_geometric.nn import GATConv

    dim = layer.embed_dim
    check_heads(dim, num_heads)
    heads = 1 if layer.last else num_heads
    conv = GATConv(
        dim,
        dim // heads,
        heads=heads,
        dropout=Dropout(attention_dropout).p,  # refuses a wrong rate at once
        add_self_loops=False,
        edge_dim=dim if layer.reads_edges else None,
        bias=False,
    )
    for weight in (conv.lin.weight, conv.att_src, conv.att_dst):
        nn.init.xavier_normal_(weight, nn.init.calculate_gain("relu"))
    return PyGConvolution(conv, layer)


def graphsage(layer: LayerSettings) -> nn.Module:
    """A map of the node and of the maximum of the neighbours, with L2 norm 1 (Hamilton
    et al. 2017, arXiv:1706.02216)."""
    from torch_geometric.nn import SAGEConv
    from torch_geometric.nn.aggr import Aggregation

    class Maximum(Aggregation):
        """The backward pass of PyG's own takes a hundred times as long."""

        def forward(self, x, index=None, ptr=None, dim_size=None, dim=-2):
            """Largest of the rows of x with the same index."""
            return scatter_max(x, index, dim_size)

    dim = layer.embed_dim
    conv = SAGEConv(dim, dim, Maximum(), normalize=True, project=True)
    # The released code has one map of both, 2 D wide.
    for parameter in (*conv.lin_l.parameters(), *conv.lin_r.parameters()):
        parameter.data.mul_(0.5**0.5)
    return PyGConvolution(conv, layer)


class GatedGraphConvolution(nn.Module):
    """A x_i + (sum of g_ij * B x_j) / (sum of g_ij + 1e-6) with gates g_ij =
    sigmoid(e'_ij), e'_ij = C e_ij + D x_j + E x_i, and new edges e + ReLU(norm(e'))
    (Bresson & Laurent 2017, arXiv:1711.07553, as in Dwivedi et al. 2020). The last
    layer leaves the edges as they are, because nobody reads them."""

    def __init__(self, layer: LayerSettings) -> None:
        super().__init__()
        embed_dim = layer.embed_dim
        self.own = nn.Linear(embed_dim, embed_dim)
        self.neighbour = nn.Linear(embed_dim, embed_dim)
        self.edge = nn.Linear(embed_dim, embed_dim)
        self.source = nn.Linear(embed_dim, embed_dim)
        self.target = nn.Linear(embed_dim, embed_dim)
        self.norm = None if layer.last else NORMS[layer.norm](embed_dim)
        self.residual = layer.residual
        self.activation = ACTIVATIONS[layer.activation or "relu"]
        self.dropout = Dropout(layer.dropout)

    def forward(self, x: Tensor, edges: Edges) -> tuple[Tensor, Edges]:
        """x [S, D] and edges -> nodes [S, D] and edges after the convolution."""
        source, target = edges.index
        state = self.edge(edges.state) + self.source(x).index_select(0, source)
        state = state + self.target(x).index_select(0, target)
        gate = state.sigmoid()
        message = gate * self.neighbour(x).index_select(0, source)
        mixed = scatter_sum(message, target, x.shape[0])
        mixed = mixed / (scatter_sum(gate, target, x.shape[0]) + GATE_EPSILON)
        if self.norm is not None:
            state = self.dropout(self.activation(self.norm(state)))
            state = edges.state + state if self.residual else state
            edges = edges._replace(state=state)
        return self.own(x) + mixed.to(x.dtype), edges


SCALERS = ("identity", "amplification", "attenuation")


class DegreeScaledAggregates(nn.Module):
    """Aggregates of messages, scaled by degree (Corso et al. 2020, arXiv:2004.05718);
    zero for a node without neighbours.

    Args:
        mean_log_degree: mean of log(d + 1) over the training nodes.
        aggregators: some of mean, max, min, std and sum.
        scalers: names in `SCALERS`.
    """

    def __init__(
        self,
        mean_log_degree: float = 1.0,
        aggregators: Sequence[str] = ("mean", "max", "min", "std"),
        scalers: Sequence[str] = SCALERS,
    ) -> None:
        super().__init__()
        self.aggregators = tuple(aggregators)
        self.scalers = tuple(scalers)
        self.register_buffer("mean_log_degree", torch.tensor(mean_log_degree))

    @property
    def per_channel(self) -> int:
        """Number of scaled aggregates of a channel of the messages."""
        return len(self.aggregators) * len(self.scalers)

    @property
    def statistics(self) -> tuple[str, ...]:
        """The statistics, out of `STATISTICS`, from which the aggregates follow."""
        wanted = {name for name in self.aggregators if name in ("max", "min")}
        if {"mean", "std", "sum"} & set(self.aggregators):
            wanted.add("sum")
        if "std" in self.aggregators:
            wanted.add("square")
        return tuple(name for name in STATISTICS if name in wanted)

    def aggregate(
        self, statistics: dict[str, Tensor], node_term: Tensor, degree: Tensor
    ) -> Tensor:
        """All aggregates of messages side by side.

        Args:
            statistics: statistics of the neighbours' terms, by name, [S, towers, width] each.
            node_term: [S, towers, width], the term that all messages to a node share.
            degree: [S, 1, 1], messages per node, in float32.

        Returns:
            [S, towers, aggregators * width].
        """
        count = degree.clamp(min=1)
        some = degree > 0
        aggregates = []
        for name in self.aggregators:
            if name in ("max", "min"):
                value = statistics[name] + node_term * some
            elif name == "std":
                mean = statistics["sum"] / count
                variance = statistics["square"] / count - mean.square()
                value = (variance.relu() + STD_EPSILON).sqrt() * some
            else:
                value = statistics["sum"] + node_term * degree
                value = value / count if name == "mean" else value
            aggregates.append(value.to(node_term.dtype))
        return torch.cat(aggregates, -1)

    def scaled(
        self,
        sent: Tensor,
        edges: Edges,
        table: Tensor | None = None,
        node_term: Tensor | None = None,
    ) -> list[Tensor]:
        """Aggregates of the messages sent_j + table_bond + node_term_i, once per scaler.

        Args:
            sent: [S, towers, width].
            table: vectors of bond types [K + 1, towers, width].
            node_term: [S, towers, width]; None: 0.

        Returns:
            [S, towers, aggregators * width] per scaler.
        """
        source, target = edges.index
        names = self.statistics
        values = message_statistics(sent, table, source, target, edges.bond, names)
        degree = _count(target, sent).view(-1, 1, 1)
        node_term = torch.zeros_like(sent) if node_term is None else node_term
        aggregates = self.aggregate(dict(zip(names, values)), node_term, degree)
        scales = {"identity": torch.ones_like(degree)}
        log_degree = degree.clamp(min=1).log1p()
        scales["amplification"] = log_degree / self.mean_log_degree.to(degree.dtype)
        scales["attenuation"] = 1 / scales["amplification"]
        return [aggregates * scales[name].to(sent.dtype) for name in self.scalers]


class PrincipalAggregation(DegreeScaledAggregates):
    """Aggregates of the messages U [x_j, x_i, e_ij] of the neighbours, scaled by degree
    (Corso et al. 2020, arXiv:2004.05718), in the released code's order: each tower maps
    the node and its aggregates, divides by the root of the graph's number of nodes and
    normalises; a last map with LeakyReLU mixes the towers.

    Args:
        edge_dim: width of the vectors of bond types; 0: bonds are not read.
        num_towers: independent parts of a layer, divides D.
        **aggregates: arguments of `DegreeScaledAggregates`.
    """

    def __init__(
        self, layer: LayerSettings, edge_dim: int, num_towers: int, **aggregates: Any
    ) -> None:
        super().__init__(**aggregates)
        embed_dim = layer.embed_dim
        check_heads(embed_dim, num_towers, "towers")
        width = embed_dim // num_towers
        self.num_towers = num_towers
        fan_in = 2 * width + edge_dim
        self.source = _tower_maps(num_towers, width, width, fan_in)
        self.target = _tower_maps(num_towers, width, width, fan_in)
        self.edge = None
        if edge_dim:
            self.edge = _tower_maps(num_towers, edge_dim, width, fan_in)
        self.bias = nn.Parameter(torch.zeros(num_towers, width))
        fan_in = (1 + self.per_channel) * width
        self.post = _tower_maps(num_towers, fan_in, width, fan_in)
        self.post_bias = nn.Parameter(torch.zeros(num_towers, width))
        self.norm = NORMS[layer.norm](embed_dim)
        self.dropout = Dropout(layer.dropout)
        self.mix = nn.Linear(embed_dim, embed_dim)
        _small_uniform(self.mix.weight, embed_dim, embed_dim)
        nn.init.zeros_(self.mix.bias)

    def forward(self, x: Tensor, edges: Edges) -> tuple[Tensor, Edges]:
        """x [S, D] and edges -> nodes [S, D] and edges after the convolution."""
        nodes = x.unflatten(1, (self.num_towers, -1))  # [S, D] -> [S, towers, width]
        sent = _per_tower(nodes, self.source)
        table = None
        if self.edge is not None:
            table = torch.einsum("ke,tew->ktw", edges.table, self.edge)
        node_term = _per_tower(nodes, self.target) + self.bias
        scaled = self.scaled(sent, edges, table, node_term)
        out = _per_tower(torch.cat([nodes, *scaled], -1), self.post) + self.post_bias
        # There are at most as many graphs with nodes as nodes.
        sizes = _count(edges.node_graph, x)[edges.node_graph]
        out = out.flatten(1) / sizes.sqrt().unsqueeze(1).to(x.dtype)
        out = self.dropout(self.norm(out))
        return F.leaky_relu(self.mix(out)), edges


class SimplePrincipalAggregation(DegreeScaledAggregates):
    """A linear map of the scaled aggregates of the neighbours' vectors: the simple layer
    of PNA's released code, without a map of the messages, towers and bonds."""

    def __init__(self, layer: LayerSettings, **aggregates: Any) -> None:
        super().__init__(**aggregates)
        fan_in = self.per_channel * layer.embed_dim
        self.post = nn.Linear(fan_in, layer.embed_dim)
        _small_uniform(self.post.weight, fan_in, layer.embed_dim)
        nn.init.zeros_(self.post.bias)

    def forward(self, x: Tensor, edges: Edges) -> tuple[Tensor, Edges]:
        """x [S, D] and edges -> nodes [S, D] and edges after the convolution."""
        scaled = self.scaled(x.unsqueeze(1), edges)  # one tower
        return self.post(torch.cat(scaled, -1).squeeze(1)), edges


def _tower_maps(num_towers: int, width: int, out: int, fan_in: int) -> nn.Parameter:
    """[towers, width, out], parts of maps of `fan_in`."""
    return _small_uniform(
        nn.Parameter(torch.empty(num_towers, width, out)), fan_in, out
    )


def _small_uniform(weight: nn.Parameter, fan_in: int, fan_out: int) -> nn.Parameter:
    """Xavier-uniform with gain 1 / fan_in, the start of PNA's released code."""
    bound = (6 / (fan_in + fan_out)) ** 0.5 / fan_in
    nn.init.uniform_(weight, -bound, bound)
    return weight


def _per_tower(x: Tensor, weight: Tensor) -> Tensor:
    """[S, towers, in], [towers, in, out] -> [S, towers, out]."""
    return torch.einsum("sti,tio->sto", x, weight)


def _count(index: Tensor, rows: Tensor) -> Tensor:
    """How often ``index`` has the number of each of the rows, [rows] in `wide_type`."""
    ones = torch.ones_like(index, dtype=wide_type(rows))
    return scatter_sum(ones, index, rows.shape[0])
