"""Training on several stores is training on one store of the same graphs."""

import pytest

from graphormer_plugin.cli.preprocess import main as preprocess
from support.training import logged, losses


@pytest.fixture
def halves(data):
    """The table of `data` in two files."""
    header, *lines = (data / "molecules.csv").read_text().splitlines()
    names = []
    for part, rows in (("first", lines[:50]), ("second", lines[50:])):
        path = data / f"{part}.csv"
        path.write_text("\n".join([header, *rows]) + "\n")
        names.append(str(path))
    return names


def test_losses_are_those_of_one_store(
    data, halves, three_epochs, train, validate, tmp_path
):
    one, log = three_epochs
    text = train("two", "--dataset-name", ",".join(halves))
    assert losses(text) == losses(log)
    assert "first, second (2 stores): 96 train / 12 valid / 12 test graphs" in text
    # evaluated with the other data, in both directions
    two, names = tmp_path / "two", (",".join(halves), f"{data}/molecules.csv")
    for number, (trained, name) in enumerate(zip((one, two), names)):
        validate(
            trained / "checkpoint_last.pt",
            *("--dataset-name", name, "--target-columns", "length,carbons"),
            *("--results-path", str(tmp_path / f"results{number}")),
            *("--valid-subset", "test"),
        )
    files = [tmp_path / f"results{number}/predictions_test.csv" for number in (0, 1)]
    tables = [[line.split(",") for line in f.read_text().splitlines()] for f in files]
    assert [row[0] for row in tables[0]] == [row[0] for row in tables[1]]  # rows
    assert len(tables[0]) == 13
    assert tables[1][0][:2] == ["row", "smiles"] and tables[0][0][1] != "smiles"


def test_numbers_that_join_the_output(data, halves, train):
    """They are scaled by the training rows of all stores."""
    more = ["--target-columns", "length", "--extra-columns", "carbons"]
    more += ["--max-epoch", "1"]
    found = []
    for name in (f"{data}/molecules.csv", ",".join(halves)):
        text = train(name[-5:], *more, "--dataset-name", name)
        logs = logged(text, "train")[0], logged(text, "valid")[0]
        found.append((logs[0]["train_loss"], logs[1]["valid_loss"]))
    assert found[0] == found[1]


def test_resume_from_prepared_shards(data, three_epochs, train, error, capfd):
    """A folder of shards is trained on by its path, and resumed with the same data."""
    arguments = ["--dataset-name", f"{data}/molecules.csv", "--data-root", str(data)]
    arguments += ["--quiet", "--workers", "0", "--target-columns", "length,carbons"]
    folders = []
    for shard in ("1/2", "2/2"):
        assert preprocess([*arguments, "--shard", shard]) == 0
        folders.append(capfd.readouterr().out.split()[-1])
    folder = folders[0].rpartition("/")[0]
    prepared = ["--dataset-name", folder, "--target-columns", ""]
    train("run", *prepared, "--max-epoch", "2")
    resumed = losses(train("run", *prepared, "--max-epoch", "3"))
    assert resumed == tuple(part[-1:] for part in losses(three_epochs[1]))
    other = ["--dataset-name", ",".join(reversed(folders)), "--target-columns", ""]
    line = error(train, "run", *other, "--max-epoch", "4")
    assert "resume with the same data" in line
