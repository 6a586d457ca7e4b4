"""``graphormer-explain``: pictures of what a trained model looks at."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Optional

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdDepictor

from graphormer_plugin import hub
from graphormer_plugin.cli import command
from graphormer_plugin.data.chunk import Parser
from graphormer_plugin.data.datasets.csv_file import CsvTable
from graphormer_plugin.data.featurise import captured_rdkit_log, parse
from graphormer_plugin.inference.drawing import (
    VIRTUAL,
    Group,
    Map,
    Molecule,
    Panel,
    Section,
    draw,
    page,
)

MOST = 200
FEW = 10  # molecules of the largest page that shows channels unasked


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
    add(
        "--smiles-column",
        default="",
        help="default: the column called smiles, or the only one with smiles in its name",
    )
    add("--target", help="the target to explain; default: the first")
    add(
        "--layer",
        type=int,
        help="also draw every head, or channel of chromatic attention, of this layer, "
        "counted from 1; default: none, or 1 for chromatic attention and at most "
        f"{FEW} molecules",
    )
    add(
        "--channels",
        metavar="N,N",
        help="of that layer, these channels or heads only, counted from 1",
    )
    add(
        "--atoms",
        metavar="N,N",
        help="also draw the molecule coloured by what these atoms attend to, numbered "
        "from 1 in the order of the SMILES; by each channel or head if --layer is drawn, "
        "else by each layer; default: none, or for the channels of chromatic attention "
        "the atom of the largest gradient x input",
    )
    add(
        "--user-data-dir",
        help="folder with modules that register what the model needs: its architecture, "
        "pair encodings or substructures",
    )
    add("--debug", action="store_true", help="show the traceback of an error")
    return result


@command
def main(argv: Optional[Sequence[str]] = None) -> int:
    """Runs the command; returns its exit code."""
    arguments = parser().parse_intermixed_args(argv)
    output = Path(arguments.output)
    kind = output.suffix.lower().removeprefix(".")
    if kind not in ("svg", "png", "html"):
        raise ValueError(f"{output}: expected a name that ends in .svg, .png or .html")
    if not output.parent.is_dir():
        raise ValueError(f"{output}: there is no folder {output.parent}")
    predictor = hub.load(arguments.checkpoint, arguments.user_data_dir)
    if predictor.targets.level != "graph":
        raise ValueError(f"{arguments.checkpoint} predicts nodes, not molecules")
    smiles = read_molecules(
        arguments.molecules,
        arguments.smiles_column,
        hub.parser_of(predictor.featuriser),
    )
    if kind != "html" and len(smiles) > 1:
        raise ValueError(f"{output} is for one molecule, not {len(smiles)}; use .html")
    explain = Explainer(
        predictor,
        arguments.target,
        arguments.layer,
        numbers(arguments.channels, "--channels"),
        numbers(arguments.atoms, "--atoms"),
        few=len(smiles) <= FEW,
    )
    explain.check_atoms(smiles)
    sections = [explain(string) for string in smiles]
    if kind == "html":
        title = f"{explain.name}: {Path(arguments.checkpoint).name}"
        output.write_text(page(title, explain.introduction, sections), encoding="utf-8")
    else:
        (section,) = sections
        (_, panels), *rest = section.groups
        output.write_bytes(draw([(section.text, panels), *rest], kind))
    for section in sections:
        print(f"{section.title}\t{section.text}")
    print(output)
    return 0


def read_molecules(arguments: Sequence[str], column: str, parser: Parser) -> list[str]:
    """SMILES from the command line and from the files that it names.

    Raises:
        ValueError: no molecule, too many, or one that the parser refuses; names file
            and line.
    """
    smiles: list[str] = []
    for line, path, string in written_molecules(arguments, column):
        try:
            with captured_rdkit_log() as messages:
                parse(string, parser, messages)
        except ValueError as error:
            place = "" if line is None else f"{path}, line {line}: "
            raise ValueError(f"{place}SMILES {string!r}: {error}") from None
        smiles.append(string)
        if len(smiles) > MOST:
            raise ValueError(f"{path}: more than {MOST} molecules for one page")
    if not smiles:
        raise ValueError(f"no molecule in {', '.join(arguments)}")
    return smiles


def written_molecules(
    arguments: Sequence[str], column: str
) -> Iterator[tuple[Optional[int], Path, str]]:
    """Line of the file (None for one on the command line), file, and SMILES."""
    for argument in arguments:
        path = Path(argument)
        if path.suffix.lower() == ".csv":
            table = CsvTable(path)
            for _, line, cells in table.rows([table.find_smiles(column)]):
                yield line, path, cells[0]
        elif path.suffix.lower() in (".smi", ".txt"):
            # The molecule's name may follow it.
            # Names, which are not read, may be in any encoding.
            text = path.read_text(encoding="utf-8-sig", errors="replace")
            for line, words in enumerate(map(str.split, text.splitlines()), 1):
                if words:
                    yield line, path, words[0]
        else:
            yield None, path, argument


def numbers(text: Optional[str], flag: str) -> list[int]:
    """Numbers from 1, of a list with commas; none of None.

    Raises:
        ValueError: something else; names the flag.
    """
    if text is None:
        return []
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) for part in parts):
        raise ValueError(f"{flag} {text}: expected numbers from 1, such as 1,5")
    return [int(part) for part in parts]


class Explainer:
    """Panels of a molecule.

    Args:
        predictor: a model that predicts graphs.
        target: name of the target; None: the first.
        layer: counted from 1, whose maps are drawn one by one; None: none, or the first
            for chromatic attention and `few` molecules.
        channels: of that layer, counted from 1; none: all.
        atoms: counted from 1, whose rows of the maps are drawn on the molecule.
        few: whether it is about few molecules.

    Raises:
        ValueError: no such target, layer or channel.
    """

    def __init__(
        self,
        predictor: hub.Predictor,
        target: Optional[str],
        layer: Optional[int],
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
        """What the pictures of a page show."""
        signs = (
            "Gradient x input: red atoms raise the prediction, blue ones lower it. Atoms "
            "are numbered in the order of the SMILES."
        )
        if not self.has_attention:
            return f"{signs} The model has no attention to draw."
        first = f" {VIRTUAL} is the virtual node." if self.virtual else ""
        return (
            f"{signs} Attention maps: row i has the weights with which i sums over all "
            f"columns; of a layer, the mean over its {self.unit}s.{first}"
        )

    def check_atoms(self, smiles: Sequence[str]) -> None:
        """Raises:
        ValueError: a molecule lacks one of the chosen atoms.
        """
        for string in smiles:
            count = Chem.MolFromSmiles(string).GetNumAtoms()
            for atom in self.atoms:
                if atom > count:
                    has = f"{count} atom{'s' * (count > 1)}"
                    raise ValueError(
                        f"--atoms {atom}: {string} has {has}, numbered from 1"
                    )

    def __call__(self, smiles: str) -> Section:
        """Explains a prediction.

        Raises:
            ValueError: it is not finite, or the layer has no such channel.
        """
        predictor, targets = self.predictor, self.predictor.targets
        (row,) = predictor.predict([smiles])
        if not np.isfinite(row).all():
            raise ValueError(f"{smiles}: the prediction is not finite")
        output, unit = self.output, "logit"
        if targets.kind == "multiclass":
            output = int(row.argmax())
            text = f"{self.name}: class {output}, probability {row[output]:.3f}"
        elif targets.kind == "binary":
            text = f"{self.name}: probability {row[output]:.3f}"
        else:
            unit = targets.unit.replace("dimensionless", "")
            text = f"{self.name}: {row[output]:.4g} {unit}".rstrip()
        (dependence,) = predictor.gradient_times_input([smiles], output)
        mol = Chem.MolFromSmiles(smiles)
        rdDepictor.Compute2DCoords(mol)  # once for all panels
        title = f"gradient x input, {unit}" if unit else "gradient x input"
        molecules: list[Panel] = [Molecule(title, mol, dependence, signed=True)]
        groups: list[Group] = [("", molecules)]
        if self.has_attention:
            (attention,) = predictor.attention([smiles])
            molecules.insert(0, received(mol, attention, self.virtual))
            atoms = [atom - 1 for atom in self.atoms]
            if self.choose_atom:
                atoms = [int(np.abs(dependence).argmax())]
            groups += self.maps(mol, attention, atoms)
        return Section(smiles, text, groups)

    def maps(
        self, mol: Chem.Mol, attention: np.ndarray, atoms: Sequence[int]
    ) -> list[Group]:
        """Adjacency and attention, [layers, heads or channels, T, T], and rows of the
        most detailed maps, of atoms that are counted from 0, on the molecule."""
        virtual = self.virtual
        symbols = [atom.GetSymbol() for atom in mol.GetAtoms()]
        adjacency = Chem.GetAdjacencyMatrix(mol).astype(float)
        if virtual:
            adjacency = np.pad(adjacency, (1, 0))
        named = {f"layer {at}": maps.mean(0) for at, maps in enumerate(attention, 1)}
        panels = [Map("bonds", adjacency, symbols, virtual)]
        panels += [Map(*item, symbols, virtual) for item in named.items()]
        groups: list[Group] = [("attention of each layer", panels)]
        what = f"mean over {self.unit}s"
        if self.layer:
            maps = attention[self.layer - 1]
            chosen = self.channels or range(1, len(maps) + 1)
            if max(chosen) > len(maps):
                raise ValueError(
                    f"--channels {max(chosen)}: layer {self.layer} has {len(maps)} "
                    f"{self.unit}s"
                )
            named = {f"{self.unit} {number}": maps[number - 1] for number in chosen}
            what = f"{self.unit}s of layer {self.layer}"
            panels = [Map(*item, symbols, virtual) for item in named.items()]
            groups.append((what, panels))
        for atom in atoms:
            heading = f"what atom {atom + 1} ({symbols[atom]}) attends to, {what}"
            rows = [
                Molecule(title, mol, matrix[virtual:, virtual:][atom], marked=atom)
                for title, matrix in named.items()
            ]
            groups.append((heading, rows))
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
