"""Two small starts for the trial `targets`: a start trained on descriptors, and a start
trained on descriptors and the bits of a fingerprint.

    python examples/small_data/pilot.py runs/small_data --data DATA

Every third molecule of MUV without those of the six sets, and less than a third of the
updates of the start in the package: enough to compare the two (our choice). The same
command goes on where it was stopped.
"""

import gzip
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from sets import SETS

from graphormer_plugin.cli import CommandParser, command, convert
from graphormer_plugin.data.files import atomic_write

SOURCE = "muv.csv.gz"
EVERY = 3  # molecules
BITS = 256
UPDATES = 4000
ROOT = Path(__file__).resolve().parents[2]


def run(command: Sequence[str]) -> None:
    if subprocess.run(command).returncode:
        raise SystemExit(2)  # it has said why


def make_table(folder: Path, data: Path) -> None:
    """The table of molecules and targets, and the names of the targets."""
    with gzip.open(data / SOURCE, "rt") as file:
        header, *rows = (line.partition(",")[0] for line in file)
    with atomic_write(folder / "muv.csv", "w") as file:
        file.write("\n".join([header, *rows[::EVERY], ""]))
    prepare = ROOT / "examples/pretraining/prepare.py"
    command = [sys.executable, prepare, folder, folder / "muv.csv"]
    command += ["--fingerprint-bits", BITS]
    command += ["--leave-out", *(data / one.file for one in SETS.values())]
    run([*map(str, command)])


def train(folder: Path, name: str, targets: Sequence[str]) -> None:
    """The lines of examples/pretraining/README.md, shorter."""
    flags = f"""--user-dir {ROOT}/graphormer_plugin --task graph_prediction
        --dataset-name {folder}/molecules.csv.gz --target-scale none --skip-invalid
        --arch grpe_small --dropout 0 --attention-dropout 0 --criterion mse_loss
        --optimizer adam --clip-norm 5 --lr 2e-3 --lr-scheduler polynomial_decay
        --warmup-updates {UPDATES // 25} --total-num-update {UPDATES}
        --end-learning-rate 1e-6 --max-update {UPDATES} --batch-size 64 --num-workers 0
        --cpu --seed 1 --no-epoch-checkpoints --save-dir {folder}/{name}"""
    command = [sys.executable, "-m", "fairseq_cli.train", *flags.split()]
    command += ["--adam-betas", "(0.9, 0.98)", "--target-columns", ",".join(targets)]
    run(command)
    files = folder / name / "checkpoint_last.pt", folder / f"{name}.pt"
    if convert.main(["--slim", *map(str, files)]):
        raise SystemExit(2)  # it has said why


@command
def main(arguments: Sequence[str] | None = None) -> None:
    parser = CommandParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("folder", type=Path, help="of trials.py; gets a folder `pilot`")
    add("--data", type=Path, required=True, help=f"folder of the sets and {SOURCE}")
    args = parser.parse_args(arguments)
    folder = args.folder / "pilot"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "molecules.csv.gz").exists():  # which is written last
        make_table(folder, args.data)
    targets = (folder / "targets.txt").read_text().strip().split(",")
    descriptors = [name for name in targets if not name.startswith("morgan_")]
    for name, chosen in {"descriptors": descriptors, "bits": targets}.items():
        if not (folder / f"{name}.pt").exists():
            train(folder, name, chosen)


if __name__ == "__main__":
    sys.exit(main())
