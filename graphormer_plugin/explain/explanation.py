"""Explanations of a model's prediction for a molecule, as panels to draw."""

from collections.abc import Sequence

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdDepictor

from graphormer_plugin.explain.drawing import (
    VIRTUAL,
    Group,
    Map,
    Molecule,
    Panel,
    Section,
)
from graphormer_plugin.inference.molecules import Molecules
from graphormer_plugin.inference.predictor import Predictor


class NoPredictionError(ValueError):
    """A model has no prediction for a molecule."""


class Explainer:
    """Makes the panels that explain the prediction for a molecule.

    Args:
        predictor: a model that predicts graphs.
        target: name of the target; None for the first.
        layer: layer, counted from 1, whose heads or channels are drawn one by one; None:
            no layer, except layer 1 for chromatic attention and ``few`` molecules.
        channels: heads or channels of that layer to draw, counted from 1; empty for all.
        atoms: atoms, counted from 1, whose attention is drawn on the molecule.
        few: whether only a few molecules are explained.

    Raises:
        ValueError: no such target, layer or channel.
    """

    def __init__(
        self,
        predictor: Predictor,
        target: str | None,
        layer: int | None,
        channels: Sequence[int],
        atoms: Sequence[int],
        few: bool,
    ) -> None:
        self.predictor = predictor
        names = list(predictor.targets.names)
        if target is not None and target not in names:
            raise ValueError(f"--target {target}: expected one of {', '.join(names)}")
        self.name = target or names[0]
        self.output = names.index(self.name)
        encoder = predictor.model.encoder
        modules = encoder.attention_modules()
        channelwise = encoder.attention_unit == "channel"
        if layer is None and channelwise and (few or channels):
            layer = 1
        if layer is not None and not 1 <= layer <= len(modules):
            raise ValueError(
                f"--layer {layer}: the model has {len(modules)} layers with attention"
            )
        if atoms and not modules:
            chosen = ",".join(map(str, atoms))
            raise ValueError(f"--atoms {chosen}: the model has no attention maps")
        if channels and layer is None:
            raise ValueError("--channels needs --layer")
        self.has_attention = bool(modules)
        self.virtual = self.has_attention and predictor.model.virtual_node
        self.layer = layer
        self.channels = channels
        self.atoms = atoms
        self.choose_atom = channelwise and layer is not None and not atoms
        self.unit = encoder.attention_unit

    @property
    def introduction(self) -> str:
        """Text that explains the pictures of a page."""
        signs = (
            "Gradient x input: red atoms raise the prediction, blue atoms lower it. Atoms "
            "are numbered in the order of the SMILES."
        )
        if names := self.predictor.extra_columns:
            signs += f" {', '.join(names)} have their mean over the training molecules."
        if self.predictor.schema.graph_features:
            signs += (
                " Numbers that the output layer reads beside the graph are left out."
            )
        if not self.has_attention:
            return f"{signs} The model has no attention to draw."
        first = f" {VIRTUAL} is the virtual node." if self.virtual else ""
        return (
            f"{signs} Attention maps: row i has the weights with which i sums over all "
            f"columns; of a layer, the mean over its {self.unit}s.{first}"
        )

    def check_atoms(self, molecules: Molecules) -> None:
        """Raise ValueError if a molecule lacks a chosen atom."""
        (count,) = molecules.chunk.num_nodes.tolist()
        if self.atoms and max(self.atoms) > count:
            has = f"{count} atom{'s' * (count > 1)}"
            (smiles,) = molecules.sources
            raise ValueError(
                f"--atoms {max(self.atoms)}: {smiles} has {has}, numbered from 1"
            )

    def __call__(self, molecules: Molecules) -> Section:
        """Explain the prediction for a single molecule.

        Raises:
            NoPredictionError: it is not finite.
            ValueError: the layer has no such channel.
        """
        predictor, targets = self.predictor, self.predictor.targets
        (smiles,) = molecules.sources
        typical = np.full((1, len(predictor.extra_columns)), np.nan)
        (row,) = predictor.predict(molecules, extra=typical)
        if not np.isfinite(row).all():
            raise NoPredictionError(f"{smiles}: the prediction is not finite")
        output, unit = self.output, "logit"
        if targets.kind == "multiclass":
            output = int(row.argmax())
            label = targets.classes_of(0)[output:][:1] or [f"class {output}"]
            text = f"{self.name}: {label[0]}, probability {row[output]:.3f}"
        elif targets.kind == "binary":
            of = "".join(f" of {word}" for word in targets.classes_of(output)[1:])
            text = f"{self.name}: probability{of} {row[output]:.3f}"
        else:
            unit = targets.unit.replace("dimensionless", "")
            text = f"{self.name}: {row[output]:.4g} {unit}".rstrip()
        (dependence,) = predictor.gradient_times_input(molecules, output)
        mol = molecules.nodes(0)
        rdDepictor.Compute2DCoords(mol)  # once for all panels
        title = f"gradient x input, {unit}" if unit else "gradient x input"
        panels: list[Panel] = [Molecule(title, mol, dependence, signed=True)]
        groups: list[Group] = [("", panels)]
        if self.has_attention:
            (attention,) = predictor.attention(molecules)
            panels.insert(0, received(mol, attention, self.virtual))
            atoms = [atom - 1 for atom in self.atoms]
            if self.choose_atom:
                atoms = [int(np.abs(dependence).argmax())]
            groups += self.maps(mol, attention, atoms)
        return Section(smiles, text, groups)

    def maps(
        self, mol: Chem.Mol, attention: np.ndarray, atoms: Sequence[int]
    ) -> list[Group]:
        """Panels of attention maps [layers, heads or channels, T, T] of a molecule; rows of
        ``atoms``, counted from 0, of the most detailed maps are drawn on the molecule.
        """
        virtual = self.virtual
        symbols = [atom.GetSymbol() for atom in mol.GetAtoms()]
        adjacency = Chem.GetAdjacencyMatrix(mol).astype(float)
        if virtual:
            adjacency = np.pad(adjacency, (1, 0))
        named = {f"layer {at}": maps.mean(0) for at, maps in enumerate(attention, 1)}
        panels = [Map("bonds", adjacency, symbols, virtual)]
        panels += [Map(*item, symbols, virtual) for item in named.items()]
        groups: list[Group] = [("attention of each layer", panels)]
        maps_of = f"mean over {self.unit}s"
        if self.layer:
            maps = attention[self.layer - 1]
            chosen = self.channels or range(1, len(maps) + 1)
            if max(chosen) > len(maps):
                raise ValueError(
                    f"--channels {max(chosen)}: layer {self.layer} has {len(maps)} "
                    f"{self.unit}s"
                )
            named = {f"{self.unit} {number}": maps[number - 1] for number in chosen}
            maps_of = f"{self.unit}s of layer {self.layer}"
            panels = [Map(*item, symbols, virtual) for item in named.items()]
            groups.append((maps_of, panels))
        for atom in atoms:
            heading = f"what atom {atom + 1} ({symbols[atom]}) attends to, {maps_of}"
            rows = [
                Molecule(title, mol, matrix[virtual:, virtual:][atom], marked=atom)
                for title, matrix in named.items()
            ]
            groups.append((heading, rows))
        return groups


def received(mol: Chem.Mol, attention: np.ndarray, virtual: bool) -> Molecule:
    """The molecule coloured by the attention that its atoms receive from the virtual
    node, or without it from all atoms: the mean over all maps."""
    mean = attention.mean((0, 1))
    if virtual:
        return Molecule("attention from the virtual node", mol, mean[0, 1:])
    return Molecule("attention from all atoms", mol, mean.mean(0))
