import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import f_oneway, ttest_rel, tukey_hsd

from graphormer_plugin.cli.compare import main
from graphormer_plugin.workbench.experiment.comparison import differences, fold_metrics

FOLDS = 6


def write(folder, values):
    """What a finished experiment leaves, as far as a comparison reads it."""
    folder.mkdir()
    lines = ["replicate,model,chosen,split,target,metric,value"]
    for number, value in enumerate(values, 1):
        for model, chosen, shown in (
            ("mean", "no", 9),
            ("boosted trees", "no", 1 + 0.1 * number),
            ("head", "yes", value),
        ):
            lines.append(f"{number},{model},{chosen},test,,rmse,{shown}")
            lines.append(f"{number},{model},{chosen},test,,mae,{number}")
            lines.append(f"{number},{model},{chosen},test,gap,rmse,7")
        lines.append(f"{number},head,yes,valid,,rmse,6")
        (folder / f"replicate{number}").mkdir()
        split = json.dumps({"test": [number]})
        (folder / f"replicate{number}/split.json").write_text(split)
    (folder / "results.csv").write_text("\n".join(lines) + "\n")
    (folder / "molecules.csv").write_text("smiles,y\nCCO,1\n")
    (folder / "data").mkdir()
    (folder / "data/finished.json").write_text('["results.csv"]')
    return folder


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Two experiments whose values differ by 0.5 on easy and hard folds."""
    monkeypatch.chdir(tmp_path)
    hard = np.arange(1, FOLDS + 1)
    noise = 0.01 * np.random.default_rng(1).normal(size=FOLDS)
    return [write(Path("a"), hard + noise), write(Path("b"), hard + 0.5)]


def test_chosen_models(folders):
    metric, values = fold_metrics(folders)
    assert metric == "rmse" and [*values] == ["a", "b"]
    np.testing.assert_allclose(values.iloc[:, 1], np.arange(1, FOLDS + 1) + 0.5)
    assert fold_metrics(folders, "mae")[0] == "mae"


def test_several_targets_count_in_units_of_their_spread(folders):
    """The largest numbers would decide the mean RMSE, which the results have too."""
    for folder in folders:
        with (folder / "results.csv").open("a") as file:
            file.writelines(f"{k},head,yes,test,,nrmse,{k}.25\n" for k in (1, 2, 3))
    metric, values = fold_metrics(folders)
    assert metric == "nrmse" and values["b"].tolist() == [1.25, 2.25, 3.25]


def test_one_folder_and_the_trees_beside(folders):
    _, values = fold_metrics(folders[1:])
    assert [*values] == ["b", "boosted trees"]
    np.testing.assert_allclose(values["boosted trees"], 1 + 0.1 * values.index)


def test_folds_without_value_are_left_out(folders):
    text = (folders[1] / "results.csv").read_text()
    changed = text.replace("2,head,yes,test,,rmse,2.5", "2,head,yes,test,,rmse,")
    assert changed != text
    (folders[1] / "results.csv").write_text(changed)
    assert fold_metrics(folders)[1].index.tolist() == [1, 3, 4, 5, 6]


def test_two_methods_are_the_paired_t_test():
    random = np.random.default_rng(2)
    values = pd.DataFrame(random.normal(size=(25, 2)), columns=["a", "b"])
    (found,) = differences(values)
    expected = ttest_rel(values.a, values.b)
    low, high = expected.confidence_interval(0.95)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-4)
    assert found.mean - found.half == pytest.approx(low, rel=1e-5)
    assert found.mean + found.half == pytest.approx(high, rel=1e-5)


def test_equal_models(folders):
    """A folder with itself, and another that predicts the same."""
    _, values = fold_metrics([folders[0], folders[0]])
    assert [*values] == ["a", "a'"]
    (pair,) = differences(values)
    assert (pair.mean, pair.half, pair.p) == (0, 0, 1)


def test_what_folds_share_takes_no_part():
    """The residual of method and fold, against a slow twin; an unpaired test sees nothing."""
    random = np.random.default_rng(3)
    values = random.normal(size=(25, 3)) * 0.1 + [0, 0.1, 0.3]
    hard = values + 10 * random.normal(size=(25, 1))
    table = pd.DataFrame(hard, columns=list("abc"))
    found = differences(table)
    assert [one.names for one in found] == [("a", "b"), ("a", "c"), ("b", "c")]
    without = differences(pd.DataFrame(values, columns=list("abc")))
    for one, other in zip(found, without, strict=True):
        assert one[1:] == pytest.approx(other[1:], rel=1e-6)
    total = sum(
        (hard[f, m] - hard[f].mean() - hard[:, m].mean() + hard.mean()) ** 2
        for f in range(25)
        for m in range(3)
    )
    q = 3.4203  # studentized range of 3 methods and 48 degrees of freedom at 95 %
    assert found[0].half == pytest.approx(q * (total / 48 / 25) ** 0.5, rel=1e-3)
    assert found[1].p < 1e-6 and f_oneway(*hard.T).pvalue > 0.9
    assert tukey_hsd(*hard.T).pvalue.min() > 0.9


@pytest.mark.filterwarnings("error")
def test_command(folders, capsys):
    assert main(["a", "b", "out.png"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[1].startswith("a ")
    assert re.search(r"^a - b: -0\.4\d+ \(95 % interval -0\.5", out, re.M)
    assert out.endswith("\nout.png\n")
    assert Path("out.png").read_bytes().startswith(b"\x89PNG")
    assert err == (
        "warning: 6 test folds, 25 say more: --folds 5 --replicates 5 of graphormer-train\n"
    )


@pytest.mark.parametrize(
    "change, message",
    [
        ("split", "b has other molecules, labels or splits than a; train both"),
        ("label", "b has other molecules, labels or splits than a; train both"),
        ("folds", "rmse has a value in fewer than two test folds"),
        ("unfinished", "b is not a finished folder of graphormer-train"),
        ("damaged", "b/results.csv is damaged: EmptyDataError"),
    ],
)
def test_what_cannot_be_compared(folders, capsys, change, message):
    folder, results = folders[1], folders[1] / "results.csv"
    if change == "split":
        (folder / "replicate3/split.json").write_text('{"test": [0]}')
    elif change == "label":
        (folder / "molecules.csv").write_text("smiles,y\nCCO,2\n")
    elif change == "damaged":
        results.write_text("")
    elif change == "folds":
        text = results.read_text()
        results.write_text(re.sub(r"^([2-6],.*,).*", r"\1", text, flags=re.M))
    else:
        (folder / "data/finished.json").write_text('["gone.png"]')
    assert main(["a", "b", "out.png"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {message}") and error.count("\n") == 1
    assert (change == "folds") == ("train with --folds" in error)
