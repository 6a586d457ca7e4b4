"""``graphormer-convert``: checkpoints become slim or described, published ones ours.

The facts about the released codes' index spaces that the importers rely on:

- Node columns share one table, value + 1 + 512 x column (GRPE) or one more
  (Graphormer, whose collator adds one to keep 0 for padding).
- Graphormer's bond columns likewise, value + 2 + 512 x column for a direct edge and one
  more on a path; row 0 stands where there is no edge, and where a path has ended. It is
  not zero and never trained. What it adds to the bias of a pair depends on the distance
  only, so here it is part of the distance table.
- GRPE joins bond columns as c0 + 4 c1 + 16 c2. Its key term reads the row's key, and
  its task token is related to itself as a node is (options ``key_from_row`` and
  ``virtual_is_self``).
"""

import argparse
import json
import logging
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Optional

import torch
from fairseq import options as fairseq_options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf
from torch import Tensor

from graphormer_plugin import hub
from graphormer_plugin.cli import command
from graphormer_plugin.data.datasets.smiles import feature_dims
from graphormer_plugin.data.files import atomic_write
from graphormer_plugin.data.schema import FeatureSchema, TargetSchema
from graphormer_plugin.finetune.transfer import preset_options, setting
from graphormer_plugin.inference.checkpoint import (
    check_output,
    complete,
    read_checkpoint,
    read_file,
    slim,
)
from graphormer_plugin.models import build_model

COLUMN_STRIDE = 512  # rows per feature column in the released codes' tables
UNREACHABLE_ROW = 511  # of Graphormer's distance table: 510 hops + 1


class Imported(NamedTuple):
    """A published model in the terms of this project.

    Attributes:
        arch: name for `--arch`.
        options: fields of its config that the preset does not say.
        schema: vocabularies of nodes and bonds.
        num_outputs: C.
        state: weights under this project's names.
    """

    arch: str
    options: dict[str, Any]
    schema: FeatureSchema
    num_outputs: int
    state: dict[str, Tensor]


class Weights:
    """Named weights that are taken one by one, so that none is forgotten.

    Args:
        state: as loaded.
    """

    def __init__(self, state: Mapping[str, Tensor]) -> None:
        self.state = dict(state)

    def __contains__(self, name: str) -> bool:
        return name in self.state

    def take(self, name: str) -> Tensor:
        """Remove and return a weight.

        Raises:
            ValueError: there is none.
        """
        if name not in self.state:
            raise ValueError(f"the checkpoint has no weight {name!r}")
        return self.state.pop(name)

    def move(self, old: str, new: str, target: dict[str, Tensor]) -> None:
        """Take the weight and the bias of a module to a new name."""
        for kind in ("weight", "bias"):
            target[f"{new}.{kind}"] = self.take(f"{old}.{kind}")

    def join(self, old: Sequence[str], new: str, target: dict[str, Tensor]) -> None:
        """Take several linear maps to one that gives their outputs side by side."""
        for kind in ("weight", "bias"):
            parts = [self.take(f"{name}.{kind}") for name in old]
            target[f"{new}.{kind}"] = torch.cat(parts)

    def drop(self, *names: str) -> None:
        """Forget weights that the released code never uses."""
        for name in names:
            self.state.pop(name, None)

    def finish(self) -> None:
        """Raises:
        ValueError: weights are left.
        """
        if self.state:
            raise ValueError(
                f"{len(self.state)} weights of the checkpoint are unknown: "
                f"{', '.join(sorted(self.state)[:5])}"
            )


