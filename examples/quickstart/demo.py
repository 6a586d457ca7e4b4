"""Train `grpe_small` on the 5,000 NCI molecules inside RDKit and test it.

`make demo` runs this in its environment. Each step has a title, its command, which can
be pasted into a shell, the command's own log, and its seconds. A second call reuses the
prepared data. It only tests if the same command and sources have finished the training,
and resumes an interrupted training from its last epoch.

Expected on 2 CPU cores: see examples/installation/README.md.
"""

import argparse
import contextlib
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
PLUGIN = ROOT / "graphormer_plugin"
BATCH_SIZE = 64
LOG = "demo.log"
# fairseq uses names that torch has renamed, and pins memory on machines without a GPU.
QUIET = "ignore::FutureWarning,ignore::UserWarning,ignore::DeprecationWarning"
# What the screen has of a log, in which fairseq repeats all of its options twice.
SHOWN = re.compile(r"^\w+: .*, fingerprint \w+$")
EPOCH = re.compile(r"\| valid \| epoch 0*(\d+) \|.* mae ([\d.]+) ")
TESTED = re.compile(r" \| test \|.* mae ([\d.]+)")
WIDTH = 120
FAILED_LINES = 20  # last ones of a failed command


def relative(path: Path) -> str:
    """The path as a user in the repository would type it."""
    path = path.resolve()
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def data_flags(folder: Path) -> list[list[str]]:
    return [
        ["--dataset-name", "nci"],
        ["--data-root", relative(folder / "data")],
    ]


def prepare_command(folder: Path, workers: int) -> list[list[str]]:
    return [
        ["graphormer-preprocess"],
        *data_flags(folder),
        ["--workers", str(max(workers, 1))],
    ]


def train_command(folder: Path, epochs: int, workers: int) -> list[list[str]]:
    """The training command, one topic per inner list."""
    return [
        ["fairseq-train", "--user-dir", "graphormer_plugin"],
        ["--task", "graph_prediction"],
        *data_flags(folder),
        ["--arch", "grpe_small", "--criterion", "l1_loss"],
        ["--batch-size", str(BATCH_SIZE), "--num-workers", str(workers)],
        ["--optimizer", "adam", "--adam-betas", "(0.9, 0.999)", "--clip-norm", "5"],
        ["--lr", "1e-3", "--lr-scheduler", "polynomial_decay"],
        ["--warmup-updates", "60", "--total-num-update", str(63 * epochs)],
        ["--max-epoch", str(epochs), "--seed", "1"],
        ["--best-checkpoint-metric", "mae", "--no-epoch-checkpoints"],
        ["--save-dir", relative(folder / "checkpoints")],
        ["--log-format", "simple", "--log-interval", "20"],
    ]


def validate_command(folder: Path) -> list[list[str]]:
    return [
        ["fairseq-validate", "--user-dir", "graphormer_plugin"],
        ["--task", "graph_prediction"],
        *data_flags(folder),
        ["--path", relative(folder / "checkpoints" / "checkpoint_best.pt")],
        ["--valid-subset", "test", "--batch-size", "256"],
        ["--log-format", "simple"],
    ]


def shown(command: list[list[str]]) -> str:
    """The command as in a shell script, a topic per line."""
    return " \\\n    ".join(shlex.join(topic) for topic in command)


@contextlib.contextmanager
def step(title: str) -> Iterator[None]:
    """A line before and a line after, with the seconds."""
    started = time.monotonic()
    print(f"\n[demo] {title}", flush=True)
    yield
    print(f"[demo] {title}: {time.monotonic() - started:.0f} s", flush=True)


