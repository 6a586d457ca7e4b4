"""Checks of a run's options, model and best metric, and the end of a finished training."""

import logging
from importlib.util import find_spec
from typing import Any

import torch
from fairseq.criterions import FairseqCriterion
from fairseq.logging import progress_bar
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from omegaconf import DictConfig

from graphormer_plugin.criterions.graph_criterion import GraphCriterion
from graphormer_plugin.criterions.metrics import RISING
from graphormer_plugin.data.tables.options import flag_of
from graphormer_plugin.inference.pretrained import Pretrained
from graphormer_plugin.inference.split_predictions import check_results_path
from graphormer_plugin.processes import is_first_process

logger = logging.getLogger(__name__)

# Options of loggers, their packages, and the names that fairseq has only with these.
LOGGERS = (
    ("wandb_project", "wandb", "wandb"),
    ("tensorboard_logdir", "tensorboardX", "SummaryWriter"),
    ("aim_repo", "aim", "AimRepo"),
    ("azureml_logging", "azureml-core", "Run"),
)


def run_options(cfg: Any) -> DictConfig | None:
    """The options of the run to which a task's options belong; None without fairseq's
    commands."""
    run = cfg._get_parent() if isinstance(cfg, DictConfig) else None
    return run if run is not None and "checkpoint" in run else None


def check_common(common: DictConfig) -> None:
    """Raise ValueError if this machine cannot train with the type of the weights, or lacks
    a logger, that fairseq's options ``common`` name."""
    if common.tpu and find_spec("torch_xla") is None:
        raise ValueError("--tpu: fairseq needs torch_xla, which is not installed")
    gpu = torch.cuda.is_available() and not common.cpu
    if common.fp16 and not (
        gpu or common.fp16_no_flatten_grads or common.memory_efficient_fp16
    ):
        raise ValueError(
            "--fp16: training without a GPU also needs --fp16-no-flatten-grads"
        )
    if common.amp and not gpu:
        logger.warning("--amp has no effect without a GPU")
    for option, package, name in LOGGERS:
        if common[option] and getattr(progress_bar, name) is None:
            flag = flag_of(option)
            raise ValueError(f"{flag}: {package} is not installed (pip install it)")


# The model, the criterion, and the metric that selects the best checkpoint


def check_for_graphs(flag: str, component: type | None, example: str) -> None:
    """Raise ValueError if a flag names a component of fairseq, which is for text."""
    if component is not None and component.__module__.startswith("fairseq."):
        raise ValueError(
            f"{flag} is fairseq's, for text; name one for graphs, e.g. {example} "
            "(python -m graphormer_plugin lists them)"
        )


def check_model(cfg: Any) -> None:
    """Raise ValueError if ``--arch`` is a model of fairseq; some have ``arch`` instead of
    ``_name``."""
    name = getattr(cfg, "_name", None) or getattr(cfg, "arch", None)
    model = ARCH_MODEL_REGISTRY.get(name) or MODEL_REGISTRY.get(name)
    check_for_graphs(f"--arch {name}", model, "grpe_small")


def check_criterion(
    criterion: FairseqCriterion, name: str, results_path: str | None
) -> None:
    """Raise ValueError for a criterion of fairseq, and for ``--results-path`` without a
    `GraphCriterion`, because other criterions do not keep outputs."""
    check_for_graphs(f"--criterion {name}", type(criterion), "l1_loss")
    if not results_path:
        return
    check_results_path(results_path)
    if not isinstance(criterion, GraphCriterion):
        raise ValueError(f"--results-path: --criterion {name} is not a GraphCriterion")


def settle_metric(run: DictConfig, criterion: FairseqCriterion) -> None:
    """Check ``--best-checkpoint-metric``, and set ``--maximize-best-checkpoint-metric`` in the
    options of the run for a metric that should rise, such as ROC-AUC."""
    if not isinstance(criterion, GraphCriterion):
        return
    name = run.checkpoint.best_checkpoint_metric
    names = criterion.known_metrics()
    if name not in names:
        logs_others = type(criterion).log_metrics.__module__.partition(".")[0]
        if logs_others != __name__.partition(".")[0]:
            return  # a user's own metrics
        raise ValueError(
            f"--best-checkpoint-metric {name}: {run.criterion._name} has "
            f"{', '.join(names)}"
        )
    maximize = run.checkpoint.maximize_best_checkpoint_metric
    if maximize and name not in RISING:
        flag = "--maximize-best-checkpoint-metric"
        raise ValueError(f"{flag}: {name} is better when it is smaller; leave it out")
    if name in RISING and not maximize:
        for options in (run.checkpoint, run.lr_scheduler):  # a schedule by plateaus
            if "maximize_best_checkpoint_metric" in options:
                options.maximize_best_checkpoint_metric = True
        logger.info(
            "%s is better when it is larger: --maximize-best-checkpoint-metric is set",
            name,
        )


# A training that is started again


def stop_if_finished(run: DictConfig, start: Pretrained) -> None:
    """End the command, with exit code 0 and a message, if a training that is resumed has
    nothing left to do. fairseq would make another update before it compares the limits.
    """
    reason = why_finished(run, start)
    if not reason:
        return
    if is_first_process():
        logger.info(
            "%s: this training is finished (%s); nothing was changed. To train on, raise "
            "the limit; for a new training, give another --save-dir",
            start.path,
            reason,
        )
    raise SystemExit(0)


def why_finished(run: DictConfig, start: Pretrained) -> str:
    """The limit that a training has reached; empty if it has not."""
    done = start.progress
    if done is None or run.checkpoint.reset_optimizer:
        return ""
    limits = run.optimization
    if limits.max_update and done.updates >= limits.max_update:
        return f"{done.updates:,} updates, --max-update {limits.max_update}"
    if limits.stop_time_hours > 0 and done.hours > limits.stop_time_hours:
        return f"{done.hours:.2f} hours, --stop-time-hours {limits.stop_time_hours}"
    if run.checkpoint.reset_dataloader:
        return ""
    if limits.max_epoch and done.next_epoch > limits.max_epoch:
        return f"{done.next_epoch - 1} epochs, --max-epoch {limits.max_epoch}"
    patience = run.checkpoint.patience
    waited = done.validations_without_gain
    if 0 < patience <= waited:
        return f"{waited} validations without a better metric, --patience {patience}"
    return ""
