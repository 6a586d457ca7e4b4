"""Figures of a model that was trained on the table, for its card.

    python examples/pretraining/card.py grpe_small_descriptors runs/pretraining

reads the validation rows of the table in the folder, predicts them, and puts the figures
into README.md between the lines `<!-- card -->` and `<!-- end -->`.
"""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from graphormer_plugin import hub
from graphormer_plugin.data.files import file_sha256
from graphormer_plugin.inference.checkpoint import packaged_models, read_checkpoint

PAGE = Path(__file__).with_name("README.md")
MARKED = re.compile(r"(<!-- card -->\n).*?(<!-- end -->)", re.DOTALL)
WORST = 5


def determination(truth: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """R^2 of each column of [n, T]; NaN in truth is missing."""
    left = np.nansum((truth - predicted) ** 2, 0)
    return 1 - left / np.nansum((truth - np.nanmean(truth, 0)) ** 2, 0)


def figures(name: str, folder: Path) -> list[tuple[str, str]]:
    """Rows of the card: what, and the figure."""
    path = packaged_models().get(name, Path(name))
    checkpoint = read_checkpoint(path)
    cfg, versions = checkpoint.state["cfg"], checkpoint.state["task_state"]["versions"]
    table = pd.read_csv(folder / "molecules.csv.gz")
    counts = table.split.value_counts()
    valid = table[table.split == "valid"]
    names = checkpoint.targets.names
    truth = valid[names].to_numpy(float)
    predicted = hub.load(path).predict(valid.smiles.tolist())
    found = determination(truth, predicted)
    worst = [names[place] for place in np.argsort(found)[:WORST]]
    quartiles = np.nanquantile(found, (0.25, 0.5, 0.75))
    weights = sum(weight.numel() for weight in checkpoint.weights.values())
    rates = cfg["optimization"]["lr"]
    return [
        ("weights", f"{weights:,}, {path.stat().st_size / 1e6:.2f} MB"),
        ("sha256", f"`{file_sha256(path)[:16]}...`"),
        ("training molecules", f"{counts['train']:,}"),
        ("validation molecules", f"{counts['valid']:,}"),
        ("descriptors", f"{len(names)}"),
        ("epochs begun, updates", f"{checkpoint.epochs}, {checkpoint.updates:,}"),
        ("molecules per update", f"{cfg['dataset']['batch_size']}"),
        ("largest learning rate", ", ".join(f"{rate:g}" for rate in rates)),
        ("seed", f"{cfg['common']['seed']}"),
        ("versions", ", ".join(f"{key} {text}" for key, text in versions.items())),
        ("validation MAE, in deviations", f"{np.nanmean(abs(truth - predicted)):.4f}"),
        ("validation R², median", f"{quartiles[1]:.3f}"),
        ("validation R², quartiles", f"{quartiles[0]:.3f}, {quartiles[2]:.3f}"),
        ("R² is lowest for", ", ".join(f"`{text}`" for text in worst)),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", help="checkpoint, or name of a model of the package")
    parser.add_argument("folder", type=Path, help="folder of the table")
    args = parser.parse_args(arguments)
    rows = [("", "measured here"), ("---", "---"), *figures(args.model, args.folder)]
    lines = "".join(f"| {what} | {figure} |\n" for what, figure in rows)
    print(lines, end="")
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(MARKED.sub(rf"\g<1>\n{lines}\n\g<2>", text), encoding="utf-8")


if __name__ == "__main__":
    main()
