"""Atoms on springs, with energies and forces, as extended xyz."""

import numpy as np

ATOM_ENERGIES = {"H": -10.0, "O": -2000.0}
CORNERS = np.array([[0, 0, 0], [1, 0, 0], [0.5, 0.9, 0], [0.5, 0.3, 0.8]])
HEADER = "Properties=species:S:1:pos:R:3:forces:R:3 energy"


def springs(pos):
    """Energy of springs of length 1 between all atoms, and forces."""
    apart = pos[:, None] - pos
    lengths = np.linalg.norm(apart, axis=-1) + np.eye(len(pos))
    forces = -2 * ((lengths - 1) / lengths)[..., None] * apart
    return ((lengths - 1) ** 2).sum() / 2, forces.sum(1)


def write_waters(path, count=64):
    """Write O and two or three H in turn, on springs with random lengths."""
    rng = np.random.default_rng(0)
    with open(path, "w") as file:
        for number in range(count):
            symbols = "OHHH"[: 3 + number % 2]
            pos = CORNERS[: len(symbols)] + rng.normal(0, 0.1, (len(symbols), 3))
            energy, forces = springs(pos)
            energy += sum(ATOM_ENERGIES[symbol] for symbol in symbols)
            print(len(symbols), f"{HEADER}={energy}", sep="\n", file=file)
            for symbol, *numbers in zip(symbols, pos, forces, strict=True):
                print(symbol, *np.concatenate(numbers), file=file)
