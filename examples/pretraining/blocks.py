"""Further targets beside the descriptors: a teacher's numbers, measured labels and
components of the Morgan counts, each block with its share of the loss.

    python examples/pretraining/blocks.py runs/pretraining --labels labels.csv.gz

reads the table of prepare.py and the files of teacher.py beside it, and writes
blocks.parquet (smiles, split, a column per target) and blocks.txt (the columns, for
--target-columns). With labels it also writes start.seen.npy, hashes of the training molecules that
belong beside the start. `--shares labels=0.5 ...` takes only these blocks, `--output NAME`
writes NAME.parquet and NAME.txt.

Our choices:

- A column is standardised by the training rows and cut at 6 deviations, labels at 4.
- The squared error counts each present target once, and a molecule has 512 numbers of the
  teacher but about half a label. Columns are therefore multiplied by the square root of
  the block's share over its targets per molecule.
- Labels are a column per source and endpoint, the median of equal molecules. Two molecules
  are equal if their SMILES in the label files are.
- Labels that are not logarithms become logarithms or logits, see `transformed`.
- Components are the first 256 of a singular value decomposition of log(1 + counts) of
  Morgan fingerprints (radius 2, 2,048 columns).
"""

import argparse
import csv
import gzip
import hashlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.sparse import csr_matrix, vstack
from sklearn.decomposition import TruncatedSVD

from graphormer_plugin.cli import command
from graphormer_plugin.data.files import atomic_write
from graphormer_plugin.data.graphs.descriptors import morgan_counts
from graphormer_plugin.data.graphs.smiles import mol_of_any_smiles
from graphormer_plugin.data.graphs.start_molecules import ENDING, write_seen

SHARES = {"descriptors": 1.0, "teacher": 1.0, "labels": 0.5, "substructures": 1.0}
SCALE = 300  # sum of all squared targets of a block with share 1, per molecule
CUT, CUT_LABELS = 6, 4  # deviations
FEWEST = 50  # least training labels of a column that is kept
COMPONENTS, BITS = 256, 2048
FITTED = 20_000  # rows that the components are fitted to
PART = 1000  # rows in a part of teacher.py
SMALLEST = 1e-3  # smallest IC50 in µM, bound and unbound fraction


def transformed(endpoint: str, values: np.ndarray) -> np.ndarray:
    """Labels on a scale on which their errors are about equal.

    PharmaBench's IC50 of CYP in µM become -log10, and its bound fractions become
    logits; the others are logarithms or classes already.
    """
    if endpoint.startswith("cyp_") and endpoint.endswith("_reg"):
        return -np.log10(np.maximum(values, SMALLEST))
    if endpoint == "ppb_reg":
        fraction = np.clip(values, SMALLEST, 1 - SMALLEST)
        return np.log(fraction / (1 - fraction))
    return values


def standardised(values: np.ndarray, train: np.ndarray, cut: float) -> np.ndarray:
    """Columns [n, C] with mean 0 and deviation 1 among the training rows, cut."""
    mean, spread = np.nanmean(values[train], 0), np.nanstd(values[train], 0)
    scaled = (values - mean) / np.where(spread > 0, spread, 1)
    return np.clip(scaled, -cut, cut)


def labels(
    path: Path, smiles: Sequence[str], train: np.ndarray
) -> tuple[list[str], np.ndarray]:
    """Names of the endpoints and their labels [n, E], NaN where missing.

    Args:
        path: columns source, endpoint, smiles, value; also with .gz.
        smiles: molecules of the table.
        train: bool [n].
    """
    row_of = {text: row for row, text in enumerate(smiles)}
    table = pd.read_csv(path)
    table = table[table.smiles.isin(row_of.keys())]
    names, columns = [], []
    for (source, endpoint), part in table.groupby(["source", "endpoint"]):
        median = part.groupby("smiles").value.median()
        column = np.full(len(smiles), np.nan)
        rows = [row_of[text] for text in median.index]
        column[rows] = transformed(endpoint, median.to_numpy())
        if np.isfinite(column[train]).sum() >= FEWEST:
            names.append(f"{source}_{endpoint}")
            columns.append(column)
    values = np.array(columns).T.reshape(len(smiles), len(columns))
    return names, standardised(values, train, CUT_LABELS)


