"""Molecules that a start was trained on, by hashes."""

import numpy as np
import pytest

from graphormer_plugin.data.graphs.smiles import mol_of_any_smiles
from graphormer_plugin.data.graphs.start_molecules import (
    ENDING,
    has_seen,
    read_seen,
    seen_beside,
    write_seen,
)

TRAINED = ["CC(N)C(=O)O", "CCCCN", "c1ccccc1", "CC(=O)O"]


@pytest.fixture
def words(tmp_path):
    """Function: how a start has seen molecules."""
    labelled = np.array([True, False, False, False])
    mols = [mol_of_any_smiles(smiles) for smiles in TRAINED]
    write_seen(tmp_path / f"a{ENDING}", mols, labelled)
    path = seen_beside(tmp_path / "a.pt")
    return lambda *smiles: [
        *has_seen(read_seen(path), [*map(mol_of_any_smiles, smiles)])
    ]


def test_any_spelling(words, tmp_path):
    """Stereo, isotope, zwitterion, salt; ion; another spelling; a metal."""
    assert {
        *words("C[C@H](N)C(O)=O", "[13CH3]C(N)C(=O)O", "C[C@@H]([NH3+])C([O-])=O")
    } == {"label"}
    assert {*words("CCCC[NH3+].[Cl-]", "C1=CC=CC=C1", "CC(=O)O[Na]")} == {"structure"}
    assert words("CCCN", "NCC(=O)O") == ["no", "no"] and words() == []
    assert np.load(tmp_path / f"a{ENDING}").shape == (4, 5)
    assert seen_beside(tmp_path / "b.pt") is None
    for damaged in (b"", b"x", np.zeros((4, 5)), np.zeros((4, 4), np.uint8)):
        path = tmp_path / f"b{ENDING}"
        (
            path.write_bytes(damaged)
            if isinstance(damaged, bytes)
            else np.save(path, damaged)
        )
        with pytest.raises(ValueError, match=f"b{ENDING} is damaged; copy it"):
            read_seen(path)
