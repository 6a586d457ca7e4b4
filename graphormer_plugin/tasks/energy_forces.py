"""Predict the energy of atoms, with forces that are its slopes."""

import dataclasses
import logging
from functools import cached_property

import numpy as np
from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import register_task
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional as F

from graphormer_plugin.compat.one_line_errors import one_line_errors
from graphormer_plugin.data.columns import FORCES, Level, rows_of_graphs
from graphormer_plugin.data.store import GraphStore
from graphormer_plugin.data.targets import VECTORS, TargetSchema
from graphormer_plugin.inference.split_predictions import write_predictions
from graphormer_plugin.tasks._config import GraphPredictionConfig
from graphormer_plugin.tasks._elements import fit_elements
from graphormer_plugin.tasks.graph_prediction import GraphPredictionTask

logger = logging.getLogger(__name__)


@register_task("energy_forces", dataclass=GraphPredictionConfig)
class EnergyForcesTask(GraphPredictionTask):
    """`GraphPredictionTask` of an energy, with the forces -dE/dx on its atoms.

    Models learn energies without those of their atoms, which are fitted to the training
    split by least squares, one of each element, and divided by the root mean square of its
    forces (our choice).
    """

    node_vector = VECTORS[FORCES]

    def build_model(self, cfg: FairseqDataclass, from_checkpoint: bool = False):
        """See `GraphPredictionTask`."""
        model = super().build_model(cfg, from_checkpoint)
        with one_line_errors():
            if "pos" not in model.batch_spec.fields:
                raise ValueError(
                    "--task energy_forces: the model does not read positions; give "
                    "--pair-encodings gaussians or --length-kernels"
                )
            nodes_read = getattr(cfg, "gaussian_node_factor", 0)
            few = len(model.encoder.layers) < 2 and not nodes_read
            if few and model.virtual_node:
                raise ValueError(
                    "--task energy_forces: forces of one layer with a virtual node, which "
                    "reads no distances, are 0; give --encoder-layers 2 or "
                    "--gaussian-node-factor 1"
                )
            if has_kinks(model):
                logger.warning(
                    "forces jump where a ReLU bends, and energies of dynamics drift; "
                    "--activation-fn silu (CGT, GPS) or --arch grpe_small have smooth forces"
                )
        return model

    def write_predictions(self, outputs: dict[int, tuple[NDArray, NDArray]]) -> None:
        """Write energies as `GraphPredictionTask`, and forces to ``forces_<split>.csv``, a
        line for each atom."""
        energies = {}
        forces = {}
        for graph, of_graph in outputs.items():
            energies[graph] = tuple(array[0, :1] for array in of_graph)
            forces[graph] = tuple(array[:, 1:] for array in of_graph)
        super().write_predictions(energies)
        write_predictions(
            self.cfg.results_path,
            self.last_split,
            self.store,
            self.node_vector.axes,
            forces,
            kind=self.node_vector.name,
        )

    @cached_property
    def fitted_targets(self) -> TargetSchema:
        """The targets of the dataset, with energies of atoms and the scale of forces."""
        targets = dataclasses.replace(
            self.store.targets.raw(), node_vector=self.node_vector
        )
        if not targets.is_one_number:
            raise ValueError(
                f"--task energy_forces: {', '.join(targets.names)}, expected an energy"
            )
        if self.cfg.target_scale == "none":
            return targets
        forces = np.concatenate([training_forces(part) for part in self.store.stores])
        known = forces[np.isfinite(forces).all(1)]
        if not len(known):
            raise ValueError(
                "--task energy_forces: all forces of the training split are missing; use "
                "--task graph_prediction"
            )
        scale = float(np.sqrt(np.mean(np.square(known)))) or 1.0
        if self.cfg.element_energies == "no":
            return targets.scaled(self.store.targets.mean, [scale])
        energies = fit_elements(self.store)[0]
        targets = dataclasses.replace(targets, atom_energies=energies)
        return targets.scaled([0.0], [scale])


def has_kinks(model: nn.Module) -> bool:
    """Whether ReLU is an activation of a model."""
    return any(
        isinstance(part, nn.ReLU) or getattr(part, "activation", None) is F.relu
        for part in model.modules()
    )


def training_forces(store: GraphStore) -> NDArray[np.float64]:
    """Forces on the atoms of the training split [atoms, 3]."""
    ids = store.graphs_in("train")
    rows = rows_of_graphs(store.columns, ids, Level.NODE)
    return np.asarray(store.columns[FORCES][rows], np.float64)
