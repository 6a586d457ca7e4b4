"""SMILES to chunks: reasons for refusals, workers, order."""

import numpy as np
import pytest
from rdkit import Chem, rdBase

from graphormer_plugin.data.graphs.smiles import PLAIN, captured_rdkit_log
from graphormer_plugin.data.store.featurise import featurise, num_workers, parse


class TestFeaturise:
    bad = ["CCO", "C1CC", "CN(C)(C)(C)C", "", "xyz", "CC"]

    def run(self, smiles, workers, **arguments):
        arguments |= {"workers": workers, "progress": False}
        return list(featurise(smiles, PLAIN.read_row, **arguments))

    def test_reasons(self, capfd):
        (batch,) = self.run(self.bad, 0)
        assert batch.chunk.row.tolist() == [0, 5]
        reasons = {row: reason for row, _, reason in batch.failures}
        assert sorted(reasons) == [1, 2, 3, 4]
        assert "unclosed ring" in reasons[1]
        assert "valence" in reasons[2] and "N, 5" in reasons[2]
        assert "no SMILES" in reasons[3]
        assert "syntax error" in reasons[4]
        assert capfd.readouterr() == ("", "")  # RDKit prints nothing

    def test_nothing_after_a_blank_is_ignored(self):
        # RDKit itself takes them for a sodium ion and methane with a name each.
        (batch,) = self.run(["[Na+] [Cl-]", "C\nC", "CC |$a;b$|"], 0)
        assert batch.chunk.row.tolist() == [2]
        assert batch.failures[0][2] == "text after a blank in the SMILES: '[Cl-]'"
        assert batch.failures[1][2] == "text after a blank in the SMILES: 'C'"

    @pytest.mark.parametrize("switch", [rdBase.EnableLog, rdBase.DisableLog])
    def test_rdkit_prints_afterwards_as_before(self, capfd, switch):
        switch("rdApp.error")
        try:
            with captured_rdkit_log() as messages:
                Chem.MolFromSmiles("C1CC")
            Chem.MolFromSmiles("C1CC")
        finally:
            rdBase.EnableLog("rdApp.error")
        assert "unclosed ring" in " ".join(messages)
        printed = capfd.readouterr().err.count("unclosed ring")
        assert printed == (switch is rdBase.EnableLog)

    def test_extras_are_those_that_parts_keep(self):
        def parse(smiles):
            count = np.int64(len(smiles))
            extras = {"n": count, "pair": (1, np.float32(0.5)), "all": np.arange(count)}
            return PLAIN.read_row(smiles)._replace(extras=extras)

        (batch,) = featurise(["C", "CC"], parse, progress=False)
        pairs, every = [[1, 0.5], [1, 0.5]], [[0], [0, 1]]
        assert batch.extras == {"n": [1, 2], "pair": pairs, "all": every}

        def wrong(smiles):
            return PLAIN.read_row(smiles)._replace(extras={"elements": {"C"}})

        with pytest.raises(ValueError, match="extras of the parser hold a set"):
            list(featurise(["C"], wrong, progress=False))

    def test_number_of_workers(self):
        assert num_workers(None, 100) == 0
        assert num_workers(1, 10**6) == 0
        assert num_workers(3, 100) == 3
        with pytest.raises(ValueError, match="workers -1: expected 0"):
            num_workers(-1, 100)


def test_a_refusal_always_has_a_reason():
    """RDKit refuses this SMILES with an empty message."""
    with captured_rdkit_log() as messages:
        with pytest.raises(ValueError, match="RDKit refuses it"):
            parse("[CH999999999]", PLAIN.read_row, messages)
