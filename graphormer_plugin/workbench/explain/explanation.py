"""Explanations of a prediction for a molecule, as panels to draw."""

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, replace
from pathlib import Path

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdDepictor

from graphormer_plugin.data.columns import Level
from graphormer_plugin.data.errors import counted
from graphormer_plugin.data.graphs.sources import FORMATS
from graphormer_plugin.data.tables.cells import number_in
from graphormer_plugin.estimators.gp import GPEstimator
from graphormer_plugin.estimators.kernels import Floats
from graphormer_plugin.inference.molecules import Molecules
from graphormer_plugin.inference.prediction_columns import describe
from graphormer_plugin.inference.predictor import Predictor
from graphormer_plugin.workbench.explain.drawing import (
    VIRTUAL,
    Columns,
    Group,
    Map,
    Molecule,
    Panel,
    Section,
)
from graphormer_plugin.workbench.explain.masking import (
    ATOMS,
    ENVIRONMENTS,
    FRAGMENTS,
    PARTS,
    Contribution,
    contributions,
    shares,
)
from graphormer_plugin.workbench.explain.neighbours import TrainingMolecules
from graphormer_plugin.workbench.explain.sums import prediction_sum

NAMED = 3  # fragments with the largest contributions, beside the prediction


class NoPredictionError(ValueError):
    """A model has no prediction for a molecule."""


