"""Share of the training time that fairseq's trainer waits for data.

    python examples/speed/data_wait.py --arch grpe_small --num-workers 1

Trains on the `nci` molecules with fairseq's own trainer and iterators and takes the
time inside ``next(batch)`` and outside of it. The first epoch, in which the worker
starts, is shown but not counted; the start of every later epoch is. ``--num-workers 0``
collates in fairseq's buffer thread. Any option of fairseq-train may follow.
"""

import argparse
import tempfile
import time
from pathlib import Path

import torch
from fairseq import options, tasks
from fairseq.data import iterators
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer

import graphormer_plugin


def measure(trainer: Trainer, epoch_itr, update_freq: int) -> tuple[float, float, int]:
    """Seconds of waiting, seconds in all, and updates of one epoch."""
    start = time.perf_counter()
    waited, updates = 0.0, 0
    batches = epoch_itr.next_epoch_itr(shuffle=True)
    groups = iter(iterators.GroupedIterator(batches, update_freq))
    while True:
        asked = time.perf_counter()
        samples = next(groups, None)
        waited += time.perf_counter() - asked
        if samples is None:
            break
        trainer.train_step(samples)
        updates += 1
    return waited, time.perf_counter() - start, updates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--arch", default="grpe_small")
    parser.add_argument("--dataset-name", default="nci")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--num-workers", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=2, help="counted, >= 1")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    known, more = parser.parse_known_args()
    torch.set_num_threads(known.threads)

    user_dir = Path(graphormer_plugin.__file__).parent
    arguments = [
        *["--user-dir", str(user_dir), "--task", "graph_prediction"],
        *["--criterion", "l1_loss", "--arch", known.arch],
        *["--dataset-name", known.dataset_name, "--batch-size", str(known.batch_size)],
        *["--num-workers", str(known.num_workers)],
        *["--optimizer", "adam", "--lr", "2e-4", "--save-dir", tempfile.gettempdir()],
        *more,
    ]
    arguments = options.parse_args_and_arch(options.get_training_parser(), arguments)
    cfg = convert_namespace_to_omegaconf(arguments)
    task = tasks.setup_task(cfg.task)
    model = task.build_model(cfg.model)
    trainer = Trainer(cfg, task, model, task.build_criterion(cfg.criterion))
    update_freq = cfg.optimization.update_freq[0]

    waited = total = 0.0
    for epoch in range(1, known.epochs + 2):
        epoch_itr = trainer.get_train_iterator(epoch, load_dataset=epoch == 1)
        trainer.begin_epoch(epoch)
        wait, seconds, updates = measure(trainer, epoch_itr, update_freq)
        print(
            f"epoch {epoch}: {updates} updates, {seconds:.1f} s, waited {wait:.2f} s "
            f"({100 * wait / seconds:.2f} %)" + ("" if epoch > 1 else ", not counted")
        )
        if epoch > 1:
            waited, total = waited + wait, total + seconds
    print(
        f"{known.arch} on {known.dataset_name}, {known.num_workers} workers, "
        f"{known.threads} threads: waited for data {100 * waited / total:.2f} % of "
        f"{total:.1f} s"
    )


if __name__ == "__main__":
    main()
