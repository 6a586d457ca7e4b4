"""fairseq's view of a split: true sizes, size buckets, seeded shuffling."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from fairseq.data import FairseqDataset
from numpy.typing import NDArray
from torch.utils._pytree import tree_map
from torch.utils.data import get_worker_info

from graphormer_plugin.data.batches.buckets import (
    BUCKET_RATIO,
    bucket_of_sizes,
    bucketed_order,
    describe_graphs,
)
from graphormer_plugin.data.batches.collator import GraphCollator
from graphormer_plugin.data.columns import is_missing
from graphormer_plugin.data.errors import SHARED_MEMORY, counted
from graphormer_plugin.data.graphs.featurisers import featuriser_named
from graphormer_plugin.data.graphs.seen import (
    unseen_categories,
    unseen_line,
)
from graphormer_plugin.data.schema import FeatureSchema
from graphormer_plugin.data.store.sharded_store import Stores
from graphormer_plugin.data.store.translate import translate_columns

logger = logging.getLogger(__name__)


def in_shared_memory(batch: Any) -> Any:
    """A batch whose tensors are in the memory that processes share, where the queue of a data
    worker would move them. OSError if that memory is full: the queue's thread would lose the
    batch, for which the training would wait forever."""
    try:
        return tree_map(lambda x: x.share_memory_() if torch.is_tensor(x) else x, batch)
    except RuntimeError as error:
        if "shared memory" not in str(error):
            raise
        advice = "is full; free it, or give --num-workers 0"
        raise OSError(
            f"{SHARED_MEMORY}, where data workers put batches, {advice}"
        ) from None


class EpochBatch(NamedTuple):
    """Positions of the graphs of a batch in their split, and the epoch. A data worker lives
    through all epochs, and knows only what comes with the batch."""

    positions: Sequence[int] | NDArray[np.int64]
    epoch: int


@dataclass(eq=False)
class GraphDataset(FairseqDataset):
    """One split of a graph store: its graphs ``[n]`` among those of ``all_sizes`` ``[G]``.

    Items are positions in the split, which the collator turns into batches. Order and batches
    depend on seed and epoch only if it is to ``shuffle``: graphs are shuffled within size
    buckets (`bucket_of_sizes`), batches are cut along the buckets, and fairseq's iterator
    shuffles the batches. A resumed run therefore sees the batches of an uninterrupted one.
    Otherwise graphs are sorted by size. Errors of a graph name the ``source`` of the graphs.
    """

    graph_ids: NDArray[np.int64]
    all_sizes: NDArray[np.integer]
    collator: GraphCollator
    _: KW_ONLY
    shuffle: bool = False
    seed: int = 1
    bucket_ratio: float = BUCKET_RATIO
    split: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        self.graph_ids = np.array(self.graph_ids, dtype=np.int64)
        self.sizes = self.all_sizes[self.graph_ids].astype(np.int64)

    @property
    def buckets(self) -> NDArray[np.integer]:
        """Number of the size bucket of each position."""
        return bucket_of_sizes(self.sizes, self.bucket_ratio)

    def __len__(self) -> int:
        return len(self.graph_ids)

    def __getitem__(self, index: int) -> int:
        return index

    def __getitems__(self, batch: EpochBatch) -> EpochBatch:
        """torch's data loader calls this once per batch instead of once per graph."""
        return batch

    def collate(self, batch: EpochBatch) -> dict[str, Any]:
        """`collater` of what torch's data loader has."""
        return self.collater(*batch)

    def collater(self, samples: Sequence[int], epoch: int = 1) -> dict[str, Any]:
        """Batch of the given positions of the split in an epoch; see `GraphCollator`."""
        graphs = self.graph_ids[np.asarray(samples, dtype=np.int64)]
        try:
            batch = self.collator(graphs, self.split, epoch if self.shuffle else 0)
            return batch if get_worker_info() is None else in_shared_memory(batch)
        except MemoryError:
            batch = describe_graphs(graphs, self.all_sizes)
            text = f"out of memory in a batch of {batch}"
            raise MemoryError(text) from None
        except ValueError as error:
            raise ValueError(f"{self.source}: {error}") from error

    def ordered_indices(self, epoch: int = 1) -> NDArray[np.int64]:
        """Positions in the order in which batches of an epoch are cut."""
        if not self.shuffle:
            return np.argsort(self.sizes, kind="stable")
        return bucketed_order(self.sizes, self.seed, epoch, self.bucket_ratio)

    def within(
        self,
        indices: NDArray[np.int64],
        limit: int,
        option: str,
        skip_larger: bool = False,
    ) -> NDArray[np.int64]:
        """Positions of the graphs that fit into a batch: nodes, or pairs of nodes for
        ``--max-pairs``, are within the limit of an option.

        A training graph that is too large is an error, although fairseq's trainer asks to
        leave it out: a training never drops a graph. An evaluation may ``skip_larger`` graphs,
        with a warning (``--skip-invalid-size-inputs-valid-test``).
        """
        pairs = option == "--max-pairs"
        cost = self.sizes[indices] ** (2 if pairs else 1)
        fits = cost <= limit
        if fits.all():
            return indices
        larger = f"{int((~fits).sum())} of {len(cost)} graphs"
        if skip_larger and not self.shuffle:
            unit = "pairs of nodes" if pairs else "nodes"
            if not fits.any():
                raise ValueError(f"all graphs have more {unit} than {option} {limit}")
            text = "%s are left out: they have more %s than %s %d"
            logger.warning(text, larger, unit, option, limit)
            return indices[fits]
        worst = int(indices[cost.argmax()])
        raise ValueError(
            f"graph {self.graph_ids[worst]} has {self.sizes[worst]} nodes"
            f"{f', {cost.max()} pairs' if pairs else ''}, more than "
            f"{option} {limit} ({larger} are larger); raise {option}"
        )


