"""examples/small_data/peptides.py on a few molecules in the form of LRGB's files."""

import pickle

import numpy as np
import pandas as pd
from small_data import peptides


def test_average_precision_of_the_test_rows(tmp_path, capsys):
    smiles = [start + "C" * k for start in "ON" for k in range(1, 31)]
    labels = [str([int(text[0] == "O"), int(text[0] == "N")]) for text in smiles]
    table = pd.DataFrame({"smiles": smiles, "labels": labels})
    table.to_csv(tmp_path / peptides.TABLE)
    part = np.arange(60) % 3
    rows = {name: np.flatnonzero(part == k) for k, name in enumerate(("train", "val"))}
    rows["test"] = np.flatnonzero(part == 2)
    (tmp_path / peptides.SPLIT).write_bytes(pickle.dumps(rows))
    assert peptides.main([str(tmp_path), "--trees", "20"]) == 0
    assert capsys.readouterr().out.endswith("\ntest AP 1.0000\n")
    assert peptides.main([str(tmp_path / "none")]) == 2
    assert "No such file" in capsys.readouterr().err
