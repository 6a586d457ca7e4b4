"""Read published checkpoints of other codes, and convert them to this package's."""

import warnings
from collections.abc import Mapping
from typing import Any

from fairseq import options as fairseq_options
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

from graphormer_plugin.data.columns import Level
from graphormer_plugin.data.errors import named_damage
from graphormer_plugin.data.files import PathName
from graphormer_plugin.data.graphs.smiles import feature_dims
from graphormer_plugin.data.tables.options import flag_words
from graphormer_plugin.data.targets import Kind, TargetSchema
from graphormer_plugin.models import build_model
from graphormer_plugin.published._shared import Imported, read_weights
from graphormer_plugin.published.csa import import_csa
from graphormer_plugin.published.graph_transformer import (
    import_graph_transformer,
)
from graphormer_plugin.published.graphormer import import_graphormer
from graphormer_plugin.published.grpe import import_grpe
from graphormer_plugin.published.huggingface import read_folder

_IMPORTERS = {  # a key for each of `PUBLISHED_CODES`
    "huggingface": import_graphormer,
    "microsoft-graphormer": import_graphormer,
    "lenscloth-grpe": import_grpe,
    "csa": import_csa,
    "graphtransformer": import_graph_transformer,
}
CRITERIA = {kind: kind.loss for kind in Kind} | {Kind.REGRESSION: "l1_loss"}


def import_published(
    path: PathName, source: str, config: Mapping[str, Any]
) -> Imported:
    """Read a checkpoint of another code; of ``huggingface`` a folder."""
    if source == "huggingface":
        weights, config = read_folder(path, config)
    else:
        weights = read_weights(path)
    with named_damage(f"{path} or --config has a wrong value"):
        return _IMPORTERS[source](weights, config)


def checkpoint_of(
    imported: Imported, targets: TargetSchema, source: str
) -> dict[str, Any]:
    """A checkpoint in fairseq's format, without training state."""
    with named_damage("the weights do not fit"):
        model = build_model(imported.arch, imported.schema, targets, **imported.options)
        model.load_state_dict(imported.state)
    criterion = "weighted_cross_entropy"
    if targets.level is Level.GRAPH:
        criterion = CRITERIA[targets.kind]
    task = targets.level.task
    options = {name: x for name, x in imported.options.items() if x is not False}
    options |= {"task": task, "criterion": criterion, "arch": imported.arch}
    parser = fairseq_options.get_training_parser(default_task=task)
    namespace = fairseq_options.parse_args_and_arch(parser, flag_words(options))
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
                "criterion_name": CRITERION_REGISTRY[criterion].__name__,
                "optimizer_name": "none",
                "lr_scheduler_state": {},
                "num_updates": 0,
            }
        ],
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
        "last_optimizer_state": None,
    }
