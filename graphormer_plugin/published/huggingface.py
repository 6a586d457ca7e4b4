"""Folders of Graphormers that Hugging Face's transformers (up to 4.57) wrote."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from graphormer_plugin.data.errors import named_damage
from graphormer_plugin.data.files import PathName, file_sha256, read_text
from graphormer_plugin.published._shared import read_weights

logger = logging.getLogger(__name__)

WEIGHTS = ("pytorch_model.bin", "model.safetensors")
# The published copies of Microsoft's weights, which were trained with its node index, and
# the checksum of the first's file, which a program that pins it names.
PCQM4MV2_SHA256 = "fc92119f232e1918df3d342a51f4523d6354c9b7f1d4819e2915cc66e0ad73cc"
MICROSOFTS = ("graphormer-base-pcqm4mv2", "graphormer-base-pcqm4mv1")
OPTIONS = {  # of config.json, and their names here
    "num_hidden_layers": "encoder_layers",
    "hidden_size": "encoder_embed_dim",
    "ffn_embedding_dim": "encoder_ffn_embed_dim",
    "num_attention_heads": "encoder_attention_heads",
    "activation_dropout": "act_dropout",
} | {
    name: name
    for name in (
        "activation_fn attention_dropout dropout edge_type encoder_normalize_before "
        "multi_hop_max_dist num_atoms num_classes num_edge_dis num_edges num_in_degree "
        "num_out_degree num_spatial pre_layernorm spatial_pos_max"
    ).split()
}


def is_folder(path: PathName) -> bool:
    """Whether transformers may have written this folder."""
    return (Path(path) / "config.json").is_file()


def read_folder(
    folder: PathName, chosen: Mapping[str, Any]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Weights and config of a model, for `import_graphormer`.

    ``chosen`` options replace those of ``config.json``. Without a ``node_index`` among them
    the published copies have Microsoft's, and all others Hugging Face's, with which its
    preprocessing trained them.
    """
    folder = Path(folder)
    path = folder / "config.json"
    if not path.is_file():
        raise ValueError(
            f"{folder} has no config.json; name a folder that transformers' "
            "save_pretrained wrote"
        )
    with named_damage(f"{path} holds no JSON object"):
        config = {**json.loads(read_text(path))}
    if config.get("model_type") != "graphormer":
        raise ValueError(
            f"{path} describes a {config.get('model_type')}, expected graphormer"
        )
    if config.get("embed_scale") is not None:
        raise ValueError(f"{path}: embed_scale {config['embed_scale']}, expected null")
    files = [folder / name for name in WEIGHTS if (folder / name).is_file()]
    if not files:
        raise ValueError(f"{folder} has neither {' nor '.join(WEIGHTS)}")
    options = {ours: config[name] for name, ours in OPTIONS.items() if name in config}
    options |= chosen
    if "node_index" not in options:
        # Of the Hub's cache: models--OWNER--NAME/snapshots/REVISION.
        names = {part.split("--")[-1] for part in folder.resolve().parts[-3:]}
        is_published = (
            bool(names & {*MICROSOFTS}) or file_sha256(files[0]) == PCQM4MV2_SHA256
        )
        options["node_index"] = "microsoft" if is_published else "huggingface"
        logger.warning(
            "%s: node index of %s; --node-index chooses",
            folder,
            options["node_index"],
        )
    return read_weights(files[0]), options