def teacher(folder: Path, smiles: Sequence[str]) -> np.ndarray:
    """Numbers of the teacher from the files of teacher.py, [n, 512].

    Raises:
        ValueError: teacher.py has not finished.
    """
    parts = []
    for start in range(0, len(smiles), PART):
        text = "\n".join(smiles[start : start + PART])
        name = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
        path = folder / "teacher" / f"{name}.npy"
        if not path.exists():
            raise ValueError(f"{path} is not there; run teacher.py to its end")
        parts.append(np.load(path))
    return np.concatenate(parts).astype(np.float32)


def substructures(smiles: Sequence[str], train: np.ndarray) -> np.ndarray:
    """Components of the Morgan counts, float32 [n, `COMPONENTS`]."""
    parts = [smiles[start : start + PART] for start in range(0, len(smiles), PART)]
    counts = vstack(
        [
            csr_matrix(np.log1p(morgan_counts(part, BITS, chirality=False), dtype="f4"))
            for part in parts
        ]
    ).tocsr()
    fitted = counts[np.flatnonzero(train)[:FITTED]]
    count = min(COMPONENTS, *(size - 1 for size in fitted.shape))
    model = TruncatedSVD(count, random_state=1).fit(fitted)
    return model.transform(counts).astype(np.float32)


def scaled(values: np.ndarray, train: np.ndarray, share: float) -> np.ndarray:
    """Columns [n, C], scaled to the share of a squared error."""
    present = np.isfinite(values[train]).sum() / train.sum()
    return values * np.sqrt(SCALE * share / present)


def make(
    folder: Path, label_file: Path, shares: Mapping[str, float], output: str
) -> None:
    """Write the two files of this name into the folder."""
    with gzip.open(folder / "molecules.csv.gz", "rt", newline="") as file:
        header = next(csv.reader(file))
    types = dict.fromkeys(header[2:], np.float32)
    table = pd.read_csv(folder / "molecules.csv.gz", dtype=types)
    smiles, train = table.smiles.tolist(), (table.split == "train").to_numpy()
    columns = {"smiles": pa.array(smiles), "split": pa.array(table.split)}

    def numbered(name: str, values: np.ndarray) -> tuple[list[str], np.ndarray]:
        names = [f"{name}_{at}" for at in range(values.shape[1])]
        return names, standardised(values, train, CUT)

    blocks = {
        "descriptors": lambda: (header[2:], table[header[2:]].to_numpy()),
        "teacher": lambda: numbered("minimol", teacher(folder, smiles)),
        "labels": lambda: labels(label_file, smiles, train),
        "substructures": lambda: numbered("morgan", substructures(smiles, train)),
    }
    for block, share in shares.items():
        names, values = blocks[block]()
        if block == "labels":
            labelled = np.isfinite(values).any(1)[train]
            mols = map(mol_of_any_smiles, table.smiles[train])
            write_seen(folder / f"start{ENDING}", list(mols), labelled)
        for name, column in zip(names, scaled(values, train, share).T, strict=True):
            columns[name] = pa.array(column.astype(np.float32), from_pandas=True)
        print(f"{block}: {len(names)} targets")
    with atomic_write(folder / f"{output}.parquet") as file:
        pq.write_table(pa.table(columns), file, row_group_size=20_000)
    with atomic_write(folder / f"{output}.txt", "w") as file:
        file.write(",".join([*columns][2:]) + "\n")


def read_share(text: str) -> tuple[str, float]:
    """``BLOCK=SHARE``. Raises ValueError for another text."""
    block, _, share = text.partition("=")
    if block not in SHARES:
        raise ValueError(text)
    return block, float(share)


@command
def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("folder", type=Path, help="of prepare.py and teacher.py")
    parser.add_argument(
        "--labels",
        type=Path,
        required=True,
        metavar="FILE",
        help="CSV with the columns source, endpoint, smiles, value; also with .gz",
    )
    parser.add_argument(
        "--shares",
        nargs="+",
        type=read_share,
        default=SHARES.items(),
        metavar="BLOCK=SHARE",
        help="of the loss; default: "
        + " ".join(f"{block}={share:g}" for block, share in SHARES.items()),
    )
    parser.add_argument("--output", default="blocks", help="name of the files")
    args = parser.parse_args(arguments)
    make(args.folder, args.labels, dict(args.shares), args.output)


if __name__ == "__main__":
    sys.exit(main())
