"""Use a checkpoint from Python.

>>> from graphormer_plugin import hub
>>> predictor = hub.load("checkpoint_best.pt")        # doctest: +SKIP
>>> predictor.predict(["CCO", "c1ccccc1"]).shape      # doctest: +SKIP
(2, 1)
"""

import os
from collections.abc import Sequence

import numpy as np
import torch
from fairseq.dataclass.utils import merge_with_parent
from fairseq.models import ARCH_MODEL_REGISTRY, BaseFairseqModel, build_model
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY, FairseqTask
from omegaconf import OmegaConf

import graphormer_plugin  # noqa: F401  (registers the components of checkpoints)
from graphormer_plugin.checkpoint import complete, read_checkpoint
from graphormer_plugin.data.collator import GraphCollator
from graphormer_plugin.data.columns import columns_of_graphs
from graphormer_plugin.data.datasets.molecules import parse_smiles
from graphormer_plugin.data.derived import derived_columns
from graphormer_plugin.data.features import FeatureSchema, TargetSchema
from graphormer_plugin.data.prepare import MoleculeGraph
from graphormer_plugin.data.registry import import_user_data
from graphormer_plugin.explanation import attention_maps, gradient_times_input
from graphormer_plugin.tasks.graph_prediction import GraphPredictionTask


class Predictor:
    """A trained model with all that prediction needs beside it.

    Args:
        model: in evaluation mode after this.
        schema: vocabularies of nodes and bonds that it was trained on.
        targets: names, kind, unit and standardisation of its outputs.
    """

    def __init__(
        self, model: BaseFairseqModel, schema: FeatureSchema, targets: TargetSchema
    ) -> None:
        self.model = model.eval()
        self.schema = schema
        self.targets = targets

    def to(self, device: torch.device | str) -> "Predictor":
        """Move the model; returns this object."""
        self.model.to(device)
        return self

    def double(self) -> "Predictor":
        """Compute in float64; returns this object."""
        self.model.double()
        return self

    @torch.no_grad()
    def predict(self, smiles: Sequence[str], batch_size: int = 128) -> np.ndarray:
        """Predict for molecules.

        Args:
            smiles: one molecule each, featurised as `ogb.utils.smiles2graph` does.
            batch_size: molecules a batch, >= 1.

        Returns:
            float [len(smiles), outputs], rows in input order: regression in the
            targets' unit, else probabilities (per class for a multiclass target).

        Raises:
            ValueError: a SMILES that RDKit refuses, or a model of other features, of
                3D positions, or of substructures that are not registered.
        """
        out = np.empty((len(smiles), self.targets.num_outputs))
        graphs = _parse(smiles)
        order = np.argsort([len(graph.x) for graph in graphs], kind="stable")
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            batch = self._batch([graphs[row] for row in rows])
            out[rows] = self._units(self.model(batch))
        return out

    @torch.no_grad()
    def attention(self, smiles: Sequence[str]) -> list[np.ndarray]:
        """Attention within molecules.

        Returns:
            For each molecule [layers, heads or channels, T, T], row i the weights with
            which node i sums over all nodes: the virtual node first, then the atoms in
            the order of the SMILES; T = N atoms where the model has no virtual node.

        Raises:
            ValueError: as `predict`, or a model without attention.
        """
        return [
            attention_maps(self.model, self._batch([graph])).double().cpu().numpy()
            for graph in _parse(smiles)
        ]

    def gradient_times_input(
        self, smiles: Sequence[str], output: int = 0
    ) -> list[np.ndarray]:
        """Gradient x input of an output for each atom of each molecule.

        Args:
            smiles: one molecule each.
            output: column of `predict`.

        Returns:
            For each molecule [N], in the target's unit for regression, else of the
            logit: how fast the output changes as what enters the first layer for an
            atom is scaled.

        Raises:
            ValueError: as `predict`, or no such output.
        """
        if not 0 <= output < self.targets.num_outputs:
            raise ValueError(
                f"output {output}, expected 0..{self.targets.num_outputs - 1}"
            )
        scale = 1.0
        if self.targets.kind == "regression":
            units = self.targets.restore(torch.eye(self.targets.num_outputs))
            zero = self.targets.restore(torch.zeros(1, self.targets.num_outputs))
            scale = float((units - zero)[output, output])
        return [
            gradient_times_input(self.model, self._batch([graph]), output)
            .mul(scale)
            .double()
            .cpu()
            .numpy()
            for graph in _parse(smiles)
        ]

    def _batch(self, graphs: Sequence[MoleculeGraph]) -> dict[str, torch.Tensor]:
        """The fields that the model reads, on its device."""
        if "pos" in self.model.batch_spec.fields:
            raise ValueError("the model reads 3D positions, which SMILES do not have")
        columns = columns_of_graphs(graphs, self.schema)
        spec = self.model.batch_spec
        collator = GraphCollator(
            columns | derived_columns(columns, spec),
            np.full((len(graphs), 1), np.nan),
            num_bond_types=self.schema.num_bond_types,
            spec=spec,
        )
        batch = collator(np.arange(len(graphs)))["net_input"]["batch"]
        device = next(self.model.parameters()).device
        return {name: field.to(device) for name, field in batch.items()}

    def _units(self, logits: torch.Tensor) -> np.ndarray:
        """Probabilities, or values in the targets' unit."""
        logits = logits.double()
        if self.targets.kind == "binary":
            return logits.sigmoid().cpu().numpy()
        if self.targets.kind == "multiclass":
            return logits.softmax(-1).cpu().numpy()
        return self.targets.restore(logits).cpu().numpy()


