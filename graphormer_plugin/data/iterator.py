"""fairseq's iterator over the batches of a dataset, one for the whole training."""

import logging
import os
from typing import Any

import numpy as np
from fairseq.data.iterators import EpochBatchIterator
from numpy.typing import NDArray

from graphormer_plugin.data.dataset import GraphDataset

logger = logging.getLogger(__name__)


class GraphBatchIterator(EpochBatchIterator):
    """An iterator that keeps its data loader and its workers over all epochs.

    Differs from fairseq's in one point: where fairseq's keeps the data loader, it also
    keeps the ``shuffle`` of the first epoch, so that ``--curriculum`` never ends.
    """

    def _get_iterator_for_epoch(
        self,
        epoch: int,
        shuffle: bool,
        fix_batches_to_gpus: bool = False,
        offset: int = 0,
    ):
        if self.dataloader is not None:
            self.epoch_batch_sampler.shuffle = shuffle
        return super()._get_iterator_for_epoch(
            epoch, shuffle, fix_batches_to_gpus, offset
        )


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
    grouped_shuffling: bool = False,
    **options: Any,
) -> GraphBatchIterator:
    """An iterator that cuts new batches for every epoch and keeps its workers.

    fairseq makes a new iterator per epoch to get new batches. The workers that it
    abandons stop training for five seconds each when Python's garbage collector finds
    them.

    Args:
        dataset: a split.
        max_positions: largest graph that fits into a batch.
        ignore_invalid_inputs: leave out larger graphs, see `usable_indices`.
        **options: of fairseq's iterator; the names above are those of its tasks.

    Raises:
        ValueError: a limit below 1, or a graph that is too large.
    """
    for flag, limit in [("--batch-size", max_sentences), ("--max-tokens", max_tokens)]:
        if limit is not None and limit < 1:
            raise ValueError(f"{flag} {limit}: expected 1 or more")
    if grouped_shuffling and dataset.shuffle and num_shards > 1:
        logger.warning(
            "--grouped-shuffling leaves out up to %d batches of each epoch",
            num_shards - 1,
        )
    cores = len(os.sched_getaffinity(0))
    if num_workers > cores:  # recipes for large machines ask for 16 and more
        logger.info("--num-workers %d: %d, one per core", num_workers, cores)
        num_workers = cores

    def batches_of_epoch(dataset: GraphDataset, epoch: int) -> list[NDArray[np.int64]]:
        dataset.set_epoch(epoch)
        indices = dataset.ordered_indices()
        if max_positions is not None:
            indices = usable_indices(
                dataset, indices, max_positions, ignore_invalid_inputs
            )
        return dataset.batch_by_size(
            indices, max_tokens, max_sentences, required_batch_size_multiple
        )

    batches_of_epoch(dataset, epoch)  # raises here what the first epoch would raise
    return GraphBatchIterator(
        dataset=dataset,
        collate_fn=dataset.collater,
        batch_sampler=batches_of_epoch,
        num_shards=num_shards,
        num_workers=num_workers,
        epoch=epoch,
        buffer_size=data_buffer_size,
        grouped_shuffling=grouped_shuffling,
        reuse_dataloader=True,
        **options,
    )


def usable_indices(
    dataset: GraphDataset,
    indices: NDArray[np.int64],
    max_nodes: int,
    skip_larger: bool,
) -> NDArray[np.int64]:
    """The indices of the graphs that fit into a batch.

    A training graph that is too large is an error, although fairseq's trainer asks to
    leave it out: a training never drops a graph. Evaluation leaves larger graphs out,
    with a warning that counts them, if
    ``--skip-invalid-size-inputs-valid-test`` is given.

    Raises:
        ValueError: a graph is too large and may not be left out.
    """
    if dataset.shuffle or not skip_larger:
        dataset.check_limit(indices, int(max_nodes), "--max-tokens")
        return indices
    usable = indices[dataset.sizes[indices] <= max_nodes]
    if len(usable) < len(indices):
        logger.warning(
            "%d of %d graphs are left out: they have more nodes than --max-tokens %d",
            len(indices) - len(usable),
            len(indices),
            max_nodes,
        )
    return usable
