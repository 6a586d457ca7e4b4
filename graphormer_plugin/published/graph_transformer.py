"""Checkpoints of the Graph Transformer's released code
(graphdeeplearning/graphtransformer).

Its model of molecules has edge features and predicts one number per graph. Its model of
PATTERN and CLUSTER has none and predicts a class per node. Weights do not show whether
the graphs were full (``full_graph`` in its configs).
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from graphormer_plugin.data.columns import Level
from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.published._shared import (
    Imported,
    Weights,
    check_config,
    require,
)

POSITION = "encoder.node_encoder.encodings.0.projection"


def import_graph_transformer(
    state: Mapping[str, Tensor], config: Mapping[str, Any]
) -> Imported:
    """Convert weights of the Graph Transformer's released code.

    Args:
        config: ``n_heads``, which the weights do not show; ``full_graph`` and
            ``readout``, if they are not False and mean; dropout rates. Further
            ``net_params`` of the released configs are compared with the weights.
    """
    require(config, "the Graph Transformer", n_heads=8)
    weights = Weights(state)
    new = weights.new
    nodes = weights.take("embedding_h.weight")
    new["encoder.node_encoder.embedding.weight"] = nodes
    edges = "layers.0.attention.proj_e.weight" in weights
    bond_dims = []
    if edges:
        bonds = weights.take("embedding_e.weight")
        if "embedding_e.bias" in weights:  # edges without features: the number 1
            constant = bonds[:, 0] + weights.take("embedding_e.bias")
            bonds = constant.repeat(int(config.get("num_bond_type", 1)), 1)
        new["encoder.bonds.embedding.weight"] = bonds
        bond_dims = [len(bonds)]
    vectors = "embedding_lap_pos_enc.weight" in weights
    if vectors:
        weights.move("embedding_lap_pos_enc", POSITION)

    norm = "batch" if any(".batch_norm" in name for name in state) else "layer"
    layers = weights.count("layers.{}.attention.Q.weight")
    for layer in range(layers):
        _move_layer(weights, layer, norm, edges)
    for number, place in enumerate(("hidden.0", "hidden.2", "projection")):
        weights.move(f"MLP_layer.FC_layers.{number}", f"head.{place}")
    weights.finish()

    width = nodes.shape[1]
    outputs = len(new["head.projection.bias"])
    read = {
        "L": layers,
        "hidden_dim": width,
        "out_dim": width,
        "batch_norm": norm == "batch",
        "layer_norm": norm == "layer",
        "lap_pos_enc": vectors,
        "residual": True,
        # The released code numbers them anew in each graph, and this package does not.
        "wl_pos_enc": False,
    }
    if vectors:
        read["pos_enc_dim"] = new[f"{POSITION}.weight"].shape[1]
    read |= {"num_atom_type": len(nodes)} if edges else {"in_dim": len(nodes)}
    read |= {"num_bond_type": bond_dims[0]} if edges else {"n_classes": outputs}
    check_config(config, read)
    options = {
        "encoder_layers": layers,
        "encoder_embed_dim": width,
        "encoder_ffn_embed_dim": len(new["encoder.layers.0.nodes.fc1.weight"]),
        "encoder_attention_heads": int(config["n_heads"]),
        "norm": norm,
        "node_encodings": f"laplacian:{read['pos_enc_dim']}" if vectors else "none",
        "full_graph": bool(config.get("full_graph", False)),
        "readout": str(config.get("readout", "mean")),
        "input_dropout": float(config.get("in_feat_dropout", 0.0)),
        "dropout": float(config.get("dropout", 0.0)),
    }
    schema = FeatureSchema(1, [len(nodes)], bond_dims)
    arch, level = ("gt_zinc", Level.GRAPH) if edges else ("gt_sbm", Level.NODE)
    return Imported(arch, options, schema, outputs, new, level)


def _move_layer(weights: Weights, number: int, norm: str, edges: bool) -> None:
    """Rename the weights of a layer."""
    old = f"layers.{number}."
    layer = f"encoder.layers.{number}."
    parts = [weights.take(f"{old}attention.{name}.weight") for name in "QKV"]
    weights.new[f"{layer}scores.qkv_proj.weight"] = torch.cat(parts)
    if edges:
        weights.rename({f"{old}attention.proj_e": f"{layer}scores.edge"})
    blocks = {"_h": "nodes", "_e": "edges"} if edges else {"": "nodes"}
    for suffix, block in blocks.items():
        for theirs, ours in {
            f"O{suffix}": "attention.output",
            f"FFN{suffix}_layer1": "fc1",
            f"FFN{suffix}_layer2": "fc2",
            f"{norm}_norm1{suffix}": "attention_norm",
            f"{norm}_norm2{suffix}": "ffn_norm",
        }.items():
            weights.move(old + theirs, f"{layer}{block}.{ours}")
