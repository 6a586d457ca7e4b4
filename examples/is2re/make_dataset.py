"""Adsorbates on metal surfaces, relaxed with ASE's EMT, as the LMDB files of OC20's IS2RE.

    python make_dataset.py FOLDER --systems 10000

writes FOLDER/<split>/data.lmdb. The four validation splits have a tenth of the training's
systems each: known metals and adsorbates, new adsorbates, new metals, or both new. EMT tests
the path of the data; it is no chemistry for C, N and O. It needs `ase` and `lmdb`.
"""

import argparse
import itertools
import os
import pickle
import shutil
import sys
from multiprocessing import Pool
from pathlib import Path

import lmdb
import numpy as np
from ase import Atoms
from ase.build import add_adsorbate, fcc100, fcc111
from ase.calculators.emt import EMT
from ase.constraints import FixAtoms
from ase.optimize import BFGS

METALS = {False: ("Ni", "Cu", "Pd", "Ag", "Au"), True: ("Al", "Pt")}
ADSORBATES = {False: ("H", "C", "O"), True: ("N", "CO")}  # True: new in validation
SPLITS = {  # share of systems, new adsorbate, new metal
    "train": (1, False, False),
    "val_id": (0.1, False, False),
    "val_ood_ads": (0.1, True, False),
    "val_ood_cat": (0.1, False, True),
    "val_ood_both": (0.1, True, True),
}
FACETS = (fcc111, fcc100)
PER_SLAB = 10  # systems on the same clean slab
FMAX = 0.05  # eV per angstrom
STEPS = 200  # a relaxation that takes more is left out
LARGEST = 10.0  # eV; a larger energy is left out


def relax(atoms: Atoms) -> float | None:
    """Relax atoms in place; their energy in eV, None if it takes too many steps."""
    atoms.calc = EMT()
    converged = BFGS(atoms, logfile=None).run(fmax=FMAX, steps=STEPS)
    return float(atoms.get_potential_energy()) if converged else None


def make_slab(rng: np.random.Generator, new_metal: bool) -> Atoms:
    """A slab of 2 x 2 x 3 atoms with one foreign atom, stretched by up to 2 %. Tags are 1 in
    the upper layer and 0 in the others, which are fixed."""
    metals = METALS[new_metal]
    facet = FACETS[rng.integers(len(FACETS))]
    slab = facet(str(rng.choice(metals)), (2, 2, 3), vacuum=10)
    slab.set_cell(slab.cell * rng.uniform(0.98, 1.02), scale_atoms=True)
    slab.symbols[rng.integers(len(slab))] = str(rng.choice(metals))
    slab.set_tags((slab.get_tags() == 1).astype(int))
    slab.set_constraint(FixAtoms(mask=slab.get_tags() == 0))
    return slab


def make_systems(task: tuple[str, int, int]) -> list[dict]:
    """Relaxed systems on one slab, whose numbers follow from split, seed and index."""
    split, seed, index = task
    rng = np.random.default_rng([seed, list(SPLITS).index(split), index])
    _, new_adsorbate, new_metal = SPLITS[split]
    slab = make_slab(rng, new_metal)
    clean = relax(slab)
    systems = []
    for _ in range(PER_SLAB):
        name = str(rng.choice(ADSORBATES[new_adsorbate]))
        distances = 1.15 * np.arange(len(name))
        gas = Atoms(name, [(0, 0, z) for z in distances])
        isolated = relax(gas.copy())
        system = slab.copy()
        place = rng.uniform(size=2) @ slab.cell[:2, :2]
        add_adsorbate(system, gas, rng.uniform(1.2, 2.0), position=place)
        tags = slab.get_tags().tolist() + [2] * len(gas)
        pos = system.get_positions()
        energy = relax(system)
        if None in (clean, isolated, energy):
            continue
        energy -= clean + isolated
        if abs(energy) < LARGEST:
            systems.append(
                {
                    "pos": pos,
                    "pos_relaxed": system.get_positions(),
                    "cell": system.cell.array,
                    "atomic_numbers": system.numbers,
                    "tags": np.array(tags),
                    "y_relaxed": energy,
                }
            )
    return systems


def write_split(folder: Path, split: str, count: int, seed: int, pool) -> np.ndarray:
    """Write a split; its energies."""
    (folder / split).mkdir(parents=True)
    tasks = ((split, seed, index) for index in itertools.count())
    energies: list[float] = []
    path = str(folder / split / "data.lmdb")
    with lmdb.open(path, subdir=False, lock=False, map_size=2**36) as file:
        while len(energies) < count:
            slabs = -(-(count - len(energies)) // PER_SLAB)
            for systems in pool.imap(make_systems, itertools.islice(tasks, slabs)):
                with file.begin(write=True) as entries:
                    for system in systems[: count - len(energies)]:
                        key = str(len(energies)).encode()
                        entries.put(key, pickle.dumps(system))
                        energies.append(system["y_relaxed"])
    return np.array(energies)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="new folder")
    parser.add_argument(
        "--systems", type=int, default=10_000, help="to train on, >= 10"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    if args.systems < 10 or args.workers < 1 or args.seed < 0:
        sys.exit(
            "make_dataset.py: --systems 10, --workers 1 and --seed 0 are the least"
        )
    if args.folder.exists():
        sys.exit(f"make_dataset.py: {args.folder} exists already; name another folder")
    scratch = args.folder.with_name(f".tmp-{args.folder.name}")
    shutil.rmtree(scratch, ignore_errors=True)
    with Pool(args.workers) as pool:
        for split, (share, *_) in SPLITS.items():
            count = int(args.systems * share)
            energies = write_split(scratch, split, count, args.seed, pool)
            if split == "train":
                mean = energies.mean()
            error = np.abs(energies - mean).mean()
            print(
                f"{split}: {count} systems, MAE of the mean {error:.3f} eV", flush=True
            )
    scratch.rename(args.folder)


if __name__ == "__main__":
    main()
