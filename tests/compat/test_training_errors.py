"""Trainings that cannot go on: no finite loss or gradient, no memory."""

import re

import numpy as np
import pytest
import torch

from cython_ext import build_batch
from graphormer_plugin.criterions.l1_loss import L1Loss
from graphormer_plugin.data.batches import collator
from graphormer_plugin.modules.encoders.grpe import GRPEEncoder

pytestmark = pytest.mark.usefixtures("fresh_fairseq")


@pytest.mark.parametrize("number", ["nan", "inf"])
def test_a_loss_that_is_not_finite(number, train, tmp_path, monkeypatch, error):
    """One molecule of the batch has it; the graphs of the batch are written."""
    entry_loss = L1Loss.entry_loss

    def wrong(self, output, labels):
        loss = entry_loss(self, output, labels)
        value = self.targets.standardise(labels)
        return torch.where(value > 1.5, float(number), loss) if self.training else loss

    monkeypatch.setattr(L1Loss, "entry_loss", wrong)
    line = error(train, "run")
    path = tmp_path / "run/nonfinite_loss.npz"
    assert f"written to {path}" in line and f"the loss is {number}" in line
    (culprits,) = re.findall(r"\(graphs ([\d, ]+)", line)
    with np.load(path, allow_pickle=False) as file:
        columns = dict(file)
    ids = columns["id"].tolist()
    assert set(map(int, culprits.split(", "))) <= set(ids)
    assert f"{len(ids)} graphs ({ids[0]}, {ids[1]}, " in line
    assert len(columns["target"]) == len(columns["row"]) == len(ids)
    fields = build_batch(columns, range(len(ids)), ["x", "dist"], num_bond_types=60)
    sizes = np.diff(columns["node_offset"])
    assert (fields["x"][0, : sizes[0]] == columns["x"][: sizes[0]]).all()
    largest = ids[sizes.argmax()]
    assert f"the largest is graph {largest} with {sizes.max()} nodes" in line


def test_gradients_that_are_not_finite(train, tmp_path, monkeypatch, error):
    def wrong(self, output, value):
        return (output - value).abs() + (output - output.detach()).abs().sqrt()

    monkeypatch.setattr(L1Loss, "entry_loss", wrong)
    line = error(train, "run")
    assert "update 1: gradients" in line and "16 graphs" in line
    assert (tmp_path / "run/nonfinite_loss.npz").exists()


def test_a_training_that_diverges(train):
    log = train("run", "--lr", "1e3", "--max-epoch", 2)
    (warning,) = re.findall(".*diverges.*", log)
    assert "over 1,000 times the loss of the first update" in warning
    assert "diverges" not in train("calm", "--max-epoch", 1)


def no_room(*_, **__):
    return torch.empty(1 << 58)


def no_room_on_a_gpu(*_, **__):
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 80.00 GiB")


@pytest.mark.parametrize("forward", [no_room, no_room_on_a_gpu])
def test_no_memory_for_a_step(forward, train, monkeypatch, error):
    """torch's own error, of an array that no machine has room for."""
    monkeypatch.setattr(GRPEEncoder, "forward", forward)
    line = error(train, "run")
    pattern = r"out of memory in a batch of 16 graphs \(\d+, .*; the largest is graph"
    assert re.search(pattern, line)


@pytest.mark.parametrize("workers", [0, 1])
def test_no_memory_for_a_batch(workers, train, monkeypatch, error):
    def wrong(*_, **__):
        return np.empty(1 << 60, np.uint8)

    monkeypatch.setattr(collator, "build_batch", wrong)
    line = error(train, "run", "--num-workers", workers)
    assert re.search(r"error: out of memory in a batch of \d+ graphs \(\d+, ", line)


def test_no_memory_for_a_model(train, error):
    more = ["--encoder-embed-dim", 1 << 30, "--encoder-ffn-embed-dim", 1 << 30]
    line = error(train, "run", *more)
    assert "memory" in line
