"""RDKit's NCI molecules and the target that they share with ZINC."""

import numpy as np
import pytest
from rdkit import Chem

from graphormer_plugin.data.benchmarks import nci
from graphormer_plugin.data.benchmarks.nci import longest_cycle, solubility_terms
from graphormer_plugin.data.graphs.smiles import PLAIN
from graphormer_plugin.data.store.featurise import featurise
from graphormer_plugin.data.tables.options import DatasetOptions
from graphormer_plugin.data.tables.table import CsvTable


class TestSolubility:
    @pytest.mark.parametrize(
        ("edges", "longest"),
        [
            ([], 0),
            ([(0, 1), (1, 2), (2, 3)], 0),
            ([(0, 1), (1, 2), (2, 0)], 3),
            ([(i, (i + 1) % 7) for i in range(7)], 7),
            # Two triangles that share an edge; two components.
            ([(0, 1), (1, 2), (2, 0), (1, 3), (2, 3)], 3),
            ([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 6), (6, 3)], 4),
        ],
    )
    def test_longest_cycle(self, edges, longest):
        mol = Chem.RWMol()
        for _ in range(8):
            mol.AddAtom(Chem.Atom("C"))
        for i, j in edges:
            mol.AddBond(i, j, Chem.BondType.SINGLE)
        assert longest_cycle(mol) == longest

    def test_zinc_targets(self, shared_data):
        """The benchmark's published target, with its own constants."""
        mean = np.array([2.4577998006008803, 3.0535350950178275, 0.04829303989345987])
        std = np.array([1.4334180962410334, 0.8346132411020818, 0.28775759686956115])
        source = CsvTable(shared_data / "zinc12k.csv.gz")
        rows = list(source.rows(["smiles", "y"]))[::40]
        for row, *_, (smiles, y) in rows:
            terms = solubility_terms(Chem.MolFromSmiles(smiles))
            z = (np.array(terms) - mean) / std
            assert abs(z[0] - z[1] - z[2] - float(y)) < 1e-5, row

    @pytest.mark.parametrize(
        "smiles, penalty",
        [("CCCCCCC", 0), ("C1CCCCC1", 0), ("C1CCCCCC1", 1), ("C1CCCCCCCCCCC1", 6)],
    )
    def test_ring_penalty_counts_atoms_beyond_six(self, smiles, penalty):
        assert solubility_terms(Chem.MolFromSmiles(smiles))[2] == penalty

    def test_nci_source(self):
        source = nci.nci(DatasetOptions())
        assert len(source.smiles) == 4999
        used = np.concatenate(list(source.splits.values()))
        assert np.array_equal(np.sort(used), np.arange(4999))
        refused = [source.smiles[row] for row in nci.NCI_REFUSED]
        pieces = featurise(refused, PLAIN.read_row, progress=False)
        assert sum(len(piece.failures) for piece in pieces) == 8  # all of them

    def test_positions(self):
        source = nci.nci(DatasetOptions(positions="rdkit"))
        assert source.featuriser == "ogb_rdkit"
        assert source.parser("CCO").pos.shape == (3, 3)

    def test_targets_are_standardised_on_the_training_split(self, rng):
        terms = rng.normal([2, 3, 0], [1, 2, 3], (50, 3))
        train = np.arange(40)
        y = nci._standardised_solubility({"terms": terms}, {"train": train})
        z = (terms - terms[:40].mean(0)) / terms[:40].std(0)
        assert y.shape == (50, 1)
        assert np.allclose(y[:, 0], z[:, 0] - z[:, 1] - z[:, 2])
