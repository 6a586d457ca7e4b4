"""Pictures of molecules and of maps over pairs of their atoms, as SVG, PNG and HTML.

RDKit draws all of it, on one canvas for both formats.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rdkit import Chem
from rdkit.Chem.Draw import rdMolDraw2D
from rdkit.Geometry import Point2D

SIZE = 280  # pixels of a panel without its title
MARGIN = 14
TITLE = 26
LEVELS = 48  # of colour, so that neighbouring cells of a map join
LABELLED = 40  # largest map that has a label per row
BLUE = np.array([0.03, 0.19, 0.42])
RED = np.array([0.70, 0.09, 0.17])
COLD = np.array([0.13, 0.40, 0.67])
GREY = (0.75, 0.75, 0.75)


@dataclass
class Molecule:
    """A molecule whose atoms are coloured.

    Attributes:
        title: One line above it.
        mol: With N atoms.
        values: [N]; red for positive, blue for negative, white for 0.
    """

    title: str
    mol: Chem.Mol
    values: np.ndarray


@dataclass
class Map:
    """A matrix, row 0 above: white is 0, dark blue its largest value.

    Attributes:
        title: One line above it.
        matrix: [T, T], not negative.
        labels: T names of rows and columns.
        virtual: Row and column 0 are set off by a line.
    """

    title: str
    matrix: np.ndarray
    labels: Sequence[str]
    virtual: bool = False


Panel = Molecule | Map


def draw(panels: Sequence[Panel], image_format: str, columns: int = 4) -> bytes:
    """One picture of panels, row by row.

    Args:
        panels: At least one.
        image_format: ``svg`` or ``png``.
        columns: Panels beside each other.
    """
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    width, height = columns * SIZE, rows * (SIZE + TITLE)
    kind = {"svg": rdMolDraw2D.MolDraw2DSVG, "png": rdMolDraw2D.MolDraw2DCairo}
    # The last two: the part of the canvas that a molecule is fitted into.
    canvas = kind[image_format](width, height, SIZE, SIZE)
    canvas.drawOptions().clearBackground = False
    _box(canvas, 0, 0, width, height, (1.0, 1.0, 1.0))
    for number, panel in enumerate(panels):
        row, column = divmod(number, columns)
        left, top = column * SIZE, row * (SIZE + TITLE)
        if isinstance(panel, Map):
            _draw_map(canvas, panel, left, top + TITLE)
        else:
            _draw_molecule(canvas, panel, left, top + TITLE)
        _text(canvas, panel.title, left + SIZE / 2, top + TITLE / 2, 14)
    canvas.FinishDrawing()
    picture = canvas.GetDrawingText()
    return picture.encode() if isinstance(picture, str) else picture


def _draw_molecule(canvas, panel: Molecule, left: int, top: int) -> None:
    canvas.SetOffset(left, top)
    canvas.SetLineWidth(2)
    colours = {}
    scale = np.abs(panel.values).max() or 1.0
    for atom, value in enumerate(panel.values / scale):
        colours[atom] = _mix(RED if value > 0 else COLD, 0.75 * abs(value))
    rdMolDraw2D.PrepareAndDrawMolecule(
        canvas,
        panel.mol,
        highlightAtoms=list(colours),
        highlightAtomColors=colours,
        highlightBonds=[],
    )
    canvas.SetOffset(0, 0)


def _draw_map(canvas, panel: Map, left: int, top: int) -> None:
    size = len(panel.matrix)
    cell = (SIZE - 2 * MARGIN) / size
    x, y = left + MARGIN, top + MARGIN
    levels = panel.matrix / (panel.matrix.max() or 1.0)
    levels = np.rint(levels * LEVELS).astype(int)
    for row in range(size):
        # Neighbours of one colour are one rectangle, and white ones none.
        ends = np.flatnonzero(np.diff(levels[row], append=-1)) + 1
        for start, end in zip([0, *ends[:-1]], ends):
            if levels[row, start]:
                colour = _mix(BLUE, levels[row, start] / LEVELS)
                upper, lower = y + row * cell, y + (row + 1) * cell
                _box(canvas, x + start * cell, upper, x + end * cell, lower, colour)
    edges = [0, 1, size] if panel.virtual else [0, size]
    for place in (edge * cell for edge in edges):
        _line(canvas, x, y + place, x + size * cell, y + place)
        _line(canvas, x + place, y, x + place, y + size * cell)
    if size <= LABELLED:
        for number, label in enumerate(panel.labels):
            middle = (number + 0.5) * cell
            _text(canvas, label, left + MARGIN / 2, y + middle, 8)
            _text(canvas, label, x + middle, top + MARGIN / 2, 8)


def _mix(colour: np.ndarray, share: float) -> tuple[float, ...]:
    """White with a share of a colour."""
    return tuple(float(part) for part in 1 - share * (1 - colour))


def _box(canvas, left, top, right, bottom, colour) -> None:
    canvas.SetFillPolys(True)
    canvas.SetLineWidth(0)
    canvas.SetColour(colour)
    canvas.DrawRect(Point2D(left, top), Point2D(right, bottom), True)


def _line(canvas, left, top, right, bottom) -> None:
    canvas.SetLineWidth(1)
    canvas.SetColour(GREY)
    canvas.DrawLine(Point2D(left, top), Point2D(right, bottom), True)


def _text(canvas, text: str, x: float, y: float, size: int) -> None:
    canvas.SetColour((0.0, 0.0, 0.0))
    canvas.SetFontSize(size)
    canvas.DrawString(text, Point2D(x, y), 0, True)


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
    groups: Sequence[tuple[str, Sequence[Panel]]]


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
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 15rem), 1fr)); }
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
    # A molecule is sharp at any size as SVG; a map is ten times smaller as PNG.
    image_format = "png" if isinstance(panel, Map) else "svg"
    data = base64.b64encode(draw([panel], image_format)).decode()
    mime = {"png": "image/png", "svg": "image/svg+xml"}[image_format]
    alt = html.escape(panel.title)
    return f'<img alt="{alt}" src="data:{mime};base64,{data}">'
