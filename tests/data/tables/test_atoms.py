"""Extended xyz files and databases of ASE, read with their positions."""

import gzip

import numpy as np
import pytest

from graphormer_plugin.data.errors import DatasetError
from graphormer_plugin.data.graphs.conformers import LENGTH_UNITS
from graphormer_plugin.data.graphs.sources import Atoms
from graphormer_plugin.data.store.build import get_store
from graphormer_plugin.data.tables.atoms import AtomsTable
from graphormer_plugin.data.tables.formats import open_table
from graphormer_plugin.data.tables.options import DatasetOptions

ase = pytest.importorskip("ase", reason="pip install ase")
io = pytest.importorskip("ase.io", reason="pip install ase")

FRAMES = 12


def atoms_of(number):
    """Water with stretched bonds."""
    stretch = 1 + number / 100
    pos = np.array([[0, 0, 0.12], [0.76, 0, -0.48], [-0.76, 0, -0.48]]) * stretch
    return ase.Atoms("OHH", pos + 3)


def forces_of(number):
    return np.arange(9.0).reshape(3, 3) + number


def write_xyz(path, energy="energy", forces="forces"):
    frames = []
    for number in range(FRAMES):
        atoms = atoms_of(number)
        atoms.info[energy] = -14.0 - number
        atoms.info["source"] = "made"
        atoms.arrays[forces] = forces_of(number)
        frames.append(atoms)
    io.write(path, frames, format="extxyz")


def prepare(path, **options):
    options = {"positions": "file", "progress": False} | options
    root = str(path.parent / "root")
    return get_store(DatasetOptions(name=str(path), data_root=root, **options))


def check(store, energy="energy"):
    """Atoms, centred positions, energies and forces of all frames."""
    assert store.targets.names == [energy] and store.featuriser == "atoms"
    assert store.schema.node_dims == [119, 3] and store.schema.bond_dims == []
    assert store.target[:, 0].tolist() == [-14.0 - n for n in range(FRAMES)]
    for number in range(FRAMES):
        rows = slice(3 * number, 3 * number + 3)
        pos = atoms_of(number).positions
        assert store.columns["x"][rows].tolist() == [[8, 1], [1, 1], [1, 1]]
        found = store.columns["pos"][rows]
        np.testing.assert_allclose(found, pos - pos.mean(0), atol=1e-6)
        assert np.array_equal(store.columns["forces"][rows], forces_of(number))
    assert store.columns["pos"].dtype == np.float32


@pytest.mark.parametrize("suffix", ["", "_xtb"])
def test_an_xyz_file(tmp_path, suffix):
    """Energies and forces are found by their usual names."""
    path = tmp_path / "water.xyz"
    write_xyz(path, f"energy{suffix}", f"forces{suffix}")
    check(prepare(path), f"energy{suffix}")


@pytest.mark.parametrize("name", ["a.xyz", "a@1.xyz", "a.xyz.gz"])
@pytest.mark.parametrize("blank", ["\n", " \n\n"])
def test_blank_lines_between_frames(tmp_path, name, blank):
    """And a comment that is blank, which belongs to its frame."""
    write_xyz(tmp_path / "a.xyz")
    frames = (tmp_path / "a.xyz").read_text().splitlines(keepends=True)
    text = blank.join("".join(frames[at : at + 5]) for at in range(0, len(frames), 5))
    text += blank + "1\n\nH 0 0 0\n" + blank
    opener = gzip.open if name.endswith("gz") else open
    with opener(tmp_path / name, "wt") as file:
        file.write(text)
    read = open_table(tmp_path / name).frames
    assert [len(frame.numbers) for frame in read] == [3] * FRAMES + [1]
    values = [frame.values.get("energy") for frame in read]
    assert values == [*(-14.0 - number for number in range(FRAMES)), None]


def test_other_names_are_options(tmp_path):
    path = tmp_path / "water.extxyz"
    write_xyz(path, "e", "slope")
    store = prepare(path, target_columns="e", forces_column="slope")
    check(store, "e")
    assert "forces" not in prepare(path, target_columns="e").columns


@pytest.mark.parametrize(
    "energies, forces, asked, taken",
    [
        ("REF_energy", "forces REF_forces", {}, "REF_energy REF_forces"),
        ("energy dft_energy", "forces", {}, "energy forces"),
        ("energy dft_energy", "forces", {"target_columns": "dft_energy"}, "dft_energy"),
        (
            "b_energy a_energy",
            "b_forces a_forces",
            {"target_columns": "a_energy"},
            "a_energy a_forces",
        ),
        (
            "b_energy a_energy",
            "b_forces a_forces",
            {"forces_column": "b_forces"},
            "b_energy b_forces",
        ),
        ("TotEnergy", "forces", {}, "TotEnergy forces"),
        ("energy", "gradient", {"forces_column": "-gradient"}, "energy -gradient"),
        ("energy", "gradient", {}, "energy"),
        ("energy", "F", {}, "energy F"),
        ("a_energy", "F_b a_f f_max", {}, "a_energy a_f"),
    ],
)
def test_energies_and_forces_of_one_level(
    tmp_path, caplog, energies, forces, asked, taken
):
    """Those whose names match; a gradient is turned round."""
    frames = [atoms_of(number) for number in range(FRAMES)]
    for number, atoms in enumerate(frames):
        atoms.info |= {name: float(len(name)) for name in energies.split()}
        for name in forces.split():
            atoms.arrays[name] = forces_of(number) + len(name)
    io.write(tmp_path / "a.xyz", frames, format="extxyz")
    store = prepare(tmp_path / "a.xyz", **asked)
    energy, *names = taken.split()
    assert store.targets.names == [energy] and ("forces" in store.columns) == bool(
        names
    )
    for name in names:
        assert f"energies are {energy}, forces {name}" in caplog.text
        sign = -1 if name[0] == "-" else 1
        expected = sign * (forces_of(0) + len(name.removeprefix("-")))
        assert np.array_equal(store.columns["forces"][:3], expected)


