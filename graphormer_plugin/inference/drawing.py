"""Pictures of molecules and of maps over pairs of their atoms, as SVG, PNG and HTML.

RDKit draws all of it, on one canvas for both formats.
"""

from __future__ import annotations

import base64
import html
import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

import numpy as np
from rdkit import Chem
from rdkit.Chem.Draw import rdMolDraw2D
from rdkit.Geometry import Point2D

SIZE = 300  # pixels of a panel, without its title and its scale
MARGIN = 32  # around a map, for labels
TITLE = 26
SCALE = 26
HEADING = 40
LEVELS = 48  # of colour, so that neighbouring cells of a map join
LABEL_HEIGHT, DIGIT = 11, 7
NUMBERED = 60  # atoms of the largest molecule that shows their numbers
BOND = 42  # pixels of a bond, less where the molecule would not fit
HIGHEST = 32_000  # pixels; the library that draws PNGs stops soon after
VIOLET = np.array([0.25, 0.00, 0.49])
RED = np.array([0.70, 0.09, 0.17])
BLUE = np.array([0.13, 0.40, 0.67])
GREY = (0.75, 0.75, 0.75)
# Share of colour of the strongest atom, whose symbol stays legible: signed or not.
ATOM = {True: 0.75, False: 0.6}
VIRTUAL = "vn"
MIDDLE, START, END = range(3)  # which part of a text is at its place


@dataclass
class Molecule:
    """A molecule whose atoms are coloured and numbered from 1.

    Attributes:
        title: One line above it.
        mol: With N atoms.
        values: [N], on a scale of their own, which is drawn below.
        signed: Red for positive and blue for negative values; else violet, and no value
            is negative. White is 0.
        marked: Number of an atom, counted from 0, that has a red ring.
    """

    title: str
    mol: Chem.Mol
    values: np.ndarray
    signed: bool = False
    marked: Optional[int] = None


@dataclass
class Map:
    """A matrix, row 0 above, in white for 0 to violet for its largest value.

    Attributes:
        title: One line above it.
        matrix: [T, T], not negative.
        symbols: Of the atoms, in order.
        virtual: Row and column 0 are the virtual node's, set off by a line.
    """

    title: str
    matrix: np.ndarray
    symbols: Sequence[str]
    virtual: bool = False


Panel = Molecule | Map
Group = tuple[str, Sequence[Panel]]  # heading, which may be empty, and panels