@dataclass
class Explainer:
    """Makes the panels that explain the prediction for a molecule.

    Args:
        checkpoints: files of the models, for `TrainingMolecules`.
        attention: whether to draw attention maps, too, of a single
            network without head. So do a layer, channels or atoms, counted from 1.
        layer: draw each head or channel of this layer.
        channels: heads or channels of that layer to draw; empty for all.
        atoms: atoms whose attention is drawn on the molecule.
        sums: whether to draw the `prediction_sum` by training molecules.
        myerson: parts whose `shares` are drawn, a key of `PARTS`; None: none.
    """

    predictor: Predictor
    target: str | None
    checkpoints: InitVar[Sequence[Path]]
    attention: bool = False
    layer: int | None = None
    channels: Sequence[int] = ()
    atoms: Sequence[int] = ()
    sums: bool = False
    myerson: str | None = None

    def __post_init__(self, checkpoints: Sequence[Path]) -> None:
        predictor = self.predictor
        level = predictor.targets.level
        if level is not Level.GRAPH:
            raise ValueError(
                f"the model predicts {level}s, and explanations are of graphs; "
                "graphormer-predict writes its predictions"
            )
        names = list(predictor.targets.names)
        if self.target not in (None, *names):
            raise ValueError(
                f"--target {self.target}: expected one of {', '.join(names)}"
            )
        reads = FORMATS[predictor.featuriser.reads]
        if predictor.featuriser.reads is not str:
            raise ValueError(
                f"the model reads {reads}, and explanations are of "
                "SMILES; in Python, attention of hub.load(CKPT) takes graphs"
            )
        self.name = self.target or names[0]
        self.index = names.index(self.name)
        self.training = TrainingMolecules(checkpoints, self.name, predictor.featuriser)
        chosen = self.layer is not None or self.channels or self.atoms
        self.attention = self.attention or bool(chosen)
        heads = [member.head for member in predictor.members]
        if self.sums and not all(isinstance(head, GPEstimator) for head in heads):
            raise ValueError(
                "--sum is of Gaussian processes; name a model of graphormer-train --model "
                "head"
            )
        if not self.attention:
            return
        if len(predictor.members) > 1 or predictor.members[0].head is not None:
            raise ValueError(
                "attention maps are of a single network without head; name a checkpoint "
                "of graphormer-train --model finetune"
            )
        model = predictor.model
        encoder = model.encoder
        layers = len(encoder.attention_modules())
        if self.layer is not None and not 1 <= self.layer <= layers:
            raise ValueError(
                f"--layer {self.layer}: the model has {layers} with attention"
            )
        if self.channels and self.layer is None:
            raise ValueError("--channels needs --layer")
        self.virtual = model.virtual_node
        self.unit = encoder.attention_unit

    @property
    def introduction(self) -> str:
        """Text that explains the pictures of a page."""
        text = (
            "Contribution: the prediction minus the prediction without a part of the "
            "molecule, hydrogens in its place. Red raises the prediction, blue lowers it; "
            "contributions do not add up to it. An environment is an atom with its "
            "neighbours. Atoms are numbered in the order of the SMILES."
        )
        if self.myerson:
            text += " Myerson values add up to the prediction."
        if self.sums:
            text += " Atoms of a sum add up to it with what is not of an atom."
        if self.predictor.extra_columns:
            text += (
                f" Predictions are at {self.numbers(self.predictor.typical_extra)}, means "
                "of the training molecules, except for numbers that a table has."
            )
        if not self.training.mols:
            text += " The training molecules are not known."
        if not self.attention:
            return text
        first = f" {VIRTUAL} is the virtual node." if self.virtual else ""
        return (
            f"{text} Attention maps: row i has the weights with which i sums over all "
            f"columns; of a layer, the mean over its {self.unit}s.{first}"
        )

    def numbers(self, extra: np.ndarray) -> str:
        """Text of values of the extra columns [columns]."""
        values = zip(self.predictor.extra_columns, extra.tolist())
        return ", ".join(f"{name} {value:.6g}" for name, value in values)

    def __call__(self, molecules: Molecules, cells: Mapping[str, str]) -> Section:
        """Explain the prediction for a single molecule, at the numbers in cells of extra
        columns. A column without a number has its mean over the training molecules."""
        predictor = self.predictor
        targets = self.predictor.targets
        (smiles,) = molecules.sources
        extra = self._extra(smiles, cells)
        prediction = predictor.estimate(molecules, extra=extra[None])
        (row,) = prediction.values
        if not np.isfinite(row).all():
            raise NoPredictionError(f"{smiles}: the prediction is not finite")
        target = targets.targets[self.index]
        outputs = targets.outputs[self.index]
        output = outputs.start
        unit = target.label_unit.replace("dimensionless", "")
        std = None if prediction.std is None else prediction.std[0, outputs]
        text = f"{self.name}: {describe(target, row[outputs], std)}"
        if predictor.extra_columns:
            text += f" at {self.numbers(extra)}"
        outcome = float(row[output])
        if not target.kind.is_number:
            outcome = target.word(target.likeliest(row[outputs]))
        if not target.kind.has_one_output:
            output += int(row[outputs].argmax())
        mol = molecules.mol(0)
        rdDepictor.Compute2DCoords(mol)  # once for all panels
        parts = contributions(predictor, molecules, output, extra)
        columns: Columns = {
            "atom": [*range(1, mol.GetNumAtoms() + 1)],
            "symbol": [atom.GetSymbol() for atom in mol.GetAtoms()],
            "contribution": [part.value for part in parts if part.kind == ATOMS],
        }
        is_number = target.kind.is_number
        if not is_number:  # less than a percent is white, not the end of a scale
            parts = [part._replace(value=round(part.value, 2)) for part in parts]
        text += largest(parts)
        of_value = unit if is_number else "probability"
        groups: list[Group] = [("", contribution_panels(mol, parts, of_value))]
        if self.myerson:
            values = shares(predictor, molecules, self.myerson, output, extra)
            group, more = share_group(mol, *values, of_value)
            groups.append(group)
            columns |= more
        if self.sums:
            found = prediction_sum(predictor, molecules, output, extra[None])
            columns["sum"] = [*found.of_atom.tolist(), found.not_of_atom]
            learned = predictor.members[0].targets.names[self.index]
            learned = learned if is_number else f"logit of {learned}"
            text += f"; {learned} {found}"
            panel = Molecule("", mol, found.of_atom, signed=True)
            groups.append((titled(f"{learned} by atom", unit), [panel]))
            groups += self.training.addends(found.of_molecule, learned, unit)
        near = self.training.nearest
        groups.append(("nearest training molecules", near(mol, unit)))
        heading = "nearest training molecules with another outcome"
        other = self.training.other_outcome(outcome)
        groups.append((heading, near(mol, unit, other)))
        if self.attention:
            (maps,) = predictor.attention(molecules)
            groups.append(("attention", [received(mol, maps, self.virtual)]))
            groups += self.maps(mol, maps, smiles)
        return Section(smiles, text, [group for group in groups if group[1]], columns)

    def _extra(self, smiles: str, cells: Mapping[str, str]) -> np.ndarray:
        """Numbers for the extra columns [columns], of the cells or typical ones."""
        extra = self.predictor.typical_extra
        for index, name in enumerate(self.predictor.extra_columns):
            try:
                value = number_in(cells.get(name, ""))
            except ValueError as error:
                raise NoPredictionError(f"{smiles}: column {name!r}: {error}") from None
            extra[index] = extra[index] if np.isnan(value) else value
        return extra

    def maps(self, mol: Chem.Mol, attention: np.ndarray, smiles: str) -> list[Group]:
        """Panels of attention maps [layers, heads or channels, T, T]. Rows of the chosen
        atoms in the most detailed maps are drawn on the molecule."""
        virtual = self.virtual
        symbols = [atom.GetSymbol() for atom in mol.GetAtoms()]
        adjacency = Chem.GetAdjacencyMatrix(mol).astype(float)
        if virtual:
            adjacency = np.pad(adjacency, (1, 0))
        named = {
            f"layer {layer}": maps.mean(0) for layer, maps in enumerate(attention, 1)
        }
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
        if (last := max(self.atoms, default=0)) > len(symbols):
            has = counted(len(symbols), "atom")
            raise ValueError(f"--atoms {last}: {smiles} has {has}, numbered from 1")
        for atom in (number - 1 for number in self.atoms):
            heading = f"what atom {atom + 1} ({symbols[atom]}) attends to, {maps_of}"
            rows = [
                Molecule(title, mol, matrix[virtual:, virtual:][atom], marked=atom)
                for title, matrix in named.items()
            ]
            groups.append((heading, rows))
        return groups


