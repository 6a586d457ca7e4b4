"""The task that trains and evaluates models of graphs: data, model, metrics, checkpoints."""

import logging
import math
from functools import cached_property
from typing import Any

from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import FairseqTask, register_task
from numpy.typing import NDArray
from torch import nn

from graphormer_plugin.compat.one_line_errors import one_line_errors
from graphormer_plugin.compat.training_state import (
    ReduceLROnPlateau,
    forget_last_training,
    patience_state,
    restore_patience,
)
from graphormer_plugin.criterions.class_weights import BALANCED, class_weights
from graphormer_plugin.criterions.evaluation import Evaluation
from graphormer_plugin.criterions.graph_criterion import GraphCriterion
from graphormer_plugin.criterions.log import on_cpu
from graphormer_plugin.data.batches.buckets import BUCKET_RATIO
from graphormer_plugin.data.batches.collator import GraphCollator
from graphormer_plugin.data.batches.fields import BatchSpec
from graphormer_plugin.data.batches.fields.degrees import mean_log_degree
from graphormer_plugin.data.batches.fields.field_cache import load_or_compute
from graphormer_plugin.data.columns import DISPLACEMENT, Level
from graphormer_plugin.data.errors import is_out_of_memory
from graphormer_plugin.data.graphs.featurisers import AtomsFeaturiser
from graphormer_plugin.data.graphs.seen import with_seen
from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.store import describe
from graphormer_plugin.data.store.sharded_store import (
    Stores,
    identities,
    open_stores,
)
from graphormer_plugin.data.store.translate import translate_stores, translated_labels
from graphormer_plugin.data.tables.options import DatasetOptions
from graphormer_plugin.data.targets import VECTORS, TargetSchema, VectorTarget
from graphormer_plugin.finetune.layerwise import (
    check_weights_apart,
    scaled_learning_rates,
)
from graphormer_plugin.finetune.resume import check_components
from graphormer_plugin.finetune.start import (
    check_same_training,
    claim_save_dir,
    starting_point,
    training_identity,
)
from graphormer_plugin.finetune.transfer import resolve_options
from graphormer_plugin.inference.split_predictions import write_predictions
from graphormer_plugin.models import (
    GraphModel,
    apply_layerwise_options,
    join_graph_features,
)
from graphormer_plugin.modules.layers.batch_norm import (
    has_batch_norm,
    running_statistics_kept,
)
from graphormer_plugin.modules.layers.graph_random import graph_seeds
from graphormer_plugin.processes import (
    filler_batch,
    is_first_process,
    several_processes,
)
from graphormer_plugin.tasks._config import GraphPredictionConfig, check_options
from graphormer_plugin.tasks._constant import lines_about_constants
from graphormer_plugin.tasks._dataset import (
    GraphDataset,
    dataset_of_split,
    molecules_of,
    warn_of_fitted,
    warn_of_unseen,
)
from graphormer_plugin.tasks._elements import targets_of_task
from graphormer_plugin.tasks._iterator import GraphBatchIterator, batch_iterator
from graphormer_plugin.tasks._run import (
    check_common,
    check_criterion,
    check_model,
    run_options,
    settle_metric,
    stop_if_finished,
)
from graphormer_plugin.versions import versions

logger = logging.getLogger(__name__)


