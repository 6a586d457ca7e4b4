"""Write the graphs of a prepared store with positions for `peers.py`.

python examples/positions/rows.py STORE ROWS.npz
"""

import argparse
from pathlib import Path

import numpy as np

from graphormer_plugin.data.store import GraphStore
from graphormer_plugin.data.store.custom_splits import with_splits


def main(words: list[str] | None = None) -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store")
    parser.add_argument("rows")
    parser.add_argument("--split", type=Path, help="as --split rows:FILE")
    args = parser.parse_args(words)
    store = GraphStore.open(args.store)
    if args.split:
        store = with_splits(store, args.split, args.split.read_text())
    sizes = store.sizes.astype(np.int64)
    arrays = dict(store.splits)
    arrays |= {"sizes": sizes, "target": np.asarray(store.target[:, 0], np.float64)}
    # The first column of nodes tells elements apart in every featuriser.
    arrays |= {
        "numbers": store.columns["x"][:, 0].astype(np.int64) + 1,
        "pos": store.columns["pos"],
    }
    if "forces" in store.columns:
        arrays["forces"] = store.columns["forces"]
    np.savez(args.rows, **arrays)


if __name__ == "__main__":
    main()
