"""Use a checkpoint from Python.

>>> from graphormer_plugin import hub
>>> predictor = hub.load("checkpoint_best.pt")        # doctest: +SKIP
>>> predictor.predict(["CCO", "c1ccccc1"]).shape      # doctest: +SKIP
(2, 1)
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from fairseq.dataclass.utils import merge_with_parent
from fairseq.models import ARCH_MODEL_REGISTRY, BaseFairseqModel, build_model
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY, FairseqTask
from omegaconf import OmegaConf

import graphormer_plugin  # noqa: F401  (registers the components of checkpoints)
from graphormer_plugin.data.chunk import GraphChunk, Parser
from graphormer_plugin.data.collator import GraphCollator
from graphormer_plugin.data.columns import columns_of_chunk
from graphormer_plugin.data.datasets import FEATURISERS
from graphormer_plugin.data.featurise import captured_rdkit_log, parse
from graphormer_plugin.data.field_cache import compute_columns
from graphormer_plugin.data.pyg_graphs import chunks_of_graphs
from graphormer_plugin.data.schema import FeatureSchema, TargetSchema
from graphormer_plugin.data.user_code import import_user_data
from graphormer_plugin.inference.attribution import attention_maps, gradient_times_input
from graphormer_plugin.inference.checkpoint import complete, read_checkpoint
from graphormer_plugin.inference.embedding import layer_vectors
from graphormer_plugin.models import missing_options
from graphormer_plugin.modules.dropout import dropout_switched_on
from graphormer_plugin.tasks.graph_prediction import GraphPredictionTask

# SMILES and PyG `Data`, or graphs in arrays.
Inputs = Sequence[Any] | GraphChunk
# A row a graph, or an array [N, ...] a graph.
Rows = np.ndarray | list[np.ndarray]
Batch = dict[str, torch.Tensor]

# A batch has at most as many pairs of nodes as so many molecules of 64 atoms.
MOST_PAIRS = 256 * 64 * 64


class Predictor:
    """A trained model with all that prediction needs beside it.

    Its methods take SMILES, or graphs: PyG `Data` with the features that the model was
    trained on, or a `GraphChunk` of them.

    Args:
        model: in evaluation mode after this.
        schema: vocabularies of nodes and bonds that it was trained on.
        targets: names, kind, unit and standardisation of its outputs.
        featuriser: key of `FEATURISERS`, what made graphs of SMILES in training; empty:
            only graphs can be given.
    """

    def __init__(
        self,
        model: BaseFairseqModel,
        schema: FeatureSchema,
        targets: TargetSchema,
        featuriser: str = "",
    ) -> None:
        self.model = model.eval()
        self.schema = schema
        self.targets = targets
        self.featuriser = featuriser

    def to(self, device: torch.device | str) -> "Predictor":
        """Move the model; returns this object."""
        self.model.to(device)
        return self

    def double(self) -> "Predictor":
        """Compute in float64; returns this object."""
        self.model.double()
        return self

    def predict(self, inputs: Inputs, batch_size: int = 128) -> Rows:
        """Predict for molecules or graphs.

        Args:
            inputs: one molecule or graph each.
            batch_size: graphs a batch, >= 1; fewer of large ones.

        Returns:
            float [len(inputs), outputs], rows in input order: regression in the
            targets' unit, else probabilities (per class for a multiclass target). From
            a model of nodes a list of such arrays [N, outputs], one per graph.

        Raises:
            ValueError: a SMILES that RDKit refuses, features outside the vocabularies,
                SMILES for a model of other features or of 3D positions, or a model of
                substructures that are not registered.
        """
        return self._predict(self._columns(inputs), batch_size)

    def sample(
        self, inputs: Inputs, count: int, seed: int = 1, batch_size: int = 128
    ) -> np.ndarray:
        """Predict several times with dropout switched on.

        Gal & Ghahramani 2016 (arXiv:1506.02142): mean and standard deviation over the
        samples say how sure the model is. BatchNorm keeps the statistics of training.

        Args:
            inputs: one molecule or graph each.
            count: samples, >= 1.
            seed: of torch's generators, which are put back afterwards.
            batch_size: graphs a batch, >= 1.

        Returns:
            float [count, len(inputs), outputs], see `predict`.

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
    ) -> Rows:
        """Vectors of graphs or of their nodes, to be used as fingerprints.

        Args:
            inputs: one molecule or graph each.
            layers: the last so many layers, 1 to all, whose vectors stand side by side,
                those of the last layer at the end.
            nodes: vectors of nodes instead of graphs.
            batch_size: graphs a batch, >= 1.

        Returns:
            float [len(inputs), layers * D], in the model's precision: the virtual node of
            each graph, or without one the model's read-out of its nodes. With `nodes` a
            list of arrays [N, layers * D], one per graph, without the virtual node.

        Raises:
            ValueError: as `predict`; no such number of layers.
        """

        def vectors(batch: Batch) -> np.ndarray:
            found = layer_vectors(self.model, batch, layers, nodes)
            return found.cpu().numpy()

        width = layers * self.model.embed_dim
        return self._collect(self._columns(inputs), batch_size, vectors, width, nodes)

    @torch.no_grad()
    def attention(self, inputs: Inputs) -> list[np.ndarray]:
        """Attention within molecules or graphs.

        Returns:
            For each of them [layers, heads or channels, T, T], row i the weights with
            which node i sums over all nodes: the virtual node first, then the atoms in
            the order of the SMILES; T = N atoms where the model has no virtual node.

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
            inputs: one molecule or graph each.
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
            gradient_times_input(self.model, batch, output)
            .mul(scale)
            .double()
            .cpu()
            .numpy()
            for _, batch in self._batches(self._columns(inputs), 1)
        ]

    @torch.no_grad()
    def _predict(self, columns: Mapping[str, np.ndarray], batch_size: int) -> Rows:
        return self._collect(
            columns,
            batch_size,
            lambda batch: self._units(self.model(batch)),
            self.targets.num_outputs,
            self.targets.level == "node",
        )

    def _columns(self, inputs: Inputs) -> dict[str, np.ndarray]:
        """Flat columns of graphs, as a store has them."""
        if isinstance(inputs, str):
            raise ValueError("expected a list of SMILES, got one string")
        if hasattr(inputs, "edge_index") and not isinstance(inputs, GraphChunk):
            raise ValueError("expected a list of graphs, got one graph")
        if not len(inputs):
            return {"node_offset": np.zeros(1, np.int64)}
        reads_positions = "pos" in self.model.batch_spec.fields
        if not isinstance(inputs, GraphChunk):
            if reads_positions and any(isinstance(item, str) for item in inputs):
                raise ValueError(
                    "the model reads 3D positions, which SMILES do not have"
                )
            graphs = parsed(inputs, self.featuriser)
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
        """Numbers of graphs, and the fields that the model reads, on its device."""
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
        while len(order):
            window = order[:batch_size]
            pairs = sizes[window] ** 2 * np.arange(1, len(window) + 1)
            rows = window[: max(1, np.count_nonzero(pairs <= MOST_PAIRS))]
            order = order[len(rows) :]
            batch = collator(rows)["net_input"]["batch"]
            yield rows, {name: field.to(device) for name, field in batch.items()}

    def _collect(
        self,
        columns: Mapping[str, np.ndarray],
        batch_size: int,
        function: Callable[[Batch], np.ndarray],
        width: int,
        nodes: bool,
    ) -> Rows:
        """Rows [G, width] that a function makes of batches; with `nodes` a list."""
        sizes = np.diff(columns["node_offset"])
        found: list[np.ndarray] = [np.empty(0)] * len(sizes)
        for rows, batch in self._batches(columns, batch_size, by_size=True):
            for row, values in zip(rows, function(batch), strict=True):
                found[row] = values[: sizes[row]] if nodes else values
        if nodes:
            return found
        return np.stack(found) if found else np.empty((0, width))

    def _units(self, logits: torch.Tensor) -> np.ndarray:
        """Probabilities, or values in the targets' unit."""
        logits = logits.double()
        if self.targets.kind == "binary":
            return logits.sigmoid().cpu().numpy()
        if self.targets.kind == "multiclass":
            return logits.softmax(-1).cpu().numpy()
        return self.targets.restore(logits).cpu().numpy()


