"""Mean absolute errors of relaxed energies and of displacements, by Graphormer-3D's released
code."""

from dataclasses import dataclass
from typing import Any

from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from omegaconf import II
from torch import Tensor

from graphormer_plugin.choices import check_least, option
from graphormer_plugin.criterions.evaluation import Evaluation, Reported, Sums
from graphormer_plugin.criterions.l1_loss import L1Loss
from graphormer_plugin.criterions.log import log_mean_error, log_sums, mean_over_columns
from graphormer_plugin.data.columns import DISPLACEMENT
from graphormer_plugin.data.graphs.periodic import counted_atoms
from graphormer_plugin.data.targets import VECTORS

# Of OC20, in eV and angstrom (released code).
ENERGY_MEAN = -1.4729953244844094
ENERGY_STD = 2.2707848125378405
DISPLACEMENT_MEAN = (0.1353900283575058, 0.06877671927213669, 0.08111362904310226)
DISPLACEMENT_STD = (1.7862379550933838, 1.78688645362854, 0.8023099899291992)
THRESHOLD = 0.02  # of EwT, in eV


@dataclass
class MaeDeltaposConfig(FairseqDataclass):
    """Options of ``--criterion mae_deltapos``; names and defaults are the released code's."""

    node_loss_weight: float = option(
        15.0, "weight of the loss of displacements at the first update, >= 0"
    )
    min_node_loss_weight: float = option(
        1.0, "its weight at --max-update, to which it falls linearly, >= 0"
    )
    max_update: int = II("optimization.max_update")


@register_criterion("mae_deltapos", dataclass=MaeDeltaposConfig)
class MaeDeltapos(L1Loss):
    """L1 of the energy plus, with a weight that falls, L1 of the displacements.

    The model returns energies and vectors of atoms. The loss of displacements is the mean
    over the three axes and over the `counted_atoms` of a graph, summed over graphs. ``loss``
    in the log is that of the energies alone. ``ewt`` is the share of energies within 0.02 eV,
    ``displacement_mae`` in angstrom is the mean over graphs of their mean per atom and axis.
    """

    name = "mae_deltapos"
    node_vector = VECTORS[DISPLACEMENT]
    logged = ("ewt", "displacement_mae")

    def __init__(
        self,
        task,
        node_loss_weight: float = 15.0,
        min_node_loss_weight: float = 1.0,
        max_update: int = 0,
    ) -> None:
        super().__init__(task)
        check_least("--node-loss-weight", node_loss_weight, 0)
        check_least("--min-node-loss-weight", min_node_loss_weight, 0)
        self.node_loss_weight = node_loss_weight
        self.fall = max(0, node_loss_weight - min_node_loss_weight)
        self.max_update = max_update
        self.update = 0  # the task sets it

    def forward(self, model, sample: dict[str, Any], reduce: bool = True) -> Reported:
        """See `GraphCriterion`."""
        energies, vectors = model(**sample["net_input"])
        loss, size, log = self.output_loss(energies, sample)
        displacement = sample["displacement"].to(vectors.dtype)
        counted = counted_atoms(sample["net_input"]["batch"]["x"])
        counted &= displacement.isfinite().all(-1)
        std = vectors.new_tensor(DISPLACEMENT_STD)
        error = vectors * std + vectors.new_tensor(DISPLACEMENT_MEAN)
        error = (error - displacement.nan_to_num()).abs()
        atoms = counted.sum(1, keepdim=True).clamp(min=1)
        share = counted.to(error.dtype) / atoms
        error = (error * share.unsqueeze(-1)).sum((0, 1)) / 3  # by axis
        log["displacement_error"] = error.detach().double().sum().view(1)
        log["displaced"] = counted.any(1).double().sum().view(1)
        error = (error / std).sum()
        return loss + self.displacement_weight() * error, size, log

    def displacement_weight(self) -> float:
        """Weight of the loss of displacements at this update; without ``--max-update`` it
        stays."""
        done = self.update / self.max_update if self.max_update else 0
        return self.node_loss_weight - self.fall * done

    def batch_metrics(self, output: Tensor, labels: Tensor, present: Tensor) -> Sums:
        """See `RegressionCriterion`, with the number of energies ``within`` the threshold."""
        error = (self.targets.restore(output.double()) - labels).abs()
        within = ((error < THRESHOLD) & present).sum(0).double()
        return super().batch_metrics(output, labels, present) | {"within": within}

    def log_metrics(self, sums: Sums, evaluation: Evaluation | None) -> None:
        """See `GraphCriterion`."""
        super().log_metrics(sums, evaluation)
        within = {"hits": sums["within"], "labelled": sums["count"]}
        log_sums("ewt", within, {"ewt": mean_over_columns})
        total = sums["displacement_error"]
        log_mean_error("displacement_mae", (), total, sums["displaced"])
        if self.training:
            metrics.log_scalar("node_loss_weight", self.displacement_weight())
