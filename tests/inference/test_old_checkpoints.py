"""Checkpoints that an earlier version trained: see tests/old_checkpoints/README.md."""

import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest

from graphormer_plugin import hub
from support.training import logged

pytestmark = pytest.mark.usefixtures("fresh_fairseq")

FOLDER = Path(__file__).parents[1] / "old_checkpoints"
MOLECULES = ["CCO", "CC(=O)Oc1ccccc1C(=O)O"]
# What the code that trained them predicted, for two targets.
PREDICTIONS = {
    "graphormer_slim": [
        [8.542832507303189, 614.619116532121],
        [8.537556224236255, 616.4486431807003],
    ],
    "cgt_zinc": [
        [8.362038921267029, 652.0410198750814],
        [11.23427717349813, 806.7232533696318],
    ],
    "gt_wl": [
        [7.023594114420053, 644.2390545043638],
        [7.530891552547637, 637.3314830025381],
    ],
    "gt_full_graph": [
        [9.339802933403446, 584.3282470440638],
        [8.86476552046115, 613.2797957102144],
    ],
}


@pytest.fixture
def old(tmp_path):
    """Function that unpacks a checkpoint to a path below the temporary folder."""

    def unpack(name, path="old.pt"):
        path = tmp_path / path
        path.parent.mkdir(exist_ok=True)
        with gzip.open(FOLDER / f"{name}.pt.gz") as packed, open(path, "wb") as file:
            shutil.copyfileobj(packed, file)
        return path

    return unpack


@pytest.mark.parametrize("name", PREDICTIONS)
def test_predicts_what_it_did(name, old):
    predicted = hub.load(old(name)).predict(MOLECULES)
    assert predicted == pytest.approx(np.array(PREDICTIONS[name]), rel=1e-5)


def test_a_run_goes_on_with_the_network_it_began_with(train, old, tmp_path):
    """Though its --arch now has another: the paper's slim network then, the second
    version's now. (Sizes are compared, so they are said; the data have moved.)"""
    old("graphormer_slim", "run/checkpoint_last.pt")
    sizes = "--encoder-embed-dim 4 --encoder-ffn-embed-dim 4".split()
    text = train(
        *("run", "--arch", "graphormer_slim", *sizes, "--pre-layernorm"),
        *("--max-epoch", 1, "--reset-dataloader"),
    )
    taken = text.partition("options taken from")[2].partition("\n")[0]
    for option in ("--head-style linear", "no --encoder-normalize-before"):
        assert option in taken
    assert "--dropout 0.1" in taken and "--num-spatial 40" in taken
    assert logged(text, "train")[-1]["train_num_updates"] == 12  # six of them before
    hub.load(tmp_path / "run/checkpoint_last.pt")