def import_graphormer(
    state: Mapping[str, Tensor], config: Mapping[str, Any]
) -> Imported:
    """Graphormer's released second version (microsoft/Graphormer).

    Args:
        state: the weights, names beginning with ``encoder.``.
        config: options that the weights do not tell: ``multi_hop_max_dist`` (5 if
            absent), ``spatial_pos_max`` (1024), ``activation_fn`` (gelu), rates of
            dropout, and ``node_dims`` and ``bond_dims`` for data other than OGB's
            molecules.

    Raises:
        ValueError: weights are missing or unknown, or contradict the config.
    """
    weights = Weights(
        {name.removeprefix("encoder."): value for name, value in state.items()}
    )
    new: dict[str, Tensor] = {}
    features, bias = (
        "graph_encoder.graph_node_feature.",
        "graph_encoder.graph_attn_bias.",
    )
    schema = _molecule_schema(config)

    atoms = weights.take(features + "atom_encoder.weight")
    new["encoder.node_encoder.embedding.weight"] = _columns_of(
        atoms, 2, schema.num_node_features, "atom_encoder"
    )
    for end in ("in", "out"):  # degree + 1, 0 pads; here higher degrees share the last
        table = weights.take(f"{features}{end}_degree_encoder.weight")
        table = torch.cat([table[1:], table[-1:]])
        new[f"encoder.positions.centrality.{end}_degree.weight"] = table
    new["encoder.virtual_node.embedding.weight"] = weights.take(
        features + "graph_token.weight"
    )

    distance = weights.take(bias + "spatial_pos_encoder.weight")
    edges = weights.take(bias + "edge_encoder.weight")
    new["encoder.attn_bias.virtual.weight"] = weights.take(
        bias + "graph_token_virtual_distance.weight"
    )
    heads = distance.shape[1]
    multi_hop = bias + "edge_dis_encoder.weight" in weights
    max_steps = int(config.get("multi_hop_max_dist", 5))
    columns = len(schema.bond_dims)
    steps = None
    if multi_hop:
        steps = weights.take(bias + "edge_dis_encoder.weight").view(-1, heads, heads)
        new["encoder.attn_bias.edges.weight"] = steps
        steps = steps[:max_steps]
    new["encoder.attn_bias.edges.bonds.embedding.weight"] = _columns_of(
        edges, 3 if multi_hop else 2, columns, "edge_encoder"
    )
    new["encoder.attn_bias.spatial.embedding.weight"] = _distance_table(
        distance, edges[0], steps
    )

    embed_norm = "graph_encoder.emb_layer_norm.weight" in weights
    if embed_norm:
        weights.move("graph_encoder.emb_layer_norm", "encoder.embed_norm", new)
    # Created with pre-LayerNorm only, and never applied.
    pre_layernorm = "graph_encoder.final_layer_norm.weight" in weights
    layers = 0
    while f"graph_encoder.layers.{layers}.fc1.weight" in weights:
        old, layer = f"graph_encoder.layers.{layers}.", f"encoder.layers.{layers}."
        projections = [f"{old}self_attn.{part}_proj" for part in "qkv"]
        weights.join(projections, layer + "attention.qkv_proj", new)
        weights.move(old + "self_attn.out_proj", layer + "attention.out_proj", new)
        weights.move(old + "self_attn_layer_norm", layer + "attention_norm", new)
        weights.move(old + "final_layer_norm", layer + "ffn_norm", new)
        weights.move(old + "fc1", layer + "fc1", new)
        weights.move(old + "fc2", layer + "fc2", new)
        layers += 1
    weights.move("lm_head_transform_weight", "head.transform", new)
    weights.move("layer_norm", "head.norm", new)
    new["head.projection.weight"] = weights.take("embed_out.weight")
    new["head.bias"] = weights.take("lm_output_learned_bias")
    for unused in ("masked_lm_pooler", "graph_encoder.final_layer_norm"):
        weights.drop(f"{unused}.weight", f"{unused}.bias")
    weights.finish()

    width = atoms.shape[1]
    read = {
        "encoder_layers": layers,
        "encoder_embed_dim": width,
        "encoder_ffn_embed_dim": len(new["encoder.layers.0.fc1.weight"]),
        "encoder_attention_heads": heads,
        "edge_type": "multi_hop" if multi_hop else "single_hop",
        "pre_layernorm": pre_layernorm,
        "encoder_normalize_before": embed_norm,
    }
    _check_config(config, read)
    if config.get("num_classes", len(new["head.projection.weight"])) != len(
        new["head.projection.weight"]
    ):
        raise ValueError(
            f"the config says num_classes {config['num_classes']}, the weights have "
            f"{len(new['head.projection.weight'])}"
        )
    activation = config.get("activation_fn", "gelu")
    options = {
        **read,
        "multi_hop_max_dist": max_steps,
        "spatial_pos_max": int(config.get("spatial_pos_max", 1024)),
        # fairseq's GELU and softmax, which the released code calls.
        "activation_fn": {"gelu": "gelu_float32"}.get(activation, activation),
        "float32_softmax": True,
        "head_style": "transform",
        "node_table_size": COLUMN_STRIDE,
        "bond_table_size": COLUMN_STRIDE,
        "num_in_degree": len(new["encoder.positions.centrality.in_degree.weight"]),
        "num_out_degree": len(new["encoder.positions.centrality.out_degree.weight"]),
        "num_spatial": len(new["encoder.attn_bias.spatial.embedding.weight"]),
        "num_edge_dis": len(new["encoder.attn_bias.edges.weight"]) if multi_hop else 0,
        **_dropout_rates(config),
    }
    outputs = len(new["head.projection.weight"])
    # A switch that a preset sets cannot be taken back; without one they are all given.
    arch = "graphormer_base" if embed_norm else "graphormer"
    return Imported(arch, options, schema, outputs, new)


