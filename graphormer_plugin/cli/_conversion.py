"""Convert a checkpoint, strip its training state, or describe it."""

import argparse
import json
import os
from typing import Any

import graphormer_plugin.tasks  # noqa: F401  (registers them with fairseq)
from graphormer_plugin import hub
from graphormer_plugin.choices import check_least
from graphormer_plugin.cli import print_line
from graphormer_plugin.data.columns import Level
from graphormer_plugin.data.errors import named_damage
from graphormer_plugin.data.files import PathName, read_text
from graphormer_plugin.data.tables.labels import default_names
from graphormer_plugin.data.tables.options import names_of
from graphormer_plugin.data.targets import Kind, TargetSchema
from graphormer_plugin.finetune.transfer import setting
from graphormer_plugin.inference.checkpoint import (
    check_output,
    checkpoint_path,
    invalid_checkpoint_errors,
    read_checkpoint,
    slim,
    write_file,
)
from graphormer_plugin.models import ARCHITECTURES
from graphormer_plugin.published import checkpoint_of, import_published


def run(arguments: argparse.Namespace) -> None:
    """Run ``graphormer-convert`` with checked arguments."""
    if not arguments.source:
        arguments.input = os.fspath(checkpoint_path(arguments.input))
    if arguments.info:
        for name, value in describe(arguments.input).items():
            print_line(f"{name}: {value}")
        return
    check_output(arguments.output)
    if arguments.slim:
        state = slim(read_checkpoint(arguments.input).state, arguments.vectors or ())
        text = "without training state"
    else:
        state, text = convert(arguments)
    write_file(state, arguments.output)
    print_line(f"{arguments.output}: {text}")
    if arguments.slim:
        before, after = map(os.path.getsize, (arguments.input, arguments.output))
        print_line(f"before: {before:,} bytes")
        print_line(f"after: {after:,} bytes, {after / before:.0%}")


def convert(arguments: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Convert a published checkpoint; returns it and a line that describes it."""
    config = {}
    if arguments.config:
        with named_damage(f"{arguments.config} holds no JSON object"):
            config = {**json.loads(read_text(arguments.config))}
    if arguments.node_index:
        config["node_index"] = arguments.node_index
    imported = import_published(arguments.input, arguments.source, config)
    targets = target_schema(arguments, imported.num_outputs, imported.level)
    count = sum(weight.numel() for weight in imported.state.values())
    sizes = imported.options
    text = (
        f"{imported.arch.partition('_')[0]}, "
        f"{sizes['encoder_layers']} layers of width {sizes['encoder_embed_dim']}, "
        f"{sizes['encoder_attention_heads']} heads, {count:,} parameters, "
        f"targets {', '.join(targets.names)}"
    )
    return checkpoint_of(imported, targets, arguments.source), text


def describe(path: PathName) -> dict[str, Any]:
    """Contents of a checkpoint by name, as text to print."""
    parameters = sum(
        weight.numel() for weight in hub.load(path, head=None).model.parameters()
    )
    checkpoint = read_checkpoint(path)
    state = checkpoint.state
    targets = checkpoint.targets
    cfg = state["cfg"]
    task_state = state["task_state"]
    extra = state["extra_state"]
    with invalid_checkpoint_errors(path):
        words = "; ".join(", ".join(names) for names in targets.class_names if names)
        preset = ARCHITECTURES[checkpoint.arch].options()
        options = [
            setting(name, value)
            for name, value in cfg["model"].items()
            if name in preset and value != preset[name]
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
            "targets": f"{', '.join(targets.names)} ({targets.meaning})",
            "kind": f"{targets.kind}, a prediction per {targets.level}",
            **({"classes": words} if words else {}),
            "epochs": checkpoint.epochs,
            "updates": checkpoint.updates,
        }
        metric = cfg["checkpoint"]["best_checkpoint_metric"]
        for name, key in ((f"best {metric}", "best"), (f"{metric} here", "val_loss")):
            if extra.get(key) is not None:
                result[name] = f"{extra[key]:.6g}"
        if task_state.get("vectors"):
            result["vectors"] = ", ".join(task_state["vectors"])
        result["optimiser"] = "yes" if state.get("last_optimizer_state") else "no, slim"
        versions = task_state.get("versions", {})
        words = [f"{name} {version}" for name, version in versions.items()]
        result["versions"] = ", ".join(words) or "not stored"
    return result


def target_schema(
    arguments: argparse.Namespace, num_outputs: int, level: Level
) -> TargetSchema:
    """Targets with the names, the kind and the unit of the arguments."""
    kind = Kind(arguments.target_kind or Kind.REGRESSION)
    if level is Level.NODE:
        kind = Kind.MULTICLASS
        if arguments.target_kind or arguments.target_unit:
            raise ValueError(
                "--target-kind and --target-unit are for predictions of graphs, and IN "
                "predicts classes of nodes"
            )
    elif not kind.has_one_output:
        check_least("outputs of IN as classes of a target", num_outputs, 2)
    if not kind.has_one_output:
        names = [arguments.target_names or "y"]
        return TargetSchema.of(names, kind=kind, level=level, num_classes=num_outputs)
    names = names_of(arguments.target_names or "") or default_names(num_outputs)
    if len(names) != num_outputs:
        raise ValueError(
            f"--target-names has {len(names)} names, the checkpoint has "
            f"{num_outputs} outputs"
        )
    return TargetSchema.of(names, unit=arguments.target_unit or "", kind=kind)
