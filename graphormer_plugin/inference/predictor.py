"""Predict, embed and explain with a trained model, from SMILES or graphs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from fairseq.models import BaseFairseqModel
from rdkit import Chem

from graphormer_plugin.data.chunk import GraphChunk
from graphormer_plugin.data.collator import GraphCollator
from graphormer_plugin.data.columns import columns_of_chunk, graph_digest
from graphormer_plugin.data.dataset import cut_batches
from graphormer_plugin.data.field_cache import compute_columns
from graphormer_plugin.data.graph_features import PREFIX, with_descriptors
from graphormer_plugin.data.options import MAX_ATOMS
from graphormer_plugin.data.pyg_graphs import chunks_of_graphs
from graphormer_plugin.data.schema import FeatureSchema, TargetSchema
from graphormer_plugin.inference.attribution import attention_maps, gradient_times_input
from graphormer_plugin.inference.bfloat16 import multiply_in_bfloat16
from graphormer_plugin.inference.domain import Domain
from graphormer_plugin.inference.embedding import layer_vectors, output_and_vectors
from graphormer_plugin.inference.extra_columns import Extra, extra_values
from graphormer_plugin.inference.head import Head
from graphormer_plugin.inference.molecules import canonical, parse_all, smiles_of
from graphormer_plugin.inference.values import Prediction, describe, values_of
from graphormer_plugin.modules.dropout import dropout_switched_on

# SMILES, RDKit molecules and PyG `Data`, or graphs in arrays.
Inputs = Sequence[Any] | GraphChunk
# [G, C] with a row per graph, or an array [N, C] per graph.
PerGraph = np.ndarray | list[np.ndarray]
Batch = dict[str, torch.Tensor]

# Largest number of padded node pairs per batch: 256 molecules of 64 atoms.
MAX_PAIRS = 256 * 64 * 64
# Padded nodes of a batch per thread of a CPU: the activations stay in its cache, and
# molecules of a batch are of about equal size.
NODES_PER_THREAD = 1024


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
        head: predicts from the model's vectors, instead of the model's own head.
        domain: of the training molecules of a model without such a head.
        arch: name of the architecture.

    Attributes:
        targets: what is predicted: those of the head, if there is one.
        extra_columns: names of numbers that predictions need beside the molecules.
    """

    def __init__(
        self,
        model: BaseFairseqModel,
        schema: FeatureSchema,
        targets: TargetSchema,
        featuriser: str = "",
        max_atoms: int = MAX_ATOMS,
        head: Head | None = None,
        domain: Domain | None = None,
        arch: str = "",
    ) -> None:
        self.model = model.eval()
        self.schema = schema
        self.targets = targets if head is None else head.targets
        self.featuriser = featuriser
        self.max_atoms = max_atoms
        self.head = head
        self.domain = domain if head is None else head.domain
        self.arch = arch
        if head is not None:
            self.extra_columns = head.extra_columns
        else:
            names = schema.graph_features
            self.extra_columns = [one for one in names if not one.startswith(PREFIX)]

    def __repr__(self) -> str:
        head = "" if self.head is None else f", head: {self.head}"
        model = self.arch or type(self.model).__name__
        return f"<Predictor: {describe(self.targets)}; {model}{head}>"

    def to(self, device: torch.device | str) -> "Predictor":
        """Move the model; returns this object."""
        self.model.to(device)
        return self

    def double(self) -> "Predictor":
        """Compute in float64; returns this object."""
        self.model.double()
        return self

    def bfloat16(self) -> "Predictor":
        """Multiply matrices of the layers in bfloat16; returns this object.

        Raises:
            ValueError: the model's device has no instructions for it.
        """
        multiply_in_bfloat16(self.model)
        return self

    def predict(
        self, inputs: Inputs, batch_size: int = 128, extra: Extra = None
    ) -> PerGraph:
        """Predict for molecules or graphs.

        Args:
            inputs: molecules or graphs.
            batch_size: graphs per batch, >= 1; a batch of large graphs has fewer.
            extra: numbers of each molecule for `extra_columns`, by name or as columns of
                an array; NaN where missing.

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
        if self.head is not None:
            return self.estimate(inputs, batch_size, extra=extra).values
        columns = self._joined(self._columns(inputs), inputs, None, extra)
        return self._predict(columns, batch_size)

    @torch.no_grad()
    def estimate(
        self,
        inputs: Inputs,
        batch_size: int = 128,
        smiles: Sequence[str] | None = None,
        extra: Extra = None,
    ) -> Prediction:
        """Predict, with the spread of a head, and the likeness to the training molecules.

        Args:
            inputs: molecules or graphs.
            batch_size: graphs per batch, >= 1.
            smiles: of graphs, for a model that reads descriptors or fingerprints.
            extra: see `predict`.

        Raises:
            ValueError: as `predict`; a model of nodes, or a head that needs SMILES which
                are not given.
        """
        if self.targets.level != "graph":
            raise ValueError("predictions of nodes have neither spread nor domain")
        columns = self._columns(inputs)
        if self.head is not None:
            width = self.head.layers * self.model.embed_dim
            numbers = extra_values(self.extra_columns, extra, len(inputs))
            vectors = self._collect(columns, batch_size, self._outputs, width, False)
            return self.head.predict(vectors, self._smiles(inputs, smiles), numbers)
        columns = self._joined(columns, inputs, smiles, extra)
        if self.domain is None:
            return Prediction(self._predict(columns, batch_size))

        def both(batch: Batch) -> np.ndarray:
            output, vectors = output_and_vectors(self.model, batch)
            values = values_of(output, self.targets)
            return np.concatenate([vectors.double().cpu().numpy(), values], 1)

        width = self.model.embed_dim
        found = self._collect(
            columns, batch_size, both, width + self.targets.num_outputs, False
        )
        return Prediction(found[:, width:], None, self.domain.score(found[:, :width]))

    def _smiles(self, inputs: Inputs, smiles: Sequence[str] | None) -> Sequence[str]:
        """SMILES of molecules for the head; none where it reads vectors only."""
        if not self.head.needs_smiles:
            return ()
        return self._texts(inputs, smiles)

    def _texts(self, inputs: Inputs, smiles: Sequence[str] | None) -> list[str]:
        """SMILES of the molecules that the graphs show."""
        if smiles is None:
            smiles = () if isinstance(inputs, GraphChunk) else inputs
        return smiles_of(smiles, self.featuriser)

    def _joined(
        self,
        columns: dict[str, np.ndarray],
        inputs: Inputs,
        smiles: Sequence[str] | None,
        extra: Extra,
    ) -> dict[str, np.ndarray]:
        """Columns with the numbers that join the output layer, if it reads some."""
        names = self.schema.graph_features
        if not names:
            return columns
        values, texts = extra_values(self.extra_columns, extra, len(inputs)), []
        if len(names) > len(self.extra_columns):
            texts = self._texts(inputs, smiles)
        values = with_descriptors(names, values, texts)
        columns["graph_features"] = self.schema.scale_graph_features(values)
        return columns

    def sample(
        self, inputs: Inputs, count: int, seed: int = 1, extra: Extra = None
    ) -> np.ndarray:
        """Predict several times with dropout switched on.

        Gal & Ghahramani 2016 (arXiv:1506.02142): the standard deviation over the samples
        measures the model's uncertainty. BatchNorm uses its training statistics. The
        random numbers of a molecule depend on its graph and the seed alone, so that
        equal molecules have equal samples, in any batch and order.

        Args:
            inputs: molecules or graphs. A SMILES is read in its canonical form.
            count: samples, >= 1.
            seed: for torch's generators; their states are restored afterwards.
            extra: see `predict`.

        Returns:
            float64 [count, len(inputs), C], see `predict`.

        Raises:
            ValueError: as `predict`; a model of nodes, or one without dropout.
        """
        if self.targets.level != "graph":
            raise ValueError("only predictions of graphs can be sampled")
        if count < 1:
            raise ValueError(f"{count} samples, expected at least 1")
        inputs = canonical(inputs)
        columns = self._columns(inputs)
        smiles, numbers = (), np.empty(0)
        if self.head is None:
            columns = self._joined(columns, inputs, None, extra)
        else:
            smiles = self._smiles(inputs, None)
            numbers = extra_values(self.extra_columns, extra, len(inputs))
        collator, sizes = self._collator(columns), np.diff(columns["node_offset"])
        device = next(self.model.parameters()).device
        forked = torch.random.fork_rng([device] if device.type == "cuda" else [])
        found: dict[str, np.ndarray] = {}
        keys = []
        with dropout_switched_on(self.model), forked, torch.no_grad():
            for graph, size in enumerate(sizes.tolist()):
                key = graph_digest(columns, graph)
                keys.append(key)
                if key in found:
                    continue
                copies = max(1, min(count, MAX_PAIRS // size**2))
                batch = collator(np.full(copies, graph))["net_input"]["batch"]
                torch.manual_seed(int(key[:15], 16) ^ seed)
                batch = {name: field.to(device) for name, field in batch.items()}
                parts = [self._outputs(batch) for _ in range(-(-count // copies))]
                found[key] = np.concatenate(parts)[:count]
        if not keys:
            return np.empty((count, 0, self.targets.num_outputs))
        samples = np.stack([found[key] for key in keys], 1)
        if self.head is None:
            return samples
        # Rows of a matrix product may differ in the last bit: equal molecules share one.
        places: dict[Any, int] = {}
        rows = zip(keys, smiles or keys, map(bytes, numbers))
        place = [places.setdefault(row, len(places)) for row in rows]
        _, first = np.unique(place, return_index=True)
        smiles = [smiles[row] for row in first] if smiles else smiles
        return self.head.sample(samples[:, first], smiles, numbers[first])[:, place]

    def _outputs(self, batch: Batch) -> np.ndarray:
        """Values [B, C]; with a head, the vectors that it reads."""
        if self.head is None:
            return values_of(self.model(batch), self.targets)
        return layer_vectors(self.model, batch, self.head.layers).double().cpu().numpy()

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
        if self.head is not None:
            raise ValueError(
                "a head on frozen vectors has no gradient x input; explain a model of "
                "graphormer-train --model finetune"
            )
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
        if self.schema.graph_features:  # those of a typical molecule, until others come
            shape = len(inputs), len(self.schema.graph_features)
            columns["graph_features"] = np.zeros(shape)
        return columns | compute_columns(columns, self.model.batch_spec)

    def _collator(self, columns: Mapping[str, np.ndarray]) -> GraphCollator:
        return GraphCollator(
            dict(columns),
            np.full((len(columns["node_offset"]) - 1, 1), np.nan),
            num_bond_types=self.schema.num_bond_types,
            spec=self.model.batch_spec,
        )

    def _batches(
        self, columns: Mapping[str, np.ndarray], batch_size: int, by_size: bool = False
    ) -> Iterator[tuple[np.ndarray, Batch]]:
        """Yield graph ids, and the fields that the model reads, on its device."""
        if batch_size < 1:
            raise ValueError(f"batch size {batch_size}, expected at least 1")
        sizes = np.diff(columns["node_offset"])
        collator = self._collator(columns)
        device = next(self.model.parameters()).device
        order = np.argsort(sizes, kind="stable") if by_size else np.arange(len(sizes))
        max_nodes = None
        if device.type == "cpu":
            max_nodes = NODES_PER_THREAD * torch.get_num_threads()
        for graph_ids in cut_batches(
            order,
            sizes,
            max_graphs=batch_size,
            max_nodes=max_nodes,
            max_pairs=MAX_PAIRS,
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
        device = next(self.model.parameters()).device
        # The outermost context of autocast: `bfloat16` converts weights once within it.
        with torch.autocast(device.type, enabled=False):
            for graph_ids, batch in self._batches(columns, batch_size, by_size=True):
                for graph, values in zip(graph_ids, function(batch), strict=True):
                    found[graph] = values[: sizes[graph]] if nodes else values
        if nodes:
            return found
        return np.stack(found) if found else np.empty((0, width))
