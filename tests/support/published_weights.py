"""Weights as the published codes name them, of tiny models."""

import torch


def random_state(**sizes):
    """Weights of a tiny Graphormer v2 with pre-LayerNorm and path encoding."""
    generator = torch.Generator().manual_seed(0)
    D, H, ffn, outputs = 8, 2, 12, 1
    shapes = {"lm_output_learned_bias": (1,), "embed_out.weight": (outputs, D)}
    node = "graph_encoder.graph_node_feature."
    bias = "graph_encoder.graph_attn_bias."
    for name, rows in {
        node + "atom_encoder": 4609,
        node + "in_degree_encoder": 512,
        node + "out_degree_encoder": 512,
        node + "graph_token": 1,
    }.items():
        shapes[f"{name}.weight"] = (rows, D)
    for name, rows in {
        bias + "edge_encoder": 1537,
        bias + "spatial_pos_encoder": 512,
        bias + "graph_token_virtual_distance": 1,
    }.items():
        shapes[f"{name}.weight"] = (rows, H)
    shapes[bias + "edge_dis_encoder.weight"] = (128 * H * H, 1)
    linears = {"lm_head_transform_weight": (D, D), "masked_lm_pooler": (D, D)}
    norms = [
        "layer_norm",
        "graph_encoder.emb_layer_norm",
        "graph_encoder.final_layer_norm",
    ]
    for layer in range(2):
        prefix = f"graph_encoder.layers.{layer}."
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            linears[f"{prefix}self_attn.{part}"] = (D, D)
        linears[f"{prefix}fc1"], linears[f"{prefix}fc2"] = (ffn, D), (D, ffn)
        norms += [f"{prefix}self_attn_layer_norm", f"{prefix}final_layer_norm"]
    for name, shape in linears.items():
        shapes[f"{name}.weight"], shapes[f"{name}.bias"] = shape, shape[:1]
    for name in norms:
        shapes[f"{name}.weight"] = shapes[f"{name}.bias"] = (D,)
    return {
        f"encoder.{name}": torch.randn(shape, generator=generator)
        for name, shape in shapes.items()
    }
