"""Weights of another training run, translated to a new model.

The other run may have had other targets (the head is initialised anew), other
vocabularies (rows of tables are matched by their values) and other options. The options
that shape the model are compared; a different width or depth is an error.
"""

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any

import torch
from omegaconf import DictConfig, open_dict
from torch import Tensor

from graphormer_plugin.data.errors import listed
from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.tables.options import flag_of
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.inference.pretrained import Pretrained
from graphormer_plugin.models import ARCHITECTURES, FEATURES_WEIGHT, GraphModel
from graphormer_plugin.modules.encodings.vocabulary import RowLabels, model_row_labels

logger = logging.getLogger(__name__)

# Options that always have to agree.
SIZES = (
    "encoder_embed_dim",
    "encoder_layers",
    "encoder_ffn_embed_dim",
    "encoder_attention_heads",
)


def resolve_options(cfg: DictConfig, start: Pretrained, resumes: bool = False) -> None:
    """Take over the options that shape a model from the checkpoint it starts from.

    An option that differs from its preset was chosen for this run and stays; where a run
    is resumed, it has to agree, as sizes always have to. The options, ``cfg``, are changed
    in place, because they go into the checkpoints of this run. Rates of dropout are taken
    over where the run is resumed.
    """
    saved = start.options
    if not saved:
        return
    arch = cfg.get("_name")
    saved_arch = saved.get("_name")
    here, there = (ARCHITECTURES.get(name) for name in (arch, saved_arch))
    if arch != saved_arch and not (here and there and here.family == there.family):
        raise ValueError(
            f"{start.path} is a checkpoint of {saved_arch}, this run has --arch {arch}"
        )
    # Where fairseq alone knows the model, its sizes can be compared.
    preset = here.options() if here else dict.fromkeys(SIZES)
    fields = dataclasses.fields(here.config) if here else ()
    run_only = {field.name for field in fields if field.metadata.get("run_only")}
    adopted = []
    chosen = []
    different = []
    for name in sorted(preset.keys() - run_only):
        if name not in cfg or name not in saved or cfg[name] == saved[name]:
            continue
        rate = name.endswith("dropout")
        there = setting(name, saved[name])
        text = f"{setting(name, cfg[name])} (there {there})"
        if name in SIZES:
            different.append(text)
        elif rate and not resumes:
            continue
        elif cfg[name] == preset[name]:
            with open_dict(cfg):
                cfg[name] = saved[name]
            adopted.append(there)
        elif resumes and not rate:
            different.append(text)
        else:
            chosen.append(text)
    if different:
        raise ValueError(
            f"{start.path} was trained with other options, which have to agree, than this "
            f"run: {', '.join(different)}"
        )
    if adopted:
        logger.info("options taken from %s: %s", start.path, ", ".join(adopted))
    if chosen:
        logger.info("options other than in %s: %s", start.path, ", ".join(chosen))


def setting(name: str, value: Any) -> str:
    """An option and its value as typed on the command line."""
    if isinstance(value, bool):
        return flag_of(name) if value else f"no {flag_of(name)}"
    return f"{flag_of(name)} {value}"