def largest(parts: Sequence[Contribution]) -> str:
    """Text of the fragments with the largest contributions; empty if there are none."""
    # not 0, and not NaN
    fragments = [p for p in parts if p.kind in FRAGMENTS and abs(p.value) > 0]
    named = {part.atoms: part for part in fragments}
    order = sorted(named.values(), key=lambda part: -abs(part.value))
    listed = ", ".join(f"{part.smiles} {part.value:+.2g}" for part in order[:NAMED])
    return f"; largest contributions: {listed}" if listed else ""


def contribution_panels(
    mol: Chem.Mol, parts: Sequence[Contribution], unit: str
) -> list[Panel]:
    """The molecule coloured by the contributions of its parts of each kind, which are noted
    at fragments; white where a contribution is not known."""
    panels: list[Panel] = []
    for kind in PARTS:
        of_kind = [p for p in parts if p.kind == kind and p.value == p.value]
        values = np.zeros(mol.GetNumAtoms())
        notes = {}
        for part in of_kind:
            atoms = part.atoms[:1] if kind == ENVIRONMENTS else part.atoms
            values[list(atoms)] = part.value
            notes[atoms[len(atoms) // 2]] = f"{part.value:+.2g}"
        if of_kind or not panels:
            shown = notes if kind in FRAGMENTS else None
            panels.append(Molecule(titled(kind, unit), mol, values, True, notes=shown))
    return panels


def share_group(
    mol: Chem.Mol, values: Sequence[Contribution], errors: Floats, unit: str
) -> tuple[Group, Columns]:
    """Panel and columns of `shares`, of which the atoms of a part have equal parts."""
    of_atom = [
        (atom, part.value / len(part.atoms), error / len(part.atoms))
        for part, error in zip(values, errors.tolist(), strict=True)
        for atom in part.atoms
    ]
    _, each, each_error = zip(*sorted(of_atom))
    *_, panel = contribution_panels(mol, values, unit)
    title = f"Myerson values of {values[0].kind}"
    if errors.any():
        title += f", ± {errors.max():.2g} at most"
    group = titled(title, unit), [replace(panel, title="")]
    return group, {"myerson": each, "myerson_error": each_error}


def titled(title: str, unit: str) -> str:
    """A title with a unit, which may be empty."""
    return f"{title}, {unit}" if unit else title


def received(mol: Chem.Mol, attention: np.ndarray, virtual: bool) -> Molecule:
    """The molecule coloured by the mean attention from the virtual node, or without it from
    all atoms, over all maps."""
    mean = attention.mean((0, 1))
    if virtual:
        return Molecule("attention from the virtual node", mol, mean[0, 1:])
    return Molecule("attention from all atoms", mol, mean.mean(0))
