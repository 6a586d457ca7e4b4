"""Kills trainings, preparations, predictions and experiments at random, and compares what
comes out.

    python tests/soak/kills.py --kills 200 --aimed 50 --flips 20 --seed 1

Each round starts a run, kills it again and again with SIGKILL, starts it again each time,
and in the end lets it finish. Losses, weights, states of the optimiser, stores, predictions
and the files of experiments must be equal to those of a run that nobody disturbed, bit for
bit, and no unfinished file may be left. Some kills come after a random time. Others are
aimed at the moments of writing: after half of a write, before and after a file is
synchronised, before and after it gets its name. Between two starts, a random bit of
``checkpoint_last.pt`` may turn.

All runs are forks of this process, which has imported everything.
"""

import argparse
import builtins
import contextlib
import io
import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__":
    root = Path(__file__).resolve().parents[2]
    sys.path[:0] = [str(root), str(root / "tests")]

import torch
from fairseq_cli import train as fairseq_train

from graphormer_plugin.cli import predict, train
from graphormer_plugin.data import DatasetOptions, build, featurise, graph_features
from graphormer_plugin.inference.checkpoint import read_file
from graphormer_plugin.inference.resumable_writer import is_interrupted
from support.training import SMILES, logged, train_arguments

MODEL = "--encoder-layers 2 --max-epoch 3 --save-interval-updates 2".split()


class Moment:
    """Kills this process at the n-th moment of writing; n = 0 only counts them."""

    def __init__(self, folder: Path, n: int) -> None:
        self.folder, self.n, self.count = str(folder), n, 0

    def __call__(self) -> bool:
        """A moment passes. Returns whether it is the one before the kill."""
        self.count += 1
        return self.count == self.n

    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def around(self, function: Callable) -> Callable:
        def aimed(*arguments, **options):
            if self():
                self.die()
            result = function(*arguments, **options)
            if self():
                self.die()
            return result

        return aimed

    def opened(self, path, mode="r", *arguments, **options):
        file = OPEN(path, mode, *arguments, **options)
        ours = str(path).startswith(self.folder) and not str(path).endswith(".log")
        if ours and set(mode) & set("wa+"):
            raw = file.buffer if isinstance(file, io.TextIOWrapper) else file
            file = AimedFile(file, raw, self)
        return file

    def aim(self) -> None:
        """Replace the functions with which files are written."""
        builtins.open = self.opened
        os.fsync = self.around(os.fsync)
        os.replace = self.around(os.replace)


OPEN = builtins.open


