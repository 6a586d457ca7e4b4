"""Kills trainings, preparations, predictions and experiments at random, and compares what
comes out.

    python tests/soak/kills.py --kills 200 --aimed 50 --flips 20 --seed 1

Each round starts a run, kills it again and again with SIGKILL, starts it again each time,
and in the end lets it finish. Losses, weights, states of the optimiser, stores, predictions
and the files of experiments must equal those of an undisturbed run, bit for bit, and no
unfinished file may be left. Some kills come after a random time. Others are aimed at the
moments of writing: after half of a write, before and after a file is synchronised, before
and after it gets its name. Between two starts, a random bit of ``checkpoint_last.pt`` may
turn.

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
import traceback
from collections import Counter
from pathlib import Path

if __name__ == "__main__":
    root = Path(__file__).resolve().parents[2]
    sys.path[:0] = [str(root), str(root / "tests")]

import torch
from fairseq_cli import train as fairseq_train

from graphormer_plugin.cli import _prediction, predict, train
from graphormer_plugin.data import DatasetOptions, featurise, parts
from graphormer_plugin.data.store import build
from graphormer_plugin.inference.checkpoint import read_file
from support.training import logged, train_arguments, write_molecules

MODEL = "--encoder-layers 2 --max-epoch 3 --save-interval-updates 2".split()
OPEN = builtins.open


class Moment:
    """Kills this process at the n-th moment of writing in a folder; n = 0 only counts."""

    def __init__(self, folder, n):
        self.folder, self.n, self.count = str(folder), n, 0

    def passes(self):
        """Whether the process is to die now."""
        self.count += 1
        return self.count == self.n

    def die(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def around(self, function):
        def aimed(*arguments, **options):
            if self.passes():
                self.die()
            result = function(*arguments, **options)
            if self.passes():
                self.die()
            return result

        return aimed

    def opened(self, path, mode="r", *arguments, **options):
        file = OPEN(path, mode, *arguments, **options)
        ours = str(path).startswith(self.folder) and not str(path).endswith(".log")
        return AimedFile(file, self) if ours and set(mode) & set("wa+") else file

    def aim(self):
        """Replace the functions with which files are written."""
        builtins.open = self.opened
        os.fsync = self.around(os.fsync)
        os.replace = self.around(os.replace)


class AimedFile:
    """A file whose writes are moments: the kill comes after half of the bytes."""

    def __init__(self, file, moment):
        self.file, self.moment = file, moment

    def write(self, content):
        if self.moment.passes():
            text = isinstance(self.file, io.TextIOWrapper)
            raw = self.file.buffer if text else self.file
            half = memoryview(content.encode() if text else content)
            raw.write(half.cast("B")[: half.nbytes // 2])
            raw.flush()
            self.moment.die()
        return self.file.write(content)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def __getattr__(self, name):
        return getattr(self.file, name)


def start_job(job, folder, n, send):
    """The job in a child process, which ends here."""
    code = 1
    try:
        log = os.open(folder / "out.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        moment = Moment(folder, n or 0)
        if n is not None:
            moment.aim()
        with contextlib.suppress(SystemExit):
            job.start(folder)
            code = 0
        os.write(send, str(moment.count).encode())
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def run(job, folder, n=None, seconds=0.0):
    """Start a job in a fork and perhaps kill it.

    Args:
        job: one of `jobs`.
        folder: for its files, which are written at the moments that count, and its log.
        n: moment of writing of the kill; 0 counts the moments, None neither.
        seconds: time of the kill; 0 for none.

    Returns:
        Whether it was killed, and its number of moments if they were counted.

    Raises:
        AssertionError: it ended with an error.
    """
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        start_job(job, folder, n, send)
    os.close(send)
    end = time.monotonic() + seconds
    if seconds:
        ended = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while not os.waitid(os.P_PID, child, ended) and time.monotonic() < end:
            time.sleep(0.002)
        os.kill(child, signal.SIGKILL)  # a child that has ended keeps its status
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with OPEN(receive, "rb") as pipe:
        count = pipe.read()
    log = (folder / "out.log").read_text()
    assert status in (0, -signal.SIGKILL), (status, log[-3000:])
    return status != 0, int(count or 0)


class Job:
    def __init__(self, data, checkpoint=None):
        self.data, self.checkpoint = data, checkpoint

    def between(self, folder, chance, counts):
        """Called after a kill."""


class Training(Job):
    """fairseq-train of a tiny model; resumes by itself."""

    flipped = None  # bytes of the last checkpoint after a bit has turned

    def start(self, folder):
        sys.argv = ["", *train_arguments(self.data, folder / "run", *MODEL)]
        fairseq_train.cli_main()

    def result(self, folder):
        assert not [*(folder / "run").glob("*.tmp")]
        state = read_file(folder / "run/checkpoint_last.pt", mmap=False)
        text = (folder / "out.log").read_text()
        keys = "loss mae gnorm num_updates".split()
        losses = {
            (tag, log[f"{tag}_num_updates"]): [log.get(f"{tag}_{key}") for key in keys]
            for tag in ("train", "valid")
            for log in logged(text, tag)
        }
        optimiser = state["last_optimizer_state"]
        return {"model": state["model"], "optimiser": optimiser, "losses": losses}

    def between(self, folder, chance, counts):
        """The last checkpoint is whole, and a bit of it may turn."""
        last = folder / "run/checkpoint_last.pt"
        if not last.exists():
            return
        content = bytearray(last.read_bytes())
        if content != self.flipped:  # else a kill came before it was set aside
            read_file(last)
        others = set(last.parent.glob("checkpoint*.pt")) - {last}
        if others and counts["wanted flips"] > 0 and chance.random() < 0.2:
            counts["wanted flips"] -= 1
            counts["flipped bits"] += 1
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
            self.flipped = bytes(content)
            last.write_bytes(content)


class Preparation(Job):
    """`get_store` of a CSV with descriptors, in parts of 16 rows; goes on after the
    finished ones."""

    def start(self, folder):
        featurise.CHUNK_ROWS, parts.PART_PIECES = 8, 2
        options = DatasetOptions(
            name=str(self.data / "molecules.csv"),
            target_columns="length",
            descriptors=True,
            data_root=str(folder / "root"),
            progress=False,
            workers=0,
        )
        build.get_store(options)

    def result(self, folder):
        (store,) = (folder / "root/stores").glob("[!.]*")
        assert not [*store.parent.glob(".tmp-*")]
        return {path.name: path.read_bytes() for path in store.iterdir()}


class Prediction(Job):
    """graphormer-predict with embeddings, in blocks of 64 rows."""

    def start(self, folder):
        _prediction.BLOCK_ROWS, featurise.CHUNK_ROWS = 64, 16
        out = folder / "out.csv"
        command = [self.checkpoint, self.data / "many.csv", out, "--quiet"]
        command += ["--embeddings", folder / "e.npy", "--batch-size", 16]
        assert out.exists() or predict.main([*map(str, command)]) == 0

    def result(self, folder):
        assert not [*folder.glob(".*.tmp")]
        return {name: (folder / name).read_bytes() for name in ("out.csv", "e.npy")}


class Experiment(Job):
    """graphormer-train of a head."""

    def start(self, folder):
        os.chdir(folder)  # the report names the folder
        command = f"""{self.data}/molecules.csv --target-columns length --out model
            --model head --start {self.checkpoint} --trees 3 --quiet"""
        assert train.main(command.split()) == 0

    def result(self, folder):
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        assert not [path for path in files if path.suffix == ".tmp"], files
        return {path: path.read_bytes() for path in files if path.name != "out.log"}


def equal(one, two):
    """Whether two results are equal, bit for bit."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, two)
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(equal(one[k], two[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(equal, one, two))
    return one == two


def soak(job, folder, kills, aimed, flips, seed):
    """Kill the runs of a job.

    Args:
        job: one of `jobs`.
        folder: for its files.
        kills: number of kills after a random time.
        aimed: number of kills at moments of writing.
        flips: number of bits that turn, at most.
        seed: of the random choices.

    Returns:
        Numbers of kills, flips and rounds.

    Raises:
        AssertionError: a result differs, or a run ended with an error.
    """
    chance, counts = random.Random(seed), Counter({"wanted flips": flips})
    here, started = folder / "run", time.monotonic()
    here.mkdir(parents=True)
    _, moments = run(job, here, n=0)
    duration = time.monotonic() - started
    expected = job.result(here)
    for _ in itertools.count():
        left = Counter(aimed=aimed - counts["aimed"], random=kills - counts["random"])
        if not +left:
            return counts
        shutil.rmtree(here)
        here.mkdir()
        killed = True
        for _ in range(chance.randrange(4, 14)):
            if not (killed and +left):
                break
            kind = chance.choice([*(+left).elements()])
            if kind == "aimed":
                killed, _ = run(job, here, chance.randrange(1, moments))
            else:
                killed, _ = run(job, here, seconds=chance.uniform(0.001, duration))
            counts[kind if killed else "finished before the kill"] += 1
            left[kind] -= killed
            if killed:
                job.between(here, chance, counts)
        if killed:
            run(job, here)
        text = (here / "out.log").read_text()
        counts["set aside"] += text.count("training goes on from")
        result = job.result(here)
        if "losses" in result:  # a kill after a checkpoint takes the line of its epoch
            result["losses"] = expected["losses"] | result["losses"]
        assert equal(result, expected), f"{here} differs from an undisturbed run"
        counts["rounds"] += 1
        print(f"{type(job).__name__} {dict(counts)}", flush=True)


def jobs(folder):
    """The jobs and their data, in a folder; trains the model that predicts."""
    lines = write_molecules(folder).joinpath("molecules.csv").read_text().splitlines()
    many = [line.partition(",")[0] for line in lines for _ in range(4)]
    (folder / "many.csv").write_text("\n".join([*many[3:], "wrong("]) + "\n")
    training, model = Training(folder), folder / "model"
    model.mkdir()
    run(training, model)
    checkpoint = model / "run/checkpoint_best.pt"
    more = [kind(folder, checkpoint) for kind in (Preparation, Prediction, Experiment)]
    return [training, *more]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=150, help="after a random time")
    parser.add_argument("--aimed", type=int, default=60, help="at moments of writing")
    parser.add_argument("--flips", type=int, default=20, help="bits that turn, at most")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(1)
    total = Counter()
    with tempfile.TemporaryDirectory() as name:
        for share, job in zip((0.4, 0.2, 0.2, 0.2), jobs(Path(name))):
            kills, aimed = round(share * given.kills), round(share * given.aimed)
            folder = Path(name, type(job).__name__)
            total += soak(job, folder, kills, aimed, given.flips, given.seed)
    print(f"every result is equal, bit for bit: {dict(total)}")


if __name__ == "__main__":
    main()
