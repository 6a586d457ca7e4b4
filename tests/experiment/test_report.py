"""The report: what it says, and how a browser shows it."""

import html
import json
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from rdkit import Chem

from graphormer_plugin.data.schema import TargetSchema
from graphormer_plugin.experiment.figures import figures
from graphormer_plugin.experiment.plan import Experiment
from graphormer_plugin.experiment.report import molecules_text, report
from graphormer_plugin.experiment.results import (
    FOREST,
    MAJORITY,
    MEAN,
    Run,
    all_results,
    metrics_of_test,
)
from graphormer_plugin.experiment.settings import Settings, Training
from graphormer_plugin.experiment.training import Start
from graphormer_plugin.experiment.worst import worst_predicted
from graphormer_plugin.heads.kernels import raw_features
from graphormer_plugin.heads.prediction import Prediction
from support.labelled_molecules import FewLabels

COUNT = 60
SMILES = [f"{'C' * (k // 3 + 1)}{end}" for k in range(20) for end in ("O", "N", "Cl")]
SPLIT = dict(zip(("train", "valid", "test"), np.arange(COUNT).reshape(3, 20)))
BROWSER = next(
    filter(
        None,
        map(
            shutil.which,
            (
                "chromium-headless-shell",
                "chromium",
                "chromium-browser",
                "google-chrome",
            ),
        ),
    ),
    None,
)


@dataclass
class Table(FewLabels):
    labels: np.ndarray
    targets: TargetSchema
    logs = ()
    extra_names = ()
    given_split = None
    smiles = SMILES

    @property
    def in_unit(self):
        return self.targets

    def __len__(self):
        return len(self.labels)


def table_of(kind, targets=1, unit=""):
    labels = np.arange(COUNT * targets, dtype=float).reshape(COUNT, targets)
    if kind != "regression":
        labels %= {"binary": 2, "multiclass": 3}[kind]
    names = ["y", "a very long name of an endpoint", "<script>alert(1)</script>"]
    names += [f"z{number}" for number in range(30)]
    classes = 3 if kind == "multiclass" else 0
    return Table(labels, TargetSchema(names[:targets], unit, kind, num_classes=classes))


def predictions(table, error):
    """Of the mean, of a forest and of a model whose errors grow away from train."""
    labels, kind = table.labels, table.targets.kind
    if kind == "multiclass":
        labels = np.eye(3)[labels[:, 0].astype(int)]
    in_domain = np.linspace(1, 0, COUNT)
    wave = np.resize([1.0, -1.0], COUNT)[:, None] * (1.2 - in_domain[:, None])
    if kind != "regression":
        wave = np.abs(wave)
        guess = [x + 0.7 * wave * (1 - 2 * x) for x in (labels, labels)]
        if kind == "multiclass":
            guess = [x / x.sum(1, keepdims=True) for x in map(np.abs, guess)]
    else:
        guess = [labels + 2 * error * wave, labels + error * wave]
    flat = np.broadcast_to(labels[:40].mean(0), labels.shape)
    return {
        MEAN: Prediction(flat),
        FOREST: Prediction(guess[0]),
        "head": Prediction(guess[1], np.full(labels.shape, error), in_domain),
    }


@pytest.fixture
def page():
    """Function: the report of runs of an experiment, by the kind of its targets."""

    def page(table, error=1.0, runs=1, warnings=(), **options):
        settings = Settings("/home/me/a.csv", "/srv/it's here", ratios=None, **options)
        given = [Run(SPLIT, predictions(table, error), "head", reason="head, best")]
        given = given * runs
        start = Start({}, settings_start(settings), "grpe_tiny", 2)
        searched = Training(0.0012, 40, 10, frozen=0.25)
        splits = [SPLIT] * runs
        experiment = Experiment(settings, table, splits, start, print, searched)
        experiment.features = {"fingerprint": raw_features("fingerprint", None, SMILES)}
        start.__dict__["sha256"] = "5a"
        found = metrics_of_test(list(all_results(table, given)), given)
        worst = worst_predicted(table, given)
        pictures = figures(experiment, given, worst).values()
        return report(experiment, given, found, warnings, pictures, worst)

    return page


def settings_start(settings):
    return SimpleNamespace(name="mine.pt")


