"""Pictures of molecules and of maps over pairs of their atoms, as SVG, PNG and HTML.

RDKit draws the molecules; matplotlib draws the maps and puts the panels together.
"""

import base64
import html
import io
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage, imread
from matplotlib.patches import Rectangle
from rdkit import Chem
from rdkit.Chem.Draw import rdMolDraw2D
from rdkit.Geometry import Point2D

from graphormer_plugin.heads.figure_style import figure_style

# Lengths are points; a PNG has `PNG_SCALE` pixels per point.
SIZE = 300  # width and height of a panel, without its title and its scale
MARGIN = 32  # around a map, for labels
TITLE = 26
SCALE = 26
HEADING = 40  # height of a line of a heading
LETTER = 11  # width of a letter of a heading
PNG_SCALE = 2
MAX_PIXELS = 65_000  # of a PNG's height; matplotlib draws less than 2**16
LABEL_HEIGHT, DIGIT = 11, 7  # of a label, with the space around it
NUMBERED = 60  # atoms of the largest molecule that shows their numbers
NOTE = 0.8  # size of a note's letters, as a share of those of atoms
BOND = 42  # of a bond's length, shorter if the molecule would not fit
WHITE = np.ones(3)
VIOLET = np.array([0.25, 0.00, 0.49])
RED = np.array([0.70, 0.09, 0.17])
BLUE = np.array([0.13, 0.40, 0.67])
GREY = "0.75"
# Share of colour of the strongest atom: its symbol stays legible.
ATOM_SIGNED, ATOM = 0.75, 0.6
VIRTUAL = "vn"


@dataclass
class Molecule:
    """A molecule whose atoms are coloured, and numbered from 1.

    Attributes:
        title: line above it.
        mol: the molecule, with N atoms.
        values: [N], on a scale of their own, which is drawn below; None without colours.
        signed: red for positive and blue for negative values; otherwise violet, and no
            value is negative. White is 0.
        marked: number of an atom, counted from 0, that gets a red ring.
        notes: text beside atoms, counted from 0, in place of their numbers.
    """

    title: str
    mol: Chem.Mol
    values: np.ndarray | None
    signed: bool = False
    marked: int | None = None
    notes: Mapping[int, str] | None = None


@dataclass
class Map:
    """A matrix with row 0 on top, from white for 0 to violet for its largest value.

    Attributes:
        title: line above it.
        matrix: [T, T], not negative.
        symbols: symbols of the atoms, in order.
        virtual: whether row and column 0 are the virtual node's, set off by a line.
    """

    title: str
    matrix: np.ndarray
    symbols: Sequence[str]
    virtual: bool = False


Panel = Molecule | Map
Group = tuple[str, Sequence[Panel]]  # heading, which may be empty, and panels


