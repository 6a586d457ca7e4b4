"""Tables and curves from `results.tsv`, so that no number is typed by hand.

    python examples/summarise.py              # print the tables
    python examples/summarise.py --write      # put them into the READMEs
    python examples/summarise.py --curves curves.png cluster --metric weighted_accuracy
    python examples/summarise.py --curves curves.png runs/zinc/*/seed1/train.log

`papers.tsv` holds the figures of the papers. A table stands between the lines
`<!-- results: zinc -->` and `<!-- end -->` of a README, the order of the models of each
benchmark at `<!-- results: order -->`, electronic gaps of few molecules at
`<!-- results: gaps -->`.
"""

import argparse
import itertools
import re
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path

import learning_curves
import tsv
from matplotlib.figure import Figure
from tsv import Row

EXAMPLES = Path(__file__).resolve().parent
PAGES = [*sorted(EXAMPLES.glob("**/README.md")), EXAMPLES.parent / "README.md"]
MARKED = re.compile(
    r"(<!-- results: ([a-z0-9_ /-]+) -->\n).*?(<!-- end -->)", re.DOTALL
)
SYSTEMS = {"graphormer", "grpe", "cgt", "gt"}
PERCENT = {"weighted_accuracy", "accuracy", "roc_auc", "ap"}
NAMES = {"mae": "MAE", "weighted_accuracy": "weighted accuracy, %"}
NAMES |= {"roc_auc": "ROC-AUC, %", "ap": "AP, %", "rmse": "RMSE"}
GAPS = ("pcqm4mv2_subset", "qm9_gap_subset")  # the benchmarks of gap.sh
EQUAL_TIME = 1.5  # times the shortest training; other work shares the machine

COLUMNS = (
    "recipe variant dataset source fingerprint commit arch parameters seed epochs "
    "updates batch subset metric value device devices seconds checkpoint"
).split()


def read_results(path: Path) -> list[Row]:
    """The lines that `record.py` has written; none of an empty file.

    Raises:
        ValueError: other columns, or a line that was cut off.
    """
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    if lines and lines[0].rstrip("\r\n").split("\t") != COLUMNS:
        raise ValueError(f"{path} is not a table of results: it has other columns")
    for number, line in enumerate(lines, 1):
        if not line.endswith("\n") or line.count("\t") != len(COLUMNS) - 1:
            raise ValueError(
                f"{path}: line {number} is incomplete; remove it, and run its recipe "
                "again: it will only test"
            )
    return tsv.read(path)


def plus_minus(values: list[float], metric: str) -> str:
    """Mean and (sample) standard deviation over seeds, in the unit of the papers."""
    scale, digits = (100, 2) if metric in PERCENT else (1, 4)
    values = [scale * value for value in values]
    mean = f"{statistics.fmean(values):.{digits}f}"
    if len(values) == 1:
        return mean
    return f"{mean} ± {statistics.stdev(values):.{digits}f}"


def metric_name(metric: str) -> str:
    return NAMES.get(metric, metric)


def value_cell(rows: list[Row], metric: str) -> str:
    """Mean and deviation; in the column of another metric, with the metric's name."""
    of = rows[0]["metric"]
    cell = plus_minus([float(row["value"]) for row in rows], of)
    return cell if of == metric else f"{cell} ({metric_name(of)})"


def groups(results: Iterable[Row]) -> dict[tuple[str, ...], list[Row]]:
    """Runs that differ only in the seed; the last run of each seed."""
    same = "recipe variant source fingerprint arch batch epochs subset metric"
    found: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in results:
        # If the schedule ends the training, each seed has its own number of updates.
        updates = "" if ended_early(row) else row["updates"]
        key = (*(row[name] for name in same.split()), row["parameters"], updates)
        found.setdefault(key, {})[row["seed"]] = row
    return {key: list(by_seed.values()) for key, by_seed in found.items()}


