"""A list of molecules from several sources with a share of each, for prepare.py.

    python examples/pretraining/mixture.py mixture.smi --most 250000 \\
        0.35=labels.csv.gz 0.45=chembl_a.smi.gz,chembl_b.smi.gz 0.2=others.smi.gz

A source is one or more files, as prepare.py reads them. Each different SMILES counts
for the first source that has it. Every beginning of the list has the shares, as far as
the sources last: a longer list of the same seed begins with the shorter list.
"""

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from prepare import molecules

from graphormer_plugin.cli import command
from graphormer_plugin.data.files import atomic_write


def mixed(
    sources: Sequence[Sequence[str]], shares: Sequence[float], seed: int
) -> Iterator[str]:
    """All molecules, each from a source drawn by the shares of the sources that are
    left."""
    rng = random.Random(seed)
    left = {}
    for index, source in enumerate(sources):
        left[index] = iter(rng.sample(source, len(source)))
    while left:
        drawn = rng.choices([*left], [shares[index] for index in left])[0]
        try:
            yield next(left[drawn])
        except StopIteration:
            del left[drawn]


def read(files: Sequence[Sequence[Path]]) -> list[list[str]]:
    """Different SMILES of each source, sorted."""
    seen: set[str] = set()
    sources = []
    for paths in files:
        found = {smiles for path in paths for smiles in molecules(path)} - seen - {""}
        seen |= found
        sources.append(sorted(found))
    return sources


@command
def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("output", type=Path, help="the list, a .smi file")
    parser.add_argument("sources", nargs="+", metavar="SHARE=FILE[,FILE ...]")
    parser.add_argument("--most", type=int, required=True, help="molecules")
    parser.add_argument("--seed", type=int, default=1, help="1")
    args = parser.parse_args(arguments)
    parts = [source.partition("=") for source in args.sources]
    files = [[Path(name) for name in names.split(",")] for _, _, names in parts]
    found = mixed(read(files), [float(share) for share, *_ in parts], args.seed)
    with atomic_write(args.output, "w") as file:
        file.writelines(f"{smiles}\n" for smiles in islice(found, args.most))


if __name__ == "__main__":
    sys.exit(main())
