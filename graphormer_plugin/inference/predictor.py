"""Trained models that predict and embed SMILES or graphs, and show their attention."""

import functools
import operator
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from graphormer_plugin.data.columns import Level
from graphormer_plugin.data.graphs.graph_columns import columns_of_chunk
from graphormer_plugin.data.graphs.pyg_graphs import edge_kind_of
from graphormer_plugin.data.graphs.seen import unseen_categories, unseen_line
from graphormer_plugin.data.scales import Scale
from graphormer_plugin.data.store.featurise import RowReader
from graphormer_plugin.estimators.domain import (
    Domain,
    MoleculeDescription,
    is_fitted,
)
from graphormer_plugin.estimators.prediction import (
    Estimate,
    Interval,
    Prediction,
    SpreadScale,
    combined,
    in_unit,
    names_and_unit,
)
from graphormer_plugin.inference.attribution import attention_maps
from graphormer_plugin.inference.bfloat16 import multiply_in_bfloat16
from graphormer_plugin.inference.extra_columns import Extra, extra_values
from graphormer_plugin.inference.graphs import PerGraph
from graphormer_plugin.inference.member import HeadVectors, Member
from graphormer_plugin.inference.molecules import Molecules, read
from graphormer_plugin.models import GraphModel

# SMILES, RDKit molecules and PyG `Data`, or `Predictor.read` of these.
Inputs = Sequence[Any] | Molecules


