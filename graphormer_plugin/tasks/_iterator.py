"""fairseq's iterator over the batches of a dataset, one for the whole training."""

import contextlib
import logging
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from fairseq.data.data_utils import numpy_seed
from fairseq.data.iterators import CountingIterator, EpochBatchIterator
from numpy.typing import NDArray

from graphormer_plugin.choices import check_least
from graphormer_plugin.data.batches.buckets import cut_batches
from graphormer_plugin.tasks._dataset import EpochBatch, GraphDataset

logger = logging.getLogger(__name__)

Errors = Callable[[], contextlib.AbstractContextManager[Any]]


class GuardedIterator(CountingIterator):
    """Batches, each built within a context manager that handles exceptions."""

    errors: Errors

    def __next__(self) -> dict[str, Any]:
        with self.errors():
            return super().__next__()


class GraphBatchIterator(EpochBatchIterator):
    """An iterator that keeps its data loader and its workers over all epochs.

    Differs from fairseq's in four points. Batches name their epoch. Where fairseq's keeps
    the data loader, it also keeps the ``shuffle`` of the first epoch, so that
    ``--curriculum`` never ends. In training the batches of an update, of all processes,
    stay together: updates are shuffled, and have the same graphs whatever the number of
    processes is. ``errors`` handles exceptions while a batch is built. ``update_freq``
    gives the batches of one process in an update of an epoch; without it, batches are
    shuffled one by one.
    """

    def __init__(
        self,
        *,
        update_freq: Callable[[int], int] | None = None,
        errors: Errors = contextlib.nullcontext,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.update_freq = update_freq
        self.errors = errors

    @property
    def first_batch(self) -> dict[str, Any]:
        """A batch for a process that has none; see fairseq's trainer."""
        with self.errors():
            batch = next(filter(len, self.frozen_batches))
            return self.collate_fn(EpochBatch(batch, self.epoch))

    def ordered_batches(
        self, epoch: int, fix_batches_to_gpus: bool, shuffle: bool
    ) -> list[EpochBatch]:
        """The batches of this process."""
        if self.update_freq is None:
            batches = super().ordered_batches(epoch, fix_batches_to_gpus, shuffle)
        else:
            batches = [
                batch
                for update in self._updates(epoch, shuffle)
                for batch in update[self.shard_id :: self.num_shards]
            ]
        return [EpochBatch(batch, epoch) for batch in batches]

    def _updates(self, epoch: int, shuffle: bool) -> list[Any]:
        """Batches of each update of an epoch, of all processes."""
        batches = self.frozen_batches
        size = self.update_freq(epoch) * self.num_shards
        updates = [batches[i : i + size] for i in range(0, len(batches), size)]
        if shuffle:
            with numpy_seed(self.seed + epoch):
                np.random.shuffle(updates)
        return updates

    def _graphs_after(self, epoch: int, shuffle: bool) -> NDArray[np.int64]:
        """Graphs of an epoch after each of its updates."""
        updates = self._updates(epoch, shuffle)
        return np.cumsum([sum(map(len, update)) for update in updates])

    def state_dict(self) -> dict[str, Any]:
        """fairseq's, with ``update_freq`` and the number of ``graphs`` of all updates."""
        state = super().state_dict()
        if self.update_freq is not None:
            freq = state["update_freq"] = self.update_freq(state["epoch"])
            updates = state["iterations_in_epoch"] // freq
            graphs = self._graphs_after(state["epoch"], state["shuffle"])
            state["graphs"] = int(graphs[updates - 1]) if updates else 0
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on after the last update.

        If an update has as many graphs as before, the same updates follow, on any number of
        processes and with any ``--update-freq``. Otherwise the epoch goes on after the same
        number of graphs, rounded down to whole updates. Some graphs of the epoch then come
        twice, and others not at all.
        """
        if self.update_freq is None or not state_dict.get("iterations_in_epoch"):
            super().load_state_dict(state_dict)
            return
        epoch = state_dict["epoch"]
        seen = state_dict["graphs"]
        updates = state_dict["iterations_in_epoch"] // state_dict["update_freq"]
        graphs = self._graphs_after(epoch, state_dict["shuffle"])
        if updates > len(graphs) or graphs[updates - 1] != seen:
            updates = int(np.searchsorted(graphs, seen, side="right"))
            logger.warning(
                "updates have other sizes than before: epoch %d goes on after %d graphs, "
                "where %d were trained on",
                epoch,
                graphs[updates - 1] if updates else 0,
                seen,
            )
        position = updates * self.update_freq(epoch)
        super().load_state_dict({**state_dict, "iterations_in_epoch": position})

    def _get_iterator_for_epoch(
        self, epoch: int, shuffle: bool, *rest: Any, **more: Any
    ):
        if self.dataloader is not None:
            self.epoch_batch_sampler.shuffle = shuffle
        iterator = super()._get_iterator_for_epoch(epoch, shuffle, *rest, **more)
        if iterator is not None:
            iterator.__class__ = GuardedIterator
            iterator.errors = self.errors
        return iterator


def batch_iterator(
    dataset: GraphDataset,
    *,
    max_tokens: int | None = None,
    max_sentences: int | None = None,
    max_positions: int | None = None,
    ignore_invalid_inputs: bool = False,
    required_batch_size_multiple: int = 1,
    num_shards: int = 1,
    num_workers: int = 0,
    epoch: int = 1,
    data_buffer_size: int = 0,
    max_pairs: int | None = None,
    update_freq: Callable[[int], int] | None = None,
    errors: Errors = contextlib.nullcontext,
    **options: Any,
) -> GraphBatchIterator:
    """An iterator that cuts new batches for every epoch and keeps its workers.

    fairseq makes a new iterator per epoch to get new batches. The workers that it
    abandons stop training for five seconds each when Python's garbage collector finds
    them. fairseq also drops the last batch of an epoch if its size is not a multiple of
    ``--required-batch-size-multiple`` (8 by default); here that multiple shortens full
    batches only.

    ``max_positions`` is not read: fairseq puts ``max_tokens`` into it in training only.
    """
    check_least("--batch-size", max_sentences, 1)
    check_least("--max-tokens", max_tokens, 1)
    check_least("--max-pairs", max_pairs, 1)
    check_least("--num-workers", num_workers, 0)
    cores = len(os.sched_getaffinity(0))
    if num_workers > cores:  # recipes for large machines ask for 16 and more
        logger.info("--num-workers %d: %d, one per core", num_workers, cores)
        num_workers = cores

    def _batches(number: int) -> list[NDArray[np.int64]]:
        indices = dataset.ordered_indices(number)
        for limit, flag in ((max_tokens, "--max-tokens"), (max_pairs, "--max-pairs")):
            if limit is not None:
                indices = dataset.within(indices, limit, flag, ignore_invalid_inputs)
        parts = update_freq(number) * num_shards if update_freq else 1
        cuts = cut_batches(
            indices,
            dataset.sizes,
            max_graphs=max_sentences,
            max_nodes=max_tokens,
            max_pairs=max_pairs,
            multiple=required_batch_size_multiple,
            parts=parts,
        )
        # Batches of an update follow each other, empty ones first: fairseq's trainer drops
        # the counts of an update of a process whose last batch is empty.
        return [part for cut in cuts for part in np.array_split(cut, parts)[::-1]]

    first = [_batches(epoch)]  # errors of the first epoch are raised here

    def _batch_sampler(_: GraphDataset, number: int) -> list[NDArray[np.int64]]:
        return first.pop() if number == epoch and first else _batches(number)

    return GraphBatchIterator(
        dataset=dataset,
        collate_fn=dataset.collate,
        batch_sampler=_batch_sampler,
        num_shards=num_shards,
        num_workers=num_workers,
        epoch=epoch,
        buffer_size=data_buffer_size,
        reuse_dataloader=True,
        update_freq=update_freq,
        errors=errors,
        **options,
    )
