"""The checkpoint that a training starts from or resumes, and its weights in a new model."""

import functools
import logging
import os
from contextlib import ContextDecorator
from dataclasses import dataclass, replace
from typing import Any

from graphormer_plugin.data.files import claim_folder
from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.store import GraphStore
from graphormer_plugin.data.tables.options import flag_of
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.finetune.resume import check_weights, read_last
from graphormer_plugin.finetune.transfer import translate
from graphormer_plugin.inference.pretrained import Pretrained, read_pretrained
from graphormer_plugin.models import GraphModel
from graphormer_plugin.processes import is_first_process
from graphormer_plugin.published.names import NONE, load_pretrained

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StartingPoint:
    """Where a training starts.

    Attributes:
        checkpoint: has the options of the model.
        resumes: whether it is the last checkpoint of this training; fairseq loads it.
        through_trainer: whether fairseq's trainer gives the model the weights, on all
            processes.
        keep_head: whether to use the checkpoint's output layer, see `translate`.
    """

    checkpoint: Pretrained
    resumes: bool = False
    through_trainer: bool = False
    keep_head: bool = False

    def give_weights(
        self,
        model: GraphModel,
        schema: FeatureSchema,
        targets: TargetSchema,
        errors: ContextDecorator,
    ) -> None:
        """Give a new model the weights, translated to its vocabularies and targets.

        ``errors`` handles exceptions of the translation, which may run much later, in
        fairseq's trainer.
        """
        if self.resumes:
            check_weights(self.checkpoint, model, targets)
            return
        model.translate = errors(
            functools.partial(
                translate,
                model=model,
                start=replace(self.checkpoint, weights=None),
                schema=schema,
                targets=targets,
                keep_head=self.keep_head,
            )
        )
        if not self.through_trainer:
            model.load_state_dict(self.checkpoint.weights)


def claim_save_dir(cfg: Any) -> None:
    """Lock ``--save-dir`` of a task's config for this training, see `claim_folder`;
    ValueError if another training writes there."""
    folder = cfg.save_dir
    no_save = cfg.no_save
    # Without fairseq's command line, interpolations are not resolved.
    if no_save is not False or not os.path.isdir(folder) or not is_first_process():
        return
    try:
        if not claim_folder(folder):
            logger.warning(
                "%s cannot be locked there: make sure that no other training has the "
                "same --save-dir",
                folder,
            )
    except BlockingIOError as error:
        raise ValueError(
            f"{folder} belongs to a training that runs ({error}); give another --save-dir, "
            "wait until it ends, or give all processes of a training its "
            "--distributed-world-size"
        ) from None


def starting_point(cfg: Any) -> StartingPoint | None:
    """The starting point that a task's config names; None for a new run without
    ``--finetune-from-model`` and ``--pretrained-model-name``."""
    # Without fairseq's command line, interpolations are not resolved.
    names = "finetune_from_model save_dir checkpoint_suffix restore_file".split()
    values = (getattr(cfg, name) for name in names)
    path, save_dir, suffix, restore = (
        None if value is None or value.startswith("${") else value for value in values
    )
    name = None if cfg.pretrained_model_name == NONE else cfg.pretrained_model_name
    if path and name:
        raise ValueError(
            "--finetune-from-model and --pretrained-model-name cannot be combined"
        )
    if cfg.node_index and not name:
        raise ValueError("--node-index only works with --pretrained-model-name")
    if restore == "checkpoint_last.pt":  # fairseq's default, in the save folder
        restore = os.path.join(save_dir, f"checkpoint_last{suffix or ''}.pt")
        if os.path.exists(restore):
            return StartingPoint(read_last(restore), resumes=True)
    if restore and os.path.exists(restore):
        return StartingPoint(read_pretrained(restore), resumes=True)
    if not (path or name):
        return None
    if name:
        checkpoint = load_pretrained(
            name, cfg.pretrained_dir, cfg.data_root, cfg.node_index
        )
    else:
        checkpoint = read_pretrained(path)
    keep_head = cfg.load_pretrained_model_output_layer
    return StartingPoint(checkpoint, False, not name, keep_head)


def training_identity(cfg: Any, store: GraphStore) -> dict[str, Any]:
    """Data and targets of a training, which a resumed training keeps, as JSON values."""
    return {
        "dataset_name": cfg.dataset_name,
        "fingerprint": store.fingerprint,
        "target_scale": cfg.target_scale,
        "element_energies": cfg.element_energies,
    }


def check_same_training(state: dict[str, Any], cfg: Any, store: GraphStore) -> None:
    """Raise ValueError if a training cannot resume from a checkpoint, of which ``state`` is
    `training_identity`, with ``slim`` if it lacks the optimiser's state."""
    if state.get("slim") and not cfg.reset_optimizer:
        raise ValueError(
            "the checkpoint is slim, without the optimiser's state: start from its weights "
            "with --finetune-from-model, or give --reset-optimizer to continue with a new "
            "optimiser"
        )
    if state["fingerprint"] != store.fingerprint:
        raise ValueError(
            f"the checkpoint was trained on {state['dataset_name']} "
            f"(fingerprint {state['fingerprint'][:12]}), this run reads "
            f"{cfg.dataset_name} ({store.fingerprint[:12]}); resume with the same data, "
            "or start from its weights with --finetune-from-model or --reset-dataloader"
        )
    for name in ("target_scale", "element_energies"):
        flag = flag_of(name)
        before = state.get(name)
        now = getattr(cfg, name)
        if before != now:
            raise ValueError(
                f"the checkpoint was trained with {flag} {before or 'by default'}, this run "
                f"has {flag} {now or 'by default'}; resume with the same, or start from its "
                "weights with --finetune-from-model, which changes the head to the new scale"
            )
