"""Ranks of linked pairs: a naive twin, ties, and batches of any size."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from graphormer_plugin.criterions.evaluation import Evaluation
from graphormer_plugin.criterions.link_logloss import LinkLogLoss, ranks, ranks_of_graph
from graphormer_plugin.criterions.log import OutputsMeter
from graphormer_plugin.criterions.metrics import (
    LINK_METRICS,
    average_precision,
    roc_auc,
)
from graphormer_plugin.data.targets import TargetSchema
from graphormer_plugin.pyg import build_model, graph_loader
from support.samples import sample_of


def linked_graphs(count=8, seed=0):
    """Random trees with random pairs of labels 0, 1 and missing; the second has no 1."""
    rng = np.random.default_rng(seed)
    graphs = []
    for number in range(count):
        n = int(rng.integers(3, 14))
        forth = np.array([(v, rng.integers(v)) for v in range(1, n)]).T
        pairs = rng.integers(0, n, (2, 2 * n))
        label = rng.choice([0.0, 1.0, np.nan], 2 * n)
        label = np.zeros(2 * n) if number == 1 else label
        arrays = {
            "x": rng.integers(0, 5, (n, 2)),
            "edge_index": np.concatenate([forth, forth[::-1]], 1),
            "edge_label_index": pairs,
            "edge_label": label,
        }
        graphs.append(Data(**{k: torch.from_numpy(v) for k, v in arrays.items()}))
    return graphs


def naive(scores, data, edges=()):
    """Metrics of a graph from all scores [n, n], by loops."""
    pairs = data.edge_label_index.T[data.edge_label == 1].tolist()
    known = {*map(tuple, pairs), *map(tuple, edges)}
    values = []
    for filtered, without_self in ((False, False), (True, False), (True, True)):
        of_pairs = []
        for i, j in pairs:
            rank = 1.0
            for other in range(data.num_nodes):
                left_out = filtered and (i, other) in known
                if other == j or left_out or without_self and other == i:
                    continue
                tied = (
                    abs(scores[i, other] - scores[i, j]) <= 1e-5 * abs(scores[i]).max()
                )
                rank += 0.5 if tied else float(scores[i, other] > scores[i, j])
            of_pairs.append([1 / rank, rank <= 1, rank <= 3, rank <= 10])
        values.extend(np.mean(of_pairs, 0))
    return np.array(values)


@pytest.fixture(scope="module")
def evaluated():
    """A model, its criterion, and a function: the sums of the ranks by batch size."""
    graphs = linked_graphs()
    torch.manual_seed(0)
    options = {"encoder_layers": 2, "encoder_embed_dim": 64}
    model = build_model("gt_zinc", graphs, level="link", **options).double().eval()
    criterion = LinkLogLoss(SimpleNamespace(targets=model.targets)).eval()

    def _sums(batch_size):
        logs = []
        loader = graph_loader(graphs, model, negatives=0, batch_size=batch_size)
        for batch, target in loader:
            sample = sample_of(target.unsqueeze(-1), batch)
            logs.append(criterion(model, sample)[2])
        return {n: sum(log[n] for log in logs) for n in ("ranking", "ranked", "loss")}

    return graphs, model, _sums


@torch.no_grad()
def test_equals_the_naive_twin(evaluated):
    graphs, model, sums_of = evaluated
    assert model.targets.kind == "binary" and len(LINK_METRICS) == 12
    expected = []
    for data in graphs:
        n = data.num_nodes
        every = data.clone()
        every.edge_label_index = torch.from_numpy(np.indices((n, n)).reshape(2, -1))
        every.edge_label = torch.zeros(n * n)
        ((batch, _),) = graph_loader([every], model)
        if (data.edge_label == 1).any():
            expected.append(naive(model(batch).view(n, n).numpy(), data))
    sums = sums_of(8)
    assert len(expected) == sums["ranked"].item() == 7
    np.testing.assert_allclose(sums["ranking"], np.sum(expected, 0), atol=1e-12)
    assert 0.05 < sums["ranking"][0] / 7 < 0.95


def test_filters_of_links_and_of_edges():
    """(0, 1) and (0, 2) are pairs of 0, (3, 0) of 3; the only edge of 0 leads to 3."""
    scores = torch.tensor([5.0, 1.0, 3.0, 2.0]).repeat(4, 1)
    ends = torch.tensor([[0, 1], [0, 2], [3, 0]])

    def found(*edges):
        known = torch.cat([ends, torch.tensor(edges).view(-1, 2).long()])
        score = lambda nodes, pairs: scores[tuple(pairs[0].T)]  # noqa: E731
        return ranks_of_graph(score, torch.zeros(4, 1), ends, known).tolist()

    assert found() == [[4, 2, 1], [3, 2, 1], [2, 1, 1]]
    assert found((0, 3), (2, 3)) == [[4, 2, 1], [2, 2, 1], [1, 1, 1]]


@torch.no_grad()
def test_batches_of_any_size_have_the_same_metrics(evaluated):
    _, _, sums_of = evaluated
    single, pairs, whole = (sums_of(size) for size in (1, 2, 8))
    for name, value in whole.items():
        torch.testing.assert_close(single[name], value, rtol=1e-12, atol=0)
        torch.testing.assert_close(pairs[name], value, rtol=1e-12, atol=0)


def test_metrics_of_a_split_do_not_depend_on_rounding():
    """Equal pairs of other batches differ by what their padding rounds."""
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 4, 200).astype(np.float32) - 1.5
    target = rng.integers(0, 2, 200).astype(float)

    def found(noise):
        meter = OutputsMeter()
        batches = Evaluation()
        noisy = scores + np.float32(noise) * rng.standard_normal(200).astype(np.float32)
        arrays = noisy[:, None], target[:, None]
        pairs = (torch.from_numpy(array).view(10, 20, 1) for array in arrays)
        batches.add(torch.arange(10), *pairs)
        meter.update(batches)
        return meter.compute(average_precision), meter.compute(roc_auc)

    assert found(0) == found(1e-7) == found(1e-7)
    assert found(0)[0] == average_precision(scores[:, None], target[:, None])


def test_ties_and_missing_numbers():
    nan = float("nan")
    scores = torch.tensor(
        [[3.0, 1, 1, 1], [3, 1, 2, 1], [2, nan, 1, 0], [nan, 2, 1, 0]]
    )
    targets = torch.tensor([2, 0, 1, 1])
    nobody = torch.zeros(4, 4, dtype=torch.bool)
    # the mean of the ranks 2, 3 and 4; the first; last beside what is no number
    assert ranks(scores, targets, nobody).tolist() == [3, 1, 4, 4]
    assert ranks(scores[:1], targets[:1], nobody[:1] | (scores[:1] == 3)).item() == 2
    noisy = scores[:1] + 1e-7 * torch.arange(4)
    assert ranks(noisy, targets[:1], nobody[:1]).tolist() == [3]


@pytest.mark.parametrize(
    "targets",
    [
        TargetSchema.of(["y"], kind="binary"),
        TargetSchema.of(["y", "z"], kind="binary", level="link"),
    ],
)
def test_targets_that_it_cannot_rank(targets):
    with pytest.raises(ValueError, match="link_logloss ranks pairs by one target"):
        LinkLogLoss(SimpleNamespace(targets=targets))
