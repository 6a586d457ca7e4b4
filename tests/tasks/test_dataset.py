"""Batches of a split: every graph once, seeded, sized, nothing dropped."""

import numpy as np
import pytest
import torch

from graphormer_plugin.data.batches.buckets import bucket_of_sizes, cut_batches
from graphormer_plugin.tasks._dataset import GraphDataset, in_shared_memory
from graphormer_plugin.tasks._iterator import batch_iterator

SIZES = np.random.default_rng(0).integers(1, 60, size=501).astype(np.int32)


class RowCollator:
    """Stands in for `GraphCollator`: the rows themselves."""

    def __call__(self, rows, split, epoch):
        return {} if len(rows) == 0 else {"id": rows.tolist(), "epoch": epoch}


def make(shuffle=True, seed=1, ratio=0.1, rows=None, sizes=SIZES):
    rows = np.arange(len(sizes)) if rows is None else rows
    return GraphDataset(
        rows, sizes, RowCollator(), shuffle=shuffle, seed=seed, bucket_ratio=ratio
    )


def batches_of(dataset, epoch=1, **limits):
    return list(batch_iterator(dataset, epoch=epoch, **limits).frozen_batches)


def test_batches_of_data_workers_are_in_shared_memory(monkeypatch):
    batch = {"id": torch.arange(3), "net_input": {"x": torch.ones(2)}, "nsamples": 3}
    shared = in_shared_memory(batch)
    assert shared["net_input"]["x"].is_shared() and shared["nsamples"] == 3
    assert shared["id"].tolist() == [0, 1, 2]

    def full(tensor):
        raise RuntimeError("unable to allocate shared memory(shm) for file </torch_1>")

    monkeypatch.setattr(torch.Tensor, "share_memory_", full)
    with pytest.raises(OSError, match="/dev/shm, .* is full; free it"):
        in_shared_memory(batch)


def test_errors_name_the_store():
    """As of a store that was changed in place."""

    def collator(rows, split, epoch):
        raise ValueError("edge_src of graph 3 holds 200")

    with pytest.raises(ValueError, match="data/store: edge_src of graph 3"):
        GraphDataset([3], SIZES, collator, source="data/store").collater([0])


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize(
    "limits",
    [
        {"max_sentences": 32},
        {"max_sentences": 7, "required_batch_size_multiple": 8},
        {"max_tokens": 500, "required_batch_size_multiple": 8},
        {"max_tokens": 60, "max_sentences": 3},
        {"max_tokens": 10**9, "required_batch_size_multiple": 8},
    ],
)
def test_every_graph_is_in_exactly_one_batch(shuffle, limits):
    batches = batches_of(make(shuffle), **limits)
    together = np.concatenate(batches)
    assert sorted(together.tolist()) == list(range(len(SIZES)))
    for batch in batches:
        assert len(batch) > 0
        assert len(batch) <= limits.get("max_sentences", len(SIZES))
        padded = len(batch) * SIZES[batch].max()
        assert padded <= limits.get("max_tokens", padded)


def test_full_batches_are_multiples_and_the_rest_is_kept():
    limits = {"max_sentences": 100, "required_batch_size_multiple": 8}
    counts = [len(b) for b in batches_of(make(), **limits)]
    assert counts == [96] * 5 + [21]


