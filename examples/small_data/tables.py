"""Tables out of results.tsv and trials.tsv, for the page.

    python examples/small_data/tables.py [RESULTS.tsv]            # print them
    python examples/small_data/tables.py [RESULTS.tsv] --write    # into README.md

A table stands between the lines `<!-- figures: figures -->` and `<!-- end -->`.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from sets import SETS, SPLITS

from graphormer_plugin.cli import CommandParser, command

HERE = Path(__file__).resolve().parent
MARKED = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
TITLES = {
    "forest": "random forest",
    "chemprop": "chemprop",
    "chemprop_5": "chemprop, ensemble of 5",
    "scratch": "`grpe_small` from scratch",
    "finetuned": "fine-tuned start",
    "head": "head on the frozen start",
    "mean": "mean of head and fine-tuned start",
    "auto": "`graphormer-train`",
    "auto_5": "`graphormer-train --ensemble 5`",
}
OURS = ("auto", "auto_5", "head", "finetuned", "mean", "scratch")
REFERENCES = dict.fromkeys(OURS, ("chemprop", "forest"))
REFERENCES["auto_5"] += ("chemprop_5",)
METRICS = {"rmse": "RMSE", "roc_auc": "ROC-AUC", "interval_score": "interval score"}


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cell(values: pd.Series, splits: int) -> str:
    """Mean ± standard error; in brackets the number of splits, where some are missing."""
    mean, error = values.mean(), values.sem()  # NaN of one split
    text = f"{mean:.3f}" + (f" ± {error:.3f}" if error == error else "")
    return text if len(values) == splits else f"{text} ({len(values)})"


def read(path: Path) -> pd.DataFrame:
    """One row per set, split and contender: the last one.

    Raises:
        ValueError: rows of a contender have different starts.
    """
    found = pd.read_csv(path, sep="\t", keep_default_na=False)
    for contender, starts in found.groupby("contender").start.unique().items():
        if len(starts) > 1:
            raise ValueError(
                f"{path}: {contender} has the starts {', '.join(starts)}; keep "
                "the rows of one"
            )
    return found.drop_duplicates(["set", "split", "contender"], keep="last")


def sets_of(results: pd.DataFrame) -> list[str]:
    return [name for name in SETS if name in set(results["set"])]


def figures(results: pd.DataFrame) -> str:
    """Mean and standard error of each contender on each set."""
    names = sets_of(results)
    metric = results.drop_duplicates("set").set_index("set").metric
    header = ["", *(f"{name}, {METRICS[metric[name]]}" for name in names)]
    rows = []
    for contender in TITLES:
        row = [TITLES[contender]]
        for name in names:
            part = results[(results.contender == contender) & (results["set"] == name)]
            row.append(cell(part.value, results.split.nunique()) if len(part) else "")
        if any(row[1:]):
            rows.append(row)
    return table(header, rows)


def measured(results: pd.DataFrame) -> str:
    """How many of the splits are measured."""
    rows = []
    for contender in TITLES:
        of_contender = results[results.contender == contender]
        counts = of_contender.groupby("set").split.nunique()
        rows.append(
            [
                TITLES[contender],
                *(f"{counts.get(name, 0)} of {SPLITS}" for name in SETS),
            ]
        )
    return table(["", *SETS], rows)


def seconds(results: pd.DataFrame) -> str:
    """CPU seconds of a split, mean over the splits, and of one split of all sets.

    They are of the first machine; without such a figure, of another machine with its name.
    """
    names = sets_of(results)
    means = results.groupby(["contender", "set", "machine"]).seconds.mean().unstack()
    first = means.columns[0]
    rows = []
    for contender in [one for one in TITLES if one in means.index]:
        part, cells, total = means.loc[contender], [], 0.0
        for name in names:
            known = part.loc[name].dropna() if name in part.index else part.iloc[0, :0]
            machine = next(iter(known.index), first)
            value = known.get(machine, np.nan)
            total += value if machine == first else np.nan
            text = "" if value != value else f"{value:,.0f}"
            cells.append(text if machine == first else f"{text} (machine {machine})")
        cells.append("" if total != total else f"{total:,.0f}")
        rows.append([TITLES[contender], *cells])
    return table(["", *names, "all sets"], rows)


def gains(results: pd.DataFrame) -> str:
    """By how much ours is better than a reference, on the same splits."""
    names = sets_of(results)
    wide = results.pivot_table(
        index=["set", "split"], columns="contender", values="value"
    )
    sign = results.drop_duplicates("set").set_index("set").metric.eq("roc_auc") * 2 - 1
    rows = []
    for ours in OURS:
        for reference in REFERENCES[ours]:
            if not {ours, reference} <= set(wide):
                continue
            row, better, clear, known = [TITLES[ours], TITLES[reference]], 0, 0, 0
            for name in names:
                gain = sign[name] * (wide[ours] - wide[reference])[name].dropna()
                if not len(gain):
                    row.append("")
                    continue
                mean, error = gain.mean(), gain.sem()
                row.append(
                    f"{mean:+.3f}" + (f" ± {error:.3f}" if error == error else "")
                )
                known, better = known + 1, better + (mean > 0)
                clear += mean > error
            rows.append([*row, f"{better} of {known}", f"{clear} of {known}"])
    header = ["", "better than", *names, "better", "by over one standard error"]
    return table(header, rows)


def trials(path: Path) -> dict[str, str]:
    """Tables of `trials.py` by name: mean and standard error over the splits, on test or
    where it says so on valid. A later measurement replaces an earlier one."""
    found = pd.read_csv(path, sep="\t", keep_default_na=False)
    key = ["trial", "setting", "set", "split", "part"]
    found = found.drop_duplicates(key, keep="last")
    found["column"] = [
        f"{name}, {'valid, ' * (part == 'valid')}{METRICS[metric]}"
        for name, part, metric in zip(found["set"], found.part, found.metric)
    ]
    tables = {}
    for trial, rows in found.groupby("trial", sort=False):
        settings, columns = rows.setting.unique(), rows.column.unique()
        values = rows.groupby(["setting", "column"]).value
        cells = values.agg(cell, splits=rows.split.nunique())
        cells = cells.unstack(fill_value="").loc[settings, columns]
        lines = [[name, *line] for name, line in zip(settings, cells.to_numpy())]
        tables[trial] = table(["", *columns], lines)
    return tables


def put(found: dict[str, str], page: Path) -> None:
    """Write tables into a page, between the lines with their names."""

    def filled(at: re.Match) -> str:
        return f"{at[1]}\n{found[at[2]]}\n{at[3]}" if at[2] in found else at[0]

    text = page.read_text(encoding="utf-8")
    page.write_text(MARKED.sub(filled, text), encoding="utf-8")


TABLES = {
    "figures": figures,
    "seconds": seconds,
    "gains": gains,
    "measured": measured,
}


@command
def main(arguments: Sequence[str] | None = None) -> None:
    parser = CommandParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("results", type=Path, nargs="?", default=HERE / "results.tsv")
    add("--trials", type=Path, default=HERE / "trials.tsv")
    add("--page", type=Path, default=HERE / "README.md")
    add("--write", action="store_true", help="put the tables into the page")
    args = parser.parse_args(arguments)
    results = read(args.results)
    found = {name: function(results) for name, function in TABLES.items()}
    if args.trials.exists():
        found |= trials(args.trials)
    if args.write:
        put(found, args.page)
    else:
        print("\n".join(found.values()), end="")


if __name__ == "__main__":
    sys.exit(main())