def _distance_table(
    distance: Tensor, no_edge: Tensor, steps: Optional[Tensor]
) -> Tensor:
    """Rows unreachable, 0 hops, 1 hop, ..., with what "no edge" adds to each.

    Args:
        distance: [rows, H]; row 0 pads, row h + 1 is h hops, 511 unreachable.
        no_edge: [H], row 0 of the bond table.
        steps: [L, H, H], the weights of path steps; None: bonds of direct edges only.
    """
    table = torch.empty(max(len(distance), 256), distance.shape[1], dtype=torch.float64)
    table[0] = distance[min(UNREACHABLE_ROW, len(distance) - 1)]
    hops = torch.arange(len(table) - 1)
    table[1:] = distance[(hops + 1).clamp(max=len(distance) - 1)]
    # The last row is for 254 hops and more.
    table[-1] = distance[min(255, len(distance) - 1)]
    no_edge = no_edge.double()
    if steps is None:
        direct = torch.zeros(len(table), 1)
        direct[2] = 1  # one hop: there is an edge
        return (table + no_edge * (1 - direct)).to(distance.dtype)
    # Steps that a path of h hops lacks, over the number of steps of the mean.
    per_step = no_edge @ steps.double()  # [L, H]
    limit = len(steps)
    for row in range(len(table)):
        used = min(row - 1, limit) if row else 0
        divisor = min(max(row - 1, 1), limit) if row else limit
        table[row] += per_step[used:].sum(0) / divisor
    return table.to(distance.dtype)


def import_grpe(state: Mapping[str, Tensor], config: Mapping[str, Any]) -> Imported:
    """The released code of GRPE (lenscloth/GRPE).

    Args:
        state: the weights.
        config: ``nhead``, which the weights do not tell, and rates of dropout.

    Raises:
        ValueError: no ``nhead``; weights are missing or unknown, or contradict the
            config.
    """
    if "nhead" not in config:
        raise ValueError(
            'the weights of GRPE do not tell the number of heads: give --config with {"nhead": ...}'
        )
    weights = Weights(state)
    new: dict[str, Tensor] = {}
    schema = _molecule_schema(config)
    nodes = weights.take("node_emb.weight")
    new["encoder.node_encoder.embedding.weight"] = _columns_of(
        nodes, 1, schema.num_node_features, "node_emb"
    )
    new["encoder.virtual_node.embedding.weight"] = weights.take("task_token.weight")

    independent = "query_hop_emb.0.weight" in weights
    encodings = 0
    while True:
        number = f".{encodings}" if independent else ""
        hop, edge = (
            [weights.take(f"{part}_{kind}_emb{number}.weight") for part in PARTS]
            for kind in ("hop", "edge")
        )
        hop_rows, edge_rows = _grpe_rows(len(hop[0]), len(edge[0]), schema)
        prefix = f"encoder.encodings.{encodings}."
        for name, tables, rows in (
            ("topology", hop, hop_rows),
            ("edge", edge, edge_rows),
        ):
            scores = torch.cat(tables[:2], dim=1)  # query and key side by side
            new[f"{prefix}{name}_attention.weight"] = scores[rows]
            new[f"{prefix}{name}_value.weight"] = tables[2][rows]
        encodings += 1
        if f"query_hop_emb.{encodings}.weight" not in weights:
            break

    layers = 0
    while f"layers.{layers}.ffn.layer1.weight" in weights:
        old, layer = f"layers.{layers}.", f"encoder.layers.{layers}."
        projections = [f"{old}self_attention.linear_{part}" for part in "qkv"]
        weights.join(projections, layer + "attention.qkv_proj", new)
        weights.move(
            old + "self_attention.output_layer", layer + "attention.out_proj", new
        )
        weights.move(old + "self_attention_norm", layer + "attention_norm", new)
        weights.move(old + "ffn_norm", layer + "ffn_norm", new)
        weights.move(old + "ffn.layer1", layer + "fc1", new)
        weights.move(old + "ffn.layer2", layer + "fc2", new)
        layers += 1
    weights.move("final_ln", "encoder.final_norm", new)
    weights.move("linear", "head", new)
    weights.finish()
    if independent and encodings != layers:
        raise ValueError(f"{encodings} sets of encodings for {layers} layers")

    max_hop = len(hop[0]) - 3
    ffn_dim = len(new["encoder.layers.0.fc1.weight"])
    outputs = len(new["head.bias"])
    _check_config(
        config,
        {
            "num_layer": layers,
            "d_model": nodes.shape[1],
            "dim_feedforward": ffn_dim,
            "max_hop": max_hop,
            "num_edge_type": len(edge[0]) - 4,
            "use_independent_token": independent,
            "num_task": outputs,
        },
    )
    options = {
        "encoder_layers": layers,
        "encoder_embed_dim": nodes.shape[1],
        "encoder_ffn_embed_dim": ffn_dim,
        "encoder_attention_heads": int(config["nhead"]),
        "max_hop": max_hop,
        "independent_encodings": independent,
        "key_from_row": True,
        "virtual_is_self": True,
        "node_table_size": COLUMN_STRIDE,
        **_dropout_rates(config),
    }
    return Imported("grpe_standard", options, schema, outputs, new)