def dataset_of_split(
    store: Stores,
    split: str,
    collator: GraphCollator,
    *,
    name: str,
    seed: int = 1,
    bucket_ratio: float = BUCKET_RATIO,
    max_nodes: int | None = None,
) -> GraphDataset:
    """The dataset of a split, shuffled for ``train`` only; see `GraphDataset`. ValueError for
    an unknown or empty split, and for a graph above ``max_nodes``."""
    if split not in store.splits:
        raise ValueError(
            f"unknown split '{split}' of {name}, "
            f"expected {'|'.join(sorted(store.splits))}"
        )
    graph_ids = store.splits[split]
    if len(graph_ids) == 0:
        raise ValueError(f"split '{split}' of {name} is empty")
    if split != "train" and is_missing(store.labels(graph_ids)).all():
        logger.warning(
            "split '%s' of %s has no labels: its metrics are undefined", split, name
        )
    order = {"shuffle": split == "train", "seed": seed, "bucket_ratio": bucket_ratio}
    names = {"split": split, "source": str(store.path)}
    dataset = GraphDataset(graph_ids, store.sizes, collator, **names, **order)
    if max_nodes is not None:
        dataset.within(np.arange(len(dataset)), max_nodes, "--max-nodes")
    return dataset


def molecules_of(store: Stores, split: str) -> NDArray[np.uint64]:
    """`molecule_key` of each molecule of a split; none where the store has only graphs."""
    parts = [
        part.columns["molecule"][part.graphs_in(split)]
        for part in store.stores
        if "molecule" in part.columns
    ]
    return np.concatenate([np.empty(0, np.uint64), *parts])


def warn_of_unseen(store: Stores, split: str, schema: FeatureSchema, name: str) -> None:
    """Warn of graphs of a split with categories that no training graph has."""
    counts: Counter[str] = Counter()
    for part in store.stores:
        ids = part.graphs_in(split)
        columns = translate_columns(part, schema.unscaled(), name)
        raw = {*columns} & {"graph_features"}  # translated ones are cut
        columns |= {name: part.columns[name] for name in raw}
        reader = featuriser_named(store.featuriser)
        counts += unseen_categories(columns, ids, schema, reader)
    if line := unseen_line(counts):
        logger.warning("split %s: %s", split, line)


def warn_of_fitted(store: Stores, split: str, trained_on: Mapping[str, Any]) -> None:
    """Warn of graphs of a split that a checkpoint was fitted to; ``trained_on`` is its
    `GraphPredictionTask.state_dict`, or empty."""
    keys = np.frombuffer(bytes.fromhex(trained_on.get("molecules", "")), np.uint64)
    count = int(np.isin(molecules_of(store, split), keys).sum())
    if split == "train" and trained_on.get("fingerprint") == store.fingerprint:
        count = len(store.splits[split])
    if count:
        logger.warning(
            "the checkpoint was fitted to %s of split %s: their errors are smaller than "
            "those of new graphs",
            counted(count, "graph"),
            split,
        )
