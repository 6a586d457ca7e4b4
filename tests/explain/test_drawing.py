import base64
import io
import re

import numpy as np
import pytest
from matplotlib import rc_context
from PIL import Image
from rdkit import Chem
from rdkit.Chem.Draw import rdMolDraw2D

from graphormer_plugin.explain import drawing
from graphormer_plugin.explain.drawing import (
    HEADING,
    MARGIN,
    PNG_SCALE,
    SCALE,
    SIZE,
    TITLE,
    VIOLET,
    Map,
    Molecule,
    Section,
    draw,
    page,
    part_fragments,
)

MOL = Chem.MolFromSmiles("CCO")
MATRIX = np.array([[0, 1, 0.5], [0, 0, 0], [0.25, 0.25, 0.25]])
MAP = Map("a map", MATRIX, list("CCO"))
ATOMS = Molecule("atoms", MOL, np.array([2.0, 0, -1]), signed=True)


def image_of(*groups):
    """The picture with one pixel per point."""
    picture = Image.open(io.BytesIO(draw(groups, "png"))).convert("RGB")
    return picture.reduce(PNG_SCALE)


def test_cells_of_a_map_are_where_they_belong():
    image = image_of(("", [ATOMS]), ("two", [ATOMS, MAP]))
    tall = TITLE + SIZE + SCALE
    assert image.size == (2 * SIZE, 2 * tall + HEADING)
    cell = (SIZE - 2 * MARGIN) / 3
    left, top = SIZE + MARGIN, tall + HEADING + TITLE + MARGIN
    red = np.empty((3, 3))
    for i in range(3):
        for j in range(3):
            x, y = left + (j + 0.5) * cell, top + (i + 0.5) * cell
            red[i, j] = image.getpixel((int(x), int(y)))[0]
    np.testing.assert_allclose(red, 255 * (1 - MATRIX * (1 - VIOLET[0])), atol=1)


@pytest.mark.parametrize("image_format", ["svg", "png"])
def test_no_matplotlibrc_counts(image_format):
    expected = draw([("", [ATOMS, MAP])], image_format)
    values = {"text.usetex": True, "savefig.facecolor": "red", "svg.hashsalt": "x"}
    with rc_context(values):
        assert draw([("", [ATOMS, MAP])], image_format) == expected


def test_large_map_shows_every_strong_cell():
    matrix = np.zeros((1000, 1000))
    matrix[700, 300] = 1
    picture = draw([("", [Map("", matrix, ["C"] * 1000)])], "png")
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    inner = SIZE - 2 * MARGIN
    box = (MARGIN + 3, TITLE + MARGIN + 3, SIZE - MARGIN - 3, TITLE + SIZE - MARGIN - 3)
    image = image.crop(tuple(PNG_SCALE * edge for edge in box))
    dark = np.argwhere(np.asarray(image)[..., 1] < 40) / PNG_SCALE
    assert 0 < len(dark) <= 4 * PNG_SCALE**2
    np.testing.assert_allclose(dark.mean(0) + 3, [0.7 * inner, 0.3 * inner], atol=2)


def pixels(image):
    """[height, width, 3] of signed numbers."""
    return np.asarray(image).astype(int)


def molecule_of(*values, **more):
    """The picture without title and scale."""
    image = image_of(("", [Molecule("atoms", MOL, np.array(values), **more)]))
    return pixels(image.crop((0, TITLE, SIZE, TITLE + SIZE)))


def red(image):
    r, g, b = np.moveaxis(image, -1, 0)
    return (r - g > 90) & (r - b > 90)


def blue(image):
    r, _, b = np.moveaxis(image, -1, 0)
    return b - r > 40


def test_atoms_are_red_white_and_blue():
    image = molecule_of(2.0, 0, -1, signed=True)
    assert np.argwhere(red(image))[:, 1].max() < SIZE / 2  # CCO goes to the right
    assert np.argwhere(blue(image))[:, 1].min() > SIZE / 2
    grey = molecule_of(0, 0, 0, signed=True)
    assert (grey.max(-1) == grey.min(-1)).all()


