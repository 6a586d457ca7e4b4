"""The tables of results: means over seeds, and nothing typed by hand."""

import re

import learning_curves
import record
import summarise
import tsv

from support.recipes import ABLATIONS, EXAMPLES, RECIPES

PAPER = {"recipe": "zinc/grpe_small", "variant": "", "table": "2", "parameters": "489k"}
PAPER |= {"metric": "mae", "value": "0.094", "spread": "0.002", "paper": "Park 2022"}


def result(value, seed=1, **more):
    row = """recipe=zinc/grpe_small variant= source= fingerprint=f arch=grpe_small
        parameters=476801 epochs=10 updates=400 batch=256 subset=test metric=mae
        devices=1 seconds=600 device=CPU""".split()
    row = dict(cell.split("=") for cell in row)
    return row | {"seed": str(seed), "value": str(value)} | more


def log_of(folder, *values, metric="mae"):
    """The log of a training whose epochs of 10 updates have these values of a metric."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "train.log"
    log.write_text(
        "".join(
            f"x | INFO | {split} | epoch 00{epoch} | {valid}loss 1 | {metric} {value} "
            f"| num_updates {epoch}0\n"
            for epoch, value in enumerate(values, 1)
            for split, valid in (("valid", "valid on 'valid' subset | "), ("train", ""))
        )
    )
    return log


def cells(text):
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()[2:]
    ]


def test_pages_are_up_to_date():
    papers = tsv.read(EXAMPLES / "papers.tsv")
    results = summarise.read_results(EXAMPLES / "results.tsv")
    marked = {}
    for page in summarise.PAGES:
        text = page.read_text()
        assert summarise.fill(text, papers, results) == text, page
        marked |= {found[2]: page for found in summarise.MARKED.finditer(text)}
        if page.parent.name in {name.split("/")[0] for name in [*RECIPES, *ABLATIONS]}:
            rest = summarise.MARKED.sub("", text)
            assert not re.search(r"^\|.*\| *\d+\.\d", rest, re.M), page
    # All rows stand in one of them, but for tables of variants that nobody has measured.
    measured = {row["recipe"] for row in results if row["variant"]}
    shown = [row for row in papers if not row["variant"] or row["recipe"] in measured]
    for row in shown + results:
        what = row["recipe"] if row["variant"] else row["recipe"].split("/")[0]
        folder = "ablations" if row["variant"] else what
        assert marked[what] == EXAMPLES / folder / "README.md"
    assert marked["order"] == EXAMPLES / "README.md"


def test_mean_and_deviation_over_seeds():
    results = [result(0.3, 1), result(0.5, 2), result(0.9, 1, epochs="20")]
    first, second = cells(summarise.table("zinc", [PAPER], results))
    assert first[:2] == ["`grpe_small`", "0.094 ± 0.002"]
    assert first[4:7] == ["0.4000 ± 0.1414", "476,801", "2"]
    assert second[4:7] == ["0.9000", "476,801", "1"]
    for column in ("updates", "fingerprint", "arch", "source"):  # not averaged
        results = [result(0.3, 1), result(0.5, 2, **{column: "7"})]
        assert len(cells(summarise.table("zinc", [], results))) == 2, column
    # Seeds whose schedule has ended them have different lengths.
    ended = {"epochs": "<1000"}
    results = [result(0.3, 1, **ended), result(0.5, 2, **ended, updates="200")]
    ((_, value, *_),) = cells(summarise.table("zinc", [], results))
    assert value == "0.4000 ± 0.1414"


def test_a_training_that_goes_on_has_a_line_for_each_length(tmp_path, monkeypatch):
    checkpoint, table = tmp_path / "checkpoint_best.pt", tmp_path / "results.tsv"
    values = iter(["0.1", "0.2"])  # values of the first and of the better weights
    monkeypatch.setattr(record, "measure", lambda *_: next(values))

    def write(updates, weights):
        checkpoint.write_text(weights)
        log_of(tmp_path, *range(1, updates // 10 + 1))
        row = result("", updates=str(updates)) | {"value": None}
        monkeypatch.setattr(record, "describe", lambda *_: row)
        arguments = [str(checkpoint), "--metric", "mae", "--recipe", "zinc/grpe_small"]
        assert record.main([*arguments, "--results", str(table)]) == 0
        return [(row["updates"], row["value"]) for row in summarise.read_results(table)]

    assert write(10, "first") == write(10, "first") == [("10", "0.1")]
    longer = [("10", "0.1"), ("20", "0.1")]  # no epoch was better
    assert write(20, "first") == write(20, "first") == longer
    assert write(30, "better") == [*longer, ("30", "0.2")]
    # The curves of both checkpoints, each line once.
    assert len(tsv.read(tmp_path / learning_curves.NAME)) == 2 * (2 + 3)


def test_order_of_the_models():
    """The training that most models have had decides; less is better for an error."""
    values = {"a": 0.1, "b": 0.2, "c": 0.3}
    papers = [{**PAPER, "recipe": f"zinc/{n}", "value": v} for n, v in values.items()]
    results = [
        result(value, seed, recipe=f"zinc/{name}")
        for name, *both in (("a", 0.5, 0.7), ("b", 0.9, 0.9), ("c", 0.8, 0.8))
        for seed, value in enumerate(both)
    ]
    longer = {"epochs": "20", "seconds": "1200"}
    results += [result(0.1, recipe=f"zinc/{name}", **longer) for name in "ab"]
    results += [result(0.1, recipe="zinc/unreported")]
    papers += [{**PAPER, "recipe": "zinc/gin", "value": 0.9}]
    results += [result(0.1, recipe="zinc/gin", arch="gin")]  # none of the four systems
    (row,) = cells(summarise.orders(papers, results))
    assert row == ["zinc", "`a` `b` `c`", "`a` `c` `b`", "2 of 3", "10 epochs"]


def test_curves(tmp_path):
    """The longest training of every recipe and seed."""
    path = tmp_path / learning_curves.NAME
    runs = [("zinc/gin", "", 1, [3, 2]), ("zinc/gin", "", 1, [3, 2.5, 1.5])]
    runs += [("zinc/gin", "deep", 1, [5]), ("zinc/gat", "", 1, [6])]
    runs += [("zinc/gin", "", 2, [4]), ("cluster/gin", "", 1, [7])]
    for number, (recipe, variant, seed, values) in enumerate(runs):
        log = log_of(tmp_path / "run", *values)
        row = result(0, seed, recipe=recipe, variant=variant, checkpoint=number)
        learning_curves.append(path, row, learning_curves.log_curves(log, "mae"))
    curves = learning_curves.table_curves(path, "zinc", "mae").values()
    found = [[value for _, value in curve["valid"]] for curve in curves]
    assert found == [[3, 2.5, 1.5], [6], [4]]
    log = log_of(tmp_path / "pattern/gin/seed1", 0.5, 0.75, metric="accuracy")
    paper = PAPER | {"metric": "accuracy", "recipe": "pattern/gin", "value": "86"}
    axes = summarise.curves_figure([str(log)], "accuracy", [paper]).axes[0]
    assert [[50, 75], [86, 86]] == [list(line.get_ydata()) for line in axes.lines[::2]]