@pytest.mark.parametrize("max_tokens, graphs", [(205, 20), (40, 4)])
def test_max_tokens_fills_batches(max_tokens, graphs):
    batches = batches_of(make(sizes=np.full(100, 10)), max_tokens=max_tokens)
    assert [len(batch) for batch in batches] == [graphs] * (100 // graphs)


def test_pairs_limit_batches_and_a_large_graph_is_alone():
    order, sizes = np.array([3, 1, 0, 2, 4]), np.array([4, 3, 9, 2, 1])
    batches = cut_batches(order, sizes, max_pairs=48, max_graphs=4)
    # 2, 3 and 4 nodes: 3 graphs of 16 pairs; 81 pairs alone; the rest.
    assert [batch.tolist() for batch in batches] == [[3, 1, 0], [2], [4]]


def test_training_order_depends_on_seed_and_epoch_only():
    def order(seed, epoch):
        return make(seed=seed).ordered_indices(epoch).tolist()

    first = order(1, 1)
    np.random.seed(123)  # whatever others draw does not matter
    assert order(1, 1) == first
    assert order(1, 2) != first
    assert order(2, 1) != first


def test_buckets_are_shuffled_within_and_hold_similar_sizes():
    dataset = make()
    one, two = (batches_of(dataset, e, max_sentences=16) for e in (1, 2))
    assert {tuple(sorted(b)) for b in one} != {tuple(sorted(b)) for b in two}
    for batch in one:
        assert (np.diff(dataset.buckets[batch]) >= 0).all()
    without = batches_of(make(ratio=np.inf), max_sentences=16)
    padded = [sum(len(b) * SIZES[b].max() for b in many) for many in (one, without)]
    assert padded[0] < 1.12 * SIZES.sum() and padded[1] > 1.5 * SIZES.sum()


def test_validation_order_is_stable():
    dataset = make(shuffle=False)
    order = dataset.ordered_indices()
    assert (dataset.ordered_indices(7) == order).all()
    assert (np.diff(SIZES[order]) >= 0).all()


def test_bucket_edges():
    sizes = np.array([1, 1, 10, 11, 12, 100, 109, 111])
    assert bucket_of_sizes(sizes, 0.1).tolist() == [0, 0, 1, 1, 2, 3, 3, 4]
    assert bucket_of_sizes(sizes, 0).tolist() == [0, 0, 1, 2, 3, 4, 5, 6]
    assert set(bucket_of_sizes(sizes, np.inf).tolist()) == {0}
    assert bucket_of_sizes(np.array([0, 0, 3]), 0.1).tolist() == [0, 0, 1]
    assert bucket_of_sizes(np.array([], dtype=int), 0.1).tolist() == []


@pytest.fixture
def epoch_iterator():
    """Makes iterators, and ends their workers.

    Left to the garbage collector, each worker would take five seconds to end.
    """
    made = []

    def make_iterator(dataset, epoch=1, workers=0, shards=1, shard=0):
        options = dict(max_sentences=32, seed=1, epoch=epoch, num_workers=workers)
        iterator = batch_iterator(dataset, num_shards=shards, shard_id=shard, **options)
        made.append(iterator)
        return iterator

    yield make_iterator
    for iterator in made:
        if iterator.num_workers and iterator.dataloader is not None:
            iterator.dataloader._iterator._shutdown_workers()


def rows_of(running):
    return [tuple(batch.get("id", ())) for batch in running]


@pytest.mark.parametrize("workers", [0, 1])
def test_one_iterator_cuts_new_batches_for_every_epoch(epoch_iterator, workers):
    iterator = epoch_iterator(make(), workers=workers)
    epochs = [rows_of(iterator.next_epoch_itr(shuffle=True)) for _ in range(3)]
    assert iterator.epoch == 3
    for batches in epochs:
        assert sorted(i for b in batches for i in b) == list(range(len(SIZES)))
    assert len({frozenset(batches) for batches in epochs}) == 3
    # a run that starts at the third epoch sees the same
    late = epoch_iterator(make(), epoch=3)
    assert rows_of(late.next_epoch_itr(shuffle=True)) == epochs[2]


@pytest.mark.parametrize("workers", [0, 1])
def test_resuming_inside_an_epoch_continues_its_batches(epoch_iterator, workers):
    iterator = epoch_iterator(make(), epoch=3, workers=workers)
    running = iterator.next_epoch_itr(shuffle=True)
    for _ in range(5):
        next(running)
    state = iterator.state_dict()
    rest = rows_of(running)
    fourth = rows_of(iterator.next_epoch_itr(shuffle=True))

    resumed = epoch_iterator(make(), epoch=state["epoch"], workers=workers)
    resumed.load_state_dict(state)
    assert rows_of(resumed.next_epoch_itr(shuffle=True)) == rest
    assert rows_of(resumed.next_epoch_itr(shuffle=True)) == fourth


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_batches_are_of_their_epoch(epoch_iterator, workers):
    def epochs(iterator):
        return {batch["epoch"] for batch in iterator.next_epoch_itr(shuffle=True)}

    iterator = epoch_iterator(make(), workers=workers)
    assert iterator.first_batch["epoch"] == 1
    assert [epochs(iterator) for _ in range(3)] == [{1}, {2}, {3}]
    state = iterator.state_dict()
    resumed = epoch_iterator(make(), epoch=state["epoch"], workers=workers)
    resumed.load_state_dict(state)
    assert [epochs(resumed) for _ in range(2)] == [{4}, {5}]
    evaluated = epoch_iterator(make(shuffle=False), workers=workers)
    assert [epochs(evaluated) for _ in range(2)] == [{0}, {0}]


def training_iterator(freq=1, size=1, **options):
    dataset = make(sizes=np.full(20, 3, np.int32))
    options |= {"max_sentences": size, "update_freq": lambda epoch: freq}
    return batch_iterator(dataset, seed=1, **options)


def test_empty_batches_of_an_update_come_first():
    batches = training_iterator(freq=3, size=3).frozen_batches
    assert [len(batch) for batch in batches] == [3] * 6 + [0, 1, 1]


def interrupted(updates, freq=1, size=1):
    """An iterator after some updates, and its state."""
    iterator = training_iterator(freq, size)
    running = iterator.next_epoch_itr()
    for _ in range(updates * freq):
        next(running)
    return running, iterator.state_dict()


@pytest.mark.parametrize(
    "updates, before, after, left",
    [
        (15, (1, 1), (1, 1), 5),
        (15, (1, 1), (2, 1), 6),
        (15, (1, 1), (1, 2), 6),
        (4, (1, 1), (1, 4), 16),
        (3, (1, 1), (1, 4), 20),  # less than an update: from the start
        (3, (2, 2), (1, 4), 8),
        (3, (1, 5), (1, 1), 5),
        (1, (1, 10), (2, 5), 10),
    ],
)
def test_an_epoch_goes_on_with_other_updates(updates, before, after, left):
    running, state = interrupted(updates, *before)
    resumed = training_iterator(*after)
    resumed.load_state_dict(state)
    rest = rows_of(resumed.next_epoch_itr())
    assert resumed.epoch == 1 and sum(map(len, rest)) == left
    assert len(rest) % after[0] == 0
    graphs = sorted(row for batch in rest for row in batch)
    if np.prod(before) == np.prod(after):  # the same updates follow
        assert graphs == sorted(row for batch in rows_of(running) for row in batch)
    following = rows_of(resumed.next_epoch_itr())
    assert resumed.epoch == 2 and sum(map(len, following)) == 20


def test_curriculum_ends(epoch_iterator):
    iterator = epoch_iterator(make())
    sizes = [len(SIZES[list(b)]) for b in rows_of(iterator.next_epoch_itr(False))]
    largest = [max(SIZES[list(b)]) for b in rows_of(iterator.next_epoch_itr(False))]
    assert sum(sizes) == len(SIZES)
    assert largest == sorted(largest)
    largest = [max(SIZES[list(b)]) for b in rows_of(iterator.next_epoch_itr(True))]
    assert largest != sorted(largest)


@pytest.mark.parametrize("workers", [0, 2])
def test_shards_share_an_epoch_and_fill_up_with_empty_batches(epoch_iterator, workers):
    shards = [
        rows_of(epoch_iterator(make(), 2, workers, 3, shard).next_epoch_itr())
        for shard in range(3)
    ]
    assert len({len(batches) for batches in shards}) == 1
    ids = [i for batches in shards for batch in batches for i in batch]
    assert sorted(ids) == list(range(len(SIZES)))
    assert sum(len(b) == 0 for batches in shards for b in batches) == 2
