"""Checkpoints of GRPE's released code (lenscloth/GRPE).

The released code's index spaces:

- Node columns share one table: a value is at row value + 1 + 512 x column.
- Bond columns c0, c1, c2 are joined as c0 + 4 c1 + 16 c2. The published models have 30
  types, and the released code reads a row of something else, or fails, for a bond beyond
  (a rare bond type or stereo mark of OGB's with others). Here it has the vector of "no
  edge" (our choice).
- The key term reads the row's key, and the task token is related to itself as a node is
  (options ``key_from_row`` and ``virtual_is_self``).
"""

import logging
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.published._shared import (
    COLUMN_STRIDE,
    Imported,
    Weights,
    check_config,
    columns_of,
    dropout_rates,
    molecule_schema,
    require,
)

logger = logging.getLogger(__name__)

PARTS = ("query", "key", "value")
LAYER = {
    "layers.{}.self_attention.linear_*": "attention.qkv_proj",
    "layers.{}.self_attention.output_layer": "attention.out_proj",
    "layers.{}.self_attention_norm": "attention_norm",
    "layers.{}.ffn_norm": "ffn_norm",
    "layers.{}.ffn.layer1": "fc1",
    "layers.{}.ffn.layer2": "fc2",
}


def import_grpe(state: Mapping[str, Tensor], config: Mapping[str, Any]) -> Imported:
    """Convert weights of GRPE's released code.

    Args:
        config: ``nhead``, which the weights do not show, dropout rates, and the
            ``node_dims`` and ``bond_dims`` of data other than OGB's molecules. A model of
            continuous node features has no bond columns unless it gives ``bond_dims``.
    """
    require(config, "GRPE", nhead=32)
    weights = Weights(state, "module.")
    new = weights.new
    continuous = "node_emb.bias" in weights
    if continuous:
        weights.move("node_emb", "encoder.node_encoder.projection")
        width, features = new["encoder.node_encoder.projection.weight"].shape
        schema = FeatureSchema(features, None, list(config.get("bond_dims", [])))
    else:
        schema = molecule_schema(config)
        nodes = weights.take("node_emb.weight")
        width = nodes.shape[1]
        rows = columns_of(nodes, 1, schema.num_node_features)
        new["encoder.node_encoder.embedding.weight"] = rows
    weights.rename({"task_token": "encoder.virtual_node.embedding"})

    independent = "query_hop_emb.0.weight" in weights
    for encoding in range(weights.count("query_hop_emb.{}.weight") or 1):
        number = f".{encoding}" if independent else ""
        hops, edges = _move_relations(weights, encoding, number, schema)

    layers = weights.count("layers.{}.ffn.layer1.weight")
    weights.move_layers(LAYER, layers)
    weights.move("final_ln", "encoder.final_norm")
    hidden = weights.count("last_mlp.{}.0.weight")
    for number in range(hidden):
        weights.move(f"last_mlp.{number}.0", f"head.hidden.{2 * number}")
    head = "head.projection" if hidden else "head"
    weights.move("linear", head)
    weights.finish()

    max_hop = hops - 3
    ffn_dim = len(new["encoder.layers.0.fc1.weight"])
    outputs = len(new[f"{head}.bias"])
    read = {"num_layer": layers, "d_model": width, "dim_feedforward": ffn_dim}
    read |= {"max_hop": max_hop, "num_edge_type": edges - 4}
    read |= {"use_independent_token": independent, "num_task": outputs}
    check_config(config, read | {"num_last_mlp": hidden})
    options = {
        "encoder_layers": layers,
        "encoder_embed_dim": width,
        "encoder_ffn_embed_dim": ffn_dim,
        "encoder_attention_heads": int(config["nhead"]),
        "max_hop": max_hop,
        "independent_encodings": independent,
        "key_from_row": True,
        "virtual_is_self": True,
        "head_layers": hidden,
        "node_table_size": 0 if continuous else COLUMN_STRIDE,
        **dropout_rates(config),
    }
    return Imported("grpe_standard", options, schema, outputs, new)


def _move_relations(
    weights: Weights, encoding: int, number: str, schema: FeatureSchema
) -> tuple[int, int]:
    """Rename the tables of distances and bonds of an encoding; returns their numbers of rows."""
    hop, edge = (
        [weights.take(f"{part}_{kind}_emb{number}.weight") for part in PARTS]
        for kind in ("hop", "edge")
    )
    rows_of = _grpe_rows(len(hop[0]), len(edge[0]), schema)
    prefix = f"encoder.encodings.{encoding}."
    for name, tables, rows in zip(("topology", "edge"), (hop, edge), rows_of):
        scores = torch.cat(tables[:2], dim=1)  # query and key side by side
        weights.new[f"{prefix}{name}_attention.weight"] = scores[rows]
        weights.new[f"{prefix}{name}_value.weight"] = tables[2][rows]
    return len(hop[0]), len(edge[0])


def _grpe_rows(
    hop_rows: int, edge_rows: int, schema: FeatureSchema
) -> tuple[list[int], list[int]]:
    """Rows of GRPE's tables in the order of `RelationEncoding`.

    GRPE's distance rows are 0..max_hop, virtual, unreachable. Its bond rows are the
    bond types, an unused row, virtual, self, no edge; the released code overwrites self
    by no edge before it reads it.
    """
    max_hop = hop_rows - 3
    num_types = edge_rows - 4
    virtual = max_hop + 1
    unreachable = max_hop + 2
    hops = [*range(max_hop + 1), max_hop, unreachable, virtual]  # far pairs use max_hop
    to_virtual = num_types + 1
    no_edge = num_types + 3
    bonds = [
        sum(value * 4**column for column, value in enumerate(values))
        for values in schema.bond_columns()[1:].tolist()
    ]
    beyond = sum(bond >= num_types for bond in bonds)
    if beyond:
        logger.warning(
            "%d of %d kinds of bonds have no vector in the checkpoint, which has %d edge "
            "types: they get the vector of no edge",
            beyond,
            len(bonds),
            num_types,
        )
    bonds = [bond if bond < num_types else no_edge for bond in bonds]
    return hops, [*bonds, no_edge, no_edge, to_virtual]
