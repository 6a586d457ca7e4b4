"""A table for pre-training: any molecules with about 200 RDKit descriptors as targets.

    python examples/pretraining/prepare.py runs/pretraining a.csv b.smi --leave-out c.csv

writes molecules.csv.gz (smiles, split, a column per descriptor), targets.txt (the
columns, for --target-columns) and descriptors.csv (which descriptors were kept, which
not, and why) to the folder. The same command goes on after an interruption: finished
parts stay in the folder ``parts``.

Our choices:

- Two molecules are the same if they have the same `constitution`: the first block of the
  InChIKey of the largest fragment, which does not depend on stereo, isotopes, counter-ions
  (also with bonds to the metal) or protonation. The first of equal molecules is kept. Molecules of
  --leave-out are left out, and so are the molecules and fragments of --leave-out-keys.
- Descriptors become normal scores: the standard normal quantile of the share of
  training rows with a smaller value, plus half of the rows with the same value.
  (scikit-learn's ``QuantileTransformer`` would put the lowest value at -5.2, even if
  99 % of the molecules have it, as with counts of rare groups.)
- A descriptor is left out if it is in `LEFT_OUT`, is nearly constant, is often not finite,
  or repeats an earlier descriptor; the limits are constants below. A single value that is
  not finite (partial charges of some metals) becomes an empty cell: no target.
- A hash of seed and constitution draws the validation rows, so that a molecule stays in
  its split when others are added.
"""

import argparse
import contextlib
import csv
import gzip
import hashlib
import io
import re
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from rdkit import RDLogger, rdBase
from rdkit.Chem import Descriptors

from graphormer_plugin.cli import command
from graphormer_plugin.data.files import atomic_write
from graphormer_plugin.data.graphs.smiles import mol_of_smiles
from graphormer_plugin.data.graphs.start_molecules import constitution, first_block
from graphormer_plugin.data.tables.formats import SmilesTable, is_table, open_table
from graphormer_plugin.estimators.kernels import mid_ranks

DESCRIPTORS = [name for name, _ in Descriptors.descList]
LEFT_OUT = {"Ipc": "grows beyond 1e50 with the size and overflows; AvgIpc stays finite"}
MIN_SHARE = 0.001  # least share of training rows that differ from the commonest value
MAX_MISSING = 0.05  # largest share of rows where a descriptor is not finite
MAX_CORRELATION = 0.999  # absolute correlation of ranks with an earlier descriptor
COMPARED = 20_000  # first training rows, which give that correlation
PART = 1000  # number of molecules that a process computes at a time
KEYS = "4"  # version of `key` and `whole`; a part of another version is computed again


# ----------------------------------------------------------------- molecules


def molecules(path: Path) -> Iterator[str]:
    """SMILES of a table, known by its name, or of a file with a SMILES in each line."""
    table = open_table(path) if is_table(path) else SmilesTable(path)
    try:
        column = table.find_smiles("")
    except ValueError:
        raise ValueError(f"{path}: no column is named smiles; rename one") from None
    for row in table.rows([], column):
        yield row.source


def constitutions(paths: Sequence[Path]) -> set[str]:
    """`constitution` of all molecules of some files that RDKit can parse."""
    found = set()
    for smiles in (smiles for path in paths for smiles in molecules(path)):
        # A molecule that RDKit refuses is not in the table either.
        with contextlib.suppress(ValueError):
            found.add(constitution(mol_of_smiles(smiles)))
    return found


def read_keys(path: Path) -> set[str]:
    """First blocks of InChIKeys of a file.

    Raises:
        ValueError: a line is not the first block of an InChIKey.
    """
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt") as file:
        keys = file.read().split()
    for key in keys:
        if not re.fullmatch("[A-Z]{14}", key):
            raise ValueError(f"{path}: {key!r} is not the first block of an InChIKey")
    return set(keys)


def compute(smiles: list[str], folder: Path) -> Path:
    """Descriptors of some molecules as a file, which is named after them.

    Returns:
        Path of arrays smiles [n], key [n] (`constitution`), whole [n] (`first_block` of
        the molecule with all its fragments) and value float64 [n, descriptors], without
        the molecules that RDKit refuses (``refused`` is their number); and the seconds.
    """
    RDLogger.DisableLog("rdApp.*")
    text = "\n".join([rdBase.rdkitVersion, KEYS, *DESCRIPTORS, *smiles])
    digest = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
    path = folder / f"{digest}.npz"
    if path.exists():
        return path
    started = time.perf_counter()
    kept, keys, wholes, values = [], [], [], []
    for text in smiles:
        try:
            mol = mol_of_smiles(text)
        except ValueError:
            continue
        kept.append(text)
        keys.append(constitution(mol))
        wholes.append(first_block(mol))
        described = Descriptors.CalcMolDescriptors(mol, missingVal=np.nan)
        values.append([described[name] for name in DESCRIPTORS])
    with atomic_write(path) as file:
        np.savez(
            file,
            smiles=np.array(kept, str),
            key=np.array(keys, str),
            whole=np.array(wholes, str),
            value=np.array(values, np.float64).reshape(len(kept), len(DESCRIPTORS)),
            refused=len(smiles) - len(kept),
            seconds=time.perf_counter() - started,
        )
    return path


