"""Which difference from its released code makes GRPE learn faster here? Ten epochs of
`curves.py` with each difference taken back, and with all four.

    python examples/fidelity/differences.py runs/fidelity

prints the table of the README; a run that is complete is not trained again.
"""

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fidelity.curves import RELEASED, curve, train

from graphormer_plugin.cli import CommandParser, command

MODEL = "grpe_small"
HERE = Path(__file__).resolve().parent
# The model of that folder has GRPE's default sizes; a later flag wins.
NETWORK = ["--user-dir", str(HERE / "released_rows"), "--arch", "grpe_released_rows"]
SIZES = "--encoder-layers 12 --encoder-embed-dim 80 --encoder-ffn-embed-dim 80"
NETWORK += [*SIZES.split(), "--encoder-attention-heads", "8"]
DIFFERENCES = {
    "none: the model here": "",
    "the key of the row": "--key-from-row",
    "the virtual node related to itself as a node": "--virtual-is-self",
    "no vector for distances beyond L": "--far-is-last",
    "no bond vector for a node and itself": "--self-is-no-edge",
}
DIFFERENCES["all four"] = " ".join(DIFFERENCES.values())


def table(errors: dict[str, list[float]]) -> str:
    """The table of the README: validation MAE of each seed by difference."""
    seeds = range(1, 1 + max(map(len, errors.values())))
    heads = [
        "taken from the released code",
        *(f"seed {seed}" for seed in seeds),
        "mean",
    ]
    released = [mae for mae, _, _ in RELEASED[MODEL].values()][: len(seeds)]
    rows = [heads, ["---"] * len(heads)]
    for name, values in {**errors, "the released code itself": released}.items():
        cells = [f"{value:.3f}" for value in (*values, statistics.mean(values))]
        rows.append([name, *cells[:-1], *[""] * (len(seeds) - len(values)), cells[-1]])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


@command
def main(argv: Sequence[str] | None = None) -> None:
    parser = CommandParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path, help="of the runs")
    parser.add_argument("--seeds", type=int, default=2, help="1 to this number")
    arguments, more = parser.parse_known_args(argv)  # more: flags for fairseq-train
    errors: dict[str, list[float]] = {}
    for seed in range(1, 1 + arguments.seeds):
        for number, (name, flags) in enumerate(DIFFERENCES.items()):
            run = arguments.folder / f"difference{number}" / f"seed{seed}"
            train(MODEL, seed, run, [*NETWORK, *flags.split(), *more])
            errors.setdefault(name, []).append(curve(run / "train.log", "valid")[-1])
    print(table(errors), end="")


if __name__ == "__main__":
    sys.exit(main())