def _parse(smiles: Sequence[str]) -> list[MoleculeGraph]:
    graphs = []
    for number, string in enumerate(smiles):
        try:
            graphs.append(parse_smiles(string))
        except ValueError as error:
            raise ValueError(f"SMILES {number}, {string!r}: {error}") from None
    return graphs


def load(
    path: str | os.PathLike[str], user_data_dir: str | os.PathLike[str] | None = None
) -> Predictor:
    """Load a checkpoint that was trained or converted here.

    The model computes in the precision of its weights, float32 at least.

    Args:
        path: of the checkpoint.
        user_data_dir: folder with modules that register what the model needs, such as
            its substructures. The one that the checkpoint names is not imported.

    Raises:
        OSError: there is no such file.
        ValueError: it is no checkpoint of this package, or the folder cannot be
            imported.
    """
    if user_data_dir is not None:
        import_user_data(user_data_dir)
    checkpoint = read_checkpoint(path)
    with complete(path):
        cfg = OmegaConf.create(checkpoint.state["cfg"])
    # Others of fairseq's would open what files the checkpoint names.
    task_class = TASK_REGISTRY.get(cfg.task._name, FairseqTask)
    if not issubclass(task_class, GraphPredictionTask):
        raise ValueError(f"{path} is of task {cfg.task._name!r}, none of this package")
    model_class = ARCH_MODEL_REGISTRY.get(checkpoint.arch, BaseFairseqModel)
    if model_class.__module__.startswith("fairseq."):
        raise ValueError(
            f"{path} is of architecture {checkpoint.arch!r}, which is not registered "
            "in this package"
        )
    with complete(path):
        options = TASK_DATACLASS_REGISTRY[cfg.task._name]()
        task = task_class(merge_with_parent(options, cfg.task, remove_missing=True))
        task.load_state_dict(checkpoint.state["task_state"])
        model = build_model(cfg.model, task, from_checkpoint=True)
        dtype = torch.float32
        for weight in checkpoint.weights.values():
            dtype = torch.promote_types(dtype, weight.dtype)
        model.to(dtype).load_state_dict(checkpoint.weights, strict=True)
    return Predictor(model, task.schema, task.targets)