@figure_style({"svg.hashsalt": "graphormer_plugin"})
def draw(groups: Sequence[Group], image_format: str) -> bytes:
    """A picture (``svg`` or ``png``) of panels, row by row; each group starts a row.

    Raises:
        ValueError: too many panels for a PNG.
    """
    most = max(len(panels) for _, panels in groups)
    columns = min(most, max(4, math.isqrt(most - 1) + 1))
    tall = TITLE + SIZE + SCALE
    wrapped = [
        (textwrap.wrap(heading, columns * SIZE // LETTER), panels)
        for heading, panels in groups
    ]
    height = sum(
        HEADING * len(lines) + tall * -(-len(panels) // columns)
        for lines, panels in wrapped
    )
    if image_format == "png" and height * PNG_SCALE > MAX_PIXELS:
        raise ValueError(
            f"{sum(len(panels) for _, panels in groups)} panels make a PNG of "
            f"{height * PNG_SCALE} pixels, more than {MAX_PIXELS}; draw fewer heads or "
            "channels, or .html"
        )
    picture = _Picture(columns * SIZE, height, image_format)
    top = 0
    for lines, panels in wrapped:
        for line in lines:
            picture._text(line, 8, top + HEADING / 2, 17, "left")
            top += HEADING
        for number, panel in enumerate(panels):
            row, column = divmod(number, columns)
            picture.add(panel, column * SIZE, top + row * tall)
        top += tall * -(-len(panels) // columns)
    return picture.bytes()


class _Picture:
    """A figure with one pair of axes, in points from the upper left corner."""

    def __init__(self, width: int, height: int, image_format: str) -> None:
        self.format = image_format
        self.figure = Figure((width / 72, height / 72), dpi=72)
        # One image per map: matplotlib would join all of them into one, in quadratic time.
        self.figure.suppressComposite = True
        self.axes = self.figure.add_axes(
            (0, 0, 1, 1), xlim=(0, width), ylim=(height, 0)
        )
        self.axes.axis("off")
        self.molecules: list[str] = []  # SVG elements

    def _text(self, text: str, x: float, y: float, size: int, align: str) -> None:
        self.axes.text(x, y, text, size=size, ha=align, va="center")

    def _image(
        self, pixels: np.ndarray, left: float, top: float, width: float, height: float
    ) -> None:
        box = AxesImage(
            self.axes,
            interpolation="nearest",
            extent=(left, left + width, top + height, top),
        )
        box.set_data(pixels)
        self.axes.add_image(box)

    def _frame(self, left: float, top: float, width: float, height: float) -> None:
        self.axes.add_patch(
            Rectangle((left, top), width, height, fill=False, ec=GREY, lw=0.5)
        )

    def add(self, panel: Panel, left: int, top: int) -> None:
        """Draw a panel with its title and its scale."""
        self._text(panel.title, left + SIZE / 2, top + TITLE / 2, 13, "center")
        is_map = isinstance(panel, Map)
        if not is_map and panel.values is None:
            self._molecule(panel, None, left, top + TITLE)
            return
        largest = float(np.abs(panel.matrix if is_map else panel.values).max()) or 1.0
        lowest = 0.0
        if is_map:
            colours = [WHITE, VIOLET]
        elif panel.signed:
            lowest = -largest
            colours = [_pale(BLUE, ATOM_SIGNED), WHITE, _pale(RED, ATOM_SIGNED)]
        else:
            colours = [WHITE, _pale(VIOLET, ATOM)]
        scale = ScalarMappable(
            Normalize(lowest, largest),
            LinearSegmentedColormap.from_list("scale", colours),
        )
        if is_map:
            self._map(panel, scale, left + MARGIN, top + TITLE + MARGIN)
        else:
            self._molecule(panel, scale, left, top + TITLE)
        start, end = left + 0.3 * SIZE, left + 0.7 * SIZE
        middle = top + TITLE + SIZE + 8
        bar = (start, middle - 5, end - start, 10)
        self._image(scale.to_rgba(np.linspace([lowest], [largest], 256).T), *bar)
        self._frame(*bar)
        self._text(f"{lowest:.2g}", start - 6, middle, 10, "right")
        self._text(f"{largest:.2g}", end + 6, middle, 10, "left")

    def _molecule(
        self, panel: Molecule, scale: ScalarMappable | None, left: int, top: int
    ) -> None:
        if self.format == "svg":
            canvas = rdMolDraw2D.MolDraw2DSVG(SIZE, SIZE)
            draw_molecule(panel, scale, canvas, 1)
            svg = canvas.GetDrawingText().partition("<svg")[2]
            self.molecules.append(f"<svg x='{left}' y='{top}'{svg}")
            return
        size = PNG_SCALE * SIZE
        canvas = rdMolDraw2D.MolDraw2DCairo(size, size)
        draw_molecule(panel, scale, canvas, PNG_SCALE)
        png = io.BytesIO(canvas.GetDrawingText())
        self._image(imread(png), left, top, SIZE, SIZE)

    def _map(self, panel: Map, scale: ScalarMappable, left: int, top: int) -> None:
        size, inner = len(panel.matrix), SIZE - 2 * MARGIN
        cell = inner / size
        # Of cells smaller than a point, draw the largest of a block.
        starts = np.arange(0, size, math.ceil(1 / cell))
        matrix = np.maximum.reduceat(panel.matrix, starts)
        matrix = np.maximum.reduceat(matrix, starts, axis=1)
        self._image(scale.to_rgba(matrix), left, top, inner, inner)
        self._frame(left, top, inner, inner)
        if panel.virtual:
            self._frame(left + cell, top, inner - cell, inner)
            self._frame(left, top + cell, inner, inner - cell)
        first = [VIRTUAL] if panel.virtual else []
        numbers = [str(number) for number, _ in enumerate(panel.symbols, 1)]
        names = [symbol + number for symbol, number in zip(panel.symbols, numbers)]
        for at in range(0, size, math.ceil(LABEL_HEIGHT / cell)):
            label = [*first, *names][at]
            self._text(label, left - 4, top + (at + 0.5) * cell, 10, "right")
        for at in range(0, size, math.ceil(DIGIT * (len(str(size)) + 1) / cell)):
            label = [*first, *numbers][at]
            self._text(label, left + (at + 0.5) * cell, top - 8, 10, "center")

    def bytes(self) -> bytes:
        """The picture as a file."""
        file = io.BytesIO()
        # No date and no random names: the same picture is the same file.
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        self.figure.savefig(
            file,
            format=self.format,
            dpi=72 * PNG_SCALE,
            metadata=metadata if self.format == "svg" else None,
        )
        if not self.molecules:
            return file.getvalue()
        head, end, _ = file.getvalue().decode().rpartition("</svg>")
        return "".join([head, *self.molecules, end, "\n"]).encode()


def draw_molecule(
    panel: Molecule,
    scale: ScalarMappable | None,
    canvas: rdMolDraw2D.MolDraw2D,
    zoom: int,
) -> None:
    """Draw a molecule on a new canvas of RDKit, without title and scale, and finish it;
    ``zoom`` is its pixels per point."""
    options = canvas.drawOptions()
    options.fixedBondLength = zoom * BOND
    options.flagCloseContactsDist = -1
    options.highlightRadius = 0.4
    options.padding = 0.08
    options.prepareMolsBeforeDrawing = False
    canvas.SetLineWidth(2 * zoom)
    mol = rdMolDraw2D.PrepareMolForDrawing(panel.mol, addChiralHs=False)
    part_fragments(mol)
    notes = panel.notes
    if notes:
        options.annotationFontScale = NOTE
    if notes is None and 1 < mol.GetNumAtoms() <= NUMBERED:
        notes = {atom: str(atom + 1) for atom in range(mol.GetNumAtoms())}
    for atom, note in (notes or {}).items():
        mol.GetAtomWithIdx(atom).SetProp("atomNote", note)
    values = [] if panel.values is None else panel.values
    colours = {
        atom: tuple(map(float, scale.to_rgba(value)[:3]))
        for atom, value in enumerate(values)
    }
    canvas.DrawMolecule(
        mol,
        highlightAtoms=list(colours),
        highlightAtomColors=colours,
        highlightBonds=[],
    )
    if panel.marked is not None:
        centre = canvas.GetDrawCoords(panel.marked)
        radius = 0.35 * BOND * zoom
        for neighbour in mol.GetAtomWithIdx(panel.marked).GetNeighbors():
            bond = canvas.GetDrawCoords(neighbour.GetIdx()) - centre
            radius = min(radius, 0.4 * bond.Length())
        reach = Point2D(radius, radius)
        canvas.SetFillPolys(False)
        canvas.SetColour((0.9, 0.0, 0.0))
        canvas.DrawEllipse(centre - reach, centre + reach, True)
    canvas.FinishDrawing()


def part_fragments(mol: Chem.Mol) -> None:
    """Move the parts of a salt away from each other, to make room for numbers."""
    fragments = Chem.GetMolFrags(mol)
    conformer = mol.GetConformer()
    if len(fragments) > 1:
        places = conformer.GetPositions()
        for fragment in map(list, fragments):
            away = places[fragment].mean(0) - places.mean(0)
            for atom in fragment:
                conformer.SetAtomPosition(atom, places[atom] + 0.4 * away)


def _pale(colour: np.ndarray, share: float) -> np.ndarray:
    """A colour mixed with white."""
    return 1 - share * (1 - colour)


@dataclass
class Section:
    """A molecule's part of a page.

    Attributes:
        title: name and SMILES.
        text: line below it, e.g. the prediction.
        groups: headings and panels; all groups but the first can be folded away.
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
    """An HTML page that includes its pictures, and loads nothing."""
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
                body = f"<details open><summary>{heading}</summary>{body}</details>"
            parts.append(body)
        parts.append("</section>")
    return "\n".join([*parts, "</body></html>\n"])


def _image(panel: Panel) -> str:
    # A molecule is sharp at any size as SVG. A page has many maps and marked molecules,
    # and PNG is smaller.
    many = isinstance(panel, Map) or panel.marked is not None
    image_format, mime = ("png", "image/png") if many else ("svg", "image/svg+xml")
    data = base64.b64encode(draw([("", [panel])], image_format)).decode()
    alt = html.escape(panel.title)
    return f'<img alt="{alt}" src="data:{mime};base64,{data}">'