def words_of(page):
    """Text that a reader sees, in one line."""
    text = re.sub(r"<style>.*?</style>|<[^>]*>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(text).split())


def test_settings_and_the_command(page):
    table = table_of("regression")
    text = page(table, runs=11, model="finetune", max_atoms=9)
    options = (
        "lr 0.0012, epochs 40, patience 10, batch_size 32, frozen 0.25, lr_decay 1"
    )
    assert f"<td>fine-tuned</td><td>{options}</td>" in text
    assert "<td>max_atoms</td><td>9</td>" in text
    assert "<td>epochs</td>" not in text and "<td>target_unit</td>" not in text
    assert "<td>start</td><td>mine.pt, sha256 5a</td>" in text
    (line,) = re.findall("<code>graphormer-predict (.*)</code>", text)
    words = ["it's here", "new.csv", "predictions.csv"]
    assert shlex.split(html.unescape(line)) == words
    for place in ("/home", "/srv"):
        assert place not in text
    places = [text.index(f"Replicate {k}: head, best.") for k in range(1, 12)]
    assert places == sorted(places) and "over 11 replicates" in text
    assert text.index("<details><summary>Settings and versions") < places[0]
    text = page(table, runs=3, folds=3)
    assert "Fold 3: head, best." in text and "Replicate" not in text


def test_what_the_model_is_good_for(page):
    text = words_of(page(table_of("regression", unit="mg/L"), 4.0))
    first = re.search(
        r"The model \(head\) predicts y of molecules that it has not seen with an RMSE of "
        r"([\d.]+) mg/L: 86 % below the mean \(30.549\), 50 % below the random forest "
        r"\(([\d.]+)\)\.",
        text,
    )
    assert float(first[2]) == pytest.approx(2 * float(first[1]), abs=2e-3)
    assert "Half of its errors are below 4.2 mg/L, nine of ten below 4.7 mg/L" in text
    assert "its intervals of 90 % hold 100 % of the measured values." in text
    assert "has errors 1.2 times" not in text and "has 1.2 times the errors" in text
    assert "Warning: one &lt;b>" in page(
        table_of("regression"), warnings=["one <b>"]
    ).replace("&gt;", ">")


def test_several_endpoints(page):
    table = table_of("regression", 3, "%")
    text = page(table, 4.0)
    words = words_of(text)
    assert (
        "predicts 3 endpoints of molecules that it has not seen with a mean RMSE"
        in words
    )
    assert "<script" not in text and "Mean over 3 endpoints" in words
    assert re.search(r"It is best on .* \(nrmse 0.24\) and worst on ", words)
    assert "<th>rmse (%)</th>" in text
    assert text.count('<tr class="first">') == 6  # of tests and of spreads
    assert len(re.findall("<td><b>[^<]*</b></td>", text)) == 3 * 4 + 3
    text = page(table_of("regression", 25))
    assert text.count("<details>") == 1 + 3  # tables of many rows are folded away


def test_a_logarithm_has_a_unit_of_its_own(page):
    table = table_of("regression", 2)
    table.targets = TargetSchema(["log10 y", "z"], "mg/L")
    text = words_of(page(table))
    assert "regression in log10(mg/L), mg/L" in text and "rmse mae" in text
    assert "log10 y (log10(mg/L)) head" in text and "z (mg/L) head" in text
    assert re.search(r"log10 y measured \S+ log10\(mg/L\), predicted", text)
    table.targets = TargetSchema(["log10 y", "z"])
    assert "log10(" not in words_of(page(table))


@pytest.mark.parametrize(
    "kind, metric, predicted",
    [
        ("binary", "a ROC-AUC of", "probability 0.828"),
        ("multiclass", "an accuracy of", "0, probability 0.457"),
    ],
)
def test_classes(page, kind, metric, predicted):
    words = words_of(page(table_of(kind)))
    assert metric in words and f"the {MAJORITY} has" in words
    assert f"predicted {predicted}" in words and "times the errors" in words
    assert "Half of its errors" not in words


def test_molecules_without_a_label():
    table = table_of("regression")
    assert molecules_text(table) == "60 molecules"
    table.labels[45:] = np.nan
    table.labels = np.concatenate([table.labels, table.labels], 1)
    assert molecules_text(table) == "60 molecules (45 with a label)"


def test_the_worst_molecules_are_drawn(page):
    text = page(table_of("regression", unit="eV"))
    assert text.count('<div class="card">') == 10
    assert text.count('src="data:image/svg+xml;base64,') == 10 * 4
    smiles = re.findall('<div class="smiles">([^<]*)</div>', text)
    assert (
        len(smiles) == 40
        and {*smiles} <= {*SMILES}
        and all(map(Chem.MolFromSmiles, smiles))
    )
    # The last test molecule, with the largest error, and the most similar of train.
    assert smiles[0] == SMILES[-1] and smiles[1].endswith("Cl")
    assert "1 y measured 59 eV, predicted 57.8 ± 1 eV in_domain 0.00" in words_of(text)


@pytest.mark.skipif(BROWSER is None, reason="apt install chromium")
@pytest.mark.parametrize("width", [390, 1200])
def test_in_a_browser(page, tmp_path, width):
    """Nothing sticks out of a phone or a screen, no picture is broken, what is long is
    folded away, and it fits on paper."""
    script = """<script>
    onload = () => {
      const images = [...document.images];
      document.title = JSON.stringify({
        width: document.documentElement.scrollWidth,
        images: images.length,
        broken: images.filter(one => !one.naturalWidth).length,
        small: images.filter(one => one.clientWidth < 200).length,
        hidden: !document.querySelector("details table").checkVisibility(),
      });
    };</script>"""
    path, paper = tmp_path / "page.html", tmp_path / "page.pdf"
    table = table_of("regression", 3, "mg/L")
    text = page(table, warnings=["a" * 200 + " is left out"])
    path.write_text(text.replace("</body>", f"{script}</body>"))
    line = [BROWSER, "--headless", "--no-sandbox", "--hide-scrollbars"]
    line += [f"--user-data-dir={tmp_path}/profile", f"--window-size={width},900"]
    shown = subprocess.run(
        [*line, "--dump-dom", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout
    found = json.loads(html.unescape(re.search("<title>(.*?)</title>", shown)[1]))
    assert found == {
        "width": width,
        "images": 4 + 40,
        "broken": 0,
        "small": 0,
        "hidden": True,
    }
    subprocess.run(
        [*line, f"--print-to-pdf={paper}", path.as_uri()],
        capture_output=True,
        timeout=120,
        check=True,
    )
    pages = len(re.findall(rb"/Type\s*/Page\b", paper.read_bytes()))
    assert 3 <= pages <= 8
