"""The computation of GRPE's released code (lenscloth/GRPE), written again in plain PyTorch.

It is the other side of a comparison in speed, and no part of the package. Each source
says this of the released code:

- The paper (Complexity Analysis): products of every node with every topology vector P and
  every edge vector E come first; a pair of nodes then looks both up.
- tests/golden: the names of the weights, the rows of P and E, dropout on the attention
  before it is split into a part for values, one for P and one for E. The golden outputs
  fix the result.
- Its settings: pre-LayerNorm, GELU, noise on the node vectors, torch's AdamW and dropout,
  and batches that are padded in Python, one graph after another.
- Its attention is split by `scatter_add` into [B, H, T, rows], the counterpart of the
  look-up.

Our choice: distances are searched once per graph, not again in every epoch, and the
process that trains makes the batches, not eight others.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cython_ext import shortest_paths

PARTS = ("query", "key", "value")


class Pairs(NamedTuple):
    """Rows of P and of E for every pair, [B, T, T] int64, and which nodes are real."""

    hop: Tensor
    edge: Tensor
    node_mask: Tensor  # [B, T]


class ReleasedAttention(nn.Module):
    """Attention of all pairs, with P and E as two tables.

    Args:
        width: D.
        heads: H.
        dropout: on the attention weights.
        key_from_row: the key that meets P and E is that of the row, as in the released
            code; else of the column, as in the paper.
    """

    def __init__(
        self, width: int, heads: int, dropout: float, key_from_row: bool
    ) -> None:
        super().__init__()
        self.heads, self.key_from_row = heads, key_from_row
        self.linear_q = nn.Linear(width, width)
        self.linear_k = nn.Linear(width, width)
        self.linear_v = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)
        self.output_layer = nn.Linear(width, width)

    def split(self, x: Tensor) -> Tensor:
        """[B, T, D] -> [B, H, T, D / H]."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(
        self, x: Tensor, hops: list[Tensor], edges: list[Tensor], pairs: Pairs
    ) -> Tensor:
        """x [B, T, D], tables of P and E for query, key and value [rows, D] -> [B, T, D]."""
        q = self.split(self.linear_q(x))
        k = self.split(self.linear_k(x))
        v = self.split(self.linear_v(x))
        B, H, T, d = q.shape
        index = [pairs.hop, pairs.edge]
        index = [one.unsqueeze(1).expand(B, H, T, T) for one in index]
        tables = [[self.split(table[None]) for table in side] for side in (hops, edges)]

        scores = q @ k.mT
        for (query, key, _), rows in zip(tables, index):  # P, then E
            scores = scores + (q @ query.mT).gather(3, rows)
            by_key = k @ key.mT  # [B, H, T, rows]
            if self.key_from_row:
                scores = scores + by_key.gather(3, rows)
            else:
                scores = scores + by_key.mT.gather(2, rows)
        scores = scores * d**-0.5
        padding = ~pairs.node_mask[:, None, None]
        scores = scores.masked_fill(padding, float("-inf"))
        weights = self.dropout(torch.softmax(scores, -1))

        out = weights @ v
        for (_, _, value), rows in zip(tables, index):
            per_row = weights.new_zeros(B, H, T, value.shape[2])
            out = out + per_row.scatter_add(3, rows, weights) @ value
        return self.output_layer(out.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """Two linear maps with GELU between them, [..., D] -> [..., D]."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.layer1 = nn.Linear(width, inner)
        self.layer2 = nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer2(F.gelu(self.layer1(x)))


class ReleasedLayer(nn.Module):
    """A pre-LayerNorm layer; see `ReleasedGRPE` for its arguments."""

    def __init__(self, width, inner, heads, dropout, attention_dropout, key_from_row):
        super().__init__()
        self.self_attention_norm = nn.LayerNorm(width)
        self.self_attention = ReleasedAttention(
            width, heads, attention_dropout, key_from_row
        )
        self.self_attention_dropout = nn.Dropout(dropout)
        self.ffn_norm = nn.LayerNorm(width)
        self.ffn = FeedForward(width, inner)
        self.ffn_dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, hops: list, edges: list, pairs: Pairs) -> Tensor:
        normed = self.self_attention_norm(x)
        attended = self.self_attention(normed, hops, edges, pairs)
        x = x + self.self_attention_dropout(attended)
        return x + self.ffn_dropout(self.ffn(self.ffn_norm(x)))


class ReleasedGRPE(nn.Module):
    """GRPE with the released code's names of weights and rows of tables.

    Rows of P: hops 0..max_hop, task token, unreachable; rows of E: bond types, an unused
    one, task token, self, no edge.

    Args:
        node_rows: rows of the table of each node column.
        num_edge_type: bond types.
        num_task: outputs.
        paper: the network of the paper, which the package trains, in place of the
            released one: the key of the column, distances beyond max_hop have a row of
            their own (the last of P), a node and itself have the row "self" of E, the
            task token is related to itself as to all others, and it is trained.
        independent: own tables for every layer.
        perturb_noise: in training, uniform noise within +-this on the node vectors.
    """

    def __init__(
        self,
        node_rows: Sequence[int],
        num_edge_type: int,
        *,
        num_task: int = 1,
        num_layer: int = 12,
        d_model: int = 80,
        nhead: int = 8,
        dim_feedforward: int = 80,
        max_hop: int = 5,
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
        perturb_noise: float = 0.0,
        independent: bool = False,
        paper: bool = False,
    ) -> None:
        super().__init__()
        self.max_hop, self.num_edge_type = max_hop, num_edge_type
        self.paper, self.perturb_noise = paper, perturb_noise
        self.node_emb = nn.Embedding(1 + sum(node_rows), d_model, padding_idx=0)
        first = torch.tensor([1, *node_rows[:-1]]).cumsum(0)
        self.register_buffer("first_row", first, persistent=False)
        self.task_token = nn.Embedding(1, d_model, padding_idx=None if paper else 0)
        self.independent = independent
        rows = {"hop": max_hop + 3 + paper, "edge": num_edge_type + 4}
        for kind, count in rows.items():
            for part in PARTS:
                tables = [
                    nn.Embedding(count, d_model)
                    for _ in range(num_layer if independent else 1)
                ]
                name = f"{part}_{kind}_emb"
                setattr(self, name, nn.ModuleList(tables) if independent else tables[0])
        self.layers = nn.ModuleList(
            ReleasedLayer(
                d_model, dim_feedforward, nhead, dropout, attention_dropout, not paper
            )
            for _ in range(num_layer)
        )
        self.final_ln = nn.LayerNorm(d_model)
        self.linear = nn.Linear(d_model, num_task)

    def tables(self, kind: str, layer: int) -> list[Tensor]:
        """P (`hop`) or E (`edge`) of a layer for query, key and value, [rows, D]."""
        found = [getattr(self, f"{part}_{kind}_emb") for part in PARTS]
        return [(one[layer] if self.independent else one).weight for one in found]

    def pairs(self, dist: Tensor, bond: Tensor, node_mask: Tensor) -> Pairs:
        """Indices of a padded batch, with the task token at position 0.

        Args:
            dist: [B, N, N] int64, hops, -1 where there is no path.
            bond: [B, N, N] int64, type of a direct edge from 0, read where dist is 1.
            node_mask: [B, N].
        """
        token, unreachable, far = (self.max_hop + i for i in (1, 2, 3))
        types = self.num_edge_type
        edge_token, itself, no_edge = types + 1, types + 2, types + 3
        hop = dist.clamp(max=self.max_hop)
        if self.paper:
            hop = hop.masked_fill(dist > self.max_hop, far)
        hop = hop.masked_fill(dist < 0, unreachable)
        edge = bond.masked_fill(dist != 1, no_edge)
        if self.paper:
            edge = edge.masked_fill(dist == 0, itself)
        hop = F.pad(hop, (1, 0, 1, 0), value=token)
        edge = F.pad(edge, (1, 0, 1, 0), value=edge_token)
        if not self.paper:
            hop[:, 0, 0], edge[:, 0, 0] = 0, no_edge
        return Pairs(hop, edge, F.pad(node_mask, (1, 0), value=True))

    def forward(self, batch: Mapping[str, Tensor]) -> Tensor:
        """A batch of `pad` -> [B, num_task]."""
        mask = batch["node_mask"]
        x = (batch["x"] + self.first_row).masked_fill(~mask.unsqueeze(-1), 0)
        x = self.node_emb(x).sum(2)
        if self.training and self.perturb_noise:
            x = x + torch.empty_like(x).uniform_(-1, 1) * self.perturb_noise
        token = self.task_token.weight.expand(len(x), 1, -1)
        x = torch.cat([token, x], 1)
        pairs = self.pairs(batch["dist"], batch["bond"], mask)
        for number, layer in enumerate(self.layers):
            tables = (self.tables(kind, number) for kind in ("hop", "edge"))
            x = layer(x, *tables, pairs)
        return self.linear(self.final_ln(x)[:, 0])


def weights_of(
    state: Mapping[str, Tensor], max_hop: int, num_edge_type: int
) -> dict[str, Tensor]:
    """Weights (or gradients) of the package's GRPE with one set of encodings, for
    `ReleasedGRPE(paper=True)`. Rows that the package does not have are zero."""
    state = dict(state)
    nodes = state.pop("encoder.node_encoder.embedding.weight")
    new = {
        "node_emb.weight": F.pad(nodes, (0, 0, 1, 0)),
        "task_token.weight": state.pop("encoder.virtual_node.embedding.weight"),
    }
    # The package's rows: hops 0..max_hop, far, unreachable, virtual; bond types, no
    # edge, self, virtual.
    far, types = max_hop + 1, num_edge_type
    rows = {
        "topology": ("hop", [*range(far), far + 2, far + 1, far]),
        "edge": ("edge", [*range(types), -1, types + 2, types + 1, types]),
    }
    for name, (kind, order) in rows.items():
        attention = state.pop(f"encoder.encodings.0.{name}_attention.weight")
        value = state.pop(f"encoder.encodings.0.{name}_value.weight")
        for part, table in zip(PARTS, (*attention.chunk(2, 1), value)):
            new[f"{part}_{kind}_emb.weight"] = F.pad(table, (0, 0, 0, 1))[order]
    top = {"encoder.final_norm": "final_ln", "head": "linear"}
    names = {
        "attention.out_proj": "self_attention.output_layer",
        "attention_norm": "self_attention_norm",
        "fc1": "ffn.layer1",
        "fc2": "ffn.layer2",
        "ffn_norm": "ffn_norm",
    }
    for name, value in state.items():
        module, _, kind = name.rpartition(".")
        if module in top:
            new[f"{top[module]}.{kind}"] = value
            continue
        _, _, number, module = module.split(".", 3)
        if module == "attention.qkv_proj":
            for letter, part in zip("qkv", value.chunk(3)):
                new[f"layers.{number}.self_attention.linear_{letter}.{kind}"] = part
        else:
            new[f"layers.{number}.{names[module]}.{kind}"] = value
    return new


def graph_of(
    x: np.ndarray, edge_index: np.ndarray, edge_type: np.ndarray, target: np.ndarray
) -> dict[str, Tensor]:
    """A graph with the distances and bond types of all pairs.

    Args:
        x: integers [n, F].
        edge_index: integers [2, E], both directions.
        edge_type: integers from 0, [E].
        target: [C].
    """
    n = len(x)
    dist, _ = shortest_paths(np.ascontiguousarray(edge_index, dtype=np.int64), n)
    bond = np.zeros((n, n), np.int64)
    bond[edge_index[0], edge_index[1]] = edge_type
    return {
        "x": torch.from_numpy(np.asarray(x, np.int64)),
        "dist": torch.from_numpy(dist.astype(np.int64)),
        "bond": torch.from_numpy(bond),
        "target": torch.tensor(target),
    }


def graphs_of(columns: Mapping[str, Any], target: np.ndarray) -> list[dict]:
    """All graphs of a store; it numbers bond types from 1."""
    graphs = []
    for graph in range(len(target)):
        nodes = slice(*columns["node_offset"][graph : graph + 2])
        edges = slice(*columns["edge_offset"][graph : graph + 2])
        ends = np.stack([columns["edge_src"][edges], columns["edge_dst"][edges]])
        types = columns["edge_bond"][edges].astype(np.int64) - 1
        graphs.append(graph_of(columns["x"][nodes], ends, types, target[graph]))
    return graphs


def pad(graphs: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Padded batch: x [B, N, F], dist and bond [B, N, N], node_mask, target [B, C]."""
    B, N = len(graphs), max(len(graph["x"]) for graph in graphs)
    batch = {
        "x": torch.zeros(B, N, graphs[0]["x"].shape[1], dtype=torch.int64),
        "dist": torch.full((B, N, N), -1),
        "bond": torch.zeros(B, N, N, dtype=torch.int64),
        "node_mask": torch.zeros(B, N, dtype=torch.bool),
        "target": torch.stack([graph["target"] for graph in graphs]),
    }
    for number, graph in enumerate(graphs):
        n = len(graph["x"])
        batch["x"][number, :n] = graph["x"]
        batch["dist"][number, :n, :n] = graph["dist"]
        batch["bond"][number, :n, :n] = graph["bond"]
        batch["node_mask"][number, :n] = True
    return batch
