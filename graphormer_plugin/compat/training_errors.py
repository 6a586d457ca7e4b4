"""End a training in a single line where its loss is not finite or its memory is full."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from fairseq.trainer import Trainer
from numpy.typing import NDArray
from torch import distributed as dist

from graphormer_plugin.compat.one_line_errors import one_line_errors
from graphormer_plugin.data.batches.buckets import describe_graphs
from graphormer_plugin.data.errors import is_out_of_memory
from graphormer_plugin.data.files import atomic_write
from graphormer_plugin.processes import several_processes

NON_FINITE_GRAPHS = "nonfinite_loss.npz"


def guarded(step: Callable[..., Any]) -> Callable[..., Any]:
    """A step of the trainer, for a batch or the batches of an update, that names the batch
    where a loss is not finite or memory is full."""

    def _step(trainer: Trainer, samples: Any, *args: Any, **options: Any) -> Any:
        try:
            return step(trainer, samples, *args, **options)
        except (FloatingPointError, MemoryError, RuntimeError) as error:
            stop = isinstance(error, FloatingPointError)
            if not stop and not is_out_of_memory(error):
                raise
            batches = [samples] if isinstance(samples, dict) else samples
            graphs = np.concatenate([batch["id"].cpu() for batch in batches if batch])
            with one_line_errors():
                if stop:
                    text = stopped_at(trainer, graphs, error)
                else:
                    sizes = trainer.task.store.sizes
                    text = (
                        f"out of memory in a batch of {describe_graphs(graphs, sizes)}"
                    )
                raise ValueError(text) from error

    return _step


def stopped_at(trainer: Trainer, graphs: NDArray[np.int64], error: Exception) -> str:
    """Write the graphs of an update that has no finite loss or gradient.

    The file ``nonfinite_loss.npz`` in ``--save-dir`` (``nonfinite_loss.npz.<rank>`` with
    several processes) has the columns of a store, with the fields that are kept beside it,
    and ``id``, ``row`` and ``target``. ``np.load`` reads it without pickle. Returns a message
    for the user.
    """
    task = trainer.task
    columns = task.collator.graphs(graphs)
    columns |= {"id": graphs, "row": task.store.rows(graphs)}
    rank = f".{dist.get_rank()}" if several_processes() else ""
    path = Path(trainer.cfg.checkpoint.save_dir, NON_FINITE_GRAPHS + rank)
    with atomic_write(path) as file:
        np.savez(file, **columns)
    text = " ".join(str(error).split())
    return (
        f"training stops at update {trainer.get_num_updates() + 1}: {text}; its batch has "
        f"{describe_graphs(graphs, task.store.sizes)}, which are written to {path}. A "
        "smaller --lr or --clip-norm may help"
    )
