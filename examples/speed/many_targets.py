"""A training step with many targets, compared with one target, logs included.

    python examples/speed/many_targets.py --arch grpe_small --targets 184

fairseq's own trainer takes steps on the same batches of the `nci` molecules with both
numbers of targets in turn, and the values of a line of the log are computed after every
`--log-interval` updates, as fairseq-train does. Prints milliseconds of CPU time of a step
(medians), and their ratio.
"""

import argparse
import csv
import itertools
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.logging import metrics
from fairseq.trainer import Trainer

import graphormer_plugin
from graphormer_plugin.data.datasets.nci import nci

MOLECULES = 2048


def write_table(path: Path, targets: int) -> None:
    """Molecules with random numbers as targets."""
    smiles = nci().smiles[:MOLECULES]
    values = np.random.default_rng(1).standard_normal((len(smiles), targets)).round(4)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", *(f"y{number}" for number in range(targets))])
        writer.writerows([one, *row] for one, row in zip(smiles, values.tolist()))


class Training:
    """Updates of fairseq's trainer, with lines of its log."""

    def __init__(self, folder: Path, targets: int, arguments: list[str]) -> None:
        self.name = f"{targets} targets" if targets > 1 else "1 target"
        table = folder / f"table{targets}.csv"
        write_table(table, targets)
        parser = options.get_training_parser()
        cfg = convert_namespace_to_omegaconf(
            options.parse_args_and_arch(
                parser,
                [
                    *["--user-dir", str(Path(graphormer_plugin.__file__).parent)],
                    *["--task", "graph_prediction", "--criterion", "l1_loss"],
                    *["--dataset-name", str(table), "--target-columns", "y*"],
                    *["--optimizer", "adam", "--lr", "2e-4", "--save-dir", str(folder)],
                    *arguments,
                ],
            )
        )
        task = tasks.setup_task(cfg.task)
        model = task.build_model(cfg.model)
        self.trainer = Trainer(cfg, task, model, task.build_criterion(cfg.criterion))
        batches = self.trainer.get_train_iterator(1).next_epoch_itr(shuffle=False)
        self.samples = itertools.cycle(list(batches))
        self.interval = cfg.common.log_interval

    def update(self, number: int) -> float:
        """Seconds of CPU time of an update."""
        split, line = f"train {self.name}", f"train_inner {self.name}"
        start = time.process_time()
        with metrics.aggregate(split), metrics.aggregate(line):
            self.trainer.train_step([next(self.samples)])
        if number % self.interval == 0:
            str(metrics.get_smoothed_values(line))
            metrics.reset_meters(line)
        return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--arch", default="grpe_small")
    parser.add_argument("--targets", type=int, default=184)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--log-interval", type=int, default=1)
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    known, more = parser.parse_known_args()
    torch.set_num_threads(known.threads)
    arguments = [
        *["--arch", known.arch, "--batch-size", str(known.batch_size)],
        *["--log-interval", str(known.log_interval), *more],
    ]
    with tempfile.TemporaryDirectory() as folder:
        trainings = [
            Training(Path(folder), targets, arguments) for targets in (1, known.targets)
        ]
        seconds: dict[str, list[float]] = {one.name: [] for one in trainings}
        for number in range(known.updates + 2):  # the first two are not counted
            for training in trainings:
                seconds[training.name].append(training.update(number))
    medians = [statistics.median(times[2:]) for times in seconds.values()]
    for name, median in zip(seconds, medians):
        print(f"{name:12} {1000 * median:6.1f} ms of CPU time per step")
    print(f"ratio {medians[1] / medians[0]:.2f}")


if __name__ == "__main__":
    main()
