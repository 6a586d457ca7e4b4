"""Predict, embed and explain with a trained model, from SMILES or graphs."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from fairseq.models import ARCH_MODEL_REGISTRY, BaseFairseqModel, build_model
from fairseq.tasks import TASK_REGISTRY
from omegaconf import OmegaConf
from rdkit import Chem

from graphormer_plugin.data.chunk import GraphChunk
from graphormer_plugin.data.collator import GraphCollator
from graphormer_plugin.data.columns import columns_of_chunk
from graphormer_plugin.data.dataset import cut_batches
from graphormer_plugin.data.field_cache import compute_columns
from graphormer_plugin.data.options import MAX_ATOMS
from graphormer_plugin.data.pyg_graphs import chunks_of_graphs
from graphormer_plugin.data.schema import FeatureSchema, TargetSchema
from graphormer_plugin.data.user_code import import_user_data
from graphormer_plugin.inference.attribution import attention_maps, gradient_times_input
from graphormer_plugin.inference.checkpoint import (
    Checkpoint,
    invalid_checkpoint_errors,
    read_checkpoint,
)
from graphormer_plugin.inference.embedding import layer_vectors
from graphormer_plugin.inference.molecules import parse_all
from graphormer_plugin.inference.values import values_of
from graphormer_plugin.models import ModelTask, missing_options
from graphormer_plugin.modules.dropout import dropout_switched_on

# SMILES, RDKit molecules and PyG `Data`, or graphs in arrays.
Inputs = Sequence[Any] | GraphChunk
# [G, C] with a row per graph, or an array [N, C] per graph.
PerGraph = np.ndarray | list[np.ndarray]
Batch = dict[str, torch.Tensor]

# Largest number of padded node pairs per batch: 256 molecules of 64 atoms.
MAX_PAIRS = 256 * 64 * 64


class Predictor:
    """A trained model with its vocabularies, targets and featuriser.

    Its methods take SMILES and RDKit molecules, or graphs: PyG `Data` with the features
    that the model was trained on, or a `GraphChunk` of them. ``Data`` for a model that was
    trained on SMILES says what its codes mean (see `check_vocabulary`).

    Args:
        model: is put into evaluation mode.
        schema: vocabularies of nodes and bonds that it was trained on.
        targets: names, kind, unit and standardisation of its outputs.
        featuriser: key of `FEATURISERS`, the function that made graphs of SMILES for the
            training; empty if the model takes graphs only.
        max_atoms: atoms of the largest molecule that the commands read. The methods have
            no limit.
    """

    def __init__(
        self,
        model: BaseFairseqModel,
        schema: FeatureSchema,
        targets: TargetSchema,
        featuriser: str = "",
        max_atoms: int = MAX_ATOMS,
    ) -> None:
        self.model = model.eval()
        self.schema = schema
        self.targets = targets
        self.featuriser = featuriser
        self.max_atoms = max_atoms

    def to(self, device: torch.device | str) -> "Predictor":
        """Move the model; returns this object."""
        self.model.to(device)
        return self

    def double(self) -> "Predictor":
        """Compute in float64; returns this object."""
        self.model.double()
        return self

    def predict(self, inputs: Inputs, batch_size: int = 128) -> PerGraph:
        """Predict for molecules or graphs.

        Args:
            inputs: molecules or graphs.
            batch_size: graphs per batch, >= 1; a batch of large graphs has fewer.

        Returns:
            float64 [len(inputs), C], rows in input order: values in the targets' unit
            for regression, else probabilities (per class for a multiclass target). A
            model of nodes returns a list of arrays [N, C], one per graph.

        Raises:
            ValueError: a molecule that RDKit refuses, features outside the vocabularies
                or with codes that may be others than those of the training, SMILES for
                a model of other features or of 3D positions, or a model of substructures
                that are not registered.
        """
        return self._predict(self._columns(inputs), batch_size)

    def sample(
        self, inputs: Inputs, count: int, seed: int = 1, batch_size: int = 128
    ) -> np.ndarray:
        """Predict several times with dropout switched on.

        Gal & Ghahramani 2016 (arXiv:1506.02142): the standard deviation over the samples
        measures the model's uncertainty. BatchNorm uses its training statistics.

        Args:
            inputs: molecules or graphs.
            count: samples, >= 1.
            seed: for torch's generators; their states are restored afterwards.
            batch_size: graphs per batch, >= 1.

        Returns:
            float64 [count, len(inputs), C], see `predict`.

        Raises:
            ValueError: as `predict`; a model of nodes, or one without dropout.
        """
        if self.targets.level != "graph":
            raise ValueError("only predictions of graphs can be sampled")
        if count < 1:
            raise ValueError(f"{count} samples, expected at least 1")
        columns = self._columns(inputs)
        device = next(self.model.parameters()).device
        forked = torch.random.fork_rng([device] if device.type == "cuda" else [])
        with dropout_switched_on(self.model), forked:
            torch.manual_seed(seed)
            samples = [self._predict(columns, batch_size) for _ in range(count)]
        return np.stack(samples)

    @torch.no_grad()
    def embed(
        self,
        inputs: Inputs,
        layers: int = 1,
        nodes: bool = False,
        batch_size: int = 128,
        fingerprint: bool = False,
    ) -> PerGraph:
        """Vectors of graphs or of their nodes, for use as fingerprints.

        Args:
            inputs: molecules or graphs.
            layers: number of last layers whose vectors are concatenated, the last
                layer's at the end; 1 to the model's number of layers.
            nodes: vectors of nodes instead of graphs.
            batch_size: graphs per batch, >= 1.
            fingerprint: GRPE's fingerprints: the virtual node after each of the layers,
                before the final normalisation, each divided by its L2 norm.

        Returns:
            float [len(inputs), layers * D], in the model's precision: the virtual node
            of each graph, or without one the model's read-out of its nodes. With
            ``nodes`` a list of arrays [N, layers * D], one per graph, without the virtual
            node.

        Raises:
            ValueError: as `predict`, the model does not have that many layers, or for
                ``fingerprint`` a model without a virtual node, or ``nodes``.
        """

        def vectors(batch: Batch) -> np.ndarray:
            found = layer_vectors(self.model, batch, layers, nodes, fingerprint)
            return found.cpu().numpy()

        width = layers * self.model.embed_dim
        return self._collect(self._columns(inputs), batch_size, vectors, width, nodes)

    @torch.no_grad()
    def attention(self, inputs: Inputs) -> list[np.ndarray]:
        """Attention maps of molecules or graphs.

        Returns:
            An array [layers, heads or channels, T, T] for each of them. Row i has the
            weights with which node i sums over all nodes: the virtual node first, then
            the atoms in the order of the SMILES; T = N if the model has no virtual node.

        Raises:
            ValueError: as `predict`, or a model without attention.
        """
        return [
            attention_maps(self.model, batch).double().cpu().numpy()
            for _, batch in self._batches(self._columns(inputs), 1)
        ]

    def gradient_times_input(self, inputs: Inputs, output: int = 0) -> list[np.ndarray]:
        """Gradient x input of an output for each atom of each molecule.

        Args:
            inputs: molecules or graphs.
            output: column of `predict`.

        Returns:
            An array [N] for each molecule: the derivative of the output with respect to a
            factor on the atom's input of the first layer. For regression the output is
            in the target's unit, else it is the logit.

        Raises:
            ValueError: as `predict`, or no such output.
        """
        if not 0 <= output < self.targets.num_outputs:
            raise ValueError(
                f"output {output}, expected 0..{self.targets.num_outputs - 1}"
            )
        scale = 1.0
        if self.targets.kind == "regression":
            ends = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
            low, high = self.targets.restore(ends.expand(2, self.targets.num_outputs))
            scale = float((high - low)[output])
        return [
            gradient_times_input(self.model, batch, output)
            .double()
            .mul(scale)
            .cpu()
            .numpy()
            for _, batch in self._batches(self._columns(inputs), 1)
        ]

    @torch.no_grad()
    def _predict(self, columns: Mapping[str, np.ndarray], batch_size: int) -> PerGraph:
        return self._collect(
            columns,
            batch_size,
            lambda batch: values_of(self.model(batch), self.targets),
            self.targets.num_outputs,
            self.targets.level == "node",
        )

    def _columns(self, inputs: Inputs) -> dict[str, np.ndarray]:
        """Graphs as flat columns, the format of a store."""
        if isinstance(inputs, str):
            raise ValueError("expected a list of SMILES, got one string")
        if hasattr(inputs, "edge_index") and not isinstance(inputs, GraphChunk):
            raise ValueError("expected a list of graphs, got one graph")
        if not len(inputs):
            return {"node_offset": np.zeros(1, np.int64)}
        reads_positions = "pos" in self.model.batch_spec.fields
        if not isinstance(inputs, GraphChunk):
            if reads_positions and any(
                isinstance(item, (str, Chem.Mol)) for item in inputs
            ):
                raise ValueError(
                    "the model reads 3D positions, which SMILES do not have"
                )
            graphs = parse_all(inputs, self.featuriser)
            inputs = GraphChunk.joined(
                list(chunks_of_graphs(graphs, with_target=False, progress=False))
            )
        if reads_positions and inputs.pos is None:
            raise ValueError("the model reads 3D positions, which are not given")
        columns = columns_of_chunk(inputs, self.schema)
        return columns | compute_columns(columns, self.model.batch_spec)

    def _batches(
        self, columns: Mapping[str, np.ndarray], batch_size: int, by_size: bool = False
    ) -> Iterator[tuple[np.ndarray, Batch]]:
        """Yield graph ids, and the fields that the model reads, on its device."""
        if batch_size < 1:
            raise ValueError(f"batch size {batch_size}, expected at least 1")
        sizes = np.diff(columns["node_offset"])
        collator = GraphCollator(
            dict(columns),
            np.full((len(sizes), 1), np.nan),
            num_bond_types=self.schema.num_bond_types,
            spec=self.model.batch_spec,
        )
        device = next(self.model.parameters()).device
        order = np.argsort(sizes, kind="stable") if by_size else np.arange(len(sizes))
        for graph_ids in cut_batches(
            order, sizes, max_graphs=batch_size, max_pairs=MAX_PAIRS
        ):
            batch = collator(graph_ids)["net_input"]["batch"]
            yield graph_ids, {name: field.to(device) for name, field in batch.items()}

    def _collect(
        self,
        columns: Mapping[str, np.ndarray],
        batch_size: int,
        function: Callable[[Batch], np.ndarray],
        width: int,
        nodes: bool,
    ) -> PerGraph:
        """Results of a function of batches, in input order: [G, width], or with
        ``nodes`` a list of [N, width]."""
        sizes = np.diff(columns["node_offset"])
        found: list[np.ndarray] = [np.empty(0)] * len(sizes)
        for graph_ids, batch in self._batches(columns, batch_size, by_size=True):
            for graph, values in zip(graph_ids, function(batch), strict=True):
                found[graph] = values[: sizes[graph]] if nodes else values
        if nodes:
            return found
        return np.stack(found) if found else np.empty((0, width))


def load(
    path: str | os.PathLike[str], user_data_dir: str | os.PathLike[str] | None = None
) -> Predictor:
    """Load a checkpoint that was trained or converted with this package.

    The model computes in the precision of its weights, float32 at least.

    Args:
        path: the checkpoint.
        user_data_dir: folder with modules that register what the model needs: its
            architecture, pair encodings or substructures. The folder that the checkpoint
            names is not imported.

    Raises:
        OSError: there is no such file.
        ValueError: it is not a checkpoint of this package, or the folder cannot be
            imported.
    """
    if user_data_dir is not None:
        import_user_data(user_data_dir)
    checkpoint = read_checkpoint(path)
    model = load_model(checkpoint, path)
    featuriser = checkpoint.state["task_state"].get("featuriser", "")
    with invalid_checkpoint_errors(path):
        max_atoms = int(checkpoint.state["cfg"]["task"].get("max_atoms", MAX_ATOMS))
    return Predictor(
        model, checkpoint.schema, checkpoint.targets, featuriser, max_atoms
    )


def load_model(
    checkpoint: Checkpoint, path: str | os.PathLike[str]
) -> BaseFairseqModel:
    """The model of a checkpoint, with its weights.

    Args:
        checkpoint: as it was read.
        path: where it was read, for messages.

    Raises:
        ValueError: its task or architecture is not one of this package or of a user's
            folder, or the weights do not fit.
    """
    task_name, arch = checkpoint.state["cfg"]["task"]["_name"], checkpoint.arch
    if not _is_ours(TASK_REGISTRY.get(task_name)):
        raise ValueError(f"{path} is of task {task_name!r}, none of this package")
    # fairseq's own architectures would open files that the checkpoint names.
    if not _is_ours(ARCH_MODEL_REGISTRY.get(arch)):
        raise ValueError(
            f"{path} is of architecture {arch!r}, which is not registered in this "
            "package"
        )
    with invalid_checkpoint_errors(path):
        cfg = OmegaConf.create(checkpoint.state["cfg"])
        task = ModelTask(checkpoint.schema, checkpoint.targets)
        cfg.model.update(missing_options(cfg.model))
        model = build_model(cfg.model, task, from_checkpoint=True)
        dtype = torch.float32
        for weight in checkpoint.weights.values():
            dtype = torch.promote_types(dtype, weight.dtype)
        model.to(dtype).load_state_dict(checkpoint.weights, strict=True)
    return model


def _is_ours(component: type | None) -> bool:
    """Whether a registered class is not one of fairseq's own."""
    return component is not None and not component.__module__.startswith("fairseq.")
