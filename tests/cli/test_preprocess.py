import pytest

from graphormer_plugin.cli.preprocess import main


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("smiles,gap\n" + "".join(f"{'C' * i},{i}\n" for i in range(1, 21)))
    return path


def arguments(csv, *more):
    root = csv.parent / "root"
    common = ["--data-root", str(root), "--quiet", "--workers", "0"]
    return ["--dataset-name", str(csv), *common, *more]


def test_prepares_and_says_what_is_there(csv, capsys):
    assert main(arguments(csv, "--target-unit", "eV")) == 0
    line, path = capsys.readouterr().out.splitlines()
    start = "data: 16 train / 2 valid / 2 test graphs, target gap (eV), "
    assert line.startswith(start)
    assert main(arguments(csv, "--target-unit", "eV", "--verify")) == 0
    assert capsys.readouterr().out.splitlines() == [line, path]