def test_a_geometry_with_two_charges(tmp_path):
    """It is in two splits with other energies, and a line names the column that says why."""
    frames = [atoms_of(number // 2) for number in range(40)]
    for number, atoms in enumerate(frames):
        atoms.info |= {"energy": 9.0 * number, "charge": number % 2, "step": number}
        atoms.arrays["forces"] = forces_of(number)
    io.write(tmp_path / "a.xyz", frames, format="extxyz")
    contradicting, shared = prepare(tmp_path / "a.xyz").warnings
    assert "20 molecules with several rows" in contradicting
    assert "differ in 'charge', which the model does not read" in contradicting
    assert "are molecules that train has too" in shared and "scaffold" not in shared


@pytest.mark.parametrize("unit", ["bohr", "nm"])
def test_another_unit_of_length(tmp_path, caplog, unit):
    """Positions and forces as of the file in angstrom, and without --length-unit a line."""
    path = tmp_path / "a.xyz"
    write_xyz(path)
    frames = io.read(path, ":")
    for atoms in frames:
        forces = atoms.get_forces() * LENGTH_UNITS[unit]
        atoms.positions /= LENGTH_UNITS[unit]
        atoms.calc = None
        atoms.info["energy"] = 0.0
        atoms.arrays["forces"] = forces
    io.write(tmp_path / "b.xyz", frames, format="extxyz")
    expected = prepare(path)
    assert not expected.warnings
    store = prepare(tmp_path / "b.xyz", length_unit=unit)
    for name in ("pos", "forces"):
        np.testing.assert_allclose(
            store.columns[name], expected.columns[name], atol=1e-6
        )
    assert not store.warnings
    assert f"--length-unit {unit} converts" in prepare(tmp_path / "b.xyz").warnings[0]
    assert not prepare(tmp_path / "b.xyz", length_unit="angstrom").warnings


@pytest.mark.parametrize("place", ["calculator", "data"])
def test_a_database(tmp_path, place):
    """Energies and forces of a calculator, and nablaDFT's in the data of a row."""
    from ase.calculators.singlepoint import SinglePointCalculator
    from ase.db import connect

    path = tmp_path / "water.db"
    with connect(path, use_lock_file=False) as database:
        for number in range(FRAMES):
            atoms = atoms_of(number)
            known = {"energy": -14.0 - number, "forces": forces_of(number)}
            data = {"energy": [known["energy"]], "forces": known["forces"]}
            if place == "calculator":
                atoms.calc = SinglePointCalculator(atoms, **known)
            database.write(atoms, data=data if place == "data" else {}, source="made")
    check(prepare(path))


def test_tags_and_periodic_cells(tmp_path, caplog):
    path = tmp_path / "slab.xyz"
    frames = []
    for number in range(FRAMES):
        atoms = atoms_of(number)
        atoms.set_tags([0, 1, 2])
        atoms.set_cell([8, 8, 8])
        atoms.pbc = True
        atoms.info["energy"] = float(number)
        frames.append(atoms)
    io.write(path, frames, format="extxyz")
    store = prepare(path)
    assert store.columns["x"][:3].tolist() == [[8, 0], [1, 1], [1, 2]]
    assert f"{FRAMES} frames with periodic cells" in caplog.text
    frames[3].set_tags([0, 1, 7])
    io.write(path, frames, format="extxyz")
    with pytest.raises(DatasetError, match="3 frames can be read, then ValueError"):
        AtomsTable(path)


def test_the_column_of_atoms_begins_with_the_formula(tmp_path):
    path = tmp_path / "water.xyz"
    write_xyz(path)
    table = open_table(path).in_format(Atoms)
    assert table.header == ["atoms", "source", "energy"]
    assert table.find_smiles("") == "atoms" and table.count() == FRAMES
    names = ["energy", "atoms", "source"]
    _, line, source, cells = next(table.rows(names, "atoms"))
    assert (line, cells) == (1, ["-14.0", "H2O", "made"])
    assert isinstance(source, Atoms) and str(source) == "H2O"


def test_an_option_changes_the_store(tmp_path):
    sdf = tmp_path / "made.csv"
    rows = "\n".join(f"{'C' * n}O,{n}" for n in range(1, 13))
    sdf.write_text(f"smiles,y\n{rows}\n")
    plain = prepare(sdf, positions="none")
    embedded = prepare(sdf, positions="rdkit")
    assert plain.fingerprint != embedded.fingerprint
    assert "pos" not in plain.columns and embedded.featuriser == "ogb_rdkit"
    atoms = int(plain.columns["node_offset"][-1])
    assert embedded.columns["pos"].nbytes == 12 * atoms  # 348 bytes of 29 atoms
    again = prepare(sdf, positions="rdkit", rebuild=True)
    assert again.fingerprint == embedded.fingerprint


def test_a_name_with_an_at_sign_is_a_name(tmp_path):
    """ASE reads the last number as an index of the file before it."""
    write_xyz(tmp_path / "x.xyz")
    (tmp_path / "x").write_text("1\nenergy=1\nH 0 0 0\n")
    (tmp_path / "x.xyz").rename(tmp_path / "x@1.xyz")
    assert AtomsTable(tmp_path / "x@1.xyz").count() == FRAMES
