"""``graphormer-explain``: pictures of what a trained model looks at."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

import numpy as np
from rdkit import Chem, rdBase

from graphormer_plugin import hub
from graphormer_plugin.cli import command
from graphormer_plugin.data.datasets.molecules import CsvTable, parse_smiles
from graphormer_plugin.drawing import Map, Molecule, Panel, Section, draw, page
from graphormer_plugin.explanation import attention_modules
from graphormer_plugin.modules import ChromaticAttention

MOST = 200


def parser() -> argparse.ArgumentParser:
    """Arguments."""
    result = argparse.ArgumentParser(
        prog="graphormer-explain",
        description="Draw molecules with the atoms that a model attends to and that "
        "its prediction depends on, and its attention maps.",
    )
    add = result.add_argument
    add("checkpoint", metavar="CKPT", help="checkpoint that was trained here")
    add(
        "molecules",
        metavar="SMILES",
        nargs="+",
        help="SMILES, or a .csv file of them, or a .smi or .txt file with one per line; "
        f"at most {MOST} molecules",
    )
    add(
        "output",
        metavar="OUT",
        help=".svg or .png, for one molecule, or .html, a page for any number",
    )
    add("--smiles-column", default="", help="default: the column called smiles")
    add("--target", help="the target to explain; default: the first")
    add(
        "--layer",
        type=int,
        help="also draw every head, or channel of chromatic attention, of this layer, "
        "counted from 1; default: 1 for chromatic attention, else none",
    )
    add(
        "--user-data-dir",
        help="folder with modules that register the substructures of the model",
    )
    add("--debug", action="store_true", help="show the traceback of an error")
    return result


@command
def main(argv: Optional[Sequence[str]] = None) -> int:
    """Runs the command; returns its exit code."""
    arguments = parser().parse_args(argv)
    output = Path(arguments.output)
    kind = output.suffix.lower().removeprefix(".")
    if kind not in ("svg", "png", "html"):
        raise ValueError(f"{output}: expected a name that ends in .svg, .png or .html")
    with rdBase.BlockLogs():  # what it says about a SMILES is more than one line
        smiles = read_molecules(arguments.molecules, arguments.smiles_column)
    if kind != "html" and len(smiles) > 1:
        raise ValueError(f"{output} is for one molecule, not {len(smiles)}; use .html")
    predictor = hub.load(arguments.checkpoint, arguments.user_data_dir)
    if predictor.targets.level != "graph":
        raise ValueError(f"{arguments.checkpoint} predicts nodes, not molecules")
    explain = Explainer(predictor, arguments.target, arguments.layer)
    sections = [explain(string) for string in smiles]
    if kind == "html":
        title = f"{explain.name}: {Path(arguments.checkpoint).name}"
        output.write_text(page(title, explain.introduction, sections), encoding="utf-8")
    else:
        panels = [panel for _, group in sections[0].groups for panel in group]
        output.write_bytes(draw(panels, kind))
    for section in sections:
        print(f"{section.title}\t{section.text}")
    print(output)
    return 0


def read_molecules(arguments: Sequence[str], column: str = "") -> list[str]:
    """SMILES from the command line and from the files that it names.

    Raises:
        ValueError: no molecule, too many, or one that RDKit refuses; names file and
            line.
    """
    smiles: list[str] = []
    for argument in arguments:
        path = Path(argument)
        if path.suffix.lower() == ".csv":
            table = CsvTable(path)
            rows = table.rows([table.find_smiles(column)])
            lines = ((line, cells[0]) for _, line, cells in rows)
        elif path.suffix.lower() in (".smi", ".txt"):
            # The molecule's name may follow it.
            text = path.read_text(encoding="utf-8-sig").splitlines()
            lines = (
                (at, line.split()[0]) for at, line in enumerate(text, 1) if line.strip()
            )
        else:
            lines = iter([(None, argument)])
        for line, string in lines:
            try:
                parse_smiles(string)
            except ValueError as error:
                place = "" if line is None else f"{path}, line {line}: "
                raise ValueError(f"{place}SMILES {string!r}: {error}") from None
            smiles.append(string)
            if len(smiles) > MOST:
                raise ValueError(f"{path}: more than {MOST} molecules for one page")
    if not smiles:
        raise ValueError(f"no molecule in {', '.join(arguments)}")
    return smiles


class Explainer:
    """Panels of a molecule.

    Args:
        predictor: a model that predicts graphs.
        target: name of the target; None: the first.
        layer: counted from 1, whose maps are drawn one by one.

    Raises:
        ValueError: no such target or layer.
    """

    def __init__(
        self, predictor: hub.Predictor, target: Optional[str], layer: Optional[int]
    ) -> None:
        self.predictor = predictor
        names = list(predictor.targets.names)
        if target is not None and target not in names:
            raise ValueError(f"--target {target}: expected one of {', '.join(names)}")
        self.name = target or names[0]
        self.output = names.index(self.name)
        modules = attention_modules(predictor.model)
        chromatic = any(
            isinstance(module, ChromaticAttention) and module.kind != "mono"
            for module in modules
        )
        if layer is None and chromatic:
            layer = 1
        if layer is not None and not 1 <= layer <= len(modules):
            raise ValueError(
                f"--layer {layer}: the model has {len(modules)} layers with attention"
            )
        self.has_attention = bool(modules)
        self.layer = layer
        self.part = "channel" if chromatic else "head"

    @property
    def introduction(self) -> str:
        """What the pictures of a page show."""
        signs = "Gradient x input: red atoms raise the prediction, blue ones lower it."
        if not self.has_attention:
            return signs
        return (
            f"{signs} Attention maps: row i has the weights with which i sums over all; "
            f"the mean over {self.part}s, white is 0."
        )

    def __call__(self, smiles: str) -> Section:
        """Explains a prediction."""
        predictor, targets = self.predictor, self.predictor.targets
        (row,) = predictor.predict([smiles])
        output = self.output
        if targets.kind == "multiclass":
            output = int(row.argmax())
            text = f"{self.name}: class {output}, probability {row[output]:.3f}"
        elif targets.kind == "binary":
            text = f"{self.name}: probability {row[output]:.3f}"
        else:
            text = f"{self.name}: {row[output]:.4g} {targets.unit}".rstrip()
        (dependence,) = predictor.gradient_times_input([smiles], output)
        mol = Chem.MolFromSmiles(smiles)
        molecules: list[Panel] = [Molecule("gradient x input", mol, dependence)]
        groups = [("", molecules)]
        if self.has_attention:
            (attention,) = predictor.attention([smiles])
            virtual = bool(predictor.model.virtual_node)
            molecules.insert(0, received(mol, attention, virtual))
            groups += self.maps(mol, attention, virtual)
        return Section(smiles, text, groups)

    def maps(
        self, mol: Chem.Mol, attention: np.ndarray, virtual: bool
    ) -> list[tuple[str, list[Panel]]]:
        """Adjacency and attention, [layers, heads or channels, T, T]."""
        labels = [atom.GetSymbol() for atom in mol.GetAtoms()]
        adjacency = Chem.GetAdjacencyMatrix(mol).astype(float)
        if virtual:
            labels.insert(0, "*")
            adjacency = np.pad(adjacency, (1, 0))

        def one(title: str, matrix: np.ndarray) -> Map:
            title = f"{title}, at most {matrix.max():.2g}"
            return Map(title, matrix, labels, virtual)

        layers: list[Panel] = [Map("bonds", adjacency, labels, virtual)]
        for number, maps in enumerate(attention, 1):
            layers.append(one(f"layer {number}", maps.mean(0)))
        groups = [("attention of each layer", layers)]
        if self.layer:
            parts: list[Panel] = [
                one(f"{self.part} {number}", matrix)
                for number, matrix in enumerate(attention[self.layer - 1], 1)
            ]
            groups.append((f"{self.part}s of layer {self.layer}", parts))
        return groups


def received(mol: Chem.Mol, attention: np.ndarray, virtual: bool) -> Molecule:
    """The molecule coloured by attention, the mean over layers and their maps: from the
    virtual node, or without one, from all atoms."""
    mean = attention.mean((0, 1))
    if virtual:
        return Molecule("attention from the virtual node", mol, mean[0, 1:])
    return Molecule("attention from all atoms", mol, mean.mean(0))


if __name__ == "__main__":
    sys.exit(main())
