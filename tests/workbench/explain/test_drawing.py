import base64
import importlib
import io
import re
import sys

import numpy as np
import pytest
from matplotlib import rc_context
from PIL import Image
from rdkit import Chem

from graphormer_plugin.workbench.explain import drawing
from graphormer_plugin.workbench.explain.drawing import (
    LINE,
    MAX_PIXELS,
    PNG_DPI,
    TALL,
    WIDE,
    Map,
    Molecule,
    Section,
    draw,
    page,
)

MOL = Chem.MolFromSmiles("CCO")
MATRIX = np.array([[0, 1, 0.5], [0, 0, 0], [0.25, 0.25, 0.25]])
MAP = Map("a map", MATRIX, list("CCO"))
ATOMS = Molecule("atoms", MOL, np.array([2.0, 0, -1]), signed=True)


def image_of(*groups):
    """Pixels [height, width, 3] of a picture, as signed numbers."""
    picture = Image.open(io.BytesIO(draw(groups, "png"))).convert("RGB")
    return np.asarray(picture).astype(int)


def test_cells_of_a_map_are_where_they_belong():
    """Below a heading and a first row, in the second column."""
    image = image_of(("", [ATOMS]), ("two", [ATOMS, MAP]))
    size = np.array([2 * TALL + LINE, 2 * WIDE]) * PNG_DPI
    np.testing.assert_allclose(image.shape[:2], size, atol=1)
    side, bottom = 0.66 * WIDE, LINE + (1 + 0.88) * TALL
    places = (np.arange(3) + 0.5) / 3 * side
    y, x = bottom - side + places, 1.5 * WIDE - side / 2 + places
    at = np.ix_(*((edge * PNG_DPI).astype(int) for edge in (y, x)))
    np.testing.assert_allclose(image[at][..., 0], 255 - 191 * MATRIX, atol=2)


@pytest.mark.parametrize("image_format", ["svg", "png"])
def test_no_matplotlibrc_counts(image_format):
    expected = draw([("", [ATOMS, MAP])], image_format)
    values = {"text.usetex": True, "savefig.facecolor": "red", "svg.hashsalt": "x"}
    with rc_context(values):
        assert draw([("", [ATOMS, MAP])], image_format) == expected


def test_more_panels_than_a_png_holds():
    panels = [ATOMS] * (1 + 4 * int(MAX_PIXELS / TALL / PNG_DPI))
    with pytest.raises(ValueError, match="421 panels .* expected less than 65536"):
        draw([("", panels)], "png")


def molecule_of(*values, **more):
    """Pixels above the scale."""
    image = image_of(("", [Molecule("atoms", MOL, np.array(values), **more)]))
    return image[: int(0.88 * TALL * PNG_DPI)]


def red(image):
    r, g, b = np.moveaxis(image, -1, 0)
    return (r - g > 90) & (r - b > 90)


def blue(image):
    r, _, b = np.moveaxis(image, -1, 0)
    return b - r > 40


MIDDLE = WIDE * PNG_DPI / 2


def test_atoms_are_red_white_and_blue():
    image = molecule_of(2.0, 0, -1, signed=True)
    assert np.argwhere(red(image))[:, 1].max() < MIDDLE  # CCO goes to the right
    assert np.argwhere(blue(image))[:, 1].min() > MIDDLE
    grey = molecule_of(0, 0, 0, signed=True)
    assert (grey.max(-1) == grey.min(-1)).all()


def test_attention_is_violet_and_a_marked_atom_has_a_red_ring():
    image = molecule_of(0.6, 0, 0)
    violet = (image[..., 0] - image[..., 1] > 25) & (image[..., 2] - image[..., 0] > 25)
    assert violet.any() and np.argwhere(violet)[:, 1].max() < MIDDLE
    assert not red(image).any()
    middles = []
    for marked in range(3):
        places = np.argwhere(red(molecule_of(0.6, 0.2, 0, marked=marked)))
        height, width = np.ptp(places, axis=0)
        assert abs(height - width) <= 2 and 20 < width < MIDDLE / 2
        middles.append(places[:, 1].mean())
    assert middles[0] < middles[1] - 40 < middles[2] - 80


