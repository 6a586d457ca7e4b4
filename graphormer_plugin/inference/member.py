"""A trained model that predicts and embeds molecules: one member of a predictor."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from graphormer_plugin.data.columns import Level
from graphormer_plugin.data.graphs.descriptors import extra_columns, with_descriptors
from graphormer_plugin.data.graphs.featurisers import Featuriser, GraphsOnly
from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.tables.options import MAX_ATOMS
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.estimators.domain import Domain
from graphormer_plugin.estimators.gp import GPEstimator
from graphormer_plugin.estimators.prediction import Prediction, values_of
from graphormer_plugin.estimators.trees import TreesEstimator
from graphormer_plugin.inference.embedding import (
    joined_vectors,
    layer_vectors,
    output_and_vectors,
    widths,
)
from graphormer_plugin.inference.graphs import Batch, ModelGraphs, PerGraph
from graphormer_plugin.inference.molecules import Molecules
from graphormer_plugin.models import GraphModel
from graphormer_plugin.modules.layers.derivatives import (
    beside_forces,
    output_and_forces,
)

# Vectors of heads that share a model, by model and layers.
HeadVectors = dict[tuple[GraphModel, int], np.ndarray]


@dataclass(eq=False)
class Member:
    """A trained model with its vocabulary, its targets and the files beside it.

    Args:
        targets: targets of the model.
        featuriser: made graphs of SMILES for the training.
        max_atoms: atoms of the largest molecule that the commands read. The methods have
            no limit.
        domain: domain of the training molecules of a model without head.
        vector_parts: parts of a graph's vector that the checkpoint names, see
            `joined_vectors`.

    Attributes:
        targets: targets that it predicts, those of its head if it has one.
        extra_columns: names of numbers that predictions need beside the molecules.
    """

    model: GraphModel
    schema: FeatureSchema
    targets: TargetSchema
    featuriser: Featuriser = GraphsOnly()
    max_atoms: int = MAX_ATOMS
    head: GPEstimator | TreesEstimator | None = None
    domain: Domain | None = None
    arch: str = ""
    name: str = "the model"
    vector_parts: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.model.eval()
        self.model_outputs = self.targets.num_outputs
        if self.head is None:
            self.extra_columns = extra_columns(self.schema.graph_features)
            return
        self.targets = self.head.targets
        numbers = (self.head.numbers[name] for name in ("offset", "scale"))
        first = self.targets.first_outputs
        self.targets = self.targets.scaled(*(x[first] for x in numbers))
        self.domain = self.head.domain
        self.extra_columns = self.head.extra_columns

    def __str__(self) -> str:
        name = self.arch or type(self.model).__name__
        return name if self.head is None else f"{name}, head: {self.head}"

    @property
    def typical_extra(self) -> np.ndarray:
        """Means of `extra_columns` over the training molecules [columns]."""
        if self.head is not None and self.extra_columns:
            return self.head.typical_extra
        means = dict(zip(self.schema.graph_features, self.schema.graph_mean))
        return np.array([means[name] for name in self.extra_columns])

    def estimate(
        self,
        molecules: Molecules,
        batch_size: int,
        numbers: np.ndarray,
        domain: bool,
        vectors: HeadVectors,
    ) -> Prediction:
        """Prediction for molecules.

        Args:
            numbers: `extra_columns` of the molecules [n, columns].
            domain: whether to compute the likeness to the training molecules.
            vectors: gets the vectors that a head reads.
        """
        if self.head is not None:
            features = self.features(molecules, batch_size, numbers, vectors)
            return self.head.predict_features(features)
        graphs = self.graphs(molecules, numbers)
        if self.domain is None or not domain:
            return Prediction(self.values(graphs, batch_size))
        width = self.targets.num_outputs

        def _joined(batch: Batch) -> torch.Tensor:
            output, vectors = output_and_vectors(self.model, batch)
            return torch.cat([output + self.targets.atoms_output(batch), vectors], 1)

        joined = graphs.collect(_joined, width + self.model.embed_dim, batch_size)
        values = values_of(joined[:, :width], self.targets)
        score = self.domain.score(joined[:, width:])
        score[self.domain.is_beyond(numbers).any(1)] = 0
        return Prediction(values, None, score)

    @torch.no_grad()
    def features(
        self,
        molecules: Molecules,
        batch_size: int,
        numbers: np.ndarray,
        vectors: HeadVectors,
    ) -> dict[str, np.ndarray]:
        """Features by block that the head reads; see `estimate`."""
        head = self.head
        features = {name: molecules.features(name) for name in head.molecule_blocks}
        features["extra"] = numbers
        if head.vector_width:
            key = (self.model, head.layers)
            if key not in vectors:
                vectors[key] = self.embed(molecules, head.layers, batch_size)
            features["vectors"] = np.asarray(vectors[key], np.float32)
        return features

    def embed(
        self,
        molecules: Molecules,
        layers: int,
        batch_size: int,
        nodes: bool = False,
        fingerprint: bool = False,
    ) -> PerGraph:
        """Vectors of graphs or nodes, see `Predictor.embed`."""

        def _vectors(batch: Batch) -> torch.Tensor:
            if layers:
                return layer_vectors(self.model, batch, layers, nodes, fingerprint)
            return joined_vectors(self.model, batch, self.vector_parts)

        width = self.vector_width(layers)
        level = Level.NODE if nodes else Level.GRAPH
        return self.graphs(molecules).collect(_vectors, width, batch_size, level)

    def default_layers(self, of_layers: bool = False) -> int:
        """Number of layers that `embed` takes by default; ``of_layers``: for vectors of
        nodes and fingerprints, which have no parts."""
        return 0 if self.vector_parts and not of_layers else 1

    def vector_width(self, layers: int) -> int:
        """Length of a vector of `embed`."""
        if layers:
            return layers * self.model.embed_dim
        return sum(widths(self.model, self.model_outputs, self.vector_parts))

    def values(self, graphs: ModelGraphs, batch_size: int) -> PerGraph:
        """Predictions of the model without head, see `Predictor.predict`."""
        level = self.targets.level
        width = self.targets.num_outputs
        outputs = graphs.collect(self.output, width, batch_size, level)
        if level is Level.GRAPH:
            return values_of(outputs, self.targets)
        return [values_of(output, self.targets) for output in outputs]

    def output(self, batch: Batch) -> torch.Tensor:
        """Output of the model, with the energies of atoms that it did not learn."""
        return self.model(batch) + self.targets.atoms_output(batch)

    def energies_and_forces(
        self, molecules: Molecules, batch_size: int
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """See `Predictor.energies_and_forces`."""
        fields = self.model.batch_spec.fields
        is_energy = self.targets.is_one_number and self.model.level is Level.GRAPH
        if not is_energy or "pos" not in fields:
            raise ValueError("forces need a model of one value that reads positions")
        if self.head is not None:
            raise ValueError("a head on frozen vectors has no forces")
        scale = self.targets.std[0] if self.targets.std else 1.0

        def _energies_beside_forces(batch: Batch) -> torch.Tensor:
            output, forces = output_and_forces(self.model, batch, create_graph=False)
            output = output.detach() + self.targets.atoms_output(batch)
            energies = self.targets.restore(output.double())
            return beside_forces(energies, scale * forces.double())

        graphs = self.graphs(molecules)
        rows = graphs.collect(_energies_beside_forces, 4, batch_size, Level.NODE)
        return np.array([atoms[0, 0] for atoms in rows]), [
            atoms[:, 1:] for atoms in rows
        ]

    def graphs(
        self, molecules: Molecules, numbers: np.ndarray | None = None
    ) -> ModelGraphs:
        """Graphs, with the numbers that join the output layer if it reads some."""
        graphs = ModelGraphs(self.model, self.schema, molecules.chunk)
        names = self.schema.graph_features
        if names and numbers is not None:
            values = with_descriptors(names, numbers, lambda: molecules.descriptors)
            graphs.columns["graph_features"] = self.schema.scale_graph_features(values)
        return graphs