@register_task("graph_prediction", dataclass=GraphPredictionConfig)
class GraphPredictionTask(FairseqTask):
    """Predicts values of graphs.

    Builds the graph store on first use, gives the model the fields that its
    ``batch_spec`` names, and puts into the checkpoint everything that prediction needs:
    vocabularies of nodes and bonds, names, unit and standardisation of the targets.

    Wrong input (an unknown dataset, a missing column, too large a graph) ends fairseq's
    commands with one line and exit code 2. From Python, construct the class itself and
    use `load_split`, which raises ``ValueError`` and ``OSError``.
    """

    levels = (Level.GRAPH,)
    node_vector: VectorTarget | None = None

    def __init__(self, cfg: GraphPredictionConfig, **kwargs: Any) -> None:
        super().__init__(cfg)
        check_options(cfg)
        self.run = run_options(cfg)
        self._collator: GraphCollator | None = None
        self._trained_on: dict[str, Any] | None = None
        self._targets: TargetSchema | None = None
        self._class_weights: list[list[float]] | None = None
        self.batch_spec = BatchSpec(frozenset())  # a model has more
        self.mixes_sizes = False
        self.scales_learning_rates = False
        self.evaluation = Evaluation()
        self.last_split = ""

    @classmethod
    def setup_task(cls, cfg: GraphPredictionConfig, **kwargs: Any):
        """Make the task, and open the data unless it comes with a checkpoint."""
        with one_line_errors():
            task = cls(cfg, **kwargs)
            if not kwargs.get("from_checkpoint", False):
                forget_last_training()
                if task.run is not None:
                    check_common(task.run.common)
                    if task.run.lr_scheduler is None:  # not in the file of options
                        task.run.lr_scheduler = {"_name": "fixed"}  # the flag's default
                if cfg.ddp_backend == "fully_sharded":
                    raise ValueError("--ddp-backend fully_sharded: take pytorch_ddp")
                task.check_num_classes()  # opens the store
        return task

    # Data

    @cached_property
    def store(self) -> Stores:
        """The graph store of the dataset, or several stores, prepared on first use. If
        several processes ask at once, the first builds it and the others wait."""
        if not self.cfg.dataset_name:
            raise ValueError("no dataset: give --dataset-name")
        store = open_stores(self.dataset_options())
        name = self.cfg.dataset_name
        level = store.targets.level
        if level not in self.levels:
            raise ValueError(f"{name} has labels of {level}s; use --task {level.task}")
        vector = self.node_vector
        if vector and vector.name not in store.columns:
            text = f"{name} has no {vector}; {vector.advice}use --task graph_prediction"
            raise ValueError(text)
        relaxed = VECTORS[DISPLACEMENT]
        if relaxed.name in store.columns and vector != relaxed:
            text = f"{name} has images of periodic cells; use --task {relaxed.task}"
            raise ValueError(text)
        logger.info(describe(store))
        for text in store.warnings:
            logger.warning(text)
        return store

    def dataset_options(self) -> DatasetOptions:
        """The options that select the data."""
        return DatasetOptions.from_config(self.cfg, seed=self.cfg.seed)

    @cached_property
    def schema(self) -> FeatureSchema:
        """Vocabularies of nodes and bonds: the checkpoint's, else the dataset's."""
        return with_seen(self.store.schema, self.store.stores)

    @property
    def targets(self) -> TargetSchema:
        """Targets: the checkpoint's, else the dataset's, at the scale of training."""
        return self._targets or self.fitted_targets

    @cached_property
    def fitted_targets(self) -> TargetSchema:
        """The targets of the dataset, at the scale of training."""
        if self.cfg.target_scale == "none":
            return self.store.targets.raw()
        if self.node_vector:
            return self.store.targets
        return targets_of_task(self.store, self.cfg.element_energies or "")

    def mean_log_degree(self) -> float | None:
        """Mean log degree of the training split (PNA); None with a checkpoint."""
        return None if self._trained_on else mean_log_degree(self.store)

    def balanced_class_weights(self) -> list[list[float]]:
        """``--class-weights balanced``: the checkpoint's, else by the training split."""
        if self._class_weights is None:
            labels = translated_labels(
                self.store, self.targets, self.cfg.dataset_name, "train"
            )
            self._class_weights = class_weights(BALANCED, self.targets, labels).tolist()
        return self._class_weights

    def check_num_classes(self) -> None:
        """Raise ValueError if ``--num-classes`` contradicts the targets."""
        expected = self.cfg.num_classes
        outputs = self.targets.num_outputs
        if expected is not None and expected != outputs:
            names = ", ".join(self.targets.names)
            raise ValueError(
                f"--num-classes {expected}, but the data have {outputs} ({names}); leave it out"
            )

    def load_dataset(self, split: str, combine: bool = False, **kwargs: Any) -> None:
        """Load a split for fairseq; see `load_split`."""
        with one_line_errors():
            self.datasets[split] = self.load_split(split)
        self.last_split = split

    def load_split(self, split: str) -> GraphDataset:
        """The dataset of a split; see `dataset_of_split`."""
        warn_of_fitted(self.store, split, self._trained_on or {})
        if self._trained_on or split != "train":
            warn_of_unseen(self.store, split, self.schema, self.cfg.dataset_name)
        return dataset_of_split(
            self.store,
            split,
            self.collator,
            name=self.cfg.dataset_name,
            seed=self.cfg.seed,
            bucket_ratio=self.bucket_ratio,
            max_nodes=self.cfg.max_nodes,
        )

    @property
    def bucket_ratio(self) -> float:
        """Width of the buckets of training batches. Buckets give BatchNorm the statistics of
        graphs of equal size, not of the data: after four epochs of ZINC the MAE of GT on its
        training graphs is 0.77 with buckets, 0.61 without."""
        if self.cfg.bucket_ratio is not None:
            return self.cfg.bucket_ratio
        return math.inf if self.mixes_sizes else BUCKET_RATIO

    @property
    def collator(self) -> GraphCollator:
        """The collator that all splits share."""
        if self._collator is None:
            self.warn_of_other_data()
            columns, target = translate_stores(
                self.store, self.schema, self.targets, self.cfg.dataset_name
            )
            self._collator = GraphCollator(
                columns,
                target,
                spec=self.batch_spec,
                level=self.store.targets.level,
                num_bond_types=self.schema.num_bond_types,
                max_nodes=self.cfg.max_nodes,
            )
            self.give_fields()
        return self._collator

    def give_fields(self) -> None:
        """Give the collator the model's fields; data may be read before there is a model."""
        spec = self._collator.spec = self.batch_spec
        if (
            self.store.featuriser == AtomsFeaturiser.name
            and "edge_index" in spec.fields
        ):
            raise ValueError(
                f"{self.cfg.dataset_name} has no bonds, along which the layers work; "
                "--radius joins near atoms"
            )
        for store, columns in zip(self.store.stores, self._collator.shards):
            columns |= load_or_compute(store, spec)

    def warn_of_other_data(self) -> None:
        """Warn if the checkpoint was trained on other data."""
        store = self.store
        trained_on = self._trained_on
        if trained_on and trained_on["fingerprint"] != store.fingerprint:
            logger.warning(
                "the checkpoint was trained on %s (fingerprint %s), other data than "
                "%s (%s): rows of this evaluation may have been trained on",
                trained_on["dataset_name"],
                trained_on["fingerprint"][:12],
                self.cfg.dataset_name,
                store.fingerprint[:12],
            )

    def get_batch_iterator(
        self,
        dataset: GraphDataset,
        disable_iterator_cache: bool = False,
        update_epoch_batch_itr: bool | None = None,
        grouped_shuffling: bool = False,
        **options: Any,
    ) -> GraphBatchIterator:
        """fairseq's method, with the same iterator for all epochs; see `batch_iterator`. The
        batches of an update always stay together, whatever ``--grouped-shuffling`` is.
        """
        # Only the trainer's own training iterator has a value here. The iterator of
        # --valid-subset train must be another, or it would advance the training.
        training = update_epoch_batch_itr is not None
        key = (dataset, training)
        if key in self.dataset_to_epoch_iter and not disable_iterator_cache:
            return self.dataset_to_epoch_iter[key]
        with one_line_errors():
            iterator = batch_iterator(
                dataset,
                max_pairs=self.cfg.max_pairs,
                update_freq=self.update_freq if training else None,
                errors=one_line_errors,
                **options,
            )
        if not disable_iterator_cache:
            self.dataset_to_epoch_iter[key] = iterator
        return iterator

    def update_freq(self, epoch: int) -> int:
        """``--update-freq`` in an epoch, as fairseq's trainer takes it."""
        values = self.cfg.update_freq
        return int(values[min(epoch, len(values)) - 1])

    # Model and metrics

    def build_model(self, cfg: FairseqDataclass, from_checkpoint: bool = False):
        """Build the model, and give the collator the fields of its ``batch_spec``. A run that
        starts from other weights, or resumes, takes over the options of its checkpoint.
        """
        with one_line_errors():
            check_model(cfg)
            self.targets.check_for_network()
            start = None
            if not from_checkpoint:
                claim_save_dir(self.cfg)
                start = starting_point(self.cfg)
            if start is not None:
                if start.resumes and self.run is not None:
                    stop_if_finished(self.run, start.checkpoint)
                    check_components(start.checkpoint, self.run)
                    done = start.checkpoint.progress
                    ReduceLROnPlateau.last_validation = done and done.last_validation
                resolve_options(cfg, start.checkpoint, start.resumes)
            model = super().build_model(cfg, from_checkpoint)
            if isinstance(model, GraphModel):  # not a user's own of another kind
                join_graph_features(model, self.schema, self.targets)
                if start is not None:
                    errors = one_line_errors()
                    start.give_weights(model, self.schema, self.targets, errors)
                if not from_checkpoint:
                    apply_layerwise_options(model, cfg)
                    self.scales_learning_rates = cfg.layerwise_lr_decay != 1
            self.batch_spec = model.batch_spec
            self.mixes_sizes = has_batch_norm(model)
            for dataset in self.datasets.values():  # those read before the model
                dataset.bucket_ratio = self.bucket_ratio
            if self._collator is not None:
                self.give_fields()
        return model

    def begin_epoch(self, epoch: int, model: nn.Module) -> None:
        """fairseq's hook; says first which columns the model cannot learn from."""
        if epoch == 1 and is_first_process() and isinstance(model, GraphModel):
            with one_line_errors():
                lines = lines_about_constants(model, self.datasets["train"])
            for line in lines:
                logger.info(line)

    def train_step(
        self, sample, model, criterion, optimizer, update_num, ignore_grad=False
    ):
        """Forward and backward passes over a batch; see fairseq's method.

        Adds ``seed`` to the batch, from which random numbers of a graph come. If
        ``ignore_grad``, nothing of the batch counts: the process has run out of batches in
        the last update of an epoch.
        """
        seed = graph_seeds(self.cfg.seed, update_num, sample["id"])
        net_input = sample["net_input"]
        net_input = {**net_input, "batch": {**net_input["batch"], "seed": seed}}
        sample = {**sample, "net_input": net_input}
        arguments = (sample, model, criterion, optimizer, update_num, ignore_grad)
        if not ignore_grad:
            try:
                return self.passes(*arguments)
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                # fairseq would skip the batch after torch's own error, in every epoch.
                raise MemoryError(str(error)) from error
        with filler_batch() if several_processes() else running_statistics_kept():
            loss, size, log = self.passes(*arguments)
        return loss, size * 0, {name: value * 0 for name, value in log.items()}

    def passes(self, *arguments: Any):
        """Forward and backward passes over a batch; see fairseq's `train_step`."""
        return super().train_step(*arguments)

    def optimizer_step(self, optimizer, model, update_num) -> None:
        """One step with the learning rates of ``--layerwise-lr-decay``."""
        if not self.scales_learning_rates:
            optimizer.step()
            return
        with one_line_errors():
            check_weights_apart(optimizer)
        with scaled_learning_rates(optimizer):
            optimizer.step()

    def build_criterion(self, cfg: FairseqDataclass, from_checkpoint: bool = False):
        """Build the criterion, and settle the metric that selects the best checkpoint."""
        with one_line_errors():
            criterion = super().build_criterion(cfg, from_checkpoint)
            check_criterion(criterion, cfg._name, self.cfg.results_path)
            if self.run is not None and self._trained_on is None:
                settle_metric(self.run, criterion)
            if self.cfg.results_path:
                criterion.keeps_outputs = True
        return criterion

    def valid_step(self, sample, model, criterion):
        """Loss and metrics of a batch; keeps the outputs that a metric needs."""
        if not sample:  # a process that ran out of data, in fairseq-validate
            return 0.0, 0, {}
        loss, sample_size, log = super().valid_step(sample, model, criterion)
        if "outputs" in log:
            self.evaluation.add(sample["id"], *log.pop("outputs"))
        return loss, sample_size, log

    def reduce_metrics(self, logging_outputs, criterion) -> None:
        """Log the loss, and the metrics of a `GraphCriterion`. A user's criterion of another
        kind logs the metrics of its own `reduce_metrics`."""
        logging_outputs = on_cpu([log for log in logging_outputs if log])
        super().reduce_metrics(logging_outputs, criterion)
        if not isinstance(criterion, GraphCriterion):
            return
        evaluation = None
        if criterion.keeps_outputs and not criterion.training:
            evaluation = self.evaluation.take()
        if evaluation is not None and self.cfg.results_path and is_first_process():
            with one_line_errors():
                self.write_predictions(evaluation.graphs)
        criterion.report(logging_outputs, evaluation)

    def write_predictions(self, outputs: dict[int, tuple[NDArray, NDArray]]) -> None:
        """Write the split that fairseq-validate loaded last to ``--results-path``; for
        ``outputs`` see `Evaluation.graphs`."""
        options = self.dataset_options()
        write_predictions(
            self.cfg.results_path,
            self.last_split,
            self.store,
            self.targets,
            outputs,
            identities(options) if self.store.featuriser else ([], []),
        )

    # Checkpoints

    def state_dict(self) -> dict[str, Any]:
        """Everything that prediction needs beside the weights, as JSON values."""
        if self._trained_on is not None:
            return self._trained_on
        balance = {"class_weights": self._class_weights} if self._class_weights else {}
        return balance | {
            "dataset_name": self.cfg.dataset_name,
            "fingerprint": self.store.fingerprint,
            "molecules": molecules_of(self.store, "train").tobytes().hex(),
            "featuriser": self.store.featuriser,
            "schema": self.schema.to_dict(),
            "targets": self.targets.to_dict(),
            "versions": versions(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take vocabularies and targets from a checkpoint, before the model is built. fairseq
        calls this when it loads a model to evaluate it. A resumed training calls
        `set_checkpoint_dict`, which compares the data."""
        self._trained_on = state_dict
        self.schema = FeatureSchema(**state_dict["schema"])
        self._targets = TargetSchema.of(**state_dict["targets"])
        self._class_weights = state_dict.get("class_weights")
        self._collator = None

    def get_checkpoint_dict(self) -> dict[str, Any]:
        """fairseq's hook: the part of the checkpoint that a resumed run sees."""
        state = training_identity(self.cfg, self.store)
        if patience := patience_state():
            state["patience"] = patience
        return {type(self).__name__: state}

    def set_checkpoint_dict(self, state: dict[str, Any]) -> None:
        """Refuse to resume another training; see `check_same_training`. fairseq does not call
        this with ``--finetune-from-model`` or ``--reset-dataloader``, which are for other
        data."""
        with one_line_errors():
            check_same_training(state, self.cfg, self.store)
        restore_patience(state.get("patience", {}))
