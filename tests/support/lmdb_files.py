"""Folders of LMDB files in the form of OC20."""

import pickle

import pytest

from support.golden import load_golden

SPLITS = ("train", "val_id", "val_ood_ads", "val_ood_cat", "val_ood_both")


def golden_entries():
    """The five made-up systems of the golden file, as its files would hold them."""
    arrays = load_golden("graphormer3d")
    names = "pos pos_relaxed cell atomic_numbers tags".split()
    return [
        {name: arrays[f"raw/{number}/{name}"] for name in names}
        | {"y_relaxed": float(arrays[f"raw/{number}/y_relaxed"])}
        for number in range(5)
    ]


def write_lmdb(folder, entries):
    """Write the entries into each split of a folder."""
    lmdb = pytest.importorskip("lmdb")
    for split in SPLITS:
        (folder / split).mkdir(parents=True)
        path = str(folder / split / "data.lmdb")
        with lmdb.open(path, subdir=False, map_size=2**24) as file:
            with file.begin(write=True) as transaction:
                for number, entry in enumerate(entries):
                    transaction.put(str(number).encode(), pickle.dumps(entry))
    return folder
