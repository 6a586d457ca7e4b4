"""Molecules above --max-atoms, in predictions, explanations and preparations."""

import pytest
from rdkit import Chem

from graphormer_plugin import hub
from graphormer_plugin.cli import explain, preprocess
from graphormer_plugin.cli.predict import main
from graphormer_plugin.data.graphs.smiles import PLAIN, OGBFeaturiser
from graphormer_plugin.data.graphs.sources import MolBlock
from graphormer_plugin.data.store.featurise import RowReader
from support.tables import rows

CHAIN = "C" * 20_000


def test_the_limit_comes_from_the_training(checkpoint, tmp_path):
    """20,000 atoms would take 10 GB. Predictions from Python have no limit."""
    path = tmp_path / "in.csv"
    smiles = ["C" * 50, "C" * 51, "C([H])([H])" * 50, "C" * 49 + "C(=O)O", CHAIN]
    path.write_text("\n".join(["smiles", *smiles]) + "\n")
    trained = checkpoint("grpe_tiny", "--max-atoms", "50")
    plain = checkpoint("grpe_tiny")
    for options, limit, refused in [
        ([trained], 50, [1, 3, 4]),
        ([trained, "--max-atoms", "51"], 51, [3, 4]),
        ([trained, plain], 50, [1, 3, 4]),
        ([plain], 1000, [4]),
        ([trained, "--max-atoms", "49"], 49, [0, 1, 2, 3, 4]),
    ]:
        out = tmp_path / f"out{len(list(tmp_path.iterdir()))}.csv"
        assert main([*options, str(path), str(out), "--quiet"]) == 0
        found = rows(out)
        assert [at for at, row in enumerate(found) if not row["gap"]] == refused
        assert found[4]["reason"] == f"20,000 atoms, above --max-atoms {limit}"
    assert hub.load(trained).predict(smiles[1:2]).shape == (1, 1)


def test_fragments_that_are_left_out_do_not_count():
    parser = RowReader(OGBFeaturiser(largest_fragment=True).read_row, 10)
    acid = "CCCC([H])([H])C(=O)[O-]"
    assert len(parser(f"{acid}.[Na+]" + ".O" * 20).x) == 7
    with pytest.raises(ValueError, match="11 atoms, above --max-atoms 10"):
        parser("[Na+]." + "C" * 11)
    with pytest.raises(ValueError, match="27 atoms, above --max-atoms 10"):
        RowReader(PLAIN.read_row, 10)(f"{acid}" + ".O" * 20)


def test_explain_and_preprocess_refuse_a_large_molecule(checkpoint, tmp_path, capsys):
    words = [checkpoint("grpe_tiny"), CHAIN, str(tmp_path / "out.html")]
    assert explain.main(words) == 2
    error = capsys.readouterr().err
    assert "20,000 atoms, above --max-atoms 1000" in error and len(error) < 200
    lines = ["smiles,gap", *(f"{'C' * n}O,{n}" for n in range(1, 20)), f"{CHAIN},1"]
    (tmp_path / "in.csv").write_text("\n".join(lines) + "\n")
    arguments = ["--dataset-name", str(tmp_path / "in.csv"), "--quiet"]
    arguments += ["--data-root", str(tmp_path)]
    assert preprocess.main(arguments) == 2
    assert "1 molecule cannot be parsed (row 19;" in capsys.readouterr().err
    (refused,) = rows(next((tmp_path / "stores").glob("*.invalid.csv")))
    assert refused["reason"] == "20,000 atoms, above --max-atoms 1000"
    assert preprocess.main([*arguments, "--skip-invalid"]) == 0
    assert "1 unparsable row skipped" in capsys.readouterr().out
    assert preprocess.main([*arguments, "--max-atoms", "10", "--skip-invalid"]) == 0
    assert "11 unparsable rows skipped" in capsys.readouterr().out


def test_a_large_record_of_an_sdf(checkpoint, tmp_path):
    """RDKit ends the process where it writes its SMILES."""
    count = 20_000
    atoms = "".join(f"M  V30 {n} C {n} 0 0 0\n" for n in range(1, count + 1))
    bonds = "".join(f"M  V30 {n} 1 {n} {n + 1}\n" for n in range(1, count))
    block = (
        "\n\n\n  0  0  0  0  0  0  0  0  0  0999 V3000\nM  V30 BEGIN CTAB\n"
        f"M  V30 COUNTS {count} {count - 1} 0 0 0\nM  V30 BEGIN ATOM\n{atoms}"
        f"M  V30 END ATOM\nM  V30 BEGIN BOND\n{bonds}M  V30 END BOND\n"
        "M  V30 END CTAB\nM  END\n$$$$\n"
    )
    (tmp_path / "in.sdf").write_text(block)
    out = tmp_path / "out.csv"
    arguments = [checkpoint("grpe_tiny"), str(tmp_path / "in.sdf"), str(out)]
    assert main([*arguments, "--quiet"]) == 0
    assert "a mol block of 40,010 lines" in rows(out)[0]["reason"]


def test_atoms_of_a_block_are_counted_before_it_is_read():
    """Its SMILES may say less; RDKit crashes on a chain of 20,000."""
    block = Chem.MolToMolBlock(Chem.MolFromSmiles("C" * 11)).split("\n", 1)[1]
    parser = RowReader(pytest.fail, 10)
    with pytest.raises(ValueError, match="11 atoms, above --max-atoms 10"):
        parser(MolBlock.of(f"C\n{block}"))
