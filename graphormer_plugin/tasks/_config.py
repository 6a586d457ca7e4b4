"""Options of the tasks."""

import logging
from dataclasses import dataclass, field
from typing import Any, Optional

from fairseq.dataclass import FairseqDataclass
from omegaconf import II

from graphormer_plugin.data.options import DatasetConfig
from graphormer_plugin.data.schema import TARGET_SCALES
from graphormer_plugin.finetune.published import NONE
from graphormer_plugin.modules.choices import check_choice

logger = logging.getLogger(__name__)


@dataclass
class GraphPredictionConfig(DatasetConfig, FairseqDataclass):
    """Options of ``--task graph_prediction``; the names are Graphormer v2's.

    None of them is required on the command line, because fairseq-validate parses the
    same options and takes the values from the checkpoint. The task checks them.
    """

    num_classes: Optional[int] = field(
        default=None,
        metadata={
            "help": "outputs of the model, >= 1 (default: the dataset's number of "
            "targets or classes; any other number is an error)"
        },
    )
    max_nodes: Optional[int] = field(
        default=None,
        metadata={
            "help": "nodes of the largest allowed graph, >= 1; a larger graph is an "
            "error (default: no limit)"
        },
    )
    target_scale: str = field(
        default="standardise",
        metadata={
            "help": "regression targets that the model learns: standardise (mean 0 and "
            "deviation 1 over the training split), or none (as they are, which the "
            "published codes do); metrics and predictions have the target's unit"
        },
    )
    max_pairs: Optional[int] = field(
        default=None,
        metadata={
            "help": "padded pairs of nodes of a batch, graphs x nodes of the largest "
            "squared, >= 1: what the memory of attention grows with (default: no limit)"
        },
    )
    bucket_ratio: Optional[float] = field(
        default=None,
        metadata={
            "help": "relative width of the size buckets of training batches, >= 0; "
            "0 gives each size its own bucket (least padding), 1e9 mixes all sizes "
            "(default: 0.1; for a model with BatchNorm all sizes are mixed)"
        },
    )
    pretrained_model_name: str = field(
        default=NONE,
        metadata={
            "help": "published model to start from (examples/published), "
            "grpe_small_descriptors, which comes with the package, or NAME of a file "
            "NAME.pt in --pretrained-dir; none starts from random weights"
        },
    )
    pretrained_dir: Optional[str] = field(
        default=None,
        metadata={
            "help": "folder of published models; searched first, then the environment "
            "variable GRAPHORMER_PRETRAINED_DIR, then the folder pretrained below the "
            "data root"
        },
    )
    load_pretrained_model_output_layer: bool = field(
        default=False,
        metadata={
            "help": "with --finetune-from-model or --pretrained-model-name: keep the "
            "output layer, whatever the targets are called; their number must agree"
        },
    )
    train_epoch_shuffle: bool = field(
        default=False,
        metadata={
            "help": "option of Graphormer v2 without effect: every epoch has new batches"
        },
    )
    seed: int = II("common.seed")
    update_freq: Any = II("optimization.update_freq")
    ddp_backend: str = II("distributed_training.ddp_backend")
    results_path: Optional[str] = II("common_eval.results_path")
    save_dir: str = II("checkpoint.save_dir")
    no_save: bool = II("checkpoint.no_save")
    checkpoint_suffix: str = II("checkpoint.checkpoint_suffix")
    restore_file: str = II("checkpoint.restore_file")
    finetune_from_model: Optional[str] = II("checkpoint.finetune_from_model")
    reset_optimizer: bool = II("checkpoint.reset_optimizer")


def check_options(cfg: GraphPredictionConfig) -> None:
    """Check values, and say which option has no effect.

    Raises:
        ValueError: a value is out of its range.
    """
    for name, low in [
        ("num_classes", 1),
        ("max_nodes", 1),
        ("prepare_workers", 1),
        ("bucket_ratio", 0),
    ]:
        value = getattr(cfg, name)
        if value is not None and not value >= low:
            flag = "--" + name.replace("_", "-")
            raise ValueError(f"{flag} {value}: expected {low} or more")
    check_choice("--target-scale", cfg.target_scale, TARGET_SCALES)
    if cfg.train_epoch_shuffle:
        logger.info("--train-epoch-shuffle has no effect: every epoch has new batches")
