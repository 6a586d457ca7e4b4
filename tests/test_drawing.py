import base64
import io
import re
import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image
from rdkit import Chem

from graphormer_plugin.drawing import (
    MARGIN,
    SIZE,
    TITLE,
    Map,
    Molecule,
    Section,
    draw,
    page,
)

MOL = Chem.MolFromSmiles("CCO")
MATRIX = np.array([[0, 1, 0.5], [0, 0, 0], [0.25, 0.25, 0.25]])
MAP = Map("a map", MATRIX, list("CCO"))
ATOMS = Molecule("atoms", MOL, np.array([2.0, 0, -1]))


def test_cells_of_a_map_are_where_they_belong():
    image = Image.open(io.BytesIO(draw([ATOMS, MAP], "png"))).convert("RGB")
    assert image.size == (2 * SIZE, SIZE + TITLE)
    cell = (SIZE - 2 * MARGIN) / 3
    red = np.empty((3, 3))
    for i in range(3):
        for j in range(3):
            x, y = SIZE + MARGIN + (j + 0.5) * cell, TITLE + MARGIN + (i + 0.5) * cell
            red[i, j] = image.getpixel((int(x), int(y)))[0]
    np.testing.assert_allclose(red, 255 * (1 - MATRIX * 0.97), atol=1)


def test_atoms_are_red_white_and_blue():
    image = Image.open(io.BytesIO(draw([ATOMS], "png"))).convert("RGB")
    seen = {color for _, color in image.getcolors(1 << 16)}
    assert any(r - g > 90 and r - b > 90 for r, g, b in seen)
    assert any(b - r > 40 for r, g, b in seen)
    grey = draw([Molecule("atoms", MOL, np.zeros(3))], "png")
    image = Image.open(io.BytesIO(grey)).convert("RGB")
    assert all(max(color) == min(color) for _, color in image.getcolors(1 << 16))


def test_runs_of_a_colour_are_one_rectangle():
    even = draw([Map("", np.ones((30, 30)), [""] * 30)], "svg").decode()
    assert even.count("#07306B") == 2 * 30  # fill and stroke


@pytest.fixture
def html():
    section = Section("C<O", "gap: 1 & 2", [("", [ATOMS]), ("layers", [MAP, MAP])])
    return page("gap", "How to <read>", [section])


def test_page_is_one_file(html):
    assert not re.search(r'(src|href)=(?!"data:)|url\(|@import|<script', html)
    assert "C&lt;O" in html and "gap: 1 &amp; 2" in html and "&lt;read&gt;" in html
    kinds = re.findall(r'alt="([^"]*)" src="data:image/([^;]*);base64,([^"]*)"', html)
    assert [kind[:2] for kind in kinds] == [
        ("atoms", "svg+xml"),
        ("a map", "png"),
        ("a map", "png"),
    ]
    assert "http" not in re.sub(r"base64,[^\"]*", "", html)
    svg = base64.b64decode(kinds[0][2]).decode()
    # Names of formats, not addresses that are loaded.
    assert not re.findall(r"http(?!://www\.(?:w3|rdkit)\.org/)", svg)


@pytest.mark.parametrize("width", [360, 1100])
def test_page_in_a_browser(html, tmp_path, width):
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("no chromium here")
    # What the page measures of itself; a window of headless chromium has at least 500
    # pixels, so the page is in a frame.
    probe = """<script>onload = () => {
      const page = document.querySelector("iframe").contentDocument;
      const images = [...page.images];
      page.querySelector("details").open = true;
      document.title = JSON.stringify({
        loaded: images.filter(i => i.complete && i.naturalWidth > 100).length,
        columns: new Set(images.map(i => Math.round(i.getBoundingClientRect().x))).size,
        scrolls: page.documentElement.scrollWidth > page.documentElement.clientWidth})
    }</script>"""
    frame = html.replace("&", "&amp;").replace('"', "&quot;")
    path = tmp_path / "page.html"
    path.write_text(
        f'{probe}<iframe width={width} height=900 srcdoc="{frame}"></iframe>',
        encoding="utf-8",
    )
    command = f"{browser} --headless --no-sandbox --disable-gpu --dump-dom"
    command += f" --virtual-time-budget=5000 --user-data-dir={tmp_path}/profile"
    done = subprocess.run(
        [*command.split(), path.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
    )
    title = re.search(r"<title>(\{.*?\})</title>", done.stdout)
    assert title, done.stderr
    columns = 1 if width < 500 else 2
    assert title[1] == f'{{"loaded":3,"columns":{columns},"scrolls":false}}'
