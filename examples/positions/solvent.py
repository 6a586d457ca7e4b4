r"""Forces of clusters of carbonates by a small Graphormer-3D: trained, then tested.

    python examples/positions/solvent.py TRAIN.xyz TEST.xyz --out runs/solvent
    python examples/positions/rows.py runs/solvent/stores/solvent-*/ runs/solvent/rows.npz \
        --split runs/solvent/split.json  # the rows for peers.py

The files are extended xyz with energies and forces: GFN2-xTB, 203 and 1,000 clusters
(imagdau/Tutorials, MIT). Every tenth frame of TRAIN chooses the checkpoint.
"""

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path

import ase.io

TRAIN = """--task energy_forces --criterion energy_forces --positions file
    --arch graphormer3d_small --layers 4 --blocks 1 --embed-dim 96 --ffn-embed-dim 96
    --attention-heads 32 --gaussian-kernels 32 --gaussian-start even --attention-cutoff 5
    --dropout 0 --attention-dropout 0 --head-dropout 0
    --force-weight 10 --optimizer adam --lr 2e-3 --clip-norm 5 --batch-size 4 --cpu
    --lr-scheduler polynomial_decay --warmup-updates 150 --num-workers 0
    --validate-interval 5 --save-interval 5 --no-epoch-checkpoints
    --best-checkpoint-metric force_mae"""


def main(words: list[str] | None = None) -> None:
    """Train and test."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/solvent"))
    parser.add_argument("--updates", type=int, default=3000)
    args = parser.parse_args(words)
    args.out.mkdir(parents=True, exist_ok=True)
    frames = args.out / "solvent.xyz"
    frames.write_text(args.train.read_text() + args.test.read_text())
    first = len(ase.io.read(args.train, ":"))
    last = first + len(ase.io.read(args.test, ":"))
    split = {"train": [], "valid": [], "test": [*range(first, last)]}
    for row in range(first):
        split["valid" if row % 10 == 5 else "train"].append(row)
    split_file = args.out / "split.json"
    split_file.write_text(json.dumps(split))
    options = f"{TRAIN} --max-update {args.updates} --total-num-update {args.updates}"
    fairseq("train", args.out, *options.split(), "--dataset-name", str(frames))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"training took {used.ru_utime + used.ru_stime:.0f} s of CPU", flush=True)
    best = str(args.out / "checkpoint_best.pt")
    options = "--task energy_forces --valid-subset test --batch-size 16 --cpu --path"
    fairseq("validate", args.out, *options.split(), best)


def fairseq(command: str, folder: Path, *options: str) -> None:
    """Run a command of fairseq on the data and checkpoints of a folder."""
    program = [sys.executable, "-m", f"fairseq_cli.{command}"]
    words = ["--user-dir", "graphormer_plugin", "--data-root", str(folder), *options]
    if command == "train":
        split = f"rows:{folder / 'split.json'}"
        words += ["--save-dir", str(folder), "--split", split]
    subprocess.run([*program, *words], check=True)


if __name__ == "__main__":
    main()
