"""RDKit's binary form of a molecule: known values, damaged bytes, arguments."""

import numpy as np
import pytest
from rdkit import Chem

from cython_ext import ATOM_COLUMNS, BOND_COLUMNS, read_molecule

ATOM_CODES = np.tile(np.arange(256), (len(ATOM_COLUMNS), 1))
BOND_CODES = np.tile(np.arange(256), (len(BOND_COLUMNS), 1))


def binary(smiles, **parameters):
    options = Chem.SmilesParserParams()
    for name, value in parameters.items():
        setattr(options, name, value)
    return Chem.MolFromSmiles(smiles, options).ToBinary(0)


def test_values():
    raw = binary("C[O-].C1C=C1")
    x, edge_index, edge_attr = read_molecule(raw, ATOM_CODES, BOND_CODES)
    sp3, sp2 = 4, 3
    assert x.tolist() == [
        [6, 0, 4, 0, 3, 0, sp3, 0, 0],
        [8, 0, 1, 255, 0, 0, sp3, 0, 0],
        [6, 0, 4, 0, 2, 0, sp3, 0, 1],
        [6, 0, 3, 0, 1, 0, sp2, 0, 1],
        [6, 0, 3, 0, 1, 0, sp2, 0, 1],
    ]
    assert edge_index.tolist() == [[0, 1, 2, 3, 3, 4, 4, 2], [1, 0, 3, 2, 4, 3, 2, 4]]
    assert edge_attr[::2].tolist() == edge_attr[1::2].tolist()
    assert edge_attr[::2].tolist() == [[1, 0, 0], [1, 0, 0], [2, 0, 0], [1, 0, 0]]


def test_without_rings():
    raw = binary("C1CC1", sanitize=False, removeHs=False)
    assert read_molecule(raw, ATOM_CODES, BOND_CODES) is None


def test_refused_code():
    codes = BOND_CODES.copy()
    codes[0, 2] = -1
    assert read_molecule(binary("CC"), ATOM_CODES, codes) is not None
    assert read_molecule(binary("C=C"), ATOM_CODES, codes) is None


@pytest.mark.parametrize(
    "smiles", ["C[C@H](F)/C=C/c1cc[nH]c1", "[CH3:500]*", "C" * 300]
)
def test_damaged(smiles):
    """Ends early, or has another byte somewhere: no crash, values from the codes."""
    good = binary(smiles)
    rng = np.random.default_rng(0)
    for size in range(0, len(good), 1 + len(good) // 200):
        read_molecule(good[:size], ATOM_CODES, BOND_CODES)
    read = 0
    for _ in range(2000):
        bad = np.frombuffer(good, np.uint8).copy()
        places = rng.integers(0, len(bad), rng.integers(1, 4))
        bad[places] = rng.integers(0, 256, len(places))
        found = read_molecule(bad, ATOM_CODES, BOND_CODES)
        if found is not None:
            read += 1
            x, edge_index, edge_attr = found
            assert x.shape[1] == len(ATOM_COLUMNS) and 0 <= x.min() and x.max() < 256
            assert edge_attr.shape == (edge_index.shape[1], len(BOND_COLUMNS))
            assert not edge_index.size or 0 <= edge_index.min()
            assert not edge_index.size or edge_index.max() < len(x)
    assert 0 < read < 2000


def test_arguments():
    with pytest.raises(ValueError, match=r"bond_codes .* \[2, 256\] .* \[3, 256\]"):
        read_molecule(binary("C"), ATOM_CODES, BOND_CODES[:2])
    with pytest.raises(ValueError, match="atom_codes has dtype int32"):
        read_molecule(binary("C"), ATOM_CODES.astype(np.int32), BOND_CODES)