def budget(rows: list[Row]) -> str:
    row = rows[0]
    updates = statistics.fmean(int(row["updates"]) for row in rows)
    minutes = mean_seconds(rows) / 60
    where = row["device"] + (f" x {row['devices']}" if row["devices"] != "1" else "")
    return f"{training(row)}, {updates:.0f} updates, {minutes:.0f} min, {where}"


def parameters(rows: list[Row]) -> str:
    return f"{statistics.fmean(int(row['parameters']) for row in rows):,.0f}"


def mean_seconds(rows: list[Row]) -> float:
    return statistics.fmean(float(row["seconds"]) for row in rows)


def epochs(row: Row) -> int:
    return int(row["epochs"].lstrip("<"))


def ended_early(row: Row) -> bool:
    """Whether the schedule ended the training before its epochs."""
    return row["epochs"].startswith("<")


def length(group: list[Row]) -> tuple[int, int]:
    """Key for sorting: epochs, and the updates of the first run."""
    return epochs(group[0]), int(group[0]["updates"])


def training(row: Row) -> str:
    """Length of a training, with its data if they are not the benchmark's."""
    length = f"{epochs(row)} epoch" + ("s" if epochs(row) != 1 else "")
    if ended_early(row):
        length = "fewer than " + length
    return with_source(length, row)


def with_source(budget: str, row: Row) -> str:
    """A budget, with its graphs if they are not the benchmark's."""
    return f"{budget} of {row['source']}" if row["source"] else budget


def paper_cell(paper: Row | None) -> list[str]:
    if paper is None:
        return ["", "", ""]
    spread = f" ± {paper['spread']}" if paper["spread"] else ""
    source = f"{paper['paper']}, Table {paper['table']}"
    if not paper["table"].isdigit():
        source = f"{paper['paper']}, {paper['table']}"
    return [paper["value"] + spread, paper["parameters"], source]


def table(what: str, papers: list[Row], results: list[Row]) -> str:
    """The table of a benchmark (`zinc`), or of a recipe's variants (`zinc/grpe_small`),
    without columns of papers where none has it.

    Raises:
        ValueError: neither papers nor results have it.
    """

    def belongs(row: Row) -> bool:
        recipe = row["recipe"] if row["variant"] else row["recipe"].split("/")[0]
        return recipe == what

    papers = [row for row in papers if belongs(row)]
    measured = groups(row for row in results if belongs(row))
    if not papers and not measured:
        raise ValueError(f"no paper and no result has {what!r}")
    metric = next(row["metric"] for row in itertools.chain(papers, *measured.values()))
    name = metric_name(metric)
    of_papers = [f"{name}, paper", "parameters, paper", "source"] if papers else []
    head = ["recipe", *of_papers, f"{name}, measured here", "parameters", "seeds"]
    lines = [f"| {' | '.join(head)} | budget |", "|---" * (len(head) + 1) + "|"]
    rows: dict[tuple[str, ...], Row | None] = {}
    rows |= {(row["recipe"], row["variant"]): row for row in papers}
    for key in measured:
        rows.setdefault(key[:2], None)
    for (recipe, variant), paper in rows.items():
        shown = variant or recipe.split("/")[1]
        runs = [runs for key, runs in measured.items() if key[:2] == (recipe, variant)]
        runs.sort(key=length)
        cells = [
            [
                value_cell(group, metric),
                parameters(group),
                str(len(group)),
                budget(group),
            ]
            for group in runs
        ]
        for index, cell in enumerate(cells or [["", "", "", ""]]):
            start = [f"`{shown}`", *paper_cell(paper)] if index == 0 else [""] * 4
            line = start[: 1 + len(of_papers)] + cell
            lines.append("| " + " | ".join(line) + " |")
    return "\n".join(lines) + "\n"


Comparison = tuple[str, dict[str, list[Row]], str]