def compute_all(sources: Sequence[Path], folder: Path, processes: int) -> list[Path]:
    """`compute` for all molecules, part by part, in several processes."""
    folder.mkdir(parents=True, exist_ok=True)
    everything = (smiles for path in sources for smiles in molecules(path))
    paths: list[Path] = []
    started, waiting = time.perf_counter(), deque()

    def finish() -> None:
        paths.append(waiting.popleft().result())
        seconds = time.perf_counter() - started
        print(f"part {len(paths)}: {seconds:.0f} s", flush=True)

    with ProcessPoolExecutor(processes) as pool:
        while part := list(islice(everything, PART)):
            waiting.append(pool.submit(compute, part, folder))
            if len(waiting) > 2 * processes:  # so that few parts are in memory
                finish()
        while waiting:
            finish()
    return paths


# ----------------------------------------------------------------- the table


def is_valid(key: str, seed: int, fraction: float) -> bool:
    """Whether a molecule is a validation row."""
    digest = hashlib.blake2b(f"{seed} {key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") < fraction * 2**64


def normal_scores(values: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Standard normal quantiles of the mid-ranks among the training rows.

    The score is interpolated between two training values. Beyond them it is the score
    of the nearest value. It is NaN for a value that is not finite.

    Args:
        values: float64 [n].
        train: bool [n].
    """
    finite = np.isfinite(values)
    scores = np.interp(np.where(finite, values, np.nan), *mid_ranks(values[train]))
    return np.where(finite, scores, np.nan)


def reason_against(name: str, values: np.ndarray, train: np.ndarray) -> str:
    """Why a descriptor is left out by itself; empty if it is kept."""
    finite = np.isfinite(values)
    _, counts = np.unique(values[finite & train], return_counts=True)
    differ = 1 - counts.max(initial=0) / max(counts.sum(), 1)
    if name in LEFT_OUT:
        return LEFT_OUT[name]
    if (missing := 1 - finite.mean()) > MAX_MISSING:
        return f"not finite for {missing:.2%} of the molecules"
    if len(counts) < 2 or differ < MIN_SHARE:
        return f"nearly constant: {differ:.3%} of the training rows differ"
    return ""


def repeats(scores: dict[str, np.ndarray]) -> dict[str, str]:
    """Descriptors whose scores [n] repeat an earlier descriptor's, with its name."""
    names = list(scores)
    filled = np.array([np.nan_to_num(scores[name]) for name in names])
    correlation = np.abs(np.corrcoef(filled)) if names else np.zeros((0, 0))
    found: dict[str, str] = {}
    for index, name in enumerate(names):
        for earlier in range(index):
            if names[earlier] not in found and (
                correlation[index, earlier] > MAX_CORRELATION
            ):
                found[name] = names[earlier]
    return found


def select(
    paths: Sequence[Path], leave_out: set[str]
) -> tuple[list[np.ndarray], list[str], Counter]:
    """Rows of each part for the table, their keys, and the number of other rows by
    reason."""
    seen: set[str] = set()
    rows, counts = [], Counter()
    keys: list[str] = []
    for path in paths:
        part = np.load(path)
        chosen = []
        both = zip(part["key"].tolist(), part["whole"].tolist(), strict=True)
        for row, (key, whole) in enumerate(both):
            if key in leave_out or whole in leave_out:
                counts["left out"] += 1
            elif key in seen:
                counts["repeated"] += 1
            else:
                seen.add(key)
                keys.append(key)
                chosen.append(row)
        counts["refused by RDKit"] += int(part["refused"])
        rows.append(np.array(chosen, np.int64))
    return rows, keys, counts


def write_lines(path: Path, rows: Iterator[list[Any]] | list[list[Any]]) -> None:
    """Write a CSV file, gzipped for .gz, which gets its name when it is complete."""
    with contextlib.ExitStack() as stack:
        file: Any = stack.enter_context(atomic_write(path))
        if path.suffix == ".gz":  # without a time: equal tables are equal files
            file = stack.enter_context(gzip.GzipFile("", "wb", 6, file, mtime=0))
        text = io.TextIOWrapper(file, "utf-8", newline="")
        csv.writer(text, lineterminator="\n").writerows(rows)
        text.detach()  # writes what is left; the file closes after it


def write_table(
    paths: Sequence[Path],
    folder: Path,
    leave_out: set[str],
    seed: int,
    fraction: float,
) -> Counter:
    """The files of the folder, from the parts, in memory for the rows of a descriptor.

    Raises:
        SystemExit: A split has no molecules.
    """
    rows, keys, counts = select(paths, leave_out)
    train = np.array([not is_valid(key, seed, fraction) for key in keys], bool)
    counts["train"], counts["valid"] = int(train.sum()), int((~train).sum())
    if not counts["train"] or not counts["valid"]:
        raise SystemExit(f"error: {len(keys)} molecules are too few for two splits")
    shape = (len(DESCRIPTORS), len(keys))
    scratch = folder / "columns.tmp"
    columns = np.memmap(scratch, np.float64, "w+", shape=shape)
    start = 0
    for path, chosen in zip(paths, rows, strict=True):
        columns[:, start : start + len(chosen)] = np.load(path)["value"][chosen].T
        start += len(chosen)
    reasons, compared = {}, {}
    for name, values in zip(DESCRIPTORS, columns, strict=True):
        reasons[name] = reason_against(name, values, train)
        if not reasons[name]:
            values[:] = normal_scores(values, train)
            compared[name] = values[train][:COMPARED].copy()
    for name, earlier in repeats(compared).items():
        reasons[name] = f"has the ranks of {earlier}"
    kept = [index for index, name in enumerate(DESCRIPTORS) if not reasons[name]]
    counts["targets"] = len(kept)

    def table() -> Iterator[list[Any]]:
        yield ["smiles", "split", *(DESCRIPTORS[index] for index in kept)]
        start = 0
        for path, chosen in zip(paths, rows, strict=True):
            smiles = np.load(path)["smiles"][chosen].tolist()
            block = columns[kept, start : start + len(chosen)].T.tolist()
            for text, is_train, row in zip(smiles, train[start:], block):
                cells = ["" if value != value else f"{value:.4f}" for value in row]
                yield [text, "train" if is_train else "valid", *cells]
            start += len(chosen)

    decisions = [[name, "no" if why else "yes", why] for name, why in reasons.items()]
    write_lines(folder / "descriptors.csv", [["name", "kept", "reason"], *decisions])
    write_lines(folder / "targets.txt", [[DESCRIPTORS[index] for index in kept]])
    write_lines(folder / "molecules.csv.gz", table())
    scratch.unlink()
    return counts


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    found.add_argument("folder", type=Path, help="where the table is written")
    found.add_argument(
        "sources",
        type=Path,
        nargs="+",
        help="tables with a column of SMILES (.csv, .tsv, .sdf, .smi, also with .gz, or "
        ".parquet), or files of other names with a SMILES at the start of each line",
    )
    found.add_argument(
        "--leave-out",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="files of molecules that the table must not hold",
    )
    found.add_argument(
        "--leave-out-keys",
        type=Path,
        metavar="FILE",
        help="first blocks of InChIKeys, one in each line, of further such molecules, "
        "whole or their largest fragment; also with .gz",
    )
    found.add_argument("--valid-fraction", type=float, default=0.02, help="0.02")
    found.add_argument("--seed", type=int, default=1, help="of the split")
    found.add_argument("--processes", type=int, default=1, help="1")
    return found


@command
def main(arguments: Sequence[str] | None = None) -> None:
    args = parser().parse_args(arguments)
    for path in (*args.sources, *args.leave_out):
        next(molecules(path), None)  # or an error, before hours of work
    RDLogger.DisableLog("rdApp.*")
    leave_out = constitutions(args.leave_out)
    if args.leave_out_keys:
        leave_out |= read_keys(args.leave_out_keys)
    paths = compute_all(args.sources, args.folder / "parts", args.processes)
    counts = write_table(
        paths,
        args.folder,
        leave_out,
        args.seed,
        args.valid_fraction,
    )
    seconds = sum(float(np.load(path)["seconds"]) for path in paths)
    counts["computed"] = sum(len(np.load(path)["key"]) for path in paths)
    print(", ".join(f"{name}: {count:,}" for name, count in counts.items()))
    each = 1000 * seconds / max(counts["computed"], 1)
    print(f"{each:.1f} ms a molecule; wrote {args.folder / 'molecules.csv.gz'}")


if __name__ == "__main__":
    sys.exit(main())