def draw(groups: Sequence[Group], image_format: str) -> bytes:
    """One picture of panels, row by row; each group starts a row.

    Args:
        groups: At least one, with at least one panel each.
        image_format: ``svg`` or ``png``.

    Raises:
        ValueError: too many panels for a PNG.
    """
    most = max(len(panels) for _, panels in groups)
    columns = min(most, max(4, math.isqrt(most - 1) + 1))
    tall = TITLE + SIZE + SCALE
    height = sum(
        HEADING * bool(heading) + tall * -(-len(panels) // columns)
        for heading, panels in groups
    )
    if image_format == "png" and height > HIGHEST:
        raise ValueError(
            f"{sum(len(panels) for _, panels in groups)} panels make a PNG of {height} "
            f"pixels, more than {HIGHEST}; draw fewer heads or channels, or .html"
        )
    width = columns * SIZE
    kind = {"svg": rdMolDraw2D.MolDraw2DSVG, "png": rdMolDraw2D.MolDraw2DCairo}
    # The last two: the part of the canvas that a molecule is fitted into.
    canvas = kind[image_format](width, height, SIZE, SIZE)
    options = canvas.drawOptions()
    options.clearBackground = False
    options.fixedBondLength = BOND
    options.flagCloseContactsDist = -1
    options.highlightRadius = 0.4
    options.padding = 0.08
    _box(canvas, 0, 0, width, height, (1.0, 1.0, 1.0))
    top = 0
    for heading, panels in groups:
        if heading:
            _text(canvas, heading, 8, top + HEADING / 2, 17, START)
            top += HEADING
        for number, panel in enumerate(panels):
            row, column = divmod(number, columns)
            _draw_panel(canvas, panel, column * SIZE, top + row * tall)
        top += tall * -(-len(panels) // columns)
    canvas.FinishDrawing()
    picture = canvas.GetDrawingText()
    return picture.encode() if isinstance(picture, str) else picture


def _draw_panel(canvas, panel: Panel, left: int, top: int) -> None:
    _text(canvas, panel.title, left + SIZE / 2, top + TITLE / 2, 14)
    below = top + TITLE + SIZE
    if isinstance(panel, Map):
        largest = float(panel.matrix.max()) or 1.0
        _draw_map(canvas, panel, largest, left, top + TITLE)
        _draw_scale(canvas, 0.0, largest, 1.0, left, below)
    else:
        largest = float(np.abs(panel.values).max()) or 1.0
        _draw_molecule(canvas, panel, largest, left, top + TITLE)
        lowest = -largest if panel.signed else 0.0
        _draw_scale(canvas, lowest, largest, ATOM[panel.signed], left, below)


def _draw_molecule(
    canvas, panel: Molecule, largest: float, left: int, top: int
) -> None:
    mol = rdMolDraw2D.PrepareMolForDrawing(panel.mol, addChiralHs=False)
    _part_fragments(mol)
    if 1 < mol.GetNumAtoms() <= NUMBERED:
        for number, atom in enumerate(mol.GetAtoms(), 1):
            atom.SetProp("atomNote", str(number))
    colours = {
        atom: _colour(value / largest, panel.signed, ATOM[panel.signed])
        for atom, value in enumerate(panel.values)
    }
    canvas.SetOffset(left, top)
    canvas.SetLineWidth(2)
    canvas.drawOptions().prepareMolsBeforeDrawing = False
    canvas.DrawMolecule(
        mol,
        highlightAtoms=list(colours),
        highlightAtomColors=colours,
        highlightBonds=[],
    )
    if panel.marked is not None:
        centre = canvas.GetDrawCoords(panel.marked)
        radius = 0.35 * BOND
        for neighbour in mol.GetAtomWithIdx(panel.marked).GetNeighbors():
            bond = canvas.GetDrawCoords(neighbour.GetIdx()) - centre
            radius = min(radius, 0.4 * bond.Length())
        reach = Point2D(radius, radius)
        canvas.SetFillPolys(False)
        canvas.SetColour((0.9, 0.0, 0.0))
        canvas.DrawEllipse(centre - reach, centre + reach, True)
    canvas.SetOffset(0, 0)


def _part_fragments(mol: Chem.Mol) -> None:
    """Moves the parts of a salt away from each other, to make room for numbers."""
    fragments = Chem.GetMolFrags(mol)
    conformer = mol.GetConformer()
    if len(fragments) > 1:
        places = conformer.GetPositions()
        for fragment in map(list, fragments):
            away = places[fragment].mean(0) - places.mean(0)
            for atom in fragment:
                conformer.SetAtomPosition(atom, places[atom] + 0.4 * away)


def _draw_map(canvas, panel: Map, largest: float, left: int, top: int) -> None:
    size, inner = len(panel.matrix), SIZE - 2 * MARGIN
    x, y = left + MARGIN, top + MARGIN
    levels = np.rint(panel.matrix / largest * LEVELS).astype(int)
    # Of cells smaller than a pixel, the largest of a block.
    block = math.ceil(size / inner)
    starts = np.arange(0, size, block)
    levels = np.maximum.reduceat(np.maximum.reduceat(levels, starts), starts, axis=1)
    # Whole pixels, between which no seam shows.
    cuts = np.rint(np.linspace(0, inner, len(levels) + 1))
    for row, values in enumerate(levels):
        upper, lower = y + cuts[row : row + 2]
        # Neighbours of one colour are one rectangle, and white ones none.
        ends = np.flatnonzero(np.diff(values, append=-1)) + 1
        for start, end in zip([0, *ends[:-1]], ends):
            if values[start]:
                colour = _colour(values[start] / LEVELS)
                _box(canvas, x + cuts[start], upper, x + cuts[end], lower, colour)
    cell = inner / size
    edges = [0, 1, size] if panel.virtual else [0, size]
    for place in (edge * cell for edge in edges):
        _line(canvas, x, y + place, x + inner, y + place)
        _line(canvas, x + place, y, x + place, y + inner)
    first = [VIRTUAL] if panel.virtual else []
    numbers = [str(number) for number, _ in enumerate(panel.symbols, 1)]
    names = [symbol + number for symbol, number in zip(panel.symbols, numbers)]
    for at in range(0, size, math.ceil(LABEL_HEIGHT / cell)):
        label = [*first, *names][at]
        _text(canvas, label, x - 6, y + (at + 0.5) * cell, 10, END)
    for at in range(0, size, math.ceil(DIGIT * (len(str(size)) + 1) / cell)):
        label = [*first, *numbers][at]
        _text(canvas, label, x + (at + 0.5) * cell, y - 9, 10)


def _draw_scale(
    canvas, lowest: float, largest: float, share: float, left: int, top: int
) -> None:
    """A bar of the colours from `lowest` to `largest`, both with their numbers."""
    start, end, middle = left + SIZE * 0.3, left + SIZE * 0.7, top + SCALE / 2 - 4
    values = np.linspace(lowest / largest, 1, LEVELS)
    for value, place in zip(values, np.linspace(start, end, LEVELS, endpoint=False)):
        colour = _colour(value, lowest < 0, share)
        # To the end, so that no seam shows.
        _box(canvas, place, middle - 5, end, middle + 5, colour)
    for place in (start, end):
        _line(canvas, place, middle - 5, place, middle + 5)
    for place in (middle - 5, middle + 5):
        _line(canvas, start, place, end, place)
    _text(canvas, f"{lowest:.2g}", start - 6, middle, 11, END)
    _text(canvas, f"{largest:.2g}", end + 6, middle, 11, START)


def _colour(
    value: float, signed: bool = False, share: float = 1.0
) -> tuple[float, ...]:
    """Of a value from -1 or 0 to 1: white for 0, with that share of colour for 1."""
    full = (RED if value > 0 else BLUE) if signed else VIOLET
    return tuple(float(part) for part in 1 - share * abs(value) * (1 - full))


def _box(canvas, left, top, right, bottom, colour) -> None:
    canvas.SetFillPolys(True)
    canvas.SetLineWidth(0)
    canvas.SetColour(colour)
    canvas.DrawRect(Point2D(left, top), Point2D(right, bottom), True)


def _line(canvas, left, top, right, bottom) -> None:
    canvas.SetLineWidth(1)
    canvas.SetColour(GREY)
    canvas.DrawLine(Point2D(left, top), Point2D(right, bottom), True)


def _text(
    canvas, text: str, x: float, y: float, size: int, place: int = MIDDLE
) -> None:
    canvas.SetColour((0.0, 0.0, 0.0))
    canvas.SetFontSize(size)
    canvas.DrawString(in_ascii(text), Point2D(x, y), place, True)


def in_ascii(text: str) -> str:
    """Text as RDKit can draw it, which leaves out all other letters of a unit.

    >>> in_ascii("Å², µM, °C, mol·L⁻¹")
    'A^2, uM, degC, mol L^-1'
    """
    text = re.sub("[⁺⁻⁰¹²³⁴-⁹]+", lambda power: f"^{power[0]}", text)
    text = text.translate(str.maketrans({"µ": "u", "μ": "u", "°": "deg", "·": " "}))
    plain = unicodedata.normalize("NFKD", text.replace("−", "-")).replace("−", "-")
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
    return plain.encode("ascii", "replace").decode()


@dataclass
class Section:
    """A molecule's part of a page.

    Attributes:
        title: SMILES.
        text: One line, e.g. the prediction.
        groups: (heading, panels); those after the first are folded away.
    """

    title: str
    text: str
    groups: Sequence[Group]


STYLE = """
:root { color-scheme: light dark; --back: #fff; --fore: #1b1f24; --line: #c9d1d9; }
@media (prefers-color-scheme: dark) {
  :root { --back: #14181d; --fore: #e6e9ed; --line: #3d444d; }
}
body { margin: 0 auto; max-width: 76rem; padding: 1rem; background: var(--back);
  color: var(--fore); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; overflow-wrap: anywhere; }
section { border-top: 1px solid var(--line); padding: .5rem 0 1rem; }
summary { cursor: pointer; padding: .4rem 0; }
.panels { display: grid; gap: .75rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 17rem), 1fr)); }
.panels img { width: 100%; height: auto; background: #fff; border-radius: 6px; }
"""


def page(title: str, introduction: str, sections: Sequence[Section]) -> str:
    """A page in one file: pictures are in it, and it loads nothing."""
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{html.escape(title)}</h1><p>{html.escape(introduction)}</p>",
    ]
    for section in sections:
        parts.append(f"<section><h2>{html.escape(section.title)}</h2>")
        parts.append(f"<p>{html.escape(section.text)}</p>")
        for number, (heading, panels) in enumerate(section.groups):
            images = "".join(_image(panel) for panel in panels)
            body = f'<div class="panels">{images}</div>'
            if number:
                heading = html.escape(heading)
                body = f"<details><summary>{heading}</summary>{body}</details>"
            parts.append(body)
        parts.append("</section>")
    return "\n".join([*parts, "</body></html>\n"])


def _image(panel: Panel) -> str:
    # A molecule is sharp at any size as SVG; PNG is smaller, for those of which there
    # are many.
    many = isinstance(panel, Map) or panel.marked is not None
    image_format = "png" if many else "svg"
    data = base64.b64encode(draw([("", [panel])], image_format)).decode()
    mime = {"png": "image/png", "svg": "image/svg+xml"}[image_format]
    alt = html.escape(panel.title)
    return f'<img alt="{alt}" src="data:{mime};base64,{data}">'