class AimedFile:
    """A file whose writes are moments: the kill comes after half of the bytes."""

    def __init__(self, file, raw, moment: Moment) -> None:
        self.file, self.raw, self.moment = file, raw, moment

    def write(self, content):
        if self.moment():
            half = memoryview(content if self.file is self.raw else content.encode())
            self.raw.write(half.cast("B")[: half.nbytes // 2])
            self.raw.flush()
            self.moment.die()
        return self.file.write(content)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def __getattr__(self, name):
        return getattr(self.file, name)


def run(
    job, folder: Path, n: int | None = None, seconds: float = 0
) -> tuple[bool, int]:
    """Start a job in a fork and perhaps kill it.

    Args:
        job: see `soak`.
        folder: its files, which are written at the moments that count; and its log.
        n: moment of writing of the kill; 0 counts the moments, None neither.
        seconds: time of the kill; 0 for none.

    Returns:
        Whether it was killed, and how many moments it had, if they were counted.

    Raises:
        AssertionError: it ended with an error.
    """
    log = folder / "out.log"
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(file, 1)
            os.dup2(file, 2)
            moment = Moment(folder, n or 0)
            if n is not None:
                moment.aim()
            with contextlib.suppress(SystemExit):
                job.start(folder)
                code = 0
            os.write(send, str(moment.count).encode())
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    os.close(send)
    end = time.monotonic() + seconds
    while seconds and time.monotonic() < end:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            break
        time.sleep(0.002)
    else:
        if seconds:
            os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with OPEN(receive, "rb") as pipe:
        count = pipe.read()
    assert status in (0, -signal.SIGKILL), (status, log.read_text()[-3000:])
    return status != 0, int(count or 0)


class Training:
    """fairseq-train of a tiny model; resumes by itself."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.flipped = (
            None  # the bytes of the last checkpoint of which a bit has turned
        )

    def start(self, folder: Path) -> None:
        arguments = train_arguments(self.data, folder / "run", *MODEL)
        sys.argv = ["fairseq-train", *arguments]
        fairseq_train.cli_main()

    def result(self, folder: Path) -> dict:
        state = read_file(folder / "run/checkpoint_last.pt", mmap=False)
        files = os.listdir(folder / "run")
        assert not [name for name in files if name.endswith(".tmp")], files
        text = (folder / "out.log").read_text()
        keys = "loss mae gnorm num_updates".split()
        losses = {
            (tag, log[f"{tag}_num_updates"]): [log.get(f"{tag}_{key}") for key in keys]
            for tag in ("train", "valid")
            for log in logged(text, tag)
        }
        optimiser = state["last_optimizer_state"]
        return {"model": state["model"], "optimiser": optimiser, "losses": losses}

    def between(self, folder: Path, chance: random.Random, counts: Counter) -> None:
        """After a kill: the last checkpoint is whole, and a bit of it may turn."""
        last = folder / "run/checkpoint_last.pt"
        if not last.exists():
            return
        if (
            last.read_bytes() != self.flipped
        ):  # else a kill came before it was set aside
            read_file(last)
        others = set(last.parent.glob("checkpoint*.pt")) - {last}
        if others and counts["wanted flips"] > 0 and chance.random() < 0.2:
            counts["wanted flips"] -= 1
            counts["flipped bits"] += 1
            content = bytearray(last.read_bytes())
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
            self.flipped = bytes(content)
            last.write_bytes(content)


class Preparation:
    """`get_store` of a CSV with descriptors, in parts of 16 rows; goes on after the
    finished ones."""

    def __init__(self, data: Path) -> None:
        self.data = data

    def start(self, folder: Path) -> None:
        featurise.CHUNK_ROWS, featurise.PART_CHUNKS = 8, 2
        graph_features.BLOCK, graph_features.PART_ROWS = 8, 16
        options = DatasetOptions(
            name=str(self.data / "molecules.csv"),
            target_columns="length",
            descriptors=True,
            data_root=str(folder / "root"),
            progress=False,
            workers=0,
        )
        build.get_store(options)

    def result(self, folder: Path) -> dict:
        stores = folder / "root/stores"
        (store,) = [path for path in stores.iterdir() if path.name[0] != "."]
        left = [path.name for path in stores.iterdir() if path.name[:5] in (".tmp-",)]
        assert not left, left
        return {path.name: path.read_bytes() for path in store.iterdir()}

    def between(self, *_) -> None:
        pass


class Prediction:
    """graphormer-predict with embeddings, in blocks of 64 rows."""

    def __init__(self, data: Path, checkpoint: Path) -> None:
        self.data, self.checkpoint = data, checkpoint

    def start(self, folder: Path) -> None:
        predict.BLOCK_ROWS = 64
        featurise.CHUNK_ROWS = 16
        out = folder / "out.csv"
        command = [self.checkpoint, self.data / "many.csv", out, "--quiet"]
        command += ["--embeddings", folder / "e.npy", "--batch-size", 16]
        command += ["--resume"] if is_interrupted(out) or out.exists() else []
        assert predict.main([*map(str, command)]) == 0

    def result(self, folder: Path) -> dict:
        assert not [*folder.glob(".*.tmp")]
        return {name: (folder / name).read_bytes() for name in ("out.csv", "e.npy")}

    def between(self, *_) -> None:
        pass


class Experiment:
    """graphormer-train of a head."""

    def __init__(self, data: Path, checkpoint: Path) -> None:
        self.data, self.checkpoint = data, checkpoint

    def start(self, folder: Path) -> None:
        os.chdir(folder)  # the report names the folder
        command = [self.data / "molecules.csv", "--target-columns", "length"]
        command += ["--out", "model", "--model", "head", "--start", self.checkpoint]
        command += ["--trees", 3, "--quiet"]
        assert train.main([*map(str, command)]) == 0

    def result(self, folder: Path) -> dict:
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        assert not [path for path in files if path.suffix == ".tmp"], files
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in files
            if path.name != "out.log"
        }

    def between(self, *_) -> None:
        pass


def equal(one, two) -> bool:
    """Whether two results are equal, bit for bit."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, two)
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(equal(one[k], two[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(equal, one, two))
    return one == two


def soak(
    job, folder: Path, kills: int, aimed: int, flips: int, seed: int, report=print
) -> Counter:
    """Kill the runs of a job.

    Args:
        job: has ``start``, ``result`` and ``between``.
        folder: for its files.
        kills: number of kills after a random time.
        aimed: number of kills at moments of writing.
        flips: number of bits that turn, at most.
        seed: of the random choices.

    Returns:
        What happened, by kind.

    Raises:
        AssertionError: a result differs, or a run ended with an error.
    """
    chance = random.Random(seed)
    counts = Counter({"wanted flips": flips})
    whole = folder / "whole"
    whole.mkdir(parents=True)
    started = time.monotonic()
    _, moments = run(job, whole, n=0)
    duration = time.monotonic() - started
    expected = job.result(whole)
    for number in itertools.count():
        left = Counter(aimed=aimed - counts["aimed"], random=kills - counts["random"])
        if not +left:
            return counts
        here = folder / f"round{number}"
        here.mkdir()
        alive = True
        for _ in range(chance.randrange(4, 14)):
            if not +left:
                break
            kind = chance.choice([*(+left).elements()])
            n = chance.randrange(1, moments) if kind == "aimed" else None
            seconds = 0 if kind == "aimed" else chance.uniform(0.001, duration)
            killed, _ = run(job, here, n, seconds)
            if not killed:
                counts["finished before the kill"] += 1
                alive = False
                break
            counts[kind] += 1
            left[kind] -= 1
            job.between(here, chance, counts)
        if alive:
            run(job, here)
        text = (here / "out.log").read_text()
        counts["set aside"] += text.count("training goes on from")
        found = job.result(here)
        if "losses" in found:  # a kill after a checkpoint takes the line of its epoch
            found["losses"] = expected["losses"] | found["losses"]
        assert equal(found, expected), f"{here} differs from {whole}"
        counts["rounds"] += 1
        report(f"{type(job).__name__} {dict(counts)}", flush=True)
        shutil.rmtree(here)


def jobs(folder: Path) -> list:
    """The jobs and their data, in a folder; trains the model that predicts."""
    lines = ["smiles,split,length,carbons"]
    for row, smiles in enumerate(SMILES):
        split = {8: "valid", 9: "test"}.get(row % 10, "train")
        lines.append(
            f"{smiles},{split},{len(smiles)},{100 * smiles.upper().count('C')}"
        )
    (folder / "molecules.csv").write_text("\n".join(lines) + "\n")
    many = ["smiles", *(smiles for smiles in SMILES for _ in range(4)), "wrong("]
    (folder / "many.csv").write_text("\n".join(many) + "\n")
    training = Training(folder)
    model = folder / "model"
    model.mkdir()
    run(training, model)
    checkpoint = model / "run/checkpoint_best.pt"
    more = [Prediction(folder, checkpoint), Experiment(folder, checkpoint)]
    return [training, Preparation(folder), *more]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=150, help="after a random time")
    parser.add_argument("--aimed", type=int, default=60, help="at moments of writing")
    parser.add_argument("--flips", type=int, default=20, help="bits that turn, at most")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    total = Counter()
    with tempfile.TemporaryDirectory() as name:
        for share, job in zip((0.4, 0.2, 0.2, 0.2), jobs(Path(name))):
            total += soak(
                job,
                Path(name, type(job).__name__),
                round(share * arguments.kills),
                round(share * arguments.aimed),
                arguments.flips,
                arguments.seed,
            )
    print(f"every result is equal, bit for bit: {dict(total)}")


if __name__ == "__main__":
    main()
