"""Checkpoints of CSA's released code (inria-thoth/csa), models of whole graphs.

The names of its weights tell apart: bonds in one column (``TypeDictEdge``) or
in several (``Bond``), atoms in the same way, random walks or distances of pairs
(``encoder2`` of the edges), maps of pairs in each layer or shared by all, and additive
rings.

Biases that CGT does not have become part of other weights, and the result stays the same
in evaluation:

- The bias of the map of random walks is added to the vectors of bonds, of "self" and of "no
  bond"; every pair has such a vector. So the features of a pair are summed, not concatenated
  (``--pair-combine sum``), with zeros in the columns of the other half.
- The bias of the shared map to E^att is the same for all senders, and the softmax takes it
  out. The bias of the shared map to E^val is added to every message; the filters of a channel
  sum to 1, so it goes through the map after the attention into its bias.
- The bias of the last map of the head counts once a node: nodes are read out after it
  (``--head-before-readout``).

The class of the return probabilities of nodes (``raw_norm``, ``pe_encoder``) is the class of
GraphGPS (rampasek/GraphGPS, kernel_pos_encoder.py).
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from graphormer_plugin.choices import check_choice
from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.published._shared import (
    Imported,
    Weights,
    check_config,
    require,
)

POOLING = {"add": "sum", "mean": "mean", "max": "max"}
WALKS = "encoder.node_encoder.encodings.0"
NODES = "encoder.node_encoder."
EDGES = "encoder.edge_encoder."
LAYER = {
    "linear_attn": "attention.out_proj",
    "norm1_attn": "attention_norm",
    "norm2": "ffn_norm",
    "ff_linear1": "fc1",
    "ff_linear2": "fc2",
}


def import_csa(state: Mapping[str, Tensor], config: Mapping[str, Any]) -> Imported:
    """Convert weights of CSA's released code.

    Args:
        config: ``n_heads`` and ``graph_pooling``, which the weights do not show, and
            with rings ``rings_max_length``; ``act``, if it is not relu; ``dropout``,
            ``attn_dropout``. Further entries of the released configs are compared with
            the weights.
    """
    require(config, "CSA", n_heads=8, graph_pooling='"add"')
    check_choice("graph_pooling", config["graph_pooling"], tuple(POOLING))
    weights = Weights(state, "model.")
    new = weights.new
    node_dims, walk_options = _nodes(weights)
    bond_dims, pair_options = _pairs(weights, config)
    value_bias = _shared_maps(weights)
    layers = weights.count("layers.{}.linear_attn.weight")
    for layer in range(layers):
        _move_layer(weights, layer, value_bias)
    # Only models of whole graphs have these maps, those of the head san_graph.
    hidden = max(weights.count("post_mp.FC_layers.{}.weight"), 1) - 1
    for index in range(hidden):
        weights.move(f"post_mp.FC_layers.{index}", f"head.hidden.{2 * index}")
    weights.move(f"post_mp.FC_layers.{hidden}", "head.projection")
    weights.finish()

    width = len(new["encoder.layers.0.attention.out_proj.bias"])
    read = {"layers": layers, "dim_hidden": width, "dim_inner": width}
    read |= {"rings_coalesce_edges": False}  # pairs in rings are not edges here
    check_config(config, read | {"edge_encoder_shared": value_bias is not None})
    options = {
        "encoder_layers": layers,
        "encoder_embed_dim": width,
        "encoder_ffn_embed_dim": len(new["encoder.layers.0.fc1.weight"]),
        "encoder_attention_heads": int(config["n_heads"]),
        "share_edge_encoding": value_bias is not None,
        "readout": POOLING[config["graph_pooling"]],
        "head_layers": hidden,
        "head_before_readout": True,
        "activation_fn": str(config.get("act", "relu")),
        "dropout": float(config.get("dropout", 0.0)),
        "attention_dropout": float(config.get("attn_dropout", 0.0)),
        **walk_options,
        **pair_options,
    }
    schema = FeatureSchema(len(node_dims), node_dims, bond_dims)
    outputs = len(new["head.projection.bias"])
    return Imported("cgt", options, schema, outputs, new)


def _tables(weights: Weights, single: str, several: str) -> list[Tensor]:
    """Embeddings of columns: a table, or a numbered table per column."""
    if f"{single}.weight" in weights:
        return [weights.take(f"{single}.weight")]
    count = weights.count(several + ".{}.weight") or 1
    return [weights.take(f"{several}.{index}.weight") for index in range(count)]


def _nodes(weights: Weights) -> tuple[list[int], dict[str, Any]]:
    """Node input: vocabularies, and the options of return probabilities."""
    walks = f"{NODES}encoder2.pe_encoder.weight" in weights
    prefix = f"{NODES}encoder1." if walks else NODES
    tables = _tables(weights, f"{prefix}encoder", f"{prefix}atom_embedding_list")
    weights.new["encoder.node_encoder.embedding.weight"] = torch.cat(tables)
    options = {"node_encodings": "none"}
    if walks:
        weights.move(f"{NODES}encoder2.pe_encoder", f"{WALKS}.projection")
        weights.move(f"{NODES}encoder2.raw_norm", f"{WALKS}.encoding.norm")
        channels, steps = weights.new[f"{WALKS}.projection.weight"].shape
        options = {
            "node_encodings": f"random_walks:{steps}",
            "node_encoding_dim": channels,
        }
    return [len(table) for table in tables], options


def _pairs(
    weights: Weights, config: Mapping[str, Any]
) -> tuple[list[int], dict[str, Any]]:
    """Pair features: vocabularies of bonds, and options of the encodings.

    The released features are [type, relative encoding] side by side. Here both are as
    wide as the whole and summed.
    """
    types = f"{EDGES}type_encoder."
    new = weights.new
    bonds = _tables(weights, f"{types}0.encoder", f"{types}0.bond_embedding_list")
    no_bonds = weights.take(f"{types}1.encoder.weight")[1:]  # row 0 pads
    rings = f"{types}2.encoder.weight" in weights
    options = {"pair_combine": "sum", "relative_encoding": "none"}
    half = no_bonds.shape[1]
    after = offset = no_bonds.new_zeros(0)
    relative = f"{EDGES}encoder2.encoder."
    if f"{relative}bias" in weights:
        walk_map, offset = (
            weights.take(relative + kind) for kind in ("weight", "bias")
        )
        after = torch.zeros_like(offset)
        before = walk_map.new_zeros(half, walk_map.shape[1])
        new["encoder.pairs.walks.weight"] = torch.cat([before, walk_map])
        options["relative_encoding"] = "rwse"
        options["relative_steps"] = walk_map.shape[1]
    elif f"{relative}weight" in weights:
        # Released: self, a row that nothing reads, 1 .. p. Beyond p it has zero.
        table = weights.take(f"{relative}weight")
        table = torch.cat([table[:1], table[2:], torch.zeros_like(table[:1])])
        after = offset = torch.zeros_like(table[0])
        before = table.new_zeros(len(table), half)
        new["encoder.pairs.distances.weight"] = torch.cat([before, table], 1)
        options["relative_encoding"] = "spde"
        options["relative_steps"] = len(table) - 2

    def _wide(table: Tensor, rest: Tensor) -> Tensor:
        return torch.cat([table, rest.expand(len(table), -1)], 1)

    # Columns of bonds are averaged here, and summed in the released code.
    table = _wide(len(bonds) * torch.cat(bonds), offset)
    new["encoder.pairs.bonds.0.embedding.weight"] = table
    new["encoder.pairs.no_bonds.weight"] = _wide(no_bonds, offset)
    if rings:
        require(config, "CSA", rings_max_length=18)
        ring = weights.take(f"{types}2.encoder.weight")[1:]  # row 0 is "no ring"
        new["encoder.pairs.ring.weight"] = _wide(ring, after)
        options["rings"] = "additive"
        options["max_ring_size"] = int(config["rings_max_length"])
    return [len(table) for table in bonds], options


def _shared_maps(weights: Weights) -> Tensor | None:
    """Rename the maps of pairs that all layers share; returns the bias of the map to E^val,
    None without shared maps."""
    shared = f"{EDGES}shared_edge_encoder."
    if f"{shared}value_encoder.weight" not in weights:
        return None
    for theirs, ours in (("attention", "att"), ("value", "val")):
        weights.rename({f"{shared}{theirs}_encoder": f"encoder.projections.0.{ours}"})
    weights.drop(f"{shared}attention_encoder.bias")
    return weights.take(f"{shared}value_encoder.bias")


def _move_layer(weights: Weights, number: int, value_bias: Tensor | None) -> None:
    """Rename the weights of a layer."""
    old = f"layers.{number}."
    layer = f"encoder.layers.{number}."
    maps = [weights.take(f"{old}self_attn.{part}.weight") for part in "QKV"]
    weights.new[f"{layer}attention.qkv_proj.weight"] = torch.cat(maps)
    for theirs, ours in LAYER.items():
        weights.move(old + theirs, layer + ours)
    if value_bias is None:
        for theirs, ours in (("E_att", "att"), ("E_value", "val")):
            name = f"encoder.projections.{number}.{ours}"
            weights.rename({f"{old}self_attn.{theirs}": name})
    else:
        out = f"{layer}attention.out_proj."
        new = weights.new
        new[f"{out}bias"] = new[f"{out}bias"] + new[f"{out}weight"] @ value_bias
    # Options of the local model, which CSA does not have.
    kinds = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    weights.drop(*(f"{old}norm1_local.{kind}" for kind in kinds))
