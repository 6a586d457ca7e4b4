"""Pictures of molecules and of maps over pairs of their atoms, as SVG, PNG and HTML."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from textwrap import wrap

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.image import imread
from rdkit import Chem
from rdkit.Geometry import Point2D

from graphormer_plugin.workbench.figure_style import figure_style

try:
    from rdkit.Chem.Draw import rdMolDraw2D
except ImportError as error:  # bare systems lack a library of X11
    raise ImportError(f"{error}; apt-get install libxrender1 libxext6") from error

# Inches of a panel.
WIDE = 4.2
TALL = 4.3
LINE = 0.4  # inches of a line of a heading
COLUMNS = 4
LETTERS = 27  # width of a heading above a panel
PNG_DPI = 144
MAX_PIXELS = 2**16  # limit of matplotlib in each direction
SIZE = 300  # points of a molecule's picture
BOND = 42  # points of a bond, fewer if the molecule would not fit
NUMBERED = 60  # atoms of the largest molecule that shows their numbers
LABELS = 20  # along a side of a map, at most
VIRTUAL = "vn"
# The strongest colour of an atom is pale enough to read its symbol.
MAP_COLOURS, ATOM_COLOURS, SIGNED_COLOURS = (
    LinearSegmentedColormap.from_list("", colours)
    for colours in (
        ["white", "#40007d"],
        ["white", "#8c66b1"],
        ["#588ec0", "white", "#c75161"],
    )
)


@dataclass
class Molecule:
    """A molecule whose atoms are coloured by ``values`` [N], and numbered from 1. White is 0;
    positive values are violet, or if ``signed`` red, with blue for negative values."""

    title: str
    mol: Chem.Mol
    values: np.ndarray | None  # None: no colours, and no scale below the molecule
    signed: bool = False
    marked: int | None = None  # atom, from 0, that gets a red ring
    notes: Mapping[int, str] | None = None  # beside atoms, in place of their numbers

    @property
    def scale(self) -> ScalarMappable | None:
        """Colours of the values."""
        if self.values is None:
            return None
        largest = float(np.abs(self.values).max()) or 1.0
        colours = SIGNED_COLOURS if self.signed else ATOM_COLOURS
        lowest = -largest if self.signed else 0.0
        return ScalarMappable(Normalize(lowest, largest), colours)


@dataclass
class Map:
    """A matrix [T, T] with row 0 on top, from white for 0 to violet for its largest value."""

    title: str
    matrix: np.ndarray
    symbols: Sequence[str]
    virtual: bool = False  # row and column 0 are the virtual node's, set off by a line


Panel = Molecule | Map
Group = tuple[str, Sequence[Panel]]  # heading, which may be empty, and panels
Columns = dict[str, Sequence[int | str | float]]  # of the atoms of a molecule


@figure_style({"svg.hashsalt": "graphormer_plugin", "figure.dpi": 72})
def draw(groups: Sequence[Group], image_format: str) -> bytes:
    """A picture (``svg`` or ``png``) of panels, row by row; each group starts a row."""
    columns = min(COLUMNS, max(len(panels) for _, panels in groups))
    headings = [
        [part for line in text.splitlines() for part in wrap(line, LETTERS * columns)]
        for text, _ in groups
    ]
    rows = [-(-len(panels) // columns) for _, panels in groups]
    width = columns * WIDE
    height = top = sum(rows) * TALL + sum(map(len, headings)) * LINE
    if image_format == "png" and height * PNG_DPI >= MAX_PIXELS:
        raise ValueError(
            f"{sum(len(panels) for _, panels in groups)} panels make a PNG of "
            f"{height * PNG_DPI:.0f} pixels, expected less than {MAX_PIXELS}; draw fewer "
            "--channels, or write .html"
        )
    figure = Figure((width, height))
    molecules: dict[Axes, Molecule] = {}
    for lines, count, (_, panels) in zip(headings, rows, groups, strict=True):
        heading = "\n".join(lines)
        figure.text(0.1 / width, (top - 0.1) / height, heading, size=17, va="top")
        top -= len(lines) * LINE
        for index, panel in enumerate(panels):
            row, column = divmod(index, columns)
            side = (0.66 if isinstance(panel, Map) else 0.8) * WIDE
            left = (column + 0.5) * WIDE - side / 2
            bottom = top - (row + 0.88) * TALL
            box = left / width, bottom / height, side / width, side / height
            axes = figure.add_axes(box)
            axes.set_title(panel.title, size=13)
            if isinstance(panel, Map):
                scale = _draw_map(axes, panel)
            else:
                scale = panel.scale
                molecules[axes] = panel
                axes.axis("off")
                if image_format == "png":
                    axes.imshow(imread(BytesIO(molecule_picture(panel, "png"))))
            if scale is not None:
                bar = axes.inset_axes((0.3, -0.06, 0.4, 0.035))
                ends = {"ticks": scale.get_clim(), "format": "%.2g"}
                figure.colorbar(scale, bar, orientation="horizontal", **ends)
        top -= count * TALL
    file = BytesIO()
    if image_format == "png":
        figure.savefig(file, dpi=PNG_DPI)
        return file.getvalue()
    # Leave out the date: the same picture is the same file.
    metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(file, format="svg", metadata=metadata)
    head, end, _ = file.getvalue().decode().rpartition("</svg>")
    elements = []
    for axes, panel in molecules.items():
        left, bottom, side, _ = axes.get_window_extent().bounds
        top = figure.bbox.height - bottom - side
        place = f"x='{left:.1f}' y='{top:.1f}' width='{side:.1f}' height='{side:.1f}'"
        svg = molecule_picture(panel, "svg").decode().partition("<svg")[2]
        size = f"width='{SIZE}px' height='{SIZE}px'"
        elements.append("<svg" + svg.replace(size, place))
    return "".join([head, *elements, end, "\n"]).encode()


def _draw_map(axes: Axes, panel: Map) -> ScalarMappable:
    """Draw a matrix; returns its colours."""
    names = [VIRTUAL] * panel.virtual + [
        f"{symbol}{number}" for number, symbol in enumerate(panel.symbols, 1)
    ]
    ticks = range(0, len(names), -(-len(names) // LABELS))
    axes.set_xticks(ticks, [names[tick] for tick in ticks], rotation=90)
    axes.set_yticks(ticks, [names[tick] for tick in ticks])
    axes.tick_params(length=0, top=True, labeltop=True, labelbottom=False)
    axes.spines[:].set(color="0.75", linewidth=0.5)
    if panel.virtual:
        axes.axvline(0.5, color="0.75", linewidth=0.5)
        axes.axhline(0.5, color="0.75", linewidth=0.5)
    largest = float(panel.matrix.max()) or 1.0
    return axes.imshow(panel.matrix, MAP_COLOURS, vmin=0, vmax=largest)


def molecule_picture(panel: Molecule, image_format: str, height: int = SIZE) -> bytes:
    """The molecule of a panel (``svg`` or ``png``), without title and scale."""
    is_svg = image_format == "svg"
    zoom = 1 if is_svg else 2
    kind = rdMolDraw2D.MolDraw2DSVG if is_svg else rdMolDraw2D.MolDraw2DCairo
    canvas = kind(zoom * SIZE, zoom * height)
    options = canvas.drawOptions()
    options.clearBackground = False
    options.fixedBondLength = zoom * BOND
    options.flagCloseContactsDist = -1
    options.highlightRadius = 0.4
    options.padding = 0.08
    options.prepareMolsBeforeDrawing = False
    canvas.SetLineWidth(2 * zoom)
    mol = rdMolDraw2D.PrepareMolForDrawing(panel.mol, addChiralHs=False)
    notes = panel.notes
    if notes:
        options.annotationFontScale = 0.8
    if notes is None and 1 < mol.GetNumAtoms() <= NUMBERED:
        notes = {atom: str(atom + 1) for atom in range(mol.GetNumAtoms())}
    for atom, note in (notes or {}).items():
        mol.GetAtomWithIdx(atom).SetProp("atomNote", note)
    colours = {}
    if panel.values is not None:
        colours = dict(enumerate(panel.scale.to_rgba(panel.values)[:, :3].tolist()))
    canvas.DrawMolecule(
        mol,
        highlightAtoms=list(colours),
        highlightAtomColors={atom: tuple(colour) for atom, colour in colours.items()},
        highlightBonds=[],
    )
    if panel.marked is not None:
        x, y, _ = mol.GetConformer().GetAtomPosition(panel.marked)
        canvas.SetFillPolys(False)
        canvas.SetColour((0.9, 0.0, 0.0))
        canvas.DrawEllipse(Point2D(x - 0.5, y - 0.5), Point2D(x + 0.5, y + 0.5))
    canvas.FinishDrawing()
    picture = canvas.GetDrawingText()
    return picture.encode() if is_svg else picture


@dataclass
class Section:
    """A molecule's part of a page, and columns of its atoms for a table. One more row of a
    column has what is not of an atom."""

    title: str
    text: str  # line below the title, e.g. the prediction
    groups: Sequence[Group]  # all but the first can be folded away
    columns: Columns = field(default_factory=dict)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """All but the panels, for a file."""
        return {"json": np.array(json.dumps([self.title, self.text, self.columns]))}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "Section":
        """Inverse of `to_arrays`."""
        title, text, columns = json.loads(str(arrays["json"]))
        return cls(title, text, [], columns)


def page(title: str, introduction: str, sections: Sequence[Section]) -> str:
    """An HTML page that includes its pictures, and loads nothing."""
    templates = PackageLoader("graphormer_plugin.workbench.explain", ".")
    pages = Environment(loader=templates, autoescape=True, undefined=StrictUndefined)
    return pages.get_template("page.html.jinja").render(
        title=title,
        introduction=introduction,
        sections=sections,
        panel_address=_panel_address,
    )


def _panel_address(panel: Panel) -> str:
    # A molecule is sharp at any size as SVG. A page has many maps and marked molecules,
    # and PNG is smaller.
    many = isinstance(panel, Map) or panel.marked is not None
    picture = draw([("", [panel])], "png" if many else "svg")
    return address(picture, "png" if many else "svg+xml")


def address(picture: bytes, kind: str) -> str:
    """Address of a picture that holds the picture itself."""
    return f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"