@dataclass(eq=False, repr=False)
class Predictor:
    """One or several trained models that predict the same targets together.

    Its methods take SMILES and RDKit molecules, or graphs: PyG `Data` with the features
    that the model was trained on. ``Data`` for a model that was trained on SMILES says what its
    codes mean (see `check_vocabulary`).

    Several models predict as `combined`; explanations are of a single model, for example
    ``Predictor([member])``.

    Args:
        members: at least one, with the same targets, extra columns and featuriser.
        scale: calibration of the spread of several members; None: as it is.
        scales: scale of each target that the members predict; empty: they predict labels.
        interval: conformal intervals of the targets; None: see `Interval.of_scales`.
        seen: `read_seen` of the start; None where that is not known.
        mean: whether a value is the mean of a label on a scale, instead of its median.
        each: whether an `Estimate` also has the values of each member.

    Attributes:
        targets: targets that it predicts, in their original units.
        extra_columns: names of numbers that predictions need beside the molecules.
        max_atoms: atoms of the largest molecule that the commands read. The methods have
            no limit.
    """

    members: Sequence[Member]
    scale: SpreadScale | None = None
    scales: Sequence[Scale] = ()
    interval: Interval | None = None
    mean: bool = False
    seen: np.ndarray | None = None
    each: bool = False

    def __post_init__(self) -> None:
        first = self.members[0]
        level = first.targets.level
        if len(self.members) > 1 and level is not Level.GRAPH:
            raise ValueError(
                f"several models of {level}s have no mean; name one of them"
            )
        if any(self.scales):
            self.targets = first.targets.in_unit(self.scales)
            if self.has_spread and self.interval is None:
                self.interval = Interval.of_scales(self.targets, self.scales)
        else:
            self.targets = first.targets
        self.featuriser = first.featuriser
        self.extra_columns = first.extra_columns
        self.max_atoms = min(member.max_atoms for member in self.members)

    def __repr__(self) -> str:
        models = " | ".join(dict.fromkeys(map(str, self.members)))
        if len(self.members) > 1:
            models = f"{len(self.members)} models ({models})"
        return f"<Predictor: {names_and_unit(self.targets)}; {models}>"

    @property
    def member(self) -> Member:
        """The only member; ValueError if there are several."""
        if len(self.members) > 1:
            raise ValueError(
                f"this is of a single model, not of {len(self.members)}; take "
                "Predictor([member]) for one of predictor.members"
            )
        return self.members[0]

    @property
    def model(self) -> GraphModel:
        """The model of the only member."""
        return self.member.model

    @property
    def device(self) -> torch.device:
        """Where the models are."""
        return next(self.members[0].model.parameters()).device

    @property
    def domains(self) -> list[Domain]:
        """Domains of the members, where they are known."""
        return [m.domain for m in self.members if m.domain is not None]

    @property
    def typical_extra(self) -> np.ndarray:
        """Means of `extra_columns` over the training molecules [columns]; of several members
        their mean."""
        return np.mean([member.typical_extra for member in self.members], 0)

    @property
    def has_spread(self) -> bool:
        """Whether predictions have standard deviations."""
        return len(self.members) > 1 or self.members[0].head is not None

    def to(self, device: torch.device | str) -> "Predictor":
        """Move the models; returns this object."""
        for member in self.members:
            member.model.to(device)
        return self

    def double(self) -> "Predictor":
        """Compute in float64; returns this object."""
        for member in self.members:
            member.model.double()
        return self

    def bfloat16(self) -> "Predictor":
        """Multiply matrices of the layers in bfloat16; returns this object."""
        for model in {member.model for member in self.members}:
            multiply_in_bfloat16(model)
        return self

    def reader(self, max_atoms: int | None = None) -> RowReader:
        """Reader for `read_rows`, which gives a reason for a SMILES that cannot be read."""
        featuriser = self.featuriser
        schemas = (member.schema for member in self.members)
        # Its codes are within its own vocabularies: there is nothing to check.
        others = [s for s in schemas if (s.node_dims, s.bond_dims) != featuriser.dims]
        try:
            most = max_atoms or self.max_atoms
            return RowReader(featuriser.read, most, others, featuriser)
        except ValueError as error:
            raise ValueError(f"{self.members[0].name}: {error}") from None

    def read(self, inputs: Inputs, extra: Extra = None) -> Molecules:
        """Read molecules or graphs once, for several calls of the other methods; for ``extra``
        see `predict`."""
        if isinstance(inputs, Molecules):
            return inputs
        edge_kind = edge_kind_of(self.members[0].schema)
        molecules = read(inputs, self.featuriser, edge_kind, self.targets.level)
        numbers = None
        if extra is not None:
            numbers = extra_values(self.extra_columns, extra, len(molecules))
        if line := unseen_line(self.unseen(molecules, numbers)):
            warnings.warn(line, stacklevel=3)
        return molecules

    def unseen(
        self, molecules: Molecules, numbers: np.ndarray | None = None
    ) -> Counter[str]:
        """Number of molecules with each category that the training of no member had, and with
        `extra_columns` [n, columns] beyond it; a domain knows what its member learned.
        """
        ids = np.arange(len(molecules))
        each = []
        for member in self.members if len(ids) else ():
            seen = member.schema if member.head is None else member.schema.unscaled()
            columns = (
                columns_of_chunk(molecules.chunk, seen.unscaled()) if seen.seen else {}
            )
            if numbers is not None and member.domain is None and seen.seen:
                columns["graph_features"] = numbers
            each.append(unseen_categories(columns, ids, seen, self.featuriser))
        return functools.reduce(operator.and_, each or [Counter()])

    @torch.no_grad()
    def predict(
        self, inputs: Inputs, batch_size: int = 128, extra: Extra = None
    ) -> PerGraph:
        """Predict for molecules or graphs.

        Args:
            batch_size: graphs per batch, >= 1; a batch of large graphs has fewer.
            extra: numbers of each molecule for `extra_columns`, by name or as columns of
                an array; NaN where missing.

        Returns:
            float64 [len(inputs), C], rows in input order: values in the targets' unit
            for regression, else probabilities (per class for a multiclass target). A
            model of nodes returns a list with an array [N, C] per graph, atoms in the order
            of the source. A model of edges or links returns a list with an array [P, C] per
            graph, rows in the order of ``edge_index`` or ``edge_label_index`` (without it,
            see `GraphChunk.with_edge_label_index`).

        Raises:
            ValueError: RDKit refuses a molecule, features are outside the vocabularies or
                may have other codes, SMILES are given to a model of other features or of
                3D positions, or substructures are not registered.
        """
        molecules = self.read(inputs, extra=extra)
        if self.targets.level is Level.GRAPH:
            return self.together(molecules, batch_size, extra, False).values
        parts = self.predicted_parts(molecules, batch_size, extra)
        return [part[:, -self.targets.num_outputs :] for part in parts]

    @torch.no_grad()
    def predicted_parts(
        self, molecules: Molecules, batch_size: int = 128, extra: Extra = None
    ) -> list[np.ndarray]:
        """Predictions of nodes, edges or links with a row for each, and before those of an edge
        or link its two atoms: [N, C] or [P, 2 + C] of each molecule, atoms as in the source.
        """
        if molecules.chunk is None:
            return []
        level = self.targets.level
        numbers = extra_values(self.extra_columns, extra, len(molecules))
        graphs = self.member.graphs(molecules, numbers)
        values = self.member.values(graphs, batch_size)
        if level is Level.NODE:
            return molecules.to_source_order(values, [0])
        ends = molecules.edge_label_index(level)
        parts = [np.hstack(part) for part in zip(ends, values, strict=True)]
        if level is Level.LINK and molecules.chunk.edge_label_index is None:
            for part in parts:  # canonical numbers have another order
                part[:, :2].sort(1)
            parts = [part[np.lexsort((part[:, 1], part[:, 0]))] for part in parts]
        return parts

    def energies_and_forces(
        self, inputs: Inputs, batch_size: int = 128
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Predict an energy, and the forces -dE/dx that follow from it, of atoms with positions.

        Any model of one value that reads positions has forces; `--task energy_forces` trains
        on them. Arguments and errors are those of `predict`.

        Returns:
            float64 [len(inputs)], in the target's unit, and an array [N, 3] per graph, in
            that unit per angstrom.
        """
        prediction, forces = self.estimate_with_forces(inputs, batch_size)
        return prediction.values[:, 0], forces

    def estimate_with_forces(
        self, inputs: Inputs, batch_size: int = 128
    ) -> tuple[Prediction, list[np.ndarray]]:
        """`energies_and_forces`, the energies with the spread of several models."""
        if any(self.scales):
            raise ValueError("forces of a logarithm are not those of its value")
        molecules = self.read(inputs)
        each = [one.energies_and_forces(molecules, batch_size) for one in self.members]
        energies, forces = zip(*each)
        means = [np.mean(of_models, 0) for of_models in zip(*forces)]
        prediction = combined([Prediction(values[:, None]) for values in energies])
        return prediction, molecules.to_source_order(means, [0])

    def estimate(
        self, inputs: Inputs, batch_size: int = 128, extra: Extra = None
    ) -> Prediction:
        """Predict, with the spread of a head or of several models, and the likeness to the
        training molecules; see `predict` for the arguments and errors."""
        level = self.targets.level
        if level is not Level.GRAPH:
            raise ValueError(
                f"predictions of {level}s have neither spread nor domain; take predict"
            )
        molecules = self.read(inputs, extra)
        return Prediction(*self.together(molecules, batch_size, extra)[:3])

    def is_fitted(self, molecules: Molecules) -> np.ndarray:
        """Whether a model was fitted to each molecule, bool [q]; False where that is not
        known."""
        described = MoleculeDescription.of(molecules.descriptor_mols)
        return is_fitted(self.domains, described)

    @torch.no_grad()
    def together(
        self,
        molecules: Molecules,
        batch_size: int = 128,
        extra: Extra = None,
        domain: bool = True,
    ) -> Estimate:
        """`estimate`, with the ends of `interval`; without ``domain`` the likeness to the
        training molecules is not computed."""
        each = self._each(molecules, batch_size, extra, domain)
        options = {"targets": self.targets, "scales": self.scales, "mean": self.mean}
        estimate = in_unit(self._combined(each), interval=self.interval, **options)
        if not self.each:
            return estimate
        values = [in_unit(member, **options).values for member in each]
        return estimate._replace(members=np.concatenate(values, 1))

    def learned(self, *arguments: Any) -> Prediction:
        """`together` on the `scales` that the members predict, with `scale`."""
        return self._combined(self._each(*arguments))

    @torch.no_grad()
    def _each(
        self,
        molecules: Molecules,
        batch_size: int,
        extra: Extra,
        domain: bool = True,
    ) -> list[Prediction]:
        """What each member predicts, on the `scales`; see `together`."""
        numbers = extra_values(self.extra_columns, extra, len(molecules))
        vectors: HeadVectors = {}
        return [
            member.estimate(molecules, batch_size, numbers, domain, vectors)
            for member in self.members
        ]

    def _combined(self, each: list[Prediction]) -> Prediction:
        """The prediction of all members, with `scale`."""
        result = each[0] if len(each) == 1 else combined(each)
        if result.std is not None and self.scale is not None:
            result = result._replace(std=self.scale(result.std))
        return result

    @torch.no_grad()
    def embed(
        self,
        inputs: Inputs,
        layers: int | None = None,
        nodes: bool = False,
        batch_size: int = 128,
        fingerprint: bool = False,
    ) -> PerGraph:
        """Vectors of graphs or of their nodes, for use as fingerprints.

        The vector of a graph is its virtual node. A model without virtual nodes reads it out
        of the nodes. The vectors of several models are concatenated. Models with equal
        weights, such as the start of several heads, are used once.

        Args:
            layers: number of last layers whose vectors are concatenated, in their order;
                0: the parts that the checkpoint names, see `joined_vectors`. The default is
                0 if the checkpoint names parts, else 1.
            nodes: return the vectors of nodes, without virtual nodes.
            fingerprint: GRPE's fingerprints, see `layer_vectors`.

        Returns:
            float [len(inputs), `vector_width`], in the model's precision; with ``nodes`` a
            list with an array [N, layers * D] per graph.
        """
        molecules = self.read(inputs)
        distinct = {member.model: member for member in self.members}
        parts = []
        for member in distinct.values():
            count = (
                member.default_layers(nodes or fingerprint)
                if layers is None
                else layers
            )
            parts.append(member.embed(molecules, count, batch_size, nodes, fingerprint))
        if not nodes:
            return np.concatenate(parts, 1)
        vectors = [np.concatenate(graph, 1) for graph in zip(*parts, strict=True)]
        return molecules.to_source_order(vectors, [0])

    @torch.no_grad()
    def attention(self, inputs: Inputs) -> list[np.ndarray]:
        """Attention maps of molecules or graphs.

        Returns:
            an array [layers, heads or channels, T, T] for each graph. Row i has the
            weights with which node i sums over all nodes: the virtual node first, then
            the atoms in the order of the SMILES; T = N if the model has no virtual node.
        """
        molecules = self.read(inputs)
        model = self.model
        maps = [
            attention_maps(model, batch).double().numpy(force=True)
            for batch in self.member.graphs(molecules).each()
        ]
        return molecules.to_source_order(maps, [2, 3], int(model.virtual_node))