PARTS = ("query", "key", "value")


def _grpe_rows(
    hop_rows: int, edge_rows: int, schema: FeatureSchema
) -> tuple[list[int], list[int]]:
    """Rows of GRPE's tables in the order of `RelationEncoding`.

    GRPE has 0..max_hop, virtual, unreachable; and bond types, one unused row, virtual,
    self, no edge, where self is overwritten by no edge before it is read.
    """
    max_hop, num_types = hop_rows - 3, edge_rows - 4
    virtual, unreachable = max_hop + 1, max_hop + 2
    hops = [*range(max_hop + 1), max_hop, unreachable, virtual]  # far as max_hop
    to_virtual, no_edge = num_types + 1, num_types + 3
    bonds = [
        sum(value * 4**column for column, value in enumerate(values))
        for values in schema.bond_columns()[1:].tolist()
    ]
    if max(bonds) >= num_types:
        raise ValueError(
            f"the bonds of {schema.bond_dims} values make {max(bonds) + 1} types, "
            f"the checkpoint has {num_types}"
        )
    return hops, [*bonds, no_edge, no_edge, to_virtual]


def _molecule_schema(config: Mapping[str, Any]) -> FeatureSchema:
    """OGB's molecules unless the config says otherwise."""
    node_dims, bond_dims = feature_dims()
    node_dims = list(config.get("node_dims", node_dims))
    return FeatureSchema(
        len(node_dims), node_dims, list(config.get("bond_dims", bond_dims))
    )


def _columns_of(table: Tensor, first: int, columns: int, name: str) -> Tensor:
    """The rows of `columns` feature columns, the first of them at row `first`."""
    rows = COLUMN_STRIDE * columns
    if len(table) < rows:
        raise ValueError(
            f"{name} has {len(table)} rows, {columns} feature columns need {rows}"
        )
    wanted = table[first : first + rows]
    # The highest values of the last column may lie beyond the released table.
    missing = table.new_zeros(rows - len(wanted), table.shape[1])
    return torch.cat([wanted, missing])


def _check_config(config: Mapping[str, Any], read: Mapping[str, Any]) -> None:
    for name, value in read.items():
        if config.get(name, value) != value:
            raise ValueError(
                f"the config says {name} {config[name]}, the weights have {value}"
            )


def _dropout_rates(config: Mapping[str, Any]) -> dict[str, float]:
    names = ("dropout", "attention_dropout", "act_dropout")
    return {name: float(config[name]) for name in names if name in config}


IMPORTERS = {
    "microsoft-graphormer": import_graphormer,
    "lenscloth-grpe": import_grpe,
}


