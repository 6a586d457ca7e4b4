"""Message passing over the edges of sparse batches, by the layers of PyTorch Geometric.

PyG computes the messages; here are the normalisation, residual connections and virtual
node around them. It is imported when a layer is made, because that takes seconds.
"""

from collections.abc import Callable
from typing import Any, Optional

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .batch_norm import MaskedBatchNorm
from .bond_encoder import BondEncoder
from .choices import check_choice
from .dropout import Dropout
from .encoder import SparseEncoder
from .node_encoder import NodeEncoder
from .node_position import LaplacianEncoding
from .sparse import NodeLayout, scatter_sum
from .vocabulary import Vocabularies

NORMS: dict[str, Callable[[int], nn.Module]] = {
    "batch": MaskedBatchNorm,
    "layer": nn.LayerNorm,
    "none": lambda embed_dim: nn.Identity(),
}


def gcn(embed_dim: int, norm: str) -> nn.Module:
    """Mean of the neighbours by degree (Kipf & Welling 2017, arXiv:1609.02907)."""
    from torch_geometric.nn import GCNConv

    return GCNConv(embed_dim, embed_dim)


def gin(embed_dim: int, norm: str, hidden_dim: int) -> nn.Module:
    """Two maps of the sum of the neighbours (Xu et al. 2019, arXiv:1810.00826)."""
    from torch_geometric.nn import GINConv

    return GINConv(_two_maps(embed_dim, norm, hidden_dim), train_eps=True)


def gine(embed_dim: int, norm: str, hidden_dim: int) -> nn.Module:
    """GIN with bonds in the messages (Hu et al. 2020, arXiv:1905.12265); the layer that
    OGB's examples call GIN."""
    from torch_geometric.nn import GINEConv

    return GINEConv(_two_maps(embed_dim, norm, hidden_dim), train_eps=True)


def _two_maps(embed_dim: int, norm: str, hidden_dim: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(embed_dim, hidden_dim),
        NORMS[norm](hidden_dim),
        nn.ReLU(),
        nn.Linear(hidden_dim, embed_dim),
    )


def gat(
    embed_dim: int,
    norm: str,
    num_heads: int,
    attention_dropout: float = 0.0,
    bonds: bool = False,
) -> nn.Module:
    """Attention over the neighbours (Velickovic et al. 2018, arXiv:1710.10903), heads
    side by side."""
    from torch_geometric.nn import GATConv

    _check_divides("num_heads", num_heads, embed_dim)
    return GATConv(
        embed_dim,
        embed_dim // num_heads,
        heads=num_heads,
        dropout=Dropout(attention_dropout).p,  # which refuses what PyG finds later
        edge_dim=embed_dim if bonds else None,
        bias=False,
    )


def gatedgcn(embed_dim: int, norm: str) -> nn.Module:
    """Messages through gates that see both nodes and the bond (Bresson & Laurent 2017,
    arXiv:1711.07553). In PyG's layer bonds have no state of their own, and gates are not
    divided by their sum."""
    from torch_geometric.nn import ResGatedGraphConv

    return ResGatedGraphConv(embed_dim, embed_dim, edge_dim=embed_dim)


def graphsage(embed_dim: int, norm: str) -> nn.Module:
    """Maximum of the projected neighbours (Hamilton et al. 2017, arXiv:1706.02216)."""
    from torch_geometric.nn import SAGEConv

    return SAGEConv(embed_dim, embed_dim, aggr="max", project=True)


def pna(
    embed_dim: int, norm: str, num_towers: int, mean_log_degree: float
) -> nn.Module:
    """Mean, minimum, maximum and deviation of the messages, scaled by degree (Corso et
    al. 2020, arXiv:2004.05718)."""
    from torch_geometric.nn import PNAConv

    _check_divides("num_towers", num_towers, embed_dim)
    conv = PNAConv(
        embed_dim,
        embed_dim,
        aggregators=["mean", "min", "max", "std"],
        scalers=["identity", "amplification", "attenuation"],
        deg=torch.tensor([0, 1]),  # its mean logarithm follows
        edge_dim=embed_dim,
        towers=num_towers,
        divide_input=True,
    )
    conv.aggr_module.avg_deg_log.fill_(mean_log_degree)
    return conv