def test_a_molecule_without_values_has_its_own_colours_and_no_scale():
    image = image_of(("", [Molecule("", MOL, None)]))
    assert (image[int(0.88 * TALL * PNG_DPI) :] == 255).all()
    assert red(image).any()  # the letter of oxygen


def test_notes_stand_in_place_of_numbers():
    svg = [
        draw([("", [Molecule("", MOL, np.zeros(3), notes=notes)])], "svg").decode()
        for notes in (None, {}, {1: "+0.5"})
    ]
    assert [text.count("class='note'") for text in svg] == [3, 0, 4]


@pytest.mark.parametrize(
    "panel, ends",
    [
        (ATOMS, ["-2", "2"]),
        (Molecule("", MOL, np.array([0.25, 0, 0])), ["0", "0.25"]),
        (Molecule("", MOL, np.zeros(3)), ["0", "1"]),
        (Map("", MATRIX / 2, list("CCO")), ["0", "0.5"]),
    ],
)
def test_a_scale_has_two_numbers(panel, ends):
    svg = draw([("", [panel])], "svg").decode()
    assert re.findall(r"<!-- (-?[\d.]+) -->", svg)[-2:] == ends


@pytest.mark.parametrize("image_format", ["png", "svg"])
@pytest.mark.parametrize("unit", ["Å²", "µM", "\u03bcM", "°C", "mol·L⁻¹", "$", "a_$b$"])
def test_every_letter_of_a_unit_is_drawn(unit, image_format, recwarn):
    """matplotlib warns of letters that its font does not have."""

    def picture(title):
        return draw([(title, [Molecule(title, MOL, np.zeros(3))])], image_format)

    pictures = [picture(unit), picture(unit), picture("?")]
    assert pictures[0] == pictures[1] != pictures[2]
    assert not [warning for warning in recwarn if "Glyph" in str(warning.message)]


def test_molecules_of_an_svg_are_in_their_panels():
    svg = draw([("", [ATOMS, ATOMS]), ("two", [ATOMS])], "svg").decode()
    found = re.findall(
        r"\sx='(.+?)' y='(.+?)' width='(.+?)' height='(.+?)' viewBox", svg
    )
    side, rest, tall = 0.8 * WIDE, 0.1 * WIDE, 0.88 * TALL
    expected = [
        (rest, tall - side, side, side),
        (rest + WIDE, tall - side, side, side),
        (rest, tall - side + TALL + LINE, side, side),
    ]
    np.testing.assert_allclose(np.float64(found), 72 * np.array(expected), atol=0.1)


@pytest.fixture
def html():
    marked = Molecule("channel 1", MOL, np.array([0.2, 0.7, 0.1]), marked=1)
    groups = [("", [ATOMS]), ("layers", [MAP, MAP]), ("atom 2", [marked])]
    section = Section("C<O", "gap: 1 & 2", groups)
    return page("gap", "How to <read>", [section])


def test_page_is_one_file(html):
    assert not re.search(r'(src|href)=(?!"data:)|url\(|@import|<script', html)
    assert "C&lt;O" in html and "gap: 1 &amp; 2" in html and "&lt;read&gt;" in html
    kinds = re.findall(r'alt="([^"]*)" src="data:image/([^;]*);base64,([^"]*)"', html)
    assert [kind[:2] for kind in kinds] == [
        ("atoms", "svg+xml"),
        ("a map", "png"),
        ("a map", "png"),
        ("channel 1", "png"),
    ]
    assert "http" not in re.sub(r"base64,[^\"]*", "", html)
    svg = base64.b64decode(kinds[0][2]).decode()
    # Names of formats, not addresses that are loaded.
    assert not re.findall(r"http(?!://www\.(?:w3|rdkit)\.org/)", svg)


def test_libraries_that_rdkit_lacks_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit.Chem.Draw", None)
    with pytest.raises(ImportError, match="apt-get install libxrender1 libxext6"):
        importlib.reload(drawing)
