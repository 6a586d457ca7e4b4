"""Options of the tasks, and their checks."""

import logging
from dataclasses import dataclass
from typing import Any, Optional

from fairseq.dataclass import FairseqDataclass
from omegaconf import II

from graphormer_plugin.choices import check_choice, check_least, option
from graphormer_plugin.data.tables.options import DatasetConfig, flag_of
from graphormer_plugin.data.targets import TARGET_SCALES
from graphormer_plugin.published.names import NONE

logger = logging.getLogger(__name__)


@dataclass
class GraphPredictionConfig(DatasetConfig, FairseqDataclass):
    """Options of ``--task graph_prediction``; the names are Graphormer v2's.

    All of them are optional on the command line, because fairseq-validate parses the same
    options and takes the values from the checkpoint. The task checks them.
    """

    num_classes: Optional[int] = option(
        None,
        "outputs of the model, >= 1 (default: the dataset's number of targets or "
        "classes; any other number is an error)",
    )
    max_nodes: Optional[int] = option(
        None,
        "nodes of the largest allowed graph, >= 1; a larger graph is an error "
        "(default: no limit)",
    )
    target_scale: str = option(
        "standardise",
        "regression targets that the model learns: standardise (mean 0 and deviation "
        "1 over the training split), or none (as they are, which the published codes "
        "do); metrics and predictions have the target's unit",
    )
    element_energies: Optional[str] = option(
        None,
        "energies of the elements, fitted to the training split, are subtracted from the "
        "target: yes or no (default: yes for energies with forces, and for a target of a file "
        "with positions if that lowers its spread by more than half)",
    )
    max_pairs: Optional[int] = option(
        None,
        "padded pairs of nodes of a batch, graphs x nodes of the largest squared, >= "
        "1; the memory of attention grows with them (default: no limit)",
    )
    bucket_ratio: Optional[float] = option(
        None,
        "relative width of the size buckets of training batches, >= 0; 0 gives each "
        "size its own bucket (least padding), 1e9 mixes all sizes (default: 0.1; for "
        "a model with BatchNorm all sizes are mixed)",
    )
    pretrained_model_name: str = option(
        NONE,
        "published model to start from (examples/published), grpe_minimol, which comes "
        "with the package, NAME of a file NAME.pt in --pretrained-dir, or a folder of "
        "Hugging Face's; none starts from random weights",
    )
    node_index: Optional[str] = option(
        None,
        "preprocessing that this published Graphormer was trained with: microsoft or "
        "huggingface (default: microsoft; in folders of Hugging Face that only for the two "
        "published models)",
    )
    pretrained_dir: Optional[str] = option(
        None,
        "folder of published models; searched first, then the environment variable "
        "GRAPHORMER_PRETRAINED_DIR, then the folder pretrained below the data root",
    )
    load_pretrained_model_output_layer: bool = option(
        False,
        "keep the output layer of --finetune-from-model or --pretrained-model-name for "
        "targets of other names; their number must agree",
    )
    train_epoch_shuffle: bool = option(
        False, "option of Graphormer v2 without effect: every epoch has new batches"
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


def check_flags(cfg: Any, **least: float) -> None:
    """Raise ValueError if an option is below its lowest value; None is not checked."""
    for name, low in least.items():
        check_least(flag_of(name), getattr(cfg, name), low)


def check_options(cfg: GraphPredictionConfig) -> None:
    """Check values, and log an option without effect."""
    check_flags(cfg, num_classes=1, max_nodes=1, prepare_workers=1, bucket_ratio=0)
    check_choice("--target-scale", cfg.target_scale, TARGET_SCALES)
    if cfg.element_energies is not None:
        check_choice("--element-energies", cfg.element_energies, ("yes", "no"))
    if cfg.train_epoch_shuffle:
        logger.info("--train-epoch-shuffle has no effect: every epoch has new batches")
