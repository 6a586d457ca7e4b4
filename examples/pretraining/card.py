"""Figures of a model that was trained on the table, for its card.

    python examples/pretraining/card.py grpe_minimol runs/pretraining/taught.parquet

reads the validation rows of the table, predicts them, and puts the figures into README.md
between the lines `<!-- card: grpe_minimol -->` and `<!-- end -->`.
"""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from rdkit.Chem import Descriptors

from graphormer_plugin import hub
from graphormer_plugin.data.files import file_sha256
from graphormer_plugin.inference.checkpoint import packaged_models, read_checkpoint

PAGE = Path(__file__).with_name("README.md")


def target_kind(target: str) -> str:
    """Kind of a target of prepare.py or blocks.py."""
    if target in dict(Descriptors.descList):
        return "descriptors"
    return "numbers of MiniMol" if target.startswith("minimol_") else "labels"


def determination(truth: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """R^2 of each column of [n, T]; NaN in truth is missing."""
    left = np.nansum((truth - predicted) ** 2, 0)
    return 1 - left / np.nansum((truth - np.nanmean(truth, 0)) ** 2, 0)


def figures(name: str, path_of_table: Path) -> list[tuple[str, str]]:
    """Rows of the card: name and figure."""
    path = packaged_models().get(name, Path(name))
    checkpoint = read_checkpoint(path)
    cfg, versions = checkpoint.state["cfg"], checkpoint.state["task_state"]["versions"]
    is_parquet = path_of_table.suffix == ".parquet"
    table = (pd.read_parquet if is_parquet else pd.read_csv)(path_of_table)
    counts = table.split.value_counts()
    valid = table[table.split == "valid"]
    names = checkpoint.targets.names
    truth = valid[names].to_numpy(float)
    predicted = hub.load(path).predict(valid.smiles.tolist())
    found = pd.Series(determination(truth, predicted))
    kinds = []
    for kind, part in found.groupby([target_kind(target) for target in names]):
        low, middle, high = part.quantile((0.25, 0.5, 0.75))
        text = f"{middle:.3f} ({low:.3f}, {high:.3f})"
        kinds.append((f"validation R² of {len(part)} {kind}: median (quartiles)", text))
    weights = sum(weight.numel() for weight in checkpoint.weights.values())
    rates = cfg["optimization"]["lr"]
    return [
        ("weights", f"{weights:,}, {path.stat().st_size / 1e6:.2f} MB"),
        ("sha256", f"`{file_sha256(path)[:16]}...`"),
        ("training molecules", f"{counts['train']:,}"),
        ("validation molecules", f"{counts['valid']:,}"),
        ("epochs begun, updates", f"{checkpoint.epochs}, {checkpoint.updates:,}"),
        ("molecules per update", f"{cfg['dataset']['batch_size']}"),
        ("largest learning rate", ", ".join(f"{rate:g}" for rate in rates)),
        ("seed", f"{cfg['common']['seed']}"),
        ("versions", ", ".join(f"{key} {text}" for key, text in versions.items())),
        *kinds,
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", help="checkpoint, or name of a model of the package")
    parser.add_argument("table", type=Path, help="its table, with a column split")
    args = parser.parse_args(arguments)
    rows = [("", "measured here"), ("---", "---"), *figures(args.model, args.table)]
    lines = "".join(f"| {what} | {figure} |\n" for what, figure in rows)
    print(lines, end="")
    text = PAGE.read_text(encoding="utf-8")
    marked = rf"(<!-- card: {Path(args.model).stem} -->\n).*?(<!-- end -->)"
    text = re.sub(marked, rf"\g<1>\n{lines}\n\g<2>", text, flags=re.DOTALL)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
