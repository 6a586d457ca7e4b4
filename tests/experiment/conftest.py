"""Tables of experiments, and an experiment whose models are not trained."""

from functools import partial

import numpy as np
import pytest
from tqdm import tqdm

from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.experiment import steps
from graphormer_plugin.experiment.labelled_table import read_table
from graphormer_plugin.experiment.plan import Experiment
from graphormer_plugin.experiment.settings import FINETUNE, HEAD, Settings
from graphormer_plugin.experiment.training import Start
from graphormer_plugin.heads.prediction import Prediction
from support.labelled_molecules import FewLabels, settings, splits_of, write_table

LABELS = np.arange(12.0)[:, None]
SPLIT = {"train": np.arange(8), "valid": np.array([8, 9]), "test": np.array([10, 11])}


@pytest.fixture
def write(tmp_path):
    """Function: `write_table` in a folder of the test."""
    return partial(write_table, tmp_path / "table.csv")


@pytest.fixture
def read(write):
    """Function: table, settings and splits of the columns of a table of alcohols."""

    def read(columns, **options):
        smiles = ["C" * k + "O" for k in range(1, 1 + len([*columns.values()][0]))]
        rows = list(zip(smiles, *columns.values(), strict=True))
        path = write(rows, ["smiles", *columns])
        if "part" in columns:
            options = {"split": "column:part", **options}
        asked = settings(path, **options)
        table = read_table(asked)
        return table, asked, splits_of(table, asked)

    return read


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    """Its models predict the labels plus an error of their own."""

    table = FewLabels(
        labels=LABELS,
        targets=TargetSchema(["y"]),
        smiles=["C"] * len(LABELS),
        extra_names=[],
        given_split=None,
    )
    warnings = []
    result = Experiment(
        Settings("a.csv", str(tmp_path), epochs=3),
        table,
        [SPLIT],
        Start({"finetune_from_model": "/a b/start.pt"}, tmp_path, "grpe_tiny", 12),
        warnings.append,
        bar=tqdm(disable=True),
    )
    result.errors = {HEAD: 0.5, FINETUNE: 0.25}

    def predictions(experiment, member):
        if isinstance(result.errors[member.model], Exception):
            raise result.errors[member.model]
        return Prediction(LABELS + result.errors[member.model])

    monkeypatch.setattr(steps, "model_predictions", predictions)
    monkeypatch.setattr(steps, "forest", lambda *_: Prediction(LABELS))
    result.warned = warnings
    return result