def parsed(inputs: Sequence[Any], featuriser: str) -> list[Any]:
    """Graphs of the SMILES among molecules; the others are graphs already.

    Raises:
        ValueError: a SMILES that is refused or something else, named by its number, or
            no featuriser.
    """
    graphs = []
    with captured_rdkit_log() as messages:
        for number, item in enumerate(inputs):
            if isinstance(item, str):
                try:
                    graph = parse(item, parser_of(featuriser), messages)
                except ValueError as error:
                    raise ValueError(f"SMILES {number}, {item!r}: {error}") from None
                item = graph
            elif not hasattr(item, "edge_index"):
                raise ValueError(
                    f"input {number}, {item!r}, is neither a SMILES nor a graph"
                )
            graphs.append(item)
    return graphs


def parser_of(featuriser: str) -> Parser:
    """What makes graphs of SMILES.

    Raises:
        ValueError: nothing does.
    """
    if featuriser not in FEATURISERS:
        raise ValueError(
            "the checkpoint does not say how SMILES become such graphs as the model was "
            "trained on; give graphs with the same features"
        )
    return FEATURISERS[featuriser]


def load(
    path: str | os.PathLike[str], user_data_dir: str | os.PathLike[str] | None = None
) -> Predictor:
    """Load a checkpoint that was trained or converted here.

    The model computes in the precision of its weights, float32 at least.

    Args:
        path: of the checkpoint.
        user_data_dir: folder with modules that register what the model needs: its
            architecture, pair encodings or substructures. The one that the checkpoint
            names is not imported.

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
        cfg.model.update(missing_options(cfg.model))
        model = build_model(cfg.model, task, from_checkpoint=True)
        dtype = torch.float32
        for weight in checkpoint.weights.values():
            dtype = torch.promote_types(dtype, weight.dtype)
        model.to(dtype).load_state_dict(checkpoint.weights, strict=True)
    featuriser = checkpoint.state["task_state"].get("featuriser", "")
    return Predictor(model, task.schema, task.targets, featuriser)
