"""The tables of results: means over seeds, and nothing typed by hand."""

import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
sys.path.insert(0, str(EXAMPLES))
import summarise  # noqa: E402


def result(value, seed=1, **more):
    row = dict(
        recipe="zinc/grpe_small",
        variant="",
        source="",
        fingerprint="f",
        parameters="476801",
        seed=str(seed),
        epochs="10",
        updates="400",
        batch="256",
        subset="test",
        metric="mae",
        value=str(value),
        device="2 threads",
        devices="1",
        seconds="600",
    )
    return row | more


PAPER = {
    "recipe": "zinc/grpe_small",
    "variant": "",
    "paper": "Park 2022",
    "table": "2",
    "parameters": "489k",
    "metric": "mae",
    "value": "0.094",
    "spread": "0.002",
}


def cells(text):
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()[2:]
    ]


def test_pages_are_up_to_date():
    papers = summarise.read(EXAMPLES / "papers.tsv")
    results = EXAMPLES / "results.tsv"
    results = summarise.read(results) if results.exists() else []
    assert len(summarise.PAGES) > 8
    for page in summarise.PAGES:
        text = page.read_text()
        assert summarise.fill(text, papers, results) == text, page


def test_mean_and_deviation_over_seeds():
    results = [result(0.3, 1), result(0.5, 2), result(0.9, 1, epochs="20")]
    first, second = cells(summarise.table("zinc", [PAPER], results))
    assert first[:4] == ["`grpe_small`", "0.094 ± 0.002", "489k", "Park 2022, Table 2"]
    assert first[4:7] == ["0.4000 ± 0.1414", "476,801", "2"]
    assert second[:4] == [""] * 4 and second[4:7] == ["0.9000", "476,801", "1"]


def test_a_seed_that_ran_twice_counts_once():
    (row,) = cells(summarise.table("zinc", [], [result(0.3), result(0.4)]))
    assert row[4] == "0.4000" and row[6] == "1"


def test_shares_are_percentages():
    rows = [result(0.875, metric="weighted_accuracy")]
    assert cells(summarise.table("zinc", [], rows))[0][4] == "87.50"


def test_variants_have_a_table_of_their_own():
    rows = [result(0.1), result(0.2, variant="plain")]
    assert [row[0] for row in cells(summarise.table("zinc", [], rows))] == [
        "`grpe_small`"
    ]
    (row,) = cells(summarise.table("zinc/grpe_small", [], rows))
    assert row[0] == "`plain`" and row[4] == "0.2000"


def test_order_of_the_models():
    """Of the training that most models have had; less is better for an error only."""
    values = {"a": 0.1, "b": 0.2, "c": 0.3}
    papers = [{**PAPER, "recipe": f"zinc/{n}", "value": v} for n, v in values.items()]
    results = [
        result(value, seed, recipe=f"zinc/{name}")
        for name, *both in (("a", 0.5, 0.7), ("b", 0.9, 0.9), ("c", 0.8, 0.8))
        for seed, value in enumerate(both)
    ]
    results += [result(0.1, recipe=f"zinc/{name}", epochs="20") for name in "ab"]
    results += [result(0.1, recipe="zinc/unreported")]
    (row,) = cells(summarise.orders(papers, results))
    assert row == ["zinc", "`a` `b` `c`", "`a` `c` `b`", "2 of 3", "10 epochs"]
    for row in papers + results:
        row["metric"] = "roc_auc"
    for row in results:
        row["source"] = "generated:9"
    (row,) = cells(summarise.orders(papers, results))
    assert row[1:3] == ["`c` `b` `a`", "`b` `c` `a`"]
    assert row[4] == "10 epochs of generated:9"
    assert cells(summarise.orders(papers, results[:1])) == []
    page = "<!-- results: order -->\n<!-- end -->"
    assert "`b` `c` `a`" in summarise.fill(page, papers, results)


def test_unmeasured_is_empty():
    (row,) = cells(summarise.table("zinc", [PAPER], []))
    assert row[4:] == ["", "", "", ""]


def test_unknown_table():
    with pytest.raises(ValueError, match="no paper and no result has 'tox21'"):
        summarise.table("tox21", [PAPER], [])


def test_curves(tmp_path, capsys):
    logs = []
    for seed in (1, 2):
        log = tmp_path / "zinc" / "grpe_small" / f"seed{seed}" / "train.log"
        log.parent.mkdir(parents=True)
        log.write_text(
            "".join(
                f"x | INFO | {split} | epoch 00{epoch} | {valid}loss 1 | mae 0.{epoch} "
                f"| num_updates {epoch}0\n"
                for epoch in (1, 2)
                for split, valid in (
                    ("valid", "valid on 'valid' subset | "),
                    ("train", ""),
                )
            )
        )
        logs.append(str(log))
    out = tmp_path / "curves.png"
    assert summarise.main(["--curves", str(out), *logs]) == 0
    assert out.read_bytes().startswith(b"\x89PNG")
    assert summarise.main(["--curves", str(out), logs[0], "--metric", "ap"]) == 2
    assert "seed1/train.log: no ap of a finished epoch" in capsys.readouterr().err