def mpnn(embed_dim: int, norm: str) -> nn.Module:
    """Sum of the neighbours, each times a matrix [D, D] of its bond (Gilmer et al. 2017,
    arXiv:1704.01212). PyG makes one such matrix per edge."""
    from torch_geometric.nn import NNConv

    conv = NNConv(embed_dim, embed_dim, nn.Linear(embed_dim, embed_dim**2))
    # Each matrix starts with entries of the size that those of a linear map have.
    conv.nn.weight.data.mul_(embed_dim**-0.5)
    return conv


def _check_divides(name: str, value: int, embed_dim: int) -> None:
    if value < 1 or embed_dim % value:
        raise ValueError(f"{name} {value} does not divide embed_dim {embed_dim}")


# Width, norm and options of its own -> a layer of PyG over [S, D].
CONVOLUTIONS: dict[str, Callable[..., nn.Module]] = {
    "gcn": gcn,
    "gin": gin,
    "gine": gine,
    "gat": gat,
    "gatedgcn": gatedgcn,
    "graphsage": graphsage,
    "pna": pna,
    "mpnn": mpnn,
}
READ_BONDS = {"gine", "gatedgcn", "pna", "mpnn"}  # and gat, with `bonds`


class MessagePassingLayer(nn.Module):
    """h' = h + dropout(ReLU(norm(conv(h)))), and with a virtual node v (OGB's
    baselines, arXiv:2005.00687): v joins h before, and v' = v + dropout(MLP(v + sum of
    h)) follows.

    Args:
        conv: layer of PyG over the nodes.
        embed_dim: width D.
        bonds: vectors per bond type, if `conv` takes such.
        norm: a key of `NORMS`.
        residual: the two sums with h and v; without, what is added comes alone.
        dropout: rate.
        last: no ReLU, and no v'.
        virtual_node: there is a virtual node.
    """

    def __init__(
        self,
        conv: nn.Module,
        embed_dim: int,
        bonds: Optional[BondEncoder] = None,
        norm: str = "batch",
        residual: bool = True,
        dropout: float = 0.0,
        last: bool = False,
        virtual_node: bool = False,
    ) -> None:
        super().__init__()
        self.conv = conv
        self.bonds = bonds
        self.norm = NORMS[norm](embed_dim)
        self.residual, self.last = residual, last
        self.dropout = Dropout(dropout)
        self.virtual_update = None
        if virtual_node and not last:
            steps = []
            for _ in range(2):
                steps += [nn.Linear(embed_dim, embed_dim), NORMS[norm](embed_dim)]
                steps += [nn.ReLU()]
            self.virtual_update = nn.Sequential(*steps)

    def forward(
        self,
        x: Tensor,
        virtual: Optional[Tensor],
        edge_index: Tensor,
        edge_bond: Optional[Tensor],
        node_graph: Tensor,
    ) -> tuple[Tensor, Optional[Tensor]]:
        """
        Args:
            x: [S, D], the nodes of all graphs.
            virtual: [B, D] or None.
            edge_index: [2, E], source and target.
            edge_bond: [E], types from 1; None without `bonds`.
            node_graph: [S].

        Returns:
            x and virtual after this layer.
        """
        if virtual is not None:
            x = x + virtual[node_graph]
        out = self.norm(self.conv(x, edge_index, *self.edge_vectors(edge_bond)))
        out = self.dropout(out if self.last else out.relu())
        if self.virtual_update is not None:
            nodes = scatter_sum(x, node_graph, len(virtual)).to(x.dtype)
            update = self.dropout(self.virtual_update(nodes + virtual))
            virtual = virtual + update if self.residual else update
        return x + out if self.residual else out, virtual

    def edge_vectors(self, edge_bond: Optional[Tensor]) -> tuple[Tensor, ...]:
        """[E] -> [E, D], for layers that take it."""
        if self.bonds is None:
            return ()
        return (F.embedding(edge_bond.int(), self.bonds()),)


