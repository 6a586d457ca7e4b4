"""Predict the relaxed energy of an adsorbate on a surface, and the displacements of its atoms,
from the positions at the start (IS2RE direct of OC20)."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Optional

from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import register_task

from graphormer_plugin.choices import option
from graphormer_plugin.compat.one_line_errors import one_line_errors
from graphormer_plugin.criterions.mae_deltapos import ENERGY_MEAN, ENERGY_STD
from graphormer_plugin.data.columns import DISPLACEMENT
from graphormer_plugin.data.targets import VECTORS, TargetSchema
from graphormer_plugin.tasks._config import GraphPredictionConfig
from graphormer_plugin.tasks.graph_prediction import GraphPredictionTask


@dataclass
class IS2REConfig(GraphPredictionConfig):
    """Options of ``--task is2re``: the data may be given as a word of their own, as in the
    released code."""

    data: Optional[str] = option(
        None,
        "folder with a folder per split (train, val_id, ...), and data.lmdb in each; "
        "short for --dataset-name",
        argparse_const="",  # fairseq then accepts a command line without it
    )


@register_task("is2re", dataclass=IS2REConfig)
class IS2RETask(GraphPredictionTask):
    """`GraphPredictionTask` of periodic systems, with the displacements of their atoms beside
    the energy. Energies are scaled by OC20's mean and deviation, as in the released code.
    """

    node_vector = VECTORS[DISPLACEMENT]

    def __init__(self, cfg: IS2REConfig, **kwargs: Any) -> None:
        cfg.data = cfg.dataset_name = cfg.data or cfg.dataset_name
        super().__init__(cfg, **kwargs)
        if self.run is not None:  # fairseq looks for unused splits there
            self.run.task.data = cfg.data

    @property
    def targets(self) -> TargetSchema:
        """See `GraphPredictionTask`."""
        targets = super().targets.scaled([ENERGY_MEAN], [ENERGY_STD])
        return dataclasses.replace(targets, node_vector=self.node_vector)

    def build_model(self, cfg: FairseqDataclass, from_checkpoint: bool = False):
        """See `GraphPredictionTask`."""
        model = super().build_model(cfg, from_checkpoint)
        with one_line_errors():
            if not getattr(model, "vector_head", None):
                raise ValueError("--task is2re: use --arch graphormer3d_base or _small")
        return model

    def passes(self, sample, model, criterion, optimizer, update_num, ignore_grad):
        """See `GraphPredictionTask`; tells the criterion the number of the update."""
        criterion.update = update_num
        return super().passes(
            sample, model, criterion, optimizer, update_num, ignore_grad
        )
