"""examples/fidelity: the curves that it makes of logs, and the table of its page."""

import csv
import json
from pathlib import Path

from fidelity import curves


def test_curves_of_complete_runs(tmp_path, monkeypatch, capsys):
    """Nothing is trained again; the last checkpoint is tested, not the best one."""
    tested = []
    monkeypatch.setattr(
        curves.record, "measure", lambda *what: tested.append(what) or "0.987654"
    )
    for number, model in enumerate(curves.MODELS):
        for seed in (1, 2):
            folder = tmp_path / model / f"seed{seed}"
            folder.mkdir(parents=True)
            with open(folder / "train.log", "w") as log:
                for epoch in range(1, 11):
                    mae = 1.01 + number + seed / 10 - epoch / 100
                    for split in ("valid", "train"):
                        stats = {"epoch": epoch, f"{split}_mae": str(mae)}
                        stats[f"{split}_num_updates"] = str(157 * epoch)
                        log.write(f"2026 | INFO | {split} | {json.dumps(stats)}\n")
    assert curves.main([str(tmp_path)]) == 0
    last = tmp_path / "grpe_small" / "seed1" / "checkpoint_last.pt"
    assert len(tested) == 4 and tested[0] == (last, "test", "mae")
    printed = capsys.readouterr().out.splitlines()
    assert printed[2].startswith("| `grpe_small` | 1 | 0.454 | 1.010 | 0.482 | 0.988 |")
    assert printed[5].endswith("| 2.110 | 0.665 | 0.988 |  | 2.160 |")
    lines = (tmp_path / "curves.tsv").read_text().splitlines()
    assert len(lines) == 1 + 2 * 2 * 10
    assert lines[10].split("\t")[2] == "10" and lines[10].endswith("\t0.987654")
    assert (tmp_path / "curves.png").exists()


def test_the_page_has_the_table_of_the_curves():
    folder = Path(curves.__file__).parent
    with open(folder / "curves.tsv", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert curves.table(rows) in (folder / "README.md").read_text(encoding="utf-8")