def run(command: list[list[str]], log: Path) -> tuple[int, str]:
    """Show and run a command; its output is added to a log, and a line for each epoch goes to the
    screen as it comes. If the command fails, so do the last lines.

    Returns:
        Exit status, and the output.
    """
    print(f"$ {shown(command)}\n", flush=True)
    words = [word for topic in command for word in topic]
    words[0] = str(BIN / words[0])
    lines: list[str] = []
    process = subprocess.Popen(
        words,
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": QUIET},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    try:
        with open(log, "a") as file:
            for line in process.stdout:
                file.write(line)
                lines.append(line)
                if epoch := EPOCH.search(line):
                    print(f"epoch {epoch[1]}: MAE {epoch[2]} in validation", flush=True)
                elif SHOWN.match(line):
                    print(line[:WIDTH].rstrip(), flush=True)
    except BaseException:
        process.terminate()
        process.wait()
        raise
    if process.wait():
        print(*lines[-FAILED_LINES:], sep="", end="")
    return process.returncode, "".join(lines)


def sources_digest(command: list[list[str]]) -> str:
    """Changes when the command or anything that computes the model does."""
    digest = hashlib.sha256(json.dumps(command).encode())
    for package in (PLUGIN, ROOT / "cython_ext"):
        for path in sorted(package.rglob("*.py*")):
            if path.suffix in (".py", ".pyx"):
                digest.update(path.read_bytes())
    return digest.hexdigest()


def train(folder: Path, command: list[list[str]]) -> None:
    """Train, unless that is done."""
    checkpoints = folder / "checkpoints"
    begun, finished = checkpoints / "begun.json", checkpoints / "finished.json"
    digest = sources_digest(command)

    def noted(path: Path) -> dict:
        try:
            note = json.loads(path.read_text())
        except (OSError, ValueError):
            return {}
        return note if note.get("digest") == digest else {}

    if noted(finished) and (checkpoints / "checkpoint_best.pt").exists():
        print(f"$ {shown(command)}\n\nThis training is finished: nothing to do.")
        return
    if checkpoints.exists() and not noted(begun):
        shutil.rmtree(checkpoints)
    checkpoints.mkdir(parents=True, exist_ok=True)
    begun.write_text(json.dumps({"digest": digest}))

    resumed = (checkpoints / "checkpoint_last.pt").exists()
    log = folder / LOG
    status, _ = run(command, log)
    if status and resumed:
        print("\nThe interrupted training cannot be resumed; starting over.")
        for path in checkpoints.glob("*.pt"):
            path.unlink()
        status, _ = run(command, log)
    if status:
        sys.exit(f"fairseq-train failed with exit status {status}, see above")
    finished.write_text(json.dumps({"digest": digest}))


def mean_predictor_error(folder: Path) -> float:
    """MAE on the test split of predicting the mean of the training split."""
    import numpy as np

    from graphormer_plugin.data import DatasetOptions, get_store

    store = get_store(DatasetOptions(name="nci", data_root=str(folder / "data")))
    target = np.asarray(store.target, dtype=np.float64)
    mean = target[store.splits["train"]].mean(axis=0)
    return float(np.abs(target[store.splits["test"]] - mean).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--epochs", type=int, default=8, help="default: 8")
    parser.add_argument("--dir", type=Path, default=ROOT / ".demo", metavar="FOLDER")
    parser.add_argument("--workers", type=int, default=1, help="data workers")
    options = parser.parse_args()
    if options.epochs < 1:
        parser.error(f"--epochs {options.epochs}: expected 1 or more")
    folder = options.dir.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / LOG
    log.unlink(missing_ok=True)

    epochs = f"{options.epochs} epoch{'s' * (options.epochs > 1)}"
    with step("1 of 3: prepare 5,000 molecules that RDKit brings"):
        status, _ = run(prepare_command(folder, options.workers), log)
        if status:
            sys.exit(
                f"graphormer-preprocess failed with exit status {status}, see above"
            )
    with step(f"2 of 3: train grpe_small, {epochs}"):
        train(folder, train_command(folder, options.epochs, options.workers))
    with step("3 of 3: test the best epoch on molecules that it has not seen"):
        status, text = run(validate_command(folder), log)
        errors = TESTED.findall(text)
        if status or not errors:
            sys.exit(f"fairseq-validate failed with exit status {status}, see above")
    baseline = mean_predictor_error(folder)
    print(
        f"\ntest MAE {float(errors[-1]):.3f}, that of the training mean {baseline:.3f}; "
        f"the whole log is in {relative(log)}"
    )
    if float(errors[-1]) >= baseline:
        sys.exit("the model is not better than the training mean: something is wrong")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("\n[demo] stopped; the next make demo goes on where it was")
        sys.exit(130)