def test_attention_is_violet_and_a_marked_atom_has_a_red_ring():
    image = molecule_of(0.6, 0, 0)
    violet = (image[..., 0] - image[..., 1] > 25) & (image[..., 2] - image[..., 0] > 25)
    assert violet.any() and np.argwhere(violet)[:, 1].max() < SIZE / 2
    assert not red(image).any()
    middles = []
    for marked in range(3):
        places = np.argwhere(red(molecule_of(0.6, 0.2, 0, marked=marked)))
        height, width = np.ptp(places, axis=0)
        assert abs(height - width) <= 1 and 10 < width < SIZE / 4
        middles.append(places[:, 1].mean())
    assert middles[0] < middles[1] - 20 < middles[2] - 40


def test_a_molecule_without_values_has_its_own_colours_and_no_scale():
    image = pixels(image_of(("", [Molecule("", MOL, None)])))
    assert (image[TITLE + SIZE :] == 255).all()
    assert red(image).any()  # the letter of oxygen


def test_notes_stand_in_place_of_numbers():
    svg = [
        draw([("", [Molecule("", MOL, np.zeros(3), notes=notes)])], "svg").decode()
        for notes in (None, {}, {1: "+0.5"})
    ]
    assert [text.count("class='note'") for text in svg] == [3, 0, 4]


def test_scale_has_the_colours_between_its_two_numbers():
    def scale(largest, signed):
        values = np.array([largest, 0, 0])
        image = image_of(("", [Molecule("", MOL, values, signed)]))
        bar = pixels(image.crop((0, TITLE + SIZE, SIZE, TITLE + SIZE + SCALE)))
        return bar, bar[SCALE // 2 - 4, int(SIZE * 0.3) + 4 : int(SIZE * 0.7) - 3]

    whole, bar = scale(0.25, True)
    assert blue(bar)[0] and red(bar)[-1] and bar[len(bar) // 2].min() > 240
    changed = np.argwhere((whole != scale(0.5, True)[0]).any(-1))[:, 1]
    assert changed.min() < SIZE * 0.3 and changed.max() > SIZE * 0.7
    whole, bar = scale(0.25, False)
    assert bar[0].min() > 240 and (np.diff(bar.sum(-1)) <= 0).all()
    changed = np.argwhere((whole != scale(0.5, False)[0]).any(-1))[:, 1]
    assert changed.min() > SIZE * 0.7  # of the two numbers, the other is 0


def test_parts_of_a_salt_are_apart():
    salt = Chem.MolFromSmiles("CC(=O)[O-].[Na+]")
    before = Chem.Mol(salt)
    draw([("", [Molecule("", salt, np.zeros(5))])], "svg")
    assert salt.GetNumConformers() == before.GetNumConformers() == 0
    prepared = rdMolDraw2D.PrepareMolForDrawing(salt)
    places = prepared.GetConformer().GetPositions()
    part_fragments(prepared)
    parted = prepared.GetConformer().GetPositions()
    gaps = [np.linalg.norm(p[:4] - p[4], axis=1).min() for p in (places, parted)]
    assert gaps[1] > gaps[0] + 0.5
    np.testing.assert_allclose(np.diff(parted[:4], axis=0), np.diff(places[:4], axis=0))


@pytest.mark.parametrize("image_format", ["png", "svg"])
@pytest.mark.parametrize("unit", ["Å²", "µM", "\u03bcM", "°C", "mol·L⁻¹", "$", "a_$b$"])
def test_every_letter_of_a_unit_is_drawn(unit, image_format, recwarn):
    """matplotlib warns of letters that its font does not have."""

    def picture(title):
        return draw([(title, [Molecule(title, MOL, np.zeros(3))])], image_format)

    pictures = [picture(unit), picture(unit), picture("?")]
    assert pictures[0] == pictures[1] != pictures[2]
    assert not [warning for warning in recwarn if "Glyph" in str(warning.message)]


def test_picture_that_is_too_tall_is_refused(monkeypatch):
    monkeypatch.setattr(drawing, "MAX_PIXELS", 7000)
    panels = [("", [MAP])] * 10
    assert draw(panels, "svg") and draw(panels[1:], "png")
    with pytest.raises(ValueError, match="10 panels make a PNG of 7040 pixels"):
        draw(panels, "png")


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
