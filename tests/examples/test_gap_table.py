"""examples/gap_table.py: hydrogens are folded, and gaps keep their digits."""

import gzip

import gap_table

# Rows of PCQM4Mv2 with the hydrogens of its 3D structures, and as a table here has them.
FOLDED = {
    r"[H]C1C2=C(NC(=O)[C@@]1([H])C1=C([H])C([H])=C(C([H])([H])[H])C([H])=C1[H])C([H])"
    r"=C([H])N=C2[H] |(6.4528,-1.5789,-1.2859)|": (
        "Cc1ccc([C@H]2[CH]c3cnccc3[N]C2=O)cc1"
    ),
    r"[H]C1=C(OC([H])([H])[H])C([H])=C(OC([H])([H])[H])C(/C([H])=C(\[H])N(C(=O)C([H])"
    r"([H])[H])C([H])([H])[H])=C1[H]": r"COc1ccc(/C=C/N(C)C(C)=O)c(OC)c1",
    "[H][H]": "[H][H]",
    "[H]O[H]": "O",
}


def test_hydrogens_are_folded():
    assert {smiles: gap_table.fold_hydrogens(smiles) for smiles in FOLDED} == FOLDED


def test_table(tmp_path, capsys):
    path, output = tmp_path / "qm9.csv", tmp_path / "gaps.csv.gz"
    path.write_text("id,SMILES,gap\n7,[H]O[H],9.836916000\n9,C#C,NA\n")
    words = [str(path), str(output), "--columns", "SMILES", "gap"]
    assert gap_table.main(words) == 0
    assert gzip.decompress(output.read_bytes()).decode() == (
        "idx,smiles,homolumogap\n0,[H]O[H],9.836916000\n1,C#C,NA\n"
    )
    first = output.read_bytes()
    assert gap_table.main(words) == 0 and output.read_bytes() == first
    assert gap_table.main([*words[:-1], "homo"]) == 2
    assert "no column homo" in capsys.readouterr().err
    path.write_text("SMILES,gap\nO,1\n*not,2\n")
    assert gap_table.main([*words, "--fold-hydrogens"]) == 2
    assert "*not" in capsys.readouterr().err and output.read_bytes() == first
    assert len([*tmp_path.iterdir()]) == 2