def translate(
    weights: Mapping[str, Tensor],
    model: GraphModel,
    start: Pretrained,
    schema: FeatureSchema,
    targets: TargetSchema,
    keep_head: bool = False,
) -> dict[str, Tensor]:
    """Weights for a model from another run, ``start``; logs what it did with each.

    Weights that the other run does not have stay as they were initialised. So does the
    head if the targets are others, unless ``keep_head``.
    """
    here = model.state_dict()
    labels = model_row_labels(model, start.schema, weights)
    own_labels = model_row_labels(model, schema, here)
    outputs = model.output_names
    head_kept = _keeps_head(start, targets, keep_head)
    result = {}
    loaded = 0
    anew = []
    notes = []
    for name, tensor in here.items():
        source = weights.get(name)
        if name in outputs and not head_kept:
            source = None
        if source is None or name == FEATURES_WEIGHT:  # other columns, other scales
            result[name] = tensor
            anew.append(name)
            continue
        rows = labels.get(name), own_labels.get(name)
        # A table may have other rows; any other weight has the same shape.
        dim = rows[1].dim if all(rows) else max(source.dim(), tensor.dim())
        shapes = [[*t.shape[:dim], *t.shape[dim + 1 :]] for t in (source, tensor)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"{name} is {list(source.shape)} in {start.path}, "
                f"{list(tensor.shape)} here; the options of the model have to agree"
            )
        if source.shape == tensor.shape and (rows[0] == rows[1] or not all(rows)):
            result[name] = source
            loaded += 1
        else:
            result[name], note = _move_rows(source, rows[0], tensor, rows[1])
            notes.append(f"mapped by vocabulary: {name}, {note}")
    if head_kept:
        _restandardise(result, outputs, start.targets, targets)
    logger.info("loaded from %s: %d of %d tensors", start.path, loaded, len(here))
    for note in notes:
        logger.info(note)
    if anew:
        names = [targets_text(schema) for schema in (start.targets, targets)]
        reason = "" if head_kept else " (targets there {}, here {})".format(*names)
        logger.info("re-initialised%s: %s", reason, ", ".join(anew))
    skipped = [name for name in weights if name not in here]
    if skipped:
        logger.info("skipped, not in this model: %s", ", ".join(skipped))
    return result


def targets_text(targets: TargetSchema) -> str:
    """Number of targets and at most three of their names."""
    return f"{targets.num_outputs}: {listed(targets.names)}"


def _move_rows(
    source: Tensor, source_labels: RowLabels, target: Tensor, target_labels: RowLabels
) -> tuple[Tensor, str]:
    """The target table with the rows of the source that have the same label, and their
    numbers for the log."""
    dim = target_labels.dim
    wanted, had = (
        {label: row for row, label in enumerate(rows.labels) if label is not None}
        for rows in (target_labels, source_labels)
    )
    pairs = [(row, had[label]) for label, row in wanted.items() if label in had]
    result = target.clone()
    if pairs:
        here, there = torch.tensor(pairs).T
        rows = source.to(target).index_select(dim, there.to(target.device))
        result.index_copy_(dim, here.to(target.device), rows)
    new = len(wanted) - len(pairs)
    unused = len(had) - len(pairs)
    counts = f"{new} new, {unused} of the checkpoint not used"
    return result, f"{len(pairs)} of {len(wanted)} rows ({counts})"


def _keeps_head(start: Pretrained, targets: TargetSchema, keep_head: bool) -> bool:
    there = start.targets
    if keep_head and there.num_outputs != targets.num_outputs:
        raise ValueError(
            f"--load-pretrained-model-output-layer, but {start.path} has "
            f"{there.num_outputs} outputs and this run {targets.num_outputs}"
        )
    parts = ("names", "kind", "level", "num_outputs", "class_names")
    same = all(getattr(there, part) == getattr(targets, part) for part in parts)
    return keep_head or same


def _restandardise(
    weights: dict[str, Tensor],
    outputs: list[str],
    there: TargetSchema,
    here: TargetSchema,
) -> None:
    """Rescale a head, in place, so that it predicts the same values although mean and
    standard deviation of the targets have changed.

    A bias that all outputs share becomes the mean of the biases that they need.
    """
    if len(outputs) != 2 or (there.mean, there.std) == (here.mean, here.std):
        return
    weight, bias = (weights[name] for name in outputs)
    count = here.num_outputs
    mean, std, new_mean, new_std = (
        torch.tensor(values or [default] * count, dtype=torch.float64)
        for targets in (there, here)
        for values, default in ((targets.mean, 0.0), (targets.std, 1.0))
    )
    ratio = std / new_std
    shift = (mean - new_mean) / new_std
    new_bias = bias.cpu().double() * ratio + shift
    if len(bias) == 1 and count > 1:
        new_bias = new_bias.mean(0, keepdim=True)
    scaled = weight.cpu().double() * ratio.unsqueeze(-1)
    weights[outputs[0]] = scaled.to(weight)
    weights[outputs[1]] = new_bias.to(bias)