def runs_of_systems(
    reported: dict[str, Row], results: list[Row]
) -> list[tuple[tuple[str, ...], str, list[Row]]]:
    """Data (benchmark, fingerprint, split, metric), recipe and runs of the four systems
    with a value of a paper, short trainings first; runs without a variant."""
    found = []
    measured = groups(row for row in results if not row["variant"]).values()
    for group in sorted(measured, key=length):
        row, recipe = group[0], group[0]["recipe"]
        system = row["arch"].split("_")[0] in SYSTEMS
        if system and recipe in reported and reported[recipe]["value"]:
            data = (row["fingerprint"], row["subset"], row["metric"])
            found.append(((recipe.split("/")[0], *data), recipe, group))
    return found


def equal_epochs(reported: dict[str, Row], results: list[Row]) -> list[Comparison]:
    """Benchmark, runs of each recipe, and their common number of epochs: the number
    that most recipes have had, the largest if there are several."""
    equal: dict[tuple, dict[str, list[Row]]] = {}
    for data, recipe, group in runs_of_systems(reported, results):
        key = (*data, group[0]["batch"], epochs(group[0]))
        equal.setdefault(key, {})[recipe] = group
    most: dict[str, dict[str, list[Row]]] = {}
    for (benchmark, *_), found in sorted(equal.items(), key=lambda item: item[0][-1]):
        if len(found) >= max(2, len(most.get(benchmark, ()))):
            most[benchmark] = found
    chosen = []
    for benchmark, found in most.items():
        rows = [group[0] for group in found.values()]
        after = training(min(rows, key=ended_early))
        if len({ended_early(row) for row in rows}) == 2:
            after = "at most " + after
        chosen.append((benchmark, found, after))
    return chosen


def equal_time(reported: dict[str, Row], results: list[Row]) -> list[Comparison]:
    """Comparisons of systems whose longest runs on the same kind of device took about the
    same time, with other numbers of epochs."""
    longest: dict[tuple, dict[str, list[Row]]] = {}
    for data, recipe, group in runs_of_systems(reported, results):
        devices = frozenset((row["device"], row["devices"]) for row in group)
        if len(devices) == 1:
            longest.setdefault((*data, devices), {})[recipe] = group
    chosen = []
    for (benchmark, *_), found in longest.items():
        minutes = sorted(mean_seconds(group) / 60 for group in found.values())
        budgets = {epochs(group[0]) for group in found.values()}
        if len(budgets) > 1 and minutes[-1] <= EQUAL_TIME * minutes[0]:
            row = next(iter(found.values()))[0]
            after = f"{minutes[0]:.0f} to {minutes[-1]:.0f} minutes each"
            chosen.append((benchmark, found, with_source(after, row)))
    return chosen


def orders(papers: list[Row], results: list[Row]) -> str:
    """The four systems on each benchmark, best first: in the papers, and here after
    equal epochs or time. Pairs that are equal in the papers do not count; pairs that
    are equal here have no order."""
    head = "| benchmark | in the papers, best first | measured here "
    lines = [head + "| pairs in the same order | after |", "|---" * 5 + "|"]
    reported = {row["recipe"]: row for row in papers if not row["variant"]}
    compared = equal_epochs(reported, results) + equal_time(reported, results)
    for benchmark, found, after in sorted(compared, key=lambda entry: entry[0]):
        metric = next(iter(found.values()))[0]["metric"]
        sign = -1 if metric in PERCENT else 1  # the best has the least
        paper = {name: sign * float(reported[name]["value"]) for name in found}
        here = {
            name: sign * statistics.fmean(float(run["value"]) for run in group)
            for name, group in found.items()
        }
        pairs = list(itertools.combinations(found, 2))
        pairs = [(a, b) for a, b in pairs if paper[a] != paper[b]]
        agree = [(paper[a] - paper[b]) * (here[a] - here[b]) > 0 for a, b in pairs]
        cells = [
            " ".join(f"`{name.split('/')[1]}`" for name in sorted(of, key=of.get))
            for of in (paper, here)
        ]
        cells = [benchmark, *cells, f"{sum(agree)} of {len(agree)}", after]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def gaps(results: list[Row]) -> str:
    """MAE and longest training of each recipe on the sets of electronic gaps."""
    found: dict[str, dict[str, list[Row]]] = {}
    for group in sorted(groups(results).values(), key=length):
        benchmark, recipe = group[0]["recipe"].split("/")
        if benchmark in GAPS:
            found.setdefault(recipe, {})[benchmark] = group
    head = "| recipe | " + " | ".join(f"`{name}`, MAE in eV | after" for name in GAPS)
    lines = [f"{head} |", "|---" * (1 + 2 * len(GAPS)) + "|"]
    for recipe, measured in found.items():
        cells = [f"`{recipe}`"]
        for name in GAPS:
            group = measured.get(name)
            cells += (
                [value_cell(group, "mae"), training(group[0])] if group else ["", ""]
            )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def fill(text: str, papers: list[Row], results: list[Row]) -> str:
    """A page with its tables made anew."""

    def made(found: re.Match) -> str:
        what = found[2]
        new = None
        if what == "order":
            new = orders(papers, results)
        elif what == "gaps":
            new = gaps(results)
        return found[1] + (new or table(what, papers, results)) + found[3]

    return MARKED.sub(made, text)


