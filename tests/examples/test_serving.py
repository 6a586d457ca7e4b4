"""The server and the scoring component that a page shows."""

import io
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch

from graphormer_plugin import hub
from graphormer_plugin.sklearn import MoleculeRegressor

PAGE = Path(__file__).parents[2] / "examples/serving/README.md"
BLOCK = re.compile(r"^```py\n(.*?)^```", re.S | re.M)
CODE, SCORE = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
JSON = {"Content-Type": "application/json"}
SMILES = [f"{'C' * (row // 2 + 1)}{'ON'[row % 2]}" for row in range(16)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "model"
    MoleculeRegressor().fit(SMILES, np.arange(16.0)).save(folder)
    return str(folder)


def test_scoring_component(model, monkeypatch, capsys):
    """As REINVENT 4 calls it: lines of SMILES, the last without an end, and all of the output is
    JSON."""
    monkeypatch.setattr(sys, "argv", ["score.py", model, "y"])
    for smiles in (["CCO", "C(", "CN"], ["C("]):
        monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(smiles)))
        exec(SCORE, {})
        found = np.array(json.loads(capsys.readouterr().out)["payload"]["predictions"])
        good = [text for text in smiles if text != "C("]
        assert np.isnan(found).tolist() == [text == "C(" for text in smiles]
        if good:
            expected = hub.load(model).predict(good)[:, 0]
            assert found[~np.isnan(found)] == pytest.approx(expected, rel=1e-5)


def test_answers_of_the_server(model, monkeypatch):
    """They need no FastAPI: numbers are text, and it is said to which molecules it was fitted."""
    web = MagicMock(BaseModel=object)
    web.FastAPI().post.return_value = lambda function: function
    for name in ("fastapi", "fastapi.exceptions", "fastapi.responses", "pydantic"):
        monkeypatch.setitem(sys.modules, name, web)
    monkeypatch.setenv("MODEL", model)
    module, threads = {"__name__": "app"}, torch.get_num_threads()
    exec(CODE, module)
    torch.set_num_threads(threads)
    seen, _, new = module["predict"](SimpleNamespace(smiles=["CCO", "C(", "CCI"]))
    assert seen["fitted"] and not new["fitted"]
    assert re.fullmatch(r"[\d.]{3,9}", seen["y"])


@pytest.mark.slow  # FastAPI
def test_server(model, monkeypatch):
    testclient = pytest.importorskip(
        "fastapi.testclient", reason="pip install '.[integrations]'"
    )
    monkeypatch.setenv("MODEL", model)
    module, threads = {"__name__": "app"}, torch.get_num_threads()
    exec(CODE, module)
    torch.set_num_threads(threads)
    client = testclient.TestClient(module["app"])

    def ask(smiles):
        return client.post("/predict", json={"smiles": smiles})

    first, second = ask(["CCO", "C("]).json()
    assert second["smiles"] == "C(" and "SMILES Parse Error" in second["reason"]
    estimate = hub.load(model).estimate(["CCO"])
    expected = [float(values.item()) for values in estimate]
    found = [float(first[name]) for name in ("y", "y_std", "in_domain")]
    assert found == pytest.approx(expected, rel=1e-5)
    assert first["smiles"] == "CCO" and "reason" not in first
    assert first["fitted"] and not ask(["c1ccccc1"]).json()[0]["fitted"]
    assert "201 atoms" in ask(["C" * 201]).json()[0]["reason"]
    assert ask(["C" * 2001]).status_code == ask(["C"] * 1001).status_code == 422

    def status(body):
        answer = client.post("/predict", content=body, headers=JSON)
        assert len(answer.content) < 300
        return answer.status_code

    assert status(b'{"smiles": ["CCO"]}') == 200
    for body in (b'{"smiles": [NaN]}', rb'{"smiles": ["\ud800"]}', b'{"x": Infinity}'):
        assert status(body) == 422
    assert status(b'{"smiles": ["%s"]}' % (b"C" * 3_000_000)) == 422
    assert status(b'{"smiles": ["%s"]}' % (b"C" * 4_000_000)) == 413
    assert status(iter([b'{"smiles": ["C"]}'])) == 413  # a body of unknown length
