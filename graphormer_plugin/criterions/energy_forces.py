"""Errors of energies, and of forces that are their slopes."""

from dataclasses import dataclass
from typing import Any

from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass
from torch.nn.functional import cosine_similarity

from graphormer_plugin.choices import check_least, option
from graphormer_plugin.criterions.evaluation import Evaluation, Reported, Sums
from graphormer_plugin.criterions.l1_loss import L1Loss
from graphormer_plugin.criterions.log import log_mean_error
from graphormer_plugin.data.columns import FORCES
from graphormer_plugin.data.targets import VECTORS
from graphormer_plugin.modules.layers.derivatives import (
    beside_forces,
    output_and_forces,
)


@dataclass
class EnergyForcesConfig(FairseqDataclass):
    """Options of ``--criterion energy_forces``."""

    energy_weight: float = option(1.0, "weight of the loss of energies, >= 0")
    force_weight: float = option(1.0, "weight of the loss of forces, >= 0")


@register_criterion("energy_forces", dataclass=EnergyForcesConfig)
class EnergyForces(L1Loss):
    """L1 of the energy of a graph plus L1 of its forces -dE/dx, both divided by the
    `TargetSchema.std`. The loss of forces is the mean over the atoms and axes of a graph.

    The outputs that an evaluation keeps are those of `beside_forces`.

    ``mae_per_atom`` is the mean error of energies, divided by the atoms of their graphs;
    ``force_mae`` that of all components of forces, in the energy's unit per angstrom;
    ``force_cosine`` the mean cosine of predicted and true forces over atoms whose true
    force is not 0.
    """

    name = "energy_forces"
    node_vector = VECTORS[FORCES]
    logged = ("mae_per_atom", "force_mae", "force_cosine")

    def __init__(
        self, task, energy_weight: float = 1.0, force_weight: float = 1.0
    ) -> None:
        super().__init__(task)
        check_least("--energy-weight", energy_weight, 0)
        check_least("--force-weight", force_weight, 0)
        self.energy_weight = energy_weight
        self.force_weight = force_weight

    def forward(self, model, sample: dict[str, Any], reduce: bool = True) -> Reported:
        """See `GraphCriterion`."""
        batch = sample["net_input"]["batch"]
        energies, forces = output_and_forces(model, batch, self.training)
        atoms = batch["node_mask"].sum(1, keepdim=True)
        std = self.targets.std[0] if self.targets.std else 1.0
        offset = self.targets.atoms_output(batch)
        loss, size, log = self.output_loss(energies, sample)
        if "outputs" in log:
            total, target = log["outputs"]
            of_atoms = beside_forces(total, std * forces.detach())
            log["outputs"] = of_atoms, beside_forces(target, sample["forces"])
        present = sample["forces"].isfinite().all(-1)
        true = sample["forces"].where(present.unsqueeze(-1), 0)
        share = present / present.sum(1, keepdim=True).clamp(min=1)
        if "weight" in sample:
            share = share * sample["weight"].unsqueeze(1)
        error = (std * forces - true).abs().sum(-1).where(present, 0)
        force_loss = (share * error).sum() / (3 * std)
        loss = self.energy_weight * loss + self.force_weight * force_loss
        log["loss"] = loss.detach().double()
        moved = present & (true != 0).any(-1)
        cosines = cosine_similarity(forces.detach(), true, dim=-1)
        known = sample["target"].isfinite()
        total = self.targets.restore(energies.detach().double() + offset)
        energy_error = (total - sample["target"]).abs() / atoms
        sums = {
            "energy_error": energy_error.where(known, 0).sum(),
            "energies": known.sum(),
            "force_error": error.detach().sum(),
            "components": 3 * present.sum(),
            "cosine": cosines.where(moved, 0).sum(),
            "moved": moved.sum(),
        }
        log |= {name: value.double().view(1) for name, value in sums.items()}
        return loss, size, log

    def log_metrics(self, sums: Sums, evaluation: Evaluation | None) -> None:
        """See `GraphCriterion`."""
        super().log_metrics(sums, evaluation)
        log_mean_error("mae_per_atom", (), sums["energy_error"], sums["energies"])
        log_mean_error("force_mae", (), sums["force_error"], sums["components"])
        log_mean_error("force_cosine", (), sums["cosine"], sums["moved"])
