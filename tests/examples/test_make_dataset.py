"""The data that EMT relaxes: splits, energies, and the files of a second run."""

import pickle
import sys

import numpy as np
import pytest

from support.recipes import EXAMPLES

ase = pytest.importorskip("ase", reason="pip install ase")
lmdb = pytest.importorskip("lmdb")
sys.path.append(str(EXAMPLES / "is2re"))
import make_dataset  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("emt") / "data"
    run(folder)
    return folder


def run(folder, *more):
    words = ["make_dataset.py", str(folder), "--systems", "20", "--workers", "1", *more]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", words)
        make_dataset.main()


def systems_of(folder, split):
    path = str(folder / split / "data.lmdb")
    with lmdb.open(path, subdir=False, readonly=True, lock=False) as file:
        with file.begin() as entries:
            found = {int(key): pickle.loads(value) for key, value in entries.cursor()}
    assert sorted(found) == [*range(20 if split == "train" else 2)]
    return [found[number] for number in sorted(found)]


def test_metals_and_adsorbates_of_the_splits(folder):
    for split, (_, new_adsorbate, new_metal) in make_dataset.SPLITS.items():
        metals = set(make_dataset.METALS[new_metal])
        adsorbates = set("".join(make_dataset.ADSORBATES[new_adsorbate]))
        for system in systems_of(folder, split):
            symbols = np.array(ase.Atoms(numbers=system["atomic_numbers"]).symbols)
            on_top = system["tags"] == 2
            assert {*symbols[on_top]} <= adsorbates and {*symbols[~on_top]} <= metals
            assert (system["tags"] == 1).sum() == 4 and (system["tags"] == 0).sum() == 8


def test_systems_are_relaxed_and_the_lower_layers_stay(folder):
    for system in systems_of(folder, "train")[:3]:
        moved = np.abs(system["pos_relaxed"] - system["pos"])
        free = system["tags"] > 0
        assert not moved[~free].any() and moved[free].max() > 0.01
        atoms = ase.Atoms(system["atomic_numbers"], system["pos_relaxed"])
        atoms.cell = system["cell"]
        atoms.pbc = (True, True, False)
        atoms.calc = make_dataset.EMT()
        forces = np.linalg.norm(atoms.get_forces(), axis=1)
        assert forces[free].max() < make_dataset.FMAX
        assert abs(system["y_relaxed"]) < make_dataset.LARGEST
        below = atoms[system["tags"] < 2].get_all_distances(mic=True)
        nearest = np.where(below > 0, below, np.inf).min(1)
        assert 2 < nearest.min() and nearest.max() < 3.2


def test_the_same_seed_gives_the_same_systems(folder, tmp_path):
    run(tmp_path / "again")
    for one, two in zip(
        systems_of(folder, "train"), systems_of(tmp_path / "again", "train")
    ):
        assert all(np.array_equal(one[name], two[name]) for name in one)


def test_a_folder_that_exists_stays(folder):
    with pytest.raises(SystemExit, match="exists already"):
        run(folder)
    with pytest.raises(SystemExit, match="--systems 10"):
        run(folder, "--systems", "3")