class MessagePassingEncoder(SparseEncoder):
    """Node vectors, and layers of message passing over the edges. Nothing is of the size
    of all node pairs.

    Args:
        conv: a key of `CONVOLUTIONS`.
        vocabularies: of nodes and bonds, e.g. `GraphStore.schema`. Each layer has bond
            vectors of its own.
        num_layers: number of layers, at least 1.
        embed_dim: width D.
        node_table_size: rows per node column (see `NodeEncoder`).
        norm, residual, dropout: see `MessagePassingLayer`.
        virtual_node: one more vector per graph, that all its nodes read and write.
        lap_pe_dim: Laplacian eigenvectors in the node vectors (Dwivedi et al. 2020,
            arXiv:2003.00982), 0 for none.
        **conv_options: those of the function in `CONVOLUTIONS`.

    Raises:
        ValueError: an unknown `conv` or `norm`, or a size or rate out of range.
    """

    def __init__(
        self,
        conv: str,
        vocabularies: Vocabularies,
        num_layers: int = 16,
        embed_dim: int = 128,
        node_table_size: Optional[int] = None,
        norm: str = "batch",
        residual: bool = True,
        virtual_node: bool = False,
        dropout: float = 0.0,
        lap_pe_dim: int = 0,
        **conv_options: Any,
    ) -> None:
        super().__init__()
        check_choice("conv", conv, CONVOLUTIONS)
        check_choice("norm", norm, NORMS)
        sizes = {"num_layers": num_layers, "embed_dim": embed_dim}
        sizes["hidden_dim"] = conv_options.get("hidden_dim", 1)
        for name, size in sizes.items():
            if size < 1:
                raise ValueError(f"{name} {size}, expected at least 1")
        self.embed_dim = embed_dim
        self.node_encoder = NodeEncoder(vocabularies, embed_dim, node_table_size)
        self.position = None
        if lap_pe_dim:
            self.position = LaplacianEncoding(lap_pe_dim, embed_dim)
        self.virtual_node = nn.Embedding(1, embed_dim) if virtual_node else None
        if virtual_node:
            nn.init.zeros_(self.virtual_node.weight)
        self.reads_bonds = conv in READ_BONDS or conv_options.get("bonds", False)
        self.layers = nn.ModuleList(
            MessagePassingLayer(
                CONVOLUTIONS[conv](embed_dim, norm, **conv_options),
                embed_dim,
                BondEncoder(vocabularies, embed_dim) if self.reads_bonds else None,
                norm,
                residual,
                dropout,
                last=number == num_layers - 1,
                virtual_node=virtual_node,
            )
            for number in range(num_layers)
        )

    @property
    def required_fields(self) -> frozenset[str]:
        """Batch fields that `forward` reads."""
        fields = {"x", "node_mask", "edge_index", "node_graph"}
        if self.reads_bonds:
            fields.add("edge_bond")
        if self.position is not None:
            fields.update(self.position.fields)
        return frozenset(fields)

    @property
    def field_options(self) -> dict[str, Any]:
        return (
            {} if self.position is None else {"lap_pe_dim": self.position.num_vectors}
        )

    def forward(
        self, batch: dict[str, Tensor], perturb: Optional[Tensor] = None
    ) -> Tensor:
        """Encodes a batch.

        Args:
            batch: the fields of `required_fields`.
            perturb: [B, N, D], added to the encoded node features.

        Returns:
            [B, N, D]; padding is zero.
        """
        layout = NodeLayout(batch["node_mask"], batch["node_graph"])
        x = self.node_encoder(batch["x"])
        if self.position is not None:
            x = x + self.position(batch["lap_pe"])
        if perturb is not None:
            x = x + perturb.to(x.dtype)
        x = layout.flatten(x)
        virtual = None
        if self.virtual_node is not None:
            virtual = self.virtual_node.weight.expand(layout.num_graphs, -1)
        edges = (batch["edge_index"], batch.get("edge_bond"), batch["node_graph"])
        for layer in self.layers:
            x, virtual = layer(x, virtual, *edges)
        return layout.pad(x)