def curves_figure(logs: list[str], metric: str, papers: list[Row]) -> Figure:
    """Learning curves, and the final test values of the papers; the axes of epochs and
    errors are logarithmic.

    Args:
        logs: Recipes or benchmarks of `curves.tsv`, or logs
            `.../<benchmark>/<recipe>/<run>/train.log`.
        metric: Name in the logs.
        papers: Lines of `papers.tsv`.

    Raises:
        ValueError: no log, or one without the metric.
    """
    if not logs:
        raise ValueError("no logs and no recipes to draw")
    curves: list[tuple[str, learning_curves.Curve]] = []
    for log in map(Path, logs):
        if log.is_file():
            recipe = "/".join(log.parts[-4:-2])
            curves.append((recipe, learning_curves.log_curves(log, metric)))
        else:
            table = EXAMPLES / learning_curves.NAME
            found = learning_curves.table_curves(table, str(log), metric)
            curves += [(key[0], curve) for key, curve in found.items()]
    finals = {
        row["recipe"]: float(row["value"])
        for row in papers
        if row["metric"] == metric and not row["variant"]
    }
    scale = 100 if metric in PERCENT else 1  # as the papers have it
    figure = learning_curves.figure(curves, metric_name(metric), finals, scale)
    figure.axes[0].set_yscale("linear" if metric in PERCENT else "log")
    figure.axes[0].yaxis.set_major_formatter("{x:g}")
    figure.axes[0].yaxis.set_minor_formatter("{x:g}")
    return figure


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=EXAMPLES / "results.tsv")
    parser.add_argument("--write", action="store_true", help="into the READMEs")
    parser.add_argument("--curves", type=Path, help="draw into this file")
    parser.add_argument("--metric", default="mae", help="of the curves")
    parser.add_argument(
        "logs", nargs="*", help="of trainings, or recipes of curves.tsv"
    )
    arguments = parser.parse_args(argv)
    try:
        papers = tsv.read(EXAMPLES / "papers.tsv")
        if arguments.curves:
            figure = curves_figure(arguments.logs, arguments.metric, papers)
            figure.savefig(arguments.curves, dpi=150)
            return 0
        results = read_results(arguments.results)
        if arguments.write:
            for page in PAGES:
                text = page.read_text(encoding="utf-8")
                page.write_text(fill(text, papers, results), encoding="utf-8")
            return 0
        print(f"## order\n\n{orders(papers, results)}")
        benchmarks = {row["recipe"].split("/")[0] for row in papers + results}
        varied = {row["recipe"] for row in papers + results if row["variant"]}
        for what in [*sorted(benchmarks), *sorted(varied)]:
            print(f"## {what}\n\n{table(what, papers, results)}")
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
