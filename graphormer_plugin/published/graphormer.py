"""Checkpoints of Graphormer's released second version (microsoft/Graphormer, and its copy in
Hugging Face's transformers up to 4.57).

The released code's index spaces:

- Node columns share one table: a value is at row value + 2 + 512 x column. Row 0 is
  padding, and the collator adds 1 once more. Hugging Face's preprocessing adds a further 1,
  so that a model that was trained with it reads the row after.
- So do bond columns: value + 2 + 512 x column for a direct edge, one more on a path.
  Row 0 is read where there is no edge, and behind the end of a path. It is not zero and
  is never trained. What it adds to the bias of a pair depends on the distance only, so
  here it is part of the distance table.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from cython_ext.codes import FAR
from graphormer_plugin.choices import check_choice
from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.modules.encodings.attn_bias import UNREACHABLE_HOPS
from graphormer_plugin.published._shared import (
    COLUMN_STRIDE,
    Imported,
    Weights,
    check_config,
    columns_of,
    dropout_rates,
    molecule_schema,
)

LAYER = {
    "graph_encoder.layers.{}.self_attn.*_proj": "attention.qkv_proj",
    "graph_encoder.layers.{}.self_attn.out_proj": "attention.out_proj",
    "graph_encoder.layers.{}.self_attn_layer_norm": "attention_norm",
    "graph_encoder.layers.{}.final_layer_norm": "ffn_norm",
    "graph_encoder.layers.{}.fc1": "fc1",
    "graph_encoder.layers.{}.fc2": "fc2",
}
MATRICES = {
    "graph_encoder.graph_node_feature.graph_token": "encoder.virtual_node.embedding",
    "graph_encoder.graph_attn_bias.graph_token_virtual_distance": (
        "encoder.attn_bias.virtual"
    ),
    "embed_out": "head.projection",
}
# Hugging Face's names of the head; its other weights have Microsoft's.
HUGGING_FACE = {
    "classifier.classifier.weight": "embed_out.weight",
    "classifier.lm_output_learned_bias": "lm_output_learned_bias",
}
FIRST_ROW = {"microsoft": 2, "huggingface": 3}  # of the first node column's value 0
NODES = "encoder.node_encoder.embedding.weight"
ROWS = {  # of tables by their options, and those beside
    "num_atoms": ("graph_node_feature.atom", 1),
    "num_edges": ("graph_attn_bias.edge", 1),
    "num_in_degree": ("graph_node_feature.in_degree", 0),
    "num_out_degree": ("graph_node_feature.out_degree", 0),
    "num_spatial": ("graph_attn_bias.spatial_pos", 0),
}
DEGREES = "encoder.node_encoder.encodings.0.projection.tables.{}.weight"
UNREACHABLE_ROW = UNREACHABLE_HOPS + 1  # row of the distance table


def import_graphormer(
    state: Mapping[str, Tensor], config: Mapping[str, Any]
) -> Imported:
    """Convert weights of Graphormer's released second version.

    Args:
        config: options that the weights do not show: ``multi_hop_max_dist`` (5 if
            absent), ``spatial_pos_max`` (1024), ``activation_fn`` (gelu), dropout
            rates, ``node_index``, a key of `FIRST_ROW` (microsoft), and ``node_dims`` and
            ``bond_dims`` of data other than OGB's molecules.
    """
    weights = Weights(state, "encoder.")
    weights.state = {
        HUGGING_FACE.get(name, name): weight for name, weight in weights.state.items()
    }
    given = dict(weights.state)
    new = weights.new
    schema = molecule_schema(config)
    _move_nodes(weights, config, schema.num_node_features)
    weights.rename(MATRICES)
    max_steps = int(config.get("multi_hop_max_dist", 5))
    heads, multi_hop = _move_pair_bias(weights, schema, max_steps)

    embed_norm = "graph_encoder.emb_layer_norm.weight" in weights
    if embed_norm:
        weights.move("graph_encoder.emb_layer_norm", "encoder.embed_norm")
    # Created with pre-LayerNorm only.
    pre_layernorm = "graph_encoder.final_layer_norm.weight" in weights
    layers = weights.count("graph_encoder.layers.{}.fc1.weight")
    weights.move_layers(LAYER, layers)
    weights.move("lm_head_transform_weight", "head.transform")
    weights.move("layer_norm", "head.norm")
    new["head.bias"] = weights.take("lm_output_learned_bias")
    for unused in ("masked_lm_pooler", "graph_encoder.final_layer_norm"):
        weights.drop(f"{unused}.weight", f"{unused}.bias")  # are never applied
    weights.finish()

    read = {
        "encoder_layers": layers,
        "encoder_embed_dim": new[NODES].shape[1],
        "encoder_ffn_embed_dim": len(new["encoder.layers.0.fc1.weight"]),
        "encoder_attention_heads": heads,
        "edge_type": "multi_hop" if multi_hop else "single_hop",
        "pre_layernorm": pre_layernorm,
        "encoder_normalize_before": embed_norm,
    }
    outputs = len(new["head.projection.weight"])
    rows = {
        name: len(given[f"graph_encoder.{table}_encoder.weight"]) - beside
        for name, (table, beside) in ROWS.items()
    }
    if multi_hop:
        rows["num_edge_dis"] = len(new["encoder.attn_bias.edges.weight"])
    check_config(config, {**read, **rows, "num_classes": outputs})
    options = read | _released_options(config, new) | {"multi_hop_max_dist": max_steps}
    # A switch that a preset sets cannot be taken back; without a preset all are given.
    arch = "graphormer_base" if embed_norm else "graphormer"
    return Imported(arch, options, schema, outputs, new)


def _released_options(
    config: Mapping[str, Any], new: Mapping[str, Tensor]
) -> dict[str, Any]:
    """Options that the released code fixes, and sizes of tables."""
    activation = config.get("activation_fn", "gelu")
    return {
        "spatial_pos_max": int(config.get("spatial_pos_max", 1024)),
        # fairseq's GELU and softmax, which the released code calls.
        "activation_fn": {"gelu": "gelu_float32"}.get(activation, activation),
        "float32_softmax": True,
        "head_style": "transform",
        "node_table_size": COLUMN_STRIDE,
        "bond_table_size": COLUMN_STRIDE,
        "num_in_degree": len(new[DEGREES.format(0)]),
        "num_out_degree": len(new[DEGREES.format(1)]),
        "num_spatial": len(new["encoder.attn_bias.spatial.embedding.weight"]),
        "num_edge_dis": len(new.get("encoder.attn_bias.edges.weight", ())),
        **dropout_rates(config),
    }


def _move_nodes(weights: Weights, config: Mapping[str, Any], columns: int) -> None:
    """Rename the weights of node features and degrees."""
    node_index = config.get("node_index", "microsoft")
    check_choice("node_index", node_index, [*FIRST_ROW])
    features = "graph_encoder.graph_node_feature."
    atoms = weights.take(features + "atom_encoder.weight")
    weights.new[NODES] = columns_of(atoms, FIRST_ROW[node_index], columns)
    # Row degree + 1, 0 pads; here higher degrees share the last.
    for index, end in enumerate(("in", "out")):
        table = weights.take(f"{features}{end}_degree_encoder.weight")
        weights.new[DEGREES.format(index)] = torch.cat([table[1:], table[-1:]])


def _move_pair_bias(
    weights: Weights, schema: FeatureSchema, max_steps: int
) -> tuple[int, bool]:
    """Rename the weights of the bias of pairs; returns the number of heads, and whether the
    edges of paths count."""
    new = weights.new
    bias = "graph_encoder.graph_attn_bias."
    distance = weights.take(bias + "spatial_pos_encoder.weight")
    edges = weights.take(bias + "edge_encoder.weight")
    heads = distance.shape[1]
    steps = None
    multi_hop = bias + "edge_dis_encoder.weight" in weights
    if multi_hop:
        steps = weights.take(bias + "edge_dis_encoder.weight").view(-1, heads, heads)
        new["encoder.attn_bias.edges.weight"] = steps
        steps = steps[:max_steps]
    new["encoder.attn_bias.edges.bonds.embedding.weight"] = columns_of(
        edges, 3 if multi_hop else 2, len(schema.bond_dims)
    )
    table = distance_table(distance, edges[0], steps)
    new["encoder.attn_bias.spatial.embedding.weight"] = table
    return heads, multi_hop


def distance_table(distance: Tensor, no_edge: Tensor, steps: Tensor | None) -> Tensor:
    """Distance table with rows unreachable, 0 hops, 1 hop, ..., each with the contribution of
    "no edge" at its distance.

    Args:
        distance: [rows, H]; row 0 pads, row h + 1 is h hops, 511 unreachable.
        no_edge: [H], row 0 of the bond table.
        steps: [L, H, H], weights of path steps; None for a model that encodes direct
            edges only.
    """
    rows = max(len(distance), FAR + 2)
    table = torch.empty(rows, distance.shape[1], dtype=torch.float64)
    table[0] = distance[min(UNREACHABLE_ROW, len(distance) - 1)]
    hops = torch.arange(len(table) - 1)
    table[1:] = distance[(hops + 1).clamp(max=len(distance) - 1)]
    table[-1] = distance[min(FAR + 1, len(distance) - 1)]  # MAX_HOPS + 1 and more
    no_edge = no_edge.double()
    if steps is None:
        direct = torch.zeros(len(table), 1)
        direct[2] = 1  # one hop: there is an edge
        return (table + no_edge * (1 - direct)).to(distance.dtype)
    # A path of h hops lacks the steps from h on; the mean divides by its length.
    per_step = no_edge @ steps.double()  # [L, H]
    limit = len(steps)
    for row in range(len(table)):
        used = min(row - 1, limit) if row else 0
        divisor = min(max(row - 1, 1), limit) if row else limit
        table[row] += per_step[used:].sum(0) / divisor
    return table.to(distance.dtype)