def read_weights(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Weights of a published checkpoint, alone or under ``model``.

    Raises:
        OSError: there is no such file.
        ValueError: it is none of torch's, holds other things, or no weights.
    """
    state = read_file(path)
    if isinstance(state, Mapping) and isinstance(state.get("model"), Mapping):
        if "schema" in (state.get("task_state") or {}):
            raise ValueError(f"{path} is a checkpoint of graphormer_plugin already")
        state = state["model"]
    if not (
        isinstance(state, Mapping)
        and state
        and all(isinstance(value, Tensor) for value in state.values())
    ):
        raise ValueError(f"{path} holds no weights, alone or under 'model'")
    return dict(state)


def import_published(
    path: str | os.PathLike[str], source: str, config: Mapping[str, Any]
) -> Imported:
    """Read a checkpoint of another code.

    Args:
        path: of the checkpoint.
        source: whose code it is, a key of `IMPORTERS`.
        config: what the weights do not tell.

    Raises:
        OSError, ValueError: see `read_weights`, or the weights are of another model.
    """
    weights = read_weights(path)
    try:
        return IMPORTERS[source](weights, config)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def checkpoint_of(
    imported: Imported, targets: TargetSchema, source: str
) -> dict[str, Any]:
    """A checkpoint as fairseq writes one, without the state of a training run.

    Raises:
        ValueError: the weights do not fit the architecture.
    """
    model = build_model(imported.arch, imported.schema, targets, **imported.options)
    try:
        model.load_state_dict(imported.state)
    except RuntimeError as error:
        raise ValueError(f"the weights do not fit: {error}") from error
    arguments = ["--task", "graph_prediction", "--criterion", "l1_loss"]
    arguments += ["--arch", imported.arch]
    for name, value in imported.options.items():
        flag = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            arguments += [flag] if value else []
        else:
            arguments += [flag, str(value)]
    parser = fairseq_options.get_training_parser(default_task="graph_prediction")
    namespace = fairseq_options.parse_args_and_arch(parser, arguments)
    with warnings.catch_warnings():  # about fairseq's use of Hydra
        warnings.simplefilter("ignore", UserWarning)
        cfg = convert_namespace_to_omegaconf(namespace)
    vocabularies = (imported.schema.node_dims, imported.schema.bond_dims)
    return {
        "args": None,
        "cfg": OmegaConf.to_container(cfg, resolve=True, enum_to_str=True),
        "model": imported.state,
        "task_state": {
            "dataset_name": source,
            "fingerprint": "unknown",
            "featuriser": "ogb" if vocabularies == feature_dims() else "",
            "schema": imported.schema.to_dict(),
            "targets": targets.to_dict(),
        },
        "optimizer_history": [
            {
                "criterion_name": "L1Loss",
                "optimizer_name": "none",
                "lr_scheduler_state": {},
                "num_updates": 0,
            }
        ],
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
        "last_optimizer_state": None,
    }


def parser() -> argparse.ArgumentParser:
    """Arguments of the command."""
    result = argparse.ArgumentParser(
        prog="graphormer-convert",
        description="Turn a published checkpoint into one of this project, make one "
        "smaller, or say what is in it.",
    )
    modes = result.add_mutually_exclusive_group(required=True)
    modes.add_argument(
        "--from",
        dest="source",
        choices=sorted(IMPORTERS),
        help="IN is a checkpoint of this published code",
    )
    modes.add_argument(
        "--slim",
        action="store_true",
        help="leave out what only a resumed training needs, such as the optimiser",
    )
    modes.add_argument("--info", action="store_true", help="print what is in IN")
    add = result.add_argument
    add("input", metavar="IN", help="checkpoint to read")
    add("output", metavar="OUT", nargs="?", help="checkpoint to write, a new file")
    published = result.add_argument_group("with --from")
    add = published.add_argument
    add(
        "--config",
        metavar="FILE.json",
        help="options of the released code that the weights do not tell, such as nhead",
    )
    add(
        "--target-names",
        metavar="A,B,...",
        help="names of the outputs; default y, or y0, y1, ...",
    )
    add("--target-kind", choices=("regression", "binary"), help="default: regression")
    add("--target-unit", help="of a regression target, for messages")
    result.add_argument(
        "--debug", action="store_true", help="show the traceback of an error"
    )
    return result


@command
def main(argv: Optional[Sequence[str]] = None) -> int:
    """Runs the command; returns its exit code."""
    arguments = parser().parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", force=True)
    check_arguments(arguments)
    if arguments.info:
        for name, value in describe(arguments.input).items():
            text = str(value)  # of the file: it may hold what a terminal obeys
            print(f"{name}: {text if text.isprintable() else ascii(text)}")
        return 0
    check_output(arguments.output, arguments.input)
    if arguments.slim:
        state = slim(read_checkpoint(arguments.input).state)
        text = "without what only a resumed training needs"
    else:
        state, text = convert(arguments)
    with atomic_write(arguments.output) as file:
        torch.save(state, file)
    print(f"{arguments.output}: {text}")
    if arguments.slim:
        before, after = map(os.path.getsize, (arguments.input, arguments.output))
        print(f"before: {before:,} bytes")
        print(f"after: {after:,} bytes, {after / before:.0%}")
    return 0


def check_arguments(arguments: argparse.Namespace) -> None:
    """Refuse what the mode has no use for.

    Raises:
        ValueError: names the argument.
    """
    if arguments.info and arguments.output:
        raise ValueError(f"--info writes no file: leave out {arguments.output}")
    if not (arguments.info or arguments.output):
        raise ValueError("no OUT: name the checkpoint to write")
    for name in ("config", "target_names", "target_kind", "target_unit"):
        if not arguments.source and getattr(arguments, name) is not None:
            raise ValueError(f"--{name.replace('_', '-')} goes with --from only")


def convert(arguments: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Convert a published checkpoint.

    Returns:
        The checkpoint, and a line on it.

    Raises:
        OSError, ValueError: a file is missing or unfit.
    """
    config = {}
    if arguments.config:
        config = json.loads(Path(arguments.config).read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise ValueError(f"{arguments.config} holds no JSON object")
    imported = import_published(arguments.input, arguments.source, config)
    targets = target_schema(arguments, imported.num_outputs)
    count = sum(weight.numel() for weight in imported.state.values())
    sizes = imported.options
    text = (
        f"{imported.arch.partition('_')[0]}, "
        f"{sizes['encoder_layers']} layers of width {sizes['encoder_embed_dim']}, "
        f"{sizes['encoder_attention_heads']} heads, {count:,} parameters, "
        f"targets {', '.join(targets.names)}"
    )
    return checkpoint_of(imported, targets, arguments.source), text


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What is in a checkpoint, by name, for people to read.

    Raises:
        OSError, ValueError: see `hub.load`.
    """
    parameters = sum(weight.numel() for weight in hub.load(path).model.parameters())
    checkpoint = read_checkpoint(path)
    state, targets = checkpoint.state, checkpoint.targets
    cfg, task_state, extra = state["cfg"], state["task_state"], state["extra_state"]
    with complete(path):
        unit = {"binary": "0 or 1", "multiclass": f"{targets.num_classes} classes"}.get(
            targets.kind, targets.unit or "no unit"
        )
        preset = preset_options(checkpoint.arch)
        options = [
            setting(name, value)
            for name, value in cfg["model"].items()
            if name in preset and name != "_name" and value != preset[name]
        ]
        result = {
            "file": path,
            "size": f"{os.path.getsize(path):,} bytes",
            "architecture": checkpoint.arch,
            "options": " ".join(options) or "the preset's",
            "parameters": f"{parameters:,}",
            "task": cfg["task"]["_name"],
            "criterion": cfg["criterion"]["_name"],
            "dataset": task_state["dataset_name"],
            "fingerprint": task_state["fingerprint"],
            "featuriser": task_state.get("featuriser") or "none: graphs, not SMILES",
            "targets": f"{', '.join(targets.names)} ({unit})",
            "kind": f"{targets.kind}, a prediction per {targets.level}",
            "epochs": checkpoint.epochs,
            "updates": checkpoint.updates,
        }
        metric = cfg["checkpoint"]["best_checkpoint_metric"]
        for name, key in ((f"best {metric}", "best"), (f"{metric} here", "val_loss")):
            if extra.get(key) is not None:
                result[name] = f"{extra[key]:.6g}"
        result["optimiser"] = "yes" if state.get("last_optimizer_state") else "no, slim"
        versions = task_state.get("versions", {})
        words = [f"{name} {version}" for name, version in versions.items()]
        result["versions"] = ", ".join(words) or "not stored"
    return result


def target_schema(arguments: argparse.Namespace, num_outputs: int) -> TargetSchema:
    """Targets as the arguments name them.

    Raises:
        ValueError: another number of names than outputs.
    """
    names = ["y"] if num_outputs == 1 else [f"y{i}" for i in range(num_outputs)]
    if arguments.target_names:
        names = [name.strip() for name in arguments.target_names.split(",")]
        if len(names) != num_outputs:
            raise ValueError(
                f"--target-names has {len(names)} names, the checkpoint has "
                f"{num_outputs} outputs"
            )
    return TargetSchema(
        names,
        unit=arguments.target_unit or "",
        kind=arguments.target_kind or "regression",
    )


if __name__ == "__main__":
    sys.exit(main())
